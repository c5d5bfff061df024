//! Everything that happens, in the order of virtual time. Manager 0 is the root; where it is alone, the world is what it
//! and its agents are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use domain::{
    children::{self, Poll, Profile},
    parent::CallId,
    release::command::Command,
};
use model::{Capabilities, ChildId};

use super::{
    agent::{Agent, Deed, Input, Next},
    call::{Beside, Caller, Request, Response},
    dice::Dice,
    domain::Flaw,
    links::Line,
    liveness::{Kind, Turnout},
    manager::Manager,
    overseer::{Overseer, View, is_taken_back},
    own::{Groups, Happening, Led, Own},
    tree::Tree,
    witness::{Violation, Witness},
};

/// Events that are shown of a failing seed, unless it is run alone.
const SHOWN: usize = 60;
const SHOWN_ALONE: usize = 5_000;

/// What keeps the chances of own agents apart from all others, so that without them a seed is what it was.
const OWN_DICE: u64 = 0x6f77_6e73;

/// The same for which agents can't go back.
const UNDO_DICE: u64 = 0x756e_646f;

/// And those for who says ever something else.
const STORM_DICE: u64 = 0x7374_6f72;

/// How long two agents with one id poll, and how often.
const TWINS_MS: u64 = 90_000;
const TWINS_POLL_MS: u64 = 1_000;

#[derive(Debug)]
pub(super) enum Event {
    /// A call comes to a manager.
    Call {
        manager: usize,
        caller: Caller,
        call: u64,
        request: Request,
    },
    /// An answer comes to an agent.
    Answer {
        index: usize,
        process: u32,
        call: u64,
        response: Response,
    },
    /// An answer comes to the link of a manager.
    Back {
        manager: usize,
        life: u32,
        call: CallId,
        response: Response,
        beside: Beside,
    },
    WakeLink {
        manager: usize,
        life: u32,
    },
    /// A call has waited for as long as it wanted.
    Over {
        manager: usize,
        life: u32,
        call: u64,
    },
    Wake {
        index: usize,
        process: u32,
        nap: u64,
    },
    Start {
        index: usize,
    },
    Die {
        index: usize,
    },
    Commit {
        manager: usize,
        life: u32,
    },
    Tick {
        manager: usize,
        life: u32,
    },
    Kill {
        manager: usize,
    },
    Boot {
        manager: usize,
    },
    /// The link of a manager begins.
    Begin {
        manager: usize,
    },
    /// Something happens to an own agent or beside it.
    Own {
        index: usize,
        what: Box<Happening>,
    },
    Operate,
    /// Two agents that have one id, and run nothing, poll so often.
    Twins {
        polls: u64,
    },
    Calm,
    Look,
}

/// How bad the weather is.
#[derive(Debug)]
pub(super) struct Weather {
    pub(super) lost: f64,
    pub(super) twice: f64,
    pub(super) slow: f64,
    /// Answers of a parent that come out as something else.
    pub(super) garbled: f64,
    /// Milliseconds of the storm.
    pub(super) until: u64,
}

#[derive(Debug)]
pub struct Report {
    pub violation: Option<Violation>,
    pub last: Vec<String>,
    /// How far agents came, and which releases were taken back in the end.
    pub liveness: Turnout,
    pub taken_back: BTreeSet<String>,
}

#[derive(Debug)]
pub struct World {
    pub(super) seed: u64,
    pub(super) dice: Dice,
    pub(super) at: u64,
    pub(super) queue: BTreeMap<(u64, u64), Event>,
    pub(super) events: u64,
    pub(super) managers: Vec<Manager>,
    /// Of each manager that has a parent.
    pub(super) links: Vec<Option<Line>>,
    pub(super) witnesses: Vec<Witness>,
    pub(super) overseer: Overseer,
    pub(super) is_tree: bool,
    pub(super) tick_at: Vec<u64>,
    pub(super) agents: Vec<Agent>,
    pub(super) owns: Vec<Own>,
    /// What is seen of services at all routers.
    pub(super) led: Led,
    /// What is seen of releases of functions and services.
    pub(super) groups: Groups,
    /// The driver of own agents sleeps for so long at least, in milliseconds.
    pub(super) own_pace_ms: u64,
    /// All agents, of whatever kind: each has a place in the row.
    pub(super) places: usize,
    pub(super) crew: Crew,
    /// What each agent waits for: a call or the end of a nap.
    pub(super) awaited: Vec<u64>,
    pub(super) calls: u64,
    pub(super) weather: Weather,
    pub(super) is_calm: bool,
    /// Answers came out as something else in the storm.
    pub(super) was_garbled: bool,
    pub(super) rest_since: Option<u64>,
    pub(super) submitted: usize,
    pub(super) liveness: Turnout,
    /// `None` until a run failed and is done again to be told.
    pub(super) story: Option<VecDeque<String>>,
    pub(super) shown: usize,
}

