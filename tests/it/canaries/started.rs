//! Canaries that agents start: what comes with their release, and what is refused on its way.

use std::{fs, path::Path};

use language::functions::{Limits, unpack};
use serde_json::{Value, json};

use super::{
    ADOPTED, DEPRECATED, canary_of,
    life::{goes_back, registered, serves_alone, state, stored, told},
};
use crate::{ab::player::Player, cli::registry::said, world::Answer};

/// The release `shop`: version 1 has targets, the others are started. This one serves.
fn shop(current: u8, archive: &str) -> String {
    format!(
        "kind: Release\nmetadata: {{name: shop}}\nspec:\n  services: [{{name: checkout, ports: [{{port: 8080, protocol: HTTP}}]}}]\n  version: \
         {current}\n  versions:\n    - {{version: 1, targets: {{checkout: [\"127.0.0.1:9101\"]}}}}\n    - {{version: 2, run: {{checkout: \
         {{path: shop/v2}}}}}}\n    - {{version: 3, run: {{checkout: {{path: checkout-canary{archive}}}}}}}\n"
    )
}

fn canary(version: u8, rest: &str) -> String {
    canary_of("shop", &format!("checkout-{version}"), version, rest)
}

/// A manager with a folder of functions, and a router whose agent starts programs. The folder is that of version 2.
async fn start(folder: &Path, features: &[&str], runtimes: &Value) -> Player {
    let root = folder.to_owned();
    let mut player = Player::with(|options| options.functions_root = root).await;
    player.capabilities["features"] = json!(features);
    player.capabilities["runtimes"] = runtimes.clone();
    player.polls().await;
    fs::create_dir_all(folder.join("shop/v2/static")).unwrap();
    fs::write(folder.join("shop/v2/run.tmpl"), "#!/bin/sh\nexec serve {{ colour }}\n").unwrap();
    fs::write(folder.join("shop/v2/static/a.txt"), "{{ colour }}").unwrap();
    player.world.submit(&shop(1, "")).await.ok();
    player
}

async fn able(folder: &Path) -> Player {
    start(folder, &["shares", "runs"], &json!(["image", "program"])).await
}

/// The files that come with a release, by their names.
async fn files(player: &Player, release: &str) -> Vec<(String, String)> {
    let router = &player.router;
    let zip = player.world.get(&format!("/release/functions/{release}?childID={router}")).await.ok();
    let files = unpack(&zip.body, |_| true, &Limits::default()).unwrap().files;
    files.into_iter().map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap())).collect()
}

fn file(path: &str, text: &str) -> (String, String) {
    (path.to_owned(), text.to_owned())
}

