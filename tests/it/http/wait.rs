//! `?wait=30s` at `/poll` and `/end_stage`, over connections of their own.

use std::time::Duration;

use serde_json::{Value, json};
use simulated_children::{FleetConfig, FleetKind};
use sqlx::Connection as _;
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::world::{AREA, STAGE, World, strategy};

/// Far longer than anything here takes, and far shorter than [`LONG`].
const PATIENCE: Duration = Duration::from_secs(40);

/// A waiting call looks again when the lease would end if it were not renewed, 8 to 10 s after its last look: whose wake-up
/// is lost is answered then, and not before.
const BEFORE_ANOTHER_LOOK: Duration = Duration::from_secs(7);

/// A wait that no test sits out.
const LONG: &str = "55s";

/// What was answered, and after how long.
#[derive(Debug)]
struct Answered {
    status: u16,
    body: String,
    after: Duration,
}

impl Answered {
    fn offer(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        body["new_release"].as_str().unwrap().to_owned()
    }
}

/// Begins a call.
fn begin(world: &World, path: &str, body: &Value) -> JoinHandle<Answered> {
    tokio::spawn(answered(world.request("POST", path).json(body)))
}

async fn answered(request: reqwest::RequestBuilder) -> Answered {
    let began = Instant::now();
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    Answered { status, body: answer.text().await.unwrap(), after: began.elapsed() }
}

fn poll(world: &World, id: &str, wait: &str) -> JoinHandle<Answered> {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body = json!({"id": id, "geographic_area": area, "number_of_children": 0});
    begin(world, &format!("/poll?wait={wait}"), &body)
}

fn end_stage(world: &World, child: &str, offer: &str, wait: &str) -> JoinHandle<Answered> {
    let body = json!({"id": child, "strategy_id": offer, "stage_name": STAGE});
    begin(world, &format!("/end_stage?wait={wait}"), &body)
}

/// The answer, which must come long before the wait is over.
#[track_caller]
fn soon(call: JoinHandle<Answered>) -> impl Future<Output = Answered> {
    let at = std::panic::Location::caller();
    async move {
        let answered = timeout(PATIENCE, call).await;
        answered.unwrap_or_else(|_| panic!("{at}: not answered in time")).unwrap()
    }
}

