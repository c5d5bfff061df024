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
    workflows::{Change, Command, NewWorkflow, PartKey, Phase, Told},
};
use model::{Capabilities, ChildId, ChildKey, ChildKind, Cordon, NodeCapabilities, Now};
use placement::{FunctionTypes, Strategy as Choice};
use proptest::{collection::vec, prelude::*, sample::subsequence};
use serde_json::json;

const LABELS: [&str; 2] = ["gpu", "tier=edge"];

/// Everybody called just now, but for those who are silent.
struct Seen {
    silent: BTreeSet<ChildKey>,
    now: Now,
}

impl LastSeen for Seen {
    fn last_call(&self, child: ChildKey) -> Option<u64> {
        Some(if self.silent.contains(&child) { 0 } else { self.now.served_ms })
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
    silent: BTreeSet<ChildKey>,
    machines: Vec<Machine>,
    chance: u64,
}

fn id(node: usize) -> String {
    format!("00000000-0000-4000-8000-{node:012x}")
}

impl World {
    fn new(nodes: usize, choice: Choice) -> Self {
        let settings = || Settings { placement: choice, ..Settings::default() };
        let mut world = Self {
            state: State::new(settings()),
            replayed: State::new(settings()),
            now: Now { wall_ms: 1_700_000_000_000, served_ms: 1_000_000 },
            silent: BTreeSet::new(),
            machines: vec![Machine::default(); nodes],
            chance: 0,
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
            world.poll(node, capabilities);
        }
        world
    }

    fn poll(&mut self, node: usize, capabilities: Capabilities) {
        let poll = Poll {
            child: Some(ChildId::parse(&id(node)).unwrap()),
            fresh: ChildId::parse("fresh").unwrap(),
            area: None,
            address: None,
            agents: 1,
            profile: Some(Profile { name: None, kind: ChildKind::Agent, capabilities }),
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
            if let Change::Placed { part, instance } = change {
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
        assert!(!self.silent.contains(&node), "nothing comes to a node that is silent");
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
        let (definition, _) =
            placement::Workflow::read(text.to_string().as_bytes(), &FunctionTypes::default()).unwrap();
        self.chance += 1;
        let logical = (0..=labels.len()).map(|part| format!("{name}-{part}").into()).collect();
        let new = NewWorkflow {
            id: name.to_owned(),
            definition: Arc::new(definition),
            text: text.to_string().into(),
            types: Arc::default(),
            archive: None,
            logical,
            by: "ann".to_owned(),
        };
        self.command(Command::Start { new: Box::new(new), chance: self.chance })
    }

    fn look(&mut self) -> Vec<Change> {
        self.chance += 1;
        self.command(Command::Look { chance: self.chance }).unwrap()
    }

    /// What a node is to run.
    fn wanted(&self, node: usize) -> BTreeSet<Box<str>> {
        let node = ChildKey(node as u32);
        let own = self.state.workflows.on_node(node).filter_map(|(_, part)| part.instance.as_ref());
        own.filter(|instance| instance.node == node).map(|instance| instance.id.clone()).collect()
    }

    /// A node hears what it is to run, does some of it, and says what runs.
    fn report(&mut self, node: usize, phase: &Phase, ends: bool) -> Vec<Change> {
        let wanted = self.wanted(node);
        let machine = &mut self.machines[node];
        if ends {
            machine.runs.retain(|id, _| wanted.contains(id));
        }
        for id in wanted {
            machine.runs.insert(id, phase.clone());
        }
        let told: Vec<Told> =
            machine.runs.iter().map(|(id, phase)| Told { id: id.clone(), phase: phase.clone() }).collect();
        let report = Command::Report { child: id(node), told };
        let changes = self.command(report.clone()).unwrap();
        assert_eq!(self.command(report).unwrap(), [], "the same report changes nothing");
        changes
    }

    fn check(&self) {
        let (all, other) = (&self.state.workflows, &self.replayed.workflows);
        let mut waiting = 0;
        let mut ids = BTreeSet::new();
        for workflow in all.iter() {
            let mut held = 0;
            for (key, _, requirements) in workflow.parts() {
                let part = all.part(key).unwrap();
                assert_eq!(Some(part), other.part(key));
                assert_eq!(Some(requirements), workflow.requirements(key));
                waiting += usize::from(part.instance.is_none() && !workflow.is_stopping);
                assert!(part.instance.is_none() || !workflow.is_stopping);
                for instance in part.instance.iter().chain(&part.leaving) {
                    held += 1;
                    assert!(ids.insert(instance.id.clone()), "{} is there twice", instance.id);
                    assert!(all.on_node(instance.node).any(|(on, _)| on == key));
                }
            }
            assert!(held > 0 || !workflow.is_stopping, "what stops and runs nowhere is gone");
        }
        for node in all.nodes() {
            for (key, part) in all.on_node(node) {
                let here = part.instance.iter().chain(&part.leaving).any(|instance| instance.node == node);
                assert!(here, "{key:?} has nothing on {node:?}");
            }
        }
        assert_eq!((all.waiting(), all.len()), (waiting, other.len()));
    }

    fn cordon(&mut self, node: usize, is_cordoned: bool) {
        let cordon = if is_cordoned { Cordon::Cordoned } else { Cordon::Open };
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
    world.cordon(0, true);
    let changes = world.start("w", &[&["tier=edge"], &[]]).unwrap();
    assert_eq!(changes.iter().filter(|change| matches!(change, Change::Placed { .. })).count(), 2);
    assert_eq!((world.state.workflows.waiting(), world.look()), (1, vec![]));
    world.cordon(0, false);
    world.silent.insert(ChildKey(0));
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

#[derive(Debug, Clone)]
enum Step {
    Start(Vec<Vec<&'static str>>),
    Stop(usize),
    Report { node: usize, phase: Phase, ends: bool },
    Look,
    Cordon(usize, bool),
    Silence(usize, bool),
    Forget(usize),
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
        2 => (0_usize..4, any::<bool>()).prop_map(|(node, is)| Step::Cordon(node, is)),
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
                    if world.state.children.get(ChildKey(node as u32)).is_some() {
                        world.report(node, &phase, ends);
                    }
                }
                Step::Look => drop(world.look()),
                Step::Cordon(node, is_cordoned) => world.cordon(node, is_cordoned),
                Step::Silence(node, is_silent) => {
                    let node = ChildKey(node as u32);
                    if is_silent { world.silent.insert(node); } else { world.silent.remove(&node); }
                }
                Step::Forget(node) => {
                    let forget = children::Command::Forget { child: id(node), even_if_it_owes: true };
                    let _ = world.any(&AnyCommand::Children(forget));
                }
            }
            world.check();
        }
        // Once things are quiet: all is stopped, and gone when its nodes have said so.
        for number in 0..started {
            let _ = world.command(Command::Stop { id: format!("w{number}") });
        }
        for node in 0..4 {
            if world.state.children.get(ChildKey(node as u32)).is_some() {
                world.report(node, &Phase::Running, true);
            }
        }
        world.look();
        world.check();
        prop_assert!(world.state.workflows.is_empty());
    }
}
