//! Workflows: what is to run where, whatever nodes say and however often.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use domain::{
    children::{self, Poll, Profile},
    release::{
        advance,
        change::Change as AnyChange,
        command::{Command as AnyCommand, LastSeen, NoReply, Refusal},
        settings::Settings,
        state::State,
    },
    workflows::{self, Change, Command, LeftWhy, NewWorkflow, PartKey, Phase, Secret, Told},
};
use model::{Capabilities, ChildId, ChildKey, ChildKind, Cordon, NodeCapabilities, Now};
use placement::{FunctionTypes, Strategy as Choice};
use proptest::{collection::vec, prelude::*, sample::subsequence};
use serde_json::json;

const LABELS: [&str; 2] = ["gpu", "tier=edge"];

/// Everybody called just now, but for those who are silent: since when.
struct Seen {
    silent: BTreeMap<ChildKey, u64>,
    now: Now,
}

impl LastSeen for Seen {
    fn last_call(&self, child: ChildKey) -> Option<u64> {
        Some(self.silent.get(&child).copied().unwrap_or(self.now.served_ms))
    }
}

/// A node as it is: what it was told to run when it asked last, and what it runs of that.
#[derive(Debug, Default, Clone)]
struct Machine {
    runs: BTreeMap<Box<str>, Phase>,
}

struct World {
    state: State,
    /// One that only applies what the other's commands changed.
    replayed: State,
    now: Now,
    silent: BTreeMap<ChildKey, u64>,
    machines: Vec<Machine>,
    chance: u64,
    secret: Secret,
}

fn refused(answer: NoReply) -> String {
    match answer {
        NoReply::Refused(refusal) => refusal.to_string(),
        missing @ NoReply::Missing(_) => panic!("{missing:?}"),
    }
}

fn id(node: usize) -> String {
    format!("00000000-0000-4000-8000-{node:012x}")
}

impl World {
    fn new(nodes: usize, choice: Choice) -> Self {
        let placement = || workflows::Settings { strategy: choice, ..workflows::Settings::default() };
        let settings = || Settings { placement: placement(), ..Settings::default() };
        let mut world = Self {
            state: State::new(settings()),
            replayed: State::new(settings()),
            now: Now { wall_ms: 1_700_000_000_000, served_ms: 1_000_000 },
            silent: BTreeMap::new(),
            machines: vec![Machine::default(); nodes],
            chance: 0,
            secret: Secret([7; 32]),
        };
        for node in 0..nodes {
            // The first has all labels, the second the first of them, the others none.
            let labels = LABELS.iter().take(2_usize.saturating_sub(node));
            let labels = labels.map(|label| label.split_once('=').unwrap_or((label, "")));
            let capabilities = Capabilities {
                runtimes: Some(vec!["python".to_owned()]),
                labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
                node: Some(Box::new(NodeCapabilities {
                    memory_mib: Some(256),
                    resources: vec!["file-log".to_owned()],
                    ..NodeCapabilities::default()
                })),
                ..Capabilities::default()
            };
            world.poll(node, ChildKind::Agent, capabilities);
        }
        world
    }

    fn poll(&mut self, node: usize, kind: ChildKind, capabilities: Capabilities) {
        let poll = Poll {
            child: Some(ChildId::parse(&id(node)).unwrap()),
            fresh: ChildId::parse("fresh").unwrap(),
            area: None,
            address: None,
            agents: 1,
            profile: Some(Profile { name: None, kind, capabilities }),
            tenant: None,
        };
        self.any(&AnyCommand::Children(children::Command::Poll(poll))).unwrap();
    }

    fn any(&mut self, command: &AnyCommand) -> Result<Vec<Change>, NoReply> {
        let seen = Seen { silent: self.silent.clone(), now: self.now };
        let (changes, answer) = advance(&mut self.state, &seen, command, self.now);
        for change in &changes {
            self.replayed.apply(change);
        }
        let own = changes.into_iter().filter_map(|change| match change {
            AnyChange::Workflows(change) => Some(change),
            _ => None,
        });
        let own: Vec<Change> = own.collect();
        answer.map(|_| own)
    }

