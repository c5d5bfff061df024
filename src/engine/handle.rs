//! How everybody else speaks to the engine.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

use super::{
    apart,
    audit::Actor,
    classes::Remembered,
    clock::Clock,
    effect::{Due, Entry, ToParent, Webhook},
    kept::Setting,
    load::Loading,
    recall::{self, Recalled},
    stats::Stats,
    task::{self, Settings, Task},
    unreadable::Unreadable,
    view::View,
};
use heart::release::{
    command::{Command, Refusal, Reply},
    lifecycle,
    settings::Settings as Rules,
    state::{Snapshot, State},
};
use model::ReleaseKey;
use store::{
    Reader, StoreError, Writer,
    rows::{AuditRow, OutboxRow, PointerRow},
};

/// Commands that wait for the engine; more are refused until it has caught up.
const MAILBOX: usize = 16_384;

/// Commits that a slow listener to events may lag behind before it must read the store.
const EVENT_BACKLOG: usize = 1_024;

/// Who asks, and what for.
#[derive(Debug, Clone)]
pub struct By {
    pub actor: Actor,
    /// Shown in the audit trail.
    pub note: Option<String>,
}

impl By {
    pub const CHILD: Self = Self { actor: Actor::Child, note: None };
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing was answered in time; whether it was stored is not known. The same call may be made again.
    #[error("the manager is busy or its store does not answer; try again")]
    Busy,
    /// Like [`Self::Busy`]; it is known why.
    #[error(
        "the store has no space left, and nothing can be kept: make room on its disk; what was acknowledged is safe"
    )]
    Full,
    /// The store refused the batch for good; nothing of it was kept.
    #[error("the store refused the change; see the manager's log")]
    Failed,
    #[error("the manager is stopping")]
    Stopped,
}

pub(super) type Answer = Result<Reply, EngineError>;

/// What the engine's task makes of a command.
#[derive(Debug)]
pub(super) enum Heard {
    Reply(Reply),
    /// It is about a release that has left memory, and nothing is said before that is recalled.
    Missing(ReleaseKey),
}

/// An archive and the digest that names it.
pub(super) type NamedArchive = ([u8; 32], Bytes);

/// What lies in the mailbox.
pub(super) enum Envelope {
    Command {
        command: Arc<Command>,
        by: By,
        archive: Option<NamedArchive>,
        answer: oneshot::Sender<Result<Heard, EngineError>>,
    },
    /// Whoever reads wants to see the state as it is committed.
    Look(oneshot::Sender<Arc<Snapshot>>),
    EffectsDone(Vec<u64>),
    PointersGone(Vec<u64>),
    Effect {
        entry: Entry,
        stored: oneshot::Sender<()>,
    },
    Keep {
        setting: Setting,
        stored: oneshot::Sender<()>,
    },
    Stop(oneshot::Sender<()>),
}

/// A handle to the engine; cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    mailbox: mpsc::Sender<Envelope>,
    events: broadcast::Sender<Arc<Vec<AuditRow>>>,
    view: Arc<View>,
    reader: Arc<dyn Reader>,
    clock: Clock,
    pub(super) remembered: Arc<Remembered>,
}

/// An engine that was started, and the task that ends when it stops.
#[derive(Debug)]
pub struct Started {
    pub engine: Engine,
    /// Ends with an error if the lease was lost or the store is beyond repair.
    pub task: JoinHandle<Result<(), StoreError>>,
    /// Effects to be carried out: first those that an earlier life has left, then those of each commit.
    pub effects: mpsc::UnboundedReceiver<Due<Webhook>>,
    /// Likewise those that concern the parent.
    pub to_parent: mpsc::UnboundedReceiver<Due<ToParent>>,
}

/// Who carries out which effect.
#[derive(Debug)]
pub(super) struct Effects {
    webhooks: mpsc::UnboundedSender<Due<Webhook>>,
    to_parent: mpsc::UnboundedSender<Due<ToParent>>,
    view: Arc<View>,
}

impl Effects {
    /// Hands an entry of the outbox over; one that nobody takes, or that can't be read, is left in the store for the next life.
    /// `served_ms`: the serving time, for one that doesn't say when it came up.
    pub fn send(&self, row: &OutboxRow, served_ms: u64) {
        let served_ms = row.served_ms.unwrap_or(served_ms);
        // Whoever carries effects out may have ended before.
        match Entry::read(row) {
            Ok(Entry::Webhook(what)) => drop(self.webhooks.send(Due { row: row.id, served_ms, what })),
            Ok(Entry::Parent(what)) => drop(self.to_parent.send(Due { row: row.id, served_ms, what })),
            Err(error) => self.view.stats.unreadable.note_effect(row.id, &error),
        }
    }

