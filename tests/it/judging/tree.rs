//! Releases over a tree, judged where they were planned by a real Prometheus with what the agents measured.
//!
//! A root, two managers below it, agents below these. Each agent takes one call of either version every tenth of a second;
//! what it measures is written to Prometheus, and the query of the strategy is the mean over the agents.

use choirmaster::{
    analysis::{Design, End, Judgement, Occasion, Sample, Sampling, Spending, Stratum, Tolerance, Verdict},
    app::Options,
    fleet::FleetReport,
    strategy::analysis::providers::Providers,
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{Agents, PATIENCE, events, in_state, judged};
use crate::{
    analysis::random::Random,
    provider::{real::Server, written::Series},
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

/// What the agents of one tree measure, whose release is called `app`: the new version, and `other` beside it.
fn measured(app: &str, other: &str, story: Story, seed: u64) -> Vec<Series> {
    let mut random = Random::new(seed);
    let now = jiff::Timestamp::now().as_millisecond();
    let start = (now - BEFORE_MS) / STEP_MS * STEP_MS;
    let mut series = Vec::new();
    for (variant, slower) in [("canary", story.slower()), (other, 1.0)] {
        let agents = if story == Story::Thin { 1 } else { ALL_AGENTS };
        let every = if story == Story::Thin { 1_000 } else { STEP_MS };
        for agent in 0..agents {
            let calls = (start..now + AFTER_MS).step_by(every as usize);
            let labels = vec![
                ("__name__", "call_ms".to_owned()),
                ("agent", agent.to_string()),
                ("app", app.to_owned()),
                ("variant", variant.to_owned()),
            ];
            let samples = calls.map(|at| (at, 8.0 * slower * random.log_normal(SIGMA))).collect();
            series.push(Series { labels, samples });
        }
    }
    series
}

fn block(app: &str, strategy: &str) -> String {
    let (duration, interval) = (DURATION_MS / 1_000, INTERVAL_MS / 1_000);
    format!(
        "duration: {duration}s, interval: {interval}s, metrics: [{{name: latency, provider: prom, \
         strategy: {strategy}, deviation: HIGH, tolerance: {}%, appArgs: {{app: {app}}}, query: \
         'avg(avg_over_time(call_ms{{app=\"{{{{ .AppArgs.app }}}}\", variant=\"{{{{ .Variant.Name }}}}\"}}[{STEP_MS}ms]))'}}]",
        TOLERANCE * 100.0
    )
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
        let known = async {
            loop {
                let children = root.get("/api/v1/children").await.ok().json();
                let children = children["items"].as_array().unwrap();
                let agents: u64 = children.iter().map(|child| child["agents"].as_u64().unwrap_or(0)).sum();
                if agents == ALL_AGENTS as u64 {
                    return;
                }
                sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, known).await.unwrap();
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

/// One release of one tree, from its start to what must come of it.
async fn told(server: &Server, strategy: &str, other: &str, story: Story, seed: u64) {
    let app = format!("{story:?}-{other}").to_lowercase();
    let tree = Tree::start(server, story).await;
    server.write(&measured(&app, other, story, seed)).await;
    tree.root.submit(&judged(&app, &block(&app, strategy))).await.ok();
    let (state, verdict) = story.expected();
    let shown = in_state(&tree.root, &app, state).await;
    let analysis = &shown["analyses"][0];
    assert_eq!(analysis["verdict"], verdict, "{app}: {analysis:#}");
    evidence(&tree, &app, story, analysis).await;
    for (manager, _) in &tree.below {
        in_state(manager, &app, state).await;
        assert!(shows_no_analysis(manager, &app).await);
    }
    for report in tree.stop().await {
        let rolled_out = if story == Story::Good { AGENTS } else { 0 };
        assert_eq!(report.totals.rolled_out, rolled_out, "{app}: {:?}", report.agents);
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
            assert!((10..=13).contains(&count("canary")), "{app}: {evidence:#}");
            assert!(analysis["why"].as_str().unwrap().contains("Inconclusive"), "{analysis:#}");
        }
        Story::Good => assert!(count("baseline").min(count("canary")) >= LEAST_POINTS as u64, "{evidence:#}"),
        Story::Slow => {
            let estimate = evidence["effect"]["estimate"].as_f64().unwrap();
            assert!((1.1..1.3).contains(&estimate), "{app}: {evidence:#}");
            let taken_back = &events(&tree.root, app, "release_rolled_back").await[0];
            assert!(taken_back["reason"].as_str().unwrap().contains("Fail: the canary is"), "{taken_back:#}");
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
    // PREVIOUS: the same three stories, with what the last release of the function measured in place of `other`.
    let strategies = [("CANARY_BASELINE", "baseline"), ("CANARY_PRIMARY", "primary")];
    let stories = strategies
        .into_iter()
        .flat_map(|of| [Story::Good, Story::Slow, Story::Thin].map(|story| (of, story)));
    let all = stories
        .enumerate()
        .map(|(seed, ((strategy, other), story))| told(&server, strategy, other, story, seed as u64));
    futures_util::future::join_all(all).await;
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
    let design = Design { end, sampling: Sampling::Series, ..Design::new(Tolerance::Ratio(TOLERANCE)) };
    let looks = DURATION_MS / INTERVAL_MS;
    let points = LEAST_POINTS / looks as usize;
    let mut random = Random::new(11);
    let mut point = |slower: f64| {
        let agents = (0..ALL_AGENTS).map(|_| 8.0 * slower * random.log_normal(SIGMA));
        agents.sum::<f64>() / ALL_AGENTS as f64
    };
    let mut ends = |slower: f64| {
        let mut judgement = Judgement::new(design.clone()).unwrap();
        let mut strata = Vec::new();
        for look in 1..=looks {
            let mut side = |slower| Sample::Values((0..points).map(|_| point(slower)).collect());
            strata.push(Stratum::new("stage", look - 1, side(1.0), side(slower)));
            let occasion = if look == looks { Occasion::Last } else { Occasion::Look };
            let verdict = judgement.decide(&strata, look * INTERVAL_MS, occasion).verdict;
            if verdict.is_some() {
                return verdict;
            }
        }
        None
    };
    for run in 0..RUNS {
        assert_eq!(ends(1.0), Some(Verdict::Pass), "run {run}");
        assert_eq!(ends(SLOWER), Some(Verdict::Fail), "run {run}");
    }
}
