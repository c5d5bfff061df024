//! A manager with what A/B releases name, and routers that are played over the children's calls.

use choirmaster::app::Options;
use serde_json::{Value, json};

use crate::{
    store::place::Place,
    world::{AREA, Answer, World},
};

/// A whole strategy of two stages, the first of which somebody approves.
pub fn two_stages() -> Value {
    json!({"name": "mine", "autoAdvance": true, "rollbackOnFailure": true, "healthCheckInterval": 30, "stages": [
        {"trafficPercentage": 10, "durationSeconds": 0, "healthThreshold": 95, "requireApproval": true},
        {"trafficPercentage": 100, "durationSeconds": 0, "healthThreshold": 95, "requireApproval": false},
    ]})
}

/// What a release of two variations is made of.
pub fn body(name: &str, strategy: &Value) -> Value {
    json!({
        "environmentId": "shop-prod", "name": name, "rolloutStrategy": strategy,
        "variations": [{"name": "A", "releaseId": "v41"}, {"name": "B", "releaseId": "v42"}],
        "trafficSplit": {"type": "sticky", "stickyKey": "header:X-User", "percentages": {"A": 90, "B": 10}},
    })
}

pub struct Player {
    pub world: World,
    pub router: String,
    /// What that says of itself.
    pub capabilities: Value,
}

impl Player {
    pub async fn start() -> Self {
        Self::of(World::start().await).await
    }

    pub async fn at(place: &Place) -> Self {
        Self::of(World::with(|options| options.store.clone_from(&place.url)).await).await
    }

    /// With other options of the manager than the usual ones.
    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::of(World::with(change).await).await
    }

    async fn of(world: World) -> Self {
        let capabilities = json!({"leads": "whole", "routers": ["embedded"]});
        let mut player = Self { world, router: String::new(), capabilities };
        player.router = player.polls().await.0;
        player.polls().await;
        let environment = json!({"name": "shop-prod", "service": "checkout", "routers": {},
            "ports": [{"port": 8080, "protocol": "HTTP"}]});
        player.world.post("/api/v1/environments?by=ops", &environment).await.ok();
        for (name, target) in [("v41", "127.0.0.1:9101"), ("v42", "127.0.0.1:9111")] {
            let version = json!({"name": name, "targets": [target]});
            player.world.post("/api/v1/versions?by=ops", &version).await.ok();
        }
        player
    }

    /// Its id, and the offer that waits.
    pub async fn polls(&self) -> (String, String) {
        let area: Value = serde_json::from_str(AREA).unwrap();
        let body = json!({"id": self.router, "geographic_area": area, "number_of_children": 0, "kind": "agent",
            "capabilities": self.capabilities});
        let answer = self.world.post("/poll", &body).await.ok().json();
        (answer["id"].as_str().unwrap().to_owned(), answer["new_release"].as_str().unwrap().to_owned())
    }

    pub async fn create(&self, body: &Value) -> Answer {
        self.world.post("/api/v1/ab-releases?by=ann", body).await
    }

    /// A release of three variations whose stages lead to the second, in its first stage.
    pub async fn three_under_way(&self) {
        let mut three = body("r", &two_stages());
        three["variations"].as_array_mut().unwrap().push(json!({"name": "C", "releaseId": "v43"}));
        let version = json!({"name": "v43", "targets": ["127.0.0.1:9121"]});
        self.world.post("/api/v1/versions", &version).await.ok();
        three["trafficSplit"]["percentages"] = json!({"A": 90, "B": 7.5, "C": 2.5});
        self.create(&three).await.ok();
        self.act("r", "start", &Value::Null).await.ok();
        self.begins("r").await;
    }

    pub async fn act(&self, id: &str, what: &str, body: &Value) -> Answer {
        self.world.post(&format!("/api/v1/ab-releases/{id}/{what}"), body).await
    }

    pub async fn shown(&self, id: &str) -> Value {
        self.world.get(&format!("/api/v1/ab-releases/{id}")).await.ok().json()
    }

    /// Status and phase.
    pub async fn stands(&self, id: &str) -> (String, String) {
        let shown = self.shown(id).await;
        (shown["status"].as_str().unwrap().to_owned(), shown["phase"].as_str().unwrap().to_owned())
    }

    pub async fn stages(&self, id: &str) -> Vec<String> {
        let shown = self.shown(id).await;
        let stages = shown["stages"].as_array().unwrap().iter();
        stages.map(|stage| stage["status"].as_str().unwrap().to_owned()).collect()
    }

    /// Takes the offer: its first stage begins.
    pub async fn begins(&self, offer: &str) {
        assert_eq!(self.polls().await.1, offer);
        self.world.fetch(&self.router, offer).await.ok();
    }

    /// Reports a stage, with 1,000 calls of each version, so many of the new one's as errors, and times of about 7 ms.
    pub async fn reports(&self, offer: &str, stage: &str, status: u8, errors: u64) -> Answer {
        let mut summary = crate::world::summary(stage, status);
        let sketch = |count: u64| {
            json!({"mapping": {"gamma": 1.02, "indexOffset": 0.0}, "zeroCount": 0.0,
                "positiveValues": {"contiguousBinCounts": [count as f64], "contiguousBinIndexOffset": 100}})
        };
        summary["f1_calls"] = json!(1_000);
        summary["f2_calls"] = json!(1_000);
        summary["f1_errors"] = json!(0);
        summary["f2_errors"] = json!(errors);
        summary["f2_err_rate"] = json!(errors as f64 / 1_000.0);
        summary["f1_histogram"] = sketch(1_000);
        summary["f2_histogram"] = sketch(1_000 - errors);
        let body =
            json!({"id": self.router, "release_id": offer, "stage_summaries": [summary], "next_stage": ""});
        self.world.post("/result", &body).await
    }

    /// Goes through a stage, as far as the manager lets it; answers whether it was let out.
    pub async fn walks(&self, offer: &str, stage: &str) -> bool {
        self.reports(offer, stage, 2, 10).await.ok();
        self.leaves(offer, stage).await
    }

    /// Ends a stage that it waits in, if it may.
    pub async fn leaves(&self, offer: &str, stage: &str) -> bool {
        let answer = self.world.end_stage(&self.router, offer, stage).await.ok().json();
        if answer["end_stage"] == true {
            self.reports(offer, stage, 4, 10).await.ok();
        }
        answer["end_stage"] == true
    }

    /// The kinds of events of a release in the words of this interface, in the order in which they happened.
    pub async fn told(&self, release: &str) -> Vec<String> {
        let all = self.kinds(release).await;
        all.into_iter().filter(|kind| kind.starts_with("ab.") || kind.starts_with("canary.")).collect()
    }

    /// The kinds of all events of a release.
    pub async fn kinds(&self, release: &str) -> Vec<String> {
        let trail = self.world.get(&format!("/api/v1/audit?release={release}&limit=1000")).await.ok().json();
        let entries = trail["items"].as_array().unwrap().iter();
        let events = entries.flat_map(|entry| entry["events"].as_array().unwrap());
        events.map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    }
}
