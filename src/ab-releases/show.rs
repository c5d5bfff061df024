//! A release as an A/B release.

use std::collections::BTreeMap;

use protocol::{
    ab_releases::{ABRelease, CanaryStage, HealthResult, TrafficSplit, Variation},
    time::rfc3339,
};

use super::{Course, Kind, Recorded, StageState, Status, Uuid, shares::percent};

/// What beside its course tells a release.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseDetails<'r> {
    /// The id of the release.
    pub release: &'r str,
    pub tenant: &'r str,
    /// Who submitted it, if anybody said so.
    pub by: Option<&'r str>,
    /// In milliseconds since 1970.
    pub submitted: i64,
}

/// What each variation gets, in percent.
#[must_use]
pub fn share_of(recorded: &Recorded, shares: &[u16]) -> BTreeMap<String, f64> {
    let all = recorded.variations.iter().zip(shares);
    all.map(|(variation, share)| (variation.name.clone(), percent(*share))).collect()
}

/// `health`: what was measured in each stage; `None`: stages aren't shown.
#[must_use]
pub fn show(
    recorded: &Recorded,
    course: &Course<'_>,
    shown: ReleaseDetails<'_>,
    health: Option<Vec<Option<HealthResult>>>,
) -> ABRelease {
    let ReleaseDetails { release, tenant, by, submitted } = shown;
    let id = Uuid::of(Kind::Release, &[tenant, release]);
    let shares = course.shares(recorded);
    let status = course.status(recorded);
    let active = if status == Status::Completed { course.winner(recorded) } else { 0 };
    let variations = recorded.variations.iter().zip(&shares).map(|(variation, share)| Variation {
        name: variation.name.clone(),
        release_id: variation.release_id.clone(),
        version: variation.version.clone(),
        target_group_id: variation.target_group_id.clone(),
        target_group: variation.target_group.clone(),
        traffic_percentage: percent(*share),
        deployment_job_id: variation.deployed.then(|| release.to_owned()),
    });
    ABRelease {
        id: id.to_string(),
        release: release.to_owned(),
        tenant_id: Uuid::of(Kind::Tenant, &[tenant]).to_string(),
        environment_id: Uuid::of(Kind::Environment, &[tenant, &recorded.environment]).to_string(),
        environment: recorded.environment.clone(),
        name: recorded.name.clone(),
        variations: variations.collect(),
        active_variation: recorded.variations.get(active).map(|one| one.name.clone()).unwrap_or_default(),
        traffic_split: TrafficSplit {
            percentages: share_of(recorded, &shares),
            ..recorded.traffic_split.clone()
        },
        rollout_strategy: recorded.rollout_strategy.clone(),
        status: status.name().to_owned(),
        phase: course.phase(recorded).name().to_owned(),
        created_at: rfc3339(submitted),
        completed_at: course.ended.map(rfc3339),
        created_by: by.map(|by| Uuid::of(Kind::User, &[tenant, by]).to_string()),
        created_by_name: by.map(str::to_owned),
        stages: health.map(|health| stages(recorded, course, id, health)),
    }
}

fn stages(
    recorded: &Recorded,
    of: &Course<'_>,
    release: Uuid,
    health: Vec<Option<HealthResult>>,
) -> Vec<CanaryStage> {
    let courses = of.stages(recorded);
    let mut health = health.into_iter();
    let each = recorded.stages.iter().zip(courses).zip(1..);
    each.map(|((stage, course), number)| CanaryStage {
        id: stage.id.clone(),
        ab_release_id: release.to_string(),
        stage_number: number,
        name: stage.name.clone(),
        traffic_percentage: percent(of.shares_in(stage).iter().skip(1).sum()),
        status: course.state.name().to_owned(),
        health_threshold: stage.health_threshold,
        duration_seconds: stage.duration_seconds,
        require_approval: stage.require_approval,
        started_at: course.started.map(rfc3339),
        completed_at: course.completed.map(rfc3339),
        health_result: health.next().flatten().map(|found| HealthResult {
            healthy: found.healthy && course.state != StageState::Failed,
            ..found
        }),
    })
    .collect()
}