async fn refused(player: &Player, canary: &str) -> String {
    let answer: Answer = player.world.submit(canary).await;
    answer.problem()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_started_comes_rendered_with_the_release_and_is_the_base_of_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let player = able(folder.path()).await;
    let limited = canary(2, "  resources: {limits: {memory: 0.125Gi, cpu: 0.5}}\n");
    // Whoever asks what it would do is told, and nothing is begun.
    player.world.submit_to("/release?dry_run=true", &limited).await.ok();
    assert_eq!(told(&player.world.submit(&limited).await), (201, json!(true), Value::Null));
    player.begins("checkout-2").await;
    let expected = [
        file("checkout-canary/run", "#!/bin/sh\nexec serve 2\n"),
        file("checkout-canary/static/a.txt", "{{ colour }}"),
    ];
    assert_eq!(files(&player, "checkout-2").await, expected);
    let text = player.world.get("/api/v1/releases/checkout-2/strategy").await.ok().text();
    let run = r#"{"name":"canary","run":{"path":"checkout-canary","env":"program","limits":{"cpu":"500m","memory":"128Mi"}}}"#;
    assert!(text.contains(run), "{text}");
    let shown = player.world.get("/api/v1/canary-releases/checkout-2").await.ok().json();
    assert_eq!(shown["spec"]["resources"], json!({"limits": {"cpu": "500m", "memory": "128Mi"}}));
    // The same again is the same, also where the folder has changed since.
    fs::write(folder.path().join("shop/v2/run.tmpl"), "#!/bin/sh\nexec serve {{ colour }} # v2\n").unwrap();
    assert_eq!(told(&player.world.submit(&limited).await), (200, json!(false), Value::Null));

    let archive =
        player.world.get("/api/v1/releases/checkout-2").await.ok().json()["functions_digest"].clone();
    player.world.submit(&limited.replace("  resources", "  transition: Adopted\n  resources")).await.ok();
    serves_alone(&player, "checkout-2").await;
    assert_eq!(state(&player, "checkout-2").await, "Done");
    let now = registered(&player).await;
    assert_eq!((&now["version"], &now["config"]), (&json!(2), &json!("colour: 2\n")));

    // What serves is rendered with the configuration that the release has now, and archives of releases are content, too.
    let archive = format!(", archive: {}", archive.as_str().unwrap());
    let next = shop(2, &archive).replace("  version: 2\n", "  version: 2\n  config: \"colour: 2\"\n");
    player.world.submit(&next).await.ok();
    assert_eq!(
        told(&player.world.submit(&canary(3, "").replace("colour: 3", "")).await),
        (201, json!(true), Value::Null)
    );
    player.begins("checkout-3").await;
    let expected = [
        file("checkout-canary/run", "#!/bin/sh\nexec serve 2\n"),
        file("checkout-canary/static/a.txt", "{{ colour }}"),
        file("checkout-stable/run", "#!/bin/sh\nexec serve 2 # v2\n"),
        file("checkout-stable/static/a.txt", "{{ colour }}"),
    ];
    assert_eq!(files(&player, "checkout-3").await, expected);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ran_as_the_canary_has_its_limits_as_the_release_and_so_does_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let player = able(folder.path()).await;
    fs::create_dir_all(folder.path().join("checkout-canary")).unwrap();
    fs::write(folder.path().join("checkout-canary/run.tmpl"), "#!/bin/sh\nexec serve {{ colour }}\n")
        .unwrap();
    let limited = canary(2, "  resources: {limits: {memory: 0.125Gi, cpu: 0.5}}\n");
    player.world.submit(&limited).await.ok();
    player.begins("checkout-2").await;
    assert_eq!(registered(&player).await.get("resources"), None);
    player.world.submit(&(limited + ADOPTED)).await.ok();
    assert_eq!(registered(&player).await.get("resources"), None, "its router has yet to do it");
    serves_alone(&player, "checkout-2").await;
    let limits = json!({"limits": {"cpu": "500m", "memory": "128Mi"}});
    assert_eq!(registered(&player).await["resources"], limits);
    let shown = player.world.get("/api/v1/registered-releases/shop").await.ok().json();
    assert_eq!((&shown["version"], &shown["resources"]), (&json!(2), &limits));

    // Neither what serves nor what is tried is started without them.
    player.world.submit(&canary(3, "")).await.ok();
    player.begins("checkout-3").await;
    let text = player.world.get("/api/v1/releases/checkout-3/strategy").await.ok().text();
    for variation in ["stable", "canary"] {
        let run = format!(
            r#"{{"name":"{variation}","run":{{"path":"checkout-{variation}","env":"program","limits":{{"cpu":"500m","memory":"128Mi"}}}}}}"#
        );
        assert!(text.contains(&run), "{text}");
    }
    let seen = said(&player.world, folder.path(), &["canary", "show", "checkout-3"]).await;
    assert!(seen.contains("  limits     cpu 500m, memory 128Mi\n"), "{seen}");
    let before = stored(&player.world, ab_releases::DEFAULT_TENANT, "shop").await;
    player.world.submit(&canary(3, DEPRECATED)).await.ok();
    goes_back(&player, "checkout-3").await;
    assert_eq!(state(&player, "checkout-3").await, "Aborted");
    assert_eq!(stored(&player.world, ab_releases::DEFAULT_TENANT, "shop").await, before);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_services_each_has_a_folder_and_one_that_reads_the_configuration_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let player = start(folder.path(), &["shares", "runs", "together"], &json!(["program"])).await;
    fs::create_dir_all(folder.path().join("pay")).unwrap();
    fs::write(folder.path().join("pay/run"), "#!/bin/sh\nexec pay\n").unwrap();
    let of = "kind: Release\nmetadata: {name: shop}\nspec:\n  services:\n    - {name: checkout, ports: [{port: 8080}, {port: 8081}]}\n    - \
              {name: pay, ports: [{port: 8090}]}\n  version: 1\n  versions:\n    - {version: 1, targets: {checkout: [\"127.0.0.1:9101\"], \
              pay: [\"127.0.0.1:9201\"]}}\n    - {version: 2, run: {checkout: {path: shop/v2}, pay: {path: pay}}}\n";
    player.world.submit(of).await.ok();
    let both = canary(2, "    - {service: pay, ports: [{port: 8090, config: {weight: 10}}]}\n");
    let [template, plain] = ["run.tmpl", "run"].map(|name| folder.path().join("shop/v2").join(name));
    fs::rename(&template, &plain).unwrap();
    let unread = refused(&player, &both).await;
    assert!(unread.contains("`spec.config`: nothing would read it"), "{unread}");
    fs::rename(&plain, &template).unwrap();
    assert_eq!(told(&player.world.submit(&both).await), (201, json!(true), Value::Null));
    player.begins("checkout-2").await;
    let expected = [
        file("checkout-canary/run", "#!/bin/sh\nexec serve 2\n"),
        file("checkout-canary/static/a.txt", "{{ colour }}"),
        file("pay-canary/run", "#!/bin/sh\nexec pay\n"),
    ];
    assert_eq!(files(&player, "checkout-2").await, expected);
    let text = player.world.get("/api/v1/releases/checkout-2/strategy").await.ok().text();
    assert_eq!(text.matches(r#""path":"checkout-canary""#).count(), 2, "each of its ports: {text}");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_started_is_refused_by_name_and_nothing_has_happened() {
    let folder = tempfile::tempdir().unwrap();
    let player = able(folder.path()).await;
    let before = stored(&player.world, ab_releases::DEFAULT_TENANT, "shop").await;
    let unknown = canary(2, "").replace("colour: 2", "color: 2");
    assert_eq!(
        refused(&player, &unknown).await,
        "422 /problems/invalid-field: `spec.config`: line 2 of \"run.tmpl\": \"colour\" is not in the configuration; did you mean color?"
    );
    let missing = refused(&player, &canary(3, "")).await;
    assert!(
        missing.starts_with(
            "422 /problems/invalid-field: `spec.version`: what is to run as checkout-canary can't be had: "
        ),
        "{missing}"
    );
    assert!(missing.contains("\"checkout-canary\""), "{missing}");
    player.world.submit(&shop(1, &format!(", archive: {}", "0a".repeat(32)))).await.ok();
    let unknown = refused(&player, &canary(3, "")).await;
    assert!(
        unknown.starts_with(
            "422 /problems/invalid-field: `spec.version`: no release has brought the archive 0a0a"
        ),
        "{unknown}"
    );
    player.world.submit(&shop(1, "")).await.ok();
    fs::remove_file(folder.path().join("shop/v2/run.tmpl")).unwrap();
    let unread = refused(&player, &canary(2, "")).await;
    assert!(unread.contains("`spec.config`: nothing would read it"), "{unread}");
    assert_eq!(stored(&player.world, ab_releases::DEFAULT_TENANT, "shop").await.0, before.0);
    assert_eq!(player.world.get("/api/v1/releases/checkout-2").await.status, 404);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_can_start_nothing_is_named() {
    let rows = [
        (
            &["shares"][..],
            json!(["program"]),
            "an older version of choirmaster leads, which starts no variations of services (it doesn't name the feature \"runs\"): update it \
             first",
        ),
        (
            &["shares", "runs"][..],
            json!([]),
            "an agent leads that can't start a program (run): enable a runtime for it, or give the variation targets",
        ),
    ];
    for (features, runtimes, lacks) in rows {
        let folder = tempfile::tempdir().unwrap();
        let player = start(folder.path(), features, &runtimes).await;
        let why = refused(&player, &canary(2, "")).await.replace(&player.router, "ID");
        assert_eq!(
            why,
            format!(
                "409 /problems/can-not-lead: router ID is of kind embedded, which {lacks}; service checkout asks for that"
            )
        );
        player.world.stop().await;
    }
}
