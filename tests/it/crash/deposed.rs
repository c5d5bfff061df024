//! A leader that stood still while another manager took over says nothing any more: frozen with a commit in flight and
//! woken, it learns that the commit succeeded, and that is old news.

use std::{net::SocketAddr, process::Command, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    operator::sample,
    server::{Server, Start, tail},
};
use crate::store::place::{Kind, Place};

/// Pairs of managers at once; each has a store of its own.
const PAIRS: usize = 6;

/// A lease lives ten seconds, and a standby looks once a second.
const TAKE_OVER: Duration = Duration::from_secs(40);

/// A leader that has woken ends within this time.
const END: Duration = Duration::from_mins(1);

/// Longest wait for something that is about to happen.
const SOON: Duration = Duration::from_mins(1);

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.34,52.49],[13.47,52.49],[13.47,52.55],[13.34,52.49]]]}"#;

/// A call as bytes. Raw, because a call to a frozen process must be known to have been sent.
#[derive(Debug, Clone)]
struct Call {
    what: String,
    bytes: Vec<u8>,
}

impl Call {
    fn get(path: &str) -> Self {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        Self { what: format!("GET {path}"), bytes: head.into_bytes() }
    }

    fn post(path: &str, body: &str, kind: &str) -> Self {
        let length = body.len();
        let text = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        Self { what: format!("POST {path} {body}"), bytes: text.into_bytes() }
    }

    fn json(path: &str, body: &Value) -> Self {
        Self::post(path, &body.to_string(), "application/json")
    }

    fn poll(id: &str) -> Self {
        let area: Value = serde_json::from_str(AREA).unwrap();
        Self::json("/poll", &json!({"id": id, "geographic_area": area, "number_of_children": 0}))
    }

    /// Hands it to the system, which keeps it for a process that stands still.
    async fn send(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(to).await?;
        stream.write_all(&self.bytes).await?;
        Ok(stream)
    }

    /// Status and body; `None`: the connection ended without an answer.
    async fn answer(mut stream: TcpStream) -> Option<(u16, String)> {
        let mut bytes = Vec::new();
        timeout(END, stream.read_to_end(&mut bytes)).await.expect("neither an answer nor an end").ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        Some((status, body))
    }

    async fn done(&self, to: SocketAddr) -> Value {
        let answered = Self::answer(self.send(to).await.unwrap()).await;
        let (status, body) = answered.unwrap_or_else(|| panic!("{}: no answer", self.what));
        assert!((200..300).contains(&status), "{}: {status} {body}", self.what);
        serde_json::from_str(&body).unwrap_or_default()
    }
}