    /// Shows where a strategy went; a pointer that can't be read is left in the store.
    pub fn point(&self, row: &PointerRow) {
        if let Err(error) = self.view.pointers.note(row) {
            self.view.stats.unreadable.note(&error);
        }
    }
}

/// Loads the store's state and starts the engine on it. When this returns, every call is answered as it would be later.
pub async fn start(
    mut writer: Box<dyn Writer>,
    reader: Arc<dyn Reader>,
    rules: Rules,
    settings: Settings,
) -> Result<Started, StoreError> {
    let mut loading = Loading::new(State::new(rules));
    writer.load(&mut loading).await?;
    let clock = Clock::start(settings.clock, writer.lease().served_ms);
    let (state, beside) = loading.finish(clock.served_ms());
    let view = Arc::new(View::default());
    let (mailbox, inbox) = mpsc::channel(MAILBOX);
    let (events, _) = broadcast::channel(EVENT_BACKLOG);
    let (webhooks, to_do) = mpsc::unbounded_channel();
    let (parent_sender, to_parent) = mpsc::unbounded_channel();
    let effects = Effects { webhooks, to_parent: parent_sender, view: Arc::clone(&view) };
    for row in &beside.outbox {
        effects.send(row, clock.served_ms());
    }
    for row in &beside.pointers {
        effects.point(row);
    }
    for row in &beside.settings {
        if let Err(error) = view.kept.load(row) {
            view.stats.unreadable.note(&error);
        }
    }
    let task = Task::new(state, writer, Arc::clone(&view), clock.clone(), events.clone(), effects, settings);
    let engine = Engine { mailbox, events, view, reader, clock, remembered: Arc::default() };
    let (ready, is_ready) = oneshot::channel();
    let task = tokio::spawn(task::run(task, inbox, ready));
    let ended = || StoreError::Unavailable("the engine ended".into());
    if is_ready.await.is_err() {
        return Err(task.await.unwrap_or(Ok(())).err().unwrap_or_else(ended));
    }
    if engine.view.kept.identity().is_empty() {
        let fresh = fresh_identity();
        if engine.keep(Setting::Identity(fresh.clone())).await.is_err() {
            return Err(task.await.unwrap_or(Ok(())).err().unwrap_or_else(ended));
        }
        engine.view.kept.name_self(fresh);
    }
    Ok(Started { engine, task, effects: to_do, to_parent })
}

#[expect(clippy::disallowed_methods, reason = "once in the life of a store, and nothing else depends on it")]
fn fresh_identity() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

impl EngineError {
    /// Whether the same call may be answered another time.
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Busy | Self::Full)
    }
}

