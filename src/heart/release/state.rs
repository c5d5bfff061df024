//! What the engine knows: children, releases, and where each child stands in each release that is not over.
//!
//! Only `apply` (in [`super::apply`]) changes it. Everything here can be rebuilt from the store's rows.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    analysis::Run,
    assignment::{Assignment, Dated, ReleaseMs},
    assignments::Assignments,
    change::{Submitted, Variant},
    ending::Ending,
    gate::{Gates, Turns},
    ids::Ids,
    manager::{Agents, Managers},
    open::OpenReleases,
    pause::Pause,
    places::Places,
    precedent::Timed,
    queue::Overtakes,
    recheck::Recheck,
    registration::Registration,
    releases::Releases,
    schedule::Schedule,
    settings::Settings,
    upstream::Upstream,
};
use crate::plan::AreaIndex;
use language::Strategy;
use model::{
    Capabilities, ChildKey, ChildKind, Cordon, Exclusion, Now, Outcome, ReleaseId, ReleaseKey, pages::Pages,
    pairs::Pairs, steps,
};

/// Whoever reads a release from a store makes one; nothing of it is stored.
pub use crate::plan::KeptCover;

/// What a child says of itself beyond the plain protocol, and what operators say of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub kind: ChildKind,
    pub capabilities: Capabilities,
}

/// Who has taken the place of a child, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    pub by: ChildKey,
    /// In serving time, in milliseconds.
    pub at: u64,
}

/// A registered child.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// What it says of itself, which this derefs to; shared with readers.
    pub registration: Arc<Registration>,
    pub born: Now,
    pub called_again: bool,
    /// Whether it brought its id along and has not taken part in anything: anybody can make up ids.
    pub unproven: bool,
    /// Another id has taken its place, and it has not called since.
    pub replaced: Option<Box<Replaced>>,
    pub cordon: Cordon,
    /// Labels that operators gave; they win over those that the child reports.
    pub labels: Option<Box<BTreeMap<String, String>>>,
    /// The releases in memory in which it has an assignment, in order of submission.
    pub open: OpenReleases,
}

impl Deref for Child {
    type Target = Registration;

    fn deref(&self) -> &Registration {
        &self.registration
    }
}

impl Child {
    /// A child that has called once, and of which nobody has said anything yet.
    pub fn new(registration: Registration, born: Now) -> Self {
        Self {
            registration: Arc::new(registration),
            born,
            called_again: false,
            unproven: false,
            replaced: None,
            cordon: Cordon::Open,
            labels: None,
            open: OpenReleases::default(),
        }
    }

    /// To be changed. Readers go on seeing what it was.
    pub(super) fn registration_mut(&mut self) -> &mut Registration {
        Arc::make_mut(&mut self.registration)
    }

    /// How many agents it stands for. One that says nothing of its kind but has children is a manager of the plain
    /// protocol.
    pub fn counted_agents(&self) -> u32 {
        match self.kind() {
            _ if self.replaced.is_some() => 0,
            ChildKind::Agent if self.profile.is_some() => 1,
            ChildKind::Agent => self.agents.max(1),
            ChildKind::Rm => self.agents,
        }
    }

    /// Whether functions that need `runtime` can run here.
    pub fn runs(&self, runtime: &str) -> bool {
        self.profile.as_ref().is_none_or(|profile| profile.capabilities.runs(runtime))
    }
}

/// Children on a page of [`Children`]: a page takes as much as they do, also where only one of them is left.
const CHILDREN_ON_A_PAGE: usize = 15;

/// All children, by number and by id. A copy shares everything with the original.
#[derive(Debug, Clone, Default)]
pub struct Children {
    slots: Pages<Option<Child>, CHILDREN_ON_A_PAGE>,
    /// Numbers below this one were given, whether or not those who had them are still known.
    given: u32,
    /// The ids themselves are in the slots.
    by_id: Ids,
}

impl Children {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn key(&self, id: &str) -> Option<ChildKey> {
        self.by_id.find(id, |key| self.get(key).is_some_and(|child| child.id.is(id)))
    }

    pub fn get(&self, key: ChildKey) -> Option<&Child> {
        self.slots.get(key.0 as usize)?.as_ref()
    }

    pub fn by_id(&self, id: &str) -> Option<(ChildKey, &Child)> {
        let key = self.key(id)?;
        Some((key, self.get(key)?))
    }

