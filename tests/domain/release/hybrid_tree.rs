//! Releases of functions and services over managers below: the order of the groups holds over everybody in the tree.

use std::time::Duration;

use domain::{
    children::{self, Profile},
    release::{
        assignment::Assignment,
        command::{Command, Form, Reply},
        manager::Agents,
        members,
        summary::Summary,
    },
};
use language::{check_from_parent, render::UNDO_STAGE, render_full};
use model::{Capabilities, FEATURE_SERVICES, StageStatus};

use super::{
    hybrid::{child, own_profile, router_profile, strategy},
    world::{World, manager, summary},
};

use StageStatus::{Completed, Failure, SuccessWaiting};

/// What is below a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    Agents,
    Routers,
}

/// A manager with so many of one kind below it.
pub fn site(world: &mut World, below: Below, agents: u32) -> String {
    let runtimes = match below {
        Below::Agents => vec!["nodejs".to_owned()],
        Below::Routers => Vec::new(),
    };
    let capabilities = Capabilities {
        runtimes: Some(runtimes),
        features: vec![FEATURE_SERVICES.to_owned()],
        ..Capabilities::default()
    };
    let profile = Profile { capabilities, ..manager() };
    let (id, _) = world.poll_with("", "north", Some(profile.clone()), agents);
    world.poll_with(&id, "north", Some(profile), agents);
    id
}

/// What a child says of a stage. A manager says that all below it have ended as well as it has; `left` of them owe a proof.
pub fn of_agents(part: &Assignment, stage: &str, status: StageStatus, left: u32) -> Summary {
    let Some(whole) = part.whole() else { return summary(stage, status) };
    let participants = whole.planned.agents;
    let (succeeded, failed) = match status {
        Failure => (0, participants),
        Completed => (participants, 0),
        _ => (0, 0),
    };
    let agents = Agents { participants, succeeded, failed, unconfirmed: left, ..Agents::default() };
    Summary { agents: Some(agents), ..summary(stage, status) }
}

/// A router and an agent here, a manager of agents and one of routers.
struct Tree {
    world: World,
    agent: String,
    router: String,
    site: String,
    edge: String,
}

impl Tree {
    fn new(rollout: &str) -> Self {
        let mut world = World::new();
        let router = child(&mut world, &router_profile());
        let edge = site(&mut world, Below::Routers, 4);
        let agent = child(&mut world, &own_profile());
        let site = site(&mut world, Below::Agents, 10);
        world.submit(&strategy(rollout));
        Self { world, agent, router, site, edge }
    }

    /// Of the agent, the manager of agents, the router, the manager of routers.
    fn offers(&mut self) -> [String; 4] {
        [&self.agent, &self.site, &self.router, &self.edge].map(|child| self.world.poll(child))
    }

    /// It takes what it is offered, and is handed this text if it is a manager.
    fn takes(&mut self, child: &str) -> String {
        let offer = self.world.poll(child);
        assert!(!offer.is_empty(), "{child} is offered nothing");
        let found = self.world.fetch(child, &offer).unwrap();
        match found.form {
            Form::Full => {
                let text = render_full::whole(&found.strategy);
                let again = check_from_parent(text.as_bytes());
                assert_eq!(
                    again.strategy.as_ref(),
                    Some(&*found.strategy),
                    "{text}\n{:#?}",
                    again.diagnostics
                );
                text
            }
            _ => String::new(),
        }
    }

    fn says(&mut self, child: &str, offer: &str, stage: &str, status: StageStatus, left: u32) {
        let said = of_agents(self.world.assignment("h", child), stage, status, left);
        self.world.report(child, offer, said).unwrap();
    }

    fn passes(&mut self, child: &str, stages: &[&str]) {
        self.takes(child);
        for stage in stages {
            for status in [SuccessWaiting, Completed] {
                self.says(child, "h", stage, status, 0);
            }
        }
    }

    fn goes_back(&mut self, child: &str, left: u32) {
        let offer = self.world.poll(child);
        assert!(offer.contains(".undo"), "{child}: {offer:?}");
        self.world.fetch(child, &offer).unwrap();
        self.says(child, &offer, UNDO_STAGE, Completed, left);
    }

    /// Whether it may end a stage, and whether it is to take all back.
    fn asks(&mut self, child: &str, stage: &str) -> (bool, bool) {
        let (child, offer, stage) = (child.to_owned(), "h".to_owned(), stage.to_owned());
        let asks = Command::Members(members::Command::EndStage { child, offer, stage, failures: None });
        match self.world.command(&asks).unwrap() {
            Reply::EndStage { end, rollback, .. } => (end, rollback),
            other => panic!("{other:?}"),
        }
    }

