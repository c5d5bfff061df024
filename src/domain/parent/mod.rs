//! What a manager says to its parent and when, as a state machine without IO.
//!
//! [`Link`] is told the facts of the state, the rows of the outbox that concern the parent, and what the parent
//! answered; it hands out calls to be made, things to be stored, and commands for the engine, and says when it wants to
//! be asked again. Time comes in as milliseconds of any clock that doesn't go back, chance as a seed. The driver with
//! its network is `parent`; a simulation can drive the same code in virtual time.
//!
//! ```text
//!            facts, below, rows of the outbox, answers
//!                             │
//!   Act::Call ◀── next(now) ◀─┴─▶ wake() ──▶ when to call next() again at the latest
//!   Act::Enroll, Note, Done, End, Skip, Accept, Hold, Disown, Answer, Above, Say
//! ```
//!
//! Four errands run beside each other: the poll (it may wait at the parent for half a minute), the taking over of offers,
//! the sending of results, and for each offer the question whether its stage may end.
//!
//! Invariants:
//! - the id that the parent gave is stored before it is used again, and no call is made meanwhile;
//! - an offer is noted before it is fetched: a parent doesn't show again what was fetched;
//! - results of one offer go up in their order, and nothing is asked of a stage before the result of the one before it
//!   was answered: the parent would take that one for lost;
//! - a row of the outbox is done with only when the parent has answered for good;
//! - a release that the parent refuses to hear of for good is disowned: nobody there would ever end it;
//! - whatever the parent answers, or fails to, changes nothing here but what is written above;
//! - what an operator should know is said once per change, not once per attempt.
//!
//! Deliberately not here: what is in an offer and in a result (`parent`, [`crate::release::parent`]).

mod act;
mod answered;
pub mod area;
mod below;
mod call_queue;
mod interim;
mod link_inputs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use self::{
    act::{Act, Answer, Call, CallId, Errand, Notice, Poll, PollResponse, Question, Row, ToldStage, Trouble},
    below::{Below, Survey},
    link_inputs::{FromParent, LinkInputs, PauseState},
};
use self::{
    call_queue::{Dice, Lane},
    interim::Interim,
};
use crate::release::parent::Waiting;

/// A result that the parent refuses is sent again for this long, then given up with a line in the log; in milliseconds.
pub const GIVE_UP_AFTER_MS: u64 = 24 * 60 * 60 * 1_000;

/// What is said of an offer, or asked, and is refused with 400, 404 or 409 so often in a row, with growing pauses, while
/// the parent answers polls, is refused for good. One may be a proxy's.
pub const BELIEVED_AFTER: u32 = 6;

/// How long a call may wait at a parent that can let it wait, in milliseconds.
pub const WAIT_MS: u64 = 30_000;

/// An answer with questions is followed by the next poll at once, but by no more than one in so many milliseconds.
const QUESTIONS_EVERY_MS: u64 = 20;

/// An offer that is shown again although it was taken over is looked at again after this long, in milliseconds.
const LOOK_AGAIN_MS: u64 = 60_000;

/// Offers remembered that were taken over in this life.
const MAX_REMEMBERED: usize = 1_000;

/// So many polls in a row that are answered 404 make it ask for a new id; one may be a proxy's.
const FORGOTTEN_AFTER: u32 = 3;

/// Managers that may lie above each other.
pub const MAX_DEPTH: usize = 64;

/// What doesn't change in the life of a link.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Between two polls of a parent that answers at once, in milliseconds.
    pub poll_ms: u64,
    /// The id of this manager, whoever its parent is.
    pub own_id: String,
    /// For the jitter.
    pub seed: u64,
}

/// A result that waits to be answered by the parent.
#[derive(Debug)]
struct Unsent {
    row: Row,
    offer: String,
    due: u64,
    refusals: u32,
    give_up_at: u64,
}

/// An offer that is to be taken over.
#[derive(Debug)]
struct Taking {
    row: Row,
    offer: String,
    attempts: u32,
}

/// What of an offer the parent is told, and asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    stage: u8,
    /// Stages have failed below and keep their shares, for the how manyth time.
    failures: Option<u32>,
}

impl Waiting {
    const fn subject(&self) -> Subject {
        Subject { stage: self.stage, failures: self.failures }
    }
}

/// The question whether the stage of an offer may end.
#[derive(Debug)]
struct Ask {
    subject: Subject,
    lane: Lane,
    /// Refusals in a row: the parent knows of no such stage.
    refusals: u32,
}

