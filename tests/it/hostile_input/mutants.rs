//! Tens of thousands of valid requests and strategies with something changed in them. None is answered by an error of
//! ours, none makes anything panic, and none takes long.
//!
//! The same seed makes the same requests. `CHOIRMASTER_DOORS_MUTANTS` and `CHOIRMASTER_DOORS_SEED` set how many and which.

use std::{
    fs,
    net::SocketAddr,
    panic,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime,
    time::{Instant, timeout},
};

use super::routes;
use crate::{
    deadline::DEADLINE,
    world::{AREA, STAGE, World, strategy, summary},
};

/// Requests of an ordinary run.
const MUTANTS: u64 = 50_000;

/// Connections at once.
const CONNECTIONS: u64 = 8;

/// One of so many is changed as a whole, its head too, and sent on a connection of its own.
const WHOLE_OF: u64 = 40;

/// What takes longer is asked again by itself; if it always takes longer, it is too slow.
const SLOW: Duration = Duration::from_secs(1);
const SLOW_TRIES: u32 = 4;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// Random numbers that are the same in every run (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A request before something is changed in it.
#[derive(Debug, Clone)]
struct Seed {
    method: &'static str,
    target: String,
    kind: &'static str,
    body: Vec<u8>,
}

fn seed(method: &'static str, target: &str, kind: &'static str, body: impl Into<Vec<u8>>) -> Seed {
    Seed { method, target: target.to_owned(), kind, body: body.into() }
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Calls of children and of operators.
fn calls(kid: &str) -> Vec<Seed> {
    let poll = |id: &str, more: &str| {
        format!(r#"{{"id":"{id}","geographic_area":{AREA},"number_of_children":0{more}}}"#)
    };
    let manager = r#","kind":"rm","name":"m","capabilities":{"runtimes":["python"],"labels":{"a":"b"}},"rm_ids":["x"],"held":[]"#;
    let report = |status| {
        json!({"id": kid, "release_id": "a", "stage_summaries": [summary(STAGE, status)], "next_stage": ""})
            .to_string()
    };
    let older = format!(
        r#"{{"id":"{kid}","release_id":21,"stage_summaries":[{{"ProxyTimes":{{"Median":1,"Minimum":1,"Maximum":2}},
        "F1ErrRate":0.5,"status":"Completed","next_stage":"b","f1_calls":10,"f1_errors":1,
        "f2_histogram":{{"bounds_ms":[1,2,5],"counts":[1,2,3,4]}},"strata":[{{"split":5,"interval":1,"f1_calls":3}}]}}]}}"#
    );
    let note = r#"{"by":"ada","note":"because"}"#;
    let intents = r#"{"intents":[{"intent":"intent:migrate:x","value":"a,b"},{"intent":"intent:cordon:x","value":"yes"}]}"#;
    let mut seeds = vec![
        seed("POST", "/poll", JSON, poll(kid, "")),
        seed("POST", "/poll", JSON, poll(kid, manager)),
        seed("POST", "/poll?wait=1ms", JSON, poll(kid, "")),
        seed("POST", "/poll", JSON, poll("", "")),
        seed("GET", &format!("/release?childID={kid}&releaseID=a"), "", ""),
        seed("GET", &format!("/release/functions/a?childID={kid}"), "", ""),
        seed("POST", "/result", JSON, report(2)),
        seed("POST", "/result", JSON, report(4)),
        seed("POST", "/result", JSON, older),
        seed(
            "POST",
            "/end_stage?wait=1ms",
            JSON,
            json!({"id": kid, "strategy_id": "a", "stage_name": STAGE}).to_string(),
        ),
        seed(
            "POST",
            "/answers",
            JSON,
            json!({"id": kid, "answers": [{"id": "q", "body": {"a": [1]}}]}).to_string(),
        ),
        seed(
            "PUT",
            &format!("/api/v1/children/{kid}/labels/tier"),
            JSON,
            r#"{"value":"edge","by":"ada","note":"n"}"#,
        ),
    ];
    let child = format!("/api/v1/children/{kid}");
    for (method, target, body) in [
        ("POST", "/api/v1/releases/a/pause", note),
        ("POST", "/api/v1/releases/a/resume", note),
        ("POST", "/api/v1/releases/a/approve", note),
        ("POST", "/api/v1/releases/b/abort", note),
        ("POST", "/api/v1/releases/a/stages/x/skip", note),
        ("POST", "/api/v1/releases/a/children/x/retry", note),
        ("GET", "/api/v1/releases?state=Running&function=sieve&limit=10&after=3", ""),
        ("GET", "/api/v1/releases/a", ""),
        ("GET", "/api/v1/releases/a/children?status=Doing&outcome=failed&stage=x&limit=5&after=1", ""),
        ("GET", "/api/v1/releases/a/strategy", ""),
        ("GET", "/api/v1/children?label=tier:edge&kind=agent&cordon=open&silent_for=5m&limit=3&after=0", ""),
        ("GET", child.as_str(), ""),
        ("DELETE", "/api/v1/children/nobody?force=true", note),
        ("POST", "/api/v1/intents", intents),
        ("GET", "/api/v1/deployments?function=sieve&limit=7&after=1:sieve", ""),
        ("GET", "/api/v1/audit?release=a&after=1-0&limit=9", ""),
        ("GET", "/api/v1/callers/unknown?limit=2&after=1", ""),
        ("GET", "/metrics", ""),
        ("GET", "/readyz", ""),
    ] {
        seeds.push(seed(method, target, if body.is_empty() { "" } else { JSON }, body));
    }
    seeds
}

