//! What all that hand events over and take them have in common.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};

use super::{basics::lock, resource::Resources, routes::Routes, samples::Samples, store::Store};

/// Senders whose turns are held; beyond these, those of nobody are let go of.
const MAX_TURNS: usize = 1_000;

/// Events that a part takes at once; further senders come again.
const AT_ONCE: usize = 16;

#[derive(Debug)]
pub(super) struct Inner {
    pub store: Store,
    pub routes: watch::Sender<Arc<Routes>>,
    /// Instances and targets between which somebody hands events over, and who does.
    pub busy: Mutex<HashSet<(String, String)>>,
    pub deliveries: Mutex<JoinSet<()>>,
    pub turns: Turns,
    /// By part and sender: an event that was taken, and of which that can't be written yet.
    pub unwritten: Mutex<HashMap<(String, String), u64>>,
    pub client: reqwest::Client,
    pub resources: Resources,
    pub samples: Arc<Samples>,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

/// One event of a sender is taken after the other: by part and sender.
#[derive(Debug, Default)]
pub(super) struct Turns {
    of_senders: Mutex<HashMap<(String, String), Turn>>,
    of_parts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Turns {
    pub fn of(&self, part: &str, from: &str) -> Turn {
        let mut turns = lock(&self.of_senders);
        if turns.len() >= MAX_TURNS {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry((part.to_owned(), from.to_owned())).or_default())
    }

    /// None: the part has enough in hand.
    pub fn place(&self, part: &str) -> Option<OwnedSemaphorePermit> {
        let mut parts = lock(&self.of_parts);
        if parts.len() >= MAX_TURNS {
            parts.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let places = parts.entry(part.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
        Arc::clone(places).try_acquire_owned().ok()
    }
}
