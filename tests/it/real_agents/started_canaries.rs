//! Canaries that a real agent starts: from a folder of the manager's and the configuration of a manifest, to processes behind its proxy.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, atomic::AtomicBool},
};

use serde_json::json;
use tokio::net::TcpListener;

use super::{
    canaries::node_gives,
    node::Node,
    processes,
    routers::Routers,
    site::Site,
    users::{self, USERS, Users},
    wait::wait_until,
};

/// Where a process of its own finds the letter that it answers with, behind the folder of its test.
const LETTER: &str = "CHOIRMASTER_TEST_LETTER";

/// Not a test by itself: agents start it.
#[test]
#[ignore = "agents start it"]
fn what_answers_with_a_letter() {
    let letter = env::var(LETTER).expect("only agents start this").chars().next_back().unwrap();
    let [host, port] = ["HOST", "PORT"].map(|name| env::var(name).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(format!("{host}:{port}")).await.unwrap();
        users::serve(listener, letter, Arc::<AtomicBool>::default(), Arc::default()).await;
    });
}

/// A folder of functions that answers with the letter that its configuration names.
fn content(site: &Site, name: &str) {
    let (program, place) = (env::current_exe().unwrap(), site.folder().display());
    let (_, module) = module_path!().split_once("::").unwrap();
    let test = format!("{module}::what_answers_with_a_letter");
    let script = format!(
        "#!/bin/sh\nexport {LETTER}='{place}/{{{{ letter }}}}'\nexec '{}' {test} --exact --ignored --nocapture\n",
        program.display()
    );
    let folder = site.functions().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("run.tmpl"), script).unwrap();
    fs::set_permissions(folder.join("run.tmpl"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// The release `shop` whose versions are all started, of which this one serves, with a letter.
fn shop(port: u16, current: usize, letter: char) -> String {
    let versions = (1..=3)
        .map(|version| format!("    - {{version: {version}, run: {{checkout: {{path: v{version}}}}}}}\n"));
    format!(
        "kind: Release\nmetadata: {{name: shop}}\nspec:\n  routers: {{env: prod}}\n  services: [{{name: checkout, ports: [{{port: {port}, \
         protocol: HTTP}}]}}]\n  version: {current}\n  config: \"letter: {letter}\"\n  versions:\n{}",
        versions.collect::<String>()
    )
}

fn canary(port: u16, version: u8, weight: u8, letter: char, transition: &str) -> String {
    format!(
        "kind: CanaryRelease\nmetadata: {{name: checkout-{version}}}\nspec:\n  release: shop\n  version: {version}\n  config: \"letter: \
         {letter}\"\n  services:\n    - {{service: checkout, ports: [{{port: {port}, protocol: HTTP, config: {{weight: {weight}}}}}]}}\n  \
         resources: {{limits: {{memory: 256Mi}}}}\n  transition: {transition:?}\n"
    )
}

/// The processes that answer with a letter.
fn running(site: &Site, letter: char) -> BTreeSet<u32> {
    let mut found = processes::with(&format!("{LETTER}={}/{letter}", site.folder().display()));
    found.retain(|one| one.arguments.contains("what_answers_with_a_letter"));
    found.into_iter().map(|one| one.pid).collect()
}

/// What an agent has of versions: their content, and where they run.
fn left(node: &Node) -> Vec<String> {
    let names = |folder: &str| {
        let entries = fs::read_dir(node.folder.join("state").join(folder)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    [names("content"), names("run/runs")].concat()
}

async fn nothing_runs(world: &Routers, letter: char) {
    wait_until(&format!("nothing answers with {letter}"), async || running(&world.site, letter).is_empty())
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_started_adopted_without_a_restart_and_no_call_is_lost() {
    let mut world = Routers::start(1, &[]).await;
    for name in ["v1", "v2", "v3"] {
        content(&world.site, name);
    }
    let (port, at) = (world.at[0].port(), world.at.clone());
    // Nobody has started the first version yet either.
    world.site.manager.submit(&shop(port, 1, 'A')).await;
    world.site.manager.submit(&canary(port, 2, 30, 'B', "")).await;
    node_gives(&world.nodes[0], 3_000).await;
    let users = Users::call(&at);
    users.round().await;
    let [of_a, of_b] = ['A', 'B'].map(|letter| running(&world.site, letter));
    assert_eq!([of_a.len(), of_b.len()], [1, 1]);
    wait_until("both answer", async || !users.of(0, 'A').is_empty() && !users.of(0, 'B').is_empty()).await;

    // Whoever starts it is killed, and finds it again.
    world.nodes[0].kill();
    world.nodes[0].come_back();
    world.site.manager.submit(&canary(port, 2, 30, 'B', "Adopted")).await;
    let ended = world.site.manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    node_gives(&world.nodes[0], 10_000).await;
    users.round().await;
    assert_eq!(users.of(0, 'B').len(), USERS);
    nothing_runs(&world, 'A').await;
    assert_eq!(running(&world.site, 'B'), of_b, "what was adopted is not started anew");
    let registered = world.site.manager.get("/api/v1/registered-releases/shop").await.unwrap();
    assert_eq!((&registered["version"], &registered["config"]), (&json!(2), &json!("letter: B")));

    // The next one begins with what serves, and leaves it.
    world.site.manager.submit(&canary(port, 3, 50, 'C', "")).await;
    node_gives(&world.nodes[0], 5_000).await;
    wait_until("it answers", async || !users.of(0, 'C').is_empty()).await;
    assert_eq!(running(&world.site, 'B'), of_b);
    world.site.manager.submit(&canary(port, 3, 50, 'C', "Deprecated")).await;
    let ended = world.site.manager.ended("checkout-3").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    nothing_runs(&world, 'C').await;
    users.round().await;
    assert_eq!(users.of(0, 'B').len(), USERS);
    assert_eq!(running(&world.site, 'B'), of_b);
    users.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_first_canary_that_was_started() {
    let mut world = Routers::start(1, &[]).await;
    for name in ["v1", "v2", "v3"] {
        content(&world.site, name);
    }
    let port = world.at[0].port();
    world.site.manager.submit(&shop(port, 1, 'A')).await;
    let before = world.site.manager.get("/api/v1/registered-releases/shop").await.unwrap();
    assert_eq!(left(&world.nodes[0]), [""; 0]);
    world.site.manager.submit(&canary(port, 2, 10, 'B', "")).await;
    node_gives(&world.nodes[0], 1_000).await;
    assert_eq!(left(&world.nodes[0]).len(), 4);
    world.site.manager.submit(&canary(port, 2, 10, 'B', "Deprecated")).await;
    world.nodes[0].kill();
    world.nodes[0].come_back();
    let ended = world.site.manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    for letter in ['A', 'B'] {
        nothing_runs(&world, letter).await;
    }
    wait_until("nothing is kept of it", async || left(&world.nodes[0]).is_empty()).await;
    let after = world.site.manager.get("/api/v1/registered-releases/shop").await.unwrap();
    assert_eq!(after, before);
}

/// The version is the same, and what is tried is its configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_dies_comes_back_and_its_table_follows() {
    let world = Routers::start(1, &[]).await;
    for name in ["v1", "v2", "v3"] {
        content(&world.site, name);
    }
    let port = world.at[0].port();
    world.site.manager.submit(&shop(port, 2, 'A')).await;
    world.site.manager.submit(&canary(port, 2, 50, 'B', "")).await;
    node_gives(&world.nodes[0], 5_000).await;
    // All of it ends, its shim as well: it is started again, at whichever port.
    let folder = world.nodes[0].folder.join("state/run/runs");
    for one in processes::with(folder.to_str().unwrap()) {
        processes::kill(one.pid);
    }
    wait_until("both are back", async || {
        ['A', 'B'].iter().all(|letter| !running(&world.site, *letter).is_empty())
    })
    .await;
    wait_until("calls come to both", async || {
        let users = Users::call(&world.at);
        users.round().await;
        let found = ['A', 'B'].map(|letter| users.of(0, letter).len());
        users.lost().await.is_empty() && !found.contains(&0)
    })
    .await;
}
