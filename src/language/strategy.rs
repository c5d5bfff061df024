//! A checked strategy: who takes part, which functions or services change, through which stages, and what follows what.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Serialize};
use traffic::BUCKETS;

use super::{
    Metric,
    analysis::{Analysis, Pair},
    condition::Condition,
    from_parent::FromParent,
    retry::Retry,
    rollout::{Notes, Rollout},
    service::Service,
    sticky::Sticky,
    target::Target,
};
use model::{ReleaseId, TENANT_LABEL};

/// A stage that lasts for so long goes on until somebody ends it.
const UNTIL_ENDED: Duration = Duration::from_hours(365 * 24);

/// A validated release strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Strategy {
    pub id: ReleaseId,
    pub name: String,
    /// Free text of the developer (`patch`, `major`, …); carried along, never interpreted.
    pub kind: String,
    /// At most [`super::MAX_FUNCTIONS`], services among them; at least one of either.
    pub functions: Vec<Function>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
    /// 1 to [`super::MAX_STAGES`], in the order of the file; the first is where every child starts.
    pub stages: Vec<Stage>,
    pub on_conflict: OnConflict,
    pub deadlines: ReleaseDeadlines,
    /// Who takes part; `None`: every eligible child. A strategy without it has the digest it had before there were
    /// targets, and so for `rollout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// How the manager leads the release; `None`: each child is on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Where the target reaches beyond this manager's area, the parent is to release it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forward_up: bool,
    /// What the parent said beside it, if it came from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_parent: Option<FromParent>,
    /// What is noted of it; carried along, never interpreted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A function and the two versions of it that are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    pub name: String,
    /// Labels of the agents that run it, all of which must be an agent's; empty: any that can.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, String>,
    pub base: Version,
    pub new: Version,
    /// By what calls stay with one version; `None`: each call goes to either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    /// Which calls that the new version failed are repeated on the base version; `None`: those whose methods may be carried out
    /// twice, and others that it can't have seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// One version of a function: a folder in `fns.zip` and the runtime it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Relative, `/`-separated, never leaves its folder.
    pub path: String,
    /// The runtime: `nodejs`, `python`, …
    pub env: String,
    /// What tells it from other versions of the function, the first 64 bits of [`crate::functions::of_version`]; `None`: nobody
    /// has looked at what its folder holds. No part of the text.
    #[serde(skip)]
    pub content: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub name: String,
    pub kind: StageKind,
    /// Index among the subjects; see [`Strategy::subject`].
    #[serde(rename = "function")]
    pub subject: usize,
    /// Share of calls that the new version gets, in percent, 0 to 100; the base version gets the rest. Of a service: what all
    /// but the stable variation get, rounded so that it is 0 only where they get nothing, and 100 only where that gets nothing.
    pub new_traffic: u8,
    /// Of a service: what each variation gets, in units of 0.01 %. Empty for a function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<u16>,
    /// Of a service: its shares come into force together with those of the stage behind it, and stay while that one lasts. It waits for
    /// nothing, and nothing judges it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_next: bool,
    /// Of a service: so much of the targets of each variation that gets calls must be healthy, in units of 0.01 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_targets: Option<u16>,
    /// All must hold.
    pub conditions: Vec<Condition>,
    pub min_duration: Duration,
    pub min_calls: u64,
    pub on_success: Action,
    pub on_failure: Action,
    /// By what the manager judges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
}

impl Stage {
    /// Whether it takes calls that somebody counts to judge it. Each stage that gets calls is offered with a minimum of one, so that
    /// an idle one waits: that alone is no judgement.
    #[must_use]
    pub fn is_judged_by_calls(&self) -> bool {
        self.new_traffic > 0 && (!self.conditions.is_empty() || self.min_calls > 1)
    }