    pub(super) fn get_mut(&mut self, key: ChildKey) -> Option<&mut Child> {
        self.slots.get_mut(key.0 as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, key: ChildKey, child: Child) {
        self.reserve(key);
        self.remove(key);
        // The id is this one's now.
        self.let_go_of(child.id.as_str());
        let id = child.id.clone();
        self.slots.put(key.0 as usize, Some(child));
        let slots = &self.slots;
        let id_of = |key: ChildKey| {
            slots
                .get(key.0 as usize)
                .and_then(Option::as_ref)
                .map(|child| child.id.as_str())
                .unwrap_or_default()
        };
        self.by_id.insert(id.as_str(), key, id_of);
    }

    pub(super) fn remove(&mut self, key: ChildKey) -> Option<Child> {
        let id = self.get(key)?.id.clone();
        if self.key(id.as_str()) == Some(key) {
            self.let_go_of(id.as_str());
        }
        self.slots.take(key.0 as usize).flatten()
    }

    fn let_go_of(&mut self, id: &str) {
        if let Some(key) = self.key(id) {
            self.by_id.remove(id, key);
        }
    }

    /// In order of birth, only keys above `after`.
    pub fn after(&self, after: Option<ChildKey>) -> impl Iterator<Item = (ChildKey, &Child)> {
        let from = after.map_or(0, |key| key.0 as usize + 1);
        let known = self.slots.from(from).inspect(|_| steps::take(1));
        known.filter_map(|(at, child)| Some((ChildKey(at as u32), child.as_ref()?)))
    }

    pub fn iter(&self) -> impl Iterator<Item = (ChildKey, &Child)> {
        self.after(None)
    }

    /// The number that the next child gets; `None`: all were given. Numbers are never used again.
    pub fn next_key(&self) -> Option<ChildKey> {
        (self.given < u32::MAX).then_some(ChildKey(self.given))
    }

    /// Takes note that this number was given.
    pub fn reserve(&mut self, key: ChildKey) {
        self.given = self.given.max(key.0.saturating_add(1));
    }
}

/// How a release ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Done,
    DoneWithFailures,
    /// By its own rules: too many children ended badly, or nobody approved in time.
    RolledBack,
    /// By an operator, or because another release took its place.
    Aborted,
    /// Nobody could take part, so nothing was released.
    NoParticipants,
    /// Nothing failed, and nobody was tested, for want of calls.
    Untested,
}

/// Where a release stands.
///
/// ```mermaid
/// stateDiagram-v2
///     [*] --> Planned: submitted
///     Planned --> Running: its time has come, and nothing it conflicts with runs any more
///     Planned --> Aborted
///     Running --> AwaitingApproval: a gate is reached that somebody must approve of
///     AwaitingApproval --> Running: approve, or the gate is reached no more
///     AwaitingApproval --> Paused: pause
///     AwaitingApproval --> RollingBack: abort, or no approval in time
///     Running --> Paused: pause, or a limit is passed
///     Paused --> Running: resume
///     Running --> RollingBack: abort, or a limit is passed
///     Paused --> RollingBack: abort
///     RollingBack --> Aborted: every undo confirmed or overdue
///     RollingBack --> RolledBack: likewise, if it was by a limit or for want of an approval; unproven while undos are overdue
///     Running --> Done
///     Done --> RollingBack: the parent takes it back
///     Running --> DoneWithFailures
///     Running --> NoParticipants: nobody could take part
///     Running --> DoneUntested: nobody was tested, for want of calls
///     NoParticipants --> Planned: submitted or retried once more
///     DoneWithFailures --> Running: retry
///     Done --> Running: retry of those that were left untested
///     DoneUntested --> Running: likewise
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state")]
pub enum ReleaseState {
    Planned,
    Running,
    Paused(Pause),
    AwaitingApproval {
        /// What for, in words.
        what: String,
        since: ReleaseMs,
    },
    RollingBack {
        reason: String,
        /// How it ends then.
        end: End,
    },
    Over {
        end: End,
        /// Agents that have not proven that they run the base version again.
        unconfirmed: u32,
    },
}

impl ReleaseState {
    /// Every name that [`Self::name`] gives.
    pub const NAMES: [&str; 12] = [
        "Planned",
        "Running",
        "Paused",
        "AwaitingApproval",
        "RollingBack",
        "Done",
        "DoneWithFailures",
        "RolledBack",
        "RolledBackUnproven",
        "Aborted",
        "NoParticipants",
        "DoneUntested",
    ];

