//! Managers serve: calls come in, are answered after the commit of their batch, time passes, they are killed and come back.

use domain::{
    children,
    release::{
        change::Change,
        command::{Refusal, Reply},
    },
};

use super::{
    agent::Agent,
    call::{Beside, Caller, Patience, Request, Response},
    links,
    manager::{Committed, Pending},
    network::{brief, cut, is_dull},
    own::Own,
    world::{Event, World},
};

impl World {
    pub(super) fn arrive(&mut self, manager: usize, caller: Caller, call: u64, request: Request) {
        if !self.managers[manager].is_up {
            return self.lose(caller, call);
        }
        if !is_dull(&request) || caller == Caller::Nobody {
            self.tell(|| format!("{caller:?} calls {manager}: {}", brief(&request)));
        }
        let had = self.managers[manager].has_something_to_commit();
        if let Request::Patient(_, Patience { wait_ms, .. }) = &request {
            let life = self.managers[manager].life;
            self.plan(self.at + *wait_ms, Event::Over { manager, life, call });
        }
        if let Err(text) = self.managers[manager].take(caller, call, request, self.at) {
            self.witnesses[manager].duplicate(text);
        }
        if let Some(text) = self.managers[manager].other_base.take() {
            self.witnesses[manager].wrong(27, text);
        }
        self.commit_soon(manager, had);
    }

    /// Calls that waited are looked at again.
    pub(super) fn go_on_with(&mut self, manager: usize, over: Option<u64>) {
        let had = self.managers[manager].has_something_to_commit();
        for (caller, call, request) in self.managers[manager].woken(over, self.at) {
            if let Err(text) = self.managers[manager].take(caller, call, request, self.at) {
                self.witnesses[manager].duplicate(text);
            }
        }
        self.commit_soon(manager, had);
    }

    pub(super) fn commit_soon(&mut self, manager: usize, had: bool) {
        if !had && self.managers[manager].has_something_to_commit() {
            self.plan_commit(manager);
        }
    }

    fn plan_commit(&mut self, manager: usize) {
        let at = self.at
            + if self.dice.chance(0.02) { self.dice.between(50, 2_000) } else { self.dice.between(1, 15) };
        let life = self.managers[manager].life;
        self.plan(at, Event::Commit { manager, life });
    }

    pub(super) fn commit(&mut self, manager: usize) {
        let Committed { caused, pending, changes, effects } = self.managers[manager].commit(self.at);
        if self.story.is_some() {
            for change in &changes {
                self.tell(|| format!("   {manager} committed: {}", cut(&format!("{change:?}"))));
            }
        }
        for caused in caused {
            self.witnesses[manager].caused(&self.managers[manager], &caused, self.at);
        }
        self.witnesses[manager].committed(&self.managers[manager], &changes, self.at);
        self.check_replaced(manager, &changes);
        self.note_chosen(manager, &changes);
        self.check_proven(manager, &changes);
        if self.is_tree {
            self.overseer.committed(&self.managers, manager, &changes);
        }
        let mut own = Vec::new();
        for pending in pending {
            self.witnesses[manager].answered(&self.managers[manager], &pending);
            self.overseer.answered(&self.managers[manager], manager, &pending);
            let Pending { caller, call, request, response } = pending;
            if !is_dull(&request) {
                self.tell(|| format!("   {manager} answered: {caller:?} {}", cut(&format!("{response:?}"))));
            }
            if let Caller::Own { call, .. } = caller {
                own.push((call, response));
            } else if self.dice.chance(self.weather.lost) {
                self.tell(|| format!("   and the answer to {caller:?} is lost"));
                self.lose(caller, call);
            } else {
                let at = self.at + self.delay();
                let beside = match &response {
                    Response::Heart(answer) if matches!(caller, Caller::Link { .. }) => {
                        self.beside(manager, answer)
                    }
                    _ => Beside::default(),
                };
                self.answer(at, caller, call, response, beside);
            }
        }
        self.plan_tick(manager);
        self.go_on_with(manager, None);
        let is_below = |change: &Change| change.release().is_none();
        self.link_committed(manager, &effects, changes.iter().any(is_below));
        self.refusals_stored(manager);
        for (call, response) in own {
            self.back(manager, call, response, Beside::default());
        }
        self.turn(manager);
    }

    /// Nobody takes the place of an agent that is at work, however silent that makes it.
    fn check_replaced(&mut self, manager: usize, changes: &[Change]) {
        for change in changes {
            let Change::Children(children::Change::Replaced { child, .. }) = change else { continue };
            let Some(record) = self.managers[manager].state.children.get(*child) else { continue };
            let is_it =
                |agent: &&Agent| agent.parent == manager && agent.is_alive && agent.id == record.id.as_str();
            let id = record.id.as_str();
            let is_own = |own: &&Own| own.parent == manager && own.is_alive() && own.id() == Some(id);
            let own_works = self.owns.iter().find(is_own).is_some_and(Own::is_at_work);
            if own_works || self.agents.iter().find(is_it).is_some_and(Agent::is_at_work) {
                let text = format!("{} is at work, and another has taken its place", record.id);
                self.witnesses[manager].replaced(text);
            }
        }
    }

    /// What a manager says besides to one below it.
    fn beside(&self, manager: usize, answer: &Result<Reply, Refusal>) -> Beside {
        let Ok(Reply::Polled { key, .. }) = answer else { return Beside::default() };
        let above = self.links[manager].iter().flat_map(|link| link.above.iter().cloned());
        let above = std::iter::once(links::own_id(manager)).chain(above).collect();
        Beside { above, hold: self.managers[manager].held(*key) }
    }

    pub(super) fn boot(&mut self, manager: usize) {
        self.managers[manager].boot(self.at);
        self.witnesses[manager].check_promises(&self.managers[manager]);
        self.tick_at[manager] = u64::MAX;
        self.plan_tick(manager);
        self.begin_link(manager);
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

    pub(super) fn tick(&mut self, manager: usize, life: u32) {
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

    pub(super) fn kill(&mut self, manager: usize) {
        if self.is_calm || !self.managers[manager].is_up {
            return;
        }
        self.tell(|| format!("manager {manager} is killed"));
        for (caller, call) in self.managers[manager].kill(self.at) {
            self.lose(caller, call);
        }
        let down = 1_000 * self.dice.between(0, 60);
        self.plan(self.at + down, Event::Boot { manager });
    }
}
