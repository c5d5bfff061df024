//! A strategy as far as it could be read: values with their places, names not yet looked up.

use std::{collections::BTreeMap, time::Duration};

use model::ReleaseId;

use crate::{
    analysis::AnalysisDraft,
    condition::Condition,
    fields::Located,
    from_parent::FromParent,
    interim::Interim,
    node::At,
    places::{TextPlaces, VersionPlace},
    retry::Retry,
    rollout::RolloutDraft,
    service::Service,
    sticky::Sticky,
    strategy::{OnConflict, ReleaseDeadlines, StageKind, Version},
    target::Target,
};

/// A strategy as far as it could be read.
pub(crate) struct StrategyDraft {
    pub id: Option<ReleaseId>,
    /// What a manager calls what it hands to an agent; then the other one is not read.
    pub offer_id: Option<String>,
    pub name: Option<String>,
    pub kind: String,
    pub functions: Vec<DraftFunction>,
    pub services: Vec<DraftService>,
    pub stages: Vec<DraftStage>,
    pub on_conflict: OnConflict,
    pub deadlines: ReleaseDeadlines,
    pub stage_deadline_at: At,
    pub target: Option<Target>,
    pub rollout: Option<RolloutDraft>,
    pub forward_up: bool,
    pub from_parent: Option<FromParent>,
    pub annotations: BTreeMap<String, String>,
    pub places: TextPlaces,
}

pub(crate) struct DraftFunction {
    pub at: At,
    pub name: Option<Located<String>>,
    pub agents: BTreeMap<String, String>,
    pub base: Option<Version>,
    pub new: Option<Version>,
    pub sticky: Option<Sticky>,
    pub retry: Option<Retry>,
    pub places: [VersionPlace; 2],
}

pub(crate) struct DraftService {
    pub at: At,
    pub name: Option<Located<String>>,
    /// None: something of it can't be read.
    pub service: Option<Service>,
}

/// What a stage is about.
#[derive(Clone)]
pub(crate) enum DraftSubject {
    Function(Located<String>),
    Service(Located<String>),
    /// The only service.
    OnlyService,
}

/// What variations get, by name, in units of 0.01 %.
pub(crate) struct DraftShares {
    pub of: Vec<(Located<String>, u16)>,
}

pub(crate) struct DraftStage {
    pub at: At,
    pub name: Option<Located<String>>,
    pub kind: Option<StageKind>,
    pub subject: Option<DraftSubject>,
    pub new_traffic: Option<u8>,
    /// Of a service: what each variation that is named gets, in units of 0.01 %.
    pub shares: Option<DraftShares>,
    /// Of a service: it begins together with the stage behind it.
    pub with_next: bool,
    /// The share of a variation's targets that must be healthy, in units of 0.01 %.
    pub healthy_targets: Option<u16>,
    pub conditions: Vec<Condition>,
    pub min_duration: Duration,
    pub min_calls: u64,
    pub on_success: Option<Located<String>>,
    /// Absent: `rollback`, the one that is always safe.
    pub on_failure: Option<Located<String>>,
    pub analysis: Option<AnalysisDraft>,
    /// How an agent reports it while it goes on; only in what a manager hands to one.
    pub interim: Option<Interim>,
}

/// Every block of analysis.
pub(crate) fn analyses<'d>(
    stages: &'d [DraftStage],
    rollout: Option<&'d RolloutDraft>,
) -> impl Iterator<Item = &'d AnalysisDraft> {
    let whole = rollout.and_then(|rollout| rollout.analysis.as_ref());
    whole.into_iter().chain(stages.iter().filter_map(|stage| stage.analysis.as_ref()))
}