/// That a stage waits is refused.
#[derive(Debug)]
struct Unheard {
    subject: Subject,
    refusals: u32,
    due: u64,
}

/// What a call is about, until it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    Poll { with_id: bool, waits: bool },
    Take { row: Row },
    Result { row: Row },
    Ready { offer: String, subject: Subject, name: String },
    Ask { offer: String, subject: Subject, name: String, waits: bool },
    Interim { offer: String },
}

/// What a manager says to its parent and when, as a state machine without IO.
#[derive(Debug)]
pub struct Link {
    settings: Settings,
    dice: Dice,
    facts: LinkInputs,
    /// There is an area to be reported.
    has_area: bool,
    /// What is below has changed since the poll under way began.
    below_changed: bool,
    /// The id that the parent gave.
    enrolled: Option<String>,
    /// Something is being stored without which nothing can go on.
    is_storing_id: bool,
    storing_offer: Option<String>,
    taking: VecDeque<Taking>,
    unsent: Vec<Unsent>,
    /// Stages of which the parent knows that they wait.
    told: BTreeSet<(String, Subject)>,
    /// By offer: that one of its stages waits was refused.
    unheard: BTreeMap<String, Unheard>,
    /// When an offer that was taken over may be looked at again.
    remembered: BTreeMap<String, u64>,
    /// Polls in a row that were answered 404.
    not_found: u32,
    /// Offers whose release is paused at the parent; `None`: it wasn't heard of yet.
    paused_by_parent: Option<BTreeSet<String>>,
    /// The parent and those above it.
    above: Vec<String>,
    /// What the parent understands beyond the plain protocol, as it said last.
    features: Vec<String>,
    /// Why offers of the parent aren't taken.
    bent: Option<Notice>,
    polls: Lane,
    offers: Lane,
    results: Lane,
    asks: BTreeMap<String, Ask>,
    /// Stages that are reported while they go on, by offer.
    interims: BTreeMap<String, Interim>,
    calls: BTreeMap<CallId, About>,
    last_call: u64,
    acts: VecDeque<Act>,
}

impl Link {
    pub fn new(settings: Settings, now: u64) -> Self {
        let dice = Dice::new(settings.seed);
        Self {
            settings,
            dice,
            facts: LinkInputs::default(),
            has_area: false,
            below_changed: false,
            enrolled: None,
            is_storing_id: false,
            storing_offer: None,
            taking: VecDeque::new(),
            unsent: Vec::new(),
            told: BTreeSet::new(),
            unheard: BTreeMap::new(),
            remembered: BTreeMap::new(),
            not_found: 0,
            paused_by_parent: None,
            above: Vec::new(),
            features: Vec::new(),
            bent: None,
            polls: Lane::new(Errand::Poll, now),
            offers: Lane::new(Errand::Offers, now),
            results: Lane::new(Errand::Results, now),
            asks: BTreeMap::new(),
            interims: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            acts: VecDeque::new(),
        }
    }

    /// What the state says now.
    pub fn note_facts(&mut self, facts: LinkInputs, now: u64) {
        if self.facts != facts {
            self.facts = facts;
            self.hold();
        }
        let waiting: BTreeMap<&String, &Waiting> =
            self.facts.0.iter().filter_map(|(offer, of)| Some((offer, of.waiting.as_ref()?))).collect();
        let is_asked =
            |offer: &String, of: Subject| waiting.get(offer).is_some_and(|waiting| waiting.subject() == of);
        self.told.retain(|(offer, of)| is_asked(offer, *of));
        self.unheard.retain(|offer, unheard| is_asked(offer, unheard.subject));
        let (calls, acts) = (&mut self.calls, &mut self.acts);
        self.asks.retain(|offer, ask| {
            let stays = is_asked(offer, ask.subject);
            if !stays && let Some(call) = ask.lane.give_up() {
                calls.remove(&call);
                acts.push_back(Act::GiveUp(call));
            }
            stays
        });
        for (offer, waiting) in waiting {
            self.asks.entry(offer.clone()).or_insert_with(|| Ask {
                subject: waiting.subject(),
                lane: Lane::new(Errand::Signals, now),
                refusals: 0,
            });
        }
        self.note_interims(now);
    }

    /// What is below this manager has changed: whether there is an area to be reported.
    pub fn note_below(&mut self, has_area: bool) {
        (self.has_area, self.below_changed) = (has_area, true);
    }

