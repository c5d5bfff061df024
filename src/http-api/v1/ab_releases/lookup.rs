//! A release of a service, from memory or from the store, and what is shown of it.

use std::{collections::BTreeMap, sync::Arc};

use axum::http::StatusCode;

use crate::{Context, context::PATIENCE, problem::Problem, scope::Scope, v1::time::rfc3339};
use ab_releases::{Course, Kind, Recorded, RecordedVariation, ReleaseDetails, Uuid};
use domain::{
    release::{
        assignment::{Dated, StageSet},
        ending::Ending,
        gate::ALL_OPEN,
        lifecycle::Adoption,
        previous_run::Timed,
        state::{Release, ReleaseState, Snapshot},
    },
    traffic::{Sum, sums},
};
use engine::{
    json_columns,
    stage_measurements::{Measured, StageMeasured},
};
use language::{Metric, Stage, Statistic, Strategy};
use model::ReleaseKey;
use protocol::ab_releases::{ABRelease, HealthMetrics, HealthResult};
use store::rows::{ReleaseRow, ServiceReleaseRow};

/// A release of a service.
pub(super) struct ServiceRelease {
    pub row: ServiceReleaseRow,
    pub recorded: Recorded,
    pub now: Progress,
}

/// How far it has come.
pub(in crate::v1) struct Progress {
    pub state: ReleaseState,
    deferred: bool,
    facts: Vec<Dated>,
    times: Vec<Timed>,
    pub submitted: i64,
    pub ended: Option<i64>,
    /// Why it was taken back, or a child that failed.
    pub ending: Option<Box<Ending>>,
    /// Nothing stands before its roll-out any more.
    pub is_open: bool,
    /// What is registered once it has ended well.
    pub adopts: Option<Arc<Adoption>>,
    pub strategy: Arc<Strategy>,
    /// All its routers have failed, and give the stable variation everything again.
    pub is_back: bool,
    /// Stages that have failed and kept their shares.
    pub failed: StageSet,
}

impl Progress {
    pub fn of(release: &Release) -> Self {
        Self {
            state: release.state.clone(),
            deferred: release.deferred,
            facts: release.facts.clone(),
            times: release.times.clone(),
            submitted: release.submitted.wall_ms,
            ended: release.ended.map(|now| now.wall_ms),
            ending: release.ending.clone(),
            is_open: release.gates.stand.level == ALL_OPEN,
            adopts: release.adopts.clone(),
            is_back: release.counts.are_back(release.strategy.is_hybrid()),
            failed: release.failed,
            strategy: Arc::clone(&release.strategy),
        }
    }

    pub fn stored(row: &ReleaseRow) -> Result<Self, store::StoreError> {
        let detail = json_columns::release_detail(row.release_key, &row.detail)?;
        let strategy = Arc::new(json_columns::strategy_of(row)?);
        Ok(Self {
            is_back: detail.is_back,
            failed: detail.failed,
            state: detail.state,
            deferred: detail.deferred,
            facts: detail.facts,
            times: detail.times,
            submitted: row.submitted_ms,
            ended: row.ended_ms,
            ending: detail.ending,
            is_open: detail.stand.level == ALL_OPEN,
            adopts: detail.adopts,
            strategy,
        })
    }

    pub fn course(&self) -> Course<'_> {
        Course {
            state: &self.state,
            deferred: self.deferred,
            facts: &self.facts,
            times: &self.times,
            ended: self.ended,
            is_back: self.is_back,
            failed: self.failed,
        }
    }

    /// Who ended it, if anybody did.
    pub fn ended_by(&self) -> Option<&str> {
        self.ending.as_ref()?.by.as_deref()
    }

    /// When each stage began, in the order of time: its place and the instant in milliseconds since 1970.
    pub fn begun(&self) -> Vec<(u8, i64)> {
        let mut begun: BTreeMap<u8, i64> = BTreeMap::new();
        for timed in &self.times {
            if let Some(stage) = timed.stage {
                let at = begun.entry(stage).or_insert(timed.began_ms);
                *at = timed.began_ms.min(*at);
            }
        }
        let mut begun: Vec<(u8, i64)> = begun.into_iter().collect();
        begun.sort_by_key(|(stage, at)| (*at, *stage));
        begun
    }
}

/// What was written down of it, by its UUID or by the id of the release; `None`: the caller sees none.
pub(in crate::v1) async fn row_of(
    ctx: &Context,
    scope: &Scope,
    named: &str,
) -> Result<Option<ServiceReleaseRow>, Problem> {
    let release = scope.release(named);
    let of_name = || Uuid::of(Kind::Release, &[ab_releases::tenant_of(&release), &release]);
    let id = Uuid::parse(named).unwrap_or_else(of_name).to_string();
    let row = ctx.engine.reader().service_release(&id).await?;
    Ok(row.filter(|row| scope.tenant().is_none_or(|own| own.as_str() == row.tenant)))
}

/// By its UUID, or by the id of the release.
pub(super) async fn find(ctx: &Context, scope: &Scope, named: &str) -> Result<ServiceRelease, Problem> {
    let row = row_of(ctx, scope, named).await?.ok_or_else(|| unknown(named))?;
    of_row(ctx, row).await?.ok_or_else(|| unknown(named))
}

/// `None`: it has left the history.
pub(super) async fn of_row(ctx: &Context, row: ServiceReleaseRow) -> Result<Option<ServiceRelease>, Problem> {
    let recorded = json_columns::service_release(&row);
    let recorded = recorded.inspect_err(|error| ctx.engine.unreadable().note(error))?;
    let key = ReleaseKey(row.release_key);
    let now = ctx.engine.read(PATIENCE, move |state| state.release(key).map(Progress::of)).await?;
    if let Some(now) = now {
        return Ok(Some(ServiceRelease { row, recorded, now }));
    }
    let Some(release) = ctx.engine.reader().release(&recorded.release).await? else { return Ok(None) };
    let now = Progress::stored(&release).inspect_err(|error| ctx.engine.unreadable().note(error))?;
    Ok(Some(ServiceRelease { row, recorded, now }))
}

