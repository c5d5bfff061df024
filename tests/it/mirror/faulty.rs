//! Lines to Redis that break at any byte, and both sides killed at any moment.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use redis::{aio::MultiplexedConnection, cmd};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{count, mirrored, server::Redis, settings, start_chain, until_there};
use crate::{deadline::until, seed::seed, world::World};

/// Of so many pieces that are passed on, about one is cut off somewhere, and the line with it; 0: none is.
type Cuts = Arc<AtomicU32>;

/// Passes on what goes to a server and comes from it. Both directions break together.
async fn line_to(server: SocketAddr, cuts: Cuts, mut chance: StdRng) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let Ok(server) = TcpStream::connect(server).await else { continue };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let (mut there, mut back) =
                (StdRng::seed_from_u64(chance.random()), StdRng::seed_from_u64(chance.random()));
            let (cuts, also) = (Arc::clone(&cuts), Arc::clone(&cuts));
            tokio::spawn(async move {
                tokio::select! {
                    () = pass(from_client, to_server, &cuts, &mut there) => {}
                    () = pass(from_server, to_client, &also, &mut back) => {}
                }
            });
        }
    });
    address
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    cuts: &AtomicU32,
    chance: &mut StdRng,
) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let one_of = cuts.load(Ordering::Relaxed);
        if one_of > 0 && chance.random_ratio(1, one_of) {
            let part = chance.random_range(0..=length);
            let _ = to.write_all(&piece[..part]).await;
            return;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

/// How often each intent was answered.
pub async fn answered(client: &mut MultiplexedConnection) -> BTreeMap<String, u64> {
    let keys: Vec<String> = cmd("KEYS").arg("intent:answer:*").query_async(client).await.unwrap();
    let mut all = BTreeMap::new();
    for key in keys {
        let count: u64 = cmd("LLEN").arg(&key).query_async(client).await.unwrap();
        all.insert(key.replacen("intent:answer:", "intent:", 1), count);
    }
    all
}

/// What is to stand there of where parts run, and which nodes are cordoned, stands there.
async fn is_as_it_is(world: &World, all: &[(String, String)]) -> bool {
    let shown = world.get("/api/v1/workflows/chain").await.ok().json();
    let parts = shown["functions"].as_array().unwrap().iter().chain(shown["resources"].as_array().unwrap());
    let mut wanted = BTreeMap::new();
    for part in parts {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let instance = &part["instance"];
        let (node, id) = (text(&instance["node"]["id"]), text(&instance["id"]));
        wanted.insert(
            format!("instance:{}", text(&part["logical_id"])),
            format!("InstanceId(node_id: {node}, function_id: {id})"),
        );
    }
    let children = world.get("/api/v1/children").await.ok().json();
    for child in children["items"].as_array().unwrap() {
        let is_cordoned = child["cordon"] != "open";
        let key = format!("node:capabilities:{}", child["id"].as_str().unwrap());
        wanted.insert(key, format!("\"cordoned\":{is_cordoned}"));
    }
    wanted.len() == 5
        && wanted
            .iter()
            .all(|(key, part)| all.iter().any(|(other, value)| other == key && value.contains(part)))
}

/// Whatever breaks and whenever, each intent is answered once, and then all of it stands there as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_intent_is_answered_once_wherever_lines_break() {
    let mut chance = StdRng::seed_from_u64(seed());
    let redis = Redis::start().await;
    let cuts = Cuts::new(AtomicU32::new(0));
    let line = line_to(redis.address, Arc::clone(&cuts), StdRng::seed_from_u64(chance.random())).await;
    let world = mirrored(settings(format!("redis://{line}"))).await;
    let capabilities = json!({"runtimes": ["python"], "node": {"resources": ["file-log"]}});
    let nodes = [world.node("one", &capabilities).await, world.node("two", &capabilities).await];
    start_chain(&world).await;
    let shown = world.get("/api/v1/workflows/chain").await.ok().json();
    let logical = ["functions", "resources"].map(|kind| shown[kind].as_array().unwrap().clone()).concat();
    let logical: Vec<&str> = logical.iter().map(|part| part["logical_id"].as_str().unwrap()).collect();
    let mut client = redis.client().await;
    let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..6 {
        cuts.store(chance.random_range(25..80), Ordering::Relaxed);
        let mut intents = vec![
            (format!("intent:cordon:{}", nodes[round % 2]), ["yes", "no"][round / 2 % 2].to_owned()),
            (format!("intent:migrate:unknown-{round}"), nodes[0].clone()),
        ];
        for logical in &logical {
            intents.push((format!("intent:migrate:{logical}"), nodes[chance.random_range(0..2)].clone()));
        }
        for (key, value) in intents {
            let mut put = redis::pipe();
            put.cmd("SET").arg(&key).arg(value).ignore().cmd("RPUSH").arg("intents").arg(&key).ignore();
            put.query_async::<()>(&mut client).await.unwrap();
            *wanted.entry(key).or_default() += 1;
        }
        let all = async || {
            for node in &nodes {
                world.run_placed(node).await;
            }
            answered(&mut client.clone()).await
        };
        let is_answered = |all: &BTreeMap<String, u64>| {
            assert!(
                all.iter().all(|(key, count)| count <= &wanted[key]),
                "answered twice: {all:?} of {wanted:?}"
            );
            *all == wanted
        };
        until("each is answered", all, is_answered).await;
    }
    cuts.store(0, Ordering::Relaxed);
    let there = async || {
        let all = redis.dump().await;
        is_as_it_is(&world, &all).await
    };
    until("all is there as it is", there, |is_so| *is_so).await;
    assert_eq!(answered(&mut client).await, wanted, "nothing comes late");
    let trail = world.get("/api/v1/audit?limit=1000").await.ok().text();
    for key in wanted.keys() {
        assert!(trail.contains(key), "{key}");
    }
    world.stop().await;
}

