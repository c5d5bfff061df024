//! A manager on an embedded store of its own, and a client that speaks to it: what most tests over HTTP begin with.

use std::path::Path;

use choirmaster::{
    app,
    app::{Manager, Options},
};
use language::render::ROLLOUT_STAGE;
use reqwest::{ClientBuilder, Method, RequestBuilder, header};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

use crate::{deadline::until, virtual_time};

/// An area somewhere in Berlin.
pub const AREA: &str = r#"{"type":"Polygon","coordinates":[[[13.34,52.49],[13.47,52.49],[13.47,52.55],[13.34,52.55],[13.34,52.49]]]}"#;

/// The stage of [`strategy`].
pub const STAGE: &str = "Canary 5 Percent";

/// A client to be built: with the cryptography that TLS asks the process for, which no other test needs to have chosen, and past all
/// proxies that the environment names.
pub fn client() -> ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

/// A manager that serves until it is stopped or dropped.
pub struct World {
    pub manager: Manager,
    folder: TempDir,
    client: reqwest::Client,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: header::HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// A problem in one line: `409 /problems/id-taken: …`. Panics on anything else.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status, "{self:?}");
        assert!(!body["title"].as_str().unwrap().is_empty());
        format!("{} {}: {}", self.status, body["type"].as_str().unwrap(), body["detail"].as_str().unwrap())
    }

    /// The answer, which must be a success.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text());
        self
    }
}

/// The canary sample under another id, and with fewer calls to wait for.
pub fn strategy(id: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("releases/canary.yml");
    let text = std::fs::read_to_string(path).unwrap().replacen("\"200\"", "\"50\"", 1);
    text.replace("id: canary\n", &format!("id: {id}\n"))
}

/// What a child reports of a stage.
pub fn summary(stage: &str, status: u8) -> Value {
    let times = json!({"median": 8.5, "minimum": 6.7, "maximum": 10.4});
    json!({"stage_name": stage, "proxy_times": times, "f1_times_summary": times, "f2_times_summary": times,
        "f1_err_rate": 0, "f2_err_rate": 0, "status": status})
}

fn store_in(folder: &TempDir) -> String {
    format!("sqlite://{}", folder.path().join("choir.db").display())
}

/// Those of a manager that keeps everything in this folder, unless they are changed.
fn options(folder: &TempDir, change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::local(store_in(folder), Path::new(env!("CARGO_MANIFEST_DIR")).to_owned());
    options.task.clock = virtual_time::clock();
    change(&mut options);
    if let Some(parent) = options.parent.as_mut().filter(|parent| parent.downloads.as_os_str().is_empty()) {
        parent.downloads = folder.path().join("parent");
    }
    options
}

impl World {
    pub async fn start() -> Self {
        Self::with(|_| ()).await
    }

