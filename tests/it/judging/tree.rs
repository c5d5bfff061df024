//! Releases over a tree, judged where they were planned by a real Prometheus with what the agents measured.
//!
//! A root, two managers below it, agents below these. Each agent takes one call of either version every tenth of a second;
//! what it measures is written to Prometheus, and the query of the strategy is the mean over the agents.

use std::time::Duration;

use analysis::{
    Design, End, Judgement, Occasion, RunVariation, Sample, Sampling, Spending, Stratum, Tolerance, Verdict,
};
use choirmaster::app::Options;
use futures_util::future::join_all;
use language::analysis::providers::Providers;
use serde_json::Value;
use simulated_children::{AgentReport, FleetReport, LiveVersion};
use tokio::time::sleep;

use super::{Agents, events, in_state, judged, told_of};
use crate::{
    provider::{real::Server, written::Series},
    random::Random,
    tree::levels,
    world::World,
};

/// Below each of the two managers.
const AGENTS: usize = 3;
const ALL_AGENTS: usize = 2 * AGENTS;

/// Between two points of a series.
const STEP_MS: i64 = 100;

/// Logarithmic standard deviation of the times of one version at one agent.
const SIGMA: f64 = 0.1;

/// How much longer calls of the new version take where it is slow.
const SLOWER: f64 = 1.2;

/// Of the analysis, in milliseconds: looks, and the last of them.
const INTERVAL_MS: u64 = 3_000;
const DURATION_MS: u64 = 12_000;

/// How much worse is still good.
const TOLERANCE: f64 = 0.1;

/// What is measured before and after the moment in which it is written.
const BEFORE_MS: i64 = 2_000;
const AFTER_MS: i64 = 120_000;

/// So far ahead it is written where it depends on what becomes of a release.
const AHEAD_MS: i64 = 1_000;

/// By how much one and the same version differs from run to run, as the strategy says. What is measured here differs by
/// less.
const RUN_VARIATION: f64 = 0.01;

/// How the new version does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Story {
    Good,
    Slow,
    /// Good, but hardly anybody calls: once a second, one of the agents.
    Thin,
}

impl Story {
    fn slower(self) -> f64 {
        if self == Self::Slow { SLOWER } else { 1.0 }
    }

    /// The state of the release and the verdict that it must come to.
    fn expected(self) -> (&'static str, &'static str) {
        match self {
            Self::Good => ("Done", "pass"),
            Self::Slow => ("RolledBack", "fail"),
            Self::Thin => ("Paused", "inconclusive"),
        }
    }
}

/// What the agents of one tree measure, for the releases that name `app`.
struct Meter<'a> {
    server: &'a Server,
    app: String,
    story: Story,
    random: Random,
    /// The instant of the next measurement.
    next_ms: i64,
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

impl<'a> Meter<'a> {
    fn new(server: &'a Server, app: &str, story: Story, seed: u64) -> Self {
        let next_ms = (now_ms() - BEFORE_MS) / 1_000 * 1_000;
        Self { server, app: app.to_owned(), story, random: Random::new(seed), next_ms }
    }

    /// Measures each variant, so many times as slow as the base version, up to an instant.
    async fn measure(&mut self, variants: &[(&str, f64)], until_ms: i64) {
        let (agents, every_ms) = if self.story == Story::Thin { (1, 1_000) } else { (ALL_AGENTS, STEP_MS) };
        let instants: Vec<i64> = (self.next_ms..until_ms).step_by(every_ms as usize).collect();
        let Some(last) = instants.last() else { return };
        self.next_ms = last + every_ms;
        let mut series = Vec::new();
        for (variant, slower) in variants {
            for agent in 0..agents {
                let labels = vec![
                    ("__name__", "call_ms".to_owned()),
                    ("agent", agent.to_string()),
                    ("app", self.app.clone()),
                    ("variant", (*variant).to_owned()),
                ];
                let mut call = |at: &i64| (*at, 8.0 * slower * self.random.log_normal(SIGMA));
                let samples = instants.iter().map(&mut call).collect();
                series.push(Series { labels, samples });
            }
        }
        self.server.write(&series).await;
    }

