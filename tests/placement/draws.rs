//! Which of several nodes is chosen.

use placement::{Node, Placed, Placer, Requirements, Strategy};

use crate::{node, read};

fn nodes(mhz: &[f64]) -> Vec<Node> {
    mhz.iter().enumerate().map(|(at, mhz)| Node { cpus: 2.0, cores: 4.0, mhz: *mhz, ..node(at) }).collect()
}

fn chosen(placer: &mut Placer<'_>, asked: &Requirements, draw: f64) -> usize {
    match placer.place(asked, draw) {
        Placed::At(node) => node,
        Placed::Nowhere => panic!("it comes nowhere"),
    }
}

/// Draws that are spread evenly meet each node by its weight, but for one of each.
#[test]
fn a_million_draws_agree_with_the_weights() {
    const DRAWS: u32 = 1_000_000;
    let all = nodes(&[1_000.0, 3_000.0, 500.0, 0.0, f64::NAN, f64::INFINITY, -7.0]);
    let asked = read(&[]).unwrap();
    let mut placer = Placer::new(&all, Strategy::Random, None);
    let mut counts = vec![0_u32; all.len()];
    for draw in 0..DRAWS {
        counts[chosen(&mut placer, &asked, (f64::from(draw) + 0.5) / f64::from(DRAWS))] += 1;
    }
    let sum: f64 = all.iter().map(Node::weight).sum();
    for (count, node) in counts.iter().zip(&all) {
        let expected = f64::from(DRAWS) * node.weight() / sum;
        assert!((f64::from(*count) - expected).abs() <= 1.0, "{count} of {expected}: {node:?}");
    }
}

#[test]
fn who_advertises_nothing_that_is_a_number_weighs_1_for_it() {
    let weighs = |[cpus, cores, mhz]: [f64; 3], weight: f64| {
        let node = Node { cpus, cores, mhz, ..Node::default() };
        assert!((node.weight() - weight).abs() < 1e-9, "{node:?}");
    };
    weighs([0.0, 0.0, 0.0], 1.0);
    weighs([2.0, 4.0, 1_500.0], 12_000.0);
    weighs([f64::NAN, -1.0, 1_500.0], 1_500.0);
    // The product has no end.
    weighs([f64::MAX, f64::MAX, 1.0], 1.0);
}

#[test]
fn round_robin_takes_the_next_one_that_may_and_goes_on_where_it_was() {
    let mut all = nodes(&[1.0; 5]);
    for at in [1, 3] {
        all[at].labels = ["gpu".to_owned()].into();
    }
    let (any, gpu) = (read(&[]).unwrap(), read(&[("label_match_all", "gpu")]).unwrap());
    let mut placer = Placer::new(&all, Strategy::RoundRobin, None);
    let taken: Vec<usize> = [&any, &any, &gpu, &any, &gpu, &any, &any, &any, &any]
        .map(|asked| chosen(&mut placer, asked, 0.0))
        .into();
    assert_eq!(taken, [0, 1, 3, 4, 1, 2, 3, 4, 0]);
    let mut other = Placer::new(&all, Strategy::RoundRobin, placer.last());
    assert_eq!(chosen(&mut other, &gpu, 0.9), 1);
}

#[test]
fn spread_takes_who_has_the_fewest_also_of_those_that_run_already() {
    let all = nodes(&[1.0; 3]);
    let asked = read(&[]).unwrap();
    let mut placer = Placer::new(&all, Strategy::Spread, None);
    for _ in 0..2 {
        placer.note(0, &asked);
    }
    let taken: Vec<usize> = (0..5).map(|_| chosen(&mut placer, &asked, 0.0)).collect();
    assert_eq!(taken, [1, 2, 1, 2, 0]);
}
