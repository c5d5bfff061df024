//! What commits have touched of nodes and workflows, for whoever keeps a copy of these elsewhere.
//!
//! Nothing is queued: whoever takes what is noted here looks at the state, and writes what stands there now. So what changed twice is
//! written once, and a copy that was out of reach costs the engine no more than one set of numbers.

use std::{
    collections::BTreeSet,
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use domain::workflows::{PartKey, WorkflowKey};
use model::ChildKey;

/// More than these are not listed one by one.
const MAX_LISTED: usize = 10_000;

/// What may differ from what was looked at before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noted {
    /// Everything may.
    pub all: bool,
    pub children: BTreeSet<ChildKey>,
    pub parts: BTreeSet<PartKey>,
    /// Workflows that have begun, stop or are gone.
    pub workflows: BTreeSet<WorkflowKey>,
}

impl Noted {
    fn is_empty(&self) -> bool {
        !self.all && self.children.is_empty() && self.parts.is_empty() && self.workflows.is_empty()
    }

    /// The same and more.
    pub fn add(&mut self, mut other: Self) {
        self.all |= other.all;
        self.children.append(&mut other.children);
        self.parts.append(&mut other.parts);
        self.workflows.append(&mut other.workflows);
        if self.all || self.children.len() + self.parts.len() + self.workflows.len() > MAX_LISTED {
            *self = Self { all: true, ..Self::default() };
        }
    }
}

/// Notes for one listener.
#[derive(Debug, Default)]
pub struct Changed {
    /// None: nobody listens.
    noted: Mutex<Option<Noted>>,
    told: Notify,
    is_copied: AtomicBool,
}

impl Changed {
    /// From now on it is noted what commits touch. Whoever listens has to look at everything first.
    pub fn listen(&self) {
        self.noted().get_or_insert_default().all = true;
        self.told.notify_one();
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.noted().is_some()
    }

    pub(crate) fn note(&self, noted: Noted) {
        if noted.is_empty() {
            return;
        }
        if let Some(before) = self.noted().as_mut() {
            before.add(noted);
            self.told.notify_one();
        }
    }

    /// Waits until something is noted, and takes it.
    pub async fn next(&self) -> Noted {
        loop {
            let noted = self.noted().as_mut().map(mem::take).filter(|noted| !noted.is_empty());
            match noted {
                Some(noted) => return noted,
                None => self.told.notified().await,
            }
        }
    }

    /// Whether the copy follows; what was so before.
    pub fn set_copied(&self, is_copied: bool) -> bool {
        self.is_copied.swap(is_copied, Ordering::Relaxed)
    }

    /// Whether the copy follows; none: there is none.
    #[must_use]
    pub fn is_copied(&self) -> Option<bool> {
        self.is_heard().then(|| self.is_copied.load(Ordering::Relaxed))
    }

    fn noted(&self) -> MutexGuard<'_, Option<Noted>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