    fn command(&mut self, command: Command) -> Result<Vec<Change>, NoReply> {
        let changes = self.any(&AnyCommand::Workflows(command))?;
        for change in &changes {
            if let Change::Placed { part, instance, .. } | Change::Moving { part, instance, .. } = change {
                self.may_run(*part, instance.node);
            }
        }
        Ok(changes)
    }

    /// That a node may run a part, as a slow and obvious checker has it.
    fn may_run(&self, part: PartKey, node: ChildKey) {
        let part = self.state.workflows.part(part).unwrap();
        let workflow = self.state.workflows.by_key(part.workflow).unwrap();
        assert!(!workflow.is_stopping, "a workflow that stops gets no instance");
        let child = self.state.children.get(node).unwrap();
        assert_eq!(child.cordon, Cordon::Open, "nothing new comes to a node that is cordoned");
        let since = self.silent.get(&node).copied().unwrap_or(self.now.served_ms);
        assert!(self.now.served_ms - since < 2_000, "nothing comes to a node that is silent");
        let wanted = &workflow.requirements(PartKey(self.key_of(part))).unwrap().labels;
        let has: BTreeSet<String> = LABELS
            .iter()
            .take(2_usize.saturating_sub(node.0 as usize))
            .map(|&label| label.to_owned())
            .collect();
        assert!(wanted.is_subset(&has), "{wanted:?} isn't in {has:?}");
    }

    fn key_of(&self, part: &workflows::Part) -> u32 {
        let workflow = self.state.workflows.by_key(part.workflow).unwrap();
        let mut keys = workflow.parts().map(|(key, ..)| key);
        keys.find(|key| self.state.workflows.part(*key).unwrap().logical == part.logical).unwrap().0
    }

    fn start(&mut self, name: &str, labels: &[&[&str]]) -> Result<Vec<Change>, NoReply> {
        let function = |(at, labels): (usize, &&[&str])| {
            let annotations = match labels {
                [] => json!({"memory_mib": "64"}),
                labels => json!({"label_match_all": labels.join(",")}),
            };
            json!({
                "name": format!("f{at}"), "annotations": annotations, "output_mapping": {"log": "log"},
                "class_specification": {"id": "f", "function_type": "python", "version": "1"},
            })
        };
        let functions: Vec<_> = labels.iter().enumerate().map(function).collect();
        let text = json!({
            "functions": functions,
            "resources": [{"name": "log", "class_type": "file-log"}],
        });
        self.start_text(name, &text)
    }

    fn start_text(&mut self, name: &str, text: &serde_json::Value) -> Result<Vec<Change>, NoReply> {
        let (definition, _) =
            placement::Workflow::read(text.to_string().as_bytes(), &FunctionTypes::default()).unwrap();
        self.chance += 1;
        let parts = definition.functions.len() + definition.resources.len();
        let logical = (0..parts).map(|part| format!("{name}-{part}").into()).collect();
        let new = NewWorkflow {
            id: name.to_owned(),
            definition: Arc::new(definition),
            text: text.to_string().into(),
            types: Arc::default(),
            archive: None,
            logical,
            secret: self.secret,
            strategy: None,
            above: None,
            by: "ann".to_owned(),
        };
        self.command(Command::Start { new: Box::new(new), chance: self.chance })
    }

    fn is_here(&self, node: usize) -> bool {
        self.state.children.get(ChildKey(node as u32)).is_some()
    }

    /// Where the only function of a workflow runs, moves to, and still runs.
    fn places(&self, name: &str) -> (Option<u32>, Option<u32>, Vec<u32>) {
        let workflow = self.state.workflows.get(name).unwrap();
        let (key, ..) = workflow.parts().last().unwrap();
        let part = self.state.workflows.part(key).unwrap();
        let node = |one: &workflows::Instance| one.node.0;
        let (instance, next) = (part.instance.as_ref().map(node), part.next.as_ref().map(node));
        (instance, next, part.leaving.iter().map(node).collect())
    }

