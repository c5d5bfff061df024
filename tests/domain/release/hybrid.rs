//! Releases of functions and services: agents go first, and come back last.

use std::{collections::BTreeSet, time::Duration};

use domain::{
    children::{self, Profile},
    release::{
        command::{Command, Form, Reply},
        members, rollout,
        state::ReleaseState,
        summary::{Summary, Times},
    },
};
use language::Group;
use model::{Capabilities, ChildStatus, Leads, StageStatus};
use proptest::prelude::*;

use super::{
    hybrid_tree::{Below, of_agents, site},
    world::{World, checkout, summary, traffic_stage},
};
use language::render::{ROLLOUT_STAGE, UNDO_STAGE};

use StageStatus::{Completed, Failure, SuccessWaiting};

pub(super) fn strategy(rollout: &str) -> String {
    let service = checkout(&["A", "B"]);
    let little = traffic_stage("little", "A: 90, B: 10", "half");
    let half = traffic_stage("half", "A: 50, B: 50", "rollout");
    format!(
        r#"id: h
name: checkout
functions:
  - name: a
    base_version: {{path: fns/a_base, env: nodejs}}
    new_version: {{path: fns/a_new, env: nodejs}}
{service}rollout: {{{rollout}}}
stages:
  - name: Canary
    type: A/B
    func_name: a
    variants: [{{name: base_version, trafficPercentage: 90}}, {{name: new_version, trafficPercentage: 10}}]
    metrics_conditions: [{{name: errorRate, threshold: "<0.02"}}]
    end_action: {{onSuccess: little}}
{little}{half}"#
    )
}

pub(super) fn router_profile() -> Profile {
    let capabilities = Capabilities {
        leads: Leads::Whole,
        routers: vec!["nginx".to_owned()],
        runtimes: Some(Vec::new()),
        ..Capabilities::default()
    };
    Profile { capabilities, ..Profile::default() }
}

pub(super) fn own_profile() -> Profile {
    // An agent of ours has a proxy in front of its versions, and says so.
    let capabilities = Capabilities {
        leads: Leads::Whole,
        routers: vec!["embedded".to_owned()],
        runtimes: Some(vec!["nodejs".to_owned()]),
        ..Capabilities::default()
    };
    Profile { capabilities, ..Profile::default() }
}

pub(super) fn child(world: &mut World, profile: &Profile) -> String {
    let (id, _) = world.poll_as("", "north", Some(profile.clone()));
    world.poll_as(&id, "north", Some(profile.clone()));
    id
}

/// A deployed agent, one of ours, and two routers.
struct Crew {
    world: World,
    agents: Vec<String>,
    routers: Vec<String>,
}

impl Crew {
    fn new(rollout: &str) -> Self {
        let mut crew = Self::before(rollout);
        crew.world.submit(&strategy(rollout));
        crew
    }

    fn before(_: &str) -> Self {
        let mut world = World::new();
        // Routers are the older ones: they would come first by that.
        let routers = vec![child(&mut world, &router_profile()), child(&mut world, &router_profile())];
        let agents = vec![world.child("north"), child(&mut world, &own_profile())];
        Self { world, agents, routers }
    }

    /// With a manager below for each group.
    fn with_managers(rollout: &str) -> Self {
        let mut crew = Self::before(rollout);
        crew.agents.push(site(&mut crew.world, Below::Agents, 3));
        crew.routers.push(site(&mut crew.world, Below::Routers, 2));
        crew.world.submit(&strategy(rollout));
        crew
    }

    fn offers(&mut self) -> [Vec<String>; 2] {
        let polled = |world: &mut World, all: &[String]| all.iter().map(|child| world.poll(child)).collect();
        [polled(&mut self.world, &self.agents), polled(&mut self.world, &self.routers)]
    }

