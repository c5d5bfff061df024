//! What is wrong around an agent: each has an answer that a person understands, and what serves goes on.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{
    callers::PATIENCE,
    manager::tail,
    node::Node,
    releases::{Kind, stages, strategy},
    serving::Behaviour::Good,
    site::Site,
    stages::{habits, nothing_is_left_but},
    wait::wait_until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_agent_on_the_same_folder_says_so_and_ends() {
    let site = Site::start().await;
    let node = site.node("edge", &[]).await;
    let second = tokio::task::spawn_blocking({
        let mut command = node.command();
        move || command.stderr(std::process::Stdio::piped()).output().unwrap()
    });
    let second = tokio::time::timeout(PATIENCE, second).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("used by another agent"), "{said}");
    assert!(node.status().await.is_some());
}

/// A release of a version that can't be started ends with an error that names what is wrong.
async fn a_release_of_what_can_not_be_started(file: &str, text: &str, env: &str) -> String {
    let mut site = Site::start().await;
    let node = site.node("edge", &[]).await;
    site.manager.knows(1).await;
    let base = site.version(Good);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    let new = site.version_with(file, text);
    let release = strategy("r", [&base, &new], &stages(Kind::Wait, &[10], 300), "");
    let release = release.replace(&format!("fns/{new}, env: program"), &format!("fns/{new}, env: {env}"));
    site.manager.submit(&release).await;
    let ended = site.manager.ended("r").await;
    assert_ne!(ended["state"], "Done", "{ended:#}");
    node.is_at_rest().await;
    load.more_calls(100).await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    nothing_is_left_but(&site, &node.folder, &base).await;
    format!("{ended:#} {:#?}", site.manager.parts("r").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_of_a_form_that_nobody_here_runs_ends_with_that_in_words() {
    let said = a_release_of_what_can_not_be_started("main.cob", "STOP RUN.", "cobol").await;
    assert!(said.contains("cobol"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_ends_at_once_ends_with_what_it_said() {
    let said = a_release_of_what_can_not_be_started(
        "run",
        "#!/bin/sh\necho no such setting >&2\nexit 3\n",
        "program",
    )
    .await;
    assert!(said.contains("no such setting") || said.contains("status 3"), "{said}");
}

/// Starts the agent so that it can write no file longer than this.
fn with_full_disk(node: &Node, bytes: u64) -> Command {
    let own = node.command();
    let mut command = node.program();
    command.args(["-c", "trap '' XFSZ; exec prlimit --fsize=$0:unlimited \"$@\"", &bytes.to_string()]);
    let mut limited = Command::new("sh");
    limited.args(command.get_args()).arg(own.get_program()).args(own.get_args());
    limited.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(&node.folder).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    // Its log is a file as well, so it gets one that somebody else writes.
    limited.stderr(std::process::Stdio::piped());
    limited
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_disk_is_full_begins_nothing_new_says_so_and_what_serves_goes_on() {
    let mut site = Site::start().await;
    let mut node = site.node("edge", &["agent.keep_base=0s"]).await;
    site.manager.knows(1).await;
    let (base, new) = (site.version(Good), site.version(Good));
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    node.kill();
    let mut full = with_full_disk(&node, 64).spawn().unwrap();
    let (mut said, log) = (full.stderr.take().unwrap(), node.log());
    std::thread::spawn(move || {
        let mut log = fs::File::options().append(true).open(log).unwrap();
        let _ = std::io::copy(&mut said, &mut log);
    });
    node.until("it answers", |_| true).await;
    site.manager.submit(&strategy("r", [&base, &new], &stages(Kind::Wait, &[50], 300), "")).await;
    wait_until("it says so", async || tail(&node.log()).contains("can't be kept")).await;
    load.more_calls(300).await;
    assert!(!site.manager.is_over("r").await);
    assert_eq!(load.callers.lost(), 0);
    full.kill().unwrap();
    full.wait().unwrap();
    node.come_back();
    let ended = site.manager.ended("r").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    node.is_at_rest().await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    nothing_is_left_but(&site, &node.folder, &new).await;
}

/// Answers, each of which no manager gives.
fn nonsense(number: usize) -> axum::response::Response {
    use axum::response::{Html, IntoResponse as _};
    let json = |text: &str| ([("content-type", "application/json")], text.to_owned()).into_response();
    match number % 8 {
        0 => Html("<h1>Welcome to nginx</h1>").into_response(),
        1 => json("{\"id\": 7, \"new_release\": [\"r\"]}"),
        2 => json("{\"id\": \"../../etc\\u0000\", \"new_release\": \"\\u0000\"}"),
        3 => json("{"),
        4 => json(&format!("{{\"id\": \"{}\"}}", "x".repeat(3 << 20))),
        5 => axum::http::StatusCode::IM_A_TEAPOT.into_response(),
        6 => (axum::http::StatusCode::FOUND, [("location", "http://127.0.0.1:1/")]).into_response(),
        _ => json("[[[[[[[[[[[[]]]]]]]]]]]]"),
    }
}

/// Whoever answers so at a free address, and how often that was.
async fn manager_of(answer: fn(usize) -> axum::response::Response) -> (String, std::sync::Arc<AtomicUsize>) {
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    let app = axum::Router::new().fallback(move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        async move { answer(number) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_sends_nonsense_is_named_and_asked_again_and_what_serves_goes_on() {
    let mut site = Site::start().await;
    let (url, asked) = manager_of(nonsense).await;
    let node = Node::start(&site.folder().join("edge"), "edge", &url, &[]).await;
    let base = site.version(Good);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    wait_until("it has seen some of it", async || asked.load(Ordering::Relaxed) > 5).await;
    let status = node.until("it has trouble", |status| status.manager.trouble.is_some()).await;
    assert!(status.work.is_none(), "{status:#?}");
    load.more_calls(100).await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    assert!(!tail(&node.log()).contains("panicked"), "{}", node.what_it_said());
}

const OFFER: &str = "r1";

/// An offer whose functions are no archive.
fn with_broken_archive(path: &str, base: &str, new: &str) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    match path {
        "/poll" => axum::Json(serde_json::json!({"id": "child-1", "new_release": OFFER})).into_response(),
        "/release" => strategy(OFFER, [base, new], &stages(Kind::Wait, &[10], 100), "").into_response(),
        path if path.starts_with("/release/") => {
            b"PK\x03\x04 is how an archive begins".to_vec().into_response()
        }
        _ => axum::Json(serde_json::json!({})).into_response(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_can_not_be_unpacked_are_told_of_and_not_tried() {
    let mut site = Site::start().await;
    let app = axum::Router::new()
        .fallback(|uri: axum::http::Uri| async move { with_broken_archive(uri.path(), "v0", "v1") });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let node = Node::start(&site.folder().join("edge"), "edge", &url, &[]).await;
    let base = site.version(Good);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    wait_until("it says why", async || {
        tail(&node.log()).contains("r1 ends with an error: its functions can't be had")
    })
    .await;
    let status = node.is_at_rest().await;
    assert_eq!(status.functions.len(), 1);
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    assert!(!node.folder.join("state/download.zip").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_token_was_revoked_says_so_and_what_serves_goes_on() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    fs::write(tokens.path(), "edges let-me-in-0123456789abcdef\n").unwrap();
    let set = [
        format!("auth.join_token_file={}", tokens.path().display()),
        "auth.child_token_required=true".to_owned(),
    ];
    let mut site = Site::with(&set).await;
    let join = site.folder().join("join-token");
    fs::write(&join, "let-me-in-0123456789abcdef\n").unwrap();
    let with = format!("manager.join_token_file={}", join.display());
    let node = site.node("edge", &[&with]).await;
    let base = site.version(Good);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    let status = node.until("it has joined", |status| status.id.is_some() && status.manager.reached).await;
    let identity = fs::read_to_string(node.folder.join("state/identity.json")).unwrap();
    let (code, text) = site.manager.delete(&format!("/api/v1/children/{}/token", status.id.unwrap())).await;
    assert!((200..300).contains(&code), "{code} {text}");
    let status = node.until("it is refused", |status| !status.manager.reached).await;
    let trouble = status.manager.trouble.unwrap_or_default();
    assert!(trouble.contains("401") || trouble.contains("403"), "{trouble}");
    wait_until("it says so", async || tail(&node.log()).contains("doesn't accept this agent's token")).await;
    load.more_calls(100).await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    let secret =
        serde_json::from_str::<serde_json::Value>(&identity).unwrap()["token"].as_str().unwrap().to_owned();
    assert!(!node.what_it_said().contains(&secret), "a token is in the log");
}
