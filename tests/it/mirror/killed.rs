//! The manager and Redis as processes, either or both killed at any step and started again. Then the mirror becomes right, no fact that was
//! answered is missing there, and each intent that was put there is answered once.
//!
//! A failing run says its seed. `CHOIRMASTER_TEST_SEED` replays it, and `CHOIRMASTER_MIRROR_KILLS` makes the runs longer (default
//! [`KILLS`]).

use std::{collections::BTreeMap, time::Duration};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use redis::{AsyncConnectionConfig, Client, RedisError, aio::MultiplexedConnection, cmd};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{join, time::sleep};

use super::{chain, faulty::answered, lost::open, server::Redis};
use crate::{
    crash::server::{Server, Start, tail},
    deadline::{DEADLINE, until},
    ports::free_address,
    seed::seed,
    store::place::{Place, stories},
    world::client,
};

/// Rounds of each test. Something is killed in each, and all is looked at after it.
const KILLS: u32 = 6;

/// Most nodes that are registered, and workflows that run at once.
const MOST_NODES: usize = 6;
const MOST_WORKFLOWS: usize = 3;

/// Most answers that stand there of a key.
const MOST_ANSWERS: u64 = 100;

/// What is killed together.
const KILLED: [&[Process]; 3] = [&[Process::Manager], &[Process::Redis], &[Process::Manager, Process::Redis]];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    Manager,
    Redis,
}

/// What is asked of the manager, or put into Redis.
#[derive(Debug, Clone)]
enum Step {
    Register { name: String },
    Start { name: String },
    Delete { name: String },
    Cordon { node: String, is_cordoned: bool },
    Intend { key: String, value: String },
}

/// Whoever calls the manager and Redis.
#[derive(Clone)]
struct Calls {
    http: reqwest::Client,
    manager: String,
    redis: String,
}

impl Calls {
    /// Status and body. None: there was no answer, and what became of the call is not known.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let request = self.http.request(method, format!("{}{path}", self.manager));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// The body of an answer, which must be a success.
    async fn acknowledged(&self, method: Method, path: &str, body: Option<&Value>) -> Option<Value> {
        let (status, body) = self.call(method, path, body).await?;
        assert!((200..300).contains(&status), "{path}: {status} {body}");
        Some(body)
    }

    async fn post(&self, path: &str, body: &Value) -> Option<Value> {
        self.acknowledged(Method::POST, path, Some(body)).await
    }

    /// Of a manager that is there. None: there is no such thing.
    async fn get(&self, path: &str) -> Option<Value> {
        let (status, body) = self.call(Method::GET, path, None).await.expect("the manager is there");
        (status == 200).then_some(body)
    }

    /// What was answered with success; none: there was no answer.
    async fn take(&self, step: &Step) -> Option<Value> {
        match step {
            Step::Register { name } => self.register(name).await,
            Step::Start { name } => self.post(&format!("/api/v1/workflows?name={name}"), &chain()).await,
            Step::Delete { name } => {
                self.acknowledged(Method::DELETE, &format!("/api/v1/workflows/{name}"), None).await
            }
            Step::Cordon { node, is_cordoned } => {
                let what = if *is_cordoned { "cordon" } else { "uncordon" };
                self.acknowledged(Method::POST, &format!("/api/v1/children/{node}/{what}"), None).await
            }
            Step::Intend { key, value } => self.intend(key, value).await.ok().map(|()| Value::Null),
        }
    }

    /// The id of a node that was given one.
    async fn register(&self, name: &str) -> Option<Value> {
        let capabilities = json!({"runtimes": ["python"], "node": {"resources": ["file-log"]}});
        let mut poll = json!({"id": "", "name": name, "kind": "agent", "capabilities": capabilities});
        let id = self.post("/poll", &poll).await?["id"].clone();
        poll["id"] = id.clone();
        // It is known, also if this isn't answered.
        self.post("/poll", &poll).await;
        Some(id)
    }

