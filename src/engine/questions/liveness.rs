//! Asks managers below who can take part, when a release wants to start or to open its next wave, and tells the engine.
//!
//! The domain says that it waits (`release::liveness`); nothing is decided here. Who doesn't answer is left out of what is
//! told, and then counts with all that it said it has.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    eligible::{self, Able, AskedManager, EligibleWanted},
    kind,
};
use crate::{By, Engine, EngineError, audit::Actor};
use domain::{
    plan,
    plan::{Liveness, Needs},
    release::{
        command::Command,
        liveness_check::{ASKED_FOR, ManagerReports, ReportedLiveness, SilenceLimits},
        rollout,
        state::Snapshot,
    },
};
use language::{Group, Strategy};
use model::{ChildKey, ReleaseKey};

/// What was said must be there before the release goes on without.
const KEPT: Duration = Duration::from_millis(250);

/// The state is looked at at least this often, whatever happens.
const AT_LEAST: Duration = Duration::from_secs(5);

/// How long the engine has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks for every release that waits, until `stop` or until the engine is gone.
pub fn run(engine: Engine, stop: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(ask_for_all(engine, stop))
}

async fn ask_for_all(engine: Engine, stop: CancellationToken) {
    let mut under_way: BTreeSet<(ReleaseKey, u64)> = BTreeSet::new();
    let mut asking = JoinSet::new();
    loop {
        let waiting = engine.read(PATIENCE, waiting).await;
        match waiting {
            Ok(waiting) => {
                for release in waiting.into_iter().filter(|release| under_way.insert(*release)) {
                    let engine = engine.clone();
                    asking.spawn(async move {
                        ask_and_tell(&engine, release).await;
                        release
                    });
                }
            }
            Err(EngineError::Stopped) => break,
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = engine.view().questions.wanted.notified() => {}
            () = sleep(AT_LEAST) => {}
            Some(done) = asking.join_next() => match done {
                Ok(release) => { under_way.remove(&release); }
                Err(error) => {
                    tracing::error!(%error, "a question to managers below broke off");
                    under_way.clear();
                }
            },
        }
    }
    asking.shutdown().await;
}

fn waiting(state: &Snapshot) -> Vec<(ReleaseKey, u64)> {
    state.releases.values().filter_map(|release| Some((release.key, release.asking?))).collect()
}

async fn ask_and_tell(engine: &Engine, (key, until): (ReleaseKey, u64)) {
    let left = Duration::from_millis(until.saturating_sub(engine.clock().served_ms()));
    let time = left.min(ASKED_FOR).saturating_sub(KEPT);
    let found = engine.read_apart(PATIENCE, move |state| {
        let release = state.release(key)?;
        Some(candidates(state, &release.strategy, release.asked(state)))
    });
    let Ok(Some(managers)) = found.await else { return };
    let liveness_checks = ask_able(engine, managers, time).await.0;
    let told = ManagerReports { release: key, until, liveness_checks };
    let by = By { actor: Actor::Timer, note: None };
    if let Err(error) =
        engine.call(Command::Rollout(rollout::Command::Turnout(Box::new(told))), by, PATIENCE).await
    {
        tracing::debug!(%error, "what managers said was not taken");
    }
}

/// Each is asked for what its group of a hybrid needs.
fn candidates(state: &Snapshot, strategy: &Strategy, managers: Vec<ChildKey>) -> Vec<AskedManager> {
    let wanted = |group| {
        let (needs, limits) = (Needs::of_group(strategy, group), SilenceLimits::of_strategy(strategy));
        Arc::new(EligibleWanted { needs, limits })
    };
    let [of_agents, of_routers] = Group::ALL.map(wanted);
    let one = |key: ChildKey| {
        let child = state.children.get(key)?;
        let wanted = match plan::group_of(strategy, state, key) {
            Group::Agents => &of_agents,
            Group::Routers => &of_routers,
        };
        Some(AskedManager { key, agents: child.counted_agents(), wanted: Arc::clone(wanted) })
    };
    managers.into_iter().filter_map(one).collect()
}

/// What managers below say who have a part in the waves of a release that are not open.
pub async fn of_release(engine: &Engine, release: String) -> Result<ReportedLiveness, EngineError> {
    let found = engine.read(PATIENCE, move |state| {
        let release = state.release_by_id(&release)?;
        Some(candidates(state, &release.strategy, release.to_ask(state)))
    });
    let Some(managers) = found.await? else { return Ok(ReportedLiveness::new()) };
    Ok(ask_able(engine, managers, ASKED_FOR.saturating_sub(KEPT)).await.0)
}

/// What managers below say who would take part in a release; and those that say nothing.
pub async fn of_managers(
    engine: &Engine,
    strategy: Arc<Strategy>,
    managers: Vec<ChildKey>,
) -> Result<(ReportedLiveness, Vec<ChildKey>), EngineError> {
    let managers = engine.read(PATIENCE, move |state| candidates(state, &strategy, managers)).await?;
    Ok(ask_able(engine, managers, kind::PATIENCE).await)
}

/// What managers say, and those that say nothing.
async fn ask_able(
    engine: &Engine,
    managers: Vec<AskedManager>,
    time: Duration,
) -> (ReportedLiveness, Vec<ChildKey>) {
    let said = eligible::of_managers(engine, managers, time).await;
    let unheard = said.iter().filter(|(_, able)| able.is_none()).map(|(key, _)| *key).collect();
    let told = said.into_iter().filter_map(|(key, able)| Some((key, liveness(&able?))));
    (told.collect(), unheard)
}

/// Of whom nothing is known, those may be there.
fn liveness(able: &Able) -> Liveness {
    Liveness { live: able.live.saturating_add(able.not_asked), silent: able.silent }
}
