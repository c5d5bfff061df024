//! Who watches: what agents did, what managers answered, and what may never follow from it.
//!
//! Barriers, waves, approvals and targets are judged by what agents did and by the text of the strategy, not by what the
//! manager counts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use domain::{
    children,
    release::{
        assignment::{Assignment, Step, StepIndex},
        change::Change,
        command::{Command, Form, Reply},
        gate::Gate,
        lifecycle, members,
        offer::OfferName,
        parent, rollout,
        state::{End, Release, ReleaseState},
    },
};
use language::{Group, Untested};
use model::{ChildKey, ChildStatus, Outcome, ReleaseKey, StageStatus};

use super::{
    agent::{Deed, What},
    call::{Request, Response},
    manager::{Caused, Manager, Pending},
    overseer::is_taken_back,
    plans::Planned,
};

/// What must not be, by the number of the invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: u8,
    pub text: String,
}

/// Something that was answered with success.
#[derive(Debug)]
enum Promise {
    Registered { id: String },
    Submitted { id: String },
    Taken { release: ReleaseKey, child: ChildKey, name: OfferName },
    Result { release: ReleaseKey, child: ChildKey, status: StageStatus, digest: u64 },
    Aborted { id: String },
}

#[derive(Debug, Clone)]
struct Glimpse {
    attempt: u16,
    status: ChildStatus,
    slots: BTreeMap<StepIndex, StageStatus>,
    marks: usize,
}

type Stage = (ReleaseKey, String, usize);

/// What is seen at a commit was decided at most so long before.
const LONGEST_COMMIT_MS: u64 = 2_000;

/// So often within so many milliseconds a child may have something committed without coming further.
const MOST_FRUITLESS: usize = 20;
const FRUITLESS_WITHIN_MS: u64 = 60_000;

#[derive(Debug, Default)]
pub struct Witness {
    pub planned: BTreeMap<String, Planned>,
    pub approvals: BTreeMap<String, usize>,
    /// Stages that an operator ended, by release.
    pub cut: BTreeSet<(String, String)>,
    /// Of these, the stages that are passed over by those who have not begun them.
    pub skipped: BTreeSet<(String, String)>,
    /// Who has told that its stage has failed and keeps its shares, and whether somebody let the release go on since.
    kept: HashMap<(ReleaseKey, ChildKey), bool>,
    /// How many failures of such stages a manager below has told, and from how many of them somebody went on.
    failures: HashMap<(ReleaseKey, ChildKey), (u32, u32)>,
    /// Releases of which an operator opened all that was held back.
    pub promoted: BTreeSet<String>,
    /// Releases that an operator let go on, whatever they were paused for.
    pub resumed: BTreeSet<String>,
    /// Releases that some agent runs for good.
    proven: HashSet<ReleaseKey>,
    promises: Vec<Promise>,
    forgotten: HashSet<String>,
    glimpses: HashMap<(ReleaseKey, ChildKey), Glimpse>,
    ends: HashMap<ReleaseKey, End>,
    /// When an agent was ready to end a stage, or ended it.
    ready: HashMap<Stage, u64>,
    completed: HashSet<Stage>,
    /// Children that were told to end a stage for want of calls: that opens no barrier, and leads past none.
    idle: HashSet<(ReleaseKey, String)>,
    /// Who began in another's place, and which barriers were open then, or what the parent had been told of as
    /// reached: those below this level. What it was told is not taken back.
    stood_in: BTreeMap<(ReleaseKey, String), u8>,
    /// The first barrier after those of which the parent was told that all have come there.
    told: HashMap<ReleaseKey, u8>,
    /// When a child was over in a release for the first time.
    over: HashMap<(ReleaseKey, String), u64>,
    /// Barriers that opened rightly: release, wave, stage before.
    opened: BTreeSet<(ReleaseKey, u32, usize)>,
    /// Waves that began rightly.
    begun: BTreeSet<(ReleaseKey, u32)>,
    took: HashSet<(String, String)>,
    /// When each child had something committed without coming further, in the last minute.
    fruitless: HashMap<ChildKey, VecDeque<u64>>,
    /// Releases that were retried: who was over begins anew.
    retried: HashSet<ReleaseKey>,
    pub found: Option<Violation>,
}