    /// Whether it may end a stage, and whether it is to take all back.
    fn asks(&mut self, child: &str, offer: &str, stage: &str) -> (bool, bool) {
        let (child, offer, stage) = (child.to_owned(), offer.to_owned(), stage.to_owned());
        let asks = Command::Members(members::Command::EndStage { child, offer, stage, failures: None });
        match self.world.command(&asks).unwrap() {
            Reply::EndStage { end, rollback, .. } => (end, rollback),
            other => panic!("{other:?}"),
        }
    }

    /// Each agent has passed its test, and has the new version.
    fn agents_succeed(&mut self) {
        let agents = self.agents.clone();
        for agent in &agents {
            self.world.take(agent);
            self.world.report(agent, "h", summary("Canary", SuccessWaiting)).unwrap();
        }
        for agent in &agents {
            assert_eq!(self.asks(agent, "h", "Canary"), (true, false), "{agent}");
            self.world.report(agent, "h", summary("Canary", Completed)).unwrap();
            if self.world.poll(agent) == "h.rollout" {
                self.world.roll_out(agent);
            }
        }
    }

    fn all_routers(&mut self, stage: &str) {
        let routers = self.routers.clone();
        for router in &routers {
            if self.world.poll(router) == "h" {
                let (_, form) = self.world.take(router);
                assert_eq!(form, Form::InPlace { is_reported: false, group: Group::Routers });
            }
            self.world.report(router, "h", summary(stage, SuccessWaiting)).unwrap();
        }
        for router in &routers {
            assert_eq!(self.asks(router, "h", stage), (true, false), "{router} in {stage}");
            self.world.report(router, "h", summary(stage, Completed)).unwrap();
        }
    }

    /// It takes its undo and proves it.
    fn goes_back(&mut self, child: &str) {
        let (offer, form) = self.world.take(child);
        assert!(matches!(form, Form::Undo { .. }), "{offer}: {form:?}");
        self.world.report(child, &offer, summary(UNDO_STAGE, Completed)).unwrap();
    }
}

#[test]
fn no_router_is_offered_anything_before_all_agents_are_done() {
    let mut crew = Crew::new("on_failure: rollback");
    assert_eq!(crew.offers(), [["h", "h"], ["", ""]]);
    insta::assert_snapshot!(crew.world.waits("h"), @"0 of 4 children have ended, 4 have yet to begin; the agents; the roll-out of the agents begins when the 2 that are behind have come");
    crew.agents_succeed();
    assert_eq!(crew.offers(), [["", ""], ["h", "h"]]);
    crew.all_routers("little");
    crew.all_routers("half");
    assert_eq!(crew.world.ended(), ["Done, 0 unconfirmed"]);
    let (agent, router) = (crew.agents[1].clone(), crew.routers[0].clone());
    assert_eq!(crew.world.runs(&agent, "a"), "new of h");
    assert_eq!(crew.world.runs(&agent, "service/checkout"), "unheard of");
    assert_eq!(crew.world.runs(&router, "service/checkout"), "new of h");
    assert_eq!(crew.world.runs(&router, "a"), "unheard of");
}

#[test]
fn each_is_handed_what_is_its_own_and_knows_no_stage_of_the_others() {
    let mut crew = Crew::new("");
    let (agent, router) = (crew.agents[1].clone(), crew.routers[0].clone());
    let offer = crew.world.fetch(&agent, "h").unwrap();
    assert_eq!((offer.strategy.services.len(), offer.strategy.stages.len()), (0, 1));
    assert!(crew.world.report(&agent, "h", summary("little", SuccessWaiting)).is_err());
    crew.world.report(&agent, "h", summary("Canary", Failure)).unwrap();
    assert_eq!(crew.world.ended(), ["RolledBack, 0 unconfirmed"]);
    assert_eq!(crew.world.poll(&router), "", "the other group never begins");
}

#[test]
fn while_no_router_has_begun_agents_go_back_at_once() {
    let mut crew = Crew::new("on_failure: rollback");
    let [first, second] = [crew.agents[0].clone(), crew.agents[1].clone()];
    crew.world.take(&first);
    crew.world.take(&second);
    crew.world.report(&second, "h", summary("Canary", Failure)).unwrap();
    assert!(crew.asks(&first, "h", "Canary").0);
    assert_eq!(crew.world.poll(&first), "h.undo");
    crew.goes_back(&first);
    assert_eq!(crew.world.ended(), ["RolledBack, 0 unconfirmed"]);
}