    /// One function that gets something from a caller, so that there may be two of it for a while.
    fn start_called(&mut self, name: &str) {
        let text = json!({"functions": [{
            "name": "f", "class_specification": {"id": "f", "function_type": "python", "version": "1"},
        }]});
        self.start_text(name, &text).unwrap();
    }

    fn move_to(&mut self, name: &str, part: &str, to: &[usize]) -> Result<Vec<Change>, NoReply> {
        let nodes = to.iter().map(|node| id(*node)).collect();
        self.command(Command::Move { id: name.to_owned(), part: part.to_owned(), nodes })
    }

    fn look(&mut self) -> Vec<Change> {
        self.chance += 1;
        self.command(Command::Look { chance: self.chance }).unwrap()
    }

    /// What a node is to run, and whether that is only to get ready.
    fn wanted(&self, node: usize) -> BTreeMap<Box<str>, bool> {
        let node = ChildKey(node as u32);
        let mut wanted = BTreeMap::new();
        for (key, part) in self.state.workflows.on_node(node) {
            let is_source = self.state.workflows.by_key(part.workflow).unwrap().is_source(key);
            let own = part.instance.iter().map(|one| (one, false));
            let own = own.chain(part.next.iter().map(|one| (one, is_source)));
            wanted.extend(own.filter(|(one, _)| one.node == node).map(|(one, is)| (one.id.clone(), is)));
        }
        wanted
    }

    /// A node hears what it is to run, does some of it, and says what runs.
    fn report(&mut self, node: usize, phase: &Phase, ends: bool) -> Vec<Change> {
        self.silent.remove(&ChildKey(node as u32));
        let wanted = self.wanted(node);
        let machine = &mut self.machines[node];
        if ends {
            machine.runs.retain(|id, _| wanted.contains_key(id));
        }
        for (id, prepares) in wanted {
            let phase = if prepares && *phase == Phase::Running { &Phase::Ready } else { phase };
            machine.runs.insert(id, phase.clone());
        }
        let told: Vec<Told> = machine
            .runs
            .iter()
            .map(|(id, phase)| Told { id: id.clone(), phase: phase.clone(), url: None })
            .collect();
        let report = Command::Report { child: id(node), told };
        let changes = self.command(report.clone()).unwrap();
        assert_eq!(self.command(report).unwrap(), [], "the same report changes nothing");
        changes
    }

    fn check(&self) {
        let (all, other) = (&self.state.workflows, &self.replayed.workflows);
        let (mut waiting, mut unsettled) = (0, 0);
        let mut ids = BTreeSet::new();
        for workflow in all.iter() {
            let mut held = 0;
            for (key, _, requirements) in workflow.parts() {
                let part = all.part(key).unwrap();
                assert_eq!(Some(part), other.part(key));
                assert_eq!(Some(requirements), workflow.requirements(key));
                let is_placed = part.instance.is_some() || part.next.is_some();
                waiting += usize::from(!is_placed && !workflow.is_stopping);
                assert!(!is_placed || !workflow.is_stopping);
                let of = |instance: &Option<workflows::Instance>| instance.as_ref().map(|one| one.node);
                assert!(part.next.is_none() || of(&part.instance) != of(&part.next), "it moves elsewhere");
                let runs = part.instance.as_ref().is_some_and(|one| one.phase == Phase::Running);
                unsettled += usize::from(!runs || part.next.is_some() || !part.leaving.is_empty());
                for instance in part.instances() {
                    held += 1;
                    assert!(ids.insert(instance.id.clone()), "{} is there twice", instance.id);
                    assert!(all.on_node(instance.node).any(|(on, _)| on == key));
                }
            }
            assert!(held > 0 || !workflow.is_stopping, "what stops and runs nowhere is gone");
        }
        for node in all.nodes() {
            for (key, part) in all.on_node(node) {
                let here = part.instances().any(|instance| instance.node == node);
                assert!(here, "{key:?} has nothing on {node:?}");
            }
        }
        assert_eq!((all.waiting(), all.unsettled(), all.len()), (waiting, unsettled, other.len()));
    }

    fn cordon(&mut self, node: usize, cordon: Cordon) {
        let command = children::Command::Cordon { child: id(node), cordon };
        let _ = self.any(&AnyCommand::Children(command));
    }
}