impl Witness {
    pub fn wrong(&mut self, invariant: u8, text: String) {
        self.found.get_or_insert(Violation { invariant, text });
    }

    pub fn duplicate(&mut self, text: String) {
        self.wrong(7, text);
    }

    pub fn replaced(&mut self, text: String) {
        self.wrong(13, text);
    }

    pub fn late(&mut self, text: String) {
        self.wrong(5, text);
    }

    /// An answer leaves the manager.
    pub fn answered(&mut self, manager: &Manager, pending: &Pending) {
        let (Request::Heart(command), Response::Heart(answer)) = (&pending.request, &pending.response) else {
            return;
        };
        let Ok(reply) = &**answer else { return };
        let key = |child: &str| manager.state.children.key(child);
        let named = |offer: &str| {
            OfferName::candidates(offer)
                .find_map(|(id, name)| Some((manager.state.known.get(id)?.key, name)))
                .filter(|_| !offer.contains(".undo"))
        };
        match (&**command, reply) {
            (Command::Children(children::Command::Poll(_)), Reply::Polled { child, .. }) => {
                self.promises.push(Promise::Registered { id: child.as_str().to_owned() });
            }
            (Command::Lifecycle(lifecycle::Command::Submit { submission, .. }), Reply::Submitted { .. }) => {
                self.promises.push(Promise::Submitted { id: submission.id.as_str().to_owned() });
            }
            (Command::Lifecycle(lifecycle::Command::Abort { release, .. }), Reply::Done) => {
                self.promises.push(Promise::Aborted { id: release.clone() });
            }
            (Command::Members(members::Command::Fetch { child, offer }), Reply::Offer(found))
                if found.form != Form::Withdrawn =>
            {
                if let (Some(child), Some((release, name))) = (key(child), named(offer)) {
                    self.promises.push(Promise::Taken { release, child, name });
                }
            }
            (Command::Members(members::Command::Result { child, offer, reports }), Reply::Stored) => {
                if let (Some(child), Some((release, _))) = (key(child), named(offer)) {
                    // What is said anew of agents is kept with the child, and counts once.
                    // Nor does what an operator of an agent did end a stage.
                    let ended = reports.iter().filter(|report| {
                        let summary = &report.summary;
                        let is_end = summary.recount.is_none() && summary.wanted_by_operator().is_none();
                        summary.status.is_over() && is_end
                    });
                    self.promises.extend(ended.map(|report| Promise::Result {
                        release,
                        child,
                        status: report.summary.status,
                        digest: report.digest,
                    }));
                }
            }
            _ => {}
        }
    }

    /// Invariant 1: what was promised holds.
    pub fn check_promises(&mut self, manager: &Manager) {
        let broken = self.promises.iter().find(|promise| !self.holds(manager, promise));
        if let Some(broken) = broken {
            let text = format!("acknowledged and gone: {broken:?}");
            self.wrong(1, text);
        }
    }

    fn holds(&self, manager: &Manager, promise: &Promise) -> bool {
        let part = |release: &ReleaseKey, child: &ChildKey| {
            manager.release(*release).and_then(|release| release.assignments.get(child))
        };
        match promise {
            Promise::Registered { id } => {
                manager.state.children.key(id).is_some() || self.forgotten.contains(id)
            }
            Promise::Submitted { id } => manager.state.known.contains_key(id.as_str()),
            Promise::Taken { release, child, name } => part(release, child).is_some_and(|part| {
                part.named > name.attempt || part.has_begun() || part.offer_name() != *name
            }),
            Promise::Result { release, child, status, digest } => part(release, child)
                .is_some_and(|part| part.marks().iter().any(|m| m.status == *status && m.digest == *digest)),
            Promise::Aborted { id } => {
                let known = manager.state.known.get(id.as_str());
                known.and_then(|known| manager.release(known.key)).is_some_and(|release| {
                    matches!(
                        release.state,
                        ReleaseState::RollingBack { .. }
                            | ReleaseState::Over { end: End::Aborted | End::RolledBack, .. }
                    )
                })
            }
        }
    }

