//! Everything that happens, in the order of virtual time.

use std::collections::{BTreeMap, VecDeque};

use choirmaster::{
    release::{command::Command, state::ReleaseState},
    strategy,
};

use super::{
    agent::{Agent, Deed, Input, Live, Next},
    call::{Caller, Request, Response},
    dice::Dice,
    heart::Flaw,
    manager::{Manager, Pending},
    plans,
    witness::{Violation, Witness},
};
use crate::release::world::submission;

/// Events that are shown of a failing seed, unless it is run alone.
const SHOWN: usize = 60;
const SHOWN_ALONE: usize = 5_000;

/// After the storm everybody calls again, and for so long, in milliseconds, things may go on.
const LONGEST_CALM_MS: u64 = 3_600_000;

/// Once all releases are at rest, undos have so long.
const AFTERMATH_MS: u64 = 6 * 60_000;

/// Between two looks whether all is at rest.
const LOOK_MS: u64 = 20_000;

/// A broken connection is noticed after at most so long.
const LOST_MS: u64 = 5_000;

#[derive(Debug)]
enum Event {
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
    Operate,
    Calm,
    Look,
}

/// How bad the weather is.
#[derive(Debug)]
struct Weather {
    lost: f64,
    twice: f64,
    slow: f64,
    /// Milliseconds of the storm.
    until: u64,
}

#[derive(Debug)]
pub struct Report {
    pub violation: Option<Violation>,
    pub last: Vec<String>,
}

#[derive(Debug)]
pub struct World {
    seed: u64,
    dice: Dice,
    at: u64,
    queue: BTreeMap<(u64, u64), Event>,
    events: u64,
    managers: Vec<Manager>,
    tick_at: Vec<u64>,
    agents: Vec<Agent>,
    /// What each agent waits for: a call or the end of a nap.
    awaited: Vec<u64>,
    calls: u64,
    weather: Weather,
    is_calm: bool,
    rest_since: Option<u64>,
    submitted: usize,
    witness: Witness,
    /// `None` until a run failed and is done again to be told.
    story: Option<VecDeque<String>>,
    shown: usize,
}

