//! Programs steer the manager by what they put into the database.

use redis::{aio::MultiplexedConnection, cmd};
use serde_json::{Value, json};

use super::{is_up, mirrored, mirrored_there, patient, server::Redis, settings, start_chain};
use crate::{deadline::until, world::World};

/// Two nodes that may run all of a workflow; and its parts' logical ids, by their names.
struct Steered {
    redis: Redis,
    client: MultiplexedConnection,
    world: World,
    nodes: [String; 2],
}

impl Steered {
    async fn start() -> Self {
        let redis = Redis::start().await;
        let world = mirrored(settings(redis.url())).await;
        let capabilities = json!({"runtimes": ["python"], "node": {"resources": ["file-log"]}});
        let nodes = [world.node("one", &capabilities).await, world.node("two", &capabilities).await];
        start_chain(&world).await;
        let client = redis.client().await;
        until("it is mirrored", async || is_up(&world).await, |is_up| *is_up).await;
        let steered = Self { redis, client, world, nodes };
        steered.run_placed().await;
        steered
    }

    async fn run_placed(&self) {
        for node in &self.nodes {
            self.world.run_placed(node).await;
        }
    }

    async fn shown(&self) -> Value {
        self.world.get("/api/v1/workflows/chain").await.ok().json()
    }

    /// Puts an intent there, as the documents have it: at the tail.
    async fn want(&mut self, key: &str, value: &str) {
        cmd("SET").arg(key).arg(value).query_async::<()>(&mut self.client).await.unwrap();
        cmd("RPUSH").arg("intents").arg(key).query_async::<()>(&mut self.client).await.unwrap();
    }

    /// Answers to intents of a key, newest first, once there are so many.
    async fn answers(&self, of: &str, count: usize) -> Vec<Value> {
        let ask = async || {
            let mut client = self.client.clone();
            let key = format!("intent:answer:{of}");
            let all: Vec<String> =
                cmd("LRANGE").arg(key).arg(0).arg(-1).query_async(&mut client).await.unwrap();
            all.iter().map(|text| serde_json::from_str(text).unwrap()).collect::<Vec<Value>>()
        };
        until("it is answered", ask, |all: &Vec<Value>| all.len() >= count).await
    }

