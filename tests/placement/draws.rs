//! Which of several nodes is chosen.

use placement::{Areas, Lies, Node, NodeState, Placed, Placer, Position, Requirements, Strategy};

use crate::{NoAreas, id, node, read};

fn nodes(mhz: &[u32]) -> Vec<Node> {
    mhz.iter().enumerate().map(|(at, mhz)| Node { cpus: 2, cores: 4, mhz: *mhz, ..node(at) }).collect()
}

fn chosen(placer: &mut Placer<'_>, asked: &Requirements, draw: f64) -> usize {
    match placer.place(asked, &[], draw) {
        Placed::At(node) => node,
        Placed::Nowhere => panic!("it comes nowhere"),
    }
}

/// Draws that are spread evenly meet each node by its weight, but for one of each.
#[test]
fn a_million_draws_agree_with_the_weights() {
    const DRAWS: u32 = 1_000_000;
    let all = nodes(&[1_000, 3_000, 500, 0, 1, u32::MAX / 1_000]);
    let asked = read(&[]).unwrap();
    let mut placer = Placer::new(&all, &NoAreas, Strategy::Random, None);
    let mut counts = vec![0_u32; all.len()];
    for draw in 0..DRAWS {
        if draw % 5_000 == 0 {
            // As many as one node may have.
            placer = Placer::new(&all, &NoAreas, Strategy::Random, None);
        }
        counts[chosen(&mut placer, &asked, (f64::from(draw) + 0.5) / f64::from(DRAWS))] += 1;
    }
    let sum: f64 = all.iter().map(Node::weight).sum();
    for (count, node) in counts.iter().zip(&all) {
        let expected = f64::from(DRAWS) * node.weight() / sum;
        assert!((f64::from(*count) - expected).abs() <= 1.0, "{count} of {expected}: {node:?}");
    }
}

#[test]
fn who_advertises_nothing_weighs_1_for_it() {
    let weighs = |[cpus, cores, mhz]: [u32; 3], weight: f64| {
        let node = Node { cpus, cores, mhz, ..Node::default() };
        assert!((node.weight() - weight).abs() < 1e-9, "{node:?}");
    };
    weighs([0, 0, 0], 1.0);
    weighs([2, 4, 1_500], 12_000.0);
    weighs([0, 0, 1_500], 1_500.0);
    assert!(Node { cpus: u32::MAX, cores: u32::MAX, mhz: u32::MAX, ..Node::default() }.weight().is_finite());
}

#[test]
fn round_robin_takes_the_next_one_that_may_and_goes_on_where_it_was() {
    let mut all = nodes(&[1; 5]);
    for at in [1, 3] {
        all[at].labels = ["gpu".to_owned()].into();
    }
    let (any, gpu) = (read(&[]).unwrap(), read(&[("label_match_all", "gpu")]).unwrap());
    let mut placer = Placer::new(&all, &NoAreas, Strategy::RoundRobin, None);
    let taken: Vec<usize> = [&any, &any, &gpu, &any, &gpu, &any, &any, &any, &any]
        .map(|asked| chosen(&mut placer, asked, 0.0))
        .into();
    assert_eq!(taken, [0, 1, 3, 4, 1, 2, 3, 4, 0]);
    let mut other = Placer::new(&all, &NoAreas, Strategy::RoundRobin, placer.last());
    assert_eq!(chosen(&mut other, &gpu, 0.9), 1);
}

#[test]
fn spread_takes_who_has_the_fewest_also_of_those_that_run_already() {
    let all = nodes(&[1; 3]);
    let asked = read(&[]).unwrap();
    let mut placer = Placer::new(&all, &NoAreas, Strategy::Spread, None);
    for _ in 0..2 {
        placer.note(0, &asked);
    }
    let taken: Vec<usize> = (0..5).map(|_| chosen(&mut placer, &asked, 0.0)).collect();
    assert_eq!(taken, [1, 2, 1, 2, 0]);
}

#[test]
fn nearest_takes_who_is_next_to_what_events_are_exchanged_with() {
    let mut all = nodes(&[1; 5]);
    let at = |east, north| Some(Position { east, north });
    // The second and the third are neighbours across the antimeridian; nobody knows where the last is.
    [at(0.0, 50.0), at(179.0, 50.0), at(-179.0, 50.0), at(90.0, 50.0)]
        .into_iter()
        .zip(&mut all)
        .for_each(|(at, node)| node.at = at);
    let asked = read(&[("node_id_match_any", &[id(0), id(2), id(3), id(4)].join(","))]).unwrap();
    let mut placer = Placer::new(&all, &NoAreas, Strategy::Nearest, None);
    assert_eq!(placer.place(&asked, &[1], 0.0), Placed::At(2));
    assert_eq!(placer.place(&asked, &[0, 3], 0.9), Placed::At(0));
    // Without a place to be near to, who has the fewest functions.
    assert_eq!(placer.place(&asked, &[4], 0.0), Placed::At(3));
    assert_eq!(placer.place(&asked, &[], 0.0), Placed::At(4));
}

/// Of nodes that have an area each, those in even places lie inside.
#[derive(Debug)]
struct EvenOnes(usize);

