//! A manager: the domain, its clock, and a disk that has what was committed.
//!
//! Commands are decided one after the other and answered after the commit of their batch. A kill takes away all that is
//! not committed, and the last calls of children; what is committed is built up again from the disk.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use ::domain::children::{self, Variant};
use ::domain::{
    parent::Row,
    release::{
        assignment::{Step, StepIndex},
        change::Change,
        command::{Command, Form, LastSeen, NoReply, Refusal, Reply},
        decide, members, next_action,
        offer::OfferName,
        parent,
        settings::Settings,
        state::{Release, State},
        summary::Summary,
        waiting_offer,
    },
};
use engine::{
    effect::{OWED, ParentStageResult},
    json_columns,
    rows::{owed, recount},
};
use model::{ChildId, ChildKey, Now, ReleaseKey, StageStatus};
use store::rows::StageResultRow;

use super::{
    call::{Caller, Patience, Request, Response},
    domain::{self, Flaw},
};

/// Serving time is stored at least this often, in milliseconds.
const RENEWAL_MS: u64 = 3_000;

/// What wall clocks say at the beginning, in milliseconds since 1970. Each start of a manager has another one: one that knows
/// nothing yet, one that is a day behind, one that is an hour ahead. Nothing but what people read may depend on them.
const CLOCKS_MS: [i64; 4] =
    [1_700_000_000_000, 0, 1_700_000_000_000 - 24 * 3_600_000, 1_700_000_000_000 + 3_600_000];

#[derive(Debug, Default)]
struct Calls {
    listening_since: u64,
    last: HashMap<ChildKey, u64>,
}

impl LastSeen for Calls {
    fn last_call(&self, child: ChildKey) -> Option<u64> {
        Some(self.last.get(&child).copied().unwrap_or_default().max(self.listening_since))
    }

    fn called_since(&self, child: ChildKey, served_ms: u64) -> bool {
        self.last.get(&child).is_some_and(|last| *last > served_ms)
    }
}

/// A command that changed something.
#[derive(Debug)]
struct Entry {
    command: Command,
    changes: Vec<Change>,
}

/// An answer that waits for the commit, and what was asked.
#[derive(Debug)]
pub struct Pending {
    pub caller: Caller,
    pub call: u64,
    pub request: Request,
    pub response: Response,
}

/// A call that waits until there is something to say.
#[derive(Debug)]
struct Patient {
    caller: Caller,
    call: u64,
    command: Box<Command>,
    time_limit: Patience,
}

/// The kind of the id that a manager has at its parent: a later one takes its place.
pub const ENROLLED: &str = "enrolled";

/// An effect in the outbox.
#[derive(Debug, Clone)]
pub struct Effect {
    pub row: Row,
    pub kind: &'static str,
    pub payload: String,
    pub at: u64,
}

/// The last result of a child in a stage: of which attempt, and what it said.
type Results = BTreeMap<(ReleaseKey, StepIndex, ChildKey), (u16, String)>;

/// A child has changed something.
#[derive(Debug)]
pub struct Caused {
    pub child: ChildKey,
    /// It has come further: an end of a stage, of an offer or of what it owes.
    pub is_progress: bool,
}

/// What a commit sets free.
#[derive(Debug)]
pub struct Committed {
    /// By calls of children, in order.
    pub caused: Vec<Caused>,
    pub pending: Vec<Pending>,
    pub changes: Vec<Change>,
    pub effects: Vec<Effect>,
}

#[derive(Debug)]
pub struct Manager {
    pub state: State,
    /// Releases that left memory.
    pub stored: BTreeMap<ReleaseKey, Release>,
    pub is_up: bool,
    /// Goes up with every start.
    pub life: u32,
    pub flaw: Option<Flaw>,
    /// Which of the clocks it began with.
    clock: usize,
    settings: Settings,
    calls: Calls,
    log: Vec<Entry>,
    batch: Vec<Entry>,
    pending: Vec<Pending>,
    patients: Vec<Patient>,
    outbox: BTreeMap<Row, Effect>,
    results: Results,
    /// What the batch puts into the outbox, takes out of it, and says of results.
    effects: Vec<Effect>,
    done: Vec<Row>,
    fresh_results: Results,
    last_row: Row,
    /// When this life began, and the serving time then.
    began: u64,
    served_before: u64,
    /// The serving time that the disk knows.
    served_stored: u64,
    born: u32,
    /// An own agent was handed a release that begins with something else than what serves there.
    pub other_base: Option<String>,
}