/// Every sample, to be checked, planned, and sent with a zip.
fn strategies() -> Vec<Seed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("releases");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yml"));
    paths.sort();
    let mut seeds = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path).unwrap();
        let parts = format!(
            "--x\r\ncontent-disposition: form-data; name=\"strategy\"\r\n\r\n{text}\r\n\
             --x\r\ncontent-disposition: form-data; name=\"functions\"; filename=\"fns.zip\"\r\n\r\nPK\u{3}\u{4}\r\n--x--\r\n"
        );
        seeds.push(seed("POST", "/release?dry_run=true&by=ada", YAML, text.clone()));
        seeds.push(seed("POST", "/api/v1/plan?children=all&limit=2", YAML, text));
        seeds.push(seed("POST", "/release?dry_run=true", "multipart/form-data; boundary=x", parts));
    }
    seeds
}

/// What is put where something else was.
const WORDS: &[&[u8]] = &[
    b"null",
    b"-1",
    b"0",
    b"1e999",
    b"-0.0",
    b"18446744073709551616",
    b"9223372036854775807",
    b"4294967296",
    b"0.1e-400",
    b"true",
    b"[]",
    b"{}",
    b"\"\"",
    b"[[[[[[[[[[[[[[[[",
    b"{\"a\":",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\xff\xfe",
    b"\xf0\x9f",
    b"\xe2\x80\xae",
    b"\x1b[2J",
    b"../../..",
    b"%00",
    b"%2e%2e",
    b"&a",
    b"*a",
    b"<<: *a",
    b"- - - -",
    b"!!binary x",
    b"\t",
    b"\r\n",
    b": ",
    b"'",
    b"|\n",
    b"100%",
    b"1h99999999h",
    b"NaN",
    b"id",
    b"-----------------------------",
];

/// Changes something in some bytes.
fn mutate(bytes: &mut Vec<u8>, others: &[Seed], dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len() + 1);
        let until = (at + dice.below(24)).min(bytes.len());
        match dice.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 => drop(bytes.drain(at..until)),
            2 => bytes.truncate(at),
            3 => {
                let piece = bytes[at..until].to_vec();
                drop(bytes.splice(at..at, piece.repeat(1 + dice.below(4))));
            }
            4 => {
                let other = &dice.one(others).body;
                let from = dice.below(other.len() + 1);
                let piece = other[from..(from + dice.below(200)).min(other.len())].to_vec();
                drop(bytes.splice(at..until, piece));
            }
            5 => number(bytes, at, dice),
            _ => drop(bytes.splice(at..until, dice.one(WORDS).iter().copied())),
        }
    }
}