impl Areas for EvenOnes {
    fn lie(&self, _: &str) -> Vec<Lies> {
        (0..self.0).map(|at| if at % 2 == 0 { Lies::Inside } else { Lies::Outside }).collect()
    }
}

#[test]
fn only_nodes_in_the_area_are_chosen() {
    let all = nodes(&[1; 4]);
    let square = r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}"#;
    let asked = read(&[("area", square)]).unwrap();
    let areas = EvenOnes(all.len());
    let mut placer = Placer::new(&all, &areas, Strategy::RoundRobin, None);
    let taken: Vec<usize> = (0..3).map(|_| chosen(&mut placer, &asked, 0.0)).collect();
    assert_eq!(taken, [0, 2, 0]);
    let why: Vec<String> = placer.why_not(&asked).iter().map(|(at, why)| format!("{at} {why}")).collect();
    assert_eq!(why, ["1 it is outside of the area", "3 it is outside of the area"]);
}

#[test]
fn a_provider_of_a_resource_is_as_likely_as_another() {
    let mut all = nodes(&[1, 1_000, 1_000_000, 1]);
    for at in [0, 2, 3] {
        all[at].resources.insert("file-log".to_owned());
    }
    let asked = read(&[("resource_match_all", "file-log")]).unwrap();
    let mut placer = Placer::new(&all, &NoAreas, Strategy::Random, None);
    let mut counts = [0; 4];
    for draw in 0..300 {
        counts[placer.place_resource(&asked, f64::from(draw) / 300.0).node().unwrap()] += 1;
    }
    assert_eq!(counts, [100, 0, 100, 100]);
}

/// Who has no memory left hands its part of the draws to all others alike.
#[test]
fn draws_stay_even_when_a_node_is_full() {
    let mut all = nodes(&[1, 1, 1]);
    all[0].memory_mib = Some(1);
    all[1].memory_mib = Some(u64::MAX);
    all[2].memory_mib = Some(u64::MAX);
    let asked = read(&[("memory_mib", "2")]).unwrap();
    let mut placer = Placer::new(&all, &NoAreas, Strategy::Random, None);
    let mut counts = [0_i32; 3];
    for draw in 0..6_000 {
        counts[chosen(&mut placer, &asked, (f64::from(draw) + 0.5) / 6_000.0)] += 1;
    }
    assert_eq!(counts[0], 0);
    assert!((counts[1] - counts[2]).abs() <= 2, "{counts:?}");
}

#[test]
fn a_resource_has_the_memory_that_it_asks_for() {
    let mut all = nodes(&[1, 1]);
    all[0].memory_mib = Some(100);
    let asked = read(&[("memory_mib", "60")]).unwrap();
    let mut placer = Placer::new(&all, &NoAreas, Strategy::Random, None);
    assert_eq!(placer.place_resource(&asked, 0.9), Placed::At(0));
    assert_eq!(placer.place_resource(&asked, 0.9), Placed::Nowhere);
    assert_eq!(placer.place(&asked, &[], 0.9), Placed::Nowhere);
}

#[test]
fn after_a_failure_the_next_node_is_taken_that_may_and_never_the_same() {
    let mut all = nodes(&[1; 4]);
    all[3].state = NodeState::Cordoned;
    let asked = read(&[]).unwrap();
    let mut placer = Placer::new(&all, &NoAreas, Strategy::Spread, None);
    let mut last = 1;
    let taken = [(); 4].map(|()| {
        last = placer.place_after(&asked, last).node().unwrap();
        last
    });
    assert_eq!(taken, [2, 0, 1, 2]);
    let alone = nodes(&[1]);
    let mut placer = Placer::new(&alone, &NoAreas, Strategy::Spread, None);
    assert_eq!(placer.place_after(&asked, 0), Placed::Nowhere);
}

/// A node is told all of its functions in one answer, which has to have an end.
#[test]
fn a_node_has_at_most_5000_functions() {
    let all = nodes(&[1_000_000, 1]);
    let asked = read(&[]).unwrap();
    let mut placer = Placer::new(&all, &NoAreas, Strategy::Random, None);
    for _ in 0..10_000 {
        placer.place(&asked, &[], 0.0).node().unwrap();
    }
    assert_eq!(placer.place(&asked, &[], 0.5), Placed::Nowhere);
    assert_eq!(placer.place_after(&asked, 0), Placed::Nowhere);
    let why: Vec<String> = placer.why_not(&asked).iter().map(|(at, why)| format!("{at} {why}")).collect();
    let full = "it has as many functions as a node may have";
    assert_eq!(why, [format!("0 {full}"), format!("1 {full}")]);
}

/// Whether one of its nodes may run something only that manager knows.
#[test]
fn a_manager_that_does_not_say_what_its_nodes_have_is_asked() {
    let asked = read(&[("label_match_all", "gpu")]).unwrap();
    let mut all = nodes(&[1]);
    all[0].runtimes.clear();
    let placed = |all: &[Node]| Placer::new(all, &NoAreas, Strategy::Spread, None).place(&asked, &[], 0.0);
    assert_eq!(placed(&all), Placed::Nowhere);
    all[0].may_have_any_runtime = true;
    assert_eq!(placed(&all), Placed::Nowhere);
    all[0].may_have_any_label = true;
    assert_eq!(placed(&all), Placed::At(0));
}