    /// Invariant 24: a child by which much is committed comes further by it.
    pub fn caused(&mut self, manager: &Manager, caused: &Caused, at: u64) {
        let recent = self.fruitless.entry(caused.child).or_default();
        if caused.is_progress {
            return recent.clear();
        }
        recent.push_back(at);
        while recent.front().is_some_and(|first| first + FRUITLESS_WITHIN_MS <= at) {
            recent.pop_front();
        }
        if recent.len() > MOST_FRUITLESS {
            let id = manager.state.children.get(caused.child).map(|record| record.id.to_string());
            self.wrong(24, format!("{id:?} caused more than {MOST_FRUITLESS} commits and came no further"));
        }
    }

    /// A batch is committed: the state is what a restart would bring back.
    pub fn committed(&mut self, manager: &Manager, changes: &[Change], at: u64) {
        for change in changes {
            match change {
                Change::Children(children::Change::Forgotten { id, .. }) => {
                    self.forgotten.insert(id.as_str().to_owned());
                    // Should it come back, it is somebody new, and may be handed the same once more.
                    self.took.retain(|(child, _)| child != id.as_str());
                }
                Change::Members(members::Change::Stepped {
                    release,
                    child,
                    step: Step::SignalledIdle,
                    ..
                }) => {
                    let id = manager.state.children.get(*child).map(|record| record.id.to_string());
                    self.idle.extend(id.map(|id| (*release, id)));
                }
                Change::Members(members::Change::Stepped {
                    release,
                    child,
                    step: Step::StandsInFor { .. },
                    ..
                }) => {
                    let id = manager.state.children.get(*child).map(|record| record.id.to_string());
                    let level = manager.release(*release).map(|release| release.gates.stand.level);
                    if let (Some(id), Some(level)) = (id, level) {
                        let told = self.told.get(release).copied().unwrap_or_default();
                        self.stood_in.entry((*release, id)).or_insert(level.max(told));
                    }
                }
                Change::Rollout(rollout::Change::GateReached {
                    release: key,
                    gate: Gate::Level(level),
                    ..
                }) => {
                    let release = manager.release(*key).filter(|release| release.parent.is_some());
                    if let Some(release) = release {
                        self.told.insert(*key, release.gates.levels.barrier_from(level + 1));
                    }
                }
                Change::Members(members::Change::Stepped {
                    release, child, step: Step::Kept { .. }, ..
                }) => {
                    self.kept.insert((*release, *child), false);
                }
                Change::Members(members::Change::Stepped {
                    release,
                    child,
                    step: Step::KeptBelow { number, .. },
                    ..
                }) => self.failures.entry((*release, *child)).or_default().0 = *number,
                // What was decided was decided of that stage.
                Change::Members(members::Change::Stepped {
                    release,
                    child,
                    step: Step::StageBegan { .. } | Step::Fetched,
                    ..
                }) => {
                    self.kept.remove(&(*release, *child));
                }
                Change::Lifecycle(lifecycle::Change::Resumed { release, .. }) => {
                    let found = manager.release(*release);
                    if found.is_some_and(|found| !found.strategy.is_decided_above()) {
                        self.accept(*release);
                    }
                }
                Change::Parent(parent::Change::FailuresAccepted { release, .. }) => self.accept(*release),
                Change::Lifecycle(lifecycle::Change::Retried { release, .. }) => {
                    self.retried.insert(*release);
                    self.ends.remove(release);
                }
                _ => {}
            }
        }
        let touched: BTreeSet<ReleaseKey> = changes.iter().filter_map(Change::release).collect();
        for release in touched.iter().filter_map(|key| manager.release(*key)) {
            self.check_release(manager, release, at);
        }
    }

