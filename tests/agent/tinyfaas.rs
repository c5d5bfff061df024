//! The runtime `tinyfaas`, with a tinyFaaS of the tests.

pub mod fake;

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use agent::runtime::{
    Fault, Order, Runtime, VersionId,
    tinyfaas::{Form, Settings, TinyFaas},
};
use proxy::{Limits, Proxy, live::Target};
use serde_json::json;

use self::fake::Fake;
use crate::{
    calls::{call, get, post},
    conformance::conformance,
    functions::{self, Behaviour},
    ports::free_address,
    world::{World, any_version},
};

conformance! { TinyFaasWorld:
    a_version_starts_answers_and_stops
    start_and_stop_may_be_repeated
    a_version_keeps_the_content_that_it_was_started_with
    versions_outlive_the_agent_and_are_found_again
    an_agent_that_dies_while_it_starts_a_version_leaves_one_that_can_be_stopped
    a_start_that_never_becomes_healthy_is_given_up
    a_version_that_ignores_being_asked_is_killed_after_its_grace
    what_a_version_forked_ends_with_it
    the_end_of_what_a_version_writes_can_be_read
    first_calls_are_made_before_the_version_is_given_away
    many_versions_side_by_side_are_told_apart
    ; without
    an_error_of_the_function_is_told_by_its_status
        because "tinyFaaS answers 200 whatever the function answered"
    a_version_that_crashes_is_started_again_at_its_target
        because "tinyFaaS doesn't start a container again, nor tell that it ended"
    what_a_version_forked_ends_when_it_crashes
        because "tinyFaaS doesn't start a container again, nor tell that it ended"
    a_version_that_ends_at_its_first_calls_is_told_so
        because "tinyFaaS doesn't tell that a container ended"
    a_version_that_takes_too_much_memory_is_ended_and_started_again
        because "tinyFaaS has no limits"
    a_version_that_fills_its_folder_is_ended_and_started_again
        because "tinyFaaS has no limits"
    a_version_that_floods_its_log_answers_and_keeps_to_its_limit
        because "tinyFaaS keeps logs itself, without a limit"
    a_version_that_dies_at_once_is_told_with_its_status_and_log
        because "tinyFaaS doesn't tell how a container ended; its log is told, in a test beside"
    a_version_that_listens_elsewhere_is_told_so
        because "functions of tinyFaaS listen nowhere"
}

const GRACE: Duration = Duration::from_secs(10);

struct TinyFaasWorld {
    root: tempfile::TempDir,
    fake: Fake,
}

impl TinyFaasWorld {
    fn settings(&self) -> Settings {
        Settings {
            management: self.fake.management,
            calls: self.fake.calls,
            prefix: "ours".to_owned(),
            threads: 2,
            ..Settings::here()
        }
    }