    /// Puts an intent there, as a whole or not at all.
    async fn intend(&self, key: &str, value: &str) -> Result<(), RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(DEADLINE))
            .set_connection_timeout(Some(DEADLINE));
        let client = Client::open(self.redis.as_str())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut put = redis::pipe();
        put.atomic().cmd("SET").arg(key).arg(value).ignore().cmd("RPUSH").arg("intents").arg(key).ignore();
        put.query_async::<()>(&mut connection).await
    }

    /// All nodes hear what they are to run, and say that it runs.
    async fn run_placed(&self) {
        for child in self.children().await {
            let id = &child["id"];
            let wanted = self.post("/placements", &json!({"id": id})).await.expect("the manager is there");
            let runs = wanted["instances"].as_array().unwrap().iter().filter(|one| one["state"] != "end");
            let phase = |one: &Value| if one["state"] == "prepare" { "ready" } else { "running" };
            let runs: Vec<Value> = runs.map(|one| json!({"id": one["id"], "phase": phase(one)})).collect();
            let told = self.post("/placements", &json!({"id": id, "instances": runs})).await;
            told.expect("the manager is there");
        }
    }

    async fn children(&self) -> Vec<Value> {
        let listed = self.get("/api/v1/children").await.unwrap();
        listed["items"].as_array().unwrap().clone()
    }

    async fn said(&self) -> Said {
        let mut said = Said::default();
        for child in self.children().await {
            said.add_child(&child);
        }
        let listed = self.get("/api/v1/workflows").await.unwrap();
        for workflow in listed["items"].as_array().unwrap() {
            let name = workflow["name"].as_str().unwrap();
            // It may be gone by now.
            if let Some(shown) = self.get(&format!("/api/v1/workflows/{name}")).await {
                said.add_workflow(&shown);
            }
        }
        said
    }
}

/// What the manager says, and what has to stand in Redis by that.
#[derive(Debug, Default)]
struct Said {
    /// By the id of a node.
    cordoned: BTreeMap<String, bool>,
    /// Their states, by name.
    workflows: BTreeMap<String, String>,
    /// Logical ids of all functions and resources.
    parts: Vec<String>,
    entries: BTreeMap<String, Value>,
}

impl Said {
    fn add_child(&mut self, child: &Value) {
        let (id, is_cordoned) = (child["id"].as_str().unwrap(), child["cordon"] != "open");
        self.cordoned.insert(id.to_owned(), is_cordoned);
        self.entries.insert(format!("node:capabilities:{id}"), json!([child["name"], is_cordoned]));
        let provider = json!({"class_type": "file-log", "node_id": id, "outputs": []});
        self.entries.insert(format!("provider:file-log-{id}"), provider);
    }

    fn add_workflow(&mut self, shown: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (name, state) = (text(&shown["workflow"]["name"]), text(&shown["workflow"]["state"]));
        let parts = ["functions", "resources"].map(|kind| shown[kind].as_array().unwrap().clone()).concat();
        let logical_of = |name: &str| {
            let part = parts.iter().find(|part| part["name"] == name).unwrap();
            text(&part["logical_id"])
        };
        for part in &parts {
            let logical = text(&part["logical_id"]);
            self.parts.push(logical.clone());
            let instance = &part["instance"];
            let has_ended = instance.is_null() && part["next"].is_null() && part["ending"] == json!([]);
            if state == "stopping" && has_ended {
                continue;
            }
            let dependency = match part["name"].as_str().unwrap() {
                "first" => json!({"out": logical_of("second")}),
                "second" => json!({"out": logical_of("log")}),
                _ => json!({}),
            };
            self.entries.insert(format!("dependency:{logical}"), dependency);
            let mut runs = Vec::new();
            if !instance.is_null() {
                let (node, id) = (text(&instance["node"]["id"]), text(&instance["id"]));
                runs.push(format!("InstanceId(node_id: {node}, function_id: {id})"));
            }
            // There is no form of a resource that runs nowhere.
            let is_resource = !part["class"].is_null();
            if !is_resource || !runs.is_empty() {
                self.entries.insert(format!("instance:{logical}"), json!([name, runs]));
            }
        }
        self.workflows.insert(name, state);
    }
}

/// What of an entry the API tells as well.
fn essence(key: &str, value: &str) -> Value {
    let Ok(read) = serde_json::from_str::<Value>(value) else { return json!(value) };
    if key.starts_with("node:capabilities:") {
        return json!([read["name"], read["cordoned"]]);
    }
    if key.starts_with("instance:") {
        let (of_function, of_resource) = (&read["Function"], &read["Resource"]);
        return match of_resource {
            Value::Null => json!([of_function[0]["workflow_id"], of_function[1]]),
            _ => json!([of_resource[0]["workflow_id"], [of_resource[1]]]),
        };
    }
    read
}