/// Returns once so many calls wait.
async fn waiting(world: &World, count: usize) {
    let began = Instant::now();
    let waiters = &world.manager.engine.view().waiters;
    while waiters.count() != count {
        assert!(began.elapsed() < PATIENCE, "{} wait, not {count}", waiters.count());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn operate(world: &World, action: &str) {
    world.call("POST", &format!("/api/v1/releases/{action}")).await.ok();
}

#[tokio::test]
async fn a_poll_is_answered_when_a_release_is_submitted() {
    let world = World::start().await;
    let child = world.child().await;
    let call = poll(&world, &child, LONG);
    waiting(&world, 1).await;
    let metrics = world.get("/metrics").await.ok().text();
    assert!(metrics.lines().any(|line| line == "choirmaster_waiters 1"), "{metrics}");
    world.submit(&strategy("a")).await.ok();
    let answered = soon(call).await;
    assert_eq!((answered.status, answered.offer().as_str()), (200, "a"));
    waiting(&world, 0).await;
    // What waits already is answered at once.
    assert_eq!(soon(poll(&world, &child, LONG)).await.offer(), "a");
    world.stop().await;
}

#[tokio::test]
async fn waiting_poll_is_answered_on_resume_and_on_rollback() {
    let world = World::start().await;
    let (child, other) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    operate(&world, "a/pause").await;
    let call = poll(&world, &child, LONG);
    waiting(&world, 1).await;
    operate(&world, "a/resume").await;
    assert_eq!(soon(call).await.offer(), "a");
    world.run(&child, "a").await;
    // The release goes on, since the other one has not even begun.
    let call = poll(&world, &child, LONG);
    waiting(&world, 1).await;
    // That the other one begins is no news for this one.
    world.poll(&other).await;
    world.fetch(&other, "a").await.ok();
    waiting(&world, 1).await;
    operate(&world, "a/abort").await;
    assert_eq!(soon(call).await.offer(), "a.undo");
    world.stop().await;
}

#[tokio::test]
async fn a_question_is_answered_when_an_operator_ends_the_stage_or_the_release() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    for id in ["a", "b"] {
        world.submit(&strategy(id)).await.ok();
        for child in [&one, &two] {
            world.poll(child).await;
            world.fetch(child, id).await.ok();
        }
        let calls = [end_stage(&world, &one, id, LONG), end_stage(&world, &two, id, LONG)];
        waiting(&world, 2).await;
        if id == "a" {
            operate(&world, &format!("a/stages/{STAGE}/end")).await;
        } else {
            operate(&world, "b/pause").await;
            waiting(&world, 2).await;
            operate(&world, "b/abort").await;
        }
        for call in calls {
            let answered = soon(call).await;
            assert_eq!((answered.status, answered.body.as_str()), (200, "{\"end_stage\":true}\n"));
        }
        if id == "a" {
            for child in [&one, &two] {
                world.report(child, id, STAGE, 4).await.ok();
                world.roll_out(child, id).await;
            }
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn a_wait_that_ends_is_answered_as_usual_and_its_child_was_heard_of_then() {
    let world = World::start().await;
    let child = world.child().await;
    let last_call = || world.manager.engine.view().children.get(&child).unwrap().last_call().unwrap();
    let before = last_call();
    let answered = soon(poll(&world, &child, "300ms")).await;
    assert_eq!(
        (answered.status, answered.body.as_str()),
        (200, format!("{{\"id\":\"{child}\",\"new_release\":\"\"}}\n").as_str())
    );
    assert!(answered.after >= Duration::from_millis(300), "{answered:?}");
    assert!(last_call() >= before + 300);
    world.submit(&strategy("a")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    let answered = soon(end_stage(&world, &child, "a", "300ms")).await;
    assert_eq!((answered.status, answered.body.as_str()), (200, "{\"end_stage\":false}\n"));
    assert!(answered.after >= Duration::from_millis(300), "{answered:?}");
    waiting(&world, 0).await;
    world.stop().await;
}

#[tokio::test]
async fn a_wait_that_is_no_duration_is_refused_in_one_line() {
    let world = World::start().await;
    let child = world.child().await;
    let mut seen = String::new();
    for query in
        ["wait=", "wait=30", "wait=-1s", "wait=1w", "wait=s", "wait=%00", "wait=1s&wait=2s", "wait=%FF"]
    {
        let answered = soon(begin(&world, &format!("/poll?{query}"), &json!({"id": child}))).await;
        let body = json!({"id": child, "strategy_id": "a", "stage_name": STAGE});
        let question = soon(begin(&world, &format!("/end_stage?{query}"), &body)).await;
        assert_eq!((question.status, &question.body), (answered.status, &answered.body), "{query}");
        seen += &format!("{query} {} {}", answered.status, answered.body);
    }
    let long = soon(begin(&world, &format!("/poll?wait={}", "9".repeat(4_000)), &json!({"id": child}))).await;
    seen += &format!("{} {}", long.status, long.body);
    insta::assert_snapshot!(seen.replace('\u{fffd}', "?"), @r#"
    wait= 400 `wait` is a duration, as in 30s, 1m or 500ms, not ""
    wait=30 400 `wait` is a duration, as in 30s, 1m or 500ms, not "30"
    wait=-1s 400 `wait` is a duration, as in 30s, 1m or 500ms, not "-1s"
    wait=1w 400 `wait` is a duration, as in 30s, 1m or 500ms, not "1w"
    wait=s 400 `wait` is a duration, as in 30s, 1m or 500ms, not "s"
    wait=%00 400 `wait` is a duration, as in 30s, 1m or 500ms, not "\0"
    wait=1s&wait=2s 400 Failed to deserialize query string: duplicate field `wait`
    wait=%FF 400 `wait` is a duration, as in 30s, 1m or 500ms, not "?"
    400 `wait` is a duration, as in 30s, 1m or 500ms, not "9999999999999999999999999999999999999999"
    "#);
    world.stop().await;
}

#[tokio::test]
async fn nobody_waits_longer_than_the_limit_and_no_wait_is_none() {
    let limit = Duration::from_millis(200);
    let world = World::with(|options| options.max_wait = limit).await;
    let child = world.child().await;
    for wait in ["9000d", "1m"] {
        let answered = soon(poll(&world, &child, wait)).await;
        assert!(answered.after >= limit && answered.offer().is_empty(), "{answered:?}");
    }
    world.stop().await;
    let world = World::start().await;
    let child = world.child().await;
    assert_eq!(soon(poll(&world, &child, "0s")).await.offer(), "");
    let area: Value = serde_json::from_str(crate::world::AREA).unwrap();
    let body = json!({"id": child, "geographic_area": area});
    assert_eq!(soon(begin(&world, "/poll?other=30s", &body)).await.offer(), "");
    world.stop().await;
    let world = World::with(|options| options.max_wait = Duration::ZERO).await;
    let child = world.child().await;
    assert_eq!(soon(poll(&world, &child, LONG)).await.offer(), "");
    world.stop().await;
}

#[tokio::test]
async fn whoever_has_to_act_first_is_answered_at_once() {
    let world = World::start().await;
    // A lost answer would leave an id that nobody uses.
    let answered = soon(poll(&world, "", LONG)).await;
    let id = serde_json::from_str::<Value>(&answered.body).unwrap()["id"].as_str().unwrap().to_owned();
    assert!(!id.is_empty());
    // An agent that polls with an offer in hand has lost its result; its next poll makes that sure.
    world.poll(&id).await;
    world.submit(&strategy("a")).await.ok();
    world.poll(&id).await;
    world.fetch(&id, "a").await.ok();
    assert_eq!(soon(poll(&world, &id, LONG)).await.offer(), "");
    assert_eq!(soon(poll(&world, &id, LONG)).await.offer(), "a.undo");
    // What it asks of an unknown stage is refused as ever.
    let body = json!({"id": id, "strategy_id": "a", "stage_name": "other"});
    let refused = soon(begin(&world, &format!("/end_stage?wait={LONG}"), &body)).await;
    assert_eq!((refused.status, refused.body.as_str()), (404, "a has no stage \"other\"\n"));
    world.stop().await;
}

#[tokio::test]
async fn a_shutdown_answers_whoever_waits() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&strategy("a")).await.ok();
    world.poll(&one).await;
    world.fetch(&one, "a").await.ok();
    operate(&world, "a/pause").await;
    let question = end_stage(&world, &one, "a", LONG);
    let call = poll(&world, &two, LONG);
    waiting(&world, 2).await;
    timeout(PATIENCE, world.stop()).await.expect("it stops although somebody waits");
    let (question, answered) = (soon(question).await, soon(call).await);
    assert_eq!((question.status, question.body.as_str()), (200, "{\"end_stage\":false}\n"));
    assert_eq!((answered.status, answered.offer().as_str()), (200, ""));
}

#[tokio::test]
async fn a_lost_lease_answers_whoever_waits() {
    let mut world = World::start().await;
    let child = world.child().await;
    let call = poll(&world, &child, LONG);
    waiting(&world, 1).await;
    let mut store = sqlx::SqliteConnection::connect(&world.store()).await.unwrap();
    sqlx::query("UPDATE lease SET epoch = epoch + 1").execute(&mut store).await.unwrap();
    let answered = soon(call).await;
    assert_eq!(answered.status, 503, "{answered:?}");
    assert!(world.manager.failed().await.to_string().contains("lease"));
}

#[tokio::test]
async fn whoever_goes_away_waits_no_longer() {
    let world = World::start().await;
    let child = world.child().await;
    let mut connections = Vec::new();
    for _ in 0..3 {
        let mut connection = TcpStream::connect(world.manager.address).await.unwrap();
        let body = json!({"id": child, "geographic_area": serde_json::from_str::<Value>(AREA).unwrap()});
        let body = body.to_string();
        let head =
            format!("POST /poll?wait={LONG} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        connections.push(connection);
    }
    waiting(&world, 3).await;
    connections.pop();
    waiting(&world, 2).await;
    drop(connections);
    waiting(&world, 0).await;
    world.stop().await;
}

#[tokio::test]
async fn hundreds_wait_at_once_and_those_beyond_the_limit_are_answered_at_once() {
    const CHILDREN: usize = 300;
    let world = World::with(|options| options.max_waiters = CHILDREN).await;
    let mut children = Vec::new();
    for _ in 0..=CHILDREN {
        children.push(world.child().await);
    }
    let beyond = children.pop().unwrap();
    let calls: Vec<_> = children.iter().map(|child| poll(&world, child, LONG)).collect();
    waiting(&world, CHILDREN).await;
    assert_eq!(soon(poll(&world, &beyond, LONG)).await.offer(), "");
    // The engine and the other calls are as they were.
    assert_eq!(world.get("/readyz").await.status, 200);
    world.submit(&strategy("a")).await.ok();
    for call in calls {
        assert_eq!(soon(call).await.offer(), "a");
    }
    waiting(&world, 0).await;
    world.stop().await;
}

/// In each round polls begin to wait, one a little after the other, while a release is submitted. Each has something to
/// say, so that it goes through the engine first: one in a batch with the submission is answered "nothing" by the engine
/// after the release was published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_comes_while_a_poll_begins_to_wait_is_not_missed() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(AREA).unwrap();
    let mut children = Vec::new();
    for _ in 0..12 {
        children.push(world.child().await);
    }
    for round in 1..=40 {
        let id = format!("r{round}");
        let begin_late = |(place, child): (usize, &String)| {
            let before: Vec<_> = (0..place).map(|_| world.request("GET", "/healthz")).collect();
            let body = json!({"id": child, "geographic_area": area, "number_of_children": round});
            let poll = world.request("POST", &format!("/poll?wait={LONG}")).json(&body);
            tokio::spawn(async move {
                for request in before {
                    request.send().await.unwrap();
                }
                answered(poll).await
            })
        };
        let calls: Vec<_> = children.iter().enumerate().map(begin_late).collect();
        world.submit(&strategy(&id)).await.ok();
        for call in calls {
            let answered = soon(call).await;
            assert_eq!(answered.offer(), id);
            assert!(answered.after < BEFORE_ANOTHER_LOOK, "{answered:?}");
        }
        operate(&world, &format!("{id}/abort")).await;
    }
    world.stop().await;
}

/// A neighbour with the same area registers while this one waits for longer than agents that ask every second are
/// ever silent: nobody is taken for anybody's successor.
#[tokio::test]
async fn a_child_that_waits_is_not_silent() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    let question = end_stage(&world, &child, "a", "4s");
    waiting(&world, 1).await;
    let neighbour = world.child().await;
    assert_eq!(soon(question).await.body, "{\"end_stage\":false}\n");
    assert_eq!(world.poll(&neighbour).await.1, "");
    // It would have been given back, had it been taken: so it counts that nothing was.
    let metrics = world.get("/metrics").await.ok().text();
    assert!(metrics.lines().any(|line| line == "choirmaster_lost_results_total 0"), "{metrics}");
    world.report(&child, "a", STAGE, 4).await.ok();
    world.stop().await;
}

#[tokio::test]
async fn simulated_modern_children_wait_for_a_release_and_run_it() {
    let world = World::start().await;
    let stop = CancellationToken::new();
    let config = FleetConfig {
        url: format!("http://{}", world.manager.address),
        agents: 5,
        kind: FleetKind::Modern,
        pace: 0.01,
        ..FleetConfig::default()
    };
    let fleet = tokio::spawn(simulated_children::run(config, stop.clone(), |_| ()));
    waiting(&world, 5).await;
    world.submit(&strategy("a")).await.ok();
    let began = Instant::now();
    while world.get("/api/v1/releases/a").await.ok().json()["state"] != "Done" {
        assert!(began.elapsed() < PATIENCE, "{}", world.get("/api/v1/releases/a").await.text());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    let report = fleet.await.unwrap().unwrap();
    assert_eq!((report.totals.rolled_out, report.totals.refusals), (5, 0));
    world.stop().await;
}