    /// As shown and stored.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Planned => "Planned",
            Self::Running => "Running",
            Self::Paused { .. } => "Paused",
            Self::AwaitingApproval { .. } => "AwaitingApproval",
            Self::RollingBack { .. } => "RollingBack",
            Self::Over { end: End::Done, .. } => "Done",
            Self::Over { end: End::DoneWithFailures, .. } => "DoneWithFailures",
            Self::Over { end: End::RolledBack, unconfirmed: 0 } => "RolledBack",
            Self::Over { end: End::RolledBack, .. } => "RolledBackUnproven",
            Self::Over { end: End::Aborted, .. } => "Aborted",
            Self::Over { end: End::NoParticipants, .. } => "NoParticipants",
            Self::Over { end: End::Untested, .. } => "DoneUntested",
        }
    }

    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Over { .. })
    }

    pub const fn pause(&self) -> Option<&Pause> {
        match self {
            Self::Paused(pause) => Some(pause),
            Self::Planned
            | Self::Running
            | Self::AwaitingApproval { .. }
            | Self::RollingBack { .. }
            | Self::Over { .. } => None,
        }
    }
}

/// The clock of a release: serving time since the store began, without the time that the release was paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReleaseClock {
    pub paused_ms: u64,
    pub paused_since: Option<u64>,
}

impl ReleaseClock {
    pub fn at(&self, now: Now) -> ReleaseMs {
        let standing = self.paused_since.map_or(0, |since| now.served_ms.saturating_sub(since));
        now.served_ms.saturating_sub(self.paused_ms + standing)
    }

    pub fn pause(&mut self, now: Now) {
        self.paused_since.get_or_insert(now.served_ms);
    }

    pub fn resume(&mut self, now: Now) {
        if let Some(since) = self.paused_since.take() {
            self.paused_ms += now.served_ms.saturating_sub(since);
        }
    }
}

/// Agents that did not end well, by what limits there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bad {
    pub failed: u32,
    /// Not heard of in time, or their result was lost.
    pub timed_out: u32,
    pub unreachable: u32,
    pub untested: u32,
}

/// How many children of a release are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    pub no: u32,
    pub todo: u32,
    pub doing: u32,
    pub done: u32,
    pub failed: u32,
    pub succeeded: u32,
    pub outcome_failed: u32,
    pub timed_out: u32,
    pub unreachable: u32,
    pub lost: u32,
    pub undone: u32,
    pub untested: u32,
    pub excluded: u32,
    /// Undos offered and not confirmed.
    pub undoing: u32,
    /// Those of them that are overdue.
    pub undo_overdue: u32,
    /// Neither over nor without an undo that is waited for.
    pub awaited: u32,
    /// Those of them whose wave has begun.
    #[serde(skip)]
    pub awaited_now: u32,
    /// Children whose wave has begun and that have not ended.
    #[serde(skip)]
    pub in_play: u32,
    /// Those of them that have not come to the next barrier.
    #[serde(skip)]
    pub behind: u32,
    /// Children in play that are still below what others may run already.
    #[serde(skip)]
    pub trailing: u32,
    /// Places of `max_in_progress` that are taken.
    #[serde(skip)]
    pub in_progress: u32,
    /// Untested agents that the new version was not offered to.
    #[serde(skip)]
    pub left_untested: u32,
    /// Children, other than managers, whose wave has begun.
    #[serde(skip)]
    pub opened: u32,
    /// Agents, those of managers below among them.
    #[serde(skip)]
    pub agents: Agents,
}

