//! The runtime `webhook`, with an operator's address of the tests.

mod operator;

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use agent::runtime::{
    Fault, Order, Phase, Runtime, VersionId,
    webhook::{Secret, Settings, Webhook},
};
use serde_json::json;

use self::operator::{Mood, Operator};
use crate::{
    calls::get,
    conformance::conformance,
    functions::{self, Behaviour},
    ports::free_address,
    world::{ProcessWorld, World, any_version},
};

conformance! { WebhookWorld:
    a_version_starts_answers_and_stops
    an_error_of_the_function_is_told_by_its_status
    start_and_stop_may_be_repeated
    a_version_keeps_the_content_that_it_was_started_with
    versions_outlive_the_agent_and_are_found_again
    an_agent_that_dies_while_it_starts_a_version_leaves_one_that_can_be_stopped
    a_version_that_crashes_is_started_again_at_its_target
    a_version_that_takes_too_much_memory_is_ended_and_started_again
    a_version_that_fills_its_folder_is_ended_and_started_again
    a_start_that_never_becomes_healthy_is_given_up
    a_version_that_dies_at_once_is_told_with_its_status_and_log
    a_version_that_ignores_being_asked_is_killed_after_its_grace
    what_a_version_forked_ends_with_it
    what_a_version_forked_ends_when_it_crashes
    a_version_that_floods_its_log_answers_and_keeps_to_its_limit
    the_end_of_what_a_version_writes_can_be_read
    first_calls_are_made_before_the_version_is_given_away
    a_version_that_ends_at_its_first_calls_is_told_so
    many_versions_side_by_side_are_told_apart
    ; without
    a_version_that_listens_elsewhere_is_told_so
        because "whoever runs it says where it listens"
}

const GRACE: Duration = Duration::from_secs(10);
const SECRET: &[u8] = b"known to two, and long";

struct WebhookWorld {
    operator: Operator,
    processes: ProcessWorld,
    root: tempfile::TempDir,
}

impl WebhookWorld {
    fn settings(&self) -> Settings {
        Settings {
            url: format!("http://{}/hook?token=hidden", self.operator.at),
            secret: Secret::new(SECRET),
            agent: "edge-1".to_owned(),
            folder: self.root.path().join("state"),
            sends_content: true,
            runners: vec!["python".to_owned(), "program".to_owned()],
            time_limit: Duration::from_secs(20),
        }
    }

    fn quick(&self) -> Webhook {
        Webhook::open(Settings { time_limit: Duration::from_millis(300), ..self.settings() }).unwrap()
    }
}

impl World for WebhookWorld {
    const STARTS_AGAIN: bool = true;

    fn new() -> Self {
        let (processes, root) = (ProcessWorld::new(), tempfile::tempdir().unwrap());
        let content = root.path().join("content");
        Self { operator: Operator::start(processes.open(), Secret::new(SECRET), content), processes, root }
    }

    fn open(&self) -> Arc<dyn Runtime> {
        Arc::new(Webhook::open(self.settings()).unwrap())
    }

    fn order(&self, behaviour: Behaviour) -> Order {
        let folder = self.processes.source();
        functions::write_program(behaviour, &folder);
        Order { runner: Some("program".to_owned()), ..Order::new(any_version(), folder) }
    }

    fn left_behind(&self) -> Vec<String> {
        self.processes.left_behind()
    }

    fn log_bytes(&self, version: &VersionId) -> u64 {
        self.processes.log_bytes(version)
    }
}

#[tokio::test]
async fn each_start_and_stop_is_carried_out_once_and_has_a_higher_generation() {
    let world = WebhookWorld::new();
    let runtime = world.open();
    assert_eq!((runtime.name(), runtime.runners()), ("webhook", vec!["program", "python"]));
    let order = world.order(Behaviour::Obeys);
    world.operator.is(Mood::LosesAnAnswer);
    runtime.start(&order).await.unwrap();
    runtime.start(&order).await.unwrap();
    world.operator.is(Mood::LosesAnAnswer);
    runtime.stop(&order.version, GRACE).await.unwrap();
    runtime.stop(&order.version, GRACE).await.unwrap();
    drop(runtime);
    let runtime = world.open();
    runtime.start(&order).await.unwrap();
    runtime.stop(&order.version, GRACE).await.unwrap();
    let done: Vec<_> = world.operator.done();
    let done: Vec<_> = done.iter().map(|(what, generation)| (what.as_str(), *generation)).collect();
    assert_eq!(done, [("start", 1), ("stop", 2), ("start", 3), ("stop", 4)]);
}