impl Manager {
    /// `below`: it has a parent, which says nothing of deadlines.
    pub fn new(flaw: Option<Flaw>, below: bool, clock: usize) -> Self {
        let settings = if below {
            Settings {
                offer_deadline: Duration::from_secs(40),
                setup_grace: Duration::from_secs(45),
                stage_deadline: Duration::from_secs(150),
                undo_deadline: Duration::from_secs(85),
                ..Settings::default()
            }
        } else {
            Settings { undo_deadline: Duration::from_secs(85), ..Settings::default() }
        };
        Self {
            state: State::new(settings.clone()),
            stored: BTreeMap::new(),
            is_up: true,
            life: 1,
            flaw,
            clock,
            settings,
            calls: Calls::default(),
            log: Vec::new(),
            batch: Vec::new(),
            pending: Vec::new(),
            patients: Vec::new(),
            outbox: BTreeMap::new(),
            results: BTreeMap::new(),
            effects: Vec::new(),
            done: Vec::new(),
            fresh_results: BTreeMap::new(),
            last_row: 0,
            began: 0,
            served_before: 1_000,
            served_stored: 1_000,
            born: 0,
            other_base: None,
        }
    }

    pub fn now(&self, at: u64) -> Now {
        let clock = CLOCKS_MS[(self.clock + self.life as usize) % CLOCKS_MS.len()];
        Now { wall_ms: clock + at as i64, served_ms: self.served_before + (at - self.began) }
    }

    /// A release, wherever it is.
    pub fn release(&self, key: ReleaseKey) -> Option<&Release> {
        self.state.release(key).or_else(|| self.stored.get(&key))
    }

