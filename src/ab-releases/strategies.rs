//! Templates of how a share grows, as this interface has them.

use std::time::Duration;

use language::{ApprovalOf, OnLimit, RolloutTemplate, RolloutTemplates, Strategy};
use protocol::ab_releases::{RolloutStage, RolloutStrategy, RolloutStrategyTemplate};

use super::{Kind, RecordedStage, Uuid, shares::percent};

/// One that releases may name.
#[must_use]
pub fn shown_template(template: &RolloutTemplate) -> RolloutStrategyTemplate {
    RolloutStrategyTemplate {
        strategy: shown_strategy(template, ""),
        description: template.description.clone(),
        built_in: RolloutTemplates::default().get(&template.name).is_some(),
    }
}

/// One without a name is called as the release is.
#[must_use]
pub fn shown_strategy(template: &RolloutTemplate, otherwise: &str) -> RolloutStrategy {
    let name = if template.name.is_empty() { otherwise } else { &template.name };
    let stage = |stage: &language::TemplateStage| RolloutStage {
        traffic_percentage: percent(stage.traffic),
        duration_seconds: stage.duration.as_secs_f64(),
        health_threshold: percent(stage.healthy_targets),
        require_approval: stage.approval,
    };
    RolloutStrategy {
        id: Uuid::of(Kind::Strategy, &[name]).to_string(),
        name: name.to_owned(),
        stages: template.stages.iter().map(stage).collect(),
        auto_advance: template.auto_advance,
        rollback_on_failure: template.on_failure == OnLimit::Rollback,
        health_check_interval: template.interval.as_secs_f64(),
    }
}

/// Whether somebody is asked when the stage of this place has passed.
pub(super) fn approved_behind(strategy: &Strategy, place: usize) -> bool {
    let approval = strategy.rollout.as_ref().and_then(|rollout| rollout.approval.as_ref());
    approval.is_some_and(|approval| match &approval.of {
        ApprovalOf::Waves => false,
        ApprovalOf::Rollout => place + 1 == strategy.stages.len(),
        ApprovalOf::Stages(stages) => stages.contains(&(place + 1)),
    })
}

/// How often the health of targets is looked at, where nobody says it.
const INTERVAL: Duration = Duration::from_secs(30);

/// What the stages of a strategy come to that names no template.
pub(super) fn strategy_of(strategy: &Strategy, stages: &[RecordedStage]) -> RolloutStrategy {
    let intervals = strategy.services.iter().flat_map(|service| &service.variations);
    let interval = intervals.filter_map(|variation| Some(variation.health.as_ref()?.interval)).min();
    let on_failure = strategy.rollout.as_ref().map_or(OnLimit::Rollback, |rollout| rollout.on_failure);
    let but_the_last = stages.split_last().map(|(_, before)| before).unwrap_or_default();
    let asks_always = !but_the_last.is_empty() && but_the_last.iter().all(|stage| stage.require_approval);
    RolloutStrategy {
        id: Uuid::of(Kind::Strategy, &["release", strategy.id.as_str()]).to_string(),
        name: strategy.name.clone(),
        stages: stages
            .iter()
            .map(|stage| RolloutStage {
                traffic_percentage: stage.traffic_percentage,
                duration_seconds: stage.duration_seconds,
                health_threshold: stage.health_threshold.unwrap_or_default(),
                require_approval: stage.require_approval,
            })
            .collect(),
        auto_advance: !asks_always,
        rollback_on_failure: on_failure == OnLimit::Rollback,
        health_check_interval: interval.unwrap_or(INTERVAL).as_secs_f64(),
    }
}