    /// It is stored who this manager is at its parent.
    pub fn note_enrolled(&mut self, id: String) {
        self.enrolled = Some(id);
        self.is_storing_id = false;
        self.told.clear();
        // Refused was whoever this manager was before.
        self.unheard.clear();
        self.unsent.iter_mut().for_each(|unsent| unsent.refusals = 0);
        self.asks.values_mut().for_each(|ask| ask.refusals = 0);
    }

    /// It is stored that an offer is to be taken over.
    pub fn note_taking(&mut self, row: Row, offer: String) {
        if self.storing_offer.as_deref() == Some(offer.as_str()) {
            self.storing_offer = None;
        }
        self.taking.push_back(Taking { row, offer, attempts: 0 });
    }

    /// The parent is owed a result, since `age_ms`.
    pub fn note_owed(&mut self, row: Row, offer: String, age_ms: u64, now: u64) {
        let give_up_at = now + GIVE_UP_AFTER_MS.saturating_sub(age_ms);
        self.unsent.push(Unsent { row, offer, due: now, refusals: 0, give_up_at });
    }

    /// Whether the last poll was answered.
    pub fn is_up(&self) -> bool {
        self.polls.works()
    }

    /// Results that the parent has not answered yet.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Whether the parent showed that it is more than the plain system.
    pub fn is_understood(&self) -> bool {
        !self.above.is_empty()
    }

    /// What is to be done next; `None`: nothing before [`Link::wakes_at`], unless something is told.
    pub fn next_act(&mut self, now: u64) -> Option<Act> {
        if let Some(act) = self.acts.pop_front() {
            return Some(act);
        }
        if self.is_storing_id {
            return None;
        }
        self.refresh_poll(now);
        if let Some(act) = self.acts.pop_front() {
            return Some(act);
        }
        self.next_call(now)
    }

    /// When [`Link::next_act`] may have something although nothing was told; `None`: never.
    pub fn wakes_at(&self) -> Option<u64> {
        if self.is_storing_id {
            return None;
        }
        let is_known = self.enrolled.is_some();
        let poll = if self.polls.is_free() {
            self.may_poll().then_some(self.polls.due)
        } else {
            self.stale_poll_ends()
        };
        let take = self.taking.front().filter(|_| is_known && self.offers.is_free()).map(|_| self.offers.due);
        let results = is_known && self.results.is_free();
        let sendable = self.sendable().filter(|_| results).map(|unsent| unsent.due.max(self.results.due));
        let ready = self.ready().filter(|_| results).map(|(due, ..)| due.max(self.results.due));
        let asks = self.askable().filter(|_| is_known).map(|(_, ask)| ask.lane.due);
        let interim = self.interim_due().filter(|_| is_known);
        [poll, take, interim].into_iter().flatten().chain(sendable).chain(ready).chain(asks).min()
    }

    /// The id that the parent gave.
    pub fn id(&self) -> Option<&str> {
        self.enrolled.as_deref()
    }

    /// Nobody could plan for a manager without an area; one that is known goes on calling.
    fn may_poll(&self) -> bool {
        self.has_area || self.enrolled.is_some()
    }

    /// When a poll that waits with an old area is to be replaced by one with the new area.
    fn stale_poll_ends(&self) -> Option<u64> {
        let began = self.polls.began().filter(|_| self.below_changed)?;
        let waits =
            self.calls.values().any(|about| matches!(about, About::Poll { waits: true, with_id: true }));
        waits.then_some(began + self.settings.poll_ms)
    }

    fn refresh_poll(&mut self, now: u64) {
        if self.stale_poll_ends().is_some_and(|ends| ends <= now) {
            let Some(call) = self.polls.give_up() else { return };
            self.calls.remove(&call);
            self.polls.due = now;
            self.acts.push_back(Act::GiveUp(call));
        }
    }

    fn next_call(&mut self, now: u64) -> Option<Act> {
        if self.polls.is_free() && self.polls.due <= now && self.may_poll() {
            return Some(self.poll(now));
        }
        let id = self.id()?.to_owned();
        if self.offers.is_free()
            && self.offers.due <= now
            && let Some(Taking { row, offer, attempts }) = self.taking.front()
        {
            let (about, call) =
                (About::Take { row: *row }, Call::Take { id, offer: offer.clone(), attempt: *attempts });
            let act = self.begin(about, call);
            self.offers.begin(CallId(self.last_call), now);
            return Some(act);
        }
        if self.results.is_free()
            && self.results.due <= now
            && let Some((about, call)) = self.report(&id, now)
        {
            let act = self.begin(about, call);
            self.results.begin(CallId(self.last_call), now);
            return Some(act);
        }
        self.ask(&id, now).or_else(|| self.tell_interim(&id, now))
    }

