//! What A/B releases name, and a release of a service, on the command line.

use std::path::Path;

use serde_json::{Value, json};

use super::{code, err, out, run};
use crate::world::{AREA, World};

/// What a command prints, with its exit code, without what differs from run to run.
pub async fn said(world: &World, folder: &Path, args: &[&str]) -> String {
    let url = format!("http://{}", world.manager.address);
    let args = args.iter().copied().chain(["--url", &url]).map(str::to_owned).collect::<Vec<_>>();
    let folder = folder.to_owned();
    let output = tokio::task::spawn_blocking(move || run(&folder, args)).await.unwrap();
    // What a good strategy is warned of stands in the tests of the language.
    let mut text = if code(&output) == 0 { out(&output) } else { out(&output) + &err(&output) };
    for age in 1..60 {
        text = text.replace(&format!(" {age}s ago"), " 0s ago");
        text = text.replace(&format!("  {:<3}  ", format!("{age}s")), "  0s   ");
    }
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
            "environment register shop --service checkout --port 8080 --port 8443:https:shop.example,b.example/api --router env=prod --sticky cookie:cm --health-path /ready --health-interval 500ms --soak 90 --by ann",
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
            "version register v41 --target 127.0.0.1:9101 --by ann",
            "version register v42 --digest 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --path new --env nodejs --by ann",
            "version list",
            "version remove v41",
            "version show v41",
        ],
    )
    .await;
    insta::assert_snapshot!(seen, @r##"
    $ environment list
    no environments are registered
    (0)
    $ environment register shop --service checkout --port 8080 --port 8443:https:shop.example,b.example/api --router env=prod --sticky cookie:cm --health-path /ready --health-interval 500ms --soak 90 --by ann
    shop
      service     checkout
      ports       8080 HTTP, 8443 HTTPS shop.example,b.example/api
      routers     env=prod
      sticky      cookie:cm
      health      /ready, every 0.5 s, answered within 1 s
      soak        1m 30s
      by          ann
    (0)
    $ environment register bare --service other --port 5432:TCP --by ann
    bare
      service     other
      ports       5432 TCP
      routers     all
      by          ann
    (0)
    $ environment list
    NAME  SERVICE   PORTS                                             ROUTERS
    bare  other     5432 TCP                                          all
    shop  checkout  8080 HTTP, 8443 HTTPS shop.example,b.example/api  env=prod
    (0)
    $ environment list --limit 1
    NAME  SERVICE  PORTS     ROUTERS
    bare  other    5432 TCP  all
    … and more: raise --limit
    (0)
    $ environment show none
    error: there is no environment none
    (1)
    $ environment register shop --service checkout --port none
    error: invalid value 'none' for '--port <PORT[:HTTP|HTTPS|TCP|UDP[:HOST,HOST/PATH]]>': it looks like 8080, 8443:HTTPS or 443:HTTPS:shop.example/api

    For more information, try '--help'.
    (1)
    $ environment register shop --service checkout --port 8080:SCTP
    error: `ports[0].protocol`: it is HTTP, HTTPS, TCP or UDP
    (1)
    $ target-group register blue --address 10.0.0.1:9101 --address 10.0.0.2:9101 --by ann
    blue
      addresses   10.0.0.1:9101, 10.0.0.2:9101
      by          ann
    (0)
    $ target-group register workers --label tier=batch --label zone=a --by ann
    workers
      agents      tier=batch, zone=a
      by          ann
    (0)
    $ target-group list
    NAME     AGENTS              ADDRESSES
    blue     -                   10.0.0.1:9101, 10.0.0.2:9101
    workers  tier=batch, zone=a  -
    (0)
    $ target-group remove blue
    blue: removed
    (0)
    $ version register v41 --target 127.0.0.1:9101 --by ann
    v41
      targets     127.0.0.1:9101
      by          ann
    (0)
    $ version register v42 --digest 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --path new --env nodejs --by ann
    v42
      archive     0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
      folder      new
      runtime     nodejs
      by          ann
    (0)
    $ version list
    NAME  TARGETS         ARCHIVE       FOLDER  RUNTIME
    v41   127.0.0.1:9101  -             -       -
    v42   -               0123456789a…  new     nodejs
    (0)
    $ version remove v41
    v41: removed
    (0)
    $ version show v41
    error: there is no version v41
    (1)
    "##);
    let shown = said(&world, Path::new("."), &["version", "show", "v42"]).await;
    assert!(seen.contains(&format!(" --env nodejs --by ann\n{shown}")), "as it was registered: {shown}");
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
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        seen += &format!("$ {line}\n{}", said(&world, &folder, &args).await);
    }
    insta::assert_snapshot!(seen.replace(&id[..8], "ID"), @r##"
    $ release submit . --dry-run
    checkout-42 would be released: 1 child takes part
      it takes at least 25m 0s for its stages, waves and soaks; calls and approvals come on top
    (0)
    $ release submit release.yml --no-start
    checkout-42 is submitted: 1 child takes part
      it takes at least 25m 0s for its stages, waves and soaks; calls and approvals come on top
      it is not started: choirmaster release resume checkout-42
      choirmaster release watch checkout-42 shows how it goes
    (0)
    $ release list
    ID           STATE    PROGRESS  AGE  NAME
    checkout-42  Planned  0/0       0s   Checkout, version 42
    (0)
    $ release show checkout-42
    checkout-42  Checkout, version 42
      state        Planned
      waits for    is submitted but not started: `choirmaster release resume` starts it
      changes      service checkout
      tag          0-1-4
      takes        at least 25m 0s
      children     0

    STAGE  TYPE     CHANGES           NEW             CHILDREN
    25 %   Traffic  service checkout  A 75 %, B 25 %
    50 %   Traffic  service checkout  A 50 %, B 50 %
    75 %   Traffic  service checkout  A 25 %, B 75 %
    100 %  Traffic  service checkout  A 0 %, B 100 %

    no children to show
    (0)
    $ plan release.yml
    checkout-42: 1 child takes part, 1 agent, 58.68 km²
      order: global_incremental

    STAGE  CHANGES           CALLS GO TO     USERS MOVED
    25 %   service checkout  A 75 %, B 25 %  25 %
    50 %   service checkout  A 50 %, B 50 %  25 %
    75 %   service checkout  A 25 %, B 75 %  25 %
    100 %  service checkout  A 0 %, B 100 %  25 %

    STAGE  CONDITION        CALLS  FAILS BY CHANCE  UNTESTED  ENOUGH CALLS  BY
    25 %   errorRate <0.05  400    0.0 %            0.0 %     11            assumed: 0.1 % errors
    50 %   errorRate <0.05  200    0.0 %            0.0 %     5             assumed: 0.1 % errors
    75 %   errorRate <0.05  133    0.0 %            0.0 %     3             assumed: 0.1 % errors
    100 %  errorRate <0.05  100    0.0 %            0.0 %     1             assumed: 0.1 % errors
    (0)
    "##);
    world.stop().await;
}