    /// Whether one of its conditions is about how long calls take.
    #[must_use]
    pub fn limits_times(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition.metric, Metric::ResponseTime(_)))
    }

    /// The share of calls, from 0 to 1, that the new version gets where `percent` of them were ordered for it: of this stage what it
    /// says exactly, which for a service may be 0.25 %; of another split, as much as its percentage. Of a service it is that of the first
    /// variation beside the stable one, among the calls of these two: what is reported of two versions is what these had.
    #[must_use]
    pub fn share_of(&self, percent: u8) -> f64 {
        match &self.shares[..] {
            [stable, new, ..] if percent == self.new_traffic => {
                let both = f64::from(*stable) + f64::from(*new);
                if both > 0.0 { f64::from(*new) / both } else { 0.0 }
            }
            _ => f64::from(percent) / 100.0,
        }
    }

    /// Of a service the variation that gets most beside the stable one; of equals the first.
    #[must_use]
    pub fn most(&self) -> usize {
        let beside = self.shares.iter().enumerate().skip(1).rev();
        beside.max_by_key(|(_, share)| **share).map_or(1, |(at, _)| at)
    }

    /// The places of the versions that are tried in it: the new one of a function, of a service those beside the stable one that get calls;
    /// where none has a share, all that may be asked for.
    #[must_use]
    pub fn tried(&self) -> Vec<usize> {
        let beside = self.shares.iter().enumerate().skip(1);
        let tried: Vec<usize> = beside.filter(|(_, share)| **share > 0).map(|(which, _)| which).collect();
        if tried.is_empty() { (1..self.shares.len().max(2)).collect() } else { tried }
    }

    /// How long it lasts at least; one that goes on until somebody ends it may end at any time.
    pub(super) fn least_duration(&self) -> Duration {
        let judged = self.analysis.as_ref().filter(|analysis| !analysis.early_pass);
        let judged =
            judged.and_then(|analysis| Some(analysis.initial_delay.saturating_add(analysis.duration?)));
        let least = self.min_duration.max(judged.unwrap_or_default());
        if least < UNTIL_ENDED { least } else { Duration::ZERO }
    }

    /// The same stage with another share for the one variation beside the stable one, in units of 0.01 %. `None`: it doesn't share calls among
    /// two variations, or that is more than all.
    #[must_use]
    pub fn with_share(&self, new: u16) -> Option<Self> {
        let shares = vec![BUCKETS.checked_sub(new)?, new];
        let new_traffic = new_traffic(&shares);
        (self.shares.len() == shares.len()).then(|| Self { new_traffic, shares, ..self.clone() })
    }
}

/// The places of the stages that begin together with the one at this place, in their order: a run of stages of which all but the last are
/// [`Stage::with_next`].
#[must_use]
pub fn together(at: usize, is_with_next: impl Fn(usize) -> bool) -> RangeInclusive<usize> {
    let first = (0..at).rev().take_while(|before| is_with_next(*before)).last().unwrap_or(at);
    let mut last = at;
    while is_with_next(last) {
        last += 1;
    }
    first..=last
}

/// What all but the stable variation get, in whole percent: 0 only where they get nothing, 100 only where that gets nothing.
pub(super) fn new_traffic(shares: &[u16]) -> u8 {
    let others: u16 = shares.iter().skip(1).sum();
    match others {
        0 => 0,
        BUCKETS => 100,
        others => u8::try_from((others + 50) / 100).unwrap_or(99).clamp(1, 99),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StageKind {
    /// `A/B`, and `Traffic` of a service: ends by itself once its minima are met.
    AB,
    /// `WaitForSignal`: waits, after its minima are met, until the manager ends it.
    WaitForSignal,
}

/// What changes in a release: a function or a service. Stages and what is kept of children name it by its index: functions come
/// first, services behind them, each in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Subject<'s> {
    Function(&'s Function),
    Service(&'s Service),
}

impl<'s> Subject<'s> {
    /// What it is called among all subjects of all releases: two releases with a key in common never run at once.
    #[must_use]
    pub fn key(self) -> &'s str {
        match self {
            Self::Function(function) => &function.name,
            Self::Service(service) => service.key(),
        }
    }

    /// What its base version is called, or its new one: a function's folder, the name of a service's variation.
    #[must_use]
    pub fn version_name(self, is_new: bool) -> &'s str {
        self.version_at(usize::from(is_new)).unwrap_or_default()
    }

    /// What the version at this place is called, the base version or the stable variation being the first.
    #[must_use]
    pub fn version_at(self, place: usize) -> Option<&'s str> {
        match (self, place) {
            (Self::Function(function), 0) => Some(&function.base.path),
            (Self::Function(function), 1) => Some(&function.new.path),
            (Self::Function(_), _) => None,
            (Self::Service(service), _) => {
                service.variations.get(place).map(|variation| variation.name.as_str())
            }
        }
    }

    /// Whether calls of one user go to one of its versions.
    #[must_use]
    pub fn is_sticky(self) -> bool {
        match self {
            Self::Function(function) => function.sticky.is_some(),
            Self::Service(service) => service.sticky.is_some(),
        }
    }
}

/// What follows a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Rollout,
    Rollback,
    /// Index into [`Strategy::stages`].
    Stage(usize),
}

/// What happens when another unfinished release names one of the same functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnConflict {
    #[default]
    Queue,
    Refuse,
    Supersede,
}

/// Deadlines of this release; `None` takes the manager's configured value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReleaseDeadlines {
    pub offer: Option<Duration>,
    pub setup_grace: Option<Duration>,
    pub stage: Option<Duration>,
}

