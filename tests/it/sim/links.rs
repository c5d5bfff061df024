//! Each manager below another has the product's own link to its parent; this is its driver in virtual time.
//!
//! It does what the driver `engine::parent` does between the calls, in the same order, and waits for its own engine where that one waits.
//! What it calls is the product's: the link, texts, submissions, aggregates. A kill leaves what the disk has.

use std::collections::{BTreeMap, HashMap, VecDeque};

use domain::{
    children::{self, Poll, Profile},
    parent::{
        Act, Answer, Below, Call, CallId, Link, LinkInputs, PollResponse, Row, Settings, Survey, ToldStage,
        Trouble,
    },
    release::{
        assignment::StepIndex,
        command::{Command, Offer, Refusal, Reply},
        lifecycle::{self, Submission},
        manager::Agents,
        members,
        offer::OfferName,
        parent::{
            self, aggregate,
            offered::{self, BELIEVED_AFTER},
        },
        state::Release,
        summary::Summary,
    },
};
use engine::{
    effect::{OWED, ParentStageResult, TAKING},
    json_columns,
};
use language::Strategy;
use model::{ChildId, ChildKind, FEATURE_SERVICES, FEATURE_TRAFFIC, ReleaseId, ReleaseKey, StageStatus};

use super::{
    call::{Beside, Caller, Patience, Request, Response},
    domain::Flaw,
    manager::{ENROLLED, Effect, Manager},
    world::{Crew, Event, World},
};

const POLL_MS: u64 = 3_000;

/// No link ever has more to remember than this, as text, in bytes.
const LONGEST_LINK: usize = 60_000;

/// How far a call has come that is made of several.
#[derive(Debug)]
enum Doing {
    Plain,
    Fetching {
        offer: String,
        attempt: u32,
    },
    Unpacking {
        offer: String,
        text: String,
        strategy: Box<Strategy>,
    },
    Submitting {
        offer: String,
        submission: Box<Submission>,
        left: Vec<ReleaseId>,
    },
    Undoing(Undoing),
    GoingOn,
    /// It is stored what the parent has to hear at once.
    Refusing,
}

/// An order to take back, and the releases that are left to be.
#[derive(Debug, Default)]
struct Undoing {
    offer: String,
    left: Vec<String>,
    is_under_way: bool,
    unconfirmed: u32,
}

#[derive(Debug)]
pub struct Line {
    pub parent: usize,
    /// The parent and those above it, nearest first.
    pub above: Vec<String>,
    link: Link,
    below: Below,
    doing: HashMap<CallId, Doing>,
    results: HashMap<Row, ParentStageResult>,
    answers: VecDeque<(CallId, Result<Answer, Trouble>)>,
    /// It waits for its own engine.
    is_busy: bool,
    wake_at: u64,
}

pub fn own_id(manager: usize) -> String {
    format!("m{manager}")
}

impl Line {
    pub fn new(manager: usize, parent: usize, at: u64) -> Self {
        let settings = Settings { poll_ms: POLL_MS, own_id: own_id(manager), seed: at + manager as u64 };
        Self {
            parent,
            above: Vec::new(),
            link: Link::new(settings, at),
            below: Below::default(),
            doing: HashMap::new(),
            results: HashMap::new(),
            answers: VecDeque::new(),
            is_busy: false,
            wake_at: u64::MAX,
        }
    }

    /// Nothing is left to be told.
    pub fn is_idle(&self) -> bool {
        self.link.unsent() == 0 && self.link.is_up()
    }

    /// Says how much it remembers, if that is too much.
    pub fn is_too_big(&self) -> Option<String> {
        let size = format!("{:?}", self.link).len();
        (size > LONGEST_LINK).then(|| format!("the link to {} takes {size} bytes", self.parent))
    }

    fn take(&mut self, effect: &Effect, at: u64) {
        match effect.kind {
            ENROLLED => self.link.note_enrolled(effect.payload.clone()),
            TAKING => self.link.note_taking(effect.row, effect.payload.clone()),
            OWED => {
                let owed: ParentStageResult = serde_json::from_str(&effect.payload).unwrap();
                self.link.note_owed(effect.row, owed.offer.clone(), at - effect.at, at);
                self.results.insert(effect.row, owed);
            }
            other => panic!("{other}"),
        }
    }