    /// Invariants 2 and 7: nothing moves backwards, what is over stays over, and no result counts twice.
    fn check_release(&mut self, manager: &Manager, release: &Release, at: u64) {
        // What came from above is over only when it is there: it may be taken back.
        let may_be_undone = release.parent.is_some() && is_taken_back(release);
        if may_be_undone
            && matches!(self.ends.get(&release.key), Some(End::Done | End::DoneWithFailures | End::Untested))
        {
            self.ends.remove(&release.key);
        }
        // Nobody took part, so nothing was over: it may be planned once more.
        if self.ends.get(&release.key) == Some(&End::NoParticipants) {
            self.ends.remove(&release.key);
        }
        if let ReleaseState::Over { end, .. } = release.state {
            let before = *self.ends.entry(release.key).or_insert(end);
            if before != end {
                self.wrong(2, format!("{} ended {before:?}, then {end:?}", release.id));
            }
        } else if let Some(before) = self.ends.get(&release.key).copied() {
            self.wrong(2, format!("{} had ended {before:?} and is {}", release.id, release.state.name()));
        }
        for (child, part) in &release.assignments {
            if part.status.is_over()
                && let Some(record) = manager.state.children.get(*child)
            {
                self.over.entry((release.key, record.id.as_str().to_owned())).or_insert(at);
            }
            let twice = part.marks().iter().enumerate().any(|(at, mark)| {
                let same = |other: &&domain::release::assignment::ResultDigest| {
                    other.slot == mark.slot && other.attempt == mark.attempt
                };
                part.marks()[..at].iter().any(|other| same(&other))
            });
            if twice {
                self.wrong(7, format!("{}: a result of {child:?} counts twice: {part:?}", release.id));
            }
            self.check_course(release, *child, part);
        }
    }

    fn check_course(&mut self, release: &Release, child: ChildKey, part: &Assignment) {
        let fresh = Glimpse {
            attempt: part.attempt,
            status: part.status,
            slots: BTreeMap::from([(part.slot, part.stage_status)]),
            marks: part.marks().len(),
        };
        let Some(before) = self.glimpses.get_mut(&(release.key, child)) else {
            self.glimpses.insert((release.key, child), fresh);
            return;
        };
        let rank = |status: ChildStatus| match status {
            ChildStatus::Todo => 1,
            ChildStatus::Doing => 2,
            ChildStatus::No | ChildStatus::Done | ChildStatus::Failed => 3,
        };
        let mut wrong = None;
        if part.attempt < before.attempt || part.marks().len() < before.marks {
            wrong = Some("an attempt or a result vanished".to_owned());
        } else if part.attempt == before.attempt {
            let stage = before.slots.get(&part.slot).copied().unwrap_or(StageStatus::Pending);
            if rank(part.status) < rank(before.status)
                || (rank(before.status) == 3 && part.status != before.status)
            {
                wrong = Some(format!("went from {} to {}", before.status, part.status));
            } else if part.stage_status < stage || (stage.is_over() && part.stage_status != stage) {
                wrong = Some(format!("its stage went from {stage} to {}", part.stage_status));
            }
            before.slots.insert(part.slot, part.stage_status);
            before.status = part.status;
            before.marks = part.marks().len();
        } else {
            *before = fresh;
        }
        if let Some(wrong) = wrong {
            self.wrong(2, format!("{}: {child:?} {wrong}", release.id));
        }
    }

    /// Somebody let a release go on here, or above.
    fn accept(&mut self, release: ReleaseKey) {
        let of_release = self.kept.iter_mut().filter(|((of, _), _)| *of == release);
        of_release.for_each(|(_, is_accepted)| *is_accepted = true);
        let below = self.failures.iter_mut().filter(|((of, _), _)| *of == release);
        below.for_each(|(_, (told, accepted))| *accepted = *told);
    }

    /// Invariant 26: a manager below goes on from so many failures of stages only once somebody wants that here, or above.
    pub fn has_accepted(&mut self, release: ReleaseKey, child: ChildKey, failures: u32) {
        let accepted = self.failures.get(&(release, child)).map_or(0, |(_, accepted)| *accepted);
        if accepted < failures {
            self.wrong(
                26,
                format!("{child:?} goes on from {failures} failures, of which {accepted} were accepted"),
            );
        }
    }

