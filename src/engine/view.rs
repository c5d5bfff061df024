//! What readers see: published after each commit, read without locks.
//!
//! A child's turn is one 64-bit word, so that a reader never sees half of a change:
//!
//! | bits | |
//! |---|---|
//! | 24 | release |
//! | 10 | attempt that the offer's name carries |
//! | 13 | piece: kind (2) and index or number (11) |
//! | 7 | slot of the current stage |
//! | 3 | its status |
//! | 3 | mode |
//!
//! Where the word can't say everything (a newborn, a child that was taken for lost) its mode says "ask the engine".

use std::{
    collections::{HashMap as StdHashMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use papaya::HashMap;

use super::{
    directory::Directory,
    lineage::Lineage,
    open_questions::Questions,
    pace::{self, Pace},
    pointers::Pointers,
    stats::Stats,
    waiters::Waiters,
};
use heart::{
    children::Child,
    release::{
        assignment::{Assignment, Slot},
        command::{Form, Seen},
        offer::{OfferKind, OfferName},
        settings::Settings,
        state::{Release, State},
        turn::{Turn, turn},
    },
};
use language::Strategy;
use model::{ChildKey, ChildKind, ReleaseId, ReleaseKey, StageStatus, pages::Pages};

pub use super::directory::ChildEntry;

/// Releases that fit into a turn. One more is refused at submission.
pub const MAX_RELEASES: u32 = 1 << 24;

/// Bytes of function archives kept in memory beside those of the open releases.
const ARCHIVE_CACHE_BYTES: usize = 256 * 1024 * 1024;

/// Children whose polls were not understood, remembered for operators.
pub const MAX_UNKNOWN_CALLERS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Idle = 0,
    /// An offer waits.
    Offer = 1,
    /// An offer was downloaded and is not over.
    InHand = 2,
    /// Only the engine knows what to answer.
    Ask = 3,
    /// It waits for a place; where there is one, the engine gives it.
    Queued = 4,
    /// A manager has an offer in hand: what it is handed and told of that, only the engine knows.
    Leads = 5,
    /// As [`Self::Ask`]: another id has taken its place.
    Replaced = 6,
}

/// A child's turn, unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    pub mode: Mode,
    pub release: ReleaseKey,
    pub name: OfferName,
    pub slot: Slot,
    pub stage_status: StageStatus,
}

const IDLE: u64 = Mode::Idle as u64;
const ASK: u64 = Mode::Ask as u64;
const REPLACED: u64 = Mode::Replaced as u64;

impl Published {
    fn pack(self) -> u64 {
        let (kind, number) = match self.name.kind {
            OfferKind::First => (0_u64, 0_u64),
            OfferKind::Stage(index) => (1, u64::from(index)),
            OfferKind::Rollout(function) => (2, u64::from(function)),
            OfferKind::Undo(number) => (3, u64::from(number)),
        };
        u64::from(self.release.0) << 36
            | u64::from(self.name.attempt) << 26
            | kind << 24
            | number << 13
            | u64::from(self.slot.0) << 6
            | u64::from(self.stage_status.wire()) << 3
            | self.mode as u64
    }

    pub(super) fn unpack(word: u64) -> Self {
        let number = (word >> 13) & 0x7ff;
        let kind = match (word >> 24) & 0x3 {
            0 => OfferKind::First,
            1 => OfferKind::Stage(number as u8),
            2 => OfferKind::Rollout(number as u8),
            _ => OfferKind::Undo(number as u16),
        };
        Self {
            mode: match word & 0x7 {
                0 => Mode::Idle,
                1 => Mode::Offer,
                2 => Mode::InHand,
                4 => Mode::Queued,
                5 => Mode::Leads,
                6 => Mode::Replaced,
                _ => Mode::Ask,
            },
            release: ReleaseKey((word >> 36) as u32),
            name: OfferName { attempt: ((word >> 26) & 0x3ff) as u16, kind },
            slot: Slot(((word >> 6) & 0x7f) as u8),
            stage_status: StageStatus::from_wire((word >> 3) & 0x7).unwrap_or(StageStatus::Pending),
        }
    }
}