/// Puts another number, or something else, where the next number is.
fn number(bytes: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|place| at + place) else { return };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    drop(bytes.splice(start..start + length, dice.one(WORDS).iter().copied()));
}

/// A request whose head is in order.
fn framed(seed: &Seed) -> Vec<u8> {
    let target: String = seed.target.chars().map(|c| if c.is_ascii_graphic() { c } else { '+' }).collect();
    let kind = if seed.kind.is_empty() { String::new() } else { format!("content-type: {}\r\n", seed.kind) };
    let head = format!(
        "{} {target} HTTP/1.1\r\nhost: localhost\r\n{kind}content-length: {}\r\n\r\n",
        seed.method,
        seed.body.len()
    );
    [head.as_bytes(), &seed.body].concat()
}

fn mutant(calls: &[Seed], strategies: &[Seed], dice: &mut Dice) -> Vec<u8> {
    // A strategy takes longer than anything else.
    let kinds = if dice.below(10) == 0 { strategies } else { calls };
    let mut seed = dice.one(kinds).clone();
    match dice.below(12) {
        0 | 1 => {
            let mut target = seed.target.into_bytes();
            mutate(&mut target, calls, dice);
            seed.target = format!("/{}", String::from_utf8_lossy(&target).trim_start_matches('/'));
        }
        2 => {
            seed.kind =
                *dice.one(&["", JSON, YAML, "text/plain", "multipart/form-data; boundary=x", "image/png"]);
        }
        3 => seed.method = *dice.one(&["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]),
        _ => {}
    }
    mutate(&mut seed.body, kinds, dice);
    // An answer without an end.
    if is_endless(&seed.target) {
        "/healthz".clone_into(&mut seed.target);
    }
    framed(&seed)
}

fn is_endless(text: &str) -> bool {
    routes::ENDLESS.iter().any(|path| text.contains(path.rsplit('}').next().unwrap()))
}

/// An answer, as much of it as is looked at.
struct Said {
    status: u16,
    /// Whether another request may follow on the connection.
    goes_on: bool,
}

/// A connection that is made anew where it ends.
struct Line {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Line {
    async fn ask(&mut self, request: &[u8]) -> Option<Said> {
        let is_new = self.stream.is_none();
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.address).await.unwrap(),
        };
        let head_only = request.starts_with(b"HEAD ");
        let _ = stream.write_all(request).await;
        match Box::pin(read(&mut stream, head_only)).await {
            Some(said) => {
                self.stream = said.goes_on.then_some(stream);
                Some(said)
            }
            None if is_new => None,
            // It ended before the request was there.
            None => Box::pin(self.ask(request)).await,
        }
    }
}

async fn read(stream: &mut TcpStream, head_only: bool) -> Option<Said> {
    let (mut bytes, mut part) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let count = timeout(DEADLINE, stream.read(&mut part)).await.expect("an answer in time").unwrap_or(0);
        bytes.extend_from_slice(&part[..count]);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let status = head.split(' ').nth(1)?.parse().ok()?;
            let length =
                head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            let length: usize =
                if head_only || matches!(status, 204 | 304) { 0 } else { length.unwrap_or(0) };
            let is_chunked = head.contains("transfer-encoding: chunked") && !bytes.ends_with(b"0\r\n\r\n");
            let is_whole = bytes.len() >= end + 4 + length && (!is_chunked || head_only);
            let goes_on = is_whole && count > 0 && !head.contains("connection: close");
            if is_whole || count == 0 {
                return Some(Said { status, goes_on });
            }
        } else if count == 0 {
            return None;
        }
    }
}