    /// All releases, wherever they are.
    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        let closed = self.stored.values().filter(|release| self.state.release(release.key).is_none());
        self.state.releases.values().chain(closed)
    }

    /// Takes a call in; its answer waits for the commit. Says what is wrong if the same call once more would change
    /// something. `None`: it waits until there is something to say.
    pub fn take(&mut self, caller: Caller, call: u64, request: Request, at: u64) -> Result<(), String> {
        let (command, time_limit) = match &request {
            Request::Functions => {
                self.pending.push(Pending { caller, call, request, response: Response::Functions });
                return Ok(());
            }
            Request::Heart(command) => (command, None),
            Request::Patient(command, time_limit) => (command, Some(time_limit.clone())),
        };
        let mut command = (**command).clone();
        if let Command::Children(children::Command::Poll(poll)) = &mut command {
            self.born += 1;
            poll.fresh = ChildId::parse(&format!("c{}", self.born)).unwrap();
        }
        let other_base = self.known_otherwise(&command);
        let answer = self.command(&command, at);
        if matches!(&answer, Ok(Reply::Offer(offer)) if matches!(offer.form, Form::InPlace { .. })) {
            self.other_base = self.other_base.take().or(other_base);
        }
        self.once_more(&command, at)?;
        let is_nothing = match (&answer, &time_limit) {
            (Ok(Reply::Polled { key, offer: None, .. }), Some(time_limit)) => {
                self.held(*key) == time_limit.held
            }
            (Ok(reply @ Reply::EndStage { .. }), Some(time_limit)) => !is_news(reply, time_limit),
            _ => false,
        };
        if let Some(time_limit) = time_limit.filter(|_| is_nothing) {
            self.patients.push(Patient { caller, call, command: Box::new(command), time_limit });
            return Ok(());
        }
        self.pending.push(Pending { caller, call, request, response: Response::Heart(Box::new(answer)) });
        Ok(())
    }

    /// What an agent is known to serve otherwise than a release begins with that it is about to take.
    fn known_otherwise(&self, command: &Command) -> Option<String> {
        let Command::Members(members::Command::Fetch { child, offer }) = command else { return None };
        let key = self.state.children.key(child)?;
        let known = OfferName::candidates(offer).find_map(|(id, _)| self.state.known.get(id))?;
        let release = self.state.release(known.key)?;
        release.assignments.get(&key).filter(|part| part.is_in_place() && !part.fetched)?;
        release.strategy.functions.iter().find_map(|function| {
            let serves = self.serves(key, &function.name)?;
            (Some(serves) != function.base.content).then(|| {
                format!("{child} takes {offer}, which begins {function:?} with other than {serves:x}, which serves")
            })
        })
    }

    /// What serves a function at a child, by what is deployed there; `None`: that is not known.
    fn serves(&self, child: ChildKey, function: &str) -> Option<u64> {
        let deployed = self.state.deployment(child, function)?;
        let release = self.release(deployed.release)?;
        release.assignments.get(&child).filter(|part| part.is_in_place())?;
        let found = release.strategy.functions.iter().find(|of| of.name == function)?;
        match deployed.variant {
            Variant::Base => found.base.content,
            Variant::New => found.new.content,
            Variant::Unknown => None,
        }
    }

    /// Calls that waited and have an answer now; or one of this number, whose time is over.
    pub fn woken(&mut self, over: Option<u64>, at: u64) -> Vec<(Caller, u64, Request)> {
        let (state, calls, now) = (&self.state, &self.calls, self.now(at));
        let is_woken = |patient: &mut Patient| match (&*patient.command, over) {
            (_, Some(over)) => patient.call == over,
            (Command::Children(children::Command::Poll(poll)), None) => {
                let child = poll.child.as_ref().and_then(|id| state.children.key(id.as_str()));
                child.is_none_or(|child| {
                    waiting_offer(state, child).is_some()
                        || next_action::held(state, child) != patient.time_limit.held
                })
            }
            (command, None) => {
                let answer = decide(state, calls, command, now).answer;
                answer.map_or(true, |reply| is_news(&reply, &patient.time_limit))
            }
        };
        let woken = self.patients.extract_if(.., is_woken);
        woken.map(|patient| (patient.caller, patient.call, Request::Heart(patient.command))).collect()
    }

    /// Offers that a child has in hand and whose release is paused.
    pub fn held(&self, child: ChildKey) -> Vec<String> {
        next_action::held(&self.state, child)
    }

    /// Who waits is not silent.
    fn hear_patients(&mut self, served: u64) {
        for patient in &self.patients {
            let child = match &*patient.command {
                Command::Children(children::Command::Poll(poll)) => poll.child.as_ref().map(ChildId::as_str),
                other => caller(other),
            };
            if let Some(key) = child.and_then(|child| self.state.children.key(child)) {
                self.calls.last.insert(key, served);
            }
        }
    }

    fn command(&mut self, command: &Command, at: u64) -> Result<Reply, Refusal> {
        let served = self.now(at).served_ms;
        self.hear_patients(served);
        if let Some(key) = caller(command).and_then(|child| self.state.children.key(child)) {
            self.calls.last.insert(key, served);
        }
        let mut answer = self.advance(command.clone(), at);
        if let Err(NoReply::Missing(key)) = answer {
            let release = Box::new(self.stored[&key].clone());
            answer = self.advance(Command::Recalled { release, then: Box::new(command.clone()) }, at);
        }
        let answer = answer.map_err(refusal);
        if let Ok(Reply::Polled { key, .. }) = &answer {
            self.calls.last.insert(*key, served);
        }
        answer
    }

    fn advance(&mut self, command: Command, at: u64) -> Result<Reply, NoReply> {
        let now = self.now(at);
        let (changes, answer) = domain::advance(&mut self.state, &self.calls, &command, now, self.flaw);
        self.stored.extend(self.state.take_closed());
        self.note(&changes, at);
        if !changes.is_empty() {
            self.batch.push(Entry { command, changes });
        }
        answer
    }

    /// What goes with the changes to the disk.
    fn note(&mut self, changes: &[Change], at: u64) {
        for change in changes {
            let (release, child, slot, status, kept) = match change {
                Change::Parent(parent::Change::StageReported { release, stage, status, .. }) => {
                    let effect = self.release(*release).and_then(|found| owed(found, *stage, *status));
                    if let Some(effect) = effect {
                        self.effect(OWED, serde_json::to_string(&effect).unwrap(), at);
                    }
                    continue;
                }
                Change::Parent(parent::Change::Recounted { release }) => {
                    if let Some(effect) = self.release(*release).and_then(recount) {
                        self.effect(OWED, serde_json::to_string(&effect).unwrap(), at);
                    }
                    continue;
                }
                Change::Parent(parent::Change::UndoReported { offer, unconfirmed, .. }) => {
                    let effect = ParentStageResult::undone(offer.clone(), *unconfirmed);
                    self.effect(OWED, serde_json::to_string(&effect).unwrap(), at);
                    continue;
                }
                Change::Members(members::Change::Stepped {
                    release,
                    child,
                    step: Step::Waiting { slot } | Step::Kept { slot },
                    summary: Some(kept),
                    ..
                }) => (release, child, slot, StageStatus::SuccessWaiting, kept),
                Change::Members(members::Change::Stepped {
                    release,
                    child,
                    step: Step::Reported { slot, status, .. },
                    summary: Some(kept),
                    ..
                }) => (release, child, slot, *status, kept),
                Change::Members(members::Change::Numbers { release, child, slot, status, summary }) => {
                    (release, child, slot, *status, summary)
                }
                _ => continue,
            };
            let attempt =
                self.release(*release).and_then(|found| Some(found.assignments.get(child)?.attempt));
            let Some(attempt) = attempt else { continue };
            let (text, _) = json_columns::kept(kept, status).unwrap();
            self.fresh_results.insert((*release, *slot, *child), (attempt, text));
        }
    }

    /// Puts something into the outbox.
    pub fn effect(&mut self, kind: &'static str, payload: String, at: u64) {
        self.last_row += 1;
        self.effects.push(Effect { row: self.last_row, kind, payload, at });
    }

    pub fn effects_done(&mut self, rows: Vec<Row>) {
        if self.flaw != Some(Flaw::KeepsWhatWasSent) {
            self.done.extend(rows);
        }
    }

    /// What the outbox has on the disk.
    pub fn outbox(&self) -> impl Iterator<Item = &Effect> {
        self.outbox.values()
    }

    /// What the disk has of a stage: the last result of each child.
    pub fn summaries(&self, release: ReleaseKey, slot: StepIndex) -> Vec<(ChildKey, Summary)> {
        let of_stage = (release, slot, ChildKey(0))..=(release, slot, ChildKey(u32::MAX));
        let rows = self.results.range(of_stage);
        let mut found: Vec<(ChildKey, Summary)> = rows
            .map(|((_, _, child), (_, text))| {
                (*child, json_columns::summary(&result_row(text.clone())).unwrap())
            })
            .collect();
        if self.flaw == Some(Flaw::SumsOneShort) {
            found.pop();
        }
        found
    }

    /// A duplicate changes nothing more; polls count, and preliminary numbers are refreshed.
    fn once_more(&self, command: &Command, at: u64) -> Result<(), String> {
        let is_call = matches!(
            command,
            Command::Members(
                members::Command::Fetch { .. }
                    | members::Command::Result { .. }
                    | members::Command::EndStage { .. }
            )
        );
        if !is_call {
            return Ok(());
        }
        let again = decide(&self.state, &self.calls, command, self.now(at));
        let more = again
            .changes
            .iter()
            .find(|change| !matches!(change, Change::Members(members::Change::Numbers { .. })));
        match more {
            Some(change) => Err(format!("{command:?} once more changes {change:?}")),
            None => Ok(()),
        }
    }

    /// Whether time has come to look at deadlines.
    pub fn tick_due(&self, at: u64) -> Option<u64> {
        let now = self.now(at);
        let due = self.state.next_due(now)?;
        Some(at + due.saturating_sub(now.served_ms))
    }

    pub fn tick(&mut self, at: u64) {
        if self.flaw != Some(Flaw::NoTick) {
            let _ = self.command(&Command::Tick, at);
        }
    }

    pub fn has_something_to_commit(&self) -> bool {
        !self.batch.is_empty()
            || !self.pending.is_empty()
            || !self.effects.is_empty()
            || !self.done.is_empty()
    }

    /// Commits the batch. Answers what may be said now, and what was changed.
    pub fn commit(&mut self, at: u64) -> Committed {
        let caused = self.batch.iter().filter_map(|entry| self.caused(entry)).collect();
        let changes = self.batch.iter().flat_map(|entry| entry.changes.iter().cloned()).collect();
        let batch = std::mem::take(&mut self.batch);
        let forgets = self.flaw == Some(Flaw::ForgetsCommits) && self.log.len() % 7 == 6;
        if !batch.is_empty() && !forgets {
            self.served_stored = self.now(at).served_ms;
            self.log.extend(batch);
        }
        self.results.append(&mut self.fresh_results);
        let effects = std::mem::take(&mut self.effects);
        if effects.iter().any(|effect| effect.kind == ENROLLED) {
            self.outbox.retain(|_, effect| effect.kind != ENROLLED);
        }
        self.outbox.extend(effects.iter().map(|effect| (effect.row, effect.clone())));
        for row in self.done.drain(..) {
            self.outbox.remove(&row);
        }
        Committed { caused, pending: std::mem::take(&mut self.pending), changes, effects }
    }

    /// Which child's call it was that changed something; `None`: it was none, or it did no more than tell what it has measured.
    fn caused(&self, entry: &Entry) -> Option<Caused> {
        let mut command = &entry.command;
        while let Command::Recalled { then, .. } = command {
            command = then;
        }
        let id = match command {
            Command::Children(children::Command::Poll(poll)) => poll.child.as_ref().map(ChildId::as_str),
            other => caller(other),
        };
        let child = self.state.children.key(id?)?;
        let measured = |change: &Change| matches!(change, Change::Members(members::Change::Numbers { .. }));
        let is_progress = |change: &Change| match change {
            Change::Members(members::Change::Stepped { child: of, step, .. }) => {
                *of == child
                    && matches!(
                        step,
                        Step::StageBegan { .. }
                            | Step::NextOffer { .. }
                            | Step::NextWave { .. }
                            | Step::Ended { .. }
                            | Step::UndoConfirmed { .. }
                            | Step::UndoDropped
                    )
            }
            _ => false,
        };
        let is_progress = entry.changes.iter().any(is_progress);
        (!entry.changes.iter().all(measured)).then_some(Caused { child, is_progress })
    }

    /// SIGKILL: the calls under way break.
    pub fn kill(&mut self, at: u64) -> Vec<(Caller, u64)> {
        // The lease was renewed not long ago.
        let renewed = self.now(at).served_ms.saturating_sub(RENEWAL_MS);
        self.served_stored = self.served_stored.max(renewed);
        self.is_up = false;
        self.batch.clear();
        self.effects.clear();
        self.done.clear();
        self.fresh_results.clear();
        let pending = self.pending.drain(..).map(|pending| (pending.caller, pending.call));
        pending.chain(self.patients.drain(..).map(|patient| (patient.caller, patient.call))).collect()
    }

    /// A new life, from what is on the disk.
    pub fn boot(&mut self, at: u64) {
        self.state = State::new(self.settings.clone());
        self.stored.clear();
        for Entry { command, changes } in &self.log {
            if let Command::Recalled { release, .. } = command
                && self.state.release(release.key).is_none()
            {
                self.state.hold((**release).clone());
            }
            for change in changes {
                self.state.apply(change);
            }
            self.state.let_go_of_closed(command, changes);
            self.stored.extend(self.state.take_closed());
        }
        self.is_up = true;
        self.life += 1;
        self.began = at;
        self.served_before = self.served_stored;
        self.state.recheck_all(self.served_before);
        self.calls = Calls { listening_since: self.served_before, last: HashMap::new() };
    }
}