fn signal(server: &Server, name: &str) {
    let pid = server.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// Children of a leader, one at each point where a call reads.
struct Scene {
    release: String,
    /// Has nothing.
    idle: String,
    /// Was offered the release.
    offered: String,
    /// Has downloaded it.
    busy: String,
    stage: String,
}

impl Scene {
    async fn new(leader: SocketAddr) -> Self {
        let offered = Self::register(leader).await;
        let busy = Self::register(leader).await;
        let (release, text) = ("22".to_owned(), sample("canary", "22"));
        let stage = language::check(&text).strategy.unwrap().stages[0].name.clone();
        Call::post("/release", &text, "application/yaml").done(leader).await;
        for child in [&offered, &busy] {
            assert_eq!(Call::poll(child).done(leader).await["new_release"], release.as_str());
        }
        Call::get(&format!("/release?childID={busy}&releaseID={release}")).done(leader).await;
        let idle = Self::register(leader).await;
        Self { release, idle, offered, busy, stage }
    }

    async fn register(leader: SocketAddr) -> String {
        let answer = Call::poll("").done(leader).await;
        let id = answer["id"].as_str().unwrap().to_owned();
        Call::poll(&id).done(leader).await;
        id
    }

    /// Everything that may be answered from what is in memory.
    fn reads(&self) -> Vec<Call> {
        let Self { release, idle, offered, busy, stage } = self;
        let end_stage = |stage: &str| json!({"id": busy, "strategy_id": release, "stage_name": stage});
        vec![
            Call::json("/end_stage", &end_stage(stage)),
            Call::poll(offered),
            Call::get(&format!("/release?childID={busy}&releaseID={release}")),
            Call::get(&format!("/release?childID={offered}&releaseID={release}")),
            Call::poll(idle),
            Call::json("/end_stage", &end_stage("rollout")),
            Call::get(&format!("/api/v1/releases/{release}")),
            Call::get("/api/v1/children"),
            Call::get("/readyz"),
            Call::get("/release/functions/23"),
        ]
    }
}

/// Makes a call that writes, freezes the leader when the store has the write and the leader not yet its answer.
async fn freeze_with_a_commit_in_flight(place: &Place, leader: &Server, scene: &Scene) {
    let mut other = PgConnection::connect(&place.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM lease FOR UPDATE").execute(&mut *lock).await.unwrap();
    let times = json!({"median": 8.5, "minimum": 6.7, "maximum": 10.4});
    let summary = json!({"stage_name": scene.stage, "proxy_times": times, "f1_times_summary": times,
        "f2_times_summary": times, "f1_err_rate": 0, "f2_err_rate": 0, "status": 2});
    let result = json!({"id": scene.busy, "release_id": scene.release, "stage_summaries": [summary],
        "next_stage": ""});
    let unanswered = Call::json("/result", &result).send(leader.address).await.unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until(&place.url, waits, 1).await;
    signal(leader, "-STOP");
    lock.commit().await.unwrap();
    until(&place.url, waits, 0).await;
    // Whatever is said of it, it was asked before.
    drop(unanswered);
}

async fn until(url: &str, sql: &'static str, expected: i64) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let looking = async {
        while sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut conn).await.unwrap() != expected {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, looking).await.expect("it does not come to that");
}

/// Has a leader deposed, and lists what it said afterwards.
async fn said_after_a_take_over(place: &Place, in_flight: bool) -> Vec<String> {
    let first = Start { set: Vec::new(), ..Start::on(place) };
    let leader = first.listening().await;
    let standby =
        Start { log: first.log.with_extension("standby"), flags: vec!["--standby"], ..first.clone() };
    let waiting = tokio::spawn(standby.spawn().listening());
    let scene = Scene::new(leader.address).await;
    if in_flight {
        freeze_with_a_commit_in_flight(place, &leader, &scene).await;
    } else {
        signal(&leader, "-STOP");
    }
    let taken = timeout(TAKE_OVER, waiting).await.expect("the standby does not take over").unwrap();
    let next = taken.unwrap_or_else(|status| panic!("it ended: {status}\n{}", tail(&standby.log)));
    let abort = format!("/api/v1/releases/{}/abort", scene.release);
    Call::json(&abort, &json!({})).done(next.address).await;
    let reads = scene.reads();
    let sent = join_all(reads.iter().map(|call| call.send(leader.address))).await;
    signal(&leader, "-CONT");
    let mut said = Vec::new();
    let mut note = |call: &Call, answer: Option<(u16, String)>| match answer {
        None | Some((503, _)) => {}
        Some((status, body)) => said.push(format!("{}: {status} {body}", call.what)),
    };
    for (call, stream) in reads.iter().zip(sent) {
        note(call, Call::answer(stream.unwrap()).await);
    }
    let asking_on = async {
        while let Ok(stream) = reads[0].send(leader.address).await {
            note(&reads[0], Call::answer(stream).await);
        }
    };
    timeout(END, asking_on).await.expect("the leader does not notice that it is one no more");
    // The new one has what the old one was told.
    let shown = Call::get(&format!("/api/v1/releases/{}", scene.release)).done(next.address).await;
    assert_eq!(shown["id"], scene.release.as_str(), "{shown}");
    next.kill();
    leader.kill();
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stood_still_through_a_take_over_says_nothing_any_more() {
    let said = Place::several(Kind::Postgres, PAIRS, async |places: &[Place]| {
        let pairs = places.iter().zip(1..);
        join_all(pairs.map(|(place, pair)| said_after_a_take_over(place, pair % 3 != 0))).await.concat()
    });
    let said = said.await;
    assert!(said.is_empty(), "{}", said.join("\n"));
}
