//! The same rollout, in each of the ways in which one can be asked for, behind routers of several kinds.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use super::{
    super::{routers::all_to, users::Users},
    World, world_of,
};

/// What children report, which comes when it comes: how often, and before or after what else, is a matter of time.
const REPORTED: [&str; 5] =
    ["child", "late_result", "traffic_shifted", "variation_healthy", "variation_unhealthy"];

impl World {
    async fn order(&self, path: &str, body: &Value) {
        let (status, text) = self.site.manager.order(path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {text}");
    }

    /// What A/B releases name.
    async fn names(&self) {
        let port = self.routers[0].port();
        let environment = json!({"name": "shop", "service": "checkout", "routers": {"env": "prod"},
            "ports": [{"port": port, "protocol": "HTTP"}]});
        self.order("/api/v1/environments?by=ops", &environment).await;
        for (name, target) in [("v41", self.a.at), ("v42", self.b.at)] {
            let version = json!({"name": name, "targets": [target.to_string()]});
            self.order("/api/v1/versions?by=ops", &version).await;
        }
    }

    async fn create(&self, name: &str) {
        let stage = |percent, requires| json!({"trafficPercentage": percent, "durationSeconds": 1, "healthThreshold": 95, "requireApproval": requires});
        let body = json!({
            "environmentId": "shop", "name": name,
            "rolloutStrategy": {"name": "mine", "autoAdvance": true, "rollbackOnFailure": true, "healthCheckInterval": 30,
                "stages": [stage(10, true), stage(100, false)]},
            "variations": [{"name": "A", "releaseId": "v41"}, {"name": "B", "releaseId": "v42"}],
            "trafficSplit": {"type": "sticky", "stickyKey": "cookie:cm", "percentages": {"A": 90, "B": 10}},
        });
        self.order("/api/v1/ab-releases?by=ann", &body).await;
    }

    /// Its first stage, whose end somebody approves of, and back; the kinds of its events.
    async fn runs(&self, release: &str) -> Vec<String> {
        self.order(&format!("/api/v1/ab-releases/{release}/start"), &Value::Null).await;
        self.seen(Some(9_000), Some(1_000)).await;
        // Whoever called before has a cookie of A. The webhook counts without any.
        let users = (self.places[0].kind != "custom")
            .then(|| Users::calling(&self.routers, false, Duration::from_millis(20)));
        let path = format!("/api/v1/releases/{release}");
        self.site.manager.until(&path, |shown| shown["state"] == "AwaitingApproval").await;
        self.order(&format!("/api/v1/ab-releases/{release}/rollback"), &Value::Null).await;
        if let Some(users) = users {
            users.end().await;
        }
        let ended = self.site.manager.ended(release).await;
        assert_eq!(ended["state"], "Aborted", "an operator has ended it: {ended:#}");
        self.seen(Some(10_000), None).await;
        let path = format!("/api/v1/audit?release={release}&limit=1000");
        let trail = self.site.manager.get(&path).await.unwrap();
        let entries = trail["items"].as_array().unwrap().iter();
        let events = entries.flat_map(|entry| entry["events"].as_array().unwrap());
        let kinds = events.map(|event| event["event"].as_str().unwrap().to_owned());
        kinds.filter(|kind| !REPORTED.contains(&&**kind)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_rollout_has_the_same_trail_however_it_is_asked_for_and_whatever_the_router_is() {
    let mut trails = Vec::new();
    for kind in ["traefik", "custom"] {
        let world = world_of(&[kind], "300ms").await;
        world.submit_by_cookie("as-it-is", &all_to("A")).await;
        world.site.manager.ended("as-it-is").await;
        world.seen(Some(10_000), None).await;
        world.names().await;

        world.create("by-interface").await;
        let manager = &world.site.manager;
        let text = manager.text("/api/v1/releases/by-interface/strategy").await;
        let text = |name: &str| text.replace("by-interface", name);
        trails.push((kind, "interface", world.runs("by-interface").await));

        let (status, why) = manager.try_to_submit_to("/release?start=false&by=ann", &text("by-yaml")).await;
        assert!((200..300).contains(&status), "{why}");
        trails.push((kind, "YAML", world.runs("by-yaml").await));

        let file = world.site.folder().join("by-command.yml");
        fs::write(&file, text("by-command")).unwrap();
        let command = ["release", "submit", file.to_str().unwrap(), "--no-start", "--url", &manager.url()];
        let submitted = world.nodes[0].run(&command);
        assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
        trails.push((kind, "command", world.runs("by-command").await));
    }
    let (_, _, first) = &trails[0];
    assert!(first.len() > 5, "{first:?}");
    for (kind, way, trail) in &trails {
        assert_eq!(trail, first, "{kind} by {way}");
    }
}