    /// Invariant 26: nobody goes on from a stage that has failed and keeps its shares before it is told and somebody wants that.
    pub fn went_on(&mut self, manager: &Manager, deed: &Deed) {
        if !self.is_accepted(manager, deed) {
            self.wrong(26, format!("{} goes on from what failed in {}", deed.child, deed.offer));
        }
    }

    /// Whether somebody let a release go on after the agent had told that its stage has failed and keeps its shares.
    fn is_accepted(&self, manager: &Manager, deed: &Deed) -> bool {
        let key = manager.state.children.key(&deed.child);
        key.and_then(|key| self.kept.get(&(deed.release, key))) == Some(&true)
    }

    /// An agent did something.
    pub fn did(&mut self, manager: &Manager, deed: &Deed, place: usize, at: u64) {
        if deed.what == What::Refused {
            let known = manager.state.children.key(&deed.child).is_some();
            if known && manager.is_up {
                self.wrong(11, format!("{} was shown to {} and refused", deed.offer, deed.child));
            }
            return;
        }
        if let Some(harm) = harm(deed) {
            return self.wrong(12, harm);
        }
        let Some(release) = manager.release(deed.release) else {
            return self.wrong(1, format!("{deed:?}: there is no such release"));
        };
        let planned = self.planned[release.id.as_str()].clone();
        let is_undo = matches!(deed.form, Form::Undo { .. } | Form::Withdrawn);
        let stage = |stage: usize| (deed.release, deed.child.clone(), stage);
        match deed.what {
            What::Took if !is_undo => {
                if !self.took.insert((deed.child.clone(), deed.offer.clone())) {
                    self.wrong(4, format!("{} runs {} twice", deed.child, deed.offer));
                }
                if planned.target.is_some_and(|(first, last)| place < first || place > last) {
                    self.wrong(4, format!("{} runs {} outside its target", deed.child, deed.offer));
                }
                self.check_wave(manager, release, &planned, deed, at);
                match deed.form {
                    Form::Stage { stage, .. } if stage > 0 => {
                        self.check_barrier(manager, release, &planned, deed, usize::from(stage), at);
                    }
                    Form::Rollout { .. } => self.check_rollout(manager, release, &planned, deed, at),
                    _ => {}
                }
            }
            What::Ready | What::PassedOver => {
                if let Some(s) = deed.stage {
                    self.ready.entry(stage(s)).or_insert(at);
                }
            }
            What::ToldToEnd => {
                if let (Some(s), Form::Stage { .. } | Form::InPlace { .. }) = (deed.stage, deed.form) {
                    let name = release.strategy.stages[s].name.clone();
                    let by_hand = self.cut.contains(&(release.id.as_str().to_owned(), name));
                    // Who is over is told to end whatever it asks about.
                    let gone = self.over.contains_key(&(deed.release, deed.child.clone()));
                    let taken_back = !release.is_under_way();
                    let idle = self.idle.contains(&(deed.release, deed.child.clone()));
                    if !by_hand && !gone && !taken_back && !idle {
                        self.check_barrier(manager, release, &planned, deed, s + 1, at);
                    }
                }
            }
            What::Ended(status) => {
                if let Some(s) = deed.stage {
                    self.ready.entry(stage(s)).or_insert(at);
                    if status == StageStatus::Completed {
                        self.completed.insert(stage(s));
                    }
                }
            }
            What::Accepted => {
                if let Some(s) = deed.stage {
                    self.completed.insert(stage(s));
                }
            }
            What::Began if matches!(deed.form, Form::InPlace { .. }) => {
                let first = planned.stages_of(group(deed.form)).start;
                if let Some(stage) = deed.stage.filter(|stage| *stage > first) {
                    self.check_barrier(manager, release, &planned, deed, stage, at);
                }
            }
            What::RolledOut if matches!(deed.form, Form::InPlace { .. }) => {
                self.proven.insert(deed.release);
                self.check_rollout(manager, release, &planned, deed, at);
            }
            What::RolledOut => {
                self.proven.insert(deed.release);
                if planned.led.is_some() && !matches!(deed.form, Form::Rollout { .. }) {
                    self.wrong(
                        10,
                        format!("{} rolled out by {}, which is no roll-out", deed.child, deed.offer),
                    );
                }
            }
            What::ToldEarly => {
                if let Some(s) = deed.stage.filter(|_| !planned.may_end_early())
                    && let Form::Stage { .. } | Form::InPlace { .. } = deed.form
                {
                    let name = release.strategy.stages[s].name.clone();
                    let by_hand = self.cut.contains(&(release.id.as_str().to_owned(), name));
                    let gone = self.over.contains_key(&(deed.release, deed.child.clone()));
                    // What has failed and keeps its shares never meets them: it is told once somebody wants what follows.
                    let is_accepted = self.is_accepted(manager, deed);
                    if !by_hand && !gone && !is_accepted && release.is_under_way() {
                        self.wrong(
                            3,
                            format!("{} is told to end {} before its minima", deed.child, deed.offer),
                        );
                    }
                }
            }
            What::WithoutService(_)
            | What::Exited
            | What::Took
            | What::Began
            | What::RolledBack
            | What::Refused => {}
        }
    }

