//! The description of the API is true: schemathesis reads it, sends what it allows and what it forbids, and finds nothing.

use std::{path::Path, process::Command, time::Duration};

use crate::{
    hostile_input::routes::ENDLESS,
    world::{World, strategy},
};

/// Requests for each operation in each phase that makes them at random.
const EXAMPLES: &str = "15";

/// Its program; `tests/run` gets it and sets this.
fn program() -> String {
    std::env::var("CHOIRMASTER_TEST_SCHEMATHESIS").unwrap_or_else(|_| {
        panic!(
            "CHOIRMASTER_TEST_SCHEMATHESIS is not set: run the tests with tests/run, which gets schemathesis for them"
        )
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing() {
    // It asks for waits of any length.
    let world = World::with(|options| options.max_wait = Duration::from_millis(5)).await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let folder = tempfile::tempdir().unwrap();
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis/schemathesis.toml");
    let mut command = Command::new(program());
    command
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .arg("--config-file")
        .arg(config)
        .arg("run")
        .arg(format!("http://{}/openapi.json", world.manager.address))
        // One worker: some versions of Python stumble over threads that read source text.
        .args(["--workers", "1", "--max-examples", EXAMPLES, "--warnings", "off"]);
    let ran = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let ran = ran.unwrap_or_else(|error| panic!("schemathesis does not run: {error}"));
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    // It looked at all there is but the streams without an end, and the document that it read.
    let document = world.get("/openapi.json").await.ok().json();
    let operations: usize = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .map(|item| item.as_object().unwrap().values().filter(|operation| operation.is_object()).count())
        .sum();
    let tested = said.lines().find_map(|line| line.trim().strip_prefix("Tested: ")?.parse::<usize>().ok());
    assert_eq!(tested, Some(operations - ENDLESS.len() - 1), "{said}");
    assert_eq!(world.get("/readyz").await.status, 200);
    world.stop().await;
}
