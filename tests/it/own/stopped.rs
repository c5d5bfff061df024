//! What an agent takes back by itself, while nobody can tell it to.

use serde_json::Value;

use super::{
    releases::{Kind, stages, strategy},
    serving::Behaviour::{Good, Turning},
    site::Site,
    stages::{habits, nothing_is_left_but},
    wait::wait_until,
};

/// No stage of these lasts to its end.
const LONG: u64 = 600_000;

/// A release under load, whose canary has had calls; the manager is gone.
async fn without_a_manager(
    canary: super::serving::Behaviour,
) -> (Site, super::node::Node, super::node::Load, [String; 2]) {
    let mut site = Site::start().await;
    let node = site.node("edge", &[]).await;
    site.manager.knows(1).await;
    let (base, new) = (site.version(Good), site.version(canary));
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    site.manager.submit(&strategy("alone", [&base, &new], &stages(Kind::Wait, &[20, 50], LONG), "")).await;
    let has_calls = |status: &agent::control::form::Status| {
        status.functions[0].candidate.as_ref().is_some_and(|one| one.calls > 50)
    };
    node.until("the canary has had calls", has_calls).await;
    site.manager.kill();
    (site, node, load, [base, new])
}

/// The manager comes back and is told how it ended.
async fn told_afterwards(site: &mut Site) -> Value {
    site.manager.come_back().await;
    let ended = site.manager.ended("alone").await;
    assert_ne!(ended["state"], "Done", "{ended:#}");
    let parts = site.manager.parts("alone").await;
    assert_eq!(parts[0]["outcome"], "failed", "{parts:#?}");
    site.manager.result("alone", "s0").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_turns_bad_while_the_manager_is_away_is_taken_back_and_the_manager_hears_of_it_later()
{
    let (mut site, node, load, [base, new]) = without_a_manager(Turning).await;
    site.turn(&new, true);
    wait_until("the canary gets no calls", async || node.share().await == Some(0)).await;
    let status = node.until("it knows that nobody can be told", |status| {
        !status.manager.reached && status.owed.results > 0
    });
    let status = status.await;
    assert_eq!(status.stops.judged, 1, "{status:#?}");
    load.more_calls(200).await;
    let result = told_afterwards(&mut site).await;
    node.is_at_rest().await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    assert_eq!(result["f2_calls"].as_u64(), Some(ledger.executions_of(&new) as u64), "{result:#}");
    assert_eq!(result["f2_errors"].as_u64(), Some(lines.all().repeated), "{result:#}");
    nothing_is_left_but(&site, &node.folder, &base).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_the_agent_takes_a_release_back_while_the_manager_is_away() {
    let (mut site, node, load, [base, new]) = without_a_manager(Good).await;
    let undone = node.run(&["agent", "undo", "a", "--why", "customers complain"]);
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    // That it was done is said once it is in force.
    assert_eq!(node.share().await, Some(0));
    let before = super::stages::carried_out(&site, &new);
    load.more_calls(200).await;
    let result = told_afterwards(&mut site).await;
    assert!(result.to_string().contains("customers complain"), "{result:#}");
    node.is_at_rest().await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    // Calls that were in flight by the table before are all that came since.
    assert!(ledger.executions_of(&new) - before <= habits().len(), "{before} {}", ledger.executions_of(&new));
    assert_eq!(result["f2_calls"].as_u64(), Some(ledger.executions_of(&new) as u64), "{result:#}");
    nothing_is_left_but(&site, &node.folder, &base).await;
}
