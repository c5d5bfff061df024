//! A manager of the earlier build below this one: it sends what was recorded of one, and reads answers as that did.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    samples,
    single::shown,
    wire::{Exchange, recorded, stage_and_status, unknown_keys},
};
use crate::{tree::levels::look_until, world::World};

const PATIENCE: Duration = Duration::from_mins(1);

struct Earlier<'a> {
    root: &'a World,
    id: String,
    /// The last poll that was recorded of one that is registered.
    poll: Value,
    recorded: Vec<Exchange>,
}

impl<'a> Earlier<'a> {
    async fn below(root: &'a World) -> Self {
        let recorded = recorded();
        let polls: Vec<Value> = recorded.iter().filter(|e| e.call() == "/poll").map(Exchange::body).collect();
        let first = root.post("/poll", &polls[0]).await.ok().json();
        let id = first["id"].as_str().unwrap().to_owned();
        let poll = polls.iter().rfind(|poll| poll.get("held").is_none()).unwrap().clone();
        let earlier = Self { root, id, poll, recorded };
        earlier.polls(&[]).await;
        earlier
    }

    /// What it is offered, and what it is told to hold.
    async fn polls(&self, held: &[&str]) -> (String, Vec<String>) {
        let mut body = self.poll.clone();
        body["id"] = json!(self.id);
        // It has heard of the parent by now.
        if !held.is_empty() {
            body["held"] = json!(held);
        }
        let answer = self.root.post("/poll?wait=100ms", &body).await.ok().json();
        assert_eq!(answer["id"], self.id);
        let above = answer["rm_ids"].as_array().unwrap();
        assert!(!above.is_empty() && above.iter().all(Value::is_string), "{answer}");
        let hold =
            answer.get("hold").map_or(Vec::new(), |hold| serde_json::from_value(hold.clone()).unwrap());
        (answer["new_release"].as_str().unwrap().to_owned(), hold)
    }

    async fn is_offered(&self, offer: &str) {
        let polling = async { while self.polls(&[]).await.0 != offer {} };
        assert!(timeout(PATIENCE, polling).await.is_ok(), "it was never offered {offer}");
    }

    /// Polls until it is told to hold just these.
    async fn holds(&self, held: &[&str], expected: &[&str]) {
        let polling = async { while self.polls(held).await.1 != expected {} };
        assert!(timeout(PATIENCE, polling).await.is_ok(), "it was never told to hold {expected:?}");
    }

    async fn takes(&self, offer: &str) {
        self.is_offered(offer).await;
        let text = self.root.fetch(&self.id, offer).await.ok().text();
        assert_eq!(unknown_keys(&text), Vec::<String>::new(), "it would refuse {text}");
        assert!(text.contains("from_above: {"), "{text}");
        let zip = self.root.get(&format!("/release/functions/{offer}?childID={}", self.id)).await.ok();
        assert!(zip.body.starts_with(b"PK"));
    }

    /// Sends the recorded results of an offer, and asks for the end of stages where it asked.
    async fn goes_through(&self, offer: &str) {
        let about = |e: &&Exchange| e.offer().as_deref() == Some(offer) && e.method == "POST";
        let calls: Vec<&Exchange> = self.recorded.iter().filter(about).collect();
        // A question that was asked before the stage was ready hung for a while, and was answered after that.
        let is_ready_later = |from: usize, stage: &Value| {
            let is_ready = |e: &&Exchange| e.call() == "/result" && stage_and_status(&e.body()).0 == *stage;
            calls[from..].iter().copied().find(is_ready).is_some_and(|e| stage_and_status(&e.body()).1 == 2)
        };
        for (at, exchange) in calls.iter().enumerate() {
            if exchange.call() == "/end_stage" && is_ready_later(at, &exchange.body()["stage_name"]) {
                continue;
            }
            match exchange.call() {
                "/result" => self.reports(exchange).await,
                _ => self.asks(exchange).await,
            }
        }
    }

    async fn reports(&self, exchange: &Exchange) {
        let mut body = exchange.body();
        body["id"] = json!(self.id);
        let answer = self.root.post("/result", &body).await;
        assert_eq!(answer.status, exchange.status, "{body}: {}", answer.text());
    }

    async fn asks(&self, exchange: &Exchange) {
        let (mut body, expected) = (exchange.body(), exchange.answer());
        body["id"] = json!(self.id);
        let mut last = Value::Null;
        let asking = async {
            while last != expected {
                last = self.root.post("/end_stage?wait=100ms", &body).await.ok().json();
                sleep(Duration::from_millis(5)).await;
            }
        };
        let is_so = timeout(PATIENCE, asking).await.is_ok();
        assert!(is_so, "{body}: {last} instead of {expected}");
    }

    async fn operator(&self, release: &str, act: &str) {
        self.root.call("POST", &format!("/api/v1/releases/{release}/{act}")).await.ok();
    }

    async fn is(&self, release: &str, state: &str) {
        look_until(self.root, &format!("/api/v1/releases/{release}"), |now| now["state"] == state).await;
    }
}

const BOTH: &str = include_str!("two-stages.yml");

fn release(id: &str, rollout: &str) -> String {
    BOTH.replace("id: both\n", &format!("id: {id}\n")) + "rollout:\n" + rollout
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_manager_below_goes_through_waves_barriers_a_pause_and_an_undo() {
    let root = World::with(|options| options.functions_root = samples()).await;
    let below = Earlier::below(&root).await;

    let waves = "  order: waves\n  waves: [1, 100%]\n  approval: before_each_wave\n";
    root.submit(&release("waves", waves)).await.ok();
    below.takes("waves").await;
    below.goes_through("waves").await;
    below.is("waves", "AwaitingApproval").await;
    below.operator("waves", "approve").await;
    below.takes("waves.r2").await;
    below.goes_through("waves.r2").await;
    below.is("waves", "Done").await;
    assert_eq!(shown(&root, "waves").await["agents"]["succeeded"], 2);

    root.submit(&release("global", "  order: global_incremental\n")).await.ok();
    below.takes("global").await;
    below.goes_through("global").await;
    below.is("global", "Done").await;

    root.submit(&release("undone", "  order: waves\n  waves: [1, 100%]\n")).await.ok();
    below.takes("undone").await;
    below.operator("undone", "pause").await;
    below.holds(&[], &["undone"]).await;
    below.operator("undone", "resume").await;
    below.holds(&["undone"], &[]).await;
    below.goes_through("undone").await;
    below.takes("undone.r2").await;
    below.operator("undone", "abort").await;
    below.takes("undone.undo").await;
    below.goes_through("undone.r2").await;
    below.goes_through("undone.undo").await;
    below.is("undone", "Aborted").await;
    let now = shown(&root, "undone").await;
    assert_eq!((&now["unconfirmed"], &now["agents"]["unconfirmed"]), (&json!(0), &json!(0)), "{now:#}");
    root.stop().await;
}
