//! A deployed agent as a state machine. The numbers are the points of DESIGN's list of how agents behave.
//!
//! It is asked to go on when its nap is over or its call is answered, and says what it does next: call, sleep or exit.
//! What it does to its machine it does before it reports.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use domain::{
    children::{self, Poll},
    release::{
        command::{Command, Form, Offer, Reply},
        members,
        summary::{Summary, Times},
    },
};
use engine::json_columns;
use language::{Action, Stage, StageKind, Strategy, render};
use model::{ChildId, ReleaseKey, StageStatus};

use super::{
    call::{Request, Response},
    dice::Dice,
};
use crate::releases::numbered;

const POLL_MS: u64 = 3_000;
const FIRST_QUESTION_MS: u64 = 5_000;
const TICK_MS: u64 = 1_000;
const SET_UP_MS: (u64, u64) = (1_000, 12_000);
/// Where images are built, or fetched over a slow line: as long as strategies allow, see [`super::plans`].
const LONG_SET_UP_MS: (u64, u64) = (15_000, 40_000);
const LONG_SET_UP_CHANCE: f64 = 0.15;
const LONGEST_TEST_MS: u64 = 40_000;

/// Who can't go back looks again at once whether there is anything else to do.
const HASTY_MS: u64 = 100;

/// What answers the callers of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Live {
    Base,
    New(ReleaseKey),
    Proxy(ReleaseKey),
}

/// What an agent did, for those who watch.
#[derive(Debug, Clone)]
pub struct Deed {
    pub child: String,
    pub offer: String,
    pub release: ReleaseKey,
    pub form: Form,
    /// Of the strategy; `None` for a roll-out or an undo.
    pub stage: Option<usize>,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It has downloaded the offer and unpacks it.
    Took,
    Began,
    /// It sends `SuccessWaiting`.
    Ready,
    ToldToEnd,
    RolledOut,
    RolledBack,
    /// It sends its result.
    Ended(StageStatus),
    /// Its stage has failed and kept its shares, and it goes on with what follows all the same.
    Accepted,
    /// It sends its result of a stage that it had not tested, since it is to pass over it.
    PassedOver,
    /// What it was shown was refused.
    Refused,
    /// It tested versions that were gone, so that callers got errors for so long, in milliseconds.
    WithoutService(u64),
    /// It exits with stages left.
    Exited,
    /// It was told to end a stage whose minima it has not met.
    ToldEarly,
}

/// What it does next.
#[derive(Debug)]
pub enum Next {
    Call(Request),
    Sleep(u64),
    /// The process ends.
    Exit,
}

/// Why it goes on.
#[derive(Debug)]
pub enum Input {
    Woken,
    Answered(Response),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Rollout,
    Rollback,
    Walk,
}

/// A stage as the agent reads it.
#[derive(Debug, Clone)]
struct Part {
    name: String,
    index: Option<usize>,
    kind: StageKind,
    /// Without one successful call of the new version it fails.
    needs_call: bool,
    is_conditional: bool,
    shortest_ms: u64,
    on_success: Then,
}

#[derive(Debug, Clone)]
struct Work {
    offer: Offer,
    id: String,
    function: String,
    parts: Vec<Part>,
    at: usize,
    was_rolled_back: bool,
}

/// How a test goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Luck {
    Good,
    /// Its conditions don't hold when its minima are met.
    Bad,
    /// They hold then, and no more when the signal comes.
    Turns,
    /// Nobody calls.
    NoCalls,
    /// Nobody calls the new version until its minima are met.
    NoneOfNew,
}

/// How many calls a result speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    None,
    NoneOfNew,
    /// Fewer than any minimum.
    Few,
    Some,
    Unsaid,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    luck: Luck,
    began_at: u64,
    meets_minima_at: u64,
    /// It has sent `SuccessWaiting`.
    is_ready: bool,
    announced: bool,
}

#[derive(Debug)]
enum Step {
    Idle,
    Polling,
    Fetching(String),
    Unpacking(Box<Work>),
    SettingUp(Box<Work>),
    /// Asleep within a stage.
    Testing(Box<Work>, Run),
    Announcing(Box<Work>, Run),
    Asking(Box<Work>, Run),
    Reporting(Box<Work>),
    /// It says something else too late.
    Chattering,
}