#[test]
fn a_workflow_runs_until_it_is_stopped_and_its_nodes_have_said_so() {
    let mut world = World::new(2, Choice::RoundRobin);
    let changes = world.start("chain", &[&["gpu"], &["gpu"], &["tier=edge"]]).unwrap();
    // The resource, and three functions.
    assert_eq!(changes.iter().filter(|change| matches!(change, Change::Placed { .. })).count(), 4);
    assert!(matches!(world.start("chain", &[&[]]), Err(NoReply::Refused(Refusal::WorkflowTaken(_)))));
    for node in 0..2 {
        world.report(node, &Phase::Running, true);
        world.check();
    }
    assert_eq!(world.look(), []);
    world.command(Command::Stop { id: "chain".to_owned() }).unwrap();
    world.check();
    assert_eq!(world.command(Command::Stop { id: "chain".to_owned() }).unwrap(), [], "it stops already");
    // A node that goes on running what it is not to keeps the workflow.
    world.report(0, &Phase::Running, false);
    world.report(1, &Phase::Running, false);
    assert_eq!(world.state.workflows.len(), 1);
    world.report(0, &Phase::Running, true);
    let last = world.report(1, &Phase::Running, true);
    assert!(matches!(last.last(), Some(Change::Removed { .. })));
    assert!(world.state.workflows.is_empty());
    let unknown = world.command(Command::Stop { id: "chain".to_owned() });
    assert!(matches!(unknown, Err(NoReply::Refused(Refusal::UnknownWorkflow(_)))));
    world.check();
}

#[test]
fn what_no_node_may_run_waits_for_one() {
    let mut world = World::new(3, Choice::Random);
    world.cordon(0, Cordon::Cordoned);
    let changes = world.start("w", &[&["tier=edge"], &[]]).unwrap();
    assert_eq!(changes.iter().filter(|change| matches!(change, Change::Placed { .. })).count(), 2);
    assert_eq!((world.state.workflows.waiting(), world.look()), (1, vec![]));
    world.cordon(0, Cordon::Open);
    world.silent.insert(ChildKey(0), 0);
    assert_eq!(world.look(), []);
    world.silent.clear();
    let placed = world.look();
    assert!(
        matches!(&placed[..], [Change::Placed { instance, .. }] if instance.node == ChildKey(0)),
        "{placed:?}"
    );
    world.check();
}

#[test]
fn memory_that_others_have_there_already_counts() {
    let mut world = World::new(1, Choice::Random);
    // Four times 64 of 256 MiB.
    world.start("first", &[&[], &[], &[]]).unwrap();
    world.start("second", &[&[], &[]]).unwrap();
    assert_eq!(world.state.workflows.waiting(), 1);
    world.command(Command::Stop { id: "first".to_owned() }).unwrap();
    // It has the memory until it has ended.
    assert_eq!(world.look(), []);
    world.report(0, &Phase::Running, true);
    assert_eq!(world.look().len(), 1);
    world.check();
}