    /// Invariants 3 and 10: who rolls out has gone through all stages.
    fn check_rollout(
        &mut self,
        manager: &Manager,
        release: &Release,
        planned: &Planned,
        deed: &Deed,
        at: u64,
    ) {
        let mut stages = planned.stages_of(group(deed.form));
        self.check_barrier(manager, release, planned, deed, stages.end, at);
        let has_run = |stage: usize| {
            let name = release.strategy.stages[stage].name.clone();
            self.skipped.contains(&(release.id.as_str().to_owned(), name))
                || self.completed.contains(&(deed.release, deed.child.clone(), stage))
        };
        let is_excused = is_last_of_untested(release, manager.state.children.key(&deed.child));
        if planned.is_straight && !is_excused && !stages.all(has_run) {
            self.wrong(10, format!("{} rolls {} out untested", deed.child, deed.offer));
        }
    }

    /// Invariants 3 and 4: whoever is in an earlier wave has ended before.
    fn check_wave(&mut self, manager: &Manager, release: &Release, planned: &Planned, deed: &Deed, at: u64) {
        let Some(led) =
            planned.led.as_ref().filter(|led| matches!(led.order, "waves" | "location_sequential"))
        else {
            return;
        };
        let Some(key) = manager.state.children.key(&deed.child) else { return };
        let Ok(place) = release.members.binary_search(&key) else { return };
        let part = &release.assignments[&release.members[place]];
        let (wave, of) = (part.wave, part.group(&release.strategy));
        if wave == 0 || self.begun.contains(&(release.key, wave)) || self.is_promoted(release) {
            return;
        }
        // Of a release of functions and services each group is counted by itself, and the waves of routers come after all of agents.
        let is_hybrid = planned.first_of_routers.is_some();
        let parts = release.members.iter().map(|member| &release.assignments[member]);
        let group: Vec<&Assignment> =
            parts.filter(|part| !is_hybrid || part.group(&release.strategy) == of).collect();
        let first = release.first_of_routers().filter(|_| of == Group::Routers).unwrap_or_default();
        let mut most = 0;
        for size in led.waves.iter().take(wave.saturating_sub(first) as usize) {
            most = size.of(group.len()).max(most + 1);
        }
        let before = group.iter().filter(|part| part.wave < wave).count();
        if led.order == "waves" && before > most {
            return self.wrong(3, format!("{}: {before} have their turn before wave {wave}", release.id));
        }
        let counts_agents = release.managers.is_empty() && release.parent.is_none();
        let goes_on_anyway = self.resumed.contains(release.id.as_str());
        if counts_agents && !goes_on_anyway && !self.proven.contains(&release.key) {
            return self.wrong(14, format!("{}: wave {wave} opened, and nobody has succeeded", release.id));
        }
        let mut last = 0;
        for member in release.members.iter() {
            let part = &release.assignments[member];
            let Some(record) = manager.state.children.get(*member).filter(|_| part.wave < wave) else {
                continue;
            };
            let Some(over) = self.over.get(&(release.key, record.id.as_str().to_owned())) else {
                let text =
                    format!("{} begins {} in wave {wave} before {}", deed.child, deed.offer, record.id);
                return self.wrong(3, text);
            };
            last = last.max(*over);
        }
        if !self.retried.contains(&release.key) && at + LONGEST_COMMIT_MS < last + led.soak_ms {
            return self.wrong(3, format!("{}: wave {wave} did not wait for the soak", release.id));
        }
        self.begun.insert((release.key, wave));
        if led.approval == Some("before_each_wave") {
            let gates = self.begun.iter().filter(|(of, _)| *of == release.key).count();
            self.check_approvals(release, gates);
        }
    }