    fn look_below(&mut self, manager: &Manager) {
        let below = Survey::of(&manager.state.children).finish(None);
        if below != self.below {
            self.below = below;
            self.link.note_below(self.below.area(false).is_some());
        }
    }
}

impl World {
    /// The link of a manager begins its life with what is on the disk.
    pub(super) fn begin_link(&mut self, manager: usize) {
        let Some(parent) = self.links[manager].as_ref().map(|link| link.parent) else { return };
        let mut line = Line::new(manager, parent, self.at);
        for effect in self.managers[manager].outbox() {
            line.take(effect, self.at);
        }
        line.look_below(&self.managers[manager]);
        self.links[manager] = Some(line);
        self.turn(manager);
    }

    /// What a commit means for the link.
    pub(super) fn link_committed(&mut self, manager: usize, effects: &[Effect], below_changed: bool) {
        let Some(line) = &mut self.links[manager] else { return };
        for effect in effects {
            line.take(effect, self.at);
        }
        line.is_busy = false;
        if below_changed {
            line.look_below(&self.managers[manager]);
        }
    }

    pub(super) fn wake_link(&mut self, manager: usize, life: u32) {
        if self.managers[manager].life != life {
            return;
        }
        if let Some(line) = &mut self.links[manager]
            && line.wake_at == self.at
        {
            line.wake_at = u64::MAX;
            self.turn(manager);
        }
    }

    /// Does all that is to be done now.
    pub(super) fn turn(&mut self, manager: usize) {
        if !self.managers[manager].is_up {
            return;
        }
        let at = self.at;
        loop {
            let Some(line) = &mut self.links[manager] else { return };
            if line.is_busy {
                return;
            }
            // What is not committed is no fact.
            let is_fresh = !self.managers[manager].has_something_to_commit();
            if is_fresh {
                line.link.note_facts(LinkInputs::of(&self.managers[manager].state), at);
                if let Some((call, answer)) = line.answers.pop_front() {
                    line.link.note_answer(call, answer, at);
                }
            }
            match line.link.next_act(at) {
                Some(act) => self.carry_out(manager, act),
                None if is_fresh && !line.answers.is_empty() => {}
                None => break,
            }
        }
        let Some(line) = &mut self.links[manager] else { return };
        if let Some(wake) = line.link.wakes_at()
            && wake.max(at + 1) < line.wake_at
        {
            line.wake_at = wake.max(at + 1);
            let (at, life) = (line.wake_at, self.managers[manager].life);
            self.plan(at, Event::WakeLink { manager, life });
        }
    }

    fn carry_out(&mut self, manager: usize, act: Act) {
        match act {
            Act::Call(id, call) => self.begin_call(manager, id, call),
            Act::GiveUp(call) => {
                self.links[manager].as_mut().unwrap().doing.remove(&call);
            }
            Act::Enroll(id) => {
                self.tell(|| format!("manager {manager} is {id} at its parent"));
                let parent = self.links[manager].as_ref().unwrap().parent;
                self.overseer.known_as.insert((parent, id.clone()), manager);
                self.store_effect(manager, ENROLLED, id);
            }
            Act::Note { offer } => self.store_effect(manager, TAKING, offer),
            Act::Done(rows) => {
                for row in &rows {
                    self.links[manager].as_mut().unwrap().results.remove(row);
                }
                let had = self.managers[manager].has_something_to_commit();
                self.managers[manager].effects_done(rows);
                self.commit_soon(manager, had);
            }
            Act::End { release, stage, undo } => {
                self.tell(|| format!("manager {manager} ends stage {stage} of {release}, {undo}"));
                let release = release.as_str().to_owned();
                self.own(manager, None, Command::Parent(parent::Command::End { release, stage, undo }));
            }
            Act::Skip { release, stage } => {
                let release = release.as_str().to_owned();
                self.own(manager, None, Command::Parent(parent::Command::Skip { release, stage }));
            }
            Act::Accept { release, failures } => {
                self.tell(|| format!("manager {manager} goes on from {failures} failures of {release}"));
                self.check_accepted(manager, &release, failures);
                let release = release.as_str().to_owned();
                self.own(manager, None, Command::Parent(parent::Command::Accept { release, failures }));
            }
            Act::Hold { release, hold } => {
                let release = release.as_str().to_owned();
                self.own(manager, None, Command::Parent(parent::Command::Hold { release, hold }));
            }
            Act::Answer(asked) => panic!("nobody asks here: {asked:?}"),
            Act::Disown { release, why } => {
                let release = release.as_str().to_owned();
                self.own(manager, None, Command::Parent(parent::Command::Disowned { release, why }));
            }
            Act::Lineage(above) => self.links[manager].as_mut().unwrap().above = above,
            Act::Say(said) => self.tell(|| format!("manager {manager} says {said:?}")),
        }
    }