/// Whether an answer about the end of a stage is worth an answer at once.
fn is_news(reply: &Reply, known: &Patience) -> bool {
    match reply {
        Reply::EndStage { end, rollback, skip, winner: _, shares, accepted } => {
            *end || *rollback
                || *accepted
                || skip.iter().any(|stage| !known.skipped.contains(stage))
                || shares.iter().any(|(stage, share)| known.shares.get(stage) != Some(share))
        }
        _ => true,
    }
}

/// Whose sign of life a command is, polls aside.
fn caller(command: &Command) -> Option<&str> {
    match command {
        Command::Members(
            members::Command::Fetch { child, .. }
            | members::Command::Result { child, .. }
            | members::Command::EndStage { child, .. },
        ) => Some(child),
        _ => None,
    }
}

/// Why a command is refused, once what was missing is there.
fn refusal(why: NoReply) -> Refusal {
    match why {
        NoReply::Refused(refusal) => refusal,
        NoReply::Missing(release) => panic!("{release:?} was recalled, and is missing still"),
    }
}

/// A row of which only what was reported is read.
fn result_row(summary: String) -> StageResultRow {
    StageResultRow {
        release_key: 0,
        child_key: 0,
        attempt: 0,
        stage: 0,
        status: 0,
        at_ms: 0,
        digest: 0,
        summary,
    }
}
