//! A canary that is deprecated leaves everything as if it had not been: what listens, the kernel's rules, what is in the folder of an agent and
//! its proxy, and what is registered are the same before and after it, byte for byte.
//!
//! These are left out, for they say nothing of it:
//!
//! - logs, which tell what has happened, and files that end in `.new`, each of which is about to be in the place of another one;
//! - `epoch` and `generation` of `state.json`, `table` and `listen.json`, and the sum in the first line of `table`: numbers of tables and lists
//!   only grow, so that no old one is ever taken for news;
//! - `count` and `cursor` of `state.json`: how many offers and results there were, and how far calls were counted;
//! - `listen.json` and `takeover.json` whose lists have nothing: no file says the same.
//!
//! Where others run as well, only what the proxy has open counts of what listens; in a network of its own, everything in that does.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use sqlx::{Connection as _, SqliteConnection};

use crate::{
    deadline::until,
    real_agents::{
        canaries::{self as real, node_gives},
        node::Node,
        routers::{Routers, all_to, strategy},
        site::Site,
        taken_over::{self, WITHIN, in_a_network_of_its_own, rules},
        users::{Backend, Users},
        wait::wait_until,
    },
};

/// All that a canary may not leave.
#[derive(Debug, PartialEq)]
struct Left {
    /// The kernel's table, and the address as it stands there.
    listening: BTreeSet<String>,
    rules: String,
    files: BTreeMap<PathBuf, String>,
    registered: Vec<String>,
}

impl Left {
    async fn at(site: &Site, node: &Node, is_alone: bool) -> Self {
        let listening = if is_alone {
            listening(|_| true)
        } else {
            let open = open_files(node);
            listening(|inode| open.contains(Path::new(&format!("socket:[{inode}]"))))
        };
        let rules = if is_alone { rules() } else { String::new() };
        let mut files = BTreeMap::new();
        read_all(&node.folder, &mut files);
        let store = format!("sqlite://{}", site.folder().join("manager/choir.db").display());
        let mut store = SqliteConnection::connect(&store).await.unwrap();
        let rows = "SELECT json_array(tenant, kind, name, id, detail, at_ms, actor, removed_ms) FROM registered \
                    ORDER BY tenant, kind, name";
        let registered = sqlx::query_scalar(rows).fetch_all(&mut store).await.unwrap();
        store.close().await.unwrap();
        Self { listening, rules, files, registered }
    }

    /// What a file with this name has to say; nothing where there is none.
    fn of(&self, name: &str) -> &str {
        let mut found = self.files.iter().filter(|(path, _)| path.ends_with(name));
        found.next().map(|(_, text)| text.as_str()).unwrap_or_default()
    }
}

/// What the processes of a proxy have open.
fn open_files(node: &Node) -> BTreeSet<PathBuf> {
    let pids = node.proxy_processes().into_iter().map(|one| one.pid);
    let open = pids.filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok()).flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

/// Where it is waited for connections and datagrams, at sockets with these numbers.
fn listening(is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        // Not every system has all of them.
        let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (local, remote, inode) = (fields[1], fields[2], fields[9]);
            // What is connected has a port at its other end.
            if remote.ends_with(":0000") && is_meant(inode) {
                found.insert(format!("{table} {local}"));
            }
        }
    }
    found
}

/// What is in the files of a folder. What goes meanwhile isn't there.
fn read_all(folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    let there = |found: io::Result<_>| match found {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", folder.display()),
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        let is_passing = ["log", "new"].iter().any(|end| path.extension().is_some_and(|of| of == *end));
        if kind.is_dir() {
            files.insert(path.clone(), "a folder".to_owned());
            read_all(&path, files);
        } else if !kind.is_file() {
            files.insert(path, format!("{kind:?}"));
        } else if !is_passing && let Some(bytes) = there(fs::read(&path)) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some(text) = without_what_grows(&path, text) {
                files.insert(path, text);
            }
        }
    }
}

