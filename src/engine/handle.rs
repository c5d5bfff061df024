//! How everybody else speaks to the engine.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast, mpsc, oneshot},
    time::timeout,
};

use super::{
    audit, blocking,
    clock::Clock,
    effect::Entry,
    error::{EngineError, unwritable},
    mailbox::{By, Decision, Envelope, NamedArchive},
    principals::Principal,
    settings::{Setting, Tenant, TenantChange},
    speed_classes::ClassesCache,
    unreadable::Unreadable,
    view::View,
};
use domain::release::{
    command::Command,
    speed_classes::{Begun, Classes},
    state::Snapshot,
};
use model::ReleaseKey;
use store::{Reader, StoreError, rows::AuditRow};

/// A handle to the engine; cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(super) mailbox: mpsc::Sender<Envelope>,
    pub(super) events: broadcast::Sender<Arc<Vec<AuditRow>>>,
    pub(super) view: Arc<View>,
    pub(super) reader: Arc<dyn Reader>,
    pub(super) clock: Clock,
    pub(super) remembered: Arc<ClassesCache>,
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

    /// The classes of the children of a release: by what they reported in the last release of the function that ended well
    /// before it.
    pub async fn classes(&self, release: ReleaseKey, begun: Begun) -> Result<Arc<Classes>, StoreError> {
        self.remembered.classes(self.reader.as_ref(), release, begun).await
    }

    /// Commands that wait in the mailbox.
    pub fn backlog(&self) -> usize {
        self.mailbox.max_capacity() - self.mailbox.capacity()
    }

    /// Puts a command into the mailbox, and waits for what is decided on what is in memory.
    pub(super) async fn send(
        &self,
        command: Arc<Command>,
        by: By,
        archive: Option<NamedArchive>,
        time_limit: Duration,
    ) -> Result<Decision, EngineError> {
        let (answer, answered) = oneshot::channel();
        let envelope = Envelope::Command { command, by, archive, answer };
        let call = async {
            self.mailbox.send(envelope).await.map_err(|_| EngineError::Stopped)?;
            answered.await.map_err(|_| EngineError::Stopped)?
        };
        self.if_serving(timeout(time_limit, call).await.unwrap_or_else(|_| Err(self.late())))
    }

    /// Why there was no answer in time.
    pub(super) fn late(&self) -> EngineError {
        if self.view.is_store_full() { EngineError::Full } else { EngineError::Busy }
    }

    /// An answer, if it may be given yet: the process may have stood still since the engine sent it, and what it says
    /// may be another manager's to say now.
    pub(super) fn if_serving<T>(&self, answer: Result<T, EngineError>) -> Result<T, EngineError> {
        match answer {
            Ok(_) | Err(EngineError::Refused(_)) if !self.clock.is_serving() => Err(self.late()),
            answer => answer,
        }
    }

    /// The state as it is committed, with everything that was acknowledged before this call. Nobody waits for whoever
    /// reads it; but what changes meanwhile is copied, so let go of it soon.
    pub async fn snapshot(&self, time_limit: Duration) -> Result<Arc<Snapshot>, EngineError> {
        let (answer, answered) = oneshot::channel();
        let call = async {
            self.mailbox.send(Envelope::Look(answer)).await.map_err(|_| EngineError::Stopped)?;
            answered.await.map_err(|_| EngineError::Stopped)
        };
        self.if_serving(timeout(time_limit, call).await.unwrap_or_else(|_| Err(self.late())))
    }

    /// Reads from a [`Self::snapshot`], on the thread of whoever calls.
    pub async fn read<T>(
        &self,
        time_limit: Duration,
        read: impl FnOnce(&Snapshot) -> T,
    ) -> Result<T, EngineError> {
        let snapshot = self.snapshot(time_limit).await?;
        self.if_serving(Ok(read(&snapshot)))
    }

    /// Reads from a [`Self::snapshot`] on a thread apart, for whoever walks over all children: other calls need not wait
    /// meanwhile.
    pub async fn read_apart<T: Send + 'static>(
        &self,
        time_limit: Duration,
        read: impl FnOnce(&Snapshot) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let snapshot = self.snapshot(time_limit).await?;
        self.if_serving(blocking::run(move || read(&snapshot)).await)
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
        let keep = Envelope::Keep { setting, event: None, stored };
        self.mailbox.send(keep).await.map_err(|_| EngineError::Stopped)?;
        is_stored.await.map_err(|_| EngineError::Stopped)
    }

    /// As [`Self::keep`], with what is said of it in the audit trail.
    pub(super) async fn keep_setting(
        &self,
        setting: Setting,
        by: By,
        event: String,
        time_limit: Duration,
    ) -> Result<(), EngineError> {
        let (stored, is_stored) = oneshot::channel();
        let keep = Envelope::Keep { setting, event: Some((by.actor, event)), stored };
        let call = async {
            self.mailbox.send(keep).await.map_err(|_| EngineError::Stopped)?;
            is_stored.await.map_err(|_| EngineError::Failed)
        };
        self.if_serving(timeout(time_limit, call).await.unwrap_or_else(|_| Err(self.late())))
    }

    /// Keeps a tenant as it is from now on; when this returns, it is stored, and holds.
    pub async fn keep_tenant(
        &self,
        tenant: Tenant,
        done: TenantChange,
        by: By,
        time_limit: Duration,
    ) -> Result<(), EngineError> {
        let event = audit::tenant(&tenant, done, by.note.as_deref()).map_err(|error| unwritable(&error))?;
        self.keep_setting(Setting::Tenant(tenant), by, event, time_limit).await
    }

    /// Writes down tenants and users, where they are not known already; when this returns, they are stored.
    ///
    /// # Errors
    ///
    /// As those of other calls.
    pub async fn know(&self, known: Vec<Principal>, time_limit: Duration) -> Result<(), EngineError> {
        if known.is_empty() {
            return Ok(());
        }
        let (stored, is_stored) = oneshot::channel();
        let call = async {
            let envelope = Envelope::Know { known, stored };
            self.mailbox.send(envelope).await.map_err(|_| EngineError::Stopped)?;
            is_stored.await.map_err(|_| EngineError::Failed)
        };
        self.if_serving(timeout(time_limit, call).await.unwrap_or_else(|_| Err(self.late())))
    }

    /// Writes something into the audit trail that is no change of the state; when this returns, it is stored.
    pub(super) async fn note(&self, event: String, by: By, time_limit: Duration) -> Result<(), EngineError> {
        let (stored, is_stored) = oneshot::channel();
        let note = Envelope::Note { event: (by.actor, event), stored };
        let call = async {
            self.mailbox.send(note).await.map_err(|_| EngineError::Stopped)?;
            is_stored.await.map_err(|_| EngineError::Failed)
        };
        self.if_serving(timeout(time_limit, call).await.unwrap_or_else(|_| Err(self.late())))
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