impl Engine {
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    pub fn reader(&self) -> &Arc<dyn Reader> {
        &self.reader
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What was met in the store that can't be read.
    pub fn unreadable(&self) -> &Unreadable {
        &self.view.stats.unreadable
    }

    /// Commands that wait in the mailbox.
    pub fn backlog(&self) -> usize {
        self.mailbox.max_capacity() - self.mailbox.capacity()
    }

    /// Asks the engine and waits for the answer, which comes after the commit; at most `patience`.
    pub async fn call(&self, command: Command, by: By, patience: Duration) -> Answer {
        self.ask(command, by, None, patience).await
    }

    /// Submits a release together with the archive of its functions.
    pub async fn submit(
        &self,
        submission: Box<lifecycle::Submitted>,
        archive: Bytes,
        dry_run: bool,
        by: By,
        patience: Duration,
    ) -> Answer {
        let archive = Some((submission.archive, archive));
        self.ask(
            Command::Lifecycle(lifecycle::Command::Submit { submission, dry_run }),
            by,
            archive,
            patience,
        )
        .await
    }

    async fn ask(
        &self,
        command: Command,
        by: By,
        archive: Option<NamedArchive>,
        patience: Duration,
    ) -> Answer {
        let command = Arc::new(command);
        match self.send(Arc::clone(&command), by.clone(), archive, patience).await {
            Ok(Heard::Missing(key)) => self.recall(key, command, by, patience).await,
            Ok(Heard::Reply(reply)) => Ok(reply),
            Err(error) => Err(error),
        }
    }

    /// Answers a command about a release that has left memory.
    async fn recall(&self, key: ReleaseKey, command: Arc<Command>, by: By, patience: Duration) -> Answer {
        let then = || Box::new(Command::clone(&command));
        let whole = match recall::about_one_child(self, key, &command).await? {
            Recalled::Answered(answer) => return answer,
            Recalled::Whole(release) => release,
            Recalled::Part { part, as_of } => {
                let id = part.id.clone();
                let recalled = Arc::new(Command::RecalledPart { part, as_of, then: then() });
                match self.send(recalled, by.clone(), None, patience).await {
                    Ok(Heard::Missing(_)) => Box::new(recall::whole(self, id.as_str()).await?),
                    Ok(Heard::Reply(reply)) => return Ok(reply),
                    Err(error) => return Err(error),
                }
            }
        };
        Stats::count(&self.view().stats.recalls);
        let recalled = Arc::new(Command::Recalled { release: whole, then: then() });
        match self.send(recalled, by, None, patience).await? {
            Heard::Reply(reply) => Ok(reply),
            // Its id has become that of another release meanwhile, and that has left memory, too.
            Heard::Missing(_) => Err(EngineError::Busy),
        }
    }

    async fn send(
        &self,
        command: Arc<Command>,
        by: By,
        archive: Option<NamedArchive>,
        patience: Duration,
    ) -> Result<Heard, EngineError> {
        let (answer, answered) = oneshot::channel();
        let envelope = Envelope::Command { command, by, archive, answer };
        let call = async {
            self.mailbox.send(envelope).await.map_err(|_| EngineError::Stopped)?;
            answered.await.map_err(|_| EngineError::Stopped)?
        };
        self.if_serving(timeout(patience, call).await.unwrap_or_else(|_| Err(self.late())))
    }

    /// Why there was no answer in time.
    fn late(&self) -> EngineError {
        if self.view.is_store_full() { EngineError::Full } else { EngineError::Busy }
    }

    /// An answer, if it may be given yet: the process may have stood still since the engine sent it, and what it says
    /// may be another manager's to say now.
    fn if_serving<T>(&self, answer: Result<T, EngineError>) -> Result<T, EngineError> {
        match answer {
            Ok(_) | Err(EngineError::Refused(_)) if !self.clock.is_serving() => Err(self.late()),
            answer => answer,
        }
    }

    /// The state as it is committed, with everything that was acknowledged before this call. Nobody waits for whoever
    /// reads it; but what changes meanwhile is copied, so let go of it soon.
    pub async fn snapshot(&self, patience: Duration) -> Result<Arc<Snapshot>, EngineError> {
        let (answer, answered) = oneshot::channel();
        let call = async {
            self.mailbox.send(Envelope::Look(answer)).await.map_err(|_| EngineError::Stopped)?;
            answered.await.map_err(|_| EngineError::Stopped)
        };
        self.if_serving(timeout(patience, call).await.unwrap_or_else(|_| Err(self.late())))
    }

    /// Reads from a [`Self::snapshot`], on the thread of whoever calls.
    pub async fn read<T>(
        &self,
        patience: Duration,
        read: impl FnOnce(&Snapshot) -> T,
    ) -> Result<T, EngineError> {
        let snapshot = self.snapshot(patience).await?;
        self.if_serving(Ok(read(&snapshot)))
    }

    /// The same on a thread apart, for whoever walks over all children: other calls need not wait meanwhile.
    pub async fn read_apart<T: Send + 'static>(
        &self,
        patience: Duration,
        read: impl FnOnce(&Snapshot) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let snapshot = self.snapshot(patience).await?;
        self.if_serving(apart::run(move || read(&snapshot)).await)
    }

    /// Listens to the audit rows of each commit from now on.
    pub fn events(&self) -> broadcast::Receiver<Arc<Vec<AuditRow>>> {
        self.events.subscribe()
    }

    /// Effects of the outbox that were carried out.
    pub async fn effects_done(&self, ids: Vec<u64>) -> Result<(), EngineError> {
        self.mailbox.send(Envelope::EffectsDone(ids)).await.map_err(|_| EngineError::Stopped)
    }

    /// Pointers that make way.
    pub async fn pointers_gone(&self, keys: Vec<u64>) -> Result<(), EngineError> {
        self.mailbox.send(Envelope::PointersGone(keys)).await.map_err(|_| EngineError::Stopped)
    }

    /// Keeps something of this manager itself; when this returns, it is stored.
    pub async fn keep(&self, setting: Setting) -> Result<(), EngineError> {
        let (stored, is_stored) = oneshot::channel();
        let keep = Envelope::Keep { setting, stored };
        self.mailbox.send(keep).await.map_err(|_| EngineError::Stopped)?;
        is_stored.await.map_err(|_| EngineError::Stopped)
    }

    /// Puts something to be done into the outbox; when this returns, it is stored and handed over.
    pub async fn effect(&self, entry: Entry) -> Result<(), EngineError> {
        let (stored, is_stored) = oneshot::channel();
        let effect = Envelope::Effect { entry, stored };
        self.mailbox.send(effect).await.map_err(|_| EngineError::Stopped)?;
        is_stored.await.map_err(|_| EngineError::Stopped)
    }

    /// Commits what is in the mailbox, gives the lease back and ends the task.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.mailbox.send(Envelope::Stop(done)).await.is_ok() {
            let _ = stopped.await;
        }
    }
}