/// The word for a child, from the state.
fn word(state: &State, key: ChildKey, child: &Child) -> u64 {
    if child.replaced.is_some() {
        return REPLACED;
    }
    let doubted = child
        .open
        .iter()
        .filter_map(|release| state.assignment(*release, key))
        .any(|assignment| assignment.rare().successor.is_some());
    if !child.called_again || doubted {
        return ASK;
    }
    let published = match turn(state, key) {
        Turn::Idle => return IDLE,
        Turn::Queued { release } => Published {
            mode: Mode::Queued,
            release,
            name: OfferName { attempt: 1, kind: OfferKind::First },
            slot: Slot(0),
            stage_status: StageStatus::Pending,
        },
        // Its next poll shows that it has nothing else in hand any more.
        Turn::Offer { name: OfferName { kind: OfferKind::Undo(_), .. }, .. }
            if has_in_hand(state, key, child) =>
        {
            return ASK;
        }
        Turn::Offer { release, name } => {
            Published { mode: Mode::Offer, release, name, slot: Slot(0), stage_status: StageStatus::Pending }
        }
        Turn::Busy { release, undo } => {
            let Some(assignment) =
                state.assignment(release, key).filter(|found| undo || !found.acts_by_itself())
            else {
                return ASK;
            };
            let name = match assignment.pending_undo().filter(|_| undo) {
                Some(undo) => OfferName::undo(undo.number),
                None => assignment.offer_name(),
            };
            let is_manager = assignment.is_whole();
            Published {
                mode: if is_manager { Mode::Leads } else { Mode::InHand },
                release,
                name,
                slot: assignment.slot,
                stage_status: assignment.stage_status,
            }
        }
    };
    published.pack()
}

/// Whether an agent has something in hand that was taken back meanwhile.
fn has_in_hand(state: &State, key: ChildKey, child: &Child) -> bool {
    let parts = child.open.iter().filter_map(|release| state.assignment(*release, key));
    child.kind() == ChildKind::Agent && parts.into_iter().any(Assignment::is_in_hand)
}

/// What readers know of a release in memory.
#[derive(Debug)]
pub struct ReleaseEntry {
    pub key: ReleaseKey,
    pub id: ReleaseId,
    pub strategy: Arc<Strategy>,
    pub archive: [u8; 32],
    pub pace: Pace,
    is_paused: AtomicBool,
    /// Rendered offers.
    texts: HashMap<(OfferName, Form), Bytes>,
}

impl ReleaseEntry {
    fn of(release: &Release, settings: &Settings) -> Self {
        Self {
            key: release.key,
            id: release.id.clone(),
            strategy: Arc::clone(&release.strategy),
            archive: release.archive,
            pace: Pace::of(release, settings),
            is_paused: AtomicBool::new(release.is_paused()),
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

    /// The text of an offer, rendered once.
    pub fn text(&self, name: OfferName, form: Form, render: impl FnOnce() -> String) -> Bytes {
        let texts = self.texts.pin();
        if let Some(text) = texts.get(&(name, form)) {
            return text.clone();
        }
        let text = Bytes::from(render());
        texts.insert((name, form), text.clone());
        text
    }
}

/// A call by somebody who is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCaller {
    pub id: String,
    pub call: &'static str,
    pub count: u64,
    pub last_ms: i64,
}

/// Entries on a page.
const ON_A_PAGE: usize = 64;

type ByKey = Pages<Option<ChildEntry>, ON_A_PAGE>;

/// See the module's text.
pub struct View {
    children: Directory,
    /// The same entries by number. Calls don't touch it: the engine's task does, and whoever looks at all children.
    by_key: RwLock<ByKey>,
    releases: HashMap<u32, Arc<ReleaseEntry>>,
    known: HashMap<ReleaseId, ReleaseKey>,
    archives: HashMap<[u8; 32], Bytes>,
    archive_order: Mutex<Vec<[u8; 32]>>,
    unknown: Mutex<Vec<UnknownCaller>>,
    /// Serving time at which this life began. Nobody was listening before, so no silence is older.
    listening_since: AtomicU64,
    /// Serving time of what the engine decides at the moment.
    deciding_at: AtomicU64,
    draining: AtomicBool,
    /// Whether the store has no space left.
    store_full: AtomicBool,
    /// The id of this manager among managers; it never changes.
    manager_id: OnceLock<String>,
    /// Releases that went up.
    pub pointers: Pointers,
    /// Calls that wait for a child's turn to change.
    pub waiters: Waiters,
    /// What managers below are asked.
    pub questions: Questions,
    /// This manager and those above it.
    pub lineage: Lineage,
    pub stats: Stats,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("children", &self.children.len()).finish_non_exhaustive()
    }
}

impl Default for View {
    fn default() -> Self {
        Self {
            children: Directory::default(),
            by_key: RwLock::default(),
            releases: HashMap::new(),
            known: HashMap::new(),
            archives: HashMap::new(),
            archive_order: Mutex::new(Vec::new()),
            unknown: Mutex::new(Vec::new()),
            listening_since: AtomicU64::new(0),
            deciding_at: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            store_full: AtomicBool::new(false),
            manager_id: OnceLock::new(),
            pointers: Pointers::default(),
            waiters: Waiters::default(),
            questions: Questions::default(),
            lineage: Lineage::default(),
            stats: Stats::default(),
        }
    }
}

