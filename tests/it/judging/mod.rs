//! Releases that are judged: fetched, looked at, and acted on, over HTTP.

mod children;
mod compared;
mod conditions;
mod finite;
mod fleets;
mod foresight;
mod history;
mod interim;
mod previous;
mod provider;
mod router;
mod sticky;
mod tree;
mod tree_children;
mod unreadable;
mod variations;
mod whole;

use std::sync::{Arc, Mutex};

use axum::{Router, extract::Query, http::StatusCode, routing::get};
use choirmaster::app::Options;
use language::analysis::providers::Providers;
use serde_json::Value;
use simulated_children::{FleetConfig, FleetReport};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::world::{World, strategy};

/// What the provider answers for a version, or a status of an error.
type Says = Result<Vec<f64>, u16>;

/// A provider of the type `web` that says what it is told to.
struct Meter {
    url: String,
    says: Arc<Mutex<(Says, Says)>>,
    serving: JoinHandle<()>,
}

#[derive(serde::Deserialize)]
struct Asked {
    v: String,
}

impl Meter {
    async fn start() -> Self {
        let says: Arc<Mutex<(Says, Says)>> = Arc::new(Mutex::new((Ok(Vec::new()), Ok(Vec::new()))));
        let shared = Arc::clone(&says);
        let answer = move |Query(asked): Query<Asked>| async move {
            let (canary, other) = shared.lock().unwrap().clone();
            match if asked.v == "canary" { canary } else { other } {
                Ok(values) => (StatusCode::OK, serde_json::to_string(&values).unwrap()),
                Err(status) => (StatusCode::from_u16(status).unwrap(), "no".to_owned()),
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/", get(answer));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, says, serving }
    }

    fn say(&self, canary: Says, other: Says) {
        *self.says.lock().unwrap() = (canary, other);
    }

    /// Lets a manager know of it.
    fn known_to(&self, options: &mut Options) {
        let text = format!("providers: {{meter: {{type: web, url: '{}', json_path: '$[*]'}}}}", self.url);
        let (providers, faults) = Providers::read(&text);
        assert_eq!(faults, []);
        options.site.providers = providers;
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The canary sample, its stage judged by a block of these keys.
fn judged(id: &str, block: &str) -> String {
    let text = strategy(id);
    let marked = text.replace("    end_action:", &format!("    analysis: {{{block}}}\n    end_action:"));
    assert_ne!(text, marked);
    marked
}

/// Agents that run two hundred times as fast.
struct Agents {
    stop: CancellationToken,
    run: JoinHandle<FleetReport>,
}

impl Agents {
    fn below(world: &World, agents: usize, change: impl FnOnce(&mut FleetConfig)) -> Self {
        let url = format!("http://{}", world.manager.child_address);
        let mut config = FleetConfig { url, agents, pace: 0.005, ..FleetConfig::default() };
        config.traffic.calls_per_second = 500.0;
        config.traffic.new.errors = 0.0;
        config.traffic.base.errors = 0.0;
        change(&mut config);
        let stop = CancellationToken::new();
        let until = stop.clone();
        let run = tokio::spawn(async move { simulated_children::run(config, until, |_| ()).await.unwrap() });
        Self { stop, run }
    }

    async fn end(self) {
        self.stopped().await;
    }

    /// What became of them.
    async fn stopped(self) -> FleetReport {
        self.stop.cancel();
        self.run.await.unwrap()
    }
}

/// Looks at a release until it is as expected, and answers what it saw.
async fn look_until(world: &World, id: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    world.until(&format!("/api/v1/releases/{id}"), is_expected).await
}

async fn in_state(world: &World, id: &str, state: &str) -> Value {
    look_until(world, id, |shown| shown["state"] == state).await
}

async fn registered(world: &World, count: usize) {
    world.until("/api/v1/children", |children| children["items"].as_array().unwrap().len() >= count).await;
}

/// Until managers below have told of so many agents.
async fn told_of(root: &World, agents: u64) {
    let sum = |children: &Value| -> u64 {
        children["items"].as_array().unwrap().iter().map(|child| child["agents"].as_u64().unwrap_or(0)).sum()
    };
    root.until("/api/v1/children", |children| sum(children) == agents).await;
}

/// The audit trail of a kind of event, oldest first.
async fn events(world: &World, release: &str, event: &str) -> Vec<Value> {
    let page = world.get(&format!("/api/v1/audit?release={release}&limit=1000")).await.ok().json();
    let rows = page["items"].as_array().unwrap().iter();
    let found = rows.flat_map(|row| row["events"].as_array().unwrap().clone());
    found.filter(|found| found["event"] == event).collect()
}