/// `None`: it says what no file says.
fn without_what_grows(path: &Path, text: String) -> Option<String> {
    let (json, grows): (&str, &[&str]) = match path.file_name().and_then(|name| name.to_str()) {
        Some("table") => (text.split_once('\n').unwrap().1, &["epoch", "generation"]),
        Some("listen.json") => (&text, &["epoch", "generation"]),
        Some("state.json") => (&text, &["epoch", "generation", "count", "cursor"]),
        Some("takeover.json") => return (text != "[]").then_some(text),
        _ => return Some(text),
    };
    let mut value: Value = serde_json::from_str(json).unwrap();
    for one in grows {
        value.as_object_mut().unwrap().remove(*one);
    }
    let text = value.to_string();
    (text != r#"{"listen":[]}"#).then_some(text)
}

/// A canary comes and goes, next to something else that is led. `at`: where it is called.
async fn comes_and_goes(site: &Site, node: &Node, [a, b]: [&Backend; 2], at: SocketAddr, is_alone: bool) {
    let (manager, port) = (&site.manager, at.port());
    let [c, d] = ['C', 'D'].map(Backend::start);
    let wares = strategy("wares-0", node.at.port(), [("A", c.at), ("B", d.at)], &all_to("A"));
    manager.submit(&wares.replace("name: checkout\n", "name: wares\n")).await;
    manager.ended("wares-0").await;
    manager.submit(&real::shop(port, 1, &[a.at, b.at])).await;
    node.is_at_rest().await;
    node.until_proxy("it serves one alone", |status| {
        let [service] = &status.services[..] else { return false };
        service.variations.len() == 1
    })
    .await;
    let look = async || Left::at(site, node, is_alone).await;
    // What the agent knows is written down a moment after it says so.
    let is_at_rest = |left: &Left| {
        let state = left.of("state.json");
        ["wares-0", r#""work":null"#, r#""owed":[]"#].iter().all(|one| state.contains(*one))
    };
    let before = until("the end of the first release is written down", &look, is_at_rest).await;
    assert!(!before.listening.is_empty(), "the proxy listens");

    let canary = |weight, transition| real::canary(port, 2, weight, transition);
    // What an agent may take over is known a moment after the agent is.
    let begins = async || manager.try_to_submit(&canary(10, "")).await;
    until("the canary begins", begins, |(status, _)| *status < 300).await;
    node_gives(node, 1_000).await;
    // Connections that are made before the rules are in force stay with the program that has the port.
    let users = Users::calling(&[at], false, Duration::from_millis(10));
    wait_until("the canary has calls", async || b.calls() > 50).await;
    users.end().await;
    manager.submit(&canary(30, "")).await;
    node_gives(node, 3_000).await;
    let changed: &[&str] = if is_alone {
        &["state.json", "table", "takeover.json", "listen.json"]
    } else {
        &["state.json", "table"]
    };
    let has_come = |left: &Left| {
        let has_changed = |name: &&str| left.of(name) != before.of(name);
        let is_taken_over = left.rules != before.rules && left.listening.len() > before.listening.len();
        changed.iter().all(has_changed) && is_taken_over == is_alone
    };
    until("all of that has it while it lives", &look, has_come).await;

    manager.submit(&canary(30, "Deprecated")).await;
    let ended = manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    until("everything is as it was", &look, |left| *left == before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_was_deprecated_leaves_everything_as_if_it_had_not_been() {
    let world = Routers::start(1, &[]).await;
    comes_and_goes(&world.site, &world.nodes[0], [&world.a, &world.b], world.at[0], false).await;
}

#[test]
fn a_port_that_was_given_back_is_as_if_it_had_never_been_taken_over() {
    in_a_network_of_its_own("canaries::before_and_after::story_of_a_port_of_others", Stdio::piped());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_a_port_of_others() {
    if env::var_os(WITHIN).is_none() {
        return;
    }
    // Rules of somebody else stay as they are.
    let made = Command::new("nft").args(["add", "table", "inet", "somebody"]).status().unwrap();
    assert!(made.success());
    let world = taken_over::World::start().await;
    comes_and_goes(&world.site, &world.node, [&world.a, &world.b], world.a.at, true).await;
}
