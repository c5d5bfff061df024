//! What is wrong around an agent: each has an answer that a person understands, and what serves goes on.

use std::{fs, process::Command};

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
async fn agent_with_full_disk_starts_nothing_new_but_keeps_serving() {
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