/// Sends bytes that may be no request on a connection of their own. That nothing at all is answered is an answer too.
async fn ask_once(address: SocketAddr, bytes: &[u8]) -> Option<Said> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    Box::pin(read(&mut stream, bytes.starts_with(b"HEAD "))).await
}

fn shown(request: &[u8]) -> String {
    String::from_utf8_lossy(request).chars().take(4_000).collect()
}

/// Asks until it is answered fast enough to be believed, and says what is wrong with an answer.
async fn faults(line: &mut Line, request: &[u8], is_whole: bool) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..SLOW_TRIES {
        let began = Instant::now();
        let said =
            if is_whole { ask_once(line.address, request).await } else { Box::pin(line.ask(request)).await };
        match said {
            Some(said) if said.status >= 500 => found.push(format!("{}: {}", said.status, shown(request))),
            None if !is_whole => found.push(format!("no answer: {}", shown(request))),
            _ => {}
        }
        if began.elapsed() < SLOW {
            return found;
        }
    }
    found.push(format!("slow: {}", shown(request)));
    found
}

async fn attack(address: SocketAddr, kid: String, mut dice: Dice, count: u64) -> Vec<String> {
    let (calls, strategies) = (calls(&kid), strategies());
    let mut line = Line { address, stream: None };
    let mut found = Vec::new();
    for number in 0..count {
        let mut request = mutant(&calls, &strategies, &mut dice);
        let is_whole = number % WHOLE_OF == 0;
        if is_whole {
            mutate(&mut request, &calls, &mut dice);
            let head = &request[..request.len().min(200)];
            if is_endless(&String::from_utf8_lossy(head)) {
                continue;
            }
        }
        found.extend(faults(&mut line, &request, is_whole).await);
    }
    found
}

/// Counts what panics on threads of this name from now on. It is printed all the same.
fn panics_on(threads: &'static str) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let (counted, otherwise) = (Arc::clone(&count), panic::take_hook());
    panic::set_hook(Box::new(move |what| {
        if thread::current().name() == Some(threads) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        otherwise(what);
    }));
    count
}

/// The manager runs on threads of its own: not each panic ends a connection, and none may pass unseen.
#[test]
fn no_changed_request_or_strategy_does_any_harm() {
    const THREADS: &str = "attacked manager";
    let panics = panics_on(THREADS);
    // On one core: other tests run beside it.
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(THREADS)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        // All of it on these threads.
        tokio::spawn(attacked()).await.unwrap();
    });
    assert_eq!(panics.load(Ordering::Relaxed), 0, "something panicked, see above");
}

async fn attacked() {
    let world = World::start().await;
    let kid = world.child().await;
    for id in ["a", "b"] {
        world.submit(&strategy(id)).await.ok();
    }
    world.poll(&kid).await;
    world.fetch(&kid, "a").await.ok();
    let (count, first) =
        (setting("CHOIRMASTER_DOORS_MUTANTS", MUTANTS), setting("CHOIRMASTER_DOORS_SEED", 0x5eed));
    let address = world.manager.address;
    let attacks = (0..CONNECTIONS).map(|number| {
        let dice = Dice(first.wrapping_mul(1_000_003).wrapping_add(number));
        tokio::spawn(attack(address, kid.clone(), dice, count / CONNECTIONS))
    });
    let found: Vec<String> =
        futures_util::future::join_all(attacks).await.into_iter().flat_map(Result::unwrap).collect();
    assert!(
        found.is_empty(),
        "{} of {count}:\n{}",
        found.len(),
        found[..found.len().min(10)].join("\n---\n")
    );
    // It still works.
    assert_eq!(world.get("/readyz").await.status, 200);
    let later = world.submit(&strategy("afterwards")).await;
    assert_eq!(later.status, 201, "{later:?}");
    world.child().await;
    world.stop().await;
}