/// Which agents there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crew {
    Deployed,
    /// Own agents, most of the time beside deployed ones.
    Mixed,
    /// Own agents alone.
    Own,
    /// Own agents alone, which lead the calls of services.
    Routers,
    /// Own agents alone: some run functions, and the others lead the calls of services.
    Hybrid,
    /// Own and deployed agents below the root, and a manager there with own and deployed agents.
    Fleet,
}

impl World {
    pub fn new(seed: u64, flaw: Option<Flaw>, crew: Crew) -> Self {
        let mut dice = Dice::new(seed);
        let weather = Weather {
            lost: dice.pick(&[0.0, 0.0, 0.005, 0.02]),
            twice: dice.pick(&[0.0, 0.01, 0.05]),
            slow: dice.pick(&[0.0, 0.02, 0.1]),
            garbled: dice.pick(&[0.0, 0.0, 0.01, 0.05]),
            until: 1_000 * dice.between(120, 480),
        };
        let mishap = dice.pick(&[0.0, 0.05, 0.2]);
        let tree = match crew {
            Crew::Fleet => Tree::fleet(),
            Crew::Hybrid => Tree::row(&mut dice),
            Crew::Deployed | Crew::Mixed | Crew::Own | Crew::Routers => Tree::draw(&mut dice),
        };
        let Tree { parents, homes } = tree;
        let mut fate = Dice::new(seed ^ OWN_DICE);
        let share = fate.pick(&[0.3, 0.6, 1.0]);
        let draw = |(place, _): (usize, &usize)| match crew {
            Crew::Deployed => false,
            Crew::Mixed => fate.chance(share) || place == 0,
            Crew::Own | Crew::Routers | Crew::Hybrid => true,
            Crew::Fleet => place % 2 == 0,
        };
        let is_own: Vec<bool> = homes.iter().enumerate().map(draw).collect();
        let homes: Vec<(usize, usize)> = homes.into_iter().enumerate().collect();
        let (owns, deployed): (Vec<_>, Vec<_>) = homes.iter().partition(|(place, _)| is_own[*place]);
        let (managers, agents) = (parents.len(), deployed.len());
        let mut world = Self {
            seed,
            dice,
            at: 0,
            queue: BTreeMap::new(),
            events: 0,
            managers: (seed as usize..)
                .zip(&parents)
                .map(|(clock, parent)| Manager::new(flaw, parent.is_some(), clock))
                .collect(),
            links: parents
                .iter()
                .enumerate()
                .map(|(manager, parent)| Some(Line::new(manager, (*parent)?, 0)))
                .collect(),
            witnesses: parents.iter().map(|_| Witness::default()).collect(),
            overseer: Overseer::new(parents),
            is_tree: managers > 1,
            tick_at: vec![u64::MAX; managers],
            agents: deployed.iter().map(|(place, home)| Agent::new(*home, *place, mishap)).collect(),
            owns: owns.iter().map(|(place, home)| Own::new(*home, *place, mishap)).collect(),
            led: Led::default(),
            groups: Groups::default(),
            own_pace_ms: fate.pick(&[100, 300, 700]),
            places: homes.len(),
            crew,
            awaited: vec![0; agents],
            calls: 0,
            weather,
            is_calm: false,
            was_garbled: false,
            rest_since: None,
            submitted: 0,
            liveness: Turnout::default(),
            story: None,
            shown: SHOWN,
        };
        for own in &mut world.owns {
            own.is_router = crew == Crew::Routers || crew == Crew::Hybrid && own.place % 2 == 1;
        }
        let mut stubborn = Dice::new(seed ^ UNDO_DICE);
        for agent in &mut world.agents {
            let until = stubborn.between(0, world.weather.until);
            agent.fails_undos_until = if stubborn.chance(0.25) { until } else { 0 };
        }
        let mut stormy = Dice::new(seed ^ STORM_DICE);
        for agent in &mut world.agents {
            agent.chatters_until = if stormy.chance(0.25) { world.weather.until } else { 0 };
        }
        if stormy.chance(0.2) {
            let at = stormy.between(5_000, world.weather.until);
            world.plan(at, Event::Twins { polls: TWINS_MS / TWINS_POLL_MS });
        }
        world.make_alike();
        world.schedule();
        world
    }