#[tokio::test]
async fn acknowledged_start_that_did_not_happen_fails() {
    let world = WebhookWorld::new();
    let runtime = world.open();
    let mut order = world.order(Behaviour::Obeys);
    order.health.give_up = Duration::from_millis(500);
    world.operator.is(Mood::DoesNothing);
    let error = runtime.start(&order).await.unwrap_err();
    assert!(matches!(error.fault, Fault::NeverHealthy { .. }), "{error}");
    assert!(error.to_string().contains("the webhook of 127.0.0.1 doesn't list it as running"), "{error}");

    world.operator.is(Mood::Good);
    order.health.give_up = Duration::from_secs(30);
    runtime.start(&order).await.unwrap();
    runtime.stop(&order.version, GRACE).await.unwrap();
}

impl WebhookWorld {
    /// With a state of its own that comes after the first.
    fn open_other(&self) -> Webhook {
        let folder = self.root.path().join("other");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("generation"), "100\n").unwrap();
        Webhook::open(Settings { folder, ..self.settings() }).unwrap()
    }
}

#[tokio::test]
async fn acknowledged_stop_that_did_not_happen_fails() {
    let world = WebhookWorld::new();
    let order = world.order(Behaviour::Obeys);
    let runtime = world.quick();
    runtime.start(&order).await.unwrap();
    world.operator.is(Mood::DoesNothing);
    let error = runtime.stop(&order.version, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error.fault, Fault::Lied { .. }), "{error}");
    assert_eq!(runtime.list().await.unwrap().len(), 1);
    world.operator.is(Mood::Good);
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}

#[tokio::test]
async fn a_version_that_is_said_to_run_where_nobody_answers_is_not_healthy() {
    let world = WebhookWorld::new();
    let runtime = world.quick();
    let mut order = world.order(Behaviour::Obeys);
    order.health.give_up = Duration::from_millis(500);
    let closed = free_address().to_string();
    let lie =
        json!({"generation": 9, "versions": [{"version": order.version, "target": closed, "phase": "runs"}]});
    world.operator.is(Mood::Lists(lie));
    let error = runtime.start(&order).await.unwrap_err().to_string();
    assert!(error.contains("not healthy within 0.5 s") && error.contains("refused"), "{error}");
    assert_eq!(runtime.list().await.unwrap()[0].phase, Phase::Runs, "what is listed is listed");
}

#[tokio::test]
async fn a_list_that_contradicts_itself_or_names_no_address_is_refused_whole() {
    let world = WebhookWorld::new();
    let runtime = world.quick();
    let [one, two] = [any_version(), any_version()];
    let runs =
        |version: &VersionId, target: &str| json!({"version": version, "target": target, "phase": "runs"});
    let many: Vec<_> =
        (0..1001).map(|port| runs(&any_version(), &format!("10.0.0.1:{}", port + 1))).collect();
    for (versions, says) in [
        (json!([runs(&one, "10.0.0.1:80"), runs(&one, "10.0.0.1:81")]), "is there twice"),
        (json!([runs(&one, "10.0.0.1:80"), runs(&two, "10.0.0.1:80")]), "two versions are at 10.0.0.1:80"),
        (json!([{"version": one, "phase": "runs"}]), "runs nowhere"),
        (json!([runs(&one, "unix:/run/docker.sock")]), "is no address that can be called"),
        (json!([runs(&one, "0.0.0.0:80")]), "is no address that can be called"),
        (json!([runs(&one, "10.0.0.1:0")]), "is no address that can be called"),
        (json!([runs(&one, "example.org:80")]), "is no address that can be called"),
        (json!([{"version": "../..", "phase": "runs"}]), "no digest of a version"),
        (json!([{"version": one, "phase": "sleeps"}]), "sleeps"),
        (json!(many), "1001 versions are more than 1000"),
    ] {
        world.operator.is(Mood::Lists(json!({"generation": 9, "versions": versions})));
        let error = runtime.list().await.unwrap_err().to_string();
        assert!(error.contains("its list can't be used") && error.contains(says), "{error}");
    }
    let good = json!({"generation": 9, "versions": [runs(&one, "10.0.0.1:80"), runs(&two, "[::1]:8000/below"),
        {"version": any_version(), "phase": "failed", "why": "x"}], "of a later build": true});
    world.operator.is(Mood::Lists(good));
    assert_eq!(runtime.list().await.unwrap().len(), 2);
}