/// The machine and whichever process runs on it.
#[derive(Debug)]
pub struct Agent {
    /// The manager it calls.
    pub parent: usize,
    pub area: Arc<str>,
    /// Where its calls come from.
    pub address: IpAddr,
    /// Its place in the row of areas.
    pub place: usize,
    pub live: BTreeMap<String, Live>,
    /// By function, the id under which it rolled out.
    pub settled_as: BTreeMap<String, String>,
    pub process: u32,
    pub is_alive: bool,
    /// Empty until it is told one; all that it had are in `ids`.
    pub id: String,
    pub ids: Vec<String>,
    /// Whether it may need minutes to set something up.
    pub is_slow: bool,
    /// Until then it answers each undo with an error, and takes the next at once.
    pub fails_undos_until: u64,
    /// Until then, whenever it has nothing in hand, it reports something else of an offer of which nothing was taken.
    pub chatters_until: u64,
    refused: Option<(String, String)>,
    /// Chance that a test goes wrong.
    pub mishap: f64,
    step: Step,
    results: u32,
}

impl Agent {
    /// Whether it answers this with an error: its base version can't be started.
    fn fails(&self, work: &Work, at: u64) -> bool {
        matches!(work.offer.form, Form::Undo { .. }) && at < self.fails_undos_until
    }

    pub fn new(parent: usize, place: usize, mishap: f64) -> Self {
        let (west, east) = (place as f64, place as f64 + 0.8);
        let area = format!(
            r#"{{"type":"Polygon","coordinates":[[[{west},0],[{east},0],[{east},1],[{west},1],[{west},0]]]}}"#
        );
        Self {
            parent,
            area: area.into(),
            address: IpAddr::from([10, 0, 0, place as u8]),
            place,
            live: BTreeMap::new(),
            settled_as: BTreeMap::new(),
            process: 0,
            is_alive: false,
            id: String::new(),
            ids: Vec::new(),
            is_slow: false,
            fails_undos_until: 0,
            chatters_until: 0,
            refused: None,
            mishap,
            step: Step::Idle,
            results: 0,
        }
    }

    /// 8. A new process knows no id, and finds what the old one left.
    pub fn start(&mut self) {
        self.process += 1;
        self.is_alive = true;
        self.id.clear();
        self.refused = None;
        self.step = Step::Idle;
    }

    pub fn die(&mut self) {
        self.is_alive = false;
        self.step = Step::Idle;
    }

    /// 6. Nobody calls, so its test never ends.
    pub fn hangs(&self) -> bool {
        matches!(&self.step, Step::Testing(work, run)
            if run.luck == Luck::NoCalls && work.parts[work.at].kind == StageKind::AB)
    }

    /// Whether it has something in hand, and is as silent or as talkative as that makes it.
    pub fn is_at_work(&self) -> bool {
        let works = matches!(
            self.step,
            Step::SettingUp(_) | Step::Testing(..) | Step::Announcing(..) | Step::Asking(..)
        );
        works && !self.hangs()
    }

    /// Has the area of another one, and maybe its address too.
    pub fn resemble(&mut self, other: &Self, is_same_address: bool) {
        self.area = Arc::clone(&other.area);
        self.place = other.place;
        if is_same_address {
            self.address = other.address;
        }
    }