impl Seen for View {
    fn last_call(&self, child: ChildKey) -> Option<u64> {
        // Who waits for an answer is calling, however long ago the call began.
        if self.waiters.is_waiting(child) {
            return Some(self.deciding_at.load(Ordering::Relaxed));
        }
        Some(self.noticed(child).unwrap_or(0).max(self.listening_since.load(Ordering::Relaxed)))
    }

    fn called_since(&self, child: ChildKey, served_ms: u64) -> bool {
        self.waiters.is_waiting(child) || self.noticed(child).is_some_and(|last| last > served_ms)
    }
}

/// The offer id, split into a release that is known and the name of one of its offers.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub release: ReleaseKey,
    pub name: OfferName,
}

impl View {
    /// Whether nothing can be stored because the store has no space left.
    pub fn is_store_full(&self) -> bool {
        self.store_full.load(Ordering::Relaxed)
    }

    pub(super) fn set_store_full(&self, full: bool) {
        self.store_full.store(full, Ordering::Relaxed);
    }

    /// The id of this manager among managers: the same for the life of its store.
    pub fn manager_id(&self) -> &str {
        self.manager_id.get().map_or("", String::as_str)
    }

    pub(super) fn name_manager(&self, id: String) {
        let _ = self.manager_id.set(id);
    }

    /// Looks a child up and works with it in place.
    pub fn with_child<T>(&self, id: &str, look: impl FnOnce(&ChildEntry) -> T) -> Option<T> {
        self.children.get(id).map(|entry| look(&entry))
    }

    pub fn child(&self, id: &str) -> Option<ChildEntry> {
        self.children.get(id)
    }

    /// Releases that the store knows.
    pub fn known_count(&self) -> usize {
        self.known.len()
    }

    pub fn child_count(&self) -> usize {
        self.children.len()
    }

    /// A release in memory.
    pub fn release(&self, key: ReleaseKey) -> Option<Arc<ReleaseEntry>> {
        self.releases.pin().get(&key.0).cloned()
    }

    /// Works with a release in memory in place.
    pub fn with_release<T>(&self, key: ReleaseKey, look: impl FnOnce(&ReleaseEntry) -> T) -> Option<T> {
        self.releases.pin().get(&key.0).map(|entry| look(entry))
    }

    /// The id of the offer `name` of the release `key`, if that is in memory.
    pub fn offer_id(&self, key: ReleaseKey, name: OfferName) -> Option<String> {
        self.with_release(key, |release| name.id(release.id.as_str()))
    }

    /// The release, over or not, that an offer id belongs to.
    pub fn resolve(&self, offer: &str) -> Option<Resolved> {
        let known = self.known.pin();
        OfferName::candidates(offer).find_map(|(id, name)| Some(Resolved { release: *known.get(id)?, name }))
    }

    /// The number of the release of exactly this id, over or not.
    pub fn release_key(&self, id: &str) -> Option<ReleaseKey> {
        self.known.pin().get(id).copied()
    }

    /// The ids of some releases, over or not. Looks through all.
    pub fn release_ids(&self, keys: &HashSet<ReleaseKey>) -> StdHashMap<ReleaseKey, ReleaseId> {
        let known = self.known.pin();
        let wanted = known.iter().filter(|(_, key)| keys.contains(key));
        wanted.map(|(id, key)| (*key, id.clone())).collect()
    }

    /// The id of any release ever.
    pub fn release_id(&self, offer: &str) -> Option<ReleaseId> {
        let known = self.known.pin();
        OfferName::candidates(offer).find_map(|(id, _)| known.get_key_value(id).map(|(id, _)| id.clone()))
    }

    pub fn archive(&self, digest: &[u8; 32]) -> Option<Bytes> {
        self.archives.pin().get(digest).cloned()
    }

    /// Keeps an archive in memory; those of releases that are over make room first.
    pub fn keep_archive(&self, digest: [u8; 32], bytes: Bytes) {
        let archives = self.archives.pin();
        if archives.insert(digest, bytes).is_some() {
            return;
        }
        let mut order = self.archive_order.lock().unwrap_or_else(PoisonError::into_inner);
        order.push(digest);
        let in_use: Vec<[u8; 32]> = self.releases.pin().values().map(|release| release.archive).collect();
        let mut total: usize = order.iter().filter_map(|digest| archives.get(digest)).map(Bytes::len).sum();
        order.retain(|old| {
            let keep = total <= ARCHIVE_CACHE_BYTES || *old == digest || in_use.contains(old);
            if !keep && let Some(bytes) = archives.remove(old) {
                total -= bytes.len();
            }
            keep
        });
    }

    pub(super) fn listen_from(&self, served_ms: u64) {
        self.listening_since.store(served_ms, Ordering::Relaxed);
    }

    pub(super) fn decide_at(&self, served_ms: u64) {
        self.deciding_at.store(served_ms, Ordering::Relaxed);
    }