#[test]
fn a_function_runs_elsewhere_before_it_ends_where_it_was() {
    let mut world = World::new(3, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    world.move_to("w", "f", &[2]).unwrap();
    assert_eq!(world.places("w"), (Some(0), Some(2), vec![]));
    assert_eq!(
        world.move_to("w", "f", &[1]).map_err(refused).unwrap_err(),
        "f can't be moved: it is being moved"
    );
    world.report(0, &Phase::Running, true);
    world.report(2, &Phase::Starting, true);
    assert_eq!(world.places("w"), (Some(0), Some(2), vec![]));
    world.report(2, &Phase::Running, true);
    assert_eq!(world.places("w"), (Some(2), None, vec![0]));
    world.check();
    world.report(0, &Phase::Running, true);
    assert_eq!(world.places("w"), (Some(2), None, vec![]));
    assert_eq!(world.move_to("w", "f", &[2]).unwrap(), [], "it is there");
    world.check();
}

#[test]
fn a_function_that_begins_by_itself_begins_elsewhere_once_it_has_ended() {
    let mut world = World::new(3, Choice::RoundRobin);
    world.start("w", &[&["gpu"]]).unwrap();
    world.start("other", &[&[]]).unwrap();
    let (from, ..) = world.places("w");
    let to = 1 - from.unwrap();
    for node in 0..3 {
        world.report(node, &Phase::Running, true);
    }
    world.move_to("w", "f0", &[2, to as usize]).unwrap();
    assert_eq!(world.places("w"), (from, Some(to), vec![]), "node 2 has no gpu");
    assert_eq!(world.wanted(to as usize).values().filter(|prepares| **prepares).count(), 1);
    world.report(to as usize, &Phase::Running, true);
    assert_eq!(world.places("w"), (None, Some(to), vec![from.unwrap()]), "the one that is ready waits");
    world.report(from.unwrap() as usize, &Phase::Running, false);
    assert_eq!(world.places("w"), (None, Some(to), vec![from.unwrap()]));
    world.report(from.unwrap() as usize, &Phase::Running, true);
    assert_eq!(world.places("w"), (Some(to), None, vec![]));
    assert_eq!(world.wanted(to as usize).values().filter(|prepares| **prepares).count(), 0);
    world.check();
}

#[test]
fn a_function_stays_where_it_is_if_it_can_not_be_started_elsewhere() {
    let mut world = World::new(2, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    world.move_to("w", "f", &[1]).unwrap();
    world.report(1, &Phase::Failed("no python".into()), true);
    assert_eq!(world.places("w"), (Some(0), None, vec![1]));
    world.report(1, &Phase::Running, true);
    assert_eq!(world.places("w"), (Some(0), None, vec![]));
    // Nor where the other node falls silent meanwhile.
    world.move_to("w", "f", &[1]).unwrap();
    world.silent.insert(ChildKey(1), 0);
    world.look();
    assert_eq!(world.places("w"), (Some(0), None, vec![1]));
    world.check();
    let why = world.move_to("w", "f", &[1, 7]).map_err(refused).unwrap_err();
    assert_eq!(
        why,
        "f can't be moved: 00000000-0000-4000-8000-000000000001: it has said nothing for too long; 00000000-0000-4000-8000-000000000007 is not known"
    );
    let unknown = world.move_to("w", "g", &[1]).map_err(refused).unwrap_err();
    assert_eq!(unknown, "workflow w has no function g");
}

#[test]
fn of_two_one_survives_when_a_silent_node_returns() {
    let mut world = World::new(3, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    world.now.served_ms += 60_000;
    world.silent.insert(ChildKey(0), world.now.served_ms - 1_999);
    assert_eq!(world.look(), [], "it is silent, and not for long enough");
    world.now.served_ms += 1;
    world.look();
    assert_eq!(world.places("w"), (Some(1), None, vec![0]));
    world.report(1, &Phase::Running, true);
    world.report(0, &Phase::Running, true);
    assert_eq!(world.places("w"), (Some(1), None, vec![]));
    assert!(world.machines[0].runs.is_empty());
    world.check();
}

#[test]
fn where_no_other_node_may_run_it_a_function_stays_and_goes_on() {
    let mut world = World::new(2, Choice::RoundRobin);
    world.start("w", &[&["tier=edge"]]).unwrap();
    world.report(0, &Phase::Running, true);
    world.report(1, &Phase::Running, true);
    world.silent.insert(ChildKey(0), 0);
    let changes = world.look();
    // The resource alone.
    assert!(changes.iter().all(|change| change.part() == Some(PartKey(0))), "{changes:?}");
    world.report(0, &Phase::Running, true);
    world.report(1, &Phase::Running, true);
    assert_eq!((world.places("w"), world.look()), ((Some(0), None, vec![]), vec![]));
}

#[test]
fn nothing_moves_while_too_many_nodes_vanish_at_once() {
    let mut world = World::new(4, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    for node in 0..3 {
        world.silent.insert(ChildKey(node), world.now.served_ms);
    }
    for _ in 0..15 {
        world.now.served_ms += 2_000;
        assert_eq!(world.look(), []);
    }
    // They stay away, so it isn't the network.
    world.now.served_ms += 2_000;
    world.look();
    assert_eq!(world.places("w"), (Some(3), None, vec![0]));
}

#[test]
fn half_of_the_nodes_may_vanish_at_once() {
    let mut world = World::new(2, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    world.silent.insert(ChildKey(0), world.now.served_ms);
    world.now.served_ms += 2_000;
    world.look();
    assert_eq!(world.places("w"), (Some(1), None, vec![0]));
}

#[test]
fn a_drained_node_is_left_as_soon_as_another_one_runs_it() {
    let mut world = World::new(2, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    world.cordon(0, Cordon::Drained);
    world.look();
    assert_eq!(world.places("w"), (Some(0), Some(1), vec![]));
    assert_eq!(world.look(), []);
    world.report(1, &Phase::Running, true);
    world.report(0, &Phase::Running, true);
    assert_eq!(world.places("w"), (Some(1), None, vec![]));
    // There is no other one left.
    world.cordon(1, Cordon::Drained);
    assert_eq!(world.look(), []);
}

#[test]
fn what_a_node_does_not_start_is_tried_elsewhere_less_and_less_often() {
    let mut world = World::new(2, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Failed("no".into()), true);
    let changes = world.look();
    assert!(matches!(changes[0], Change::Left { why: LeftWhy::Failed, .. }), "{changes:?}");
    assert_eq!(world.places("w"), (Some(1), None, vec![0]));
    world.report(0, &Phase::Running, true);
    // It is accepted, and never started.
    let mut waited = 0;
    while world.look().is_empty() {
        world.now.served_ms += 1_000;
        waited += 1;
    }
    assert_eq!((world.places("w"), waited), ((Some(0), None, vec![1]), 30));
    world.report(1, &Phase::Running, true);
    let mut tries = Vec::new();
    for _ in 0..12 {
        let (node, ..) = world.places("w");
        world.report(node.unwrap() as usize, &Phase::Failed("no".into()), true);
        let mut waited = 0;
        while world.look().is_empty() {
            world.now.served_ms += 1_000;
            waited += 1;
        }
        tries.push(waited);
        world.report(node.unwrap() as usize, &Phase::Running, true);
    }
    assert_eq!(tries, [8, 16, 32, 64, 128, 256, 300, 300, 300, 300, 300, 300]);
}

/// Two managers may have placed something on one node, which tells the instances of both apart.
#[test]
fn instances_of_two_managers_have_ids_of_their_own() {
    let id_at = |secret: u8| {
        let mut world = World::new(1, Choice::RoundRobin);
        world.secret = Secret([secret; 32]);
        world.start_called("w");
        world.wanted(0).into_keys().next().unwrap()
    };
    assert_ne!(id_at(1), id_at(2));
    assert_eq!(id_at(1), id_at(1));
}

/// Its nodes are known again once they have called it.
#[test]
fn nothing_leaves_a_manager_that_has_just_been_started_again() {
    let mut world = World::new(2, Choice::RoundRobin);
    let has_nodes = || {
        let (runtimes, node) = (Some(vec!["python".to_owned()]), Some(Box::default()));
        Capabilities { runtimes, node, ..Capabilities::default() }
    };
    world.poll(0, ChildKind::Rm, has_nodes());
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    world.poll(0, ChildKind::Rm, Capabilities::default());
    assert_eq!((world.look(), world.places("w")), (vec![], (Some(0), None, vec![])));
    // Nothing new comes there.
    world.start_called("other");
    assert_eq!(world.places("other").0, Some(1));
    world.poll(0, ChildKind::Rm, has_nodes());
    world.report(0, &Phase::Running, true);
    assert_eq!(world.look(), []);
    // It does say so when it is silent.
    world.now.served_ms += 60_000;
    world.silent.insert(ChildKey(0), world.now.served_ms - 2_000);
    world.report(1, &Phase::Running, true);
    world.look();
    assert_eq!(world.places("w"), (Some(1), None, vec![0]));
    // An agent that offers nothing any more is left.
    world.poll(1, ChildKind::Agent, Capabilities::default());
    world.silent.clear();
    world.look();
    assert_eq!(world.places("w").0, Some(0));
}

#[test]
fn what_has_run_and_is_begun_once_more_has_as_long_for_that_as_a_new_one() {
    let mut world = World::new(2, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    world.now.served_ms += 3_600_000;
    world.report(0, &Phase::Starting, true);
    assert_eq!(world.look(), []);
    world.report(0, &Phase::Running, true);
    world.now.served_ms += 3_600_000;
    world.report(0, &Phase::Placed, true);
    world.now.served_ms += 29_000;
    assert_eq!((world.look(), world.places("w").0), (vec![], Some(0)));
    world.now.served_ms += 1_000;
    world.look();
    assert_eq!(world.places("w").0, Some(1));
}

/// Two nodes that can't run it would have the fewest functions by turns.
#[test]
fn what_fails_is_tried_on_each_node_whatever_the_strategy() {
    for choice in [Choice::Random, Choice::RoundRobin, Choice::Spread, Choice::Nearest] {
        let mut world = World::new(4, choice);
        world.start_called("w");
        let mut tried = BTreeSet::new();
        for _ in 0..4 {
            let node = world.places("w").0.unwrap();
            tried.insert(node);
            world.report(node as usize, &Phase::Failed("no".into()), true);
            while world.look().is_empty() {
                world.now.served_ms += 1_000;
            }
            world.report(node as usize, &Phase::Running, true);
        }
        assert_eq!(tried.len(), 4, "{choice:?}: {tried:?}");
    }
}

#[test]
fn what_begins_by_itself_and_failed_is_not_begun_elsewhere_before_its_node_has_ended_it() {
    let mut world = World::new(2, Choice::RoundRobin);
    world.start("w", &[&[]]).unwrap();
    let from = world.places("w").0.unwrap();
    let to = 1 - from;
    // It had begun, and its node may have something of it still.
    world.report(from as usize, &Phase::Failed("it ended".into()), true);
    world.look();
    assert_eq!(world.places("w"), (None, Some(to), vec![from]));
    world.report(to as usize, &Phase::Running, true);
    assert_eq!(world.places("w"), (None, Some(to), vec![from]));
    world.report(from as usize, &Phase::Running, true);
    assert_eq!(world.places("w"), (Some(to), None, vec![]));
    world.check();
    // Nobody waits for a node that says nothing.
    world.now.served_ms += 60_000;
    world.silent.insert(ChildKey(to), world.now.served_ms - 2_000);
    world.report(from as usize, &Phase::Running, true);
    world.look();
    assert_eq!(world.places("w"), (Some(from), None, vec![to]));
}

/// It is told where to hand over what it has put out, once it is there again.
#[test]
fn a_silent_node_is_remembered_for_as_long_as_a_workflow_runs_of_which_it_has_something() {
    let mut world = World::new(2, Choice::RoundRobin);
    world.start_called("w");
    world.report(0, &Phase::Running, true);
    world.silent.insert(ChildKey(0), world.now.served_ms);
    for _ in 0..3 {
        world.now.served_ms += 24 * 3_600_000;
        world.report(1, &Phase::Running, true);
        world.look();
        assert_eq!(world.places("w"), (Some(1), None, vec![0]));
    }
    world.command(Command::Stop { id: "w".to_owned() }).unwrap();
    world.report(1, &Phase::Running, true);
    world.look();
    assert!(world.state.workflows.is_empty());
    world.check();
}

#[derive(Debug, Clone)]
enum Step {
    Start(Vec<Vec<&'static str>>),
    Stop(usize),
    Report { node: usize, phase: Phase, ends: bool },
    Look,
    Cordon(usize, Cordon),
    Silence(usize, bool),
    Forget(usize),
    Move { workflow: usize, function: usize, to: usize },
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let labels = subsequence(LABELS.to_vec(), 0..=2);
    let phase = prop_oneof![
        1 => Just(Phase::Placed),
        1 => Just(Phase::Starting),
        4 => Just(Phase::Running),
        1 => Just(Phase::Failed("no".into())),
    ];
    let step = prop_oneof![
        3 => vec(labels, 1..4).prop_map(Step::Start),
        2 => (0_usize..6).prop_map(Step::Stop),
        6 => (0_usize..4, phase, any::<bool>()).prop_map(|(node, phase, ends)| Step::Report { node, phase, ends }),
        3 => Just(Step::Look),
        2 => (0_usize..4, prop_oneof![Just(Cordon::Open), Just(Cordon::Cordoned), Just(Cordon::Drained)])
            .prop_map(|(node, cordon)| Step::Cordon(node, cordon)),
        3 => (0_usize..6, 0_usize..3, 0_usize..4)
            .prop_map(|(workflow, function, to)| Step::Move { workflow, function, to }),
        2 => prop_oneof![Just(1_000), Just(3_000), Just(40_000), Just(700_000)].prop_map(Step::Pass),
        2 => (0_usize..4, any::<bool>()).prop_map(|(node, is)| Step::Silence(node, is)),
        1 => (0_usize..4).prop_map(Step::Forget),
    ];
    vec(step, 1..40)
}

proptest! {
    #[test]
    fn whatever_happens_the_invariants_hold_and_all_ends(
        all in steps(),
        choice in prop_oneof![Just(Choice::Random), Just(Choice::RoundRobin), Just(Choice::Spread), Just(Choice::Nearest)],
    ) {
        let mut world = World::new(4, choice);
        let mut started = 0;
        for step in all {
            match step {
                Step::Start(labels) => {
                    let labels: Vec<&[&str]> = labels.iter().map(Vec::as_slice).collect();
                    world.start(&format!("w{started}"), &labels).unwrap();
                    started += 1;
                }
                Step::Stop(number) => drop(world.command(Command::Stop { id: format!("w{number}") })),
                Step::Report { node, phase, ends } => {
                    if world.is_here(node) {
                        world.report(node, &phase, ends);
                    }
                }
                Step::Look => drop(world.look()),
                Step::Cordon(node, cordon) => world.cordon(node, cordon),
                Step::Silence(node, is_silent) => {
                    let node = ChildKey(node as u32);
                    // Noticed at once, or only after a while: those of before the keep-alive are here still.
                    let since = world.now.served_ms - world.chance % 2 * 2_500;
                    if is_silent { world.silent.insert(node, since); } else { world.silent.remove(&node); }
                }
                Step::Move { workflow, function, to } => {
                    let (id, part) = (format!("w{workflow}"), format!("f{function}"));
                    drop(world.command(Command::Move { id, part, nodes: vec![self::id(to)] }));
                }
                Step::Pass(ms) => world.now.served_ms += ms,
                Step::Forget(node) => {
                    let forget = children::Command::Forget { child: id(node), even_if_it_owes: true };
                    let _ = world.any(&AnyCommand::Children(forget));
                }
            }
            world.check();
        }
        // Once things are quiet, each function runs once where it is to, and nothing else runs.
        let here: Vec<usize> = (0..4).filter(|node| world.is_here(*node)).collect();
        for node in &here {
            world.cordon(*node, Cordon::Open);
        }
        for _ in 0..8 {
            for node in &here {
                world.report(*node, &Phase::Running, true);
            }
            world.now.served_ms += 400_000;
            world.look();
            world.check();
        }
        for node in &here {
            world.report(*node, &Phase::Running, true);
        }
        prop_assert_eq!(world.look(), []);
        for workflow in world.state.workflows.iter() {
            prop_assert!(!workflow.is_stopping);
            for (key, ..) in workflow.parts() {
                let part = world.state.workflows.part(key).unwrap();
                prop_assert!(part.next.is_none() && part.leaving.is_empty(), "{:?}", part);
                prop_assert!(part.instance.as_ref().is_none_or(|one| one.phase == Phase::Running));
            }
        }
        for node in &here {
            let wanted = world.wanted(*node);
            prop_assert!(world.machines[*node].runs.keys().eq(wanted.keys()));
        }
        // All is stopped, and gone when its nodes have said so.
        for number in 0..started {
            let _ = world.command(Command::Stop { id: format!("w{number}") });
        }
        for node in &here {
            world.report(*node, &Phase::Running, true);
        }
        world.look();
        world.check();
        prop_assert!(world.state.workflows.is_empty());
    }
}