    /// One sample configuration for many agents, several of them behind one address; and some need long to set up.
    fn make_alike(&mut self) {
        let (alike, slow) = (self.dice.chance(0.3), self.dice.chance(0.3));
        for index in 0..self.agents.len() {
            self.agents[index].is_slow = slow;
            let (before, rest) = self.agents.split_at_mut(index);
            let Some(other) = before.last().filter(|other| alike && other.parent == rest[0].parent) else {
                continue;
            };
            if self.dice.chance(0.6) {
                rest[0].resemble(other, self.dice.chance(0.5));
            }
        }
    }

    fn schedule(&mut self) {
        let until = self.weather.until;
        for index in 0..self.agents.len() {
            let late = self.dice.chance(0.2);
            let from = if late { self.dice.between(5_000, until) } else { self.dice.between(0, 4_000) };
            self.plan(from, Event::Start { index });
            if self.dice.chance(0.3) {
                let at = self.dice.between(10_000, until);
                self.plan(at, Event::Die { index });
            }
        }
        for _ in 0..self.dice.below(4) * self.managers.len().div_ceil(2) {
            let at = self.dice.between(5_000, until);
            let manager = self.dice.below(self.managers.len());
            self.plan(at, Event::Kill { manager });
        }
        for manager in 1..self.managers.len() {
            self.plan(1, Event::Begin { manager });
        }
        for _ in 0..2 + self.dice.below(10) {
            let at = self.dice.between(6_000, until);
            self.plan(at, Event::Operate);
        }
        self.schedule_owns();
        self.plan(5_000, Event::Operate);
        self.plan(until, Event::Calm);
    }

    pub(super) fn plan(&mut self, at: u64, event: Event) {
        self.events += 1;
        self.queue.insert((at, self.events), event);
    }

