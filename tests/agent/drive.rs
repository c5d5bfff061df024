//! An agent at work, with the runtimes that its settings name.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use agent::{
    Settings,
    control::{client::Client, form::Status},
    run,
    runtime::{Health, Limits, process::cgroup::Cgroups, tinyfaas},
    settings::{FrontSettings, Manager, ProxySettings, Runtimes, Stop, Versions},
};
use tokio::sync::oneshot;

use crate::{
    scripted::{Reply, Server},
    tinyfaas::fake::Fake,
    world::wait_until,
};

/// Without a manager or a proxy that answers.
pub fn settings(folder: &Path, runtimes: Runtimes) -> Settings {
    let manager = Manager {
        url: "http://127.0.0.1:1".to_owned(),
        join_token_file: None,
        token_file: None,
        ca: None,
        certificate: None,
        key: None,
    };
    Settings {
        program: "0",
        manager,
        name: "edge".to_owned(),
        area: String::new(),
        labels: BTreeMap::new(),
        state: folder.join("state"),
        control: folder.join("control.sock"),
        front: FrontSettings::Proxy(ProxySettings {
            control: folder.join("proxy.sock"),
            start: None,
            takeover: None,
        }),
        runtimes,
        node: None,
        versions: Versions {
            limits: Limits::default(),
            health: Health::default(),
            warm_up: None,
            drain: Duration::from_secs(1),
            grace: Duration::from_secs(1),
        },
        keep_base: Duration::ZERO,
        metrics: None,
        stop: Stop::Leave,
    }
}