    async fn trail(&self) -> Vec<Value> {
        let trail = self.world.get("/api/v1/audit?limit=1000").await.ok().json();
        let items = trail["items"].as_array().unwrap().iter();
        items
            .flat_map(|item| {
                let events = item["events"].as_array().unwrap().iter().cloned();
                events.map(|mut event| {
                    event["actor"] = item["actor"].clone();
                    event
                })
            })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_and_a_resource_move_and_a_node_is_cordoned() {
    let mut steered = Steered::start().await;
    let shown = steered.shown().await;
    for part in [&shown["functions"][1], &shown["resources"][0]] {
        let logical = part["logical_id"].as_str().unwrap();
        let from = part["instance"]["node"]["id"].as_str().unwrap();
        let to = steered.nodes.iter().find(|node| *node != from).unwrap().clone();
        // The first is nobody's.
        let wanted = format!("00000000-0000-4000-8000-000000000000,{}", to.to_ascii_uppercase());
        steered.want(&format!("intent:migrate:{logical}"), &wanted).await;
        let answers = steered.answers(&format!("migrate:{logical}"), 1).await;
        assert_eq!((&answers[0]["accepted"], &answers[0]["reason"]), (&json!(true), &Value::Null));
        assert_eq!(answers[0]["value"], json!(wanted));
        steered.run_placed().await;
        steered.run_placed().await;
        let shown = steered.shown().await;
        let parts =
            shown["functions"].as_array().unwrap().iter().chain(shown["resources"].as_array().unwrap());
        let now = parts.into_iter().find(|part| part["logical_id"] == logical).unwrap();
        assert_eq!(now["instance"]["node"]["id"], json!(to));
    }
    let node = steered.nodes[0].clone();
    for (value, cordon) in [("yes", "cordoned"), ("no", "open")] {
        steered.want(&format!("intent:cordon:{node}"), value).await;
        let path = format!("/api/v1/children/{node}");
        steered.world.until(&path, |child| child["cordon"] == cordon).await;
    }
    steered.answers(&format!("cordon:{node}"), 2).await;
    let trail = steered.trail().await;
    let by_intent = trail.iter().filter(|event| event["actor"] == "redis");
    let mut events: Vec<&str> = by_intent.map(|event| event["event"].as_str().unwrap()).collect();
    events.sort_unstable();
    assert_eq!(
        events,
        [["child_cordoned"; 2].as_slice(), &["instance_placed"; 2], &["intent_answered"; 4],].concat()
    );
    let left: Vec<String> = cmd("KEYS").arg("intent:[mc]*").query_async(&mut steered.client).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    drop(steered.redis);
    steered.world.stop().await;
}

/// Each is refused with the reason, and nothing else happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_done_is_refused_and_touches_nothing() {
    let mut steered = Steered::start().await;
    let logical = steered.shown().await["functions"][1]["logical_id"].as_str().unwrap().to_owned();
    let [node, _] = steered.nodes.clone();
    let unknown = "00000000-0000-4000-8000-000000000000";
    let migrate = format!("intent:migrate:{logical}");
    let all = [
        (format!("intent:migrate:{unknown}"), node.clone()),
        (migrate.clone(), unknown.to_owned()),
        (migrate.clone(), String::new()),
        (migrate.clone(), "n,".repeat(101)),
        ("intent:migrate:".to_owned(), node.clone()),
        (format!("intent:cordon:{node}"), "perhaps".to_owned()),
        (format!("intent:cordon:{unknown}"), "yes".to_owned()),
        (format!("intent:restart:{node}"), "yes".to_owned()),
        ("shop:basket".to_owned(), "7".to_owned()),
    ];
    let mut seen = Vec::new();
    let mut counts = std::collections::BTreeMap::new();
    for (key, value) in all {
        steered.want(&key, &value).await;
        let of = key.strip_prefix("intent:").unwrap_or(&key).to_owned();
        let count = counts.entry(of.clone()).or_insert(0);
        *count += 1;
        let answer = steered.answers(&of, *count).await.remove(0);
        assert_eq!(answer["accepted"], json!(false), "{answer}");
        let text = format!("{key}: {}", answer["reason"].as_str().unwrap());
        seen.push(text.replace(&logical, "LOGICAL").replace(&node, "NODE").replace(unknown, "UNKNOWN"));
    }
    // Without a value, with one of another type, and twice in one batch.
    let mut client = steered.client.clone();
    let mut call = async |words: &[&str]| {
        cmd(words[0]).arg(&words[1..]).query_async::<()>(&mut client).await.unwrap();
    };
    let cordon = format!("intent:cordon:{node}");
    call(&["RPUSH", "intents", &cordon]).await;
    steered.answers(&format!("cordon:{node}"), 2).await;
    call(&["RPUSH", &cordon, "yes"]).await;
    call(&["RPUSH", "intents", &cordon]).await;
    steered.answers(&format!("cordon:{node}"), 3).await;
    call(&["DEL", &cordon]).await;
    call(&["SET", &cordon, "no"]).await;
    call(&["RPUSH", "intents", &cordon, &cordon]).await;
    // What is no text, in the list and at a key.
    let mut client = steered.client.clone();
    cmd("RPUSH").arg("intents").arg(b"intent:\xff:x").query_async::<()>(&mut client).await.unwrap();
    let answers = steered.answers(&format!("cordon:{node}"), 5).await;
    assert_eq!(steered.answers("\u{fffd}:x", 1).await[0]["accepted"], json!(false));
    cmd("SET").arg("intent:cordon:bytes").arg(b"\xff").query_async::<()>(&mut client).await.unwrap();
    cmd("RPUSH").arg("intents").arg("intent:cordon:bytes").query_async::<()>(&mut client).await.unwrap();
    assert_eq!(steered.answers("cordon:bytes", 1).await[0]["reason"], "what stands at its key is no text");
    seen.extend(
        answers
            .iter()
            .rev()
            .skip(1)
            .map(|answer| format!("cordon: {} {}", answer["accepted"], answer["reason"])),
    );
    insta::assert_snapshot!(seen.join("\n"), @r#"
    intent:migrate:UNKNOWN: no function or resource has the logical id UNKNOWN
    intent:migrate:LOGICAL: second can't be moved: UNKNOWN is not known
    intent:migrate:LOGICAL: nothing stands at its key
    intent:migrate:LOGICAL: the value has 1 to 100 ids of nodes, with commas between them
    intent:migrate:: an intent is intent:migrate:LOGICAL or intent:cordon:NODE
    intent:cordon:NODE: the value is yes or no
    intent:cordon:UNKNOWN: child UNKNOWN is not known here
    intent:restart:NODE: an intent is intent:migrate:LOGICAL or intent:cordon:NODE
    shop:basket: an intent is intent:migrate:LOGICAL or intent:cordon:NODE
    cordon: false "nothing stands at its key"
    cordon: false "what stands at its key is no text"
    cordon: true null
    cordon: false "it is there twice; what stands at its key was taken with the first"
    "#);
    let basket: String = cmd("GET").arg("shop:basket").query_async(&mut steered.client).await.unwrap();
    assert_eq!(basket, "7", "it is nobody's intent");
    let shown = steered.shown().await;
    assert_eq!(shown["workflow"]["state"], "running");
    let trail = steered.trail().await;
    let refused =
        trail.iter().filter(|event| event["event"] == "intent_answered" && !event["refused"].is_null());
    assert_eq!(refused.count(), 14);
    drop(steered.redis);
    steered.world.stop().await;
}

/// Whoever was killed: what is in hand is carried out, in its order, and answered once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_hand_when_the_manager_ends_is_answered_by_the_next() {
    let mut steered = Steered::start().await;
    let node = steered.nodes[0].clone();
    let world = steered.world.restart_with(patient).await;
    let mut client = steered.redis.client().await;
    let mut call = async |words: &[&str]| {
        cmd(words[0]).arg(&words[1..]).query_async::<()>(&mut client).await.unwrap();
    };
    let [first, second] = ["migrate:nobody", &format!("cordon:{node}")].map(|of| format!("intent:{of}"));
    call(&["SET", &second, "yes"]).await;
    call(&["SET", &first, "x"]).await;
    // As a kill leaves it between taking and answering.
    call(&["RPUSH", "choirmaster:intents", &first]).await;
    call(&["LPUSH", "intents", &second]).await;
    steered.world = world.restart_with(mirrored_there(settings(steered.redis.url()))).await;
    let answers = steered.answers(&format!("cordon:{node}"), 1).await;
    assert_eq!((answers.len(), &answers[0]["accepted"]), (1, &json!(true)));
    assert_eq!(steered.answers("migrate:nobody", 1).await.len(), 1);
    let trail = steered.trail().await;
    let order: Vec<&str> = trail
        .iter()
        .filter(|event| event["event"] == "intent_answered")
        .map(|event| event["intent"].as_str().unwrap())
        .collect();
    assert_eq!(order, [&*first, &*second]);
    // One that was done, and not answered.
    steered.run_placed().await;
    let shown = steered.shown().await;
    let part = &shown["functions"][1];
    let logical = part["logical_id"].as_str().unwrap().to_owned();
    let to = steered.nodes.iter().find(|node| part["instance"]["node"]["id"] != json!(node)).unwrap().clone();
    let uncordon = format!("/api/v1/children/{node}/uncordon");
    steered.world.call("POST", &uncordon).await.ok();
    for count in 1..=2 {
        steered.want(&format!("intent:migrate:{logical}"), &to).await;
        let answers = steered.answers(&format!("migrate:{logical}"), count).await;
        assert_eq!(answers[0]["accepted"], json!(true), "{answers:?}");
    }
    drop(steered.redis);
    steered.world.stop().await;
}
