//! What A/B releases name, and a release of a service, on the command line.

use std::path::Path;

use serde_json::{Value, json};

use super::{code, err, out, run};
use crate::world::{AREA, World};

/// What a command prints, with its exit code, without what differs from run to run.
async fn said(world: &World, folder: &Path, args: &[&str]) -> String {
    let url = format!("http://{}", world.manager.address);
    let args = args.iter().copied().chain(["--url", &url]).map(str::to_owned).collect::<Vec<_>>();
    let folder = folder.to_owned();
    let output = tokio::task::spawn_blocking(move || run(&folder, args)).await.unwrap();
    let text = format!("{}{}", out(&output), err(&output));
    let is_told = |line: &&str| {
        let line = line.trim_start();
        !["id  ", "registered  ", "submitted  ", "took  "].iter().any(|what| line.starts_with(what))
    };
    let lines: Vec<&str> = text.lines().filter(is_told).map(str::trim_end).collect();
    format!("{}\n({})\n", lines.join("\n"), code(&output))
}

async fn all(world: &World, lines: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = String::new();
    for line in lines {
        let args: Vec<&str> = line.split(' ').collect();
        seen += &format!("$ {line}\n{}", said(world, folder.path(), &args).await);
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_releases_name_is_registered_listed_shown_and_removed() {
    let world = World::start().await;
    let seen = all(
        &world,
        &[
            "environment list",
            "environment register shop --service checkout --port 8080 --port 8443:https --router env=prod --sticky cookie:cm --health-path /ready --health-interval 500ms --soak 90 --by ann",
            "environment register bare --service other --port 5432:TCP --by ann",
            "environment list",
            "environment list --limit 1",
            "environment show none",
            "environment register shop --service checkout --port none",
            "environment register shop --service checkout --port 8080:SCTP",
            "target-group register blue --address 10.0.0.1:9101 --address 10.0.0.2:9101 --by ann",
            "target-group register workers --label tier=batch --label zone=a --by ann",
            "target-group list",
            "target-group remove blue",
            "target-group register none",
            "version register v41 --target 127.0.0.1:9101 --by ann",
            "version register v42 --digest 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --path new --env nodejs --by ann",
            "version list",
            "version show v42",
            "version remove v41",
            "version show v41",
        ],
    )
    .await;
    insta::assert_snapshot!(seen, @"");
    let shown = said(&world, Path::new("."), &["environment", "show", "shop", "--json"]).await;
    let shown: Value = serde_json::from_str(shown.rsplit_once("\n(").unwrap().0).unwrap();
    assert_eq!(shown, world.get("/api/v1/environments/shop").await.ok().json());
    world.stop().await;
}

const STRATEGY: &str = r"
id: checkout-42
name: Checkout, version 42
services:
  - name: checkout
    ports: [{port: 8080, protocol: HTTP}]
    variations:
      - {name: A, targets: ['127.0.0.1:9101']}
      - {name: B, targets: ['127.0.0.1:9111']}
strategy: blue-green-gradual
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_a_service_reads_as_one() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(AREA).unwrap();
    let poll = |id: &str| {
        json!({"id": id, "geographic_area": area, "number_of_children": 0, "kind": "agent", "name": "edge-1",
            "capabilities": {"leads": "whole", "routers": ["nginx"]}})
    };
    let id = world.post("/poll", &poll("")).await.ok().json()["id"].as_str().unwrap().to_owned();
    world.post("/poll", &poll(&id)).await.ok();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("42");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("release.yml"), STRATEGY).unwrap();
    // A folder of a release needs no functions where none change.
    let mut seen = String::new();
    for line in [
        "release submit . --dry-run",
        "release submit release.yml --no-start",
        "release list",
        "release show checkout-42",
        "plan release.yml",
        "release import .. --submit",
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        seen += &format!("$ {line}\n{}", said(&world, &folder, &args).await);
    }
    insta::assert_snapshot!(seen.replace(&id[..8], "ID"), @"");
    world.stop().await;
}