    /// What a manager hears of failures is what was decided above it.
    fn check_accepted(&mut self, manager: usize, release: &ReleaseId, failures: u32) {
        let line = self.links[manager].as_ref().unwrap();
        let (parent, id) = (line.parent, line.link.id().unwrap_or_default());
        let own = self.managers[manager].state.release_by_id(release.as_str());
        let Some(of) = own.and_then(|own| own.parent.as_ref()) else { return };
        let above = &self.managers[parent].state;
        let known = OfferName::candidates(&of.offer).find_map(|(id, _)| above.known.get(id));
        if let (Some(known), Some(child)) = (known, above.children.key(id)) {
            self.witnesses[parent].has_accepted(known.key, child, failures);
        }
    }

    fn store_effect(&mut self, manager: usize, kind: &'static str, payload: String) {
        let had = self.managers[manager].has_something_to_commit();
        self.managers[manager].effect(kind, payload, self.at);
        self.links[manager].as_mut().unwrap().is_busy = true;
        self.commit_soon(manager, had);
    }

    /// A command for its own engine; the link waits for the commit.
    fn own(&mut self, manager: usize, call: Option<CallId>, command: Command) {
        if call.is_none() {
            self.links[manager].as_mut().unwrap().is_busy = true;
        }
        let caller = call.map_or(Caller::Nobody, |call| Caller::Own { manager, call });
        let had = self.managers[manager].has_something_to_commit();
        let taken = self.managers[manager].take(caller, 0, Request::Heart(Box::new(command)), self.at);
        if let Err(text) = taken {
            self.witnesses[manager].duplicate(text);
        }
        self.commit_soon(manager, had);
    }

    fn begin_call(&mut self, manager: usize, call: CallId, what: Call) {
        let line = self.links[manager].as_mut().unwrap();
        let parent = line.parent;
        let (mut doing, mut held) = (Doing::Plain, Vec::new());
        let (command, wait_ms) = match what {
            Call::Poll(poll) => {
                let capabilities = line.below.capabilities(poll.features, None).unwrap_or_default();
                let command = Command::Children(children::Command::Poll(Poll {
                    child: poll.id.map(|id| ChildId::parse(&id).unwrap()),
                    fresh: ChildId::parse("unset").unwrap(),
                    area: line.below.area(poll.understood).map(Into::into),
                    address: None,
                    agents: line.below.agents(),
                    profile: Some(Profile { name: None, kind: ChildKind::Rm, capabilities }),
                    tenant: None,
                }));
                held = poll.held;
                (Some(command), poll.wait_ms)
            }
            Call::Take { id, offer, attempt } => {
                doing = Doing::Fetching { offer: offer.clone(), attempt };
                (Some(Command::Members(members::Command::Fetch { child: id, offer })), None)
            }
            Call::Result { id, row } => {
                let owed = line.results.get(&row).cloned();
                let sent = owed.map(|owed| {
                    let status = owed.status;
                    let key = ReleaseKey(owed.release_key);
                    let measured = owed.release.as_ref().filter(|_| owed.recount.is_none());
                    let about = measured.map(|_| (key, StepIndex(owed.slot)));
                    let sum = self.sum_up(manager, about, status, owed.stage);
                    let summary =
                        Summary { agents: Some(owed.agents), why: owed.why, recount: owed.recount, ..sum };
                    Command::Members(members::Command::Result {
                        child: id,
                        offer: owed.offer,
                        reports: vec![json_columns::received(summary).unwrap()],
                    })
                });
                (sent, None)
            }
            Call::Ready(_) | Call::Interim(_) => {
                let (status, ToldStage { id, release, offer, stage, name, failures }) = match what {
                    Call::Ready(told) => (StageStatus::SuccessWaiting, told),
                    Call::Interim(told) => (StageStatus::InProgress, told),
                    _ => return,
                };
                let found = self.managers[manager].state.release_by_id(release.as_str());
                let about = found.map(|found| (found.key, StepIndex::stage(usize::from(stage))));
                let agents = found.map(Release::agents);
                let above = found.and_then(|found| found.parent.as_ref()).filter(|_| failures.is_some());
                let failed = above.and_then(|above| Some((above.failures, above.failed.clone()?)));
                // What is decided meanwhile is not to be told.
                let about = about.filter(|_| failures.is_none() || failed.is_some());
                let sent = about.map(|about| {
                    let sum = self.sum_up(manager, Some(about), status, Some(name));
                    let (failures, why) = failed.unzip();
                    let summary = Summary { agents, failures, why, ..sum };
                    let reports = vec![json_columns::received(summary).unwrap()];
                    Command::Members(members::Command::Result { child: id, offer, reports })
                });
                (sent, None)
            }
            Call::EndStage { id, offer, name, failures, wait_ms, .. } => {
                let ask = members::Command::EndStage { child: id, offer, stage: name, failures };
                (Some(Command::Members(ask)), wait_ms)
            }
        };
        let Some(command) = command.map(Box::new) else {
            self.links[manager].as_mut().unwrap().answers.push_back((call, Ok(Answer::Reported)));
            return;
        };
        let request = match wait_ms {
            Some(wait_ms) => {
                let (skipped, shares) = (Vec::new(), BTreeMap::new());
                Request::Patient(command, Patience { wait_ms, held, skipped, shares })
            }
            None => Request::Heart(command),
        };
        self.links[manager].as_mut().unwrap().doing.insert(call, doing);
        self.send_up(manager, parent, call, request);
    }