impl Counts {
    fn slots(&mut self, assignment: &Assignment, gates: &Gates) -> [Option<&mut u32>; 12] {
        use model::ChildStatus as S;
        let status = match assignment.status {
            S::No => &mut self.no,
            S::Todo => &mut self.todo,
            S::Doing => &mut self.doing,
            S::Done => &mut self.done,
            S::Failed => &mut self.failed,
        };
        let outcome = match assignment.outcome {
            None => None,
            Some(Outcome::Succeeded) => Some(&mut self.succeeded),
            Some(Outcome::Failed) => Some(&mut self.outcome_failed),
            Some(Outcome::TimedOut) => Some(&mut self.timed_out),
            Some(Outcome::Unreachable) => Some(&mut self.unreachable),
            Some(Outcome::Lost) => Some(&mut self.lost),
            Some(Outcome::Undone) => Some(&mut self.undone),
            Some(Outcome::Untested) => Some(&mut self.untested),
            Some(Outcome::Excluded(_)) => Some(&mut self.excluded),
        };
        let undo = assignment.pending_undo();
        [
            Some(status),
            outcome,
            undo.map(|_| &mut self.undoing),
            undo.filter(|undo| undo.overdue).map(|_| &mut self.undo_overdue),
            assignment.is_awaited().then_some(&mut self.awaited),
            (assignment.is_awaited() && gates.admits(assignment)).then_some(&mut self.awaited_now),
            gates.is_in_play(assignment).then_some(&mut self.in_play),
            gates.waits_for(assignment).then_some(&mut self.behind),
            gates.is_trailing(assignment).then_some(&mut self.trailing),
            gates.takes_place(assignment).then_some(&mut self.in_progress),
            assignment.is_left_untested().then_some(&mut self.left_untested),
            (assignment.stepwise().is_some() && gates.admits(assignment)).then_some(&mut self.opened),
        ]
    }

    pub(super) fn add(&mut self, assignment: &Assignment, gates: &Gates) {
        self.slots(assignment, gates).into_iter().flatten().for_each(|count| *count += 1);
        self.agents.add(assignment.agents());
    }

    pub(super) fn remove(&mut self, assignment: &Assignment, gates: &Gates) {
        self.slots(assignment, gates)
            .into_iter()
            .flatten()
            .for_each(|count| *count = count.saturating_sub(1));
        self.agents.remove(assignment.agents());
    }

    /// Agents that did not end well, as limits count them.
    pub const fn bad(&self) -> Bad {
        let Agents { failed, timed_out, unreachable, untested, .. } = self.agents;
        Bad { failed, timed_out, unreachable, untested }
    }

    /// Agents that ended badly.
    pub const fn failures(&self) -> u32 {
        self.agents.bad()
    }
}

/// A release in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    pub key: ReleaseKey,
    pub id: ReleaseId,
    pub strategy: Arc<Strategy>,
    pub text: Arc<str>,
    pub digest: [u8; 32],
    pub archive: [u8; 32],
    /// `None`: it was submitted here.
    pub upstream: Option<Upstream>,
    pub state: ReleaseState,
    pub clock: ReleaseClock,
    /// What happened to all at once, in order.
    pub facts: Vec<Dated>,
    pub submitted: Now,
    /// It was submitted without being started, and nobody has started it yet: it holds no other up.
    pub deferred: bool,
    /// See [`super::queue`].
    pub overtakes: Overtakes,
    pub started: Option<Now>,
    /// [`Self::clock`] at the start: when every member was offered its first stage.
    pub started_at: ReleaseMs,
    pub ended: Option<Now>,
    /// Why it is taken back, or the first child that ended badly.
    pub ending: Option<Box<Ending>>,
    /// That child, while nothing worse has happened.
    pub first_fault: Option<ChildKey>,
    /// Highest attempt given to any child.
    pub attempt: u16,
    pub members: Arc<[ChildKey]>,
    pub excluded: Vec<(Exclusion, u32)>,
    /// Members, and those that joined later, that are managers themselves.
    pub managers: Managers,
    /// Agents that come last because they were silent when the last wave was opened.
    pub left_out: u32,
    /// Managers below are asked who can take part, until this serving time. Not stored.
    pub asking: Option<u64>,
    /// Children that joined later.
    pub joined: u32,
    /// Members by their turns.
    pub turns: Turns,
    pub gates: Gates,
    /// What has been accepted of the children that ended badly: by resuming after a limit was passed.
    pub accepted: Bad,
    /// The latest run of each block of analysis that has begun.
    pub runs: Arc<Vec<Run>>,
    /// When its stages were, in the order in which they began.
    pub times: Vec<Timed>,
    /// Members and stand-ins.
    pub assignments: Assignments,
    pub counts: Counts,
    /// No deadline of this release is due before. A bound, not the exact instant.
    pub next_deadline: ReleaseMs,
    /// Where looking through the deadlines has come to, if that takes several ticks.
    pub sweep: Option<Sweep>,
    /// It has the part of one child alone: what is said of all is not true of it. Never of one that stays in memory.
    pub is_part: bool,
    /// The area of its target as it was prepared last, for a child alone.
    pub cover: KeptCover,
}

