//! How long a plan takes, and `PostGIS` beside it: the same polygons, the same question, answers checked equal.
//!
//! Areas are the six-cornered ones of the simulated fleet, the target is round and covers a tenth of their box.

use std::hint::black_box;

use anyhow::{Context as _, ensure};
use domain::{
    children::{
        self, Arrival, Child,
        registration::{Live, Registration},
    },
    plan::{ENTRY_BYTES, Fleet as _, Place, plan},
    release::{change::Change, settings::Settings, state::State},
};
use language::{Strategy, Target, TargetArea};
use model::{ChildId, ChildKey, Now};
use simulated_children::{BoundingBox, area_of};
use tokio::time::Instant;

use crate::{
    postgres::Polygons,
    rows::{Bench, say},
    shared::figures::median,
    table::thousands,
};

/// Where all children are.
const BOX: BoundingBox = BoundingBox { west: -20.0, south: -40.0, east: 40.0, north: 20.0 };

/// Corners of the target.
const CORNERS: usize = 64;

/// A round target over a tenth of [`BOX`].
fn target() -> Vec<[f64; 2]> {
    let (width, height) = (BOX.east - BOX.west, BOX.north - BOX.south);
    let radius = (0.1 * width * height / std::f64::consts::PI).sqrt();
    let corner = |at: usize| {
        let (sin, cos) = (at as f64 / CORNERS as f64 * std::f64::consts::TAU).sin_cos();
        [BOX.west + width / 2.0 + radius * cos, BOX.south + height / 2.0 + radius * sin]
    };
    (0..CORNERS).chain([0]).map(corner).collect()
}

fn area(index: usize, count: usize) -> String {
    area_of(index, count, 1, &BOX).get().to_owned()
}

/// A state with so many children.
fn state(count: usize) -> anyhow::Result<State> {
    let mut state = State::new(Settings::default());
    for index in 0..count {
        let child = ChildKey(index as u32);
        let registration = Registration {
            id: ChildId::parse(&crate::bodies::child_id(index))?,
            key: child,
            area: Some(area(index, count).into()),
            address: None,
            agents: 0,
            profile: None,
            live: Live::default(),
        };
        let record = Child { called_again: true, ..Child::new(registration, Now::default()) };
        let record = Box::new(record);
        state.apply(&Change::Children(children::Change::Arrived {
            child,
            arrival: Arrival::Registered,
            record,
        }));
    }
    Ok(state)
}

fn strategy() -> anyhow::Result<Strategy> {
    let text = crate::bodies::STRATEGY;
    let strategy = language::check(text).strategy;
    let mut strategy = strategy.ok_or_else(|| anyhow::anyhow!("the sample has faults"))?;
    let area = Some(TargetArea(vec![vec![target()]]));
    strategy.target = Some(Target { area, ..Target::default() });
    Ok(strategy)
}

/// A line of what the kernel says of this process's memory, in bytes.
fn memory(name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: u64 = line.context("no such line")?.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1_024)
}

/// How much more memory this process had at most while something was done. `None` where the kernel doesn't tell.
fn peak_of(what: impl FnOnce()) -> anyhow::Result<Option<u64>> {
    // Lets the kernel forget the highest mark so far.
    if std::fs::write("/proc/self/clear_refs", "5").is_err() {
        return Ok(None);
    }
    let before = memory("VmRSS:")?;
    what();
    Ok(Some(memory("VmHWM:")?.saturating_sub(before)))
}

/// Milliseconds of each of some runs of both parts.
struct Times {
    geographic: Vec<f64>,
    whole: Vec<f64>,
    participants: u64,
}