    fn send_up(&mut self, manager: usize, parent: usize, call: CallId, request: Request) {
        let life = self.managers[manager].life;
        self.calls += 1;
        self.send(parent, Caller::Link { manager, life, call }, self.calls, request);
    }

    fn sum_up(
        &mut self,
        manager: usize,
        about: Option<(ReleaseKey, StepIndex)>,
        status: StageStatus,
        stage: Option<String>,
    ) -> Summary {
        let rows = about.map(|(release, slot)| self.managers[manager].summaries(release, slot));
        let summaries: Vec<Summary> =
            rows.unwrap_or_default().into_iter().map(|(_, summary)| summary).collect();
        let summary = Summary { stage_name: stage, ..aggregate(status, &summaries) };
        if let Some((release, _)) = about {
            self.overseer.reports(&self.managers, manager, release, &summary);
        }
        summary
    }

    /// An answer, or that there is none, comes back to a link.
    pub(super) fn back(&mut self, manager: usize, call: CallId, response: Response, beside: Beside) {
        let Some(line) = &mut self.links[manager] else { return };
        let Some(doing) = line.doing.remove(&call) else { return };
        let passing = |why: &str| Err(Trouble::Passing(why.to_owned()));
        let answer = match (doing, response) {
            (_, Response::Lost) => passing("no answer"),
            (_, Response::Garbled(None)) => passing("nonsense"),
            (Doing::Plain, Response::Garbled(Some(status))) => {
                Err(Trouble::Refused { status, text: "garbled".to_owned() })
            }
            (Doing::Fetching { attempt, .. }, Response::Garbled(Some(_)))
                if attempt + 1 >= BELIEVED_AFTER =>
            {
                Ok(Answer::Taken)
            }
            (Doing::Fetching { .. } | Doing::Unpacking { .. }, Response::Garbled(Some(_))) => {
                passing("garbled")
            }
            (Doing::Fetching { offer, attempt }, Response::Heart(answer)) => match *answer {
                Ok(Reply::Offer(found)) => return self.fetched(manager, call, offer, &found),
                Ok(_) => passing("nonsense"),
                // The parent doesn't hand out what it offered.
                Err(_) if attempt + 1 >= BELIEVED_AFTER => Ok(Answer::Taken),
                Err(_) => passing("it is refused"),
            },
            (Doing::Unpacking { offer, text, strategy }, Response::Functions) => {
                return self.unpacked(manager, call, &offer, &text, *strategy);
            }
            (Doing::Submitting { offer, submission, left }, Response::Heart(answer)) => {
                return self.submitted(manager, call, offer, *submission, left, *answer);
            }
            (Doing::Undoing(mut undoing), Response::Heart(answer)) => match *answer {
                Ok(Reply::TakenBack { is_under_way, unconfirmed }) => {
                    undoing.is_under_way |= is_under_way;
                    undoing.unconfirmed += unconfirmed;
                    return self.undo_next(manager, call, undoing);
                }
                Ok(_) => return self.undo_next(manager, call, undoing),
                Err(refusal) => Err(Trouble::Passing(refusal.to_string())),
            },
            (Doing::GoingOn, Response::Heart(answer)) => {
                answer.map(|_| Answer::Taken).map_err(|refusal| Trouble::Passing(refusal.to_string()))
            }
            (Doing::Plain, Response::Heart(answer)) => match *answer {
                Ok(Reply::Polled { child, offer, .. }) => Ok(Answer::Polled(PollResponse {
                    id: child.as_str().to_owned(),
                    offer,
                    rm_ids: beside.above,
                    hold: beside.hold,
                    features: self.features(),
                    ..PollResponse::default()
                })),
                Ok(Reply::EndStage { end, rollback, skip, winner: _, shares: _, accepted }) => {
                    Ok(Answer::EndStage { end, undo: rollback, skip, accepted })
                }
                Ok(Reply::Stored) => Ok(Answer::Reported),
                Ok(other) => panic!("{other:?}"),
                Err(refusal) => Err(Trouble::Refused { status: status(&refusal), text: refusal.to_string() }),
            },
            (doing, response) => panic!("{doing:?} does not expect {response:?}"),
        };
        self.answer_link(manager, call, answer);
    }