    /// With other options than the usual ones.
    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), client().build().unwrap(), change).await
    }

    /// On the store that lies in a folder.
    pub async fn on(folder: TempDir) -> Self {
        Self::start_in(folder, client().build().unwrap(), |_| ()).await
    }

    /// Stops the manager in order, and starts another one on the same store.
    pub async fn restart(self) -> Self {
        self.restart_with(|_| ()).await
    }

    /// The same with other options than the usual ones.
    pub async fn restart_with(self, change: impl FnOnce(&mut Options)) -> Self {
        let Self { manager, folder, client } = self;
        manager.stop().await.unwrap();
        Self::start_in(folder, client, change).await
    }

    async fn start_in(folder: TempDir, client: reqwest::Client, change: impl FnOnce(&mut Options)) -> Self {
        let _asked = virtual_time::Question::ask();
        let manager = app::start(options(&folder, change)).await.unwrap();
        virtual_time::wait_for(&manager.engine);
        Self { manager, folder, client }
    }

    /// The URL of its store.
    pub fn store(&self) -> String {
        store_in(&self.folder)
    }

    /// Changes its store behind its back.
    pub async fn sql(&self, sql: &'static str) {
        let mut store = SqliteConnection::connect(&self.store()).await.unwrap();
        let done = sqlx::query(sql).execute(&mut store).await.unwrap();
        assert!(done.rows_affected() > 0, "{sql}");
        store.close().await.unwrap();
    }

    /// Rows of a table that it met and could not read.
    pub async fn unreadable(&self, table: &str) -> u64 {
        let name = format!("choirmaster_unreadable_total{{what=\"{table}\"}} ");
        let metrics = self.get("/metrics").await.ok().text();
        metrics.lines().find_map(|line| line.strip_prefix(&name)).expect(&name).parse().unwrap()
    }

    pub async fn stop(self) {
        self.manager.stop().await.unwrap();
    }

    /// A request to a path, on the children's address if that is one of theirs.
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let of_child = [
            "/poll",
            "/release?",
            "/release/",
            "/result",
            "/end_stage",
            "/answers",
            "/join",
            "/traffic",
            "/placements",
        ];
        let own = of_child.iter().any(|start| path.starts_with(start));
        let address = if own { self.manager.child_address } else { self.manager.address };
        self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), format!("http://{address}{path}"))
    }

    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let _asked = virtual_time::Question::ask();
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, body: answer.bytes().await.unwrap().to_vec() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path)).await
    }

    /// Asks until the answer is a success and as expected.
    pub async fn until(&self, path: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let ask = async || {
            Some(self.get(path).await).filter(|answer| answer.status == 200).map(|answer| answer.json())
        };
        until(path, ask, |answer| answer.as_ref().is_some_and(&is_expected)).await.unwrap()
    }

    /// Polls until there is an offer; its id.
    pub async fn offered(&self, child: &str) -> String {
        until("an offer", async || self.poll(child).await.1, |offer| !offer.is_empty()).await
    }

    /// A call without a body.
    pub async fn call(&self, method: &str, path: &str) -> Answer {
        self.send(self.request(method, path)).await
    }

    pub async fn send_json(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(self.request(method, path).json(body)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send_json("POST", path, body).await
    }

    /// Submits a strategy as YAML.
    pub async fn submit(&self, yaml: &str) -> Answer {
        self.submit_to("/release", yaml).await
    }

    /// Submits with a query.
    pub async fn submit_to(&self, path: &str, yaml: &str) -> Answer {
        let request = self.request("POST", path).header("content-type", "application/yaml");
        self.send(request.body(yaml.to_owned())).await
    }

    /// Polls; answers the id and the offer that waits.
    pub async fn poll(&self, id: &str) -> (String, String) {
        let area: Value = serde_json::from_str(AREA).unwrap();
        let body = json!({"id": id, "geographic_area": area, "number_of_children": 0});
        let answer = self.post("/poll", &body).await.ok().json();
        let part = |name: &str| answer[name].as_str().unwrap().to_owned();
        (part("id"), part("new_release"))
    }

    /// A child that is registered and no ghost.
    pub async fn child(&self) -> String {
        let (id, _) = self.poll("").await;
        self.poll(&id).await;
        id
    }

    /// A child with a machine that functions may be placed on: its id.
    pub async fn node(&self, name: &str, capabilities: &Value) -> String {
        let area: Value = serde_json::from_str(AREA).unwrap();
        let mut poll = json!({"id": "", "name": name, "kind": "agent", "geographic_area": area});
        poll["capabilities"] = capabilities.clone();
        let id = self.post("/poll", &poll).await.ok().json()["id"].as_str().unwrap().to_owned();
        poll["id"] = json!(id);
        self.post("/poll", &poll).await.ok();
        id
    }

    /// A node hears what it is to run, and says that it runs: what it says.
    pub async fn run_placed(&self, node: &str) -> Vec<Value> {
        let wanted = self.post("/placements", &json!({"id": node})).await.ok().json();
        let runs = wanted["instances"].as_array().unwrap().iter().filter(|one| one["state"] != "end");
        let phase = |one: &Value| if one["state"] == "prepare" { "ready" } else { "running" };
        let runs: Vec<Value> = runs.map(|one| json!({"id": one["id"], "phase": phase(one)})).collect();
        self.post("/placements", &json!({"id": node, "instances": runs})).await.ok();
        runs
    }

    /// Downloads an offer.
    pub async fn fetch(&self, child: &str, offer: &str) -> Answer {
        self.get(&format!("/release?childID={child}&releaseID={offer}")).await
    }

    /// Reports a stage.
    pub async fn report(&self, child: &str, offer: &str, stage: &str, status: u8) -> Answer {
        let summaries = [summary(stage, status)];
        let body = json!({"id": child, "release_id": offer, "stage_summaries": summaries, "next_stage": ""});
        self.post("/result", &body).await
    }

    pub async fn end_stage(&self, child: &str, offer: &str, stage: &str) -> Answer {
        self.post("/end_stage", &json!({"id": child, "strategy_id": offer, "stage_name": stage})).await
    }

    /// Takes a child through the one stage of [`strategy`] and the roll-out.
    pub async fn run(&self, child: &str, offer: &str) {
        self.run_stage(child, offer, STAGE).await;
        self.roll_out(child, offer).await;
    }

    /// Takes a child through the roll-out of this release.
    pub async fn roll_out(&self, child: &str, release: &str) {
        self.run_stage(child, &format!("{release}.rollout"), ROLLOUT_STAGE).await;
    }

    /// Takes a child through a stage of an offer.
    pub async fn run_stage(&self, child: &str, offer: &str, stage: &str) {
        self.poll(child).await;
        self.fetch(child, offer).await.ok();
        self.report(child, offer, stage, 2).await.ok();
        self.end_stage(child, offer, stage).await.ok();
        self.report(child, offer, stage, 4).await.ok();
    }
}

/// A text with every span of seconds or minutes made the same.
pub fn settled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches([' ', ',', ';']);
        let is_span = |unit| bare.strip_suffix(unit).is_some_and(|n| n.parse::<u32>().is_ok());
        out.push_str(match (is_span('s'), is_span('m')) {
            (true, _) => "Ns",
            (_, true) => "Nm",
            _ => bare,
        });
        out.push_str(&word[bare.len()..]);
    }
    out
}
