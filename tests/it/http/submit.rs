//! `POST /release`: every form of it, and every way in which it is refused.

use std::io::{Cursor, Write as _};

use reqwest::multipart::{Form, Part};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::world::{Answer, World, strategy};

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn functions() -> Vec<u8> {
    zip(&[("fns/sieve_base/index.js", b"1"), ("fns/sieve_new/index.js", b"2")])
}

async fn multipart(world: &World, yaml: &str, zip: Option<Vec<u8>>) -> Answer {
    let form = Form::new().part("strategy", Part::text(yaml.to_owned()));
    let form = match zip {
        Some(zip) => form.part("functions", Part::bytes(zip).file_name("fns.zip")),
        None => form,
    };
    world.send(world.request("POST", "/release").multipart(form)).await
}

#[tokio::test]
async fn the_same_id_and_content_is_the_same_release_and_another_content_is_refused() {
    let world = World::start().await;
    let child = world.child().await;
    let first = world.submit(&strategy("a")).await;
    assert_eq!((first.status, first.header("location")), (201, "/api/v1/releases/a"));
    insta::assert_snapshot!(first.text(), @r#"{"id":"a","created":true,"dry_run":false,"participants":1,"least_ms":2000,"excluded":{},"waits_for":[],"warnings":[]}"#);
    // Comments and spelling make no difference; the meaning does.
    let again = world.submit(&format!("# a comment\n{}", strategy("a"))).await;
    assert_eq!((again.status, again.json()["created"].as_bool()), (200, Some(false)));
    let other = world.submit(&strategy("a").replace("\"<0.02\"", "\"<0.03\"")).await;
    insta::assert_snapshot!(other.problem(), @"409 /problems/id-taken: release a exists with another content: choose another id (release submit --again takes the next one that is free, --id NEW the one that you name)");
    // Other functions under the same strategy are another content too.
    let other = multipart(&world, &strategy("a"), Some(functions())).await;
    assert_eq!(other.status, 409);
    // The same once it is over and has left memory.
    world.run(&child, "a").await;
    let world = world.restart().await;
    assert_eq!(world.submit(&strategy("a")).await.status, 200);
    assert_eq!(world.submit(&strategy("a").replace("\"<0.02\"", "\"<0.03\"")).await.status, 409);
    world.stop().await;
}

#[tokio::test]
async fn a_zip_is_repacked_and_frozen() {
    let world = World::start().await;
    let child = world.child().await;
    let sent = multipart(&world, &strategy("zipped"), Some(functions())).await;
    assert_eq!(sent.status, 201, "{}", sent.text());
    assert_eq!(multipart(&world, &strategy("zipped"), Some(functions())).await.status, 200);
    assert_eq!(world.poll(&child).await.1, "zipped");
    let got = world.get("/release/functions/zipped").await.ok();
    let mut archive = zip::ZipArchive::new(Cursor::new(got.body)).unwrap();
    let mut base = String::new();
    std::io::Read::read_to_string(&mut archive.by_name("fns/sieve_base/index.js").unwrap(), &mut base)
        .unwrap();
    assert_eq!(base, "1");
    // Without the part, the manager's own folder is taken.
    assert_eq!(multipart(&world, &strategy("folder"), None).await.status, 201);
    world.stop().await;
}

#[tokio::test]
async fn a_dry_run_says_what_would_happen_and_changes_nothing() {
    let world = World::start().await;
    world.child().await;
    let before = world.get("/api/v1/audit").await.text();
    let dry = world.submit_to("/release?dry_run=true", &strategy("a")).await;
    insta::assert_snapshot!(format!("{} {}", dry.status, dry.text()), @r#"200 {"id":"a","created":true,"dry_run":true,"participants":1,"least_ms":2000,"excluded":{},"waits_for":[],"warnings":[]}"#);
    assert_eq!(dry.header("location"), "");
    assert_eq!(world.get("/api/v1/releases/a").await.status, 404);
    assert_eq!(world.get("/api/v1/audit").await.text(), before);
    world.submit(&strategy("a")).await.ok();
    let behind = world.submit_to("/release?dry_run=true", &strategy("b")).await.ok();
    assert_eq!(behind.json()["waits_for"], serde_json::json!(["a"]));
    world.stop().await;
}

#[tokio::test]
async fn every_fault_of_a_strategy_is_listed_at_once() {
    let world = World::start().await;
    let text =
        strategy("bad").replace("func_name: sieve", "func_name: seive").replace("\"<0.02\"", "\"about\"");
    let answer = world.submit(&text).await;
    insta::assert_snapshot!(answer.problem(), @r#"422 /problems/invalid-strategy: the strategy has 2 faults; the first: there is no function "seive""#);
    let body = answer.json();
    let faults = body["diagnostics"].as_array().unwrap().iter().map(|fault| {
        format!("{}:{} {} {}\n", fault["line"], fault["column"], fault["code"], fault["message"])
    });
    insta::assert_snapshot!(faults.collect::<String>(), @r#"
    18:16 "unknown-function" "there is no function \"seive\""
    26:20 "bad-threshold" "\"about\" is not a threshold"
    "#);
    assert_eq!(world.get("/api/v1/releases").await.json()["items"], serde_json::json!([]));
    world.stop().await;
}

#[tokio::test]
async fn what_is_no_submission_is_refused_with_the_reason() {
    let world = World::start().await;
    let yaml = |kind: &'static str| {
        world.request("POST", "/release").header("content-type", kind).body(strategy("a"))
    };
    let mut seen = String::new();
    let mut refused = |name: &str, answer: Answer| seen.push_str(&format!("{name}: {}\n", answer.problem()));
    refused("form", world.send(yaml("application/x-www-form-urlencoded")).await);
    refused("json", world.send(yaml("application/json")).await);
    refused("boundary", world.send(yaml("multipart/form-data")).await);
    refused("cut off", world.send(yaml("multipart/form-data; boundary=x")).await);
    refused("query", world.submit_to("/release?dryrun=true", &strategy("a")).await);
    refused("dry_run", world.submit_to("/release?dry_run=perhaps", &strategy("a")).await);
    refused("by", world.submit_to("/release?by=%0A", &strategy("a")).await);
    refused("empty", world.submit("").await);
    refused("NUL", world.submit(&format!("{}# \0\n", strategy("a"))).await);
    let form = Form::new().part("strategie", Part::text("x"));
    refused("part", world.send(world.request("POST", "/release").multipart(form)).await);
    let form = Form::new().part("functions", Part::bytes(functions()));
    refused("no strategy", world.send(world.request("POST", "/release").multipart(form)).await);
    let form = Form::new().part("strategy", Part::text("x")).part("strategy", Part::text("x"));
    refused("twice", world.send(world.request("POST", "/release").multipart(form)).await);
    refused("no zip", multipart(&world, &strategy("a"), Some(b"PK no zip".to_vec())).await);
    let slip = zip(&[("../fns/sieve_base/index.js", b"1")]);
    refused("slip", multipart(&world, &strategy("a"), Some(slip)).await);
    refused("missing", multipart(&world, &strategy("a"), Some(zip(&[("fns/other/a", b"1")]))).await);
    let bomb = zip(&[("fns/sieve_base/index.js", &vec![0; 8 << 20]), ("fns/sieve_new/index.js", b"1")]);
    refused("bomb", multipart(&world, &strategy("a"), Some(bomb)).await);
    refused("folder", world.submit(&strategy("a").replace("fns/sieve_new", "fns/nowhere")).await);
    insta::assert_snapshot!(seen, @r#"
    form: 415 about:blank: the body must be application/yaml or multipart/form-data, not application/x-www-form-urlencoded; with curl: --data-binary @FILE -H 'Content-Type: application/yaml'
    json: 415 about:blank: the body must be application/yaml or multipart/form-data, not application/json
    boundary: 400 about:blank: Invalid `boundary` for `multipart/form-data` request
    cut off: 400 about:blank: the parts can't be read: incomplete multipart stream
    query: 400 about:blank: Failed to deserialize query string: dryrun: unknown field `dryrun`, expected one of `dry_run`, `start`, `by`, `note`, `tenant`
    dry_run: 400 about:blank: Failed to deserialize query string: dry_run: provided string was not `true` or `false`
    by: 400 about:blank: `by` has 1 to 64 characters, none of them a control character
    empty: 422 /problems/invalid-strategy: the strategy has a fault: there is no strategy here
    NUL: 400 about:blank: the strategy has the character NUL in it, which no store can keep
    part: 400 about:blank: the part "strategie" is not known; the parts are strategy and functions
    no strategy: 400 about:blank: the part `strategy` is missing
    twice: 400 about:blank: a part is there twice
    no zip: 400 /problems/invalid-functions: this is not a readable zip file: invalid Zip archive: Could not find EOCD
    slip: 422 /problems/invalid-functions: the name "../fns/sieve_base/index.js" leaves its folder: use relative names with forward slashes
    missing: 422 /problems/invalid-functions: the folder "fns/sieve_base", the base_version of function "sieve", is nowhere to be found
    bomb: 413 /problems/invalid-functions: "fns/sieve_base/index.js" unpacks to more than 200 times its size
    folder: 422 /problems/invalid-functions: the folder "fns/nowhere", the new_version of function "sieve", is nowhere to be found
    "#);
    assert_eq!(world.get("/api/v1/releases").await.json()["items"], serde_json::json!([]));
    world.stop().await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let world = World::start().await;
    let huge = vec![b'#'; 33 << 20];
    let request = world.request("POST", "/release").header("content-type", "application/yaml").body(huge);
    // The manager may close the connection before it has taken all of it.
    match request.send().await {
        Ok(answer) => assert_eq!(answer.status().as_u16(), 413),
        Err(error) => assert!(error.is_request() || error.is_body(), "{error:?}"),
    }
    let long = world.submit(&format!("{}\n#{}", strategy("a"), "x".repeat(300 << 10))).await;
    assert_eq!(long.status, 422);
    world.stop().await;
}

#[tokio::test]
async fn conflicts_wait_refuse_or_supersede_as_the_strategy_says() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let with = |id: &str, what: &str| format!("on_conflict: {what}\n{}", strategy(id));
    let refused = world.submit(&with("b", "refuse")).await;
    insta::assert_snapshot!(refused.problem(), @"409 /problems/conflict: unfinished releases change the same functions: a");
    let waits = world.submit(&with("c", "queue")).await.ok();
    assert_eq!(waits.json()["waits_for"], serde_json::json!(["a"]));
    assert_eq!(
        world.get("/api/v1/releases/c").await.json()["waits_for"],
        "waits behind release a, which changes the same functions"
    );
    world.submit(&with("d", "supersede")).await.ok();
    assert_eq!(world.get("/api/v1/releases/a").await.json()["state"], "Aborted");
    let ambiguous = world.submit(&strategy("a.2")).await;
    insta::assert_snapshot!(ambiguous.problem(), @"409 /problems/id-ambiguous: id a.2 could be confused with an offer of release a: choose another id");
    world.stop().await;
}
