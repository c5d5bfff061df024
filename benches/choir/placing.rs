//! How long it takes to place functions on nodes, all at once and one more.

use std::{collections::BTreeMap, hint::black_box};

use anyhow::{Context as _, ensure};
use placement::{Areas, Lies, Node, Placer, Requirements, Strategy};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::time::Instant;

use crate::{
    rows::{Bench, say},
    shared::figures::median,
    table::thousands,
};

/// What functions require: each of them asks for some of these.
const LABELS: [&str; 4] = ["tier=edge", "gpu", "site=a", "site=b"];
const MEMORY: [&str; 4] = ["0", "64", "128", "512"];

/// Nodes have no areas here.
#[derive(Debug)]
struct NoAreas;

impl Areas for NoAreas {
    fn lie(&self, _: &str) -> Vec<Lies> {
        Vec::new()
    }
}

fn nodes(count: usize) -> Vec<Node> {
    let node = |at: usize| Node {
        id: format!("00000000-0000-4000-8000-{at:012x}").into(),
        labels: LABELS.iter().skip(at % 3).map(|label| (*label).to_owned()).collect(),
        runtimes: ["process".to_owned()].into(),
        cpus: 1 + (at % 2) as u32,
        cores: 1 + (at % 8) as u32,
        mhz: 2_000,
        memory_mib: Some(16_384),
        ..Node::default()
    };
    (0..count).map(node).collect()
}

/// Of 64 kinds.
fn requirements() -> anyhow::Result<Vec<Requirements>> {
    let one = |at: usize| {
        let labels: Vec<&str> = LABELS
            .iter()
            .enumerate()
            .filter(|(label, _)| at >> label & 1 == 1)
            .map(|(_, label)| *label)
            .collect();
        let mut annotations = BTreeMap::from([("memory_mib".to_owned(), MEMORY[at / 16].to_owned())]);
        if !labels.is_empty() {
            annotations.insert("label_match_all".to_owned(), labels.join(","));
        }
        Requirements::read(Some("process"), &annotations).context("requirements of a function")
    };
    (0..64).map(one).collect()
}

impl Bench {
    /// Functions with mixed requirements.
    pub(crate) fn placing(&mut self) -> anyhow::Result<()> {
        let (functions, count) = (self.sizes.placed_functions, self.sizes.nodes);
        say(&format!("placing {functions} functions on {count} nodes"));
        let (nodes, requirements) = (nodes(count), requirements()?);
        for strategy in [Strategy::Random, Strategy::RoundRobin] {
            let (mut all, mut one_more) = (Vec::new(), Vec::new());
            for round in 0..self.sizes.rounds.max(3) {
                let mut chance = StdRng::seed_from_u64(round as u64);
                let began = Instant::now();
                let mut placer = Placer::new(&nodes, &NoAreas, strategy, None);
                let placed = (0..functions)
                    .filter(|at| {
                        placer
                            .place(&requirements[at % requirements.len()], &[], chance.random())
                            .node()
                            .is_some()
                    })
                    .count();
                all.push(began.elapsed().as_secs_f64() * 1e3);
                ensure!(placed == functions, "{placed} of {functions} were placed");
                let began = Instant::now();
                black_box(placer.place(&requirements[round % requirements.len()], &[], chance.random()));
                one_more.push(began.elapsed().as_secs_f64() * 1e3);
            }
            let (all, one_more) = (median(&all), median(&one_more));
            let what = format!(
                "placing {} functions on {} nodes, {}",
                thousands(functions as f64),
                thousands(count as f64),
                strategy.name()
            );
            let found = format!("all {all:.0} ms, one more {:.1} µs", one_more * 1e3);
            self.table.line(
                &what,
                &found,
                "",
                "",
                "all ≤ 1 s, one more ≤ 1 ms",
                Some(all <= 1_000.0 && one_more <= 1.0),
            );
        }
        Ok(())
    }
}
