//! Who shares a manager sees nothing of the others.

mod archive;
mod attack;
mod below;
mod ids;
mod if_match;
mod intents;
mod limits;
mod manage;
mod queue;
mod rights;
mod routers;
mod unmarked;

use std::{collections::HashMap, fs, path::Path};

use choirmaster::app::Options;
use http_api::auth::{ChildTokens, Grant, JoinToken, OperatorToken, Settings, Token};
use model::{Role, TenantName};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{AREA, Answer, World};

/// Whose token is whose: name, secret, tenant, roles.
const TOKENS: &[(&str, &str, Option<&str>, &[Role])] = &[
    ("root", "secret-of-the-manager", None, &[]),
    ("ann", "secret-of-acme-ann", Some("acme"), &[]),
    ("vic", "secret-of-acme-vic", Some("acme"), &[Role::Viewer]),
    ("otto", "secret-of-acme-otto", Some("acme"), &[Role::Operator]),
    ("abe", "secret-of-acme-abe", Some("acme"), &[Role::Approver]),
    ("uma", "secret-of-umbra-uma", Some("umbra"), &[]),
    ("watch", "secret-of-the-watch", None, &[Role::Viewer]),
    ("ghost", "secret-of-a-ghost", Some("nobody"), &[]),
];

/// The join token of acme's children.
const DOOR: &str = "join-token-of-acme";

fn secret(name: &str) -> &'static str {
    TOKENS.iter().find(|(known, ..)| *known == name).unwrap().1
}

fn settings() -> Settings {
    let tenant = |name: &str| TenantName::parse(name).unwrap();
    let token = |(name, secret, of, roles): &(&str, &str, Option<&str>, &[Role])| OperatorToken {
        name: (*name).to_owned(),
        token: Token::new(secret),
        grant: Grant { tenant: of.map(tenant), roles: roles.to_vec() },
    };
    Settings {
        operators: TOKENS.iter().map(token).collect(),
        operator_required: true,
        children: ChildTokens::new(HashMap::new(), false),
        doors: vec![JoinToken {
            name: "acme-door".to_owned(),
            token: Token::new(DOOR),
            tenant: Some(tenant("acme")),
        }],
        ..Settings::default()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// An answer but for the time, with the ids that were asked for taken out.
pub fn told(answer: &Answer, asked: &[&str]) -> String {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| *name != "date")
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    headers.sort();
    let mut text = format!("{}\n{}\n{}", answer.status, headers.join("\n"), answer.text());
    for id in asked {
        text = text.replace(id, "ID");
    }
    text
}

/// A manager with the tenants acme and umbra.
pub struct Shared {
    pub world: World,
    /// The manager's folder of functions.
    functions: TempDir,
}

impl Shared {
    pub async fn start() -> Self {
        Self::with(|_| ()).await
    }

    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let functions = tempfile::tempdir().unwrap();
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("fns");
        for of in ["", "tenants/acme", "tenants/umbra"] {
            for version in ["sieve_base", "sieve_new"] {
                copy(&samples.join(version), &functions.path().join(of).join("fns").join(version));
            }
        }
        let root = functions.path().to_owned();
        let world = World::with(|options| {
            options.auth = settings();
            options.functions_root = root;
            change(options);
        });
        let shared = Self { world: world.await, functions };
        for name in ["acme", "umbra"] {
            shared.post("root", "/api/v1/tenants", &json!({"name": name})).await.ok();
        }
        shared
    }

    /// Another life of the manager.
    pub async fn restart(self) -> Self {
        let Self { world, functions } = self;
        let root = functions.path().to_owned();
        let world = world.restart_with(|options| {
            options.auth = settings();
            options.functions_root = root;
        });
        Self { world: world.await, functions }
    }

    /// Somebody's token.
    pub fn secret(name: &str) -> &'static str {
        secret(name)
    }

    /// A call with somebody's token.
    pub async fn call(&self, who: &str, method: &str, path: &str) -> Answer {
        self.world.send(self.world.request(method, path).bearer_auth(secret(who))).await
    }

    pub async fn get(&self, who: &str, path: &str) -> Answer {
        self.call(who, "GET", path).await
    }

    pub async fn send(&self, who: &str, method: &str, path: &str, body: &Value) -> Answer {
        self.world.send(self.world.request(method, path).bearer_auth(secret(who)).json(body)).await
    }

    pub async fn post(&self, who: &str, path: &str, body: &Value) -> Answer {
        self.send(who, "POST", path, body).await
    }

    pub async fn yaml(&self, who: &str, path: &str, yaml: &str) -> Answer {
        let request = self.world.request("POST", path).bearer_auth(secret(who));
        self.world.send(request.header("content-type", "application/yaml").body(yaml.to_owned())).await
    }

    pub async fn submit(&self, who: &str, yaml: &str) -> Answer {
        self.yaml(who, "/release", yaml).await
    }

    /// A child of a tenant.
    pub async fn child_of(&self, tenant: &str) -> String {
        let child = self.world.child().await;
        let path = format!("/api/v1/children/{child}/labels/tenant");
        self.send("root", "PUT", &path, &json!({"value": tenant})).await.ok();
        child
    }

    /// A router of a tenant, and what it leads.
    pub async fn router_of(&self, tenant: &str, kind: &str, services: &Value) -> String {
        let area: Value = serde_json::from_str(AREA).unwrap();
        let poll = |id: &str| {
            json!({"id": id, "geographic_area": area, "number_of_children": 0, "kind": "agent", "name": format!("of {tenant}"),
                "capabilities": {"leads": "whole", "routers": [kind]}})
        };
        let answer = self.world.post("/poll", &poll("")).await.ok().json();
        let id = answer["id"].as_str().unwrap().to_owned();
        self.world.post("/poll", &poll(&id)).await.ok();
        let path = format!("/api/v1/children/{id}/labels/tenant");
        self.send("root", "PUT", &path, &json!({"value": tenant})).await.ok();
        let phase = if services == &json!([]) { "idle" } else { "in_force" };
        let router = json!({"kind": kind, "phase": phase, "reached": true});
        self.world.post("/traffic", &json!({"id": id, "router": router, "services": services})).await.ok();
        id
    }

    /// The ids of the items of a list.
    pub async fn ids(&self, who: &str, path: &str) -> Vec<String> {
        let page = self.get(who, path).await.ok().json();
        assert_eq!(page["next"], Value::Null, "{page}");
        page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    }

    async fn state(&self, who: &str, release: &str) -> String {
        let shown = self.get(who, &format!("/api/v1/releases/{release}")).await.ok().json();
        shown["state"].as_str().unwrap().to_owned()
    }
}