/// A look through the deadlines of a release that is not at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// The last child that was looked at.
    pub after: ChildKey,
    /// No deadline of those who were is due before.
    pub next: ReleaseMs,
}

impl Release {
    pub(super) fn new(key: ReleaseKey, submitted: &Submitted, now: Now) -> Self {
        Self {
            key,
            id: submitted.id.clone(),
            strategy: Arc::clone(&submitted.strategy),
            text: Arc::clone(&submitted.text),
            digest: submitted.digest,
            archive: submitted.archive,
            upstream: submitted.upstream.clone(),
            state: ReleaseState::Planned,
            clock: ReleaseClock::default(),
            facts: Vec::new(),
            submitted: now,
            deferred: submitted.deferred,
            overtakes: Overtakes::default(),
            started: None,
            started_at: 0,
            ended: None,
            ending: None,
            first_fault: None,
            attempt: 1,
            members: Arc::new([]),
            excluded: Vec::new(),
            managers: Managers::default(),
            left_out: 0,
            asking: None,
            joined: 0,
            turns: Turns::default(),
            gates: Gates::new(&submitted.strategy, submitted.upstream.is_some()),
            accepted: Bad::default(),
            runs: Arc::default(),
            times: Vec::new(),
            assignments: Assignments::default(),
            counts: Counts::default(),
            next_deadline: ReleaseMs::MAX,
            sweep: None,
            is_part: false,
            cover: KeptCover::default(),
        }
    }

    /// Counts all assignments anew.
    pub fn recount(&mut self) {
        self.counts = Counts::default();
        for assignment in self.assignments.values() {
            self.counts.add(assignment, &self.gates);
        }
    }

    /// Something is due at this instant.
    pub(super) fn due_by(&mut self, at: ReleaseMs) {
        self.next_deadline = self.next_deadline.min(at);
        if let Some(sweep) = &mut self.sweep {
            sweep.next = sweep.next.min(at);
        }
    }

    /// Children that it was planned for, or that joined.
    pub fn participants(&self) -> u32 {
        self.members.len() as u32 + self.joined
    }

    /// Whether children are offered what comes next.
    pub fn is_running(&self) -> bool {
        self.state == ReleaseState::Running
    }

    pub const fn is_paused(&self) -> bool {
        matches!(self.state, ReleaseState::Paused { .. })
    }

    /// Whether one more child may be shown its offer; always where there is no limit.
    pub fn has_place(&self) -> bool {
        self.gates.levels.at_once.is_none_or(|most| self.counts.in_progress < self.places(most))
    }

    /// Whether it has begun and may yet end well.
    pub const fn is_under_way(&self) -> bool {
        matches!(
            self.state,
            ReleaseState::Running | ReleaseState::Paused { .. } | ReleaseState::AwaitingApproval { .. }
        )
    }

    /// Whether it must stay in memory: it is not over, or somebody owes the proof of the base version.
    pub fn is_open(&self) -> bool {
        !self.state.is_over() || self.unproven() > 0
    }

    /// Agents that have not proven that they run the base version again.
    pub fn unproven(&self) -> u32 {
        let not_overdue = self.counts.undoing.saturating_sub(self.counts.undo_overdue);
        self.counts.agents.unconfirmed.saturating_add(not_overdue)
    }

    /// Whether the child has come to a closed barrier, and can only wait for others.
    pub fn holds_at_barrier(&self, child: ChildKey) -> bool {
        self.strategy.rollout.is_some()
            && self.assignments.get(&child).is_some_and(|assignment| {
                assignment.status == model::ChildStatus::Doing && !self.gates.waits_for(assignment)
            })
    }

    /// The instant before which it does not start, in milliseconds since 1970.
    pub fn starts_at(&self) -> Option<i64> {
        self.strategy.rollout.as_ref().and_then(|rollout| rollout.start_ms)
    }

    /// The instant on the clock of this release.
    pub fn at(&self, now: Now) -> ReleaseMs {
        self.clock.at(now)
    }
}

/// What is remembered of every release, over or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub key: ReleaseKey,
    pub digest: [u8; 32],
}

/// What a child runs of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployment {
    pub release: ReleaseKey,
    pub variant: Variant,
}

/// Small numbers for names of functions, so that a deployment is a few bytes.
#[derive(Debug, Default)]
pub struct FunctionNames {
    by_name: HashMap<Arc<str>, u32>,
}