fn write_program(folder: &Path, says: &str) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("fn.sh"), format!("#!/bin/sh\necho {says}\n")).unwrap();
    fs::set_permissions(folder.join("fn.sh"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// What the polls named that came last.
fn runtimes_of(server: &Server) -> Vec<String> {
    let polls = server.asked().into_iter().filter(|asked| asked.target.starts_with("/poll"));
    let last = polls.last().map(|asked| asked.json()["capabilities"]["runtimes"].clone());
    last.map_or_else(Vec::new, |runtimes| serde_json::from_value(runtimes).unwrap())
}

/// Versions are run by a tinyFaaS of the tests: here nothing else can start processes.
fn by_tinyfaas(fake: &Fake) -> Runtimes {
    Runtimes {
        enabled: vec!["tinyfaas".to_owned()],
        cgroups: Cgroups::Off,
        tinyfaas: tinyfaas::Settings {
            management: fake.management,
            calls: fake.calls,
            prefix: "ours".to_owned(),
            ..tinyfaas::Settings::here()
        },
        ..Runtimes::default()
    }
}

/// Once nothing was started anywhere until it answered.
#[tokio::test]
async fn a_runtime_that_is_away_at_the_start_holds_up_no_other() {
    let root = tempfile::Builder::new().prefix("drive").tempdir().unwrap();
    let fake = Fake::start(root.path());
    let (function, secret) = (root.path().join("greet"), root.path().join("secret"));
    write_program(&function, "hello");
    fs::write(&secret, "known to two, and long").unwrap();
    // Taken, and nobody answers there: whoever calls waits.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut runtimes = by_tinyfaas(&fake);
    runtimes.enabled.insert(0, "webhook".to_owned());
    runtimes.webhook.url = format!("http://{}", taken.local_addr().unwrap());
    runtimes.webhook.secret_file = Some(secret);
    runtimes.webhook.runners = vec!["binary".to_owned(), "wasm".to_owned()];
    let server = Server::start(|_, _| Reply::new(200, r#"{"id":"a1"}"#));
    let mut settings = settings(root.path(), runtimes);
    settings.manager.url = server.url();
    let client = Client::new(&settings.control);
    let (end, ended) = oneshot::channel::<()>();
    let running = tokio::spawn(run(settings, async {
        let _ = ended.await;
    }));
    let away = wait_until("it says so", async || {
        let status = client.get::<Status>("/status").await.ok()?;
        Some(status.runtimes[0].clone()).filter(|away| away.trouble.is_some())
    });
    let away = away.await;
    assert!(!away.reached && away.trouble.unwrap().contains("it didn't say within 2 s what it runs"));
    let body = serde_json::to_vec(&serde_json::json!({"folder": function})).unwrap();
    let adding = tokio::spawn({
        let client = client.clone();
        async move { client.put::<serde_json::Value>("/functions/greet", body.into()).await }
    });
    wait_until("the other one runs it", async || Some(fake.names()).filter(|names| !names.is_empty())).await;
    let told =
        wait_until("it polls", async || Some(runtimes_of(&server)).filter(|all| !all.is_empty())).await;
    assert_eq!(told, ["binary", "nodejs", "python"]);
    let metrics = String::from_utf8(client.text("/metrics").await.unwrap().to_vec()).unwrap();
    assert!(metrics.contains("choirmaster_agent_runtime_reached{runtime=\"webhook\"} 0"), "{metrics}");

    let _webhook = Server::start_at(taken, |_, _| Reply::new(200, r#"{"generation":9,"versions":[]}"#));
    let status = wait_until("it answers", async || {
        let status = client.get::<Status>("/status").await.ok()?;
        status.runtimes[0].reached.then_some(status)
    });
    assert_eq!(status.await.runtimes[0].trouble, None);
    let is_told = async || runtimes_of(&server).contains(&"wasm".to_owned()).then_some(());
    wait_until("the manager is told", is_told).await;
    adding.abort();
    end.send(()).unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_function_goes_to_the_first_runtime_that_has_its_form() {
    let root = tempfile::Builder::new().prefix("drive").tempdir().unwrap();
    let fake = Fake::start(root.path());
    let function = root.path().join("greet");
    write_program(&function, "hello");
    let mut runtimes = by_tinyfaas(&fake);
    runtimes.enabled.push("process".to_owned());
    let settings = settings(root.path(), runtimes);
    let client = Client::new(&settings.control);
    let (end, ended) = oneshot::channel::<()>();
    let running = tokio::spawn(run(settings, async {
        let _ = ended.await;
    }));
    let status = wait_until("it answers", async || client.get::<Status>("/status").await.ok()).await;
    let runtimes: Vec<_> = status.runtimes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(runtimes, ["tinyfaas", "process"]);
    assert_eq!(status.runtimes[0].runners, ["binary", "nodejs", "python"]);
    assert!(root.path().join("state/run").is_dir(), "the folder of the runtime `process`");

    let body = serde_json::to_vec(&serde_json::json!({"folder": function})).unwrap();
    let adding =
        tokio::spawn(async move { client.put::<serde_json::Value>("/functions/greet", body.into()).await });
    let names =
        wait_until("it is uploaded", async || Some(fake.names()).filter(|names| !names.is_empty())).await;
    assert!(names.len() == 1 && names[0].starts_with("ourss"), "a name of the form `binary`: {names:?}");
    // No proxy is there, and so it is never served.
    adding.abort();
    end.send(()).unwrap();
    running.await.unwrap().unwrap();
}

/// Once only a line of the log said so.
#[tokio::test]
async fn what_cant_be_kept_is_told_until_it_can() {
    let root = tempfile::Builder::new().prefix("drive").tempdir().unwrap();
    let function = root.path().join("greet");
    write_program(&function, "hello");
    let fake = Fake::start(root.path());
    let settings = settings(root.path(), by_tinyfaas(&fake));
    // Nothing can take its place.
    let state = settings.state.join("state.json");
    let client = Client::new(&settings.control);
    let (end, ended) = oneshot::channel::<()>();
    let running = tokio::spawn(run(settings, async {
        let _ = ended.await;
    }));
    let status = async || client.get::<Status>("/status").await.ok();
    assert_eq!(wait_until("it answers", status).await.unsaved, None);
    let _ = fs::remove_file(&state);
    fs::create_dir_all(state.join("in the way")).unwrap();
    let body = serde_json::to_vec(&serde_json::json!({"folder": function})).unwrap();
    let adding = tokio::spawn({
        let client = client.clone();
        async move { client.put::<serde_json::Value>("/functions/greet", body.into()).await }
    });
    let unsaved = wait_until("it says so", async || status().await?.unsaved).await;
    assert!(unsaved.contains("state.json"), "{unsaved}");
    assert_eq!(fake.names(), Vec::<String>::new(), "nothing is begun");
    fs::remove_dir_all(&state).unwrap();
    wait_until("it is kept again", async || status().await?.unsaved.is_none().then_some(())).await;
    wait_until("it is started", async || Some(fake.names()).filter(|names| !names.is_empty())).await;
    adding.abort();
    end.send(()).unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_failed_versions_wrote_is_read_by_their_release_the_newest_first() {
    let root = tempfile::Builder::new().prefix("drive").tempdir().unwrap();
    let fake = Fake::start(root.path());
    let folder = root.path().join("state/failed");
    fs::create_dir_all(&folder).unwrap();
    let kept = [
        ("a", "bad", 1_000, "it fails", "first"),
        ("b", "bad.r2", 2_000, "it is\ntoo slow", "second\n"),
        ("c", "bad.rest", 3_000, "no", "third"),
    ];
    for (digit, offer, at_ms, why, log) in kept {
        let (version, name) = (digit.repeat(64), format!("fns/{digit}"));
        let head = serde_json::json!({
            "version": version, "at_ms": at_ms, "offer": offer, "stage": "s", "name": name, "why": why
        });
        fs::write(folder.join(format!("{}.log", &version[..16])), format!("{head}\n{log}")).unwrap();
    }
    let settings = settings(root.path(), by_tinyfaas(&fake));
    let client = Client::new(&settings.control);
    let (end, ended) = oneshot::channel::<()>();
    let running = tokio::spawn(run(settings, async {
        let _ = ended.await;
    }));
    wait_until("it answers", async || client.get::<Status>("/status").await.ok()).await;
    let text = client.text("/logs?release=bad").await.unwrap();
    insta::assert_snapshot!(std::str::from_utf8(&text).unwrap(), @r"
    --- fns/b (bbbbbbbbbbbbbbbb) in stage s of bad.r2, 1970-01-01T00:00:02Z: it is too slow
    second
    --- fns/a (aaaaaaaaaaaaaaaa) in stage s of bad, 1970-01-01T00:00:01Z: it fails
    first
    ");
    let refused = client.text("/logs?release=good").await.unwrap_err().to_string();
    assert!(refused.contains("no version failed here in release good"), "{refused}");
    assert!(refused.contains("the last 3 that failed: of bad.rest, bad.r2, bad"), "{refused}");
    end.send(()).unwrap();
    running.await.unwrap().unwrap();
}