    fn source(&self) -> PathBuf {
        let folder = self.root.path().join(format!("source/{:016x}", fastrand::u64(..)));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn binary(&self, script: &str) -> Order {
        let folder = self.source();
        fs::write(folder.join("fn.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.join("fn.sh"), mode).unwrap();
        Order::new(any_version(), folder)
    }

    async fn upload(&self, name: &str) {
        let zip = "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==";
        let body = json!({"name": name, "env": "binary", "threads": 1, "zip": zip}).to_string();
        let answered = call(&Target::Tcp(self.fake.management), "POST", "/upload", &body).await.unwrap();
        assert_eq!(answered.status, 200);
    }
}

impl World for TinyFaasWorld {
    const STARTS_AGAIN: bool = false;

    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("tiny").tempdir().unwrap();
        let fake = Fake::start(root.path());
        Self { root, fake }
    }

    fn open(&self) -> Arc<dyn Runtime> {
        Arc::new(TinyFaas::open(self.settings()).unwrap())
    }

    fn order(&self, behaviour: Behaviour) -> Order {
        let folder = self.source();
        functions::write_for_tinyfaas(behaviour, &folder);
        Order::new(any_version(), folder)
    }

    fn left_behind(&self) -> Vec<String> {
        assert_eq!(self.fake.updates(), 0, "nothing is ever updated, because that cuts calls");
        self.fake.left_behind()
    }

    fn log_bytes(&self, _: &VersionId) -> u64 {
        0
    }
}

#[tokio::test]
async fn a_release_behind_the_proxy_moves_calls_between_two_names_and_loses_none() {
    let world = TinyFaasWorld::new();
    let runtime = world.open();
    let (base, new) = (world.binary("cat; echo base"), world.binary("cat; echo one; echo two"));
    let [base, new] = [runtime.start(&base).await.unwrap(), runtime.start(&new).await.unwrap()];
    let proxy = Proxy::start(1, Limits::default()).unwrap();
    let at = proxy.listen(&std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let mut said = Vec::new();
    for (generation, share) in [(1, 0), (2, 10_000), (3, 5_000)] {
        let table = json!({"generation": generation, "services": [{"name": "greet", "shares": [10_000 - share, share], "variations": [
            {"name": "base", "targets": [base.target.to_string()]},
            {"name": "new", "targets": [new.target.to_string()]},
        ]}]});
        proxy.apply(&serde_json::from_value(table).unwrap()).await.unwrap();
        for _ in 0..10 {
            let answered = call(&Target::Tcp(at), "POST", "/greet", "Hi ").await.unwrap();
            assert_eq!(answered.status, 200, "{answered:?}");
            said.push(answered.body);
        }
    }
    assert!(said[..10].iter().all(|said| said == "Hi base\n"), "{said:?}");
    assert!(said[10..20].iter().all(|said| said == "Hi one\ntwo\n"), "{said:?}");
    runtime.stop(&new.version, GRACE).await.unwrap();
    assert_eq!(get(&base.target, "/").await.body, "base\n");
    assert_eq!(get(&base.target, "/below").await.status, 404, "there is nothing below a name");
    runtime.stop(&base.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn an_error_of_a_function_is_answered_with_200_and_one_that_ended_with_500() {
    let world = TinyFaasWorld::new();
    let runtime = world.open();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    let failed = post(&running.target, "fail").await;
    assert_eq!((failed.status, failed.body.as_str()), (200, "as it was asked to"));
    for _ in 0..20 {
        post(&running.target, "die").await;
    }
    assert_eq!(post(&running.target, "Ada").await.status, 500);
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn functions_of_others_are_neither_listed_nor_touched() {
    let world = TinyFaasWorld::new();
    let runtime = world.open();
    let digest = "0123456789abcdef";
    let foreign = [
        "sieve".to_owned(),
        "ours".to_owned(),
        format!("ours{digest}"),
        format!("oursp{}", &digest[1..]),
        format!("theirsp{digest}"),
        format!("oursxp{digest}"),
        format!("oursp{digest}x"),
        format!("oursp{digest}x0"),
        format!("oursp{digest}x01"),
        format!("OURSp{digest}"),
    ];
    for name in &foreign {
        world.upload(name).await;
    }
    let order = world.binary("cat");
    let running = runtime.start(&order).await.unwrap();
    assert_eq!(runtime.list().await.unwrap(), [running]);
    runtime.stop(&order.version, GRACE).await.unwrap();
    runtime.stop(&digest.parse().unwrap(), GRACE).await.unwrap();
    assert_eq!(runtime.list().await.unwrap(), []);
    let mut names = foreign.to_vec();
    names.sort();
    assert_eq!(world.fake.names(), names);
}

#[tokio::test]
async fn a_name_whose_start_failed_is_not_listed_and_a_further_start_takes_another() {
    let world = TinyFaasWorld::new();
    let runtime = world.open();
    let mut order = world.order(Behaviour::DiesAtOnce);
    let error = runtime.start(&order).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error.fault, Fault::NeverHealthy { .. }), "{text}");
    assert!(text.contains("/upload is answered with 500") && text.contains("no such setting"), "{text}");
    assert_eq!(world.fake.names(), [format!("oursp{}", order.version)], "it can't be deleted");
    assert_eq!(runtime.list().await.unwrap(), []);
    assert_eq!(world.left_behind(), [""; 0]);
    runtime.stop(&order.version, GRACE).await.unwrap();

    let folder = world.source();
    functions::write_for_tinyfaas(Behaviour::Obeys, &folder);
    order.folder = folder;
    let running = runtime.start(&order).await.unwrap();
    assert_eq!(running.target.path(), format!("/oursp{}x1", order.version));
    assert_eq!(post(&running.target, "Ada").await.body, "Hello, Ada!");
    assert_eq!(world.open().list().await.unwrap(), [running]);
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(runtime.list().await.unwrap(), []);
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_version_that_an_agent_left_half_started_is_waited_for() {
    let world = TinyFaasWorld::new();
    let folder = world.source();
    let slow = "import time\ntime.sleep(0.7)\ndef fn(given, headers):\n    return 'slow'\n";
    fs::write(folder.join("fn.py"), slow).unwrap();
    let order = Order::new(any_version(), folder);
    let runtime = world.open();
    let left = tokio::time::timeout(Duration::from_millis(300), runtime.start(&order)).await;
    assert!(left.is_err());
    let running = world.open().start(&order).await.unwrap();
    assert_eq!(post(&running.target, "").await.body, "slow");
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn tinyfaas_gets_content_and_environment_and_refuses_unrunnable_folder() {
    let world = TinyFaasWorld::new();
    let runtime = world.open();
    assert_eq!((runtime.name(), runtime.runners()), ("tinyfaas", vec!["binary", "nodejs", "python"]));
    let mut order = world.binary("cat below/deeper; env");
    fs::create_dir_all(order.folder.join("below")).unwrap();
    fs::write(order.folder.join("below/deeper"), "is there\n").unwrap();
    order.environment.insert("GREETING".to_owned(), "good day = yes".to_owned());
    let said = get(&runtime.start(&order).await.unwrap().target, "/").await.body;
    for line in ["is there", "GREETING=good day = yes", &format!("CHOIRMASTER_VERSION={}", order.version)] {
        assert!(said.lines().any(|one| one == line), "{line}: {said}");
    }
    runtime.stop(&order.version, GRACE).await.unwrap();

    let empty = Order::new(any_version(), world.source());
    let mut program = world.binary("cat");
    program.runner = Some("program".to_owned());
    let mut go = world.binary("cat");
    go.runner = Some("go".to_owned());
    let link = world.binary("cat");
    std::os::unix::fs::symlink("fn.sh", link.folder.join("link")).unwrap();
    let mut tight = world.binary("cat");
    tight.limits.room = 5;
    for (order, says) in [
        (empty, "holds none of"),
        (program, "\"program\" can't be run on this machine, but binary, nodejs, python"),
        (go, "\"go\" can't be run"),
        (link, "link, which is neither"),
        (tight, "its limit is 5"),
    ] {
        let text = runtime.start(&order).await.unwrap_err().to_string();
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(world.fake.names(), [""; 0]);
}

#[tokio::test]
async fn a_tinyfaas_that_is_away_or_set_up_otherwise_is_told_so() {
    let world = TinyFaasWorld::new();
    let closed = free_address();
    let open = |settings| TinyFaas::open(settings).map_err(|error| error.to_string());
    let away = open(Settings { management: closed, ..world.settings() }).unwrap();
    let order = world.binary("cat");
    for text in [
        away.list().await.unwrap_err().to_string(),
        away.start(&order).await.unwrap_err().to_string(),
        away.stop(&order.version, GRACE).await.unwrap_err().to_string(),
    ] {
        assert!(
            text.contains(&format!("tinyFaaS at {closed}: /list:")) && text.contains("refused"),
            "{text}"
        );
    }

    let elsewhere = open(Settings { calls: closed, ..world.settings() }).unwrap();
    let text = elsewhere.start(&order).await.unwrap_err().to_string();
    assert!(text.contains(&format!("it takes calls at port {}", world.fake.calls.port())), "{text}");
    assert_eq!(world.left_behind(), [""; 0]);

    for prefix in ["", "Ours", "9a", "our-s", "aaaaaaaaaaaaaaaaa"] {
        let text = open(Settings { prefix: prefix.to_owned(), ..world.settings() }).unwrap_err();
        assert!(text.contains("setting `tinyfaas.prefix`"), "{text}");
    }
    assert!(
        open(Settings { threads: 0, ..world.settings() }).unwrap_err().contains("setting `tinyfaas.threads`")
    );
    assert!(
        open(Settings { forms: vec![Form::Go, Form::Binary], ..world.settings() }).unwrap().runners()
            == ["binary", "go"]
    );
}
