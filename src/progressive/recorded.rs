//! What of a release can't change any more once it is submitted, as this interface has it.

use serde::{Deserialize, Serialize};
use traffic::wanted::StickyTo;
use wire::progressive::{HeaderMatch, RolloutStrategy, TrafficSplit};

use super::{
    Kind, Names, Uuid,
    shares::percent,
    strategies::{approved_behind, shown_strategy, strategy_of},
};
use language::{Strategy, Subject, rollout_template_of};

/// What is written down of a release when it is submitted, in one column of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The id of the release.
    pub release: String,
    pub name: String,
    /// The name of the environment.
    pub environment: String,
    /// The stable one first.
    pub variations: Vec<RecordedVariation>,
    /// Without percentages: they change.
    pub traffic_split: TrafficSplit,
    pub rollout_strategy: RolloutStrategy,
    pub stages: Vec<RecordedStage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedVariation {
    pub name: String,
    pub release_id: String,
    pub version: Option<String>,
    pub target_group_id: Option<String>,
    pub target_group: Option<String>,
    pub targets: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedStage {
    pub id: String,
    pub name: String,
    /// Its place among all stages of the strategy.
    pub place: u8,
    /// What each variation gets, in units of 0.01 %.
    pub shares: Vec<u16>,
    /// What all but the stable one get.
    pub traffic_percentage: f64,
    pub health_threshold: Option<f64>,
    pub duration_seconds: f64,
    pub require_approval: bool,
}

impl Recorded {
    /// Of the first service of a strategy; `None`: it has none. `text` is what is kept of the strategy.
    #[must_use]
    pub fn of(strategy: &Strategy, text: &str, tenant: &str) -> Option<Self> {
        let service = strategy.services.first()?;
        let subject = strategy.functions.len();
        let names = Names::of(strategy);
        let release = Uuid::of(Kind::Release, &[tenant, strategy.id.as_str()]);
        let id = |kind, name: &str| Uuid::of(kind, &[tenant, name]).to_string();
        let variation = |one: &traffic::wanted::Variation| {
            let name = one.name.to_string();
            let (version, group) = (names.versions.get(&name).cloned(), names.groups.get(&name).cloned());
            let unregistered = || Uuid::of(Kind::Version, &[tenant, service.name(), &name]).to_string();
            RecordedVariation {
                release_id: version.as_ref().map_or_else(unregistered, |name| id(Kind::Version, name)),
                target_group_id: group.as_ref().map(|name| id(Kind::TargetGroup, name)),
                version,
                target_group: group,
                targets: one.targets.len() as u32,
                name,
            }
        };
        let own = strategy.stages.iter().zip(0_u8..).filter(|(stage, _)| stage.subject == subject);
        let stages: Vec<RecordedStage> = own
            .zip(1..)
            .map(|((stage, place), number)| RecordedStage {
                id: Uuid::of_stage(release, number).to_string(),
                name: stage.name.clone(),
                place,
                shares: stage.shares.clone(),
                traffic_percentage: percent(stage.shares.iter().skip(1).sum()),
                health_threshold: stage.healthy_targets.map(percent),
                duration_seconds: stage.min_duration.as_secs_f64(),
                require_approval: approved_behind(strategy, usize::from(place)),
            })
            .collect();
        let rollout_strategy = match rollout_template_of(text) {
            Some(template) => shown_strategy(&template, &strategy.name),
            None => strategy_of(strategy, &stages),
        };
        Some(Self {
            release: strategy.id.to_string(),
            name: strategy.name.clone(),
            environment: names.environment.unwrap_or_else(|| service.name().to_owned()),
            variations: service.variations.iter().map(variation).collect(),
            traffic_split: split(strategy)?,
            rollout_strategy,
            stages,
        })
    }

    /// Everything goes to the stable variation.
    #[must_use]
    pub fn all_stable(&self) -> Vec<u16> {
        alone(self.variations.len(), 0)
    }

    /// Everything goes to the one that is promoted.
    #[must_use]
    pub fn all_new(&self) -> Vec<u16> {
        alone(self.variations.len(), 1)
    }
}

fn alone(variations: usize, which: usize) -> Vec<u16> {
    (0..variations).map(|at| if at == which { super::shares::WHOLE } else { 0 }).collect()
}

/// By what calls are told apart.
fn split(strategy: &Strategy) -> Option<TrafficSplit> {
    let Some(Subject::Service(service)) = strategy.subject(strategy.functions.len()) else { return None };
    let sticky_key = service.sticky.as_ref().map(|sticky| match sticky {
        StickyTo::Cookie(name) => format!("cookie:{name}"),
        StickyTo::Header(name) => format!("header:{name}"),
        StickyTo::Address => "address".to_owned(),
    });
    let header_match = service.rule.as_ref().map(|rule| HeaderMatch {
        header: rule.name.to_string(),
        values: rule
            .values
            .iter()
            .filter_map(|(value, which)| {
                Some((value.to_string(), service.variations.get(which.index())?.name.to_string()))
            })
            .collect(),
    });
    let kind = match (&header_match, &sticky_key) {
        (Some(_), _) => "header",
        (None, Some(_)) => "sticky",
        (None, None) => "percentage",
    };
    Some(TrafficSplit {
        kind: kind.to_owned(),
        percentages: std::collections::BTreeMap::new(),
        sticky_key,
        header_match,
    })
}