    pub(super) fn tell(&mut self, text: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            if story.len() == self.shown {
                story.pop_front();
            }
            story.push_back(format!("{:>9.3} s  {}", self.at as f64 / 1_000.0, text()));
        }
    }

    /// Until all is at rest, or something is wrong. Then once more, to tell how it came to that.
    pub fn run(self, is_alone: bool) -> Report {
        let (seed, flaw, crew) = (self.seed, self.managers[0].flaw, self.crew);
        let ended = self.go();
        if ended.found().is_none() || flaw.is_some() {
            return ended.report();
        }
        let mut again = Self::new(seed, flaw, crew);
        again.story = Some(VecDeque::new());
        again.shown = if is_alone { SHOWN_ALONE } else { SHOWN };
        again.go().report()
    }

    fn go(mut self) -> Self {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.at = at;
            self.happen(event);
            if self.found().is_some() {
                break;
            }
        }
        self
    }

    fn report(self) -> Report {
        let taken_back = self.managers[0].releases().filter(|release| is_taken_back(release));
        let taken_back = taken_back.map(|release| release.id.as_str().to_owned()).collect();
        let violation = self.found().cloned();
        let last = self.story.into_iter().flatten().collect();
        Report { violation, last, liveness: self.liveness, taken_back }
    }

    /// What an agent did concerns a release that was posted at the root.
    pub(super) fn note_turnout(&mut self, manager: usize, kind: Kind, deed: &Deed) {
        if let Some(root) = self.overseer.root_of(&self.managers, manager, deed.release) {
            self.liveness.note(&root, kind, deed.what);
        }
    }

    fn found(&self) -> Option<&Violation> {
        self.overseer.found.as_ref().or_else(|| self.witnesses.iter().find_map(|of| of.found.as_ref()))
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call { manager, caller, call, request } => self.arrive(manager, caller, call, request),
            Event::Answer { index, process, call, response } => {
                if self.agents[index].process == process && self.awaited[index] == call {
                    self.go_on(index, Input::Answered(response));
                }
            }
            Event::Back { manager, life, call, response, beside } => {
                if self.managers[manager].is_up && self.managers[manager].life == life {
                    self.back(manager, call, response, beside);
                }
            }
            Event::WakeLink { manager, life } => self.wake_link(manager, life),
            Event::Over { manager, life, call } => {
                if self.managers[manager].is_up && self.managers[manager].life == life {
                    self.go_on_with(manager, Some(call));
                }
            }
            Event::Begin { manager } => self.begin_link(manager),
            Event::Wake { index, process, nap } => {
                let agent = &self.agents[index];
                if agent.is_alive && agent.process == process && self.awaited[index] == nap {
                    self.go_on(index, Input::Woken);
                }
            }
            Event::Start { index } => {
                if !self.agents[index].is_alive {
                    self.tell(|| format!("agent {index} starts"));
                    self.agents[index].start();
                    self.go_on(index, Input::Woken);
                }
            }
            Event::Die { index } => {
                if self.agents[index].is_alive {
                    self.tell(|| format!("agent {index} dies"));
                    self.end_process(index);
                }
            }
            Event::Commit { manager, life } => {
                if self.managers[manager].is_up && self.managers[manager].life == life {
                    self.commit(manager);
                }
            }
            Event::Tick { manager, life } => self.tick(manager, life),
            Event::Kill { manager } => self.kill(manager),
            Event::Boot { manager } => {
                self.tell(|| format!("manager {manager} is back"));
                self.boot(manager);
            }
            Event::Own { index, what } => self.own_happens(index, *what),
            Event::Operate => self.operate(),
            Event::Twins { polls } => self.twins_poll(polls),
            Event::Calm => self.calm(),
            Event::Look => self.look(),
        }
    }

    fn twins_poll(&mut self, polls: u64) {
        let name = if polls.is_multiple_of(2) { "one" } else { "other" };
        let id = ChildId::parse("twins").unwrap();
        let poll = Poll {
            child: Some(id.clone()),
            fresh: id,
            area: None,
            address: None,
            agents: 0,
            profile: Some(Profile {
                name: Some(name.to_owned()),
                capabilities: Capabilities { runtimes: Some(Vec::new()), ..Capabilities::default() },
                ..Profile::default()
            }),
            tenant: None,
        };
        let request = Request::Heart(Box::new(Command::Children(children::Command::Poll(poll))));
        self.send(0, Caller::Nobody, 0, request);
        if polls > 1 {
            self.plan(self.at + TWINS_POLL_MS, Event::Twins { polls: polls - 1 });
        }
    }

    // Agents.

    fn go_on(&mut self, index: usize, input: Input) {
        let mut deeds: Vec<Deed> = Vec::new();
        let agent = &mut self.agents[index];
        let next = agent.go_on(input, self.at, &mut self.dice, &mut deeds);
        let (manager, process, place) = (agent.parent, agent.process, agent.place);
        for deed in deeds {
            self.tell(|| {
                format!(
                    "agent {index} as {} with {}: {:?} {:?}",
                    deed.child, deed.offer, deed.what, deed.form
                )
            });
            self.note_turnout(manager, Kind::Deployed, &deed);
            if self.is_tree {
                let view = View { managers: &self.managers, links: &self.links, witnesses: &self.witnesses };
                self.overseer.did(view, manager, &deed, place, self.at);
            } else {
                self.witnesses[manager].did(&self.managers[manager], &deed, place, self.at);
            }
        }
        self.calls += 1;
        let call = self.calls;
        self.awaited[index] = call;
        match next {
            Next::Sleep(nap) => {
                self.plan(self.at.saturating_add(nap), Event::Wake { index, process, nap: call });
            }
            Next::Call(request) => self.send(manager, Caller::Agent { index, process }, call, request),
            Next::Exit => {
                self.tell(|| format!("agent {index} exits"));
                self.end_process(index);
            }
        }
    }

    pub(super) fn end_process(&mut self, index: usize) {
        self.agents[index].die();
        let most = if self.is_calm { 20 } else { 200 };
        let pause = 1_000 * self.dice.between(1, most);
        self.plan(self.at + pause, Event::Start { index });
    }
}