fn timed(state: &State, strategy: &Strategy, runs: usize) -> Times {
    let mut times = Times { geographic: Vec::new(), whole: Vec::new(), participants: 0 };
    let ms = |began: Instant| began.elapsed().as_secs_f64() * 1_000.0;
    let Some(area) = strategy.target.as_ref().and_then(|target| target.area.as_ref()) else { return times };
    for _ in 0..runs {
        let began = Instant::now();
        let cover = state.children.areas().cover(&area.polygons());
        let mut inside = 0;
        let text = |child| state.candidate(child).and_then(|candidate| candidate.area);
        state.children.areas().place(&cover, text, |_, _, place| {
            inside += u64::from(matches!(place, Place::Inside | Place::Partly));
        });
        times.participants = black_box(inside);
        times.geographic.push(ms(began));
        let began = Instant::now();
        black_box(plan(strategy, &**state));
        times.whole.push(ms(began));
    }
    times
}

impl Bench {
    /// Plans over growing numbers of children, and if asked for, over the largest `PostGIS` beside it.
    pub(crate) async fn planning(&mut self, with_postgis: bool) -> anyhow::Result<()> {
        let strategy = strategy()?;
        let largest = self.sizes.plan_children;
        let mut count = 1_000.min(largest);
        loop {
            say(&format!("planning over {count} children"));
            let before = memory("VmRSS:")?;
            let state = state(count)?;
            let children = memory("VmRSS:")?.saturating_sub(before);
            let planning = peak_of(|| drop(black_box(plan(&strategy, &*state))))?;
            let runs = self.sizes.rounds.max(3) * 3;
            let times = timed(&state, &strategy, runs);
            self.growth(count, &times, children, planning);
            if count == largest {
                return if with_postgis { self.beside_postgis(&state, &strategy).await } else { Ok(()) };
            }
            count = (count * 10).min(largest);
        }
    }

    fn growth(&mut self, count: usize, times: &Times, children: u64, planning: Option<u64>) {
        let (geographic, whole) = (median(&times.geographic), median(&times.whole));
        let text = format!(
            "whole plan {whole:.2} ms, its geographic part {geographic:.2} ms; {} take part; {} MiB of children (index {} KiB), {} \
             more while it plans",
            thousands(times.participants as f64),
            children >> 20,
            count * ENTRY_BYTES / 1_024,
            planning.map_or_else(|| "unknown".to_owned(), |bytes| format!("{} KiB", bytes >> 10))
        );
        let what = format!("plan over {} children", thousands(count as f64));
        let ratio = format!("{:.2} of its geographic part", whole / geographic);
        self.table.line(&what, &text, "", &ratio, "≤ 3", Some(whole <= 3.0 * geographic));
    }

    async fn beside_postgis(&mut self, state: &State, strategy: &Strategy) -> anyhow::Result<()> {
        let Some(cluster) = self.cluster.clone() else { return Ok(()) };
        let count = state.children.areas().len();
        say(&format!("loading {count} areas into PostGIS"));
        let ring = serde_json::json!({"type": "Polygon", "coordinates": [target()]}).to_string();
        let areas = (0..count).map(|index| area(index, count));
        let mut polygons = match Polygons::load(&cluster, areas).await {
            Ok(polygons) => polygons,
            Err(error) => {
                self.table.missing("the comparison with PostGIS", &format!("{error:#}"));
                return Ok(());
            }
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first of each side warms it up.
        for round in 0..=self.sizes.rounds.max(3) {
            let times = timed(state, strategy, 1);
            let began = Instant::now();
            let found = polygons.count(&ring).await?;
            let took = began.elapsed().as_secs_f64() * 1_000.0;
            ensure!(found == times.participants, "PostGIS finds {found}, the planner {}", times.participants);
            if round > 0 {
                ours.extend(times.geographic);
                theirs.push(took);
            }
        }
        let ratio = crate::table::ratio(&theirs, &ours);
        let (ours, theirs) = (median(&ours), median(&theirs));
        self.table.line(
            &format!("geographic part over {} children", thousands(count as f64)),
            &format!("{ours:.2} ms"),
            &format!("PostGIS {}, GiST index: {theirs:.1} ms", polygons.version),
            &format!("**{ratio:.1}** times as fast"),
            "≥ 8",
            Some(ratio >= 8.0),
        );
        Ok(())
    }
}
