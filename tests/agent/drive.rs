//! An agent at work, with the runtimes that its settings name.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use choirmaster_agent::{
    Settings,
    control::{client::Client, form::Status},
    run,
    runtime::{Health, Limits, process::cgroup::Cgroups, tinyfaas},
    settings::{Manager, ProxySettings, Runtimes, Stop, Versions},
};
use tokio::sync::oneshot;

use crate::{tinyfaas::fake::Fake, world::wait_until};

/// Without a manager or a proxy that answers.
fn settings(folder: &Path, runtimes: Runtimes) -> Settings {
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
        proxy: ProxySettings { control: folder.join("proxy.sock"), start: None },
        runtimes,
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

#[tokio::test]
async fn a_function_goes_to_the_first_runtime_that_has_its_form() {
    let root = tempfile::Builder::new().prefix("drive").tempdir().unwrap();
    let fake = Fake::start(root.path());
    let function = root.path().join("greet");
    fs::create_dir(&function).unwrap();
    fs::write(function.join("fn.sh"), "#!/bin/sh\necho hello\n").unwrap();
    fs::set_permissions(function.join("fn.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let runtimes = Runtimes {
        enabled: vec!["tinyfaas".to_owned(), "process".to_owned()],
        cgroups: Cgroups::Off,
        tinyfaas: tinyfaas::Settings {
            management: fake.management,
            calls: fake.calls,
            prefix: "ours".to_owned(),
            ..tinyfaas::Settings::here()
        },
        ..Runtimes::default()
    };
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
