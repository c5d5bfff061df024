//! What is asked of nodes is read or refused, and only nodes that meet it are chosen.

use placement::{Node, NodeState, Placed, Placer, Requirements, Strategy as Choice};
use proptest::{collection::vec, prelude::*, sample::subsequence};

use crate::{NoAreas, id, node, read};

const LABELS: [&str; 3] = ["zone=a", "gpu", "env=prod"];

#[test]
fn what_can_not_be_read_is_refused_by_its_name_and_never_widened() {
    let (first, second) = (id(1), id(2));
    let both = format!(" {} ,{second}", first.to_uppercase());
    let asked = read(&[
        ("node_id_match_any", &both),
        ("label_match_all", "zone=a,gpu"),
        ("tee", "Required"),
        ("tpm", "not-required"),
        ("max_instances", "3"),
        ("memory_mib", "64"),
        ("colour", "of somebody else"),
    ])
    .unwrap();
    assert_eq!(asked.nodes, [first, second].into());
    assert_eq!(asked.labels, ["gpu".to_owned(), "zone=a".to_owned()].into());
    assert_eq!((asked.tee, asked.tpm, asked.memory_mib), (true, false, 64));

    let mistyped = format!("{},{}", id(1), "0000-1");
    let refused = [
        ("node_id_match_any", "anywhere"),
        ("node_id_match_any", &mistyped),
        ("node_id_match_any", ""),
        ("label_match_all", ""),
        ("label_match_all", "a,,b"),
        ("resource_match_all", " , "),
        ("tee", "yes"),
        ("tpm", ""),
        ("max_instances", "0"),
        ("max_instances", "-1"),
        ("max_instances", "NaN"),
        ("memory_mib", "1e3"),
    ]
    .map(|(name, value)| read(&[(name, value)]).unwrap_err());
    insta::assert_snapshot!(refused.join("\n"), @r#"
    node_id_match_any: "anywhere" is not one or more ids of nodes, as UUIDs with commas between them
    node_id_match_any: "00000000-0000-4000-8000-000000000001,0000-1" is not one or more ids of nodes, as UUIDs with commas between them
    node_id_match_any: "" is not one or more ids of nodes, as UUIDs with commas between them
    label_match_all: "" is not one or more labels with commas between them
    label_match_all: "a,,b" is not one or more labels with commas between them
    resource_match_all: " , " is not one or more classes with commas between them
    tee: "yes" is not required or not-required
    tpm: "" is not required or not-required
    max_instances: "0" is not a whole number from 1
    max_instances: "-1" is not a whole number from 1
    max_instances: "NaN" is not a whole number from 1
    memory_mib: "1e3" is not a whole number of MiB
    "#);
}

#[test]
fn each_node_that_may_not_says_why() {
    let mut nodes: Vec<Node> = (0..9).map(node).collect();
    for one in &mut nodes {
        (one.labels, one.resources) = (["gpu".to_owned()].into(), ["file-log".to_owned()].into());
        (one.is_tee, one.has_tpm, one.memory_mib) = (true, true, Some(100));
    }
    nodes[0].state = NodeState::Silent;
    nodes[1].state = NodeState::Cordoned;
    nodes[2].runtimes.clear();
    nodes[3].labels.clear();
    nodes[4].resources.clear();
    nodes[5].is_tee = false;
    nodes[6].has_tpm = false;
    nodes[7].memory_mib = None;
    nodes.push(node(9));
    let named: Vec<String> = (0..9).map(id).collect();
    let asked = read(&[
        ("node_id_match_any", &named.join(",")),
        ("label_match_all", "gpu"),
        ("resource_match_all", "file-log"),
        ("tee", "required"),
        ("tpm", "required"),
        ("memory_mib", "60"),
    ])
    .unwrap();
    let mut placer = Placer::new(&nodes, &NoAreas, Choice::Random, None);
    assert_eq!(
        (placer.place(&asked, &[], 0.5), placer.place(&asked, &[], 0.5)),
        (Placed::At(8), Placed::Nowhere)
    );
    let why: Vec<String> =
        placer.why_not(&asked).iter().map(|(at, why)| format!("{}: {why}", &nodes[*at].id[30..])).collect();
    insta::assert_snapshot!(why.join("\n"), @r#"
    000000: it has said nothing for too long
    000001: it is cordoned
    000002: it runs no process
    000003: it has no label gpu
    000004: it provides no resource file-log
    000005: it runs in no trusted execution environment
    000006: it has no trusted platform module
    000007: it doesn't say how much memory it has
    000008: it has less than 60 MiB left
    000009: node_id_match_any doesn't name it
    "#);
}

fn any_node() -> impl Strategy<Value = Node> {
    let state = prop_oneof![4 => Just(NodeState::Ready), 1 => Just(NodeState::Cordoned), 1 => Just(NodeState::Silent)];
    let labels = subsequence(LABELS.to_vec(), 0..=3);
    (state, labels, any::<bool>(), any::<bool>(), proptest::option::of(0_u64..300), any::<u32>()).prop_map(
        |(state, labels, is_tee, runs, memory_mib, mhz)| Node {
            state,
            labels: labels.into_iter().map(str::to_owned).collect(),
            is_tee,
            runtimes: runs.then(|| "process".to_owned()).into_iter().collect(),
            memory_mib,
            mhz,
            ..Node::default()
        },
    )
}

fn any_asked() -> impl Strategy<Value = Requirements> {
    (
        subsequence(LABELS.to_vec(), 0..=2),
        any::<bool>(),
        prop_oneof![Just(0), 1_u64..200],
        vec(0_usize..12, 0..3),
    )
        .prop_map(|(labels, tee, memory_mib, nodes)| Requirements {
            runtime: Some("process".to_owned()),
            nodes: nodes.into_iter().map(id).collect(),
            labels: labels.into_iter().map(str::to_owned).collect(),
            tee,
            memory_mib,
            ..Requirements::default()
        })
}

fn any_choice() -> impl Strategy<Value = Choice> {
    prop_oneof![Just(Choice::Random), Just(Choice::RoundRobin), Just(Choice::Spread), Just(Choice::Nearest)]
}

/// Slow and obvious.
fn may(node: &Node, left: Option<u64>, asked: &Requirements) -> bool {
    node.state == NodeState::Ready
        && asked.runtime.as_ref().is_some_and(|runtime| node.runtimes.contains(runtime))
        && (asked.nodes.is_empty() || asked.nodes.contains(&*node.id))
        && asked.labels.iter().all(|label| node.labels.contains(label))
        && asked.resources.iter().all(|class| node.resources.contains(class))
        && (!asked.tee || node.is_tee)
        && (!asked.tpm || node.has_tpm)
        && (asked.memory_mib == 0 || left.is_some_and(|left| left >= asked.memory_mib))
}

proptest! {
    #[test]
    fn a_function_comes_to_a_node_that_may_wherever_there_is_one(
        nodes in vec(any_node(), 0..12),
        functions in vec((any_asked(), 0.0_f64..1.0), 1..30),
        choice in any_choice(),
    ) {
        let mut nodes = nodes;
        nodes.iter_mut().enumerate().for_each(|(at, node)| node.id = id(at).into());
        let mut placer = Placer::new(&nodes, &NoAreas, choice, None);
        let mut again = Placer::new(&nodes, &NoAreas, choice, None);
        let mut taken = vec![0; nodes.len()];
        for (asked, draw) in &functions {
            let left = |at: usize, taken: &[u64]| nodes[at].memory_mib.map(|has| has.saturating_sub(taken[at]));
            let all: Vec<usize> =
                (0..nodes.len()).filter(|at| may(&nodes[*at], left(*at, &taken), asked)).collect();
            let not: usize = placer.why_not(asked).len();
            prop_assert_eq!(not, nodes.len() - all.len());
            let placed = placer.place(asked, &[], *draw);
            match placed {
                Placed::At(node) => {
                    prop_assert!(all.contains(&node), "{node} of {all:?}");
                    taken[node] += asked.memory_mib;
                }
                Placed::Nowhere => prop_assert_eq!(&all, &Vec::<usize>::new()),
            }
            prop_assert_eq!(again.place(asked, &[], *draw), placed);
        }
    }
}