    /// What a parent says that it has beyond the plain protocol.
    fn features(&self) -> Vec<String> {
        let of_services =
            [FEATURE_TRAFFIC, FEATURE_SERVICES].into_iter().filter(|_| self.crew == Crew::Routers);
        of_services.map(str::to_owned).collect()
    }

    fn answer_link(&mut self, manager: usize, call: CallId, answer: Result<Answer, Trouble>) {
        if let Some(line) = &mut self.links[manager] {
            line.answers.push_back((call, answer));
        }
        self.turn(manager);
    }

    fn fetched(&mut self, manager: usize, call: CallId, offer: String, found: &Offer) {
        let text = found.text(&offer);
        if offered::is_withdrawn(text.as_bytes()) {
            return self.answer_link(manager, call, Ok(Answer::Taken));
        }
        self.tell(|| format!("manager {manager} fetched {offer}\n{text}"));
        let checked = language::check_from_parent(text.as_bytes());
        let Some(strategy) = checked.strategy else {
            // An offer of ours that can't be read is a fault of its own.
            let text = format!("{offer} has faults: {:?}\n{text}", checked.diagnostics);
            self.overseer.wrong(9, text);
            return self.tell_up(manager, call, &refused(&offer));
        };
        let forgets = self.managers[manager].flaw == Some(Flaw::ForgetsUndoOfParent);
        let above = strategy.from_parent.clone().unwrap_or_default();
        if let Some(undone) = above.undoes {
            let left = if forgets { Vec::new() } else { self.came_as(manager, &undone) };
            return self.undo_next(manager, call, Undoing { offer, left, ..Undoing::default() });
        }
        let before = above.continues.and_then(|before| {
            let all = self.came_as(manager, strategy.id.as_str());
            all.into_iter().find(|id| self.is_of(manager, id, &before) || self.is_of(manager, id, &offer))
        });
        let line = self.links[manager].as_mut().unwrap();
        if let Some(release) = before {
            line.doing.insert(call, Doing::GoingOn);
            let (waves, retries) = (above.waves.unwrap_or(1), above.retries);
            return self.own(
                manager,
                Some(call),
                Command::Parent(parent::Command::Continue {
                    release,
                    offer,
                    waves,
                    retries,
                    amounts: Vec::new(),
                    liveness_checks: domain::release::liveness_check::ReportedLiveness::new(),
                }),
            );
        }
        let parent = line.parent;
        // The folders hold what the parent handed out, whatever it calls the release.
        let strategy = Box::new(strategy.with_contents(&found.strategy.contents()));
        line.doing.insert(call, Doing::Unpacking { offer, text, strategy });
        self.send_up(manager, parent, call, Request::Functions);
    }

    /// What the offers of a release of the parent are called here.
    fn came_as(&self, manager: usize, release: &str) -> Vec<String> {
        let known = &self.managers[manager].state.known;
        offered::all_ids(release).filter(|id| known.contains_key(id.as_str())).collect()
    }

    /// Whether a release came as this very offer.
    fn is_of(&self, manager: usize, id: &str, offer: &str) -> bool {
        let known = self.managers[manager].state.known.get(id);
        let found = known.and_then(|known| self.managers[manager].release(known.key));
        let offered = found.and_then(|release| release.parent.as_ref());
        offered.is_some_and(|offered| offered.offer == offer)
    }