/// A strategy that can't be written down, so that nothing can be said of what is in it.
#[derive(Debug, thiserror::Error)]
#[error("a strategy has no JSON form: {0}")]
pub struct NoForm(#[from] serde_json::Error);

impl Strategy {
    /// What digests are made over: the same for what means the same, however it was written.
    pub fn digest_form(&self) -> Result<Vec<u8>, NoForm> {
        Ok(serde_json::to_vec(self)?)
    }

    /// With what the folders of its functions hold: of each the base version and the new one, as [`Version::content`].
    #[must_use]
    pub fn with_contents(mut self, contents: &[[u64; 2]]) -> Self {
        for (function, [base, new]) in self.functions.iter_mut().zip(contents) {
            (function.base.content, function.new.content) = (Some(*base), Some(*new));
        }
        self
    }

    /// Whether it came from above, and the parent decides what becomes of stages that fail.
    #[must_use]
    pub fn is_decided_above(&self) -> bool {
        self.from_parent.as_ref().is_some_and(|said| said.keeps_failed)
    }

    /// As if nobody had looked at what the folders of its functions hold.
    #[must_use]
    pub fn without_contents(mut self) -> Self {
        for function in &mut self.functions {
            (function.base.content, function.new.content) = (None, None);
        }
        self
    }

    /// What the folders of its functions hold, where that is known: else nothing.
    pub fn contents(&self) -> Vec<[u64; 2]> {
        let of = |function: &Function| Some([function.base.content?, function.new.content?]);
        self.functions.iter().map(of).collect::<Option<_>>().unwrap_or_default()
    }

    /// What the folders of its functions' base versions hold, where that is known: else nothing.
    pub fn bases(&self) -> Vec<u64> {
        self.contents().into_iter().map(|[base, _]| base).collect()
    }

    /// The same with another share in one of its stages; see [`Stage::with_share`].
    #[must_use]
    pub fn with_share(&self, stage: usize, new: u16) -> Option<Self> {
        let shared = self.stages.get(stage)?.with_share(new)?;
        let mut strategy = self.clone();
        strategy.stages[stage] = shared;
        Some(strategy)
    }

    /// The places of the stages that begin together with one; see [`together`].
    #[must_use]
    pub fn together(&self, stage: usize) -> RangeInclusive<usize> {
        together(stage, |at| self.stages.get(at).is_some_and(|stage| stage.with_next))
    }

    /// Whether whoever acts on the release has to say why.
    pub fn wants_notes(&self) -> bool {
        self.rollout.as_ref().is_some_and(|rollout| rollout.notes == Notes::Required)
    }

    /// Whether all calls of one user go to one version in a stage, or, without one, in any.
    pub fn is_sticky(&self, stage: Option<usize>) -> bool {
        let is_sticky = |at: usize| self.subject(at).is_some_and(Subject::is_sticky);
        match stage {
            Some(stage) => self.stages.get(stage).is_some_and(|stage| is_sticky(stage.subject)),
            None => self.stages.iter().any(|stage| is_sticky(stage.subject)),
        }
    }

    /// How many functions and services change.
    #[must_use]
    pub fn subjects_count(&self) -> usize {
        self.functions.len() + self.services.len()
    }

    #[must_use]
    pub fn subject(&self, at: usize) -> Option<Subject<'_>> {
        match at.checked_sub(self.functions.len()) {
            None => self.functions.get(at).map(Subject::Function),
            Some(at) => self.services.get(at).map(Subject::Service),
        }
    }

    /// In the order of their indices.
    pub fn subjects(&self) -> impl Iterator<Item = Subject<'_>> + Clone {
        (0..self.subjects_count()).filter_map(|at| self.subject(at))
    }

    /// What a subject is called; see [`Subject::key`].
    #[must_use]
    pub fn subject_key(&self, at: usize) -> Option<&str> {
        self.subject(at).map(Subject::key)
    }

    /// What all subjects are called, in the order of their indices.
    pub fn subject_keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.subjects().map(Subject::key)
    }

    /// The tenant whose release it is.
    pub fn tenant(&self) -> Option<&str> {
        self.id.tenant()
    }

    /// Makes it the release of this id. If that is a tenant's, children take part that are this tenant's, and nobody else.
    pub fn bind(&mut self, id: ReleaseId) {
        if let Some(tenant) = id.tenant() {
            let target = self.target.get_or_insert_default();
            target.labels.insert(TENANT_LABEL.to_owned(), tenant.to_owned());
        }
        self.id = id;
    }

    /// The same, where the stages of services that have these two variations share calls out among these alone: what is reported of two
    /// versions is what these had.
    #[must_use]
    pub fn of_pair(&self, pair: &Pair) -> Self {
        let mut two = self.clone();
        for stage in &mut two.stages {
            let Some(Subject::Service(service)) = self.subject(stage.subject) else { continue };
            let share = |name: &Option<String>, usual: usize| {
                let place =
                    |name: &String| service.variations.iter().position(|one| one.name.as_str() == name);
                stage.shares.get(name.as_ref().map_or(Some(usual), place)?).copied()
            };
            if let (Some(baseline), Some(canary)) = (share(&pair.baseline, 0), share(&pair.canary, 1)) {
                stage.shares = vec![baseline, canary];
            }
        }
        two
    }

    /// By what earlier releases of a subject are found: those of a tenant are compared with the tenant's own.
    pub fn history_key(&self, subject: &str) -> String {
        model::tenant::history_key(self.id.as_str(), subject)
    }
}
