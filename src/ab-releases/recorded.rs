//! What of a release can't change any more once it is submitted, as this interface has it.

use protocol::ab_releases::{HeaderMatch, RolloutStrategy, TrafficSplit};
use serde::{Deserialize, Serialize};

use super::{
    Kind, Names, Uuid,
    shares::percent,
    strategies::{approved_behind, shown_strategy, strategy_of},
    subject::{shares_of, subject_of, variation_of},
};
use language::{Service, Sticky, Strategy, Subject, rollout_template_of};
use traffic::RuleForm;

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
    /// The registered Release of which it is a canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_release: Option<String>,
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
    /// Agents deploy it, by the offer of the release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deployed: bool,
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
    /// Of what this interface shows of a strategy; `None`: nothing. `text` is what is kept of the strategy.
    #[must_use]
    pub fn of(strategy: &Strategy, text: &str, tenant: &str) -> Option<Self> {
        let subject = subject_of(strategy)?;
        let service = strategy.services.first();
        let called = service.map_or_else(|| strategy.subject_key(subject).unwrap_or_default(), Service::name);
        let names = Names::of(strategy);
        let deployed = names.pair.as_ref().map(|(_, new)| new);
        let release = Uuid::of(Kind::Release, &[tenant, strategy.id.as_str()]);
        let id = |kind, name: &str| Uuid::of(kind, &[tenant, name]).to_string();
        let variation = |(name, targets): (String, u32)| {
            let (version, group) = (names.versions.get(&name).cloned(), names.groups.get(&name).cloned());
            let unregistered = || Uuid::of(Kind::Version, &[tenant, called, &name]).to_string();
            RecordedVariation {
                release_id: version.as_ref().map_or_else(unregistered, |name| id(Kind::Version, name)),
                target_group_id: group.as_ref().map(|name| id(Kind::TargetGroup, name)),
                version,
                target_group: group,
                targets,
                deployed: !strategy.functions.is_empty() && deployed == Some(&name),
                name,
            }
        };
        let variations: Vec<(String, u32)> = match service {
            Some(service) => {
                let all = service.variations.iter();
                all.map(|one| (one.name.to_string(), one.targets.len() as u32)).collect()
            }
            None => (0..2).filter_map(|at| Some((variation_of(strategy, at)?.to_owned(), 0))).collect(),
        };
        let own = strategy.stages.iter().zip(0_u8..).filter(|(stage, _)| stage.subject == subject);
        let stages: Vec<RecordedStage> = own
            .zip(1..)
            .map(|((stage, place), number)| RecordedStage {
                id: Uuid::of_stage(release, number).to_string(),
                name: stage.name.clone(),
                place,
                shares: shares_of(stage),
                traffic_percentage: percent(shares_of(stage).iter().skip(1).sum()),
                health_threshold: stage.healthy_targets.map(percent),
                duration_seconds: stage.min_duration.as_secs_f64(),
                require_approval: approved_behind(strategy, usize::from(place)),
            })
            .collect();
        let asked = names.rollout.as_ref().map(|rollout| format!("strategy: {rollout}\n"));
        let rollout_strategy = match rollout_template_of(asked.as_deref().unwrap_or(text)) {
            Some(template) => shown_strategy(&template, &strategy.name),
            None => strategy_of(strategy, &stages),
        };
        Some(Self {
            release: strategy.id.to_string(),
            name: strategy.name.clone(),
            environment: names.environment.clone().unwrap_or_else(|| called.to_owned()),
            variations: variations.into_iter().map(variation).collect(),
            traffic_split: split(strategy, subject)?,
            rollout_strategy,
            stages,
            registered_release: names.release,
        })
    }

    /// Everything goes to the stable variation.
    #[must_use]
    pub fn all_stable(&self) -> Vec<u16> {
        self.all_to(0)
    }

    /// Everything goes to one.
    #[must_use]
    pub fn all_to(&self, which: usize) -> Vec<u16> {
        alone(self.variations.len(), which)
    }

    /// The place of the variation that the stages lead to: beside the stable one it has most in the last; of equals the first.
    #[must_use]
    pub fn ends_with(&self) -> usize {
        let last = self.stages.last().map(|stage| stage.shares.as_slice()).unwrap_or_default();
        let beside = last.iter().enumerate().skip(1).rev();
        beside.max_by_key(|(_, share)| **share).map_or(1, |(at, _)| at)
    }
}

fn alone(variations: usize, which: usize) -> Vec<u16> {
    (0..variations).map(|at| if at == which { super::shares::WHOLE } else { 0 }).collect()
}

/// By what calls are told apart.
fn split(strategy: &Strategy, subject: usize) -> Option<TrafficSplit> {
    let (sticky, rule) = match strategy.subject(subject)? {
        Subject::Service(service) => {
            let rule = service.rule.as_ref().map(|rule| rule.form(&service.variations));
            (service.sticky.as_ref().map(Sticky::from), rule)
        }
        Subject::Function(function) => (function.sticky.clone(), None),
    };
    let header_match = rule.map(|RuleForm { name, values }| HeaderMatch { header: name, values });
    let kind = match (&header_match, &sticky) {
        (Some(_), _) => "header",
        (None, Some(_)) => "sticky",
        (None, None) => "percentage",
    };
    Some(TrafficSplit {
        kind: kind.to_owned(),
        percentages: std::collections::BTreeMap::new(),
        sticky_key: sticky.map(|sticky| sticky.to_string()),
        header_match,
    })
}
