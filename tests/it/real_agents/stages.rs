//! Good and bad releases: what callers feel of them, what the manager hears, and what is left.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    callers::Habit,
    ledger::Ledger,
    releases::{Kind, stages, strategy},
    serving::Behaviour::{Failing, Good},
    site::Site,
    wait::wait_until,
};

/// GET and POST, on a connection that stays and on a new one each time, with and without a pause between calls: few, since
/// everything here runs on one machine.
pub fn habits() -> Vec<Habit> {
    let mut all = Vec::new();
    for posts in [false, true] {
        for (keeps_connection, think, count) in [(true, 0, 1), (true, 20, 4), (false, 20, 2)] {
            let habit = Habit { posts, keeps_connection, think: Duration::from_millis(think) };
            all.extend([habit].repeat(count));
        }
    }
    all
}

/// Nothing runs but this version, and nothing lies about of others.
pub async fn nothing_is_left_but(site: &Site, folder: &std::path::Path, version: &str) {
    wait_until("nothing else runs", async || site.all_running() == [version]).await;
    let count = |below: &str| {
        let entries = std::fs::read_dir(folder.join(below)).map(Iterator::count);
        entries.unwrap_or_else(|error| panic!("{below}: {error}"))
    };
    wait_until("nothing else is kept", async || count("state/run/runs") == 1 && count("state/content") == 1)
        .await;
    let shims = super::processes::with(folder.join("state/run/runs").to_str().unwrap());
    let shims = shims.iter().filter(|one| one.arguments.contains(" shim ")).count();
    assert_eq!(shims, 1, "{:?}", super::processes::with(folder.to_str().unwrap()));
}

fn number(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or_else(|| panic!("no {field} in {of:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_canary_affects_no_caller_and_is_counted_exactly() {
    let mut site = Site::start().await;
    let node = site.node("edge", &[]).await;
    site.manager.knows(1).await;
    let (base, new) = (site.version(Good), site.version(Failing));
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    site.manager.submit(&strategy("bad", [&base, &new], &stages(Kind::Wait, &[10, 50], 2_000), "")).await;
    let ended = site.manager.ended("bad").await;
    assert_ne!(ended["state"], "Done", "{ended:#}");
    let parts = site.manager.parts("bad").await;
    assert_eq!(parts[0]["outcome"], "failed", "{parts:#?}");
    let status = node.is_at_rest().await;
    assert_eq!(status.stops.judged, 1, "{status:#?}");
    load.more_calls(100).await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());

    let result = site.manager.result("bad", "s0").await;
    let carried_out = Ledger::executions_of(&ledger, &new) as u64;
    assert!(carried_out > 0);
    assert_eq!(number(&result, "f2_calls"), carried_out, "{result:#}");
    assert_eq!(number(&result, "f2_errors"), carried_out, "{result:#}");
    assert_eq!(lines.all().repeated, carried_out);
    // What was counted of the canary is what was written down of it.
    let given = lines.of_all_but(&status.functions[0].stable.version);
    assert_eq!(given.filter(|line| line["repeated"] == true).count() as u64, carried_out);
    nothing_is_left_but(&site, &node.folder, &base).await;

    let why = &ended["why"];
    assert_eq!((&why["stage"], &why["version"]), (&json!("s0"), &json!(format!("fns/{new}"))), "{ended:#}");
    assert!(why["numbers"].as_str().unwrap().starts_with("errorRate <0.1 is broken: "), "{ended:#}");
    let logs = node.run(&["release", "logs", "bad"]);
    let text = String::from_utf8_lossy(&logs.stdout);
    assert!(text.starts_with(&format!("--- fns/{new} (")), "{text}{}", String::from_utf8_lossy(&logs.stderr));
    assert!(text.contains(" in stage s0 of bad, ") && text.contains("errorRate <0.1 is broken"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ran_before_serves_again_though_nobody_calls() {
    let mut site = Site::start().await;
    let node = site.node("edge", &["agent.keep_base=0s"]).await;
    site.manager.knows(1).await;
    let (base, new) = (site.version(Good), site.version(Good));
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    site.manager.submit(&strategy("r", [&base, &new], &stages(Kind::Wait, &[50], 400), "")).await;
    let ended = site.manager.ended("r").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    nothing_is_left_but(&site, &node.folder, &new).await;

    site.manager.act("r", "rollback").await;
    let ended = site.manager.ended("r-rollback").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    let parts = site.manager.parts("r-rollback").await;
    assert_eq!(parts[0]["outcome"], "succeeded", "{parts:#?}");
    node.is_at_rest().await;
    nothing_is_left_but(&site, &node.folder, &base).await;
    let listed = site.manager.get("/api/v1/deployments").await.unwrap();
    assert_eq!(listed["items"][0]["path"], format!("fns/{base}"), "{listed:#}");
}
