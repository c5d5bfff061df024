//! Parents that are plain, odd or broken: nothing is lost, and nothing is changed but what a parent may change.

use std::io::{Cursor, Write as _};

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use zip::write::SimpleFileOptions;

use super::{
    levels::{Agents, below_url, ended, parent},
    plain::{Manners, Offer, PlainParent},
};
use crate::deadline::{DEADLINE, until};
use choirmaster::app;

use crate::world::{STAGE, World, strategy, summary};

use std::time::Duration;

/// A release as a plain parent hands it out.
pub async fn offer(id: &'static str) -> Offer {
    offer_of(id, strategy(id)).await
}

async fn offer_of(id: &'static str, yaml: String) -> Offer {
    let store = World::start().await;
    let child = store.child().await;
    store.submit(&yaml).await.ok();
    let zip = store.get(&format!("/release/functions/{id}?childID={child}")).await.ok().body;
    store.stop().await;
    Offer { id, yaml, zip }
}

/// Looks at the parent until it saw what is expected.
pub async fn seen(parent: &PlainParent, what: &str, is_expected: impl Fn(&PlainParent) -> bool) {
    let looking = async {
        while !is_expected(parent) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let found = timeout(DEADLINE, looking).await;
    assert!(found.is_ok(), "{what}: {:?}", parent.script());
}

/// Behaves badly in every way for some calls each, and well after each.
async fn through_all_troubles(parent: &PlainParent) {
    for manners in Manners::BAD {
        for (manners, calls) in [(manners, 3), (Manners::Good, 1)] {
            parent.behave(manners);
            seen(parent, "calls", |parent| parent.script().calls >= calls).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_parent_sees_an_agent_with_children() {
    let parent = PlainParent::start().await;
    let middle = below_url(parent.url()).await;
    let agents = Agents::below(&middle, false);
    seen(&parent, "agents", |parent| {
        parent.script().polls.last().is_some_and(|p| p["number_of_children"] == 6)
    })
    .await;
    parent.script().offer = Some(offer("21").await);
    seen(&parent, "a stage that waits", |parent| parent.statuses() == [2]).await;
    parent.script().ends = true;
    assert_eq!(ended(&middle, "21").await, "Done");
    seen(&parent, "the result", |parent| parent.statuses() == [2, 4]).await;
    assert_eq!(agents.end().await.totals.rolled_out, 6);
    {
        let script = parent.script();
        let polls = &script.polls;
        assert_eq!(polls[0]["id"], "");
        assert!(polls[1..].iter().all(|poll| poll["id"] == "7"), "a number is kept as it was written");
        assert!(polls.iter().all(|poll| poll["geographic_area"]["type"] == "Polygon"));
        assert!(script.results.iter().all(|result| result["stage_summaries"][0]["stage_name"] == STAGE));
        assert!(!script.paths.iter().any(|path| path.contains("wait=")), "{:?}", script.paths);
    }
    middle.stop().await;
}

/// Who doesn't read groups of users would take their calls for independent ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_parent_is_told_no_strata_of_calls_that_depend_on_each_other() {
    let parent = PlainParent::start().await;
    let middle = below_url(parent.url()).await;
    let children = [middle.child().await, middle.child().await];
    parent.script().offer = Some(offer("21").await);
    let counts = json!({"f1_calls": 950, "f1_errors": 1, "f2_calls": 50, "f2_errors": 0});
    for (child, group) in children.iter().zip([Some(7), None]) {
        middle.offered(child).await;
        middle.fetch(child, "21").await.ok();
        let (mut summary, mut stratum) = (summary(STAGE, 2), counts.clone());
        if let Some(group) = group {
            stratum["group"] = json!(group);
        }
        summary["strata"] = json!([stratum]);
        let body = json!({"id": child, "release_id": "21", "stage_summaries": [summary], "next_stage": ""});
        middle.post("/result", &body).await.ok();
    }
    seen(&parent, "a stage that waits", |parent| parent.statuses() == [2]).await;
    {
        let told = parent.script().results[0]["stage_summaries"][0].clone();
        let strata = told["strata"].as_array().unwrap();
        assert_eq!((strata.len(), &strata[0]["f1_calls"]), (1, &json!(950)), "{told:#}");
        assert!(!told.to_string().contains("group") && !told.to_string().contains("assignment"), "{told:#}");
    }
    middle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_in_trouble_loses_nothing_and_changes_nothing() {
    let parent = PlainParent::start().await;
    let middle = below_url(parent.url()).await;
    let child = middle.child().await;

    // While it registers.
    through_all_troubles(&parent).await;
    seen(&parent, "a registration", |parent| parent.script().polls.iter().any(|poll| poll["id"] == "7"))
        .await;
    let ready = || async { middle.get("/readyz").await.ok().text() };
    parent.behave(Manners::Fails);
    seen(&parent, "calls", |parent| parent.script().calls >= 2).await;
    assert_eq!(ready().await, "ready\nthe manager above does not answer; 0 results wait for it\n");

    // While it hands out a release.
    parent.script().offer = Some(offer("22").await);
    through_all_troubles(&parent).await;
    middle.until("/api/v1/releases/22", |shown| shown["state"] == "Running").await;
    let before = middle.get("/api/v1/releases/22").await.ok().json();

    // While children work.
    middle.poll(&child).await;
    middle.fetch(&child, "22").await.ok();
    through_all_troubles(&parent).await;
    let after = middle.get("/api/v1/releases/22").await.ok().json();
    assert_eq!(after["state"], before["state"]);
    assert_eq!(after["strategy"], before["strategy"]);

    // While a result is owed.
    parent.behave(Manners::Fails);
    middle.report(&child, "22", STAGE, 5).await.ok();
    assert_eq!(ended(&middle, "22").await, "RolledBack");
    look_until_metric(&middle, "choirmaster_parent_unsent_results 1").await;
    through_all_troubles(&parent).await;
    seen(&parent, "the result", |parent| !parent.statuses().is_empty()).await;
    look_until_metric(&middle, "choirmaster_parent_unsent_results 0").await;
    look_until_metric(&middle, "choirmaster_parent_up 1").await;
    let releases = middle.get("/api/v1/releases").await.ok().json();
    assert_eq!(releases["items"].as_array().unwrap().len(), 1, "{releases:#}");
    middle.stop().await;
}

/// The numbers of a result are read from the history when it is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_leaves_the_history_while_a_result_is_owed_to_the_parent() {
    let above = PlainParent::start().await;
    let url = above.url();
    let settings = move |options: &mut app::Options| {
        options.parent = Some(parent(url));
        options.task.history_retention = Some(Duration::from_millis(1));
    };
    let middle = World::with(settings.clone()).await;
    let child = middle.child().await;
    // Nobody runs it, and nothing is compared with it: it could go at once.
    let old = strategy("old") + "target: {labels: {tier: nowhere}}\n";
    middle.submit(&old).await.ok();
    assert_eq!(ended(&middle, "old").await, "NoParticipants");
    above.script().offer = Some(offer("26").await);
    middle.until("/api/v1/releases/26", |shown| shown["state"] == "Running").await;
    middle.poll(&child).await;
    middle.fetch(&child, "26").await.ok();
    above.behave(Manners::Fails);
    middle.report(&child, "26", STAGE, 5).await.ok();
    assert_eq!(ended(&middle, "26").await, "RolledBack");
    look_until_metric(&middle, "choirmaster_parent_unsent_results 1").await;

    // It is looked at when a manager starts.
    let middle = middle.restart_with(settings.clone()).await;
    above.behave(Manners::Fails);
    seen(&above, "calls", |parent| parent.script().calls >= 5).await;
    assert_eq!(middle.get("/api/v1/releases/old").await.status, 200);
    above.behave(Manners::Good);
    seen(&above, "the result", |parent| parent.statuses().contains(&5)).await;
    look_until_metric(&middle, "choirmaster_parent_unsent_results 0").await;
    let middle = middle.restart_with(settings).await;
    until("the release", async || middle.get("/api/v1/releases/old").await.status, |status| *status == 404)
        .await;
    middle.stop().await;
}

pub async fn look_until_metric(world: &World, line: &str) {
    let of_parents = async || {
        let metrics = world.get("/metrics").await.ok().text();
        metrics.lines().filter(|line| line.contains("parent")).map(str::to_owned).collect::<Vec<_>>()
    };
    until(line, of_parents, |lines| lines.iter().any(|found| found == line)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parent_that_forgot_manager_assigns_new_id_and_receives_results() {
    let parent = PlainParent::start().await;
    let middle = below_url(parent.url()).await;
    let child = middle.child().await;
    parent.script().offer = Some(offer("23").await);
    middle.until("/api/v1/releases/23", |shown| shown["state"] == "Running").await;
    parent.script().child = 8;
    parent.behave(Manners::Forgot);
    middle.poll(&child).await;
    middle.fetch(&child, "23").await.ok();
    middle.report(&child, "23", STAGE, 5).await.ok();
    assert_eq!(ended(&middle, "23").await, "RolledBack");
    seen(&parent, "the result", |parent| !parent.script().results.is_empty()).await;
    assert!(parent.script().results.iter().all(|result| result["id"] == "8"), "{:?}", parent.script());
    middle.stop().await;
}

/// Whoever stands between may refuse for a parent that believes since that the offer was taken, and shows it no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offer_that_is_refused_once_is_asked_for_again() {
    let parent = PlainParent::start().await;
    let middle = below_url(parent.url()).await;
    middle.child().await;
    parent.behave(Manners::Denies);
    parent.script().offer = Some(offer("24").await);
    let is_asked = |path: &String| path.starts_with("/release");
    seen(&parent, "a download", |parent| parent.script().paths.iter().any(is_asked)).await;
    parent.behave(Manners::Hides);
    middle.until("/api/v1/releases/24", |shown| shown["state"] == "Running").await;
    middle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_release_under_an_id_that_came_before_is_an_error_and_changes_nothing() {
    let parent = PlainParent::start().await;
    let middle = below_url(parent.url()).await;
    let child = middle.child().await;
    parent.script().offer = Some(offer("24").await);
    middle.until("/api/v1/releases/24", |shown| shown["state"] == "Running").await;
    let before = middle.get("/api/v1/releases/24").await.ok().json();
    middle.poll(&child).await;
    middle.fetch(&child, "24").await.ok();
    middle.report(&child, "24", STAGE, 5).await.ok();
    seen(&parent, "the result", |parent| parent.statuses() == [5]).await;

    let offered = parent.script().offer.take().unwrap();
    let yaml = offered.yaml.replace("trafficPercentage: 95", "trafficPercentage: 90");
    let yaml = yaml.replace("trafficPercentage: 5\n", "trafficPercentage: 10\n");
    assert_ne!(yaml, offered.yaml);
    parent.script().offer = Some(Offer { yaml, ..offered });
    let url = parent.url();
    let middle = middle.restart_with(|options| options.parent = Some(super::levels::parent(url))).await;
    seen(&parent, "an error", |parent| parent.statuses().last() == Some(&6)).await;
    let after = middle.get("/api/v1/releases/24").await.ok().json();
    assert_eq!(after["strategy"], before["strategy"]);
    assert_eq!(count(&middle).await, 1);
    middle.stop().await;
}

/// The stages of [`several_stages`].
const STAGES: [&str; 3] = [STAGE, "Second", "Third"];

/// The canary with two more stages: the one in the middle ends by itself.
fn several_stages(id: &str) -> String {
    let text = strategy(id);
    let (from, to) =
        (text.find("stages:\n").unwrap() + "stages:\n".len(), text.find("\nrollback:").unwrap() + 1);
    let stage = &text[from..to];
    let on = |name: &str, next: &str| {
        let next = format!("onSuccess: {next}");
        stage.replace(STAGE, name).replace("onSuccess: rollout", &next)
    };
    let second = on("Second", "Third").replace("type: WaitForSignal", "type: A/B");
    format!("{}{}{second}{}{}", &text[..from], on(STAGE, "Second"), on("Third", "rollout"), &text[to..])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_to_plain_parent_name_next_stage_and_all_end() {
    let parent = PlainParent::start().await;
    let middle = below_url(parent.url()).await;
    let agents = Agents::below(&middle, false);
    let offered = offer_of("25", several_stages("25")).await;
    {
        let mut script = parent.script();
        script.stages = STAGES.iter().map(|name| ((*name).to_owned(), 0)).collect();
        (script.offer, script.ends) = (Some(offered), true);
    }
    assert_eq!(ended(&middle, "25").await, "Done");
    seen(&parent, "the end of the part", |parent| parent.script().part == "Done").await;
    assert_eq!(agents.end().await.totals.rolled_out, 6);
    {
        let script = parent.script();
        assert!(script.stages.iter().all(|(_, status)| *status == 4), "{:?}", script.stages);
        let completed = script.results.iter().filter(|result| result["stage_summaries"][0]["status"] == 4);
        let next: Vec<(&Value, &Value)> =
            completed.map(|result| (&result["next_stage"], &result["stage_summaries"][0])).collect();
        let named: Vec<&str> = next.iter().map(|(next, _)| next.as_str().unwrap()).collect();
        assert_eq!(named, ["Second", "Third", ""]);
        // The reference document has it in the summary.
        assert_eq!(next[0].1["next_stage"], "Second");
    }
    middle.stop().await;
}

/// As a parent that lost its memory does, or one that counts another stage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn part_rejected_by_parent_ends_with_reason_and_queue_continues() {
    let parent = PlainParent::start().await;
    let middle = below_url(parent.url()).await;
    let child = middle.child().await;
    let offered = offer("26").await;
    {
        let mut script = parent.script();
        script.stages = vec![("Another".to_owned(), 0)];
        script.offer = Some(offered);
    }
    middle.until("/api/v1/releases/26", |shown| shown["state"] == "Running").await;
    middle.submit(&strategy("behind")).await.ok();
    middle.poll(&child).await;
    middle.fetch(&child, "26").await.ok();
    middle.report(&child, "26", STAGE, 2).await.ok();
    let shown = middle.until("/api/v1/releases/26", |shown| shown["state"] == "RollingBack").await;
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.starts_with("the manager above refuses to hear of it (40"), "{reason}");
    middle.end_stage(&child, "26", STAGE).await.ok();
    middle.report(&child, "26", STAGE, 4).await;
    for _ in 0..3 {
        let (_, undo) = middle.poll(&child).await;
        if undo == "26.undo" {
            middle.fetch(&child, &undo).await.ok();
            middle.report(&child, &undo, "choirmaster undo", 4).await.ok();
            break;
        }
    }
    assert_eq!(ended(&middle, "26").await, "RolledBack");
    middle.until("/api/v1/releases/behind", |shown| shown["state"] == "Running").await;
    middle.stop().await;
}

async fn count(world: &World) -> usize {
    let releases: Value = world.get("/api/v1/releases").await.ok().json();
    releases["items"].as_array().unwrap().len()
}

/// Once a manager took no more than 32 MiB of them, within 30 seconds, and from the beginning each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_functions_come_over_a_line_that_breaks() {
    let parent = PlainParent::start().await;
    let mut offered = offer("21").await;
    let mut zip = zip::ZipWriter::new_append(Cursor::new(offered.zip)).unwrap();
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("fns/sieve_base/large", stored).unwrap();
    let large: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(2 << 20).collect();
    zip.write_all(&large).unwrap();
    offered.zip = zip.finish().unwrap().into_inner();
    parent.script().offer = Some(offered);
    parent.behave(Manners::BreaksOff);
    let mut settings = super::levels::parent(parent.url());
    let (downloads, most) = (tempfile::tempdir().unwrap(), 64 << 20);
    settings.downloads = downloads.path().to_owned();
    let limits = &mut settings.archive_limits;
    (limits.upload_bytes, limits.file_bytes, limits.unpacked_bytes) = (most, most, 2 * most);
    let middle = World::with(|options| options.parent = Some(settings)).await;
    let agents = Agents::below(&middle, false);
    middle.until("/api/v1/releases/21", |_| true).await;
    let asked =
        || parent.script().paths.iter().filter(|path| path.starts_with("/release/functions/")).count();
    assert_eq!(asked(), 3, "a third at a time");
    assert_eq!(std::fs::read_dir(&downloads).unwrap().count(), 0, "nothing is left of it");
    agents.end().await;
    middle.stop().await;
}

/// What is larger than the operator lets in is told to the one that offers it, and not asked for again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_are_too_large_are_an_error_that_the_parent_is_told() {
    let parent = PlainParent::start().await;
    parent.script().offer = Some(offer("21").await);
    let mut settings = super::levels::parent(parent.url());
    settings.archive_limits.upload_bytes = 100;
    let middle = World::with(|options| options.parent = Some(settings)).await;
    let agents = Agents::below(&middle, false);
    seen(&parent, "a result", |parent| !parent.script().results.is_empty()).await;
    assert_eq!(parent.statuses(), [6]);
    agents.end().await;
    middle.stop().await;
}