    /// Whether a shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Notes a call by somebody who is not known, for operators.
    pub fn note_unknown(&self, id: &str, call: &'static str, wall_ms: i64) {
        let id: String = id.chars().filter(|c| !c.is_control()).take(model::MAX_OFFER_ID_LEN).collect();
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = unknown.iter_mut().find(|caller| caller.id == id && caller.call == call) {
            known.count += 1;
            known.last_ms = wall_ms;
            return;
        }
        if unknown.len() >= MAX_UNKNOWN_CALLERS {
            unknown.remove(0);
        }
        unknown.push(UnknownCaller { id, call, count: 1, last_ms: wall_ms });
    }

    pub fn unknown_callers(&self) -> Vec<UnknownCaller> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Children that have not called for `silence_ms`, without those that come back under another id. As for deadlines,
    /// no silence is older than this life.
    pub fn silent_children(&self, served_ms: u64, silence_ms: u64) -> usize {
        let since = self.listening_since();
        let is_silent = |entry: &&ChildEntry| {
            let last = entry.last_call().unwrap_or(0).max(since);
            served_ms.saturating_sub(last) >= silence_ms && entry.turn().mode != Mode::Replaced
        };
        self.by_key().from(0).filter_map(|(_, entry)| entry.as_ref()).filter(is_silent).count()
    }

    /// Serving time at which this manager began to answer.
    pub fn listening_since(&self) -> u64 {
        self.listening_since.load(Ordering::Relaxed)
    }

    // What follows is for the engine's task alone.

    /// Shows what is committed of a child, and wakes the calls of it that wait for that.
    pub(super) fn publish_child(&self, state: &State, key: ChildKey) {
        self.set_child(state, key);
        self.waiters.wake(key);
    }

    fn set_child(&self, state: &State, key: ChildKey) {
        let before = self.entry(key);
        let Some(child) = state.children.get(key) else {
            if let Some(entry) = before {
                self.set_entry(key, None);
                self.children.remove(entry.id.as_str());
            }
            return;
        };
        let turn = word(state, key, child);
        let registration = &child.registration;
        if let Some(entry) = before.as_ref().filter(|entry| entry.shows(registration)) {
            entry.set_turn(turn);
            return;
        }
        let deciding_at = self.deciding_at.load(Ordering::Relaxed);
        let entry = ChildEntry::new(registration, before.as_ref(), deciding_at);
        entry.set_turn(turn);
        self.set_entry(key, Some(entry.clone()));
        self.children.insert(entry);
    }

    pub(super) fn publish_release(&self, state: &State, key: ReleaseKey) {
        let releases = self.releases.pin();
        match state.release(key) {
            Some(release) => match releases.get(&key.0) {
                None => {
                    self.known.pin().insert(release.id.clone(), key);
                    releases.insert(key.0, Arc::new(ReleaseEntry::of(release, &state.settings)));
                }
                Some(entry) => {
                    entry.pace.renew(release);
                    let is_paused = release.is_paused();
                    if entry.is_paused.swap(is_paused, Ordering::Relaxed) != is_paused {
                        // Managers below want to know; a pause is rare.
                        self.waiters.wake_all();
                    }
                }
            },
            None => {
                releases.remove(&key.0);
            }
        }
    }

    /// Tells where there are places, of the releases that limit how many are in progress.
    pub(super) fn publish_places(&self, state: &State) {
        for release in pace::limited(state) {
            if let Some(entry) = self.releases.pin().get(&release.key.0) {
                entry.pace.renew(release);
            }
        }
    }

    pub(super) fn publish_known(&self, id: &ReleaseId, key: ReleaseKey) {
        self.known.pin().insert(id.clone(), key);
    }

    /// It has left the history. The id may be another's by now.
    pub(super) fn forget_release(&self, id: &ReleaseId, key: ReleaseKey) {
        let known = self.known.pin();
        if known.get(id) == Some(&key) {
            known.remove(id);
        }
    }

    /// By its number.
    pub fn entry(&self, key: ChildKey) -> Option<ChildEntry> {
        self.by_key().get(key.0 as usize)?.clone()
    }

    fn set_entry(&self, key: ChildKey, entry: Option<ChildEntry>) {
        let mut by_key = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
        let at = key.0 as usize;
        match entry {
            Some(_) => by_key.put(at, entry),
            None => drop(by_key.take(at)),
        }
    }

    /// The last call of a child in this life, in serving time.
    fn noticed(&self, child: ChildKey) -> Option<u64> {
        self.by_key().get(child.0 as usize)?.as_ref()?.last_call()
    }

    fn by_key(&self) -> RwLockReadGuard<'_, ByKey> {
        self.by_key.read().unwrap_or_else(PoisonError::into_inner)
    }
}