    /// Takes the next of the releases back that came as one that is undone.
    fn undo_next(&mut self, manager: usize, call: CallId, mut undoing: Undoing) {
        let Some(release) = undoing.left.pop() else {
            if undoing.is_under_way {
                return self.answer_link(manager, call, Ok(Answer::Taken));
            }
            return self.tell_up(
                manager,
                call,
                &ParentStageResult::undone(undoing.offer, undoing.unconfirmed),
            );
        };
        let command = Command::Parent(parent::Command::Undo { release, offer: undoing.offer.clone() });
        self.links[manager].as_mut().unwrap().doing.insert(call, Doing::Undoing(undoing));
        self.own(manager, Some(call), command);
    }

    /// The parent will hear this, and nothing else follows from its offer.
    fn tell_up(&mut self, manager: usize, call: CallId, owed: &ParentStageResult) {
        let had = self.managers[manager].has_something_to_commit();
        self.managers[manager].effect(OWED, serde_json::to_string(owed).unwrap(), self.at);
        self.links[manager].as_mut().unwrap().doing.insert(call, Doing::Refusing);
        self.commit_soon(manager, had);
    }

    /// What was refused is stored: the calls are over.
    pub(super) fn refusals_stored(&mut self, manager: usize) {
        let Some(line) = &mut self.links[manager] else { return };
        let stored: Vec<CallId> = line
            .doing
            .iter()
            .filter(|(_, doing)| matches!(doing, Doing::Refusing))
            .map(|(call, _)| *call)
            .collect();
        for call in stored {
            line.doing.remove(&call);
            line.answers.push_back((call, Ok(Answer::Taken)));
        }
    }

    fn unpacked(&mut self, manager: usize, call: CallId, offer: &str, text: &str, strategy: Strategy) {
        let submission = offered::submission(offer, text.as_bytes(), strategy, [1; 32]).unwrap();
        let left: Vec<ReleaseId> = offered::ids(offer).collect();
        self.try_next(manager, call, offer.to_owned(), submission, left);
    }

    fn try_next(
        &mut self,
        manager: usize,
        call: CallId,
        offer: String,
        submission: Submission,
        mut left: Vec<ReleaseId>,
    ) {
        if left.is_empty() {
            return self.tell_up(manager, call, &refused(&offer));
        }
        let submission = Box::new(Submission { id: left.remove(0), ..submission });
        let command =
            Command::Lifecycle(lifecycle::Command::Submit { submission: submission.clone(), dry_run: false });
        let doing = Doing::Submitting { offer, submission, left };
        self.links[manager].as_mut().unwrap().doing.insert(call, doing);
        self.own(manager, Some(call), command);
    }

    fn submitted(
        &mut self,
        manager: usize,
        call: CallId,
        offer: String,
        submission: Submission,
        left: Vec<ReleaseId>,
        answer: Result<Reply, Refusal>,
    ) {
        match answer {
            Ok(_) => self.answer_link(manager, call, Ok(Answer::Taken)),
            Err(Refusal::IdTaken(id)) => {
                if self.is_of(manager, id.as_str(), &offer) {
                    return self.tell_up(manager, call, &refused(&offer));
                }
                self.try_next(manager, call, offer, submission, left);
            }
            Err(Refusal::IdAmbiguous { .. }) => self.try_next(manager, call, offer, submission, left),
            Err(Refusal::Conflict(_)) => self.tell_up(manager, call, &refused(&offer)),
            Err(other) => {
                self.answer_link(manager, call, Err(Trouble::Passing(other.to_string())));
            }
        }
    }
}

/// What the parent hears of an offer that can't be a release.
fn refused(offer: &str) -> ParentStageResult {
    ParentStageResult {
        offer: offer.to_owned(),
        release: None,
        release_key: 0,
        stage: None,
        next: None,
        slot: 0,
        split: 0,
        begun: None,
        status: StageStatus::Error,
        agents: Agents::default(),
        why: None,
        recount: None,
    }
}

/// The status of a refusal, as the edge gives it.
fn status(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::UnknownChild(_) | Refusal::UnknownRelease(_) | Refusal::NeverOffered { .. } => 404,
        Refusal::NotAReport(_) => 400,
        _ => 409,
    }
}
