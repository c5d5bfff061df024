//! This manager as its parent's child.
//!
//! One task speaks to the parent, one call after the other: it polls, takes offers over as releases of its own, sends
//! results, and asks whether stages may end. What the parent is told follows from the state and from the store, and
//! what must be sent lies in the outbox, so a crash at any place only leads to a call that is made again.
//!
//! ```text
//! /poll ─▶ offer ─▶ noted in the outbox ─▶ /release, /functions ─▶ Submit ─▶ noted as done
//! a stage is over here ─▶ outbox, in the same commit ─▶ aggregate from the store ─▶ /result ─▶ noted as done
//! every child is ready ─▶ /result (SuccessWaiting) ─▶ /end_stage … true ─▶ UpstreamEnd
//! ```
//!
//! Invariants:
//! - the id that the parent gave is stored before it is used again;
//! - an offer is noted before it is fetched: a parent doesn't show again what was fetched;
//! - nothing is asked of a stage before the result of the one before it was answered: the parent would take that one for
//!   lost;
//! - whatever the parent answers, or fails to, changes nothing here but what is written above.
//!
//! The parent may be the plain system: everything beyond the plain protocol is left to those who understand it.
//! Deliberately not here: how a release from above is led ([`crate::release::upstream`]).

mod call;
mod fleet;
mod offer;
mod report;

use std::{collections::HashSet, time::Duration};

use tokio::{
    sync::{broadcast, mpsc},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    call::{CallError, Parent},
    fleet::Below,
};
use crate::{
    engine::{
        By, Engine, EngineError,
        audit::Actor,
        rows::{ENROLLED, Enrolled, TAKING, UPWARD, Upward},
    },
    functions,
    release::{command::Command, upstream::Waiting},
    store::{StoreError, rows::OutboxRow},
    wire::child::Then,
};

/// How long the engine may take for a command of this task.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest pause between two attempts while the parent is away.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A result that the parent refuses is sent again for this long, then given up with a line in the log.
const GIVE_UP_AFTER: Duration = Duration::from_hours(24);

/// What an operator sets of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `http://HOST:PORT`.
    pub url: String,
    pub token: Option<String>,
    /// Shown at the parent.
    pub name: Option<String>,
    pub poll: Duration,
    pub archive_limits: functions::Limits,
}

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the store: {0}")]
    Store(#[from] StoreError),
}

/// A result that waits to be answered by the parent.
struct Unsent {
    row: u64,
    at_ms: i64,
    upward: Upward,
}

struct Link {
    engine: Engine,
    parent: Parent,
    settings: Settings,
    /// Who this manager is at its parent, and the effect that keeps it.
    enrolled: Option<(u64, String)>,
    /// Effects that keep what is no longer true.
    outdated: Vec<u64>,
    /// Offers that are to be taken over.
    taking: Vec<(u64, String)>,
    results: Vec<Unsent>,
    /// Stages of which the parent knows that they wait.
    told: HashSet<(String, u8)>,
    below: Below,
    /// Whether the last round went well; `None` before the first.
    is_up: Option<bool>,
    failures: u32,
}

/// Speaks to the parent until `stop`, or until the engine is gone.
pub async fn run(
    engine: Engine,
    settings: Settings,
    mut above: mpsc::UnboundedReceiver<OutboxRow>,
    stop: CancellationToken,
) {
    let parent = match Parent::new(&settings.url, settings.token.clone()) {
        Ok(parent) => parent,
        Err(error) => {
            tracing::error!(%error, "the parent can't be called");
            return;
        }
    };
    let mut events = engine.events();
    let mut link = Link::new(engine, parent, settings);
    loop {
        link.drain(&mut above);
        link.below.notice(&mut events);
        let round = tokio::select! {
            round = link.round(&mut above) => round,
            () = stop.cancelled() => return,
        };
        if let Err(Trouble::Engine(EngineError::Stopped)) = round {
            return;
        }
        link.weigh(round);
        let wake = Instant::now() + link.pause();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep_until(wake) => break,
                row = above.recv() => {
                    let Some(row) = row else { return };
                    link.note(row);
                    if link.failures == 0 {
                        break;
                    }
                }
            }
        }
    }
}

impl Link {
    fn new(engine: Engine, parent: Parent, settings: Settings) -> Self {
        Self {
            engine,
            parent,
            settings,
            enrolled: None,
            outdated: Vec::new(),
            taking: Vec::new(),
            results: Vec::new(),
            told: HashSet::new(),
            below: Below::default(),
            is_up: None,
            failures: 0,
        }
    }

    /// Says once when the link comes and goes.
    fn weigh(&mut self, round: Result<(), Trouble>) {
        let is_up = round.is_ok();
        match round {
            Ok(()) => self.failures = 0,
            Err(_) => self.failures = self.failures.saturating_add(1),
        }
        if self.is_up == Some(is_up) {
            return;
        }
        match round {
            Ok(()) => tracing::info!(parent = self.settings.url, "the parent is reached"),
            Err(error) => {
                tracing::warn!(parent = self.settings.url, %error, "trouble with the parent; tried again");
            }
        }
        self.is_up = Some(is_up);
    }

    /// Twice as long after each failure, and never the same for two managers that lost their parent at once.
    fn pause(&self) -> Duration {
        if self.failures == 0 {
            return self.settings.poll;
        }
        let longest = LONGEST_PAUSE.max(self.settings.poll);
        let pause = self.settings.poll.saturating_mul(1 << self.failures.min(10)).min(longest);
        pause.mul_f64(0.5 + 0.5 * rand::random::<f64>())
    }