    fn begin(&mut self, about: About, call: Call) -> Act {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.calls.insert(id, about);
        Act::Call(id, call)
    }

    fn poll(&mut self, now: u64) -> Act {
        let is_forgotten = self.not_found > 0 && self.not_found.is_multiple_of(FORGOTTEN_AFTER);
        let id = self.id().filter(|_| !is_forgotten).map(str::to_owned);
        // While something is to be fetched the parent has an offer to show, and would answer at once.
        let waits = self.is_understood() && id.is_some() && self.taking.is_empty();
        let own = std::iter::once(&self.settings.own_id);
        let poll = Poll {
            wait_ms: waits.then_some(WAIT_MS),
            rm_ids: own.chain(&self.above).take(MAX_DEPTH).cloned().collect(),
            held: self.paused_by_parent.iter().flatten().cloned().collect(),
            understood: self.is_understood(),
            features: self.features.clone(),
            id,
        };
        self.below_changed = false;
        let act = self.begin(About::Poll { with_id: poll.id.is_some(), waits }, Call::Poll(poll));
        self.polls.begin(CallId(self.last_call), now);
        act
    }

    /// The next result, or that a stage waits.
    fn report(&self, id: &str, now: u64) -> Option<(About, Call)> {
        let id = id.to_owned();
        if let Some(unsent) = self.sendable().find(|unsent| unsent.due <= now) {
            return Some((About::Result { row: unsent.row }, Call::Result { id, row: unsent.row }));
        }
        let (_, offer, of, waiting) = self.ready().find(|(due, ..)| *due <= now)?;
        let (offer, subject, name) = (offer.clone(), waiting.subject(), waiting.name.clone());
        let about = About::Ready { offer: offer.clone(), subject, name: name.clone() };
        let Subject { stage, failures } = subject;
        let told = ToldStage { id, release: of.release.clone(), offer, stage, name, failures };
        Some((about, Call::Ready(told)))
    }

    /// Results before which no other of the same offer waits.
    fn sendable(&self) -> impl Iterator<Item = &Unsent> {
        let mut seen = BTreeSet::new();
        self.unsent.iter().filter(move |unsent| seen.insert(unsent.offer.as_str()))
    }

    fn owes_for(&self, offer: &str) -> bool {
        self.unsent.iter().any(|unsent| unsent.offer == offer)
    }

    /// Stages that wait, of which the parent doesn't know that they do, and when it is to be told.
    fn ready(&self) -> impl Iterator<Item = (u64, &String, &FromParent, &Waiting)> {
        let stages = self.facts.0.iter().filter_map(|(offer, of)| Some((offer, of, of.waiting.as_ref()?)));
        let untold = stages.filter(|(offer, _, waiting)| {
            (waiting.is_ready || waiting.failures.is_some())
                && !self.told.contains(&((*offer).clone(), waiting.subject()))
                && !self.owes_for(offer)
                && !self.is_telling_interim(offer)
        });
        untold.map(|(offer, of, waiting)| {
            (self.unheard.get(offer).map_or(0, |unheard| unheard.due), offer, of, waiting)
        })
    }

    fn askable(&self) -> impl Iterator<Item = (&String, &Ask)> {
        self.asks.iter().filter(|(offer, ask)| ask.lane.is_free() && !self.owes_for(offer))
    }

    fn ask(&mut self, id: &str, now: u64) -> Option<Act> {
        let (offer, subject) = self
            .askable()
            .find(|(_, ask)| ask.lane.due <= now)
            .map(|(offer, ask)| (offer.clone(), ask.subject))?;
        let of = self.facts.0.get(&offer)?;
        let (name, skipped) = (of.waiting.as_ref()?.name.clone(), of.skipped.clone());
        let wait_ms = self.is_understood().then_some(WAIT_MS);
        let call = Call::EndStage {
            id: id.to_owned(),
            offer: offer.clone(),
            name: name.clone(),
            skipped,
            failures: subject.failures,
            wait_ms,
        };
        let act =
            self.begin(About::Ask { offer: offer.clone(), subject, name, waits: wait_ms.is_some() }, call);
        let call = CallId(self.last_call);
        self.asks.get_mut(&offer)?.lane.begin(call, now);
        Some(act)
    }
}