/// What was measured stands there once, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sample_stands_there_once_wherever_lines_break() {
    let mut chance = StdRng::seed_from_u64(seed());
    let redis = Redis::start().await;
    let cuts = Cuts::new(AtomicU32::new(30));
    let line = line_to(redis.address, Arc::clone(&cuts), StdRng::seed_from_u64(chance.random())).await;
    let measuring = super::measured::Measuring::start(Some(settings(format!("redis://{line}")))).await;
    for round in 0..20 {
        let all = (0..10).map(|at| measuring.of_workflow(round * 10 + at, 1_718_287_852_000)).collect();
        measuring.tell(7, round * 10, all).await;
        // Some of what comes is on its way when a line breaks.
        tokio::task::yield_now().await;
    }
    let client = redis.client().await;
    let all = async || {
        let key = "workflow:wf_chain:samples";
        cmd("LRANGE").arg(key).arg(0).arg(-1).query_async::<Vec<String>>(&mut client.clone()).await.unwrap()
    };
    let found = until("all is there", all, |all| all.len() >= 200).await;
    let newest_first = (0..200).rev().map(|at| format!("{at},1718287852.000"));
    assert_eq!(found, newest_first.collect::<Vec<_>>());
    measuring.world.stop().await;
}

/// The manager's certificate authority is its operator's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tls_is_trusted_if_its_authority_is() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let port = crate::ports::free_port().to_string();
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().unwrap());
    let flags = ["--tls-port", &port, "--tls-cert-file", certificate, "--tls-key-file", key];
    let redis =
        Redis::with(&[&flags[..], &["--tls-ca-cert-file", certificate, "--tls-auth-clients", "no"]].concat())
            .await;
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let of = |pem: Option<String>| mirror::Settings {
        authorities: pem.map(String::into_bytes),
        ..settings(format!("rediss://localhost:{port}"))
    };
    let trusts = mirrored(of(Some(made.cert.pem()))).await;
    until_there(&redis, "it is mirrored", |all| count(all, "choirmaster:owner") == 1).await;
    trusts.stop().await;
    cmd("FLUSHALL").query_async::<()>(&mut redis.client().await).await.unwrap();
    for wrong in [None, Some(other.cert.pem())] {
        let world = mirrored(of(wrong)).await;
        let refused = async || {
            let mut client = redis.client().await;
            let text: String = cmd("INFO").arg("stats").query_async(&mut client).await.unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
            line.unwrap().parse::<u64>().unwrap()
        };
        let before = refused().await;
        // Its own connections are counted, too.
        until("it has tried", refused, |now| *now > before + 1).await;
        assert!(redis.dump().await.is_empty());
        world.stop().await;
    }
    let nonsense = of(Some("no certificate".to_owned()));
    assert_eq!(nonsense.check_authorities(), Err("there is no certificate in PEM in it".to_owned()));
}