    /// Measures one variant on and on.
    async fn go_on(&mut self, variant: &str, slower: f64) {
        loop {
            self.measure(&[(variant, slower)], now_ms() + AHEAD_MS).await;
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// An analysis of what `app` names; `keys` is what the metric says beside the usual.
fn block(app: &str, keys: &str) -> String {
    let (duration, interval) = (DURATION_MS / 1_000, INTERVAL_MS / 1_000);
    format!(
        "duration: {duration}s, interval: {interval}s, metrics: [{{name: latency, provider: prom, {keys}, \
         appArgs: {{app: {app}}}, query: 'avg(avg_over_time(call_ms{{app=\"{{{{ .AppArgs.app }}}}\", \
         variant=\"{{{{ .Variant.Name }}}}\"}}[{STEP_MS}ms]))'}}]"
    )
}

fn comparison(app: &str, strategy: &str) -> String {
    let tolerance = TOLERANCE * 100.0;
    block(app, &format!("strategy: {strategy}, deviation: HIGH, tolerance: {tolerance}%"))
}

/// A root that knows the server, and two managers with agents.
struct Tree {
    root: World,
    below: Vec<(World, Agents)>,
}

impl Tree {
    async fn start(server: &Server, story: Story) -> Self {
        let providers = format!(
            "providers: {{prom: {{type: prometheus, url: 'http://{}', step: {STEP_MS}ms}}}}",
            server.address
        );
        let known = |options: &mut Options| {
            let (providers, faults) = Providers::read(&providers);
            assert_eq!(faults, []);
            options.site.providers = providers;
        };
        let root = World::with(known).await;
        let mut below = Vec::new();
        for name in ["west", "east"] {
            let mut settings = levels::parent(levels::url(&root));
            settings.name = Some(name.to_owned());
            let manager = World::with(|options| options.parent = Some(settings)).await;
            let agents = Agents::below(&manager, AGENTS, |config| {
                config.traffic.base.latency = format!("lognormal:8ms,{SIGMA}").parse().unwrap();
                let slow = format!("lognormal:{}ms,{SIGMA}", 8.0 * story.slower());
                config.traffic.new.latency = slow.parse().unwrap();
            });
            below.push((manager, agents));
        }
        told_of(&root, ALL_AGENTS as u64).await;
        Self { root, below }
    }

    async fn stop(self) -> Vec<FleetReport> {
        let mut reports = Vec::new();
        for (manager, agents) in self.below {
            reports.push(agents.stopped().await);
            manager.stop().await;
        }
        self.root.stop().await;
        reports
    }
}

/// One release of one tree, compared with `other` beside it, from its start to what must come of it.
async fn beside(server: &Server, strategy: &str, other: &str, story: Story, seed: u64) {
    let app = format!("{story:?}-{other}").to_lowercase();
    let tree = Tree::start(server, story).await;
    let variants = [("canary", story.slower()), (other, 1.0)];
    Meter::new(server, &app, story, seed).measure(&variants, now_ms() + AFTER_MS).await;
    tree.root.submit(&judged(&app, &comparison(&app, strategy))).await.ok();
    let shown = in_state(&tree.root, &app, story.expected().0).await;
    told(tree, &app, story, &shown).await;
}

/// Two releases of one tree, the second compared with the first.
async fn one_after_the_other(server: &Server, story: Story, seed: u64) {
    let app = format!("{story:?}-previous").to_lowercase();
    let (tree, before) = (Tree::start(server, story).await, format!("{app}-before"));
    let mut meter = Meter::new(server, &app, story, seed);
    tree.root.submit(&judged(&before, &block(&app, "expected: {max: 1000}"))).await.ok();
    tokio::select! {
        _ = in_state(&tree.root, &before, "Done") => {}
        () = meter.go_on("canary", 1.0) => {}
    }
    // What is measured already is of the version before.
    while now_ms() < meter.next_ms {
        sleep(Duration::from_millis(20)).await;
    }
    let previous = format!("PREVIOUS, runVariation: {}%", RUN_VARIATION * 100.0);
    tree.root.submit(&judged(&app, &comparison(&app, &previous))).await.ok();
    let shown = tokio::select! {
        shown = in_state(&tree.root, &app, story.expected().0) => shown,
        () = meter.go_on("canary", story.slower()) => return,
    };
    told(tree, &app, story, &shown).await;
}

/// What became of a release is what must become of it, on all levels.
async fn told(tree: Tree, app: &str, story: Story, shown: &Value) {
    let (state, verdict) = story.expected();
    let analysis = &shown["analyses"][0];
    assert_eq!(analysis["verdict"], verdict, "{app}: {analysis:#}");
    evidence(&tree, app, story, analysis).await;
    for (manager, _) in &tree.below {
        in_state(manager, app, state).await;
        assert!(shows_no_analysis(manager, app).await);
    }
    for report in tree.stop().await {
        // Who is paused goes on testing.
        let run_new =
            |agent: &&AgentReport| agent.live.values().any(|live| matches!(live, LiveVersion::New { .. }));
        let expected = if story == Story::Good { AGENTS } else { 0 };
        assert_eq!(report.agents.iter().filter(run_new).count(), expected, "{app}: {:?}", report.agents);
    }
}

/// What is told of a verdict is what it rests on.
async fn evidence(tree: &Tree, app: &str, story: Story, analysis: &Value) {
    let evidence = &analysis["metrics"][0]["evidence"];
    let count = |side: &str| evidence[side]["count"].as_u64().unwrap();
    let verdicts = events(&tree.root, app, "verdict").await;
    assert_eq!(verdicts.len(), 1, "{app}");
    assert_eq!(verdicts[0]["why"], analysis["why"], "{app}");
    match story {
        Story::Thin => {
            // One a second, for as long as the look took to be made.
            assert!((10..LEAST_POINTS as u64).contains(&count("canary")), "{app}: {evidence:#}");
            assert!(analysis["verdict"] == "inconclusive", "{analysis:#}");
        }
        Story::Good => assert!(count("baseline").min(count("canary")) >= LEAST_POINTS as u64, "{evidence:#}"),
        Story::Slow => {
            let estimate = evidence["effect"]["estimate"].as_f64().unwrap();
            assert!((1.1..1.3).contains(&estimate), "{app}: {evidence:#}");
            let taken_back = &events(&tree.root, app, "release_rolled_back").await[0];
            let reason = taken_back["reason"].as_str().unwrap();
            assert!(
                [": fail: latency: ", ": the canary is "].iter().all(|of| reason.contains(of)),
                "{taken_back:#}"
            );
        }
    }
}

/// What the root judges is not judged below once more.
async fn shows_no_analysis(manager: &World, app: &str) -> bool {
    let shown = manager.get(&format!("/api/v1/releases/{app}")).await.ok().json();
    shown["analyses"].as_array().is_none_or(Vec::is_empty)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_prometheus_lets_good_releases_through_a_tree_and_takes_slow_ones_back() {
    let server = Server::receiving();
    let stories = [Story::Good, Story::Slow, Story::Thin];
    let strategies = [("CANARY_BASELINE", "baseline"), ("CANARY_PRIMARY", "primary")];
    let beside_each_other = strategies.into_iter().flat_map(|of| stories.map(|story| (of, story)));
    let beside_each_other = (0..).zip(beside_each_other);
    let beside_each_other = beside_each_other
        .map(|(seed, ((strategy, other), story))| beside(&server, strategy, other, story, seed));
    let previous = (100..).zip(stories).map(|(seed, story)| one_after_the_other(&server, story, seed));
    tokio::join!(join_all(beside_each_other), join_all(previous));
}

/// Points a side that the releases above are judged by at least; there are 120 where no moment is missed.
const LEAST_POINTS: usize = 100;

/// Releases of each kind of which not one may end otherwise: where a share of 0.1 % did, that all of so many end well has
/// a probability of 0.999^5,000 = 0.7 %.
const RUNS: u64 = 5_000;

/// The sizes above, as the same series by the same judgement, but for the network.
#[test]
fn a_wrong_outcome_over_the_tree_is_rarer_than_one_in_a_thousand() {
    let spending = Spending::Linear;
    let end = End::After { duration_ms: DURATION_MS, interval_ms: INTERVAL_MS, spending };
    let beside = Design { end, sampling: Sampling::Series, ..Design::new(Tolerance::Ratio(TOLERANCE)) };
    let run_variation = Some(RunVariation::Given(RUN_VARIATION));
    let previous = Design { run_variation, ..beside.clone() };
    let mut random = Random::new(11);
    for run in 0..RUNS {
        for design in [&beside, &previous] {
            assert_eq!(ends(design, 1.0, &mut random), Some(Verdict::Pass), "run {run}: {design:?}");
            assert_eq!(ends(design, SLOWER, &mut random), Some(Verdict::Fail), "run {run}: {design:?}");
        }
    }
}

/// How a release ends whose new version is so many times as slow.
fn ends(design: &Design, slower: f64, random: &mut Random) -> Option<Verdict> {
    let mut judgement = Judgement::new(design.clone()).unwrap();
    let looks = DURATION_MS / INTERVAL_MS;
    let points = LEAST_POINTS / looks as usize;
    let mut strata = Vec::new();
    for look in 1..=looks {
        let mut side = |slower: f64| {
            let mut point = || {
                let agents = (0..ALL_AGENTS).map(|_| 8.0 * slower * random.log_normal(SIGMA));
                agents.sum::<f64>() / ALL_AGENTS as f64
            };
            Sample::Values((0..points).map(|_| point()).collect())
        };
        strata.push(Stratum::new("stage", look - 1, side(1.0), side(slower)));
        let occasion = if look == looks { Occasion::Last } else { Occasion::Look };
        let verdict = judgement.decide(&strata, look * INTERVAL_MS, occasion).verdict;
        if verdict.is_some() {
            return verdict;
        }
    }
    None
}
