//! A release over all that there is: deployed agents, one's own, and a manager below with its own agents.

use std::time::Duration;

use serde_json::Value;
use simulated_children::{FleetConfig, FleetKind, FleetReport, LiveVersion};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    deadline::DEADLINE,
    {tree::levels, world::World},
};

const LOOK: Duration = Duration::from_millis(20);

struct Children {
    stop: CancellationToken,
    run: JoinHandle<FleetReport>,
}

impl Children {
    /// Twenty times as fast as real ones: own agents make the calls of all the time that an answer took, in which others made theirs, and
    /// were these too many for a slow machine, each would have more to make than the one before.
    fn below(world: &World, agents: usize, kind: FleetKind, errors: f64) -> Self {
        let url = format!("http://{}", world.manager.child_address);
        let mut config = FleetConfig { url, agents, kind, pace: 0.05, ..FleetConfig::default() };
        config.traffic.base.errors = 0.0;
        config.traffic.new.errors = errors;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let run = tokio::spawn(async move { simulated_children::run(config, until, |_| ()).await.unwrap() });
        Self { stop, run }
    }

    async fn end(self) -> FleetReport {
        self.stop.cancel();
        self.run.await.unwrap()
    }
}

/// The sample as it is, but for how long it is looked at after a wave.
fn waves() -> String {
    let text = include_str!("../../../releases/waves.yml");
    let quick = text.replace("soak: 10s", "soak: 100ms");
    assert_ne!(text, quick);
    quick
}

async fn until_known(root: &World, agents: u64) {
    let known = async {
        loop {
            let children = root.get("/api/v1/children").await.ok().json();
            let children = children["items"].as_array().unwrap().clone();
            let of =
                |child: &Value| if child["kind"] == "rm" { child["agents"].as_u64().unwrap() } else { 1 };
            if children.iter().map(of).sum::<u64>() == agents {
                return;
            }
            sleep(LOOK).await;
        }
    };
    timeout(DEADLINE, known).await.unwrap();
}

/// Approves whatever waits for it, and goes on where a wave has proven nothing, until the release is over; what is shown of it then.
async fn led_to_its_end(root: &World) -> Value {
    let mut last = Value::Null;
    let over = async {
        loop {
            last = root.get("/api/v1/releases/waves").await.ok().json();
            match last["state"].as_str().unwrap() {
                "AwaitingApproval" => drop(root.call("POST", "/api/v1/releases/waves/approve").await),
                // One bad agent alone proves nothing, and is no limit yet.
                "Paused" => drop(root.call("POST", "/api/v1/releases/waves/resume").await),
                "Planned" | "Running" | "RollingBack" => sleep(LOOK).await,
                _ => return,
            }
        }
    };
    let is_over = timeout(DEADLINE, over).await;
    assert!(is_over.is_ok(), "{last:#}");
    last
}

/// What the children of all fleets run, when the release is over.
async fn released(errors: f64) -> (Value, Vec<FleetReport>) {
    let root = World::start().await;
    let below = levels::below(&root).await;
    let fleets = [
        Children::below(&root, 3, FleetKind::Deployed, errors),
        Children::below(&root, 4, FleetKind::Own, errors),
        Children::below(&below, 5, FleetKind::Own, errors),
    ];
    until_known(&root, 12).await;
    root.submit(&waves()).await.ok();
    let shown = led_to_its_end(&root).await;
    let mut reports = Vec::new();
    for fleet in fleets {
        reports.push(fleet.end().await);
    }
    below.stop().await;
    root.stop().await;
    (shown, reports)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_release_reaches_every_agent_however_it_is_led() {
    let (shown, reports) = released(0.0).await;
    assert_eq!(shown["state"], "Done", "{shown:#}");
    for agent in reports.iter().flat_map(|report| &report.agents) {
        assert!(matches!(agent.live["sieve"], LiveVersion::New { .. }), "{agent:?}");
    }
    for agent in reports.iter().skip(1).flat_map(|report| &report.agents) {
        assert_eq!((agent.offers_run, agent.without_service_ms), (1, 0), "one offer each: {agent:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_release_is_taken_back_from_every_agent_that_had_a_part_in_it() {
    let (shown, reports) = released(0.5).await;
    assert_eq!(shown["state"], "RolledBack", "{shown:#}");
    for agent in reports.iter().flat_map(|report| &report.agents) {
        let runs_new = agent.live.values().any(|live| matches!(live, LiveVersion::New { .. }));
        assert!(!runs_new, "{agent:?}");
    }
}