fn unknown(named: &str) -> Problem {
    let named: String = named.chars().filter(|c| !c.is_control()).take(100).collect();
    let detail = format!("there is no A/B release {named}");
    Problem::new(StatusCode::NOT_FOUND, "unknown-ab-release", detail)
}

impl ServiceRelease {
    fn shown(&self) -> ReleaseDetails<'_> {
        ReleaseDetails {
            release: &self.recorded.release,
            tenant: &self.row.tenant,
            by: self.row.actor.as_deref(),
            submitted: self.now.submitted,
        }
    }

    /// Whether the stage that it is in has failed and keeps its shares.
    pub fn has_failed(&self) -> bool {
        let current = self.now.course().current(&self.recorded);
        let stage = current.and_then(|at| self.recorded.stages.get(at));
        stage.is_some_and(|stage| self.now.failed.contains(stage.place))
    }

    /// Without its stages.
    pub fn in_short(&self) -> ABRelease {
        ab_releases::show(&self.recorded, &self.now.course(), self.shown(), None)
    }

    pub async fn measured(&self, ctx: &Context) -> Result<BTreeMap<u8, StageMeasured>, Problem> {
        let measured = ctx.engine.measured(self.row.release_key, &self.now.strategy).await;
        Ok(measured.inspect_err(|error| ctx.engine.unreadable().note(error))?)
    }

    pub async fn whole(&self, ctx: &Context) -> Result<ABRelease, Problem> {
        let measured = self.measured(ctx).await?;
        let current = self.now.course().current(&self.recorded);
        let targets = if current.is_some() { self.healthy_now(ctx).await? } else { None };
        let health = self.recorded.stages.iter().enumerate().map(|(at, stage)| {
            let found = measured.get(&stage.place)?;
            let told = self.now.strategy.stages.get(usize::from(stage.place))?;
            let health = health_of(told, found, &self.recorded.variations)?;
            // Of stages that have passed nobody tells any more.
            let health_percentage = targets.filter(|_| current == Some(at));
            let is_low =
                health_percentage.zip(stage.health_threshold).is_some_and(|(now, least)| now < least);
            Some(HealthResult { health_percentage, healthy: health.healthy && !is_low, ..health })
        });
        let health = health.collect();
        Ok(ab_releases::show(&self.recorded, &self.now.course(), self.shown(), Some(health)))
    }
}

impl ServiceRelease {
    /// How much of a new variation's targets its routers see healthy, in percent, of the one that does worst; `None`: no router looks, or
    /// has it from this release.
    async fn healthy_now(&self, ctx: &Context) -> Result<Option<f64>, Problem> {
        let key = ReleaseKey(self.row.release_key);
        let new: Vec<String> = self.recorded.variations.iter().skip(1).map(|one| one.name.clone()).collect();
        let look = move |state: &Snapshot| {
            let members = state.release(key)?.assignments.range(..);
            let routers = members.filter_map(|(child, _)| state.traffic.get(*child));
            let services = routers.flat_map(|router| router.services()).filter(|service| service.is_of(key));
            let sums = sums(services.map(AsRef::as_ref));
            let told = sums.iter().filter(|sum| new.contains(&sum.variation));
            told.filter_map(Sum::healthy_percent).min_by(f64::total_cmp)
        };
        Ok(ctx.engine.read_apart(PATIENCE, look).await?)
    }
}

/// How the new variations did: what was measured of all of them together, which is healthy where each of them is. `None`: they had no
/// calls, which says nothing.
fn health_of(stage: &Stage, found: &StageMeasured, variations: &[RecordedVariation]) -> Option<HealthResult> {
    let new = || variations.iter().enumerate().skip(1).filter_map(|(at, one)| found.variation(at, &one.name));
    let mut all = Measured::default();
    new().for_each(|one| all.add_all(one));
    (all.calls > 0).then(|| HealthResult {
        healthy: !found.has_failed && new().all(|one| holds(stage, one)),
        health_percentage: None,
        metrics: metrics(&all),
        samples: all.calls,
        evaluated_at: rfc3339(found.at_ms),
    })
}

/// Whether what a stage demands of the new version holds, as far as numbers are there for it.
pub(super) fn holds(stage: &Stage, found: &Measured) -> bool {
    stage.conditions.iter().all(|condition| {
        let value = match condition.metric {
            Metric::ErrorRate => (found.calls > 0).then(|| found.errors as f64 / found.calls as f64),
            Metric::ResponseTime(Statistic::Quantile(q)) => quantile(found, q),
            Metric::ResponseTime(Statistic::Median) => quantile(found, 0.5),
            Metric::ResponseTime(Statistic::Minimum | Statistic::Maximum) => None,
        };
        value.is_none_or(|value| condition.holds(value))
    })
}

fn quantile(found: &Measured, q: f64) -> Option<f64> {
    found.times.quantile(q)
}

pub(super) fn metrics(found: &Measured) -> HealthMetrics {
    let rate = |part: u64| (found.calls > 0).then(|| part as f64 * 100.0 / found.calls as f64);
    HealthMetrics {
        success_rate: rate(found.calls - found.errors.min(found.calls)),
        error_rate: rate(found.errors),
        latency_p50: quantile(found, 0.5),
        latency_p90: quantile(found, 0.9),
        latency_p95: quantile(found, 0.95),
        latency_p99: quantile(found, 0.99),
    }
}