#[tokio::test]
async fn answers_that_hang_are_huge_or_errors_are_told_within_their_limits() {
    let world = WebhookWorld::new();
    let runtime = world.quick();
    for (mood, says) in [
        (Mood::Hangs, "no answer in time"),
        (Mood::NeverEnds, "its answer has more than 4194304 bytes"),
        (
            Mood::Says(503, "busy\r\n\u{1b}[31m".to_owned()),
            "it answers with 503 Service Unavailable busy[31m",
        ),
        (Mood::Says(404, String::new()), "it answers with 404 Not Found"),
        (Mood::Says(302, String::new()), "it answers with 302 Found"),
        (Mood::Says(200, "{".to_owned()), "its list can't be used"),
        (Mood::Says(200, r#"{"generation":0}"#.to_owned()), "missing field `versions`"),
    ] {
        world.operator.is(mood.clone());
        let error = runtime.list().await.unwrap_err().to_string();
        assert!(error.contains(says), "{mood:?}: {error}");
        assert!(!error.contains("hidden"), "{error}");
    }
}

#[tokio::test]
async fn a_list_of_a_time_before_is_read_again() {
    let world = WebhookWorld::new();
    let other = world.open_other();
    world.operator.is(Mood::Lists(json!({"generation": 99, "versions": []})));
    let (listed, ()) = tokio::join!(other.list(), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        world.operator.is(Mood::Lists(json!({"generation": 100, "versions": []})));
    });
    assert_eq!(listed.unwrap(), []);
    world.operator.is(Mood::Lists(json!({"generation": 99, "versions": []})));
    drop(other);
    let folder: PathBuf = world.root.path().join("other");
    let quick = Settings { folder, time_limit: Duration::from_millis(100), ..world.settings() };
    let error = Webhook::open(quick).unwrap().list().await.unwrap_err();
    assert!(error.to_string().contains("at generation 99, and 100 is awaited"), "{error}");
}

#[tokio::test]
async fn calls_are_signed_and_the_secret_is_never_shown() {
    let world = WebhookWorld::new();
    let settings = Settings { secret: Secret::new(b"another one, and long too"), ..world.settings() };
    let shown = format!("{settings:?}");
    let runtime = Webhook::open(settings).unwrap();
    let error = runtime.list().await.unwrap_err().to_string();
    assert!(error.contains("it answers with 401"), "{error}");
    for text in [shown, format!("{runtime:?}"), error] {
        assert!(!text.contains("another one") && !text.contains("[97, 110"), "{text}");
    }
    // What `printf '1.what do ya want for nothing?' | openssl dgst -sha256 -hmac Jefe` says.
    assert_eq!(
        Secret::new(b"Jefe").sign(1, b"what do ya want for nothing?"),
        "v1=a9049465ce89cfb8e9aac62333abda66f80e3403f51f57f6bae3c3a4485eca38"
    );
}

#[test]
fn settings_that_can_not_be_meant_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let good = Settings {
        url: "https://operator.example/hook".to_owned(),
        secret: Secret::new(SECRET),
        agent: "edge-1".to_owned(),
        folder: folder.path().to_owned(),
        sends_content: false,
        runners: Vec::new(),
        time_limit: Duration::from_secs(10),
    };
    for (settings, says) in [
        (
            Settings { url: "http://operator.example/".to_owned(), ..good.clone() },
            "setting `webhook.url`: only an address of this",
        ),
        (
            Settings { url: "http://10.0.0.1/".to_owned(), ..good.clone() },
            "setting `webhook.url`: only an address of this",
        ),
        (Settings { url: "operator".to_owned(), ..good.clone() }, "setting `webhook.url`"),
        (Settings { agent: "a b".to_owned(), ..good.clone() }, "setting `webhook.agent`"),
        (Settings { runners: vec![String::new()], ..good.clone() }, "setting `webhook.runners`"),
        (Settings { secret: Secret::new(b"short"), ..good.clone() }, "setting `webhook.secret_file`"),
    ] {
        let text = Webhook::open(settings).unwrap_err().to_string();
        assert!(text.contains(says), "{text}");
    }
    for url in ["http://127.0.0.1:1/", "http://localhost/", "http://[::1]/", "https://10.0.0.1/"] {
        Webhook::open(Settings { url: url.to_owned(), ..good.clone() }).unwrap();
    }
    let taken = Webhook::open(good.clone()).unwrap();
    assert!(matches!(Webhook::open(good.clone()).unwrap_err().fault, Fault::Taken(_)));
    fs::write(folder.path().join("generation"), "nine").unwrap();
    drop(taken);
    let text = Webhook::open(good).unwrap_err().to_string();
    assert!(text.contains("holds no number"), "{text}");
}

#[tokio::test]
async fn content_stays_here_where_it_is_not_to_be_sent() {
    let world = WebhookWorld::new();
    let runtime = Webhook::open(Settings { sends_content: false, ..world.settings() }).unwrap();
    let order = world.order(Behaviour::Obeys);
    let running = runtime.start(&order).await.unwrap();
    assert_eq!(get(&running.target, "/").await.status, 200);
    assert!(!world.root.path().join("content").exists());
    runtime.stop(&order.version, GRACE).await.unwrap();
    assert_eq!(world.left_behind(), [""; 0]);
}