impl FunctionNames {
    pub fn get(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(super) fn intern(&mut self, name: &str) -> u32 {
        if let Some(number) = self.get(name) {
            return number;
        }
        let number = self.by_name.len() as u32;
        self.by_name.insert(name.into(), number);
        number
    }
}

/// What readers see of the state: the children, and where each stands in the releases that are not over.
///
/// A clone is a snapshot. It costs next to nothing and shares everything with the state, which copies what it changes
/// for as long as somebody holds the snapshot.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub settings: Settings,
    pub children: Children,
    /// Where all of `children` are.
    pub areas: AreaIndex,
    /// Those that are not over, and those with undos that are not confirmed.
    pub releases: Releases,
    pub next_release: u32,
    /// Commands so far.
    pub decided: u64,
}

impl Snapshot {
    pub fn release(&self, key: ReleaseKey) -> Option<&Release> {
        self.releases.get(&key)
    }

    /// A release in memory, by id. Looks through those that are.
    pub fn release_by_id(&self, id: &str) -> Option<&Release> {
        self.releases.values().find(|release| release.id.as_str() == id)
    }

    pub fn assignment(&self, release: ReleaseKey, child: ChildKey) -> Option<&Assignment> {
        self.releases.get(&release)?.assignments.get(&child)
    }
}

/// Everything: what readers see, to which it derefs, and the books of the one who decides. See the module's text.
#[derive(Debug, Default)]
pub struct State {
    pub(super) shared: Snapshot,
    /// Every release ever.
    pub known: HashMap<ReleaseId, Known>,
    /// Releases that left memory and were not taken note of yet.
    pub(super) closed: BTreeMap<ReleaseKey, Release>,
    pub(super) deployments: BTreeMap<(ChildKey, u32), Deployment>,
    /// How many of these are of a release; never 0.
    pub(super) deployed: HashMap<ReleaseKey, u32>,
    pub(super) functions: FunctionNames,
    /// Children that may have to be forgotten, by the serving time at which that is to be looked at. What has become
    /// needless is found out then.
    pub(super) expiring: Pairs,
    /// Children that brought their ids along and never took part in anything, by their address.
    pub(super) unproven: HashMap<IpAddr, usize>,
    /// Who is where, as far as that tells who has come back under a new id.
    pub(super) places: Places,
    /// Who is looked at again for who stands in whose place.
    pub(super) rechecks: BTreeSet<Recheck>,
    /// How many commands there were when a release left memory last.
    pub(super) last_left: u64,
    /// When what of `releases` is to be looked at.
    pub(super) schedule: Schedule,
}

impl Deref for State {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.shared
    }
}

impl DerefMut for State {
    fn deref_mut(&mut self) -> &mut Snapshot {
        &mut self.shared
    }
}

impl State {
    pub fn new(settings: Settings) -> Self {
        Self { shared: Snapshot { settings, ..Snapshot::default() }, ..Self::default() }
    }

    /// What readers see, as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.clone()
    }

    /// The serving time at which a tick has something to look at: the next deadline of a release whose clock runs, the
    /// start of one, or the next child that may be a ghost or another's successor. It may have passed.
    pub fn next_due(&self, now: Now) -> Option<u64> {
        let expiring = self.expiring.first().map(|(due, _)| due);
        let looks = expiring.into_iter().chain(self.rechecks.first().map(|recheck| recheck.due_ms));
        looks.chain(self.schedule.next(now)).min()
    }

    /// Children that brought their ids along from an address, as limits see it, and never took part in anything.
    pub(super) fn unproven_from(&self, address: IpAddr) -> usize {
        self.unproven.get(&address).copied().unwrap_or_default()
    }

    /// A release that is in memory, or left it just now.
    pub fn find(&self, key: ReleaseKey) -> Option<&Release> {
        self.releases.get(&key).or_else(|| self.closed.get(&key))
    }

    /// A release in memory, by id.
    pub fn release_by_id(&self, id: &str) -> Option<&Release> {
        self.releases.get(&self.known.get(id)?.key)
    }

    /// Whether any child runs what this release left it with.
    pub fn is_deployed(&self, release: ReleaseKey) -> bool {
        self.deployed.contains_key(&release)
    }

    /// What `child` runs of `function`, as far as is known.
    pub fn deployment(&self, child: ChildKey, function: &str) -> Option<Deployment> {
        self.deployments.get(&(child, self.functions.get(function)?)).copied()
    }
}