/// What was answered, and what may be so by now although there was no answer.
#[derive(Debug, Default)]
struct Facts {
    /// Ids of nodes.
    nodes: Vec<String>,
    /// By the id of a node; none: nobody knows.
    cordoned: BTreeMap<String, Option<bool>>,
    /// By name: whether it runs; none: nobody knows.
    workflows: BTreeMap<String, Option<bool>>,
    /// By key: how often each was put there, and how often that is not known.
    intents: BTreeMap<String, (u64, u64)>,
}

impl Facts {
    fn note(&mut self, step: Step, answer: Option<Value>) {
        let is_known = answer.is_some();
        match step {
            Step::Register { .. } => {
                self.nodes.extend(answer.map(|id| id.as_str().unwrap().to_owned()));
            }
            Step::Start { name } => {
                self.workflows.insert(name, is_known.then_some(true));
            }
            Step::Delete { name } => {
                self.workflows.insert(name, is_known.then_some(false));
            }
            Step::Cordon { node, is_cordoned } => {
                self.cordoned.insert(node, is_known.then_some(is_cordoned));
            }
            Step::Intend { key, .. } => {
                let (sure, perhaps) = self.intents.entry(key).or_default();
                *(if is_known { sure } else { perhaps }) += 1;
            }
        }
    }

    /// Whether no intent waits. None is answered too often, and then none is lost.
    fn are_answered(&self, waiting: u64, answered: &BTreeMap<String, u64>) -> bool {
        for (key, count) in answered {
            let (sure, perhaps) = self.intents.get(key).copied().unwrap_or_default();
            assert!(
                *count <= sure + perhaps,
                "{key} was answered {count} times, and put there {sure} to {} times",
                sure + perhaps
            );
        }
        if waiting > 0 {
            return false;
        }
        for (key, (sure, _)) in &self.intents {
            let count = answered.get(key).copied().unwrap_or(0);
            assert!(
                count >= MOST_ANSWERS.min(*sure),
                "{key} was put there {sure} times, and answered {count} times"
            );
        }
        true
    }

    fn hold(&self, said: &Said) {
        for node in &self.nodes {
            assert!(said.cordoned.contains_key(node), "{node} was registered: {said:#?}");
        }
        for (node, is_cordoned) in &self.cordoned {
            let is_so = is_cordoned.is_none_or(|is_cordoned| said.cordoned.get(node) == Some(&is_cordoned));
            assert!(is_so, "{node} is cordoned: {is_cordoned:?}: {said:#?}");
        }
        for (name, runs) in &self.workflows {
            let is_so = runs.is_none_or(|runs| said.workflows.contains_key(name) == runs);
            assert!(is_so, "{name} runs: {runs:?}: {said:#?}");
        }
    }
}

/// What stands in Redis, and what is to stand there.
#[derive(Debug)]
struct Look {
    there: BTreeMap<String, Value>,
    said: Said,
}

impl Look {
    /// Also, nodes have said of all that is to end that it has.
    fn is_right(&self) -> bool {
        self.there == self.said.entries && self.said.workflows.values().all(|state| state != "stopping")
    }
}

/// A manager and its mirror.
struct Pair {
    start: Start,
    server: Option<Server>,
    redis: Redis,
    /// Whoever kills Redis, it keeps what it has answered.
    keeps: bool,
    calls: Calls,
    /// The manager's id.
    owner: String,
    facts: Facts,
    /// Logical ids, when all was looked at last.
    parts: Vec<String>,
    chance: StdRng,
    /// Of what was given a name last.
    number: u32,
}

