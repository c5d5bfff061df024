//! Whole cycles of many children, and what their report says.

use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::Ordering::SeqCst,
    time::Duration,
};

use choirmaster::cli::fleet::summary;
use simulated_children::{FleetConfig, FleetError, FleetKind, LiveVersion, Progress, run};
use tokio_util::sync::CancellationToken;

use super::manager::{Call, Manager, PACE, Script, count, offer, results, stage};

fn two_stages() -> String {
    offer(&[stage("one", "WaitForSignal", "two", "rollback"), stage("two", "A/B", "rollout", "rollback")])
}

#[tokio::test]
async fn every_fleet_kind_completes_release_over_one_connection_per_agent() {
    for kind in [FleetKind::Deployed, FleetKind::Modern, FleetKind::Own] {
        // Whoever asks at once has had no call by then, and would take that for a failure: nobody asks so often within four seconds of theirs.
        let manager = Manager::start(Script { end_at: Some(5), ..Script::of(&two_stages()) }).await;
        // At the usual pace so many poll more often than a machine with other work answers.
        let mut config = FleetConfig { agents: 25, kind, pace: 10.0 * PACE, ..manager.config() };
        // Own agents make the calls of all the time that an answer took, in which others made theirs: were these too many for a slow
        // machine, each would have more to make than the one before.
        config.traffic.calls_per_second = 20.0;
        // The first stage is ended early: one failed call of few would be too many.
        config.traffic.new.errors = 0.0;
        let over = |calls: &[Call]| {
            let ended =
                results(calls).into_iter().filter(|c| c.stage() == "two" && c.status() == Some(4)).count();
            ended == 25 && calls.last().unwrap().path == "/poll"
        };
        let (report, _) = manager.run_until(config, over).await;
        assert_eq!(report.totals.rolled_out, 25, "{kind:?}");
        for agent in &report.agents {
            assert_eq!(agent.live["sieve"], LiveVersion::New { path: "fns/f2".into() });
            assert_eq!(agent.setups, BTreeMap::from([("fns/f1".into(), 1), ("fns/f2".into(), 1)]));
        }
        assert_eq!(manager.connections.load(SeqCst), 25, "{kind:?}");
    }
}

/// Each of the eight has sent its result, and then shown its id together with its area.
fn all_polled_again(calls: &[Call]) -> bool {
    let named = calls.iter().filter(|call| call.path == "/poll").filter_map(|call| call.body["id"].as_str());
    count(calls, "/result") == 8 && named.filter(|id| !id.is_empty()).collect::<HashSet<_>>().len() == 8
}

/// Results by the area of the child, since ids go by arrival.
async fn numbers_of(seed: u64) -> BTreeMap<String, String> {
    let yaml = offer(&[stage("one", "A/B", "rollout", "rollback")]);
    let manager = Manager::start(Script::of(&yaml)).await;
    let config = FleetConfig { agents: 8, seed, ..manager.config() };
    let (_, calls) = manager.run_until(config, all_polled_again).await;
    let area = |id: &str| {
        let poll = calls.iter().find(|call| call.path == "/poll" && call.body["id"] == id).unwrap();
        poll.body["geographic_area"].to_string()
    };
    results(&calls)
        .into_iter()
        .map(|call| (call.body["id"].as_str().unwrap().to_owned(), call.body["stage_summaries"].to_string()))
        .map(|(id, summaries)| (area(&id), summaries))
        .collect()
}

#[tokio::test]
async fn the_same_seed_gives_the_same_children_and_the_same_numbers() {
    let (once, again, other) = (numbers_of(3).await, numbers_of(3).await, numbers_of(4).await);
    assert_eq!(once.len(), 8);
    assert_eq!(once, again);
    assert!(once.keys().all(|area| !other.contains_key(area)));
}

#[tokio::test]
async fn a_manager_that_is_not_there_is_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let config = FleetConfig {
        url,
        agents: 3,
        pace: 0.002,
        run_for: Some(Duration::from_millis(500)),
        ..FleetConfig::default()
    };
    let report = run(config, CancellationToken::new(), |_| ()).await.unwrap();
    assert!(report.last_error.unwrap().starts_with("no connection: "));
    assert!(!report.reached && report.totals.polls > 3, "{:?}", report.totals);
    assert!(report.agents.iter().all(|agent| agent.exit.is_none()), "an agent that can't poll polls again");
}

#[tokio::test]
async fn it_ends_when_nothing_has_happened_for_a_while() {
    let yaml = offer(&[stage("one", "A/B", "rollout", "rollback")]);
    let manager = Manager::start(Script::of(&yaml)).await;
    let config = FleetConfig { agents: 3, until_idle: Some(Duration::from_millis(300)), ..manager.config() };
    let mut told = Vec::new();
    let report = run(config, CancellationToken::new(), |progress| told.push(progress.clone())).await.unwrap();
    assert_eq!((report.totals.offers_run, report.totals.rolled_out), (3, 3));
    assert_eq!(told.last().map(|progress: &Progress| progress.done), Some(3));
}

#[tokio::test]
async fn the_end_is_summed_up_as_a_simulation() {
    let manager = Manager::start(Script { release_status: 503, ..Script::of(&two_stages()) }).await;
    let config = FleetConfig { agents: 4, ..manager.config() };
    let (report, _) = manager.run_until(config, |_| false).await;
    insta::assert_snapshot!(summary(&report), @r#"
    simulated: 0 polling, 0 running, 0 done, 0 rolled out, 4 exited
    8 calls to the manager, 4 of them polls; 0 unanswered, 4 refused; 0 offers run
    4 exited: /release: 503: out of order
    "#);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["simulated"], true);
    insta::assert_snapshot!(json["agents"][0]["exit"], @r#"
    {"text":"503: out of order","why":"release"}
    "#);
}

#[tokio::test]
async fn what_can_not_be_simulated_is_refused() {
    let refusal = async |change: fn(&mut FleetConfig)| {
        let mut config = FleetConfig::default();
        change(&mut config);
        let error: FleetError = run(config, CancellationToken::new(), |_| ()).await.unwrap_err();
        error.to_string() + "\n"
    };
    let mut said = String::new();
    said += &refusal(|c| c.url = "https://127.0.0.1:1".into()).await;
    said += &refusal(|c| c.url = "http://127.0.0.1:1/path".into()).await;
    said += &refusal(|c| c.agents = 0).await;
    said += &refusal(|c| c.pace = f64::NAN).await;
    said += &refusal(|c| c.faults.crash = 1.5).await;
    said += &refusal(|c| c.traffic.calls_per_second = -1.0).await;
    said += &refusal(|c| c.clock.step = Duration::ZERO).await;
    said += &refusal(|c| c.spread.west = 14.0).await;
    insta::assert_snapshot!(said, @r#"
    "https://127.0.0.1:1" is no address of a manager: it looks like http://127.0.0.1:8080, without a path
    "http://127.0.0.1:1/path" is no address of a manager: it looks like http://127.0.0.1:8080, without a path
    a fleet has 1 to 200000 children, not 0
    the pace is from 0.0001 to 100: 0.1 lets the clocks of the children run ten times as fast
    the share `crash` is from 0 to 1 (0 % to 100 %)
    the rate of calls is from 0 to 100000 a second
    the step of a clock is from 1µs to 1s
    the spread is WEST,SOUTH,EAST,NORTH in degrees, west of east and south of north
    "#);
}