    /// Whether nothing tells its calls from those of another.
    pub fn is_alike(&self, other: &Self) -> bool {
        (self.parent, self.place, self.address) == (other.parent, other.place, other.address)
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.step, Step::Idle | Step::Polling | Step::Chattering)
    }

    pub fn go_on(&mut self, input: Input, at: u64, dice: &mut Dice, deeds: &mut Vec<Deed>) -> Next {
        match (std::mem::replace(&mut self.step, Step::Idle), input) {
            (Step::Idle, _) => self.poll(),
            (Step::Polling, Input::Answered(response)) => self.polled(response, at),
            (Step::Fetching(id), Input::Answered(response)) => self.fetched(id, response, deeds),
            (Step::Unpacking(work), Input::Answered(Response::Functions)) => {
                deeds.push(self.deed(&work, What::Took));
                if self.fails(&work, at) {
                    let next = self.result(&work, StageStatus::Error, Calls::None);
                    self.step = Step::Reporting(work);
                    return next;
                }
                self.step = Step::SettingUp(work);
                let takes_long = self.is_slow && dice.chance(LONG_SET_UP_CHANCE);
                let (least, most) = if takes_long { LONG_SET_UP_MS } else { SET_UP_MS };
                Next::Sleep(dice.between(least, most))
            }
            (Step::SettingUp(work), _) => {
                // 9. A missing folder fails without a word.
                if work.parts.is_empty() || dice.chance(self.mishap / 10.0) {
                    return Next::Sleep(POLL_MS);
                }
                self.begin(work, at, dice, deeds)
            }
            (Step::Testing(work, run), _) => self.look(work, run, at, dice, deeds),
            (Step::Announcing(work, mut run), Input::Answered(response)) => {
                run.announced = matches!(&response, Response::Heart(answer) if answer.is_ok());
                self.ask(work, run)
            }
            (Step::Asking(work, run), Input::Answered(response)) => {
                let told = matches!(&response, Response::Heart(answer) if matches!(**answer, Ok(Reply::EndStage { end: true, .. })));
                if told {
                    let early = !run.is_ready && work.parts[work.at].is_conditional;
                    deeds.push(self.deed(&work, if early { What::ToldEarly } else { What::ToldToEnd }));
                    return self.judge(work, run, at, dice, deeds);
                }
                self.step = Step::Testing(work, run);
                Next::Sleep(TICK_MS)
            }
            // 3. and 5. Whatever the answer: the next listed stage, also after a roll-back.
            (Step::Reporting(mut work), Input::Answered(response)) => {
                let is_taken = matches!(&response, Response::Heart(answer) if answer.is_ok());
                if !is_taken && !matches!(work.offer.form, Form::Undo { .. }) {
                    self.refused = Some((work.id.clone(), work.parts[work.at].name.clone()));
                }
                work.at += 1;
                if work.at == work.parts.len() {
                    return Next::Sleep(if self.fails(&work, at) { HASTY_MS } else { POLL_MS });
                }
                if work.was_rolled_back && dice.chance(0.3) {
                    deeds.push(self.deed(&work, What::Exited));
                    return Next::Exit;
                }
                self.begin(work, at, dice, deeds)
            }
            (Step::Chattering, _) => Next::Sleep(HASTY_MS),
            // 4. Any error while it fetches is the end.
            (Step::Unpacking(_), _) => Next::Exit,
            (step, input) => panic!("{step:?} does not expect {input:?}"),
        }
    }

    fn poll(&mut self) -> Next {
        self.step = Step::Polling;
        let poll = Poll {
            child: (!self.id.is_empty()).then(|| ChildId::parse(&self.id).unwrap()),
            fresh: ChildId::parse("unset").unwrap(),
            area: Some(Arc::clone(&self.area)),
            address: Some(self.address),
            agents: 0,
            profile: None,
            tenant: None,
        };
        domain_call(Command::Children(children::Command::Poll(poll)))
    }

    fn polled(&mut self, response: Response, at: u64) -> Next {
        if let Response::Heart(answer) = response
            && let Ok(Reply::Polled { child, offer, .. }) = *answer
        {
            if self.id != child.as_str() {
                child.as_str().clone_into(&mut self.id);
                self.ids.push(self.id.clone());
            }
            if let Some(offer) = offer {
                self.step = Step::Fetching(offer.clone());
                return domain_call(Command::Members(members::Command::Fetch {
                    child: self.id.clone(),
                    offer,
                }));
            }
        }
        match self.refused.clone().filter(|_| at < self.chatters_until) {
            Some((offer, stage)) => self.chatter(offer, &stage),
            None => Next::Sleep(POLL_MS),
        }
    }

    /// What it says proves nothing.
    fn chatter(&mut self, offer: String, stage: &str) -> Next {
        self.results += 1;
        self.step = Step::Chattering;
        let summary = numbered(stage, StageStatus::Error, f64::from(self.results));
        let reports = vec![json_columns::received(summary).unwrap()];
        domain_call(Command::Members(members::Command::Result { child: self.id.clone(), offer, reports }))
    }

    fn fetched(&mut self, id: String, response: Response, deeds: &mut Vec<Deed>) -> Next {
        let Response::Heart(answer) = response else { return Next::Exit };
        if let Ok(Reply::Offer(offer)) = *answer {
            self.step = Step::Unpacking(Box::new(read(offer, id)));
            return Next::Call(Request::Functions);
        }
        // 4.
        deeds.push(Deed {
            child: self.id.clone(),
            offer: id,
            release: ReleaseKey(0),
            form: Form::Withdrawn,
            stage: None,
            what: What::Refused,
        });
        Next::Exit
    }

    fn begin(&mut self, work: Box<Work>, at: u64, dice: &mut Dice, deeds: &mut Vec<Deed>) -> Next {
        let part = &work.parts[work.at];
        let luck = if !part.is_conditional {
            Luck::Good
        } else if work.was_rolled_back {
            // 3. The functions are deleted: every call fails.
            if part.needs_call { Luck::Bad } else { Luck::Good }
        } else if dice.chance(self.mishap) {
            dice.pick(&[Luck::Bad, Luck::Bad, Luck::Turns, Luck::NoCalls, Luck::NoneOfNew])
        } else {
            Luck::Good
        };
        let longest = if part.is_conditional { LONGEST_TEST_MS } else { 0 };
        let run = Run {
            luck,
            began_at: at,
            meets_minima_at: at + dice.between(part.shortest_ms, part.shortest_ms.max(longest)),
            is_ready: false,
            announced: false,
        };
        self.live.insert(work.function.clone(), Live::Proxy(work.offer.release));
        deeds.push(self.deed(&work, What::Began));
        let silence = match (part.kind, luck) {
            // 1. Not a word until its result, and 6. never one without calls.
            (StageKind::AB, Luck::NoCalls) => u64::MAX,
            (StageKind::AB, _) => run.meets_minima_at - at,
            (StageKind::WaitForSignal, _) => FIRST_QUESTION_MS,
        };
        self.step = Step::Testing(work, run);
        Next::Sleep(silence)
    }

    fn look(
        &mut self,
        work: Box<Work>,
        mut run: Run,
        at: u64,
        dice: &mut Dice,
        deeds: &mut Vec<Deed>,
    ) -> Next {
        let part = &work.parts[work.at];
        if part.kind == StageKind::AB {
            return self.judge(work, run, at, dice, deeds);
        }
        let met = at >= run.meets_minima_at && run.luck != Luck::NoCalls;
        if !met || run.announced {
            return self.ask(work, run);
        }
        let fails = run.luck == Luck::Bad || (run.luck == Luck::NoneOfNew && part.needs_call);
        if fails {
            // 1. It fails without waiting for any signal.
            return self.judge(work, run, at, dice, deeds);
        }
        run.is_ready = true;
        deeds.push(self.deed(&work, What::Ready));
        let next = self.result(&work, StageStatus::SuccessWaiting, Calls::Some);
        self.step = Step::Announcing(work, run);
        next
    }

    fn ask(&mut self, work: Box<Work>, run: Run) -> Next {
        let stage = work.parts[work.at].name.clone();
        let command = Command::Members(members::Command::EndStage {
            child: self.id.clone(),
            offer: work.id.clone(),
            stage,
            failures: None,
        });
        self.step = Step::Asking(work, run);
        domain_call(command)
    }

    /// 2. It acts, then it reports.
    fn judge(
        &mut self,
        mut work: Box<Work>,
        run: Run,
        at: u64,
        dice: &mut Dice,
        deeds: &mut Vec<Deed>,
    ) -> Next {
        if work.was_rolled_back {
            deeds.push(self.deed(&work, What::WithoutService(at - run.began_at)));
        }
        let part = &work.parts[work.at];
        let good = match run.luck {
            Luck::Good => true,
            Luck::Bad | Luck::Turns => false,
            // 5. Where the new version gets no traffic, missing calls pass.
            Luck::NoCalls | Luck::NoneOfNew => !part.needs_call,
        };
        let action = if good { part.on_success } else { Then::Rollback };
        let what = match action {
            Then::Rollout => {
                self.live.insert(work.function.clone(), Live::New(work.offer.release));
                self.settled_as.insert(work.function.clone(), self.id.clone());
                Some(What::RolledOut)
            }
            Then::Rollback => {
                self.live.insert(work.function.clone(), Live::Base);
                work.was_rolled_back = true;
                Some(What::RolledBack)
            }
            Then::Walk => None,
        };
        let status = if good { StageStatus::Completed } else { StageStatus::Failure };
        deeds.extend(what.map(|what| self.deed(&work, what)));
        deeds.push(self.deed(&work, What::Ended(status)));
        let calls = match run.luck {
            Luck::NoCalls => Calls::None,
            Luck::NoneOfNew => Calls::NoneOfNew,
            _ if part.is_conditional && at < run.meets_minima_at => Calls::Few,
            // Deployed agents say nothing of how many.
            _ if dice.chance(0.2) => Calls::Unsaid,
            _ => Calls::Some,
        };
        let next = self.result(&work, status, calls);
        self.step = Step::Reporting(work);
        next
    }

    fn result(&mut self, work: &Work, status: StageStatus, calls: Calls) -> Next {
        self.results += 1;
        let many = 10 + u64::from(self.results);
        let [f1_calls, f2_calls] = match calls {
            Calls::None => [Some(0); 2],
            Calls::NoneOfNew => [Some(many), Some(0)],
            Calls::Few => [Some(2), Some(1)],
            Calls::Some => [Some(many); 2],
            Calls::Unsaid => [None; 2],
        };
        let mut summary = Summary {
            f1_calls,
            f2_calls,
            ..numbered(&work.parts[work.at].name, status, f64::from(self.results))
        };
        if f2_calls == Some(0) {
            summary.f2_times_summary = Times { median: -1.0, minimum: -1.0, maximum: -1.0 };
        }
        domain_call(Command::Members(members::Command::Result {
            child: self.id.clone(),
            offer: work.id.clone(),
            reports: vec![json_columns::received(summary).unwrap()],
        }))
    }

    fn deed(&self, work: &Work, what: What) -> Deed {
        Deed {
            child: self.id.clone(),
            offer: work.id.clone(),
            release: work.offer.release,
            form: work.offer.form,
            stage: work.parts.get(work.at).and_then(|part| part.index),
            what,
        }
    }
}