impl Pair {
    async fn start(place: &Place, keeps: bool) -> Self {
        let flags: &[&str] = if keeps { &["--appendonly", "yes", "--appendfsync", "always"] } else { &[] };
        let redis = Redis::with(flags).await;
        // Nobody is silent for so long.
        let set = vec!["placement.keep_alive=1h".to_owned(), format!("mirror.url={}", redis.url())];
        let start = Start { listen: free_address(), set, ..Start::on(place) };
        let server = start.listening().await;
        // A connection to a manager that was killed is no way to the next.
        let http = client().pool_max_idle_per_host(0).build().unwrap();
        let calls = Calls { http, manager: format!("http://{}", server.address), redis: redis.url() };
        let owner = async || {
            let all = redis.dump().await;
            all.into_iter().find(|(key, _)| key == "choirmaster:owner").map(|(_, owner)| owner)
        };
        let owner = until("it is mirrored", owner, Option::is_some).await.unwrap();
        let (facts, parts, chance) = (Facts::default(), Vec::new(), StdRng::seed_from_u64(seed()));
        let server = Some(server);
        Self { start, server, redis, keeps, calls, owner, facts, parts, chance, number: 0 }
    }

    fn name(&mut self, of: &str) -> String {
        self.number += 1;
        format!("{of}-{}", self.number)
    }

    /// The next step, of those for which the manager or Redis is there.
    fn choose(&mut self, manager: bool, redis: bool) -> Step {
        if !manager || redis && self.chance.random_bool(0.4) {
            return self.intent();
        }
        let running = self.facts.workflows.iter().filter(|(_, runs)| **runs == Some(true));
        let running: Vec<String> = running.map(|(name, _)| name.clone()).collect();
        match self.chance.random_range(0..10_u8) {
            0 | 1 if self.facts.nodes.len() < MOST_NODES => Step::Register { name: self.name("node") },
            2 | 3 if running.len() < MOST_WORKFLOWS => Step::Start { name: self.name("chain") },
            4 | 5 if running.len() > 1 => Step::Delete { name: any(&mut self.chance, &running).clone() },
            _ => {
                // The first one is cordoned by intents alone.
                let node = any(&mut self.chance, &self.facts.nodes[1..]).clone();
                Step::Cordon { node, is_cordoned: self.chance.random_bool(0.5) }
            }
        }
    }

    fn intent(&mut self) -> Step {
        let first = self.facts.nodes[0].clone();
        let (key, value) = match self.chance.random_range(0..4_u8) {
            0 => (format!("intent:migrate:{}", self.name("nobody")), first),
            1 => {
                let value = if self.chance.random_bool(0.5) { "yes" } else { "no" };
                (format!("intent:cordon:{first}"), value.to_owned())
            }
            _ => {
                let part = any(&mut self.chance, &self.parts);
                (format!("intent:migrate:{part}"), any(&mut self.chance, &self.facts.nodes).clone())
            }
        };
        Step::Intend { key, value }
    }

    /// Whoever is there answers.
    async fn act(&mut self, step: Step) {
        let answer = self.calls.take(&step).await;
        assert!(answer.is_some(), "{step:?} was not answered");
        self.facts.note(step, answer);
    }

    async fn act_some(&mut self, manager: bool, redis: bool) {
        for _ in 0..self.chance.random_range(0..4_u8) {
            let step = self.choose(manager, redis);
            self.act(step).await;
        }
    }

    /// SIGKILL in the middle of a step or after it. Whoever is left goes on, and who was killed comes back.
    async fn be_killed(&mut self) {
        let killed = *any(&mut self.chance, &KILLED);
        let (step, calls) = (self.choose(true, true), self.calls.clone());
        let pause = Duration::from_millis(self.chance.random_range(0..8));
        let (answer, ()) = join!(calls.take(&step), async {
            sleep(pause).await;
            self.kill(killed);
        });
        self.facts.note(step, answer);
        let [manager, redis] = [Process::Manager, Process::Redis].map(|process| !killed.contains(&process));
        if !redis && !self.keeps {
            self.facts.intents.clear();
        }
        if manager || redis {
            self.act_some(manager, redis).await;
        }
        let mut back = killed.to_vec();
        if self.chance.random_bool(0.5) {
            back.reverse();
        }
        for process in back {
            self.come_back(process).await;
        }
    }

    fn kill(&mut self, killed: &[Process]) {
        for process in killed {
            match process {
                Process::Manager => self.server.take().unwrap().kill(),
                Process::Redis => self.redis.kill(),
            }
        }
    }

