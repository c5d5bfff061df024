//! What all that hand events over and take them have in common.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::watch, task::JoinSet};

use super::{resource::Resources, routes::Routes, store::Store};

/// Senders whose turns are held; beyond these, those of nobody are let go of.
const MAX_TURNS: usize = 1_000;

#[derive(Debug)]
pub(super) struct Inner {
    pub store: Store,
    pub routes: watch::Sender<Arc<Routes>>,
    /// Instances and targets between which somebody hands events over, and who does.
    pub busy: Mutex<HashSet<(String, String)>>,
    pub deliveries: Mutex<JoinSet<()>>,
    pub turns: Turns,
    pub client: reqwest::Client,
    pub resources: Resources,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Turn = Arc<tokio::sync::Mutex<()>>;

/// One event of a sender is taken after the other: by part and sender.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<(String, String), Turn>>);

impl Turns {
    pub fn of(&self, part: &str, from: &str) -> Turn {
        let mut turns = lock(&self.0);
        if turns.len() >= MAX_TURNS {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry((part.to_owned(), from.to_owned())).or_default())
    }
}
