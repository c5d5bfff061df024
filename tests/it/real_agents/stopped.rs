//! What an agent takes back by itself, while nobody can tell it to.

use super::{
    releases::{Kind, stages, strategy},
    serving::Behaviour::{Good, Turning},
    site::Site,
    stages::{habits, nothing_is_left_but},
    wait::wait_until,
};

/// No stage of these lasts to its end.
const LONG: u64 = 600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_failing_without_manager_is_rolled_back_and_reported_later() {
    let mut site = Site::start().await;
    let node = site.node("edge", &[]).await;
    site.manager.knows(1).await;
    let (base, new) = (site.version(Good), site.version(Turning));
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    site.manager.submit(&strategy("alone", [&base, &new], &stages(Kind::Wait, &[20, 50], LONG), "")).await;
    let has_calls = |status: &agent::control::form::Status| {
        status.functions[0].candidate.as_ref().is_some_and(|one| one.calls > 50)
    };
    node.until("the canary has had calls", has_calls).await;
    site.manager.kill();
    site.turn(&new, true);
    wait_until("the canary gets no calls", async || node.share().await == Some(0)).await;
    let status = node.until("it knows that nobody can be told", |status| {
        !status.manager.reached && status.owed.results > 0
    });
    let status = status.await;
    assert_eq!(status.stops.judged, 1, "{status:#?}");
    load.more_calls(200).await;
    site.manager.come_back().await;
    let ended = site.manager.ended("alone").await;
    assert_ne!(ended["state"], "Done", "{ended:#}");
    let parts = site.manager.parts("alone").await;
    assert_eq!(parts[0]["outcome"], "failed", "{parts:#?}");
    let result = site.manager.result("alone", "s0").await;
    node.is_at_rest().await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    assert_eq!(result["f2_calls"].as_u64(), Some(ledger.executions_of(&new) as u64), "{result:#}");
    assert_eq!(result["f2_errors"].as_u64(), Some(lines.all().repeated), "{result:#}");
    nothing_is_left_but(&site, &node.folder, &base).await;
}