    async fn come_back(&mut self, process: Process) {
        match process {
            Process::Manager => {
                if self.chance.random_bool(0.3) {
                    let starting = self.start.spawn();
                    sleep(Duration::from_millis(self.chance.random_range(0..200))).await;
                    starting.kill();
                }
                self.server = Some(self.start.listening().await);
            }
            Process::Redis => self.redis.come_back().await,
        }
    }

    /// Both are back: each intent is answered, and the mirror becomes what the manager says, which is what it has answered.
    async fn comes_right(&mut self) {
        let client = self.redis.client().await;
        let intents = async || {
            self.calls.run_placed().await;
            // In this order: what waits no more is answered.
            let waiting = open(&client).await;
            (waiting, answered(&mut client.clone()).await)
        };
        let are_answered =
            |(waiting, answered): &(u64, BTreeMap<String, u64>)| self.facts.are_answered(*waiting, answered);
        until("each intent is answered", intents, are_answered).await;
        let left: Vec<String> =
            cmd("KEYS").arg("intent:[mc]*").query_async(&mut client.clone()).await.unwrap();
        assert!(left.is_empty(), "{left:?}");
        let look = async || {
            self.calls.run_placed().await;
            self.look().await
        };
        let Look { said, .. } = until("the mirror is right", look, Look::is_right).await;
        self.facts.hold(&said);
        self.first_is_as_it_was_wanted(&said, client).await;
        self.parts = said.parts;
    }

    async fn look(&self) -> Look {
        let mut said = self.calls.said().await;
        for key in ["choirmaster:owner", "domain_info:domain_id"] {
            said.entries.insert(key.to_owned(), json!(self.owner));
        }
        let is_of_now = |key: &str| key.ends_with(":last_update") || key == "choirmaster:session";
        let all = self.redis.dump().await.into_iter();
        let all = all.filter(|(key, _)| !is_of_now(key) && !key.starts_with("intent:"));
        let there = all.map(|(key, value)| {
            let value = essence(&key, &value);
            (key, value)
        });
        Look { there: there.collect(), said }
    }

    /// The intent that was accepted last was carried out last.
    async fn first_is_as_it_was_wanted(&self, said: &Said, mut client: MultiplexedConnection) {
        let first = &self.facts.nodes[0];
        let mut answers = cmd("LRANGE");
        answers.arg(format!("intent:answer:cordon:{first}")).arg(0).arg(-1);
        let answers: Vec<String> = answers.query_async(&mut client).await.unwrap();
        let mut answers = answers.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
        if let Some(last) = answers.find(|answer| answer["accepted"] == true) {
            assert_eq!(said.cordoned[first], last["value"] == "yes", "{last}: {said:#?}");
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the manager said:\n{}", tail(&self.start.log));
        }
    }
}

fn any<'a, T>(chance: &mut StdRng, all: &'a [T]) -> &'a T {
    &all[chance.random_range(0..all.len())]
}

fn kills() -> u32 {
    std::env::var("CHOIRMASTER_MIRROR_KILLS").map_or(KILLS, |text| text.parse().unwrap())
}

async fn story(place: &Place, keeps: bool) {
    println!("replay: CHOIRMASTER_TEST_SEED={} tests/run -- mirror::killed ({:?})", seed(), place.kind);
    let mut pair = Pair::start(place, keeps).await;
    for _ in 0..3 {
        let name = pair.name("node");
        pair.act(Step::Register { name }).await;
    }
    let name = pair.name("chain");
    pair.act(Step::Start { name }).await;
    pair.comes_right().await;
    for _ in 0..kills() {
        pair.act_some(true, true).await;
        pair.be_killed().await;
        // Once more while all is written again.
        while pair.chance.random_bool(0.3) {
            sleep(Duration::from_millis(pair.chance.random_range(0..60))).await;
            pair.be_killed().await;
        }
        pair.comes_right().await;
    }
}

async fn the_mirror_becomes_right_and_each_intent_is_answered_once_whoever_is_killed(place: &Place) {
    story(place, true).await;
}

async fn the_mirror_becomes_right_where_redis_loses_all_whoever_is_killed(place: &Place) {
    story(place, false).await;
}

stories!(
    the_mirror_becomes_right_and_each_intent_is_answered_once_whoever_is_killed,
    the_mirror_becomes_right_where_redis_loses_all_whoever_is_killed,
);