    fn is_promoted(&self, release: &Release) -> bool {
        self.promoted.contains(release.id.as_str())
    }

    fn check_approvals(&mut self, release: &Release, gates: usize) {
        let said = self.approvals.get(release.id.as_str()).copied().unwrap_or_default();
        if said < gates {
            self.wrong(3, format!("{}: {gates} gates opened, {said} approvals", release.id));
        }
    }

    /// Invariant 3, the barrier before `stage`: everybody of this wave who is still in the release has come to the end of the
    /// stage before.
    fn check_barrier(
        &mut self,
        manager: &Manager,
        release: &Release,
        planned: &Planned,
        deed: &Deed,
        stage: usize,
        at: u64,
    ) {
        let Some(led) = planned.led.as_ref().filter(|_| planned.is_straight) else { return };
        let rollout = stage == planned.stages_of(group(deed.form)).end;
        let approved = rollout && led.approval == Some("before_rollout");
        let global = led.order == "global_incremental";
        if !global && !approved {
            return;
        }
        let Some(key) = manager.state.children.key(&deed.child) else { return };
        let Some(wave) = release.assignments.get(&key).map(|part| part.wave) else { return };
        if self.opened.contains(&(release.key, wave, stage)) || self.is_promoted(release) {
            return;
        }
        // Who was told by hand to end the stage counts as having come; when, only the manager knows.
        let before = release.strategy.stages[stage - 1].name.clone();
        if self.cut.contains(&(release.id.as_str().to_owned(), before)) {
            self.opened.insert((release.key, wave, stage));
            return;
        }
        let mut last = 0;
        for (member, part) in &release.assignments {
            let Some(record) = manager.state.children.get(*member).filter(|_| part.wave == wave) else {
                continue;
            };
            let id = record.id.as_str().to_owned();
            if self.over.contains_key(&(release.key, id.clone())) || self.came_later(release, &id, stage - 1)
            {
                continue;
            }
            let Some(ready) = self.ready.get(&(release.key, id.clone(), stage - 1)) else {
                let what = format!("the barrier before {stage} of {} opened for {}", release.id, deed.child);
                return self.wrong(3, format!("{what}, and {id} has not come there"));
            };
            last = last.max(*ready);
        }
        if global && at < last + led.soak_ms {
            return self.wrong(3, format!("{}: stage {stage} did not wait for the soak", release.id));
        }
        self.opened.insert((release.key, wave, stage));
        if approved {
            // Who begins anew comes to the same barrier as the wave that is under way.
            let is_gate =
                |(of, _, at): &&(ReleaseKey, u32, usize)| *of == release.key && planned.is_rollout(*at);
            let waves = self.opened.iter().filter(is_gate);
            let gates = if self.retried.contains(&release.key) { 1 } else { waves.count() };
            self.check_approvals(release, gates);
        }
    }

    /// Whether a child began in another's place when the barrier after this stage was open already, or the parent
    /// had been told that all have come there.
    pub fn came_later(&self, release: &Release, child: &str, stage: usize) -> bool {
        let level = self.stood_in.get(&(release.key, child.to_owned()));
        level.is_some_and(|level| release.gates.levels.may_end(StepIndex::stage(stage), *level))
    }