#[test]
fn after_a_failure_at_a_router_agents_are_told_when_each_router_is_back() {
    let mut crew = Crew::new("on_failure: rollback");
    crew.agents_succeed();
    let [bad, good] = [crew.routers[0].clone(), crew.routers[1].clone()];
    crew.world.take(&bad);
    crew.world.take(&good);
    // It has taken it back, which proves itself.
    crew.world.report(&bad, "h", summary("little", Failure)).unwrap();
    assert_eq!(crew.world.state_of("h"), "RollingBack");
    assert_eq!(crew.offers(), [["", ""], ["", "h.undo"]]);
    assert_eq!(crew.asks(&good, "h", "little"), (true, true), "it hears of it in its stage, too");
    let agent = crew.agents[0].clone();
    insta::assert_snapshot!(crew.world.waits_child("h", &agent), @"is to go back when each router has proven that it is back, gives up in 30m");
    crew.goes_back(&good);
    assert_eq!(crew.offers(), [["h.undo", "h.undo"], ["", ""]]);
    for agent in crew.agents.clone() {
        crew.goes_back(&agent);
    }
    assert_eq!(crew.world.ended(), ["RolledBack, 0 unconfirmed"]);
    assert!(crew.agents.clone().iter().all(|agent| crew.world.runs(agent, "a") == "base of h"));
}

#[test]
fn an_operator_takes_back_what_all_have_in_the_same_order() {
    let mut crew = Crew::new("on_failure: rollback");
    crew.agents_succeed();
    crew.all_routers("little");
    crew.world.abort("h");
    assert_eq!(crew.offers(), [["", ""], ["h.undo", "h.undo"]]);
    for router in crew.routers.clone() {
        assert_eq!(crew.offers()[0], ["", ""]);
        crew.goes_back(&router);
    }
    assert_eq!(crew.offers(), [["h.undo", "h.undo"], ["", ""]]);
}

#[test]
fn rollback_at_agents_waits_for_absent_router_after_unconfirmed_end() {
    let mut crew = Crew::new("on_failure: rollback");
    crew.agents_succeed();
    crew.all_routers("little");
    crew.world.abort("h");
    let [here, away] = [crew.routers[0].clone(), crew.routers[1].clone()];
    crew.goes_back(&here);
    for _ in 0..40 {
        crew.world.pass(Duration::from_mins(1));
        for agent in crew.agents.clone() {
            assert_eq!(crew.world.poll(&agent), "");
        }
    }
    let over = crew.world.release("h").state.clone();
    assert!(matches!(over, ReleaseState::Over { unconfirmed: 3, .. }), "{over:?}");
    // It is heard of again.
    crew.goes_back(&away);
    for agent in crew.agents.clone() {
        crew.goes_back(&agent);
    }
    assert!(matches!(crew.world.release("h").state, ReleaseState::Over { unconfirmed: 0, .. }));
}

#[test]
fn a_router_that_is_forgotten_is_waited_for_no_more() {
    let mut crew = Crew::new("on_failure: rollback");
    crew.agents_succeed();
    crew.all_routers("little");
    crew.world.abort("h");
    let [here, gone] = [crew.routers[0].clone(), crew.routers[1].clone()];
    crew.goes_back(&here);
    assert!(crew.world.forget(&gone).is_err(), "it owes the proof");
    let forget = children::Command::Forget { child: gone, even_if_it_owes: true };
    crew.world.command(&Command::Children(forget)).unwrap();
    crew.routers.pop();
    assert_eq!(crew.offers(), [vec!["h.undo", "h.undo"], vec![""]]);
}