impl World {
    pub fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut dice = Dice::new(seed);
        let weather = Weather {
            lost: dice.pick(&[0.0, 0.0, 0.005, 0.02]),
            twice: dice.pick(&[0.0, 0.01, 0.05]),
            slow: dice.pick(&[0.0, 0.02, 0.1]),
            until: 1_000 * dice.between(120, 480),
        };
        let agents = 2 + dice.below(5);
        let mishap = dice.pick(&[0.0, 0.05, 0.2]);
        let mut world = Self {
            seed,
            dice,
            at: 0,
            queue: BTreeMap::new(),
            events: 0,
            managers: vec![Manager::new(flaw)],
            tick_at: vec![u64::MAX],
            agents: (0..agents).map(|place| Agent::new(0, place, mishap)).collect(),
            awaited: vec![0; agents],
            calls: 0,
            weather,
            is_calm: false,
            rest_since: None,
            submitted: 0,
            witness: Witness::default(),
            story: None,
            shown: SHOWN,
        };
        world.schedule();
        world
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
        for _ in 0..self.dice.below(4) {
            let at = self.dice.between(5_000, until);
            self.plan(at, Event::Kill { manager: 0 });
        }
        for _ in 0..2 + self.dice.below(10) {
            let at = self.dice.between(6_000, until);
            self.plan(at, Event::Operate);
        }
        self.plan(5_000, Event::Operate);
        self.plan(until, Event::Calm);
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.events += 1;
        self.queue.insert((at, self.events), event);
    }

    fn tell(&mut self, text: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            if story.len() == self.shown {
                story.pop_front();
            }
            story.push_back(format!("{:>9.3} s  {}", self.at as f64 / 1_000.0, text()));
        }
    }

    /// Until all is at rest, or something is wrong. Then once more, to tell how it came to that.
    pub fn run(self, is_alone: bool) -> Report {
        let (seed, flaw) = (self.seed, self.managers[0].flaw);
        let (violation, _) = self.go();
        if violation.is_none() || flaw.is_some() {
            return Report { violation, last: Vec::new() };
        }
        let mut again = Self::new(seed, flaw);
        again.story = Some(VecDeque::new());
        again.shown = if is_alone { SHOWN_ALONE } else { SHOWN };
        let (violation, story) = again.go();
        Report { violation, last: story.into_iter().flatten().collect() }
    }

    fn go(mut self) -> (Option<Violation>, Option<VecDeque<String>>) {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.at = at;
            self.happen(event);
            if self.witness.found.is_some() {
                break;
            }
        }
        (self.witness.found, self.story)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call { manager, caller, call, request } => self.arrive(manager, caller, call, request),
            Event::Answer { index, process, call, response } => {
                if self.agents[index].process == process && self.awaited[index] == call {
                    self.go_on(index, Input::Answered(response));
                }
            }
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
                self.tell(|| "the manager is back".to_owned());
                self.managers[manager].boot(self.at);
                self.witness.check_promises(&self.managers[manager]);
                self.tick_at[manager] = u64::MAX;
                self.plan_tick(manager);
            }
            Event::Operate => self.operate(),
            Event::Calm => self.calm(),
            Event::Look => self.look(),
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
            self.witness.did(&self.managers[manager], &deed, place, self.at);
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

    fn end_process(&mut self, index: usize) {
        self.agents[index].die();
        let most = if self.is_calm { 20 } else { 200 };
        let pause = 1_000 * self.dice.between(1, most);
        self.plan(self.at + pause, Event::Start { index });
    }

    // The network.

    fn delay(&mut self) -> u64 {
        if self.dice.chance(self.weather.slow) {
            self.dice.between(500, 8_000)
        } else {
            self.dice.between(1, 40)
        }
    }

    fn send(&mut self, manager: usize, caller: Caller, call: u64, request: Request) {
        let is_agents = matches!(caller, Caller::Agent { .. });
        if is_agents && self.dice.chance(self.weather.twice) {
            let at = self.at + self.dice.between(1, 15_000);
            self.plan(at, Event::Call { manager, caller: Caller::Nobody, call, request: request.clone() });
        }
        if self.dice.chance(self.weather.lost) {
            self.tell(|| format!("lost on its way: {caller:?} {}", brief(&request)));
            return self.lose(caller, call);
        }
        let at = self.at + self.delay();
        self.plan(at, Event::Call { manager, caller, call, request });
    }

    fn lose(&mut self, caller: Caller, call: u64) {
        let at = self.at + self.dice.between(1, LOST_MS);
        self.answer(at, caller, call, Response::Lost);
    }

    fn answer(&mut self, at: u64, caller: Caller, call: u64, response: Response) {
        if let Caller::Agent { index, process } = caller {
            self.plan(at, Event::Answer { index, process, call, response });
        }
    }

    // The manager.

    fn arrive(&mut self, manager: usize, caller: Caller, call: u64, request: Request) {
        if !self.managers[manager].is_up {
            return self.lose(caller, call);
        }
        if !is_dull(&request) || caller == Caller::Nobody {
            self.tell(|| format!("{caller:?} calls: {}", brief(&request)));
        }
        let had = self.managers[manager].has_something_to_commit();
        if let Err(text) = self.managers[manager].take(caller, call, request, self.at) {
            self.witness.duplicate(text);
        }
        if !had {
            self.plan_commit(manager);
        }
    }

    fn plan_commit(&mut self, manager: usize) {
        let at = self.at
            + if self.dice.chance(0.02) { self.dice.between(50, 2_000) } else { self.dice.between(1, 15) };
        let life = self.managers[manager].life;
        self.plan(at, Event::Commit { manager, life });
    }

    fn commit(&mut self, manager: usize) {
        let (pending, changes) = self.managers[manager].commit(self.at);
        if self.story.is_some() {
            for change in &changes {
                self.tell(|| format!("   committed: {}", cut(&format!("{change:?}"))));
            }
        }
        self.witness.committed(&self.managers[manager], &changes, self.at);
        for pending in pending {
            self.witness.answered(&self.managers[manager], &pending);
            let Pending { caller, call, request, response } = pending;
            if !is_dull(&request) {
                self.tell(|| format!("   answered: {caller:?} {}", cut(&format!("{response:?}"))));
            }
            if self.dice.chance(self.weather.lost) {
                self.tell(|| format!("   and the answer to {caller:?} is lost"));
                self.lose(caller, call);
            } else {
                let at = self.at + self.delay();
                self.answer(at, caller, call, response);
            }
        }
        self.plan_tick(manager);
    }

    fn plan_tick(&mut self, manager: usize) {
        let Some(due) = self.managers[manager].tick_due(self.at) else { return };
        let due = due.max(self.at + 200);
        if due < self.tick_at[manager] {
            self.tick_at[manager] = due;
            let life = self.managers[manager].life;
            self.plan(due, Event::Tick { manager, life });
        }
    }

    fn tick(&mut self, manager: usize, life: u32) {
        if !self.managers[manager].is_up
            || self.managers[manager].life != life
            || self.tick_at[manager] != self.at
        {
            return;
        }
        self.tick_at[manager] = u64::MAX;
        let had = self.managers[manager].has_something_to_commit();
        self.managers[manager].tick(self.at);
        if had {
            return;
        }
        if self.managers[manager].has_something_to_commit() {
            self.plan_commit(manager);
        } else {
            self.plan_tick(manager);
        }
    }

    fn kill(&mut self, manager: usize) {
        if self.is_calm || !self.managers[manager].is_up {
            return;
        }
        self.tell(|| "the manager is killed".to_owned());
        for pending in self.managers[manager].kill(self.at) {
            self.lose(pending.caller, pending.call);
        }
        let down = 1_000 * self.dice.between(0, 60);
        self.plan(self.at + down, Event::Boot { manager });
    }

    // Operators and developers.

    fn operate(&mut self) {
        if self.is_calm {
            return;
        }
        let command = if self.submitted == 0 || (self.submitted < 4 && self.dice.chance(0.2)) {
            Some(self.submit())
        } else {
            self.meddle()
        };
        if let Some(command) = command {
            self.send(0, Caller::Operator, 0, Request::Heart(Box::new(command)));
        }
    }

    fn submit(&mut self) -> Command {
        self.submitted += 1;
        let planned = plans::draw(&mut self.dice, self.submitted, self.agents.len());
        let checked = strategy::check(&planned.text);
        let strategy =
            checked.strategy.unwrap_or_else(|| panic!("{:#?}\n{}", checked.diagnostics, planned.text));
        let command = submission(strategy, &planned.text);
        self.tell(|| planned.text.clone());
        self.witness.planned.insert(planned.id.clone(), planned);
        // Whoever waits for approvals asks soon, and often.
        for _ in 0..4 {
            let at = self.at + 1_000 * self.dice.between(20, 200);
            self.plan(at, Event::Operate);
        }
        command
    }

    fn meddle(&mut self) -> Option<Command> {
        let manager = &self.managers[0];
        let asking = manager
            .state
            .releases
            .values()
            .find(|r| matches!(r.state, ReleaseState::AwaitingApproval { .. }));
        if let Some(release) = asking.map(|release| release.id.as_str().to_owned())
            && self.dice.chance(0.7)
        {
            *self.witness.approvals.entry(release.clone()).or_default() += 1;
            return Some(Command::Approve { release });
        }
        let ids: Vec<String> = self.witness.planned.keys().cloned().collect();
        let release = ids[self.dice.below(ids.len())].clone();
        let paused = self.managers[0]
            .state
            .release_by_id(&release)
            .is_some_and(|release| matches!(release.state, ReleaseState::Paused { .. }));
        if paused && self.dice.chance(0.7) {
            return Some(Command::Resume { release });
        }
        match self.dice.below(12) {
            0 => Some(Command::Abort { release, reason: "an operator said so".to_owned() }),
            1 => Some(Command::Pause { release, reason: "an operator looks".to_owned() }),
            2 | 3 => Some(Command::Retry { release }),
            4 => Some(Command::Resume { release }),
            5 | 6 => {
                let stage = self.dice.pick(&["One", "Two", "Three"]).to_owned();
                self.witness.cut.insert((release.clone(), stage.clone()));
                Some(Command::EndStageNow { release, stage })
            }
            7 => {
                let index = self.dice.below(self.agents.len());
                let child = self.agents[index].ids.first()?.clone();
                Some(Command::Forget { child, even_if_it_owes: false })
            }
            _ => None,
        }
    }

    // The end.

    fn calm(&mut self) {
        self.tell(|| "the storm is over".to_owned());
        self.is_calm = true;
        self.weather = Weather { lost: 0.0, twice: 0.0, slow: 0.0, until: self.at };
        if !self.managers[0].is_up {
            self.managers[0].boot(self.at);
            self.witness.check_promises(&self.managers[0]);
            self.tick_at[0] = u64::MAX;
            self.plan_tick(0);
            self.queue.retain(|_, event| !matches!(event, Event::Boot { .. }));
        }
        for index in 0..self.agents.len() {
            self.agents[index].mishap = 0.0;
            if !self.agents[index].is_alive {
                let at = self.at + self.dice.between(1, 30_000);
                self.plan(at, Event::Start { index });
            }
        }
        self.queue.retain(|_, event| !matches!(event, Event::Die { .. }));
        self.plan(self.at + LOOK_MS, Event::Look);
    }

    fn look(&mut self) {
        for index in 0..self.agents.len() {
            if self.agents[index].is_alive && self.agents[index].hangs() && self.dice.chance(0.2) {
                self.end_process(index);
            }
        }
        let manager = &self.managers[0];
        let paused = manager.state.releases.values().any(|r| matches!(r.state, ReleaseState::Paused { .. }));
        let waiting = manager.state.releases.values().find(|release| match &release.state {
            ReleaseState::Over { .. } => false,
            ReleaseState::Paused { reason, .. } => reason.is_empty(),
            // What is paused may hold a child between two offers, and what changes the same functions.
            _ => !paused,
        });
        match waiting {
            Some(release) if self.at > self.weather.until + LONGEST_CALM_MS => {
                let text = format!("{} is still {}: {:?}", release.id, release.state.name(), release.counts);
                self.witness.late(text);
            }
            Some(_) => {
                self.rest_since = None;
                self.plan(self.at + LOOK_MS, Event::Look);
            }
            None => {
                let since = *self.rest_since.get_or_insert(self.at);
                let busy = self.agents.iter().any(|agent| !agent.is_alive || !agent.is_idle());
                if self.at < since + AFTERMATH_MS || (busy && self.at < self.weather.until + LONGEST_CALM_MS)
                {
                    return self.plan(self.at + LOOK_MS, Event::Look);
                }
                self.judge();
                self.queue.clear();
            }
        }
    }

    fn judge(&mut self) {
        self.witness.check_promises(&self.managers[0]);
        // A release that is paused may hold an agent in a stage: what it owes to another waits so long.
        for agent in self.agents.iter().filter(|agent| agent.is_idle()) {
            for (function, live) in &agent.live {
                if let Live::New(release) = live {
                    let id = &agent.settled_as[function];
                    self.witness.check_machine(
                        &self.managers[agent.parent],
                        id,
                        &agent.id,
                        *release,
                        function,
                    );
                }
            }
        }
    }
}

/// Nothing to tell of.
fn is_dull(request: &Request) -> bool {
    match request {
        Request::Functions => true,
        Request::Heart(command) => matches!(**command, Command::Poll(_) | Command::EndStage { .. }),
    }
}

fn brief(request: &Request) -> String {
    match request {
        Request::Functions => "functions".to_owned(),
        Request::Heart(command) => match &**command {
            Command::Submit { submission, .. } => format!("Submit {}", submission.id),
            Command::Poll(poll) => format!("Poll {:?}", poll.child),
            Command::Result { child, offer, summaries } => {
                format!("Result {child} {offer} {:?} {}", summaries[0].stage_name, summaries[0].status)
            }
            other => format!("{other:?}"),
        },
    }
}

const LONGEST_LINE: usize = 300;

fn cut(text: &str) -> String {
    text.chars().take(LONGEST_LINE).collect()
}
