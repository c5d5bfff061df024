//! A manager: the heart, its clock, and a disk that has what was committed.
//!
//! Commands are decided one after the other and answered after the commit of their batch. A kill takes away all that is
//! not committed, and the last calls of children; what is committed is built up again from the disk.

use std::collections::{BTreeMap, HashMap};

use choirmaster::{
    model::{ChildId, ChildKey, Now, ReleaseKey},
    release::{
        change::Change,
        command::{Command, Refusal, Reply, Seen},
        decide,
        settings::{GHOST_AFTER, Settings},
        state::{Release, State},
    },
};

use super::{
    call::{Caller, Request, Response},
    heart::{self, Flaw},
};

/// Serving time is stored at least this often, in milliseconds.
const RENEWAL_MS: u64 = 3_000;

/// The wall clock at the beginning, in milliseconds since 1970.
const EPOCH_MS: i64 = 1_700_000_000_000;

#[derive(Debug, Default)]
struct Calls {
    listening_since: u64,
    last: HashMap<ChildKey, u64>,
}

impl Seen for Calls {
    fn last_call(&self, child: ChildKey) -> Option<u64> {
        Some(self.last.get(&child).copied().unwrap_or_default().max(self.listening_since))
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

#[derive(Debug)]
pub struct Manager {
    pub state: State,
    /// Releases that left memory.
    pub stored: BTreeMap<ReleaseKey, Release>,
    pub is_up: bool,
    /// Goes up with every start.
    pub life: u32,
    pub flaw: Option<Flaw>,
    calls: Calls,
    log: Vec<Entry>,
    batch: Vec<Entry>,
    pending: Vec<Pending>,
    /// When this life began, and the serving time then.
    began: u64,
    served_before: u64,
    /// The serving time that the disk knows.
    served_stored: u64,
    born: u32,
}

impl Manager {
    pub fn new(flaw: Option<Flaw>) -> Self {
        Self {
            state: State::new(Settings::default()),
            stored: BTreeMap::new(),
            is_up: true,
            life: 1,
            flaw,
            calls: Calls::default(),
            log: Vec::new(),
            batch: Vec::new(),
            pending: Vec::new(),
            began: 0,
            served_before: 1_000,
            served_stored: 1_000,
            born: 0,
        }
    }

    pub fn now(&self, at: u64) -> Now {
        Now { wall_ms: EPOCH_MS + at as i64, served_ms: self.served_before + (at - self.began) }
    }

    /// A release, wherever it is.
    pub fn release(&self, key: ReleaseKey) -> Option<&Release> {
        self.state.release(key).or_else(|| self.stored.get(&key))
    }

    /// Takes a call in; its answer waits for the commit. Says what is wrong if the same call once more would change
    /// something.
    pub fn take(&mut self, caller: Caller, call: u64, request: Request, at: u64) -> Result<(), String> {
        let response = match &request {
            Request::Functions => Response::Functions,
            Request::Heart(command) => {
                let mut command = (**command).clone();
                if let Command::Poll(poll) = &mut command {
                    self.born += 1;
                    poll.fresh = ChildId::parse(&format!("c{}", self.born)).unwrap();
                }
                let answer = self.command(&command, at);
                self.once_more(&command, at)?;
                Response::Heart(Box::new(answer))
            }
        };
        self.pending.push(Pending { caller, call, request, response });
        Ok(())
    }

    fn command(&mut self, command: &Command, at: u64) -> Result<Reply, Refusal> {
        let served = self.now(at).served_ms;
        if let Some(key) = caller(command).and_then(|child| self.state.children.key(child)) {
            self.calls.last.insert(key, served);
        }
        let mut answer = self.advance(command.clone(), at);
        if let Err(Refusal::NotInMemory(key)) = answer {
            let release = Box::new(self.stored[&key].clone());
            answer = self.advance(Command::Recalled { release, then: Box::new(command.clone()) }, at);
        }
        if let Ok(Reply::Polled { key, .. }) = &answer {
            self.calls.last.insert(*key, served);
        }
        answer
    }

    fn advance(&mut self, command: Command, at: u64) -> Result<Reply, Refusal> {
        let now = self.now(at);
        let (changes, answer) = heart::advance(&mut self.state, &self.calls, &command, now, self.flaw);
        self.stored.extend(self.state.take_closed());
        if !changes.is_empty() {
            self.batch.push(Entry { command, changes });
        }
        answer
    }

    /// A duplicate changes nothing more; polls count, and preliminary numbers are refreshed.
    fn once_more(&self, command: &Command, at: u64) -> Result<(), String> {
        let is_call =
            matches!(command, Command::Fetch { .. } | Command::Result { .. } | Command::EndStage { .. });
        if !is_call {
            return Ok(());
        }
        let again = decide(&self.state, &self.calls, command, self.now(at));
        let more = again.changes.iter().find(|change| !matches!(change, Change::Numbers { .. }));
        match more {
            Some(change) => Err(format!("{command:?} once more changes {change:?}")),
            None => Ok(()),
        }
    }

    /// Whether time has come to look at deadlines.
    pub fn tick_due(&self, at: u64) -> Option<u64> {
        let now = self.now(at);
        let due = self.state.next_due(now, GHOST_AFTER)?;
        Some(at + due.saturating_sub(now.served_ms))
    }

    pub fn tick(&mut self, at: u64) {
        if self.flaw != Some(Flaw::NoTick) {
            let _ = self.command(&Command::Tick, at);
        }
    }

    pub fn has_something_to_commit(&self) -> bool {
        !self.batch.is_empty() || !self.pending.is_empty()
    }

    /// Commits the batch. Answers what may be said now, and what was changed.
    pub fn commit(&mut self, at: u64) -> (Vec<Pending>, Vec<Change>) {
        let changes = self.batch.iter().flat_map(|entry| entry.changes.iter().cloned()).collect();
        let batch = std::mem::take(&mut self.batch);
        let forgets = self.flaw == Some(Flaw::ForgetsCommits) && self.log.len() % 7 == 6;
        if !batch.is_empty() && !forgets {
            self.served_stored = self.now(at).served_ms;
            self.log.extend(batch);
        }
        (std::mem::take(&mut self.pending), changes)
    }

    /// SIGKILL: the calls under way break.
    pub fn kill(&mut self, at: u64) -> Vec<Pending> {
        // The lease was renewed not long ago.
        let renewed = self.now(at).served_ms.saturating_sub(RENEWAL_MS);
        self.served_stored = self.served_stored.max(renewed);
        self.is_up = false;
        self.batch.clear();
        std::mem::take(&mut self.pending)
    }

    /// A new life, from what is on the disk.
    pub fn boot(&mut self, at: u64) {
        self.state = State::new(Settings::default());
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
        self.calls = Calls { listening_since: self.served_before, last: HashMap::new() };
    }
}

/// Whose sign of life a command is, polls aside.
fn caller(command: &Command) -> Option<&str> {
    match command {
        Command::Fetch { child, .. } | Command::Result { child, .. } | Command::EndStage { child, .. } => {
            Some(child)
        }
        _ => None,
    }
}
