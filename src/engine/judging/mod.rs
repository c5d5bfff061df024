//! Looks at the data of analyses when their time has come, and tells the engine what they say.
//!
//! ```text
//! state ─▶ agenda: which looks are due ─▶ look: ask providers, read what children reported, judge ─▶ Command::Looked
//! ```
//!
//! Invariants:
//! - nothing is decided here: a look is a command like any other, stored before it acts, and refused if another one
//!   came first, so that neither a restart nor a second task spends alpha twice;
//! - looks of one block come one after the other, those of different blocks at once;
//! - a provider that hangs delays its own block alone;
//! - of children no more than some thousands are looked at at once, their reports are read from the store, and
//!   after each look of a run comes a pause as long as that look took: what is reported may be much, and never holds
//!   up anybody who calls.
//!
//! Deliberately not here: what a verdict does (`release::analysis`), statistics (`analysis`), asking (`metrics-providers`).

mod background;
mod child_reports;
mod children;
mod compare;
mod conditions;
mod due_looks;
pub(crate) mod finite;
mod interim;
mod interim_analysis;
mod judge;
mod metric_look;
mod missing_rows;
mod previous;
mod provider_query;
mod ranges;
mod router;
mod split_outliers;
mod threshold;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    sync::broadcast::error::RecvError,
    task::{Id, JoinSet},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use self::due_looks::{Agenda, DueLook, Rest, Resting};
use crate::{By, Engine, EngineError, audit::Actor};
use domain::release::{analysis, analysis::is_passed_early, command::Command, state::Snapshot};
use language::analysis::ROUTER;
use metrics_providers::provider::Registry;
use model::ReleaseKey;

/// The state is asked no more often.
const NOT_BEFORE: Duration = Duration::from_millis(50);

/// The state is asked at least this often, whatever happens.
const AT_LEAST: Duration = Duration::from_secs(30);

/// How long the engine has to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// After a look that could not be stored, before the next of the same block.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// Looks that are made at once.
const MAX_LOOKS: usize = 16;

/// Looks until `stop`, or until the engine is gone.
pub fn run(engine: Engine, registry: Registry, stop: CancellationToken) -> BoxFuture<'static, ()> {
    let routers = Arc::new(router::RouterProvider::new(engine.clone()));
    Box::pin(look_when_due(engine, registry.with(ROUTER, routers), stop))
}

async fn look_when_due(engine: Engine, registry: Registry, stop: CancellationToken) {
    let mut events = engine.events();
    let mut looks = JoinSet::new();
    let mut under_way: HashMap<Id, (ReleaseKey, u8)> = HashMap::new();
    let mut resting = Resting::new();
    loop {
        let (now, busy) = (engine.clock().now(), under_way.values().copied().collect::<Vec<_>>());
        let room = MAX_LOOKS.saturating_sub(busy.len());
        let (at_rest, instant) = (resting.clone(), Instant::now());
        let agenda = move |state: &Snapshot| {
            let agenda = Agenda::of(state, &busy, &at_rest, room, now, instant);
            let is_over = |(release, _): &&(ReleaseKey, u8)| state.release(*release).is_none();
            (agenda, at_rest.keys().filter(is_over).copied().collect::<Vec<_>>())
        };
        let agenda = engine.read(PATIENCE, agenda).await;
        let agenda = agenda.map(|(agenda, over)| {
            resting.retain(|place, _| !over.contains(place));
            agenda
        });
        let agenda = match agenda {
            Ok(agenda) => agenda,
            Err(EngineError::Stopped) => break,
            Err(_) => Agenda::default(),
        };
        for due in agenda.due {
            let (place, engine, registry) = ((due.release, due.run.block), engine.clone(), registry.clone());
            let handle = looks.spawn(async move { look_and_rest(&engine, &registry, due).await });
            under_way.insert(handle.id(), place);
        }
        let wait = agenda.next.map_or(AT_LEAST, |wait| wait.clamp(NOT_BEFORE, AT_LEAST));
        tokio::select! {
            () = stop.cancelled() => break,
            () = sleep(wait) => {}
            Some(done) = looks.join_next_with_id() => {
                let id = match done {
                    Ok((id, rest)) => {
                        resting.extend(under_way.get(&id).map(|place| (*place, rest)));
                        id
                    }
                    Err(error) => {
                        tracing::error!(%error, "a look at the data of an analysis broke off");
                        error.id()
                    }
                };
                under_way.remove(&id);
            }
            event = events.recv() => {
                if matches!(event, Err(RecvError::Closed)) {
                    break;
                }
                sleep(NOT_BEFORE).await;
                events = events.resubscribe();
            }
        }
    }
    looks.shutdown().await;
}

/// Makes one look. However much there is to look at, half of the time nothing is looked at for that run.
async fn look_and_rest(engine: &Engine, registry: &Registry, due: DueLook) -> Rest {
    let began = Instant::now();
    let is_news = look_and_tell(engine, registry, &due).await;
    let looked_ms = if is_news { 0 } else { due.elapsed_ms };
    Rest { number: due.run.number, looked_ms, until: Instant::now() + began.elapsed() }
}

/// Makes a look, and tells the engine what it found. Whether there was anything to be stored: not where nothing has changed of what children report.
async fn look_and_tell(engine: &Engine, registry: &Registry, due: &DueLook) -> bool {
    let id = due.id.clone();
    let look = interim_analysis::make(engine, registry, due).await;
    let analysis = due.strategy.analyses().nth(usize::from(due.run.block));
    let is_over = analysis.is_some_and(|(_, of)| look.is_gathered && is_passed_early(of, &look.metrics));
    if look.metrics == due.run.metrics && !is_over {
        return false;
    }
    let by = By { actor: Actor::Analysis, note: None };
    match engine.call(Command::Analysis(analysis::Command::Looked(Box::new(look))), by, PATIENCE).await {
        // The release was paused or ended meanwhile, or somebody else looked.
        Ok(_) | Err(EngineError::Stopped) => {}
        Err(error) => {
            tracing::warn!(release = id, %error, "what a look found could not be stored; it is looked again");
            sleep(AFTER_TROUBLE).await;
        }
    }
    true
}
