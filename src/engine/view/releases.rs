//! Releases as calls of children need them: those in memory with their offers, and the numbers of all that the store knows.

use std::{
    borrow::Cow,
    collections::{HashMap as StdHashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use papaya::HashMap;

use super::secret_ids::{OfferKey, SecretIds};
use crate::pace::{self, Pace};
use domain::release::{
    command::Form,
    offer::OfferName,
    settings::Settings,
    state::{Release, Snapshot},
};
use language::Strategy;
use model::{ReleaseId, ReleaseKey};

/// What readers know of a release in memory.
#[derive(Debug)]
pub struct ReleaseEntry {
    pub key: ReleaseKey,
    pub id: ReleaseId,
    pub strategy: Arc<Strategy>,
    pub archive: [u8; 32],
    pub pace: Arc<Pace>,
    is_paused: AtomicBool,
    /// Rendered offers, under their own id or the secret one.
    texts: HashMap<(OfferName, Form, bool), Bytes>,
}

impl ReleaseEntry {
    fn of(release: &Release, settings: &Settings) -> Self {
        Self {
            key: release.key,
            id: release.id.clone(),
            strategy: Arc::clone(&release.strategy),
            archive: release.archive,
            pace: Arc::new(Pace::of(release, settings)),
            is_paused: AtomicBool::new(release.is_paused()),
            texts: HashMap::new(),
        }
    }

    /// The same release by another strategy: what was rendered isn't what is handed out any more. Who waits for a place waits on.
    fn with_strategy(&self, strategy: &Arc<Strategy>) -> Self {
        Self {
            key: self.key,
            id: self.id.clone(),
            strategy: Arc::clone(strategy),
            archive: self.archive,
            pace: Arc::clone(&self.pace),
            is_paused: AtomicBool::new(self.is_paused()),
            texts: HashMap::new(),
        }
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Whether `offer` is the id of its offer `name`.
    pub fn offers(&self, offer: &str, name: OfferName) -> bool {
        let suffix = offer.strip_prefix(self.id.as_str());
        suffix.is_some_and(|suffix| OfferName::parse_suffix(suffix) == Some(name))
    }

    /// The text of an offer under an id, its own or the secret one, rendered once.
    pub fn text(&self, id: &str, name: OfferName, form: Form, render: impl FnOnce() -> String) -> Bytes {
        let texts = self.texts.pin();
        let known = (name, form, !self.offers(id, name));
        if let Some(text) = texts.get(&known) {
            return text.clone();
        }
        let text = Bytes::from(render());
        texts.insert(known, text.clone());
        text
    }
}

/// The offer id, split into a release that is known and the name of one of its offers.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub release: ReleaseKey,
    pub name: OfferName,
}

/// Releases as calls see them, by number and by id.
#[derive(Debug, Default)]
pub struct Releases {
    in_memory: HashMap<u32, Arc<ReleaseEntry>>,
    known: HashMap<ReleaseId, ReleaseKey>,
    secret_ids: SecretIds,
}

impl Releases {
    /// Releases that the store knows.
    pub fn known_count(&self) -> usize {
        self.known.len()
    }

    /// A release in memory.
    pub fn get(&self, key: ReleaseKey) -> Option<Arc<ReleaseEntry>> {
        self.in_memory.pin().get(&key.0).cloned()
    }

    /// Works with a release in memory in place.
    pub fn with<T>(&self, key: ReleaseKey, look: impl FnOnce(&ReleaseEntry) -> T) -> Option<T> {
        self.in_memory.pin().get(&key.0).map(|entry| look(entry))
    }

    /// The id of the offer `name` of the release `key`, if that is in memory.
    pub fn offer_id(&self, key: ReleaseKey, name: OfferName) -> Option<String> {
        self.with(key, |release| name.id(release.id.as_str()))
    }

    /// Before any release is known.
    pub(crate) fn keep_secret(&self, key: OfferKey) {
        self.secret_ids.begin(key);
    }

    /// The id under which a child that says nothing of itself is offered this.
    pub fn secret_of<'o>(&self, offer: &'o str) -> Cow<'o, str> {
        let known = self.known.pin();
        let secret = OfferName::candidates(offer).find_map(|(id, name)| {
            let (id, key) = known.get_key_value(id)?;
            Some(name.id(&self.secret_ids.of(*key, id)?))
        });
        secret.map_or(Cow::Borrowed(offer), Cow::Owned)
    }

    /// The own id of an offer, of which this may be the secret one.
    pub fn own_id<'o>(&self, offer: &'o str) -> Cow<'o, str> {
        self.secret_ids.open(offer).map_or(Cow::Borrowed(offer), Cow::Owned)
    }

    /// The release, over or not, that an offer id belongs to.
    pub fn resolve(&self, offer: &str) -> Option<Resolved> {
        let known = self.known.pin();
        OfferName::candidates(offer).find_map(|(id, name)| Some(Resolved { release: *known.get(id)?, name }))
    }

    /// The number of the release of exactly this id, over or not.
    pub fn key_of(&self, id: &str) -> Option<ReleaseKey> {
        self.known.pin().get(id).copied()
    }

    /// Whether any release, over or not, has an id of which this is so. Looks through all.
    pub fn any_id(&self, is_so: impl Fn(&str) -> bool) -> bool {
        self.known.pin().keys().any(|id| is_so(id.as_str()))
    }

    /// The ids of some releases, over or not. Looks through all.
    pub fn ids_of(&self, keys: &HashSet<ReleaseKey>) -> StdHashMap<ReleaseKey, ReleaseId> {
        let known = self.known.pin();
        let wanted = known.iter().filter(|(_, key)| keys.contains(key));
        wanted.map(|(id, key)| (*key, id.clone())).collect()
    }

    /// The id of the release, over or not, that an offer id belongs to.
    pub fn id_of(&self, offer: &str) -> Option<ReleaseId> {
        let known = self.known.pin();
        OfferName::candidates(offer).find_map(|(id, _)| known.get_key_value(id).map(|(id, _)| id.clone()))
    }

    pub(super) fn uses(&self, archive: &[u8; 32]) -> bool {
        self.in_memory.pin().values().any(|release| release.archive == *archive)
    }

    /// Shows what is committed of a release; true: it is paused now and was not, or the other way round.
    pub(super) fn publish(&self, state: &Snapshot, key: ReleaseKey) -> bool {
        let in_memory = self.in_memory.pin();
        let Some(release) = state.release(key) else {
            in_memory.remove(&key.0);
            return false;
        };
        let Some(entry) = in_memory.get(&key.0) else {
            self.know(&release.id, key);
            in_memory.insert(key.0, Arc::new(ReleaseEntry::of(release, &state.settings)));
            return false;
        };
        entry.pace.renew(release);
        let is_paused = release.is_paused();
        let was_paused = entry.is_paused.swap(is_paused, Ordering::Relaxed);
        if !Arc::ptr_eq(&entry.strategy, &release.strategy) {
            in_memory.insert(key.0, Arc::new(entry.with_strategy(&release.strategy)));
        }
        was_paused != is_paused
    }

    /// Tells where there are places, of the releases that limit how many are in progress.
    pub(crate) fn publish_places(&self, state: &Snapshot) {
        for release in pace::limited(state) {
            self.with(release.key, |entry| entry.pace.renew(release));
        }
    }

    pub(crate) fn know(&self, id: &ReleaseId, key: ReleaseKey) {
        self.known.pin().insert(id.clone(), key);
        self.secret_ids.know(key, id);
    }

    /// It has left the history. The id may be another's by now.
    pub(crate) fn forget(&self, id: &ReleaseId, key: ReleaseKey) {
        self.secret_ids.forget(key, id);
        let known = self.known.pin();
        if known.get(id) == Some(&key) {
            known.remove(id);
        }
    }
}
