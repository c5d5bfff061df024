//! Health, readiness, metrics, and what is answered where nothing is.

use std::{io::Write as _, process::Stdio};

use crate::{
    provider::real::{missing, program},
    world::{STAGE, World, strategy},
};

#[tokio::test]
async fn a_manager_is_alive_and_ready_until_it_drains() {
    let world = World::start().await;
    assert_eq!(world.get("/healthz").await.ok().text(), "alive\n");
    assert_eq!(world.get("/readyz").await.ok().text(), "ready\n");
    world.manager.engine.view().drain();
    let unready = world.get("/readyz").await;
    assert_eq!(unready.problem(), "503 /problems/not-ready: the manager is stopping");
    assert_eq!(unready.header("retry-after"), "2");
    assert_eq!(world.get("/healthz").await.status, 200);
    world.stop().await;
}

#[tokio::test]
async fn promtool_finds_nothing_in_the_metrics() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.run(&child, "a").await;
    let metrics = world.get("/metrics").await.ok().body;
    let mut command = program("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap_or_else(|error| missing(&error));
    process.stdin.take().unwrap().write_all(&metrics).unwrap();
    let said = process.wait_with_output().unwrap();
    let text = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(said.status.success() && text.is_empty(), "{text}");
    world.stop().await;
}

#[tokio::test]
async fn metrics_are_well_formed_and_count() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    world.poll(&one).await;
    world.fetch(&one, "a").await.ok();
    world.poll(&two).await;
    world.submit(&strategy("b")).await.ok();
    let answer = world.get("/metrics").await.ok();
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let text = answer.text();
    for line in [
        "choirmaster_polls_total 6",
        "choirmaster_fetches_total 1",
        "choirmaster_children 2",
        "choirmaster_silent_children 0",
        "choirmaster_releases{state=\"Running\"} 1",
        "choirmaster_releases{state=\"Planned\"} 1",
        "choirmaster_releases_known 2",
        "choirmaster_release_children{release=\"a\",status=\"Doing\"} 1",
        "choirmaster_release_children{release=\"a\",status=\"Todo\"} 1",
        "choirmaster_offers_not_fetched{release=\"a\"} 0",
        "choirmaster_stuck_stages{release=\"a\"} 0",
        "choirmaster_undos_pending{release=\"a\"} 0",
        "choirmaster_lost_results_total 0",
        "choirmaster_commit_seconds_bucket{le=\"0.00025\"} ",
        "choirmaster_commit_seconds_bucket{le=\"+Inf\"} ",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n{text}");
    }
    // Each family is told before its samples, and each sample belongs to one.
    let mut family = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            help.split_once(' ').unwrap().0.clone_into(&mut family);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            assert_eq!(kind.split_once(' ').unwrap().0, family);
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(&family), "{line}");
            value.parse::<f64>().unwrap();
        }
    }
    world.call("POST", "/api/v1/releases/a/abort").await.ok();
    let text = world.get("/metrics").await.ok().text();
    assert!(text.contains("choirmaster_undos_pending{release=\"a\"} 1"), "{text}");
    world.report(&one, "a", STAGE, 5).await;
    world.stop().await;
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems() {
    let world = World::start().await;
    let mut seen = String::new();
    for (method, path) in [
        ("GET", "/nothing"),
        ("GET", "/api/v1/nothing"),
        ("GET", "/api/v1/releases/"),
        ("GET", "/api/v1/releases/a%2Fb"),
        ("GET", "/api/v1/releases/a%0Ab"),
        ("GET", "/api/v1/releases/%FF"),
        ("PUT", "/api/v1/releases"),
        ("POST", "/metrics"),
        ("GET", "/api/v1/releases/a/pause"),
    ] {
        let answer = world.call(method, path).await;
        seen += &format!("{method} {path}: {} allow {:?}\n", answer.problem(), answer.header("allow"));
    }
    insta::assert_snapshot!(seen, @r#"
    GET /nothing: 404 about:blank: there is no GET /nothing; /openapi.json lists what there is allow ""
    GET /api/v1/nothing: 404 about:blank: there is no GET /api/v1/nothing; /openapi.json lists what there is allow ""
    GET /api/v1/releases/: 404 about:blank: there is no GET /api/v1/releases/; /openapi.json lists what there is allow ""
    GET /api/v1/releases/a%2Fb: 404 /problems/unknown-release: release a/b is not known allow ""
    GET /api/v1/releases/a%0Ab: 404 /problems/unknown-release: release ab is not known allow ""
    GET /api/v1/releases/%FF: 400 about:blank: Invalid URL: Invalid UTF-8 in `id` allow ""
    PUT /api/v1/releases: 405 about:blank: PUT is not a method of this path; see the Allow header allow "GET,HEAD"
    POST /metrics: 405 about:blank: POST is not a method of this path; see the Allow header allow "GET,HEAD"
    GET /api/v1/releases/a/pause: 405 about:blank: GET is not a method of this path; see the Allow header allow "POST"
    "#);
    world.stop().await;
}