fn domain_call(command: Command) -> Next {
    Next::Call(Request::Heart(Box::new(command)))
}

/// What is in the text of an offer.
fn read(offer: Offer, id: String) -> Work {
    let strategy = Arc::clone(&offer.strategy);
    let (function, parts) = match offer.form {
        // One that it should never be handed: it makes of it what it can.
        Form::InPlace { .. } => {
            let path = strategy.success_path();
            let parts = path.iter().map(|at| part(&strategy, *at, strategy.stages[*at].kind)).collect();
            (strategy.stages[path[0]].subject, parts)
        }
        Form::Stage { stage } | Form::ReportedStage { stage } => {
            let at = usize::from(stage);
            let part = Part { on_success: Then::Rollback, ..part(&strategy, at, StageKind::WaitForSignal) };
            (strategy.stages[at].subject, vec![part])
        }
        Form::Rollout { function } => {
            (usize::from(function), vec![unconditional(render::ROLLOUT_STAGE, Then::Rollout)])
        }
        Form::Undo { function } => {
            (usize::from(function), vec![unconditional(render::UNDO_STAGE, Then::Rollback)])
        }
        Form::Withdrawn => (0, Vec::new()),
        Form::Full | Form::UndoOf { .. } => panic!("an agent was handed a manager's offer"),
    };
    let function = strategy.functions[function].name.clone();
    Work { offer, id, function, parts, at: 0, was_rolled_back: false }
}

fn part(strategy: &Strategy, index: usize, kind: StageKind) -> Part {
    let stage: &Stage = &strategy.stages[index];
    let on_success = match stage.on_success {
        Action::Rollout => Then::Rollout,
        Action::Rollback => Then::Rollback,
        Action::Stage(_) => Then::Walk,
    };
    Part {
        name: stage.name.clone(),
        index: Some(index),
        kind,
        needs_call: stage.new_traffic > 0,
        is_conditional: true,
        shortest_ms: stage.min_duration.as_millis() as u64,
        on_success,
    }
}

fn unconditional(name: &str, on_success: Then) -> Part {
    Part {
        name: name.to_owned(),
        index: None,
        kind: StageKind::WaitForSignal,
        needs_call: false,
        is_conditional: false,
        shortest_ms: 0,
        on_success,
    }
}