#[test]
fn time_to_go_back_begins_for_agents_when_they_are_told() {
    let mut crew = Crew::new("on_failure: rollback");
    crew.agents_succeed();
    crew.all_routers("little");
    crew.world.abort("h");
    let routers = crew.routers.clone();
    crew.goes_back(&routers[0]);
    // Nearly as long as an undo may take.
    for _ in 0..29 {
        crew.world.pass(Duration::from_mins(1));
    }
    crew.goes_back(&routers[1]);
    crew.world.pass(Duration::from_mins(20));
    assert_eq!(crew.world.state_of("h"), "RollingBack");
    for agent in crew.agents.clone() {
        crew.goes_back(&agent);
    }
    assert_eq!(crew.world.ended(), ["Aborted, 0 unconfirmed"]);
}

#[test]
fn counts_and_percents_are_of_each_group() {
    let mut world = World::new();
    let profiles = [vec![router_profile(); 4], vec![own_profile(); 10]].concat();
    let all: Vec<String> = profiles.iter().map(|profile| child(&mut world, profile)).collect();
    let (routers, agents) = all.split_at(4);
    world.submit(&strategy("order: waves, waves: [1, 50%, 100%], min_succeeded: 50%"));
    let offered =
        |world: &mut World, all: &[String]| all.iter().filter(|child| world.poll(child) == "h").count();
    for (turn, size) in [1, 4, 5].into_iter().enumerate() {
        assert_eq!(offered(&mut world, agents), size, "wave {turn}");
        assert_eq!(offered(&mut world, routers), 0);
        for agent in agents.iter().filter(|agent| world.poll(agent) == "h").cloned().collect::<Vec<_>>() {
            world.take(&agent);
            for status in [SuccessWaiting, Completed] {
                world.report(&agent, "h", summary("Canary", status)).unwrap();
            }
        }
    }
    for size in [1, 1, 2] {
        let turn: Vec<String> = routers.iter().filter(|router| world.poll(router) == "h").cloned().collect();
        assert_eq!(turn.len(), size);
        for router in &turn {
            world.take(router);
            for stage in ["little", "half"] {
                for status in [SuccessWaiting, Completed] {
                    world.report(router, "h", summary(stage, status)).unwrap();
                }
            }
        }
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn where_too_few_agents_have_succeeded_no_router_begins() {
    let mut crew = Crew::new("max_failed: 100%, min_succeeded: 2");
    let [first, second] = [crew.agents[0].clone(), crew.agents[1].clone()];
    crew.world.take(&second);
    crew.world.report(&second, "h", summary("Canary", Failure)).unwrap();
    crew.world.take(&first);
    crew.world.report(&first, "h", summary("Canary", SuccessWaiting)).unwrap();
    insta::assert_snapshot!(crew.world.waits("h"), @"is paused (unproven: 1 agent has succeeded so far, 2 must before the roll-out of the agents): resume or abort it");
    // Somebody wants to go on all the same: the agents roll out, and that is as far as it goes.
    crew.world.resume("h");
    assert_eq!(crew.asks(&first, "h", "Canary"), (true, false));
    crew.world.report(&first, "h", summary("Canary", Completed)).unwrap();
    crew.world.roll_out(&first);
    for _ in 0..2 {
        insta::allow_duplicates! {
            insta::assert_snapshot!(crew.world.waits("h"), @"is paused (unproven: 1 agent has succeeded so far, 2 must before the routers; try agents again, for this can't be waived): resume or abort it");
        }
        assert_eq!(crew.offers()[1], ["", ""]);
        crew.world.resume("h");
    }
}

#[test]
fn what_an_operator_promotes_is_first_the_agents_and_then_the_routers() {
    let promote = Command::Rollout(rollout::Command::Promote { release: "h".to_owned() });
    let mut crew = Crew::new("order: waves, waves: [1, 100%], approval: before_each_wave, soak: 1h");
    assert_eq!(crew.offers(), [["h", ""], ["", ""]]);
    crew.world.command(&promote).unwrap();
    assert_eq!(crew.offers(), [["h", "h"], ["", ""]]);
    assert!(crew.world.command(&promote).is_err(), "the routers wait for them");
    crew.agents_succeed();
    assert_eq!(crew.offers()[1], ["", ""]);
    crew.world.pass(Duration::from_secs(3_601));
    crew.offers();
    insta::assert_snapshot!(crew.world.waits("h"), @"waits for approval of wave 1 of 2 of the routers: asked 0s ago, rolls back in 6h");
    crew.world.approve("h").unwrap();
    assert_eq!(crew.offers()[1], ["h", ""]);
    crew.world.command(&promote).unwrap();
    assert_eq!(crew.offers()[1], ["h", "h"]);
}

#[test]
fn without_one_of_the_groups_nothing_is_released() {
    let mut world = World::new();
    child(&mut world, &router_profile());
    site(&mut world, Below::Routers, 3);
    world.submit(&strategy(""));
    assert_eq!(world.ended(), ["NoParticipants, 0 unconfirmed"]);
    assert_eq!(world.release("h").excluded, [(model::Exclusion::Alone, 2)]);
}

#[test]
fn where_no_router_was_tested_the_release_is_not_done() {
    let mut crew = Crew::new("");
    crew.agents_succeed();
    let routers = crew.routers.clone();
    for router in &routers {
        crew.world.take(router);
        let none = Times { median: -1.0, minimum: -1.0, maximum: -1.0 };
        let idle = Summary { f2_times_summary: none, ..summary("little", Failure) };
        crew.world.report(router, "h", idle).unwrap();
    }
    assert_eq!(crew.world.ended(), ["Untested, 0 unconfirmed"]);
}

#[test]
fn an_agent_that_is_tried_again_is_waited_for_by_the_routers() {
    let mut crew = Crew::new("max_failed: 100%, order: parallel");
    let [first, second] = [crew.agents[0].clone(), crew.agents[1].clone()];
    crew.world.take(&second);
    crew.world.report(&second, "h", summary("Canary", Failure)).unwrap();
    crew.world.take(&first);
    crew.world.report(&first, "h", summary("Canary", Completed)).unwrap();
    crew.world.roll_out(&first);
    let [bad, good] = [crew.routers[0].clone(), crew.routers[1].clone()];
    for router in [&bad, &good] {
        crew.world.take(router);
    }
    crew.world.report(&bad, "h", summary("little", Failure)).unwrap();
    for stage in ["little", "half"] {
        crew.world.report(&good, "h", summary(stage, SuccessWaiting)).unwrap();
        crew.world.report(&good, "h", summary(stage, Completed)).unwrap();
    }
    assert_eq!(crew.world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    crew.world.retry("h").unwrap();
    assert_eq!(crew.offers(), [["", "h.r2"], ["", ""]]);
    crew.world.take(&second);
    for status in [SuccessWaiting, Completed] {
        crew.world.report(&second, "h.r2", summary("Canary", status)).unwrap();
    }
    assert_eq!(crew.offers(), [["", ""], ["h.r2", ""]]);
}

#[test]
fn an_agent_that_comes_late_has_its_turn_among_the_agents() {
    let mut crew = Crew::new("late_joiners: include");
    let late = child(&mut crew.world, &own_profile());
    assert_eq!(crew.world.poll(&late), "h");
    let router = child(&mut crew.world, &router_profile());
    assert_eq!(crew.world.poll(&router), "");
    crew.agents.push(late);
    crew.agents_succeed();
    assert_eq!(crew.world.poll(&router), "h");
}

/// What a child does next. Numbers pick among what is there.
#[derive(Debug, Clone)]
enum Deed {
    /// It goes on: takes what it is offered, or ends what it has in hand so.
    Acts(usize, StageStatus),
    Asks(usize),
    Pass(u64),
    Abort,
    Retry,
    RetryChild(usize),
    Promote,
    PromoteToGate,
    Resume,
    Comes(bool),
    Forget(usize),
    Changes(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let status = prop_oneof![6 => Just(Completed), 6 => Just(SuccessWaiting), 1 => Just(Failure)];
    let child = 0..8_usize;
    prop_oneof![
        40 => (child.clone(), status).prop_map(|(child, status)| Deed::Acts(child, status)),
        10 => child.clone().prop_map(Deed::Asks),
        4 => prop_oneof![Just(1_u64), Just(61), Just(901), Just(3_600)].prop_map(Deed::Pass),
        1 => Just(Deed::Abort),
        2 => Just(Deed::Retry),
        2 => child.clone().prop_map(Deed::RetryChild),
        2 => Just(Deed::Promote),
        2 => Just(Deed::PromoteToGate),
        2 => Just(Deed::Resume),
        2 => any::<bool>().prop_map(Deed::Comes),
        1 => child.clone().prop_map(Deed::Forget),
        1 => child.prop_map(Deed::Changes),
    ]
}

/// What must be true of a hybrid whatever everybody does.
struct Witness {
    crew: Crew,
    /// Routers that were told of a share.
    told: BTreeSet<String>,
    /// Agents that have ever proven the new version, wherever they are now.
    proven: BTreeSet<String>,
}

impl Witness {
    fn all(&self) -> Vec<String> {
        self.crew.routers.iter().chain(&self.crew.agents).cloned().collect()
    }

    fn part(&self, child: &str) -> Option<domain::release::assignment::Assignment> {
        let key = self.crew.world.state.children.key(child)?;
        self.crew.world.release("h").assignments.get(&key).cloned()
    }

    /// A router is told of a share.
    fn router_begins(&mut self, router: &str) {
        let parts: Vec<_> = self.crew.agents.iter().filter_map(|agent| self.part(agent)).collect();
        let late =
            |part: &domain::release::assignment::Assignment| part.rare().joined.is_some() || part.attempt > 1;
        assert!(
            parts.iter().all(|part| part.status.is_over() || late(part)),
            "{router} begins before all agents are done"
        );
        assert!(!self.proven.is_empty(), "{router} begins, and nobody has succeeded");
        self.told.insert(router.to_owned());
    }

    /// An agent is told to undo something.
    fn agent_goes_back(&self, agent: &str) {
        let release = self.crew.world.release("h");
        if release.is_under_way()
            || matches!(
                release.state,
                ReleaseState::Over { end: domain::release::state::End::DoneWithFailures, .. }
            )
        {
            return;
        }
        let owes = |router: &&String| {
            self.part(router)
                .is_some_and(|part| !part.may_run_new().is_empty() || part.agents().unconfirmed > 0)
        };
        let is_there = |router: &&String| self.crew.world.state.children.key(router).is_some();
        let owing: Vec<_> = self.told.iter().filter(owes).filter(is_there).collect();
        assert_eq!(owing, [""; 0], "{agent} is told to undo");
    }

    fn act(&mut self, child: &str, status: StageStatus) {
        let is_router = self.crew.routers.iter().any(|router| router == child);
        if self.crew.world.state.children.key(child).is_none() {
            return; // It was silent for so long that it was forgotten.
        }
        let offer = self.crew.world.poll(child);
        if !offer.is_empty() {
            if offer.contains("undo") && !is_router {
                self.agent_goes_back(child);
            }
            let form = self.crew.world.fetch(child, &offer).unwrap().form;
            match form {
                Form::InPlace { group, .. } => {
                    assert_eq!(group == Group::Routers, is_router, "{child}: {offer}");
                    if is_router {
                        self.router_begins(child);
                    }
                }
                Form::Stage { .. } | Form::Rollout { .. } | Form::Undo { .. } => {
                    assert!(!is_router || matches!(form, Form::Undo { .. }), "{child}: {form:?}");
                }
                Form::Full if is_router => self.router_begins(child),
                Form::Full | Form::UndoOf { .. } => {}
                other => panic!("{child}: {other:?}"),
            }
            return;
        }
        let Some(part) = self.part(child) else { return };
        if let Some(undo) = part.pending_undo().filter(|undo| undo.fetched) {
            let id = domain::release::offer::OfferName::undo(undo.number).id("h");
            // Of a manager: somebody below it has not proven it yet.
            let left = u32::from(status == Failure && part.is_whole());
            let said = of_agents(&part, UNDO_STAGE, Completed, left);
            let _ = self.crew.world.report(child, &id, said);
        } else if part.is_whole() && part.status.is_over() && part.agents().unconfirmed > 0 {
            let number = part.whole().map_or(0, |whole| whole.recounts) + 1;
            let slot = part.marks().last().and_then(|mark| mark.slot.stage_index()).unwrap_or_default();
            let stage = self.crew.world.release("h").strategy.stages[slot].name.clone();
            let said = of_agents(&part, &stage, Completed, 0);
            let said = domain::release::summary::Summary { recount: Some(number), ..said };
            let _ = self.crew.world.report(child, &part.offer_name().id("h"), said);
        } else if part.status == ChildStatus::Doing && part.fetched {
            let stage = part
                .slot
                .stage_index()
                .map(|stage| self.crew.world.release("h").strategy.stages[stage].name.clone());
            let (stage, id) = (stage.unwrap_or_else(|| ROLLOUT_STAGE.to_owned()), part.offer_name().id("h"));
            // Who may not end it waits.
            let is_rollout = stage == ROLLOUT_STAGE;
            let may = is_rollout || self.crew.asks(child, &id, &stage).0;
            let status = if status == Completed && !may { SuccessWaiting } else { status };
            let taken = self.crew.world.report(child, &id, of_agents(&part, &stage, status, 0));
            if taken.is_ok() && status == Completed && !is_router {
                self.proven.insert(child.to_owned());
            }
        }
    }

    fn ask(&mut self, child: &str) {
        let Some(part) = self.part(child).filter(|part| part.fetched) else { return };
        let stage = part
            .slot
            .stage_index()
            .map(|stage| self.crew.world.release("h").strategy.stages[stage].name.clone());
        let Some(stage) = stage else { return };
        let (_, rollback) = self.crew.asks(child, &part.offer_name().id("h"), &stage);
        if rollback && self.crew.agents.iter().any(|agent| agent == child) {
            self.agent_goes_back(child);
        }
    }

    fn carry_out(&mut self, deed: &Deed) {
        let all = self.all();
        let pick = |number: usize| all[number % all.len()].clone();
        match deed {
            Deed::Acts(child, status) => self.act(&pick(*child), *status),
            Deed::Asks(child) => self.ask(&pick(*child)),
            Deed::Pass(seconds) => {
                self.crew.world.pass(Duration::from_secs(*seconds));
            }
            Deed::Abort if self.crew.world.release("h").is_under_way() => self.crew.world.abort("h"),
            Deed::Retry => {
                let _ = self.crew.world.retry("h");
            }
            Deed::RetryChild(child) => {
                let retry = members::Command::Retry { release: "h".to_owned(), child: pick(*child) };
                let _ = self.crew.world.command(&Command::Members(retry));
            }
            Deed::Promote => {
                let promote = rollout::Command::Promote { release: "h".to_owned() };
                let _ = self.crew.world.command(&Command::Rollout(promote));
            }
            Deed::PromoteToGate => {
                let promote = rollout::Command::PromoteToGate { release: "h".to_owned() };
                let _ = self.crew.world.command(&Command::Rollout(promote));
            }
            Deed::Resume if self.crew.world.release("h").is_paused() => self.crew.world.resume("h"),
            Deed::Abort | Deed::Resume => {}
            Deed::Comes(true) => {
                let router = child(&mut self.crew.world, &router_profile());
                self.crew.routers.push(router);
            }
            Deed::Comes(false) => {
                let agent = child(&mut self.crew.world, &own_profile());
                self.crew.agents.push(agent);
            }
            Deed::Forget(child) => {
                let child = pick(*child);
                let forget = children::Command::Forget { child: child.clone(), even_if_it_owes: true };
                if all.len() > 2 && self.crew.world.command(&Command::Children(forget)).is_ok() {
                    self.crew.routers.retain(|router| *router != child);
                    self.crew.agents.retain(|agent| *agent != child);
                }
            }
            // An agent that says that it leads a router, and runs nothing.
            Deed::Changes(child) => {
                let Some(agent) = self.crew.agents.get(1 + child % 3).cloned() else { return };
                let begun = self.part(&agent).is_some_and(|part| part.status != ChildStatus::Todo);
                if !begun && self.crew.world.state.children.key(&agent).is_some() {
                    let _ = self.crew.world.poll_as(&agent, "north", Some(router_profile()));
                    self.crew.agents.retain(|other| *other != agent);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(300))]

    #[test]
    fn whatever_happens_shares_come_after_the_agents_and_are_gone_before_them(
        deeds in proptest::collection::vec(deed(), 1..150),
        rollout in prop_oneof![
            Just("on_failure: rollback"),
            Just("max_failed: 1, late_joiners: include"),
            Just("order: waves, waves: [1, 100%], max_failed: 100%, late_joiners: include"),
            Just("order: location_sequential, start_at: [0, 0], on_failure: pause, late_joiners: include"),
            Just("order: parallel, on_failure: continue, late_joiners: include, approval: before_rollout"),
            Just("order: global_incremental, min_succeeded: 100%, max_failed: 50%, max_in_progress: 1"),
        ],
        is_tree in any::<bool>(),
    ) {
        let crew = if is_tree { Crew::with_managers(rollout) } else { Crew::new(rollout) };
        let mut witness = Witness { crew, told: BTreeSet::new(), proven: BTreeSet::new() };
        for deed in &deeds {
            witness.carry_out(deed);
        }
    }
}

#[test]
fn no_router_begins_unproven_where_the_first_of_them_is_gone() {
    let mut crew = Crew::new("order: waves, waves: [1, 100%], max_failed: 100%");
    let (router, agent) = (crew.routers.remove(0), crew.agents.remove(1));
    for child in [router, agent] {
        let forget = children::Command::Forget { child, even_if_it_owes: true };
        crew.world.command(&Command::Children(forget)).unwrap();
    }
    crew.world.pass(Duration::from_secs(901));
    assert_eq!(crew.world.state_of("h"), "Paused");
    crew.world.resume("h");
    assert_eq!(crew.offers(), [[""], [""]]);
    assert_eq!(crew.world.state_of("h"), "Paused");
}

#[test]
fn a_router_that_comes_in_the_place_of_another_is_one() {
    let mut witness =
        Witness { crew: Crew::new("on_failure: rollback"), told: BTreeSet::new(), proven: BTreeSet::new() };
    let acts = |child: usize| Deed::Acts(child, Completed);
    let deeds = [
        acts(6),
        acts(6),
        Deed::Pass(61),
        Deed::Comes(true),
        Deed::Forget(3),
        acts(3),
        acts(3),
        acts(3),
        acts(6),
    ];
    for deed in &deeds {
        witness.carry_out(deed);
    }
}

#[test]
fn a_router_does_not_take_the_place_of_an_agent_that_is_gone() {
    for profile in [router_profile(), own_profile()] {
        let mut crew = Crew::new("on_failure: rollback");
        let agent = crew.agents[1].clone();
        crew.world.take(&agent);
        crew.world.pass(Duration::from_mins(20));
        let mut newcomer = profile.clone();
        newcomer.name = Some("newcomer".to_owned());
        let newcomer = child(&mut crew.world, &newcomer);
        let forget = children::Command::Forget { child: agent.clone(), even_if_it_owes: true };
        let reply = crew.world.command(&Command::Children(forget));
        let offered = crew.world.poll(&newcomer);
        assert_eq!(offered.contains("undo"), profile == own_profile(), "{offered} after {reply:?}");
    }
}