    fn drain(&mut self, above: &mut mpsc::UnboundedReceiver<OutboxRow>) {
        while let Ok(row) = above.try_recv() {
            self.note(row);
        }
    }

    /// Takes an effect over from the outbox.
    fn note(&mut self, row: OutboxRow) {
        match row.kind.as_str() {
            ENROLLED => match serde_json::from_str::<Enrolled>(&row.payload) {
                Ok(enrolled) if enrolled.url == self.settings.url => {
                    let before = self.enrolled.replace((row.id, enrolled.id));
                    self.outdated.extend(before.map(|(row, _)| row));
                }
                // Another parent's.
                _ => self.outdated.push(row.id),
            },
            TAKING => self.taking.push((row.id, row.payload)),
            UPWARD => match serde_json::from_str(&row.payload) {
                Ok(upward) => self.results.push(Unsent { row: row.id, at_ms: row.at_ms, upward }),
                Err(error) => {
                    tracing::error!(id = row.id, %error, "a result for the parent can't be read and is dropped");
                    self.outdated.push(row.id);
                }
            },
            other => tracing::error!(id = row.id, kind = other, "an effect of an unknown kind is left"),
        }
    }

    /// Everything that is to be said and asked now.
    async fn round(&mut self, above: &mut mpsc::UnboundedReceiver<OutboxRow>) -> Result<(), Trouble> {
        self.below.look(&self.engine).await?;
        if self.below.area().is_none() {
            // Without an area nobody could plan for it.
            return Ok(());
        }
        let offer = self.poll(above).await?;
        if let Some(offer) = offer
            && !self.is_taken(&offer).await?
        {
            self.engine.effect(TAKING, offer).await?;
            self.drain(above);
        }
        for (row, offer) in self.taking.clone() {
            self.take(&offer).await?;
            self.taking.retain(|(taken, _)| *taken != row);
            self.engine.effects_done(vec![row]).await?;
        }
        self.drain(above);
        self.send_results().await?;
        self.ask(above).await?;
        let outdated = std::mem::take(&mut self.outdated);
        if !outdated.is_empty() {
            self.engine.effects_done(outdated).await?;
        }
        Ok(())
    }

    fn id(&self) -> Option<&str> {
        self.enrolled.as_ref().map(|(_, id)| id.as_str())
    }

    /// Polls, and stores the id that the parent gives.
    async fn poll(
        &mut self,
        above: &mut mpsc::UnboundedReceiver<OutboxRow>,
    ) -> Result<Option<String>, Trouble> {
        let polled = self.parent.poll(self.id(), self.settings.name.as_deref(), &self.below).await?;
        if self.id() != Some(polled.id.as_str()) {
            tracing::info!(id = polled.id, "registered with the parent");
            let enrolled = Enrolled { url: self.settings.url.clone(), id: polled.id };
            self.engine.effect(ENROLLED, serde_json::to_string(&enrolled).unwrap_or_default()).await?;
            self.drain(above);
        }
        Ok(polled.offer)
    }

    /// Whether this offer is a release here already, or about to be one.
    async fn is_taken(&self, offer: &str) -> Result<bool, Trouble> {
        if self.taking.iter().any(|(_, taken)| taken == offer) {
            return Ok(true);
        }
        let offer = offer.to_owned();
        let taken = move |state: &crate::release::state::State| {
            let mut origins = state.releases.values().filter_map(|release| release.upstream.as_ref());
            origins.any(|origin| origin.offer == offer)
        };
        Ok(self.engine.query(PATIENCE, taken).await?)
    }

    /// Tells the parent of stages that wait for it, and asks whether they may end.
    async fn ask(&mut self, above: &mut mpsc::UnboundedReceiver<OutboxRow>) -> Result<(), Trouble> {
        let Some(id) = self.id().map(str::to_owned) else { return Ok(()) };
        let waiting = self.waiting().await?;
        // What was reported before that look is in the mailbox by now.
        self.drain(above);
        self.told
            .retain(|(offer, stage)| waiting.iter().any(|(_, w)| w.offer == *offer && w.stage == *stage));
        for (release, Waiting { offer, stage, name, is_ready }) in waiting {
            if self.results.iter().any(|unsent| unsent.upward.offer == offer) {
                continue;
            }
            if is_ready && !self.told.contains(&(offer.clone(), stage)) {
                self.tell_waiting(&id, &offer, &release, stage, &name).await?;
                self.told.insert((offer.clone(), stage));
            }
            let answer = match self.parent.end_stage(&id, &offer, &name).await {
                Err(CallError::Refused { status, text }) => {
                    tracing::debug!(offer, stage = name, status, text, "the parent knows of no such stage");
                    continue;
                }
                answer => answer?,
            };
            if answer.end_stage {
                let undo = answer.then == Some(Then::Rollback);
                self.command(Command::UpstreamEnd { release, stage, undo }).await?;
            }
        }
        Ok(())
    }

    async fn waiting(&self) -> Result<Vec<(String, Waiting)>, Trouble> {
        let waiting = |state: &crate::release::state::State| -> Vec<(String, Waiting)> {
            let releases = state.releases.values();
            releases
                .filter_map(|release| Some((release.id.as_str().to_owned(), release.waits_above()?)))
                .collect()
        };
        Ok(self.engine.query(PATIENCE, waiting).await?)
    }

    async fn command(&self, command: Command) -> Result<(), Trouble> {
        let by = By { actor: Actor::Parent, note: None };
        self.engine.call(command, by, PATIENCE).await?;
        Ok(())
    }
}

/// Audit rows of each commit.
type Events = broadcast::Receiver<std::sync::Arc<Vec<crate::store::rows::AuditRow>>>;