    /// Whether the child was told to end a stage for want of calls. It may get them before it hears of it.
    pub fn was_idle(&self, release: ReleaseKey, child: &str) -> bool {
        self.idle.contains(&(release, child.to_owned()))
    }

    /// Whether somebody runs a release for good.
    pub fn is_proven(&self, release: ReleaseKey) -> bool {
        self.proven.contains(&release)
    }

    /// Whether a child was over in a release at any time.
    pub fn was_over(&self, release: ReleaseKey, child: &str) -> bool {
        self.over.contains_key(&(release, child.to_owned()))
    }

    /// Whether nobody can tell a machine to go back: an operator has forgotten its agent, or it had nothing in hand when
    /// its agent was started again, longer ago than anybody counts as a newcomer.
    pub fn is_excused(&self, manager: &Manager, id: &str, now: &str, release: ReleaseKey) -> bool {
        let (Some(found), false) = (manager.release(release), self.forgotten.contains(id)) else {
            return true;
        };
        let Some(key) = manager.state.children.key(id) else { return true };
        let born = manager.state.children.by_id(now).map(|(_, record)| record.born.served_ms);
        let undo = found.assignments.get(&key).and_then(|part| part.undo());
        let asked = undo.map_or(0, |undo| undo.asked + found.clock.paused_ms);
        id != now && born.is_some_and(|born| asked > born)
    }

    /// Invariants 6 and 10 by what runs at the end on a machine whose agent was `id` when it rolled out, and is `now` another.
    pub fn check_machine(
        &mut self,
        manager: &Manager,
        id: &str,
        now: &str,
        release: ReleaseKey,
        function: &str,
    ) {
        if self.is_excused(manager, id, now, release) {
            return;
        }
        let Some(found) = manager.release(release) else { return };
        let Some(key) = manager.state.children.key(id) else { return };
        let part = found.assignments.get(&key);
        let outcome = part.and_then(|part| part.outcome);
        let taken_back = is_taken_back(found);
        if taken_back {
            let text = format!(
                "{} is {} and {id}, now {now}, still runs {function}: {part:?}",
                found.id,
                found.state.name()
            );
            self.wrong(6, text);
        } else if found.state.is_over() && !taken_back && found.strategy.rollout.is_some() {
            let untested = outcome == Some(Outcome::Untested) && wants_untested(found);
            if outcome != Some(Outcome::Succeeded) && !untested {
                self.wrong(
                    10,
                    format!("{} is over and {id}, now {now}, keeps its {function}: {part:?}", found.id),
                );
            }
        }
    }
}

/// Whose stages an offer has.
fn group(form: Form) -> Group {
    match form {
        Form::InPlace { group, .. } => group,
        Form::Full
        | Form::Stage { .. }
        | Form::ReportedStage { .. }
        | Form::Rollout { .. }
        | Form::Undo { .. }
        | Form::UndoOf { .. }
        | Form::Withdrawn => Group::Agents,
    }
}

/// What an agent did to its callers, if it did.
pub fn harm(deed: &Deed) -> Option<String> {
    match deed.what {
        What::Exited => Some(format!("{} exits in the middle of {}", deed.child, deed.offer)),
        What::WithoutService(ms) => {
            let seconds = ms as f64 / 1_000.0;
            Some(format!("{} tests {} with nothing behind its proxy for {seconds} s", deed.child, deed.offer))
        }
        _ => None,
    }
}

/// Whether those that were left untested get the new version at the end.
pub fn wants_untested(release: &Release) -> bool {
    release.strategy.rollout.as_ref().is_some_and(|rollout| rollout.untested == Untested::Rollout)
}

/// Whether a child that was left untested rolls out at the end, since others have passed. Once all is taken back, nothing tells any more
/// who was: what a child begins then was handed out before.
pub fn is_last_of_untested(release: &Release, child: Option<ChildKey>) -> bool {
    let part = child.and_then(|child| release.assignments.get(&child));
    let was_untested = part.is_some_and(|part| part.outcome == Some(Outcome::Untested));
    (was_untested || is_taken_back(release)) && wants_untested(release) && release.counts.agents.succeeded > 0
}