    /// All agents have the new version.
    fn agents_succeed(&mut self) {
        for agent in [self.agent.clone(), self.site.clone()] {
            self.passes(&agent, &["Canary"]);
        }
    }
}

#[test]
fn routers_start_after_agents_and_managers_see_only_their_group() {
    let mut tree = Tree::new("on_failure: rollback");
    let (agent, site) = (tree.agent.clone(), tree.site.clone());
    assert_eq!(tree.offers(), ["h", "h", "", ""]);
    tree.passes(&agent, &["Canary"]);
    let text = tree.takes(&site);
    assert!(text.contains("Canary") && !text.contains("services:") && !text.contains("little"), "{text}");
    assert_eq!(tree.offers(), ["", "", "", ""], "agents below the manager are at it");
    tree.says(&site, "h", "Canary", SuccessWaiting, 0);
    assert_eq!(tree.offers(), ["", "", "", ""]);
    tree.says(&site, "h", "Canary", Completed, 0);
    assert_eq!(tree.offers(), ["", "", "h", "h"]);
    let (router, edge) = (tree.router.clone(), tree.edge.clone());
    let text = tree.takes(&edge);
    assert!(!text.contains("functions:") && !text.contains("Canary") && text.contains("half"), "{text}");
    for stage in ["little", "half"] {
        for status in [SuccessWaiting, Completed] {
            tree.says(&edge, "h", stage, status, 0);
        }
    }
    tree.passes(&router, &["little", "half"]);
    assert_eq!(tree.world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(tree.world.runs(&site, "a"), "new of h");
    assert_eq!(tree.world.runs(&site, "service/checkout"), "unheard of");
    assert_eq!(tree.world.runs(&edge, "service/checkout"), "new of h");
    assert_eq!(tree.world.release("h").agents().participants, 16);
}

#[test]
fn managers_of_agents_are_told_to_go_back_when_routers_below_others_are_back() {
    let mut tree = Tree::new("on_failure: rollback");
    tree.agents_succeed();
    let (router, edge) = (tree.router.clone(), tree.edge.clone());
    tree.takes(&edge);
    tree.passes(&router, &["little"]);
    tree.world.abort("h");
    assert_eq!(tree.offers(), ["", "", "h.undo", "h.undo"]);
    assert_eq!(tree.asks(&edge, "little"), (true, true));
    tree.goes_back(&router, 0);
    assert_eq!(tree.offers(), ["", "", "", "h.undo"]);
    tree.goes_back(&edge, 0);
    assert_eq!(tree.offers(), ["h.undo", "h.undo", "", ""]);
    for child in [tree.site.clone(), tree.agent.clone()] {
        tree.goes_back(&child, 0);
    }
    assert_eq!(tree.world.ended(), ["Aborted, 0 unconfirmed"]);
    assert_eq!(tree.world.runs(&tree.site.clone(), "a"), "base of h");
}

#[test]
fn a_router_far_below_that_has_not_proven_its_way_back_holds_all_agents() {
    let mut tree = Tree::new("on_failure: rollback");
    tree.agents_succeed();
    let (router, edge) = (tree.router.clone(), tree.edge.clone());
    tree.takes(&edge);
    tree.passes(&router, &["little"]);
    tree.world.abort("h");
    tree.goes_back(&router, 0);
    // Its part is over, and one of its routers was not heard of.
    tree.goes_back(&edge, 1);
    for _ in 0..40 {
        tree.world.pass(Duration::from_mins(1));
        assert_eq!(tree.offers(), ["", "", "", ""]);
    }
    let said = of_agents(tree.world.assignment("h", &edge), "little", Failure, 0);
    tree.world.report(&edge, "h", Summary { recount: Some(1), ..said }).unwrap();
    assert_eq!(tree.offers(), ["h.undo", "h.undo", "", ""]);
}

#[test]
fn manager_failure_confirms_router_rollback_and_agents_wait_for_others() {
    let mut tree = Tree::new("on_failure: rollback");
    tree.agents_succeed();
    let (router, edge) = (tree.router.clone(), tree.edge.clone());
    tree.takes(&edge);
    tree.takes(&router);
    tree.says(&edge, "h", "little", Failure, 0);
    assert_eq!(tree.world.state_of("h"), "RollingBack");
    assert_eq!(tree.offers(), ["", "", "h.undo", ""]);
    tree.goes_back(&router, 0);
    assert_eq!(tree.offers(), ["h.undo", "h.undo", "", ""]);
}

#[test]
fn while_no_router_has_begun_a_manager_of_agents_goes_back_at_once() {
    let mut tree = Tree::new("on_failure: rollback");
    let (agent, site) = (tree.agent.clone(), tree.site.clone());
    tree.takes(&agent);
    tree.takes(&site);
    tree.says(&agent, "h", "Canary", Failure, 0);
    assert_eq!(tree.asks(&site, "Canary"), (true, true));
    assert_eq!(tree.offers(), ["", "h.undo", "", ""]);
}

#[test]
fn agents_below_count_in_waves_of_their_group() {
    let mut tree = Tree::new("order: waves, waves: [3, 100%], min_succeeded: 100%, max_failed: 100%");
    let (agent, site) = (tree.agent.clone(), tree.site.clone());
    // Three of eleven agents, and three of five routers.
    assert_eq!(tree.offers(), ["h", "h", "", ""]);
    let text = tree.takes(&site);
    assert!(text.contains("waves: [2, 100%]") && text.contains("from_above: {waves: 1"), "{text}");
    tree.passes(&agent, &["Canary"]);
    let two = Agents { participants: 10, succeeded: 2, ..Agents::default() };
    let said = Summary { agents: Some(two), ..summary("Canary", Completed) };
    tree.world.report(&site, "h", said).unwrap();
    assert_eq!(tree.offers(), ["", "h.r2", "", ""]);
    let text = tree.takes(&site);
    assert!(text.contains("waves: 2, continues: \"h\""), "{text}");
    assert_eq!(tree.offers()[2..], ["", ""]);
    tree.says(&site, "h.r2", "Canary", Completed, 0);
    assert_eq!(tree.offers(), ["", "", "h", "h"]);
    let edge = tree.edge.clone();
    let text = tree.takes(&edge);
    assert!(text.contains("waves: [2, 100%]") && text.contains("from_above: {waves: 1"), "{text}");
}

#[test]
fn where_too_few_below_have_succeeded_no_router_begins() {
    let mut tree = Tree::new("max_failed: 100%, min_succeeded: 9");
    let (agent, site) = (tree.agent.clone(), tree.site.clone());
    tree.passes(&agent, &["Canary"]);
    tree.takes(&site);
    let seven = Agents { participants: 10, succeeded: 7, failed: 3, ..Agents::default() };
    let said = |status| Summary { agents: Some(seven), ..summary("Canary", status) };
    tree.world.report(&site, "h", said(Completed)).unwrap();
    insta::assert_snapshot!(tree.world.waits("h"), @"is paused (unproven: 8 agents have succeeded so far, 9 must before the routers; try agents again, for this can't be waived): resume or abort it");
    assert_eq!(tree.offers()[2..], ["", ""]);
}

#[test]
fn each_location_has_its_turn_and_those_of_routers_come_after_all_of_agents() {
    let mut tree = Tree::new("order: location_sequential, start_at: [0, 0]");
    let (agent, site) = (tree.agent.clone(), tree.site.clone());
    let mut begun = Vec::new();
    for _ in 0..4 {
        let offered = tree.offers();
        let at: Vec<usize> = (0..4).filter(|at| !offered[*at].is_empty()).collect();
        let [at] = at[..] else { panic!("one at a time: {offered:?}") };
        begun.push(at);
        let (child, stages): (String, &[&str]) = match at {
            0 => (agent.clone(), &["Canary"]),
            1 => (site.clone(), &["Canary"]),
            2 => (tree.router.clone(), &["little", "half"]),
            _ => (tree.edge.clone(), &["little", "half"]),
        };
        tree.passes(&child, stages);
    }
    assert!(begun[..2].iter().all(|at| *at < 2), "{begun:?}");
    assert_eq!(tree.world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn manager_labelled_as_router_joins_routers_without_its_agents() {
    for (labelled, offered) in [(false, ["h", "", ""]), (true, ["", "", "h"])] {
        let mut world = World::new();
        let router = child(&mut world, &router_profile());
        let agent = child(&mut world, &own_profile());
        let mixed = site(&mut world, Below::Agents, 4);
        for child in
            [(labelled, &mixed), (true, &router)].iter().filter(|(is, _)| *is).map(|(_, child)| child)
        {
            let (id, key, value) = ((*child).clone(), "env".to_owned(), Some("prod".to_owned()));
            let label = children::Command::Label { child: id, key, value };
            world.command(&Command::Children(label)).unwrap();
        }
        let text = strategy("on_failure: rollback")
            .replace("    ports:", "    routers: {labels: {env: prod}}\n    ports:");
        world.submit(&text);
        let first = [&mixed, &router].map(|child| world.poll(child));
        assert_eq!([&first[0], &first[1]], [offered[0], offered[1]]);
        let mut tree = Tree { world, agent: agent.clone(), router, site: mixed.clone(), edge: mixed.clone() };
        tree.passes(&agent, &["Canary"]);
        assert_eq!(tree.world.poll(&mixed), if labelled { offered[2] } else { "h" });
    }
}
