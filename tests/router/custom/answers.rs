//! What is sent, and what becomes of answers.

use std::{path::Path, sync::Arc};

use router::{
    Operations as _, Router as _, RouterError,
    custom::{Custom, Options, Secret},
    disk::Disk,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use traffic::{desired::DesiredConfig, observed::differences};

use super::{
    real::{SECRET, settings},
    server::{Answered, Server, answer, is_signed},
};
use crate::world::{backend::Backend, place::at, wants};

/// A webhook that always answers so, and what calls it.
async fn answered(status: u16, body: Value) -> (Server, Custom, TempDir) {
    answering(move || answer(status, &body)).await
}

async fn answering(respond: impl Fn() -> Answered + Send + Sync + 'static) -> (Server, Custom, TempDir) {
    let server = Server::start(at(0), move |_| std::future::ready(respond())).await;
    let folder = tempfile::tempdir().unwrap();
    let custom = Custom::open(settings(server.at, folder.path())).unwrap();
    (server, custom, folder)
}

fn checkout(generation: u64) -> DesiredConfig {
    let backends = ["A", "B"].map(|name| Backend::elsewhere(name, at(9)));
    let mut spec = wants::service("checkout", 8_080, &backends, &[9_000, 1_000]);
    spec.variations[1].targets = vec!["127.0.0.1:10".parse().unwrap()];
    wants::wanted(generation, &[&spec])
}

/// As a router answers that does what [`checkout`] says.
fn does() -> Value {
    let variation = |name, target| json!({"name": name, "targets": [target]});
    json!({"epoch": 3, "generation": 7, "services": [{
        "name": "checkout", "shares": [9_000, 1_000],
        "variations": [variation("A", "127.0.0.1:9"), variation("B", "127.0.0.1:10")],
    }]})
}

#[test]
fn calls_are_signed_as_standard_webhooks_has_it() {
    // The example of its own libraries.
    let secret = Secret::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert!(!format!("{secret:?}").contains("MfKQ"));
}

#[test]
fn a_secret_that_is_none_is_refused_without_being_shown() {
    let short = "whsec_c2hvcnQ=";
    for text in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", short, "whsec_?", "whsec_"] {
        let why = Secret::read(text).unwrap_err();
        assert!(why.contains("24 to 64 bytes") && !why.contains("c2hvcnQ"), "{why}");
    }
}

#[test]
fn settings_that_can_not_be_meant_are_refused_by_name() {
    let good = Options {
        url: "https://router.example/hook".to_owned(),
        secret_file: Some("/etc/choirmaster/router.secret".into()),
        ..Options::default()
    };
    assert!(good.read().is_ok());
    assert!(Options { url: "http://[::1]:9000/".to_owned(), ..good.clone() }.read().is_ok());
    let fault = |options: Options| options.read().unwrap_err();
    let key = |change: fn(&mut Options)| {
        let mut options = good.clone();
        change(&mut options);
        fault(options).0
    };
    assert_eq!(key(|options| options.url.clear()), "custom.url");
    assert_eq!(key(|options| options.url = "router.example".to_owned()), "custom.url");
    assert_eq!(key(|options| options.url = "http://router.example/".to_owned()), "custom.url");
    assert_eq!(key(|options| options.secret_file = None), "custom.secret_file");
    assert_eq!(key(|options| options.name = "two words".to_owned()), "custom.name");
}

#[tokio::test]
async fn a_repeated_call_has_the_id_of_the_first() {
    let (server, custom, folder) = answered(200, json!({"epoch": 3, "generation": 7})).await;
    custom.apply(&checkout(7)).await.unwrap();
    drop(custom);
    let again = Custom::open(settings(server.at, folder.path())).unwrap();
    again.apply(&checkout(7)).await.unwrap();
    let _ = again.read().await;
    let _ = again.read().await;
    let calls = server.calls.lock().unwrap().clone();
    let secret = Secret::read(SECRET).unwrap();
    assert!(calls.iter().all(|call| is_signed(call, &secret)));
    let ids: Vec<&String> = calls.iter().map(|call| &call.headers["webhook-id"]).collect();
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[2], ids[3]);
    assert!(calls.iter().all(|call| call.headers["idempotency-key"] == call.headers["webhook-id"]));
    insta::assert_snapshot!(serde_json::to_string(&calls[0].json()).unwrap(), @r#"{"do":"apply","epoch":3,"generation":7,"router":"edge-1","services":[{"buckets":[[0,1000,1],[1000,10000,0]],"hash":"murmur2","name":"checkout","ports":[{"port":8080,"protocol":"HTTP"}],"salt":"release-7","shares":[9000,1000],"sticky":{"cookie":"cm_user"},"variations":[{"name":"A","targets":["127.0.0.1:9"]},{"name":"B","targets":["127.0.0.1:10"]}]}]}"#);
}

#[tokio::test]
async fn what_it_says_that_it_does_is_believed_where_it_fits_together() {
    let (_server, custom, _folder) = answered(200, does()).await;
    let seen = custom.read().await.unwrap();
    assert_eq!(differences(&checkout(7), &seen), []);
    assert_eq!(custom.connections("checkout", "A").await.unwrap(), None, "it doesn't tell");
    assert_eq!(custom.connections("checkout", "gone").await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_state_that_contradicts_itself_is_refused_whole() {
    let changed = |change: fn(&mut Value)| {
        let mut form = does();
        change(&mut form);
        form
    };
    for (form, why) in [
        (changed(|form| form["services"][0]["shares"] = json!([9_000, 999])), "its shares come to 9999"),
        (changed(|form| form["services"][0]["shares"] = json!([10_000])), "2 variations and 1 shares"),
        (changed(|form| form["services"][0]["buckets"] = json!([[0, 10_000, 0]])), "something else than its"),
        (changed(|form| form["services"][0]["buckets"] = json!([[5, 10_000, 7]])), "checkout"),
        (changed(|form| form["services"][0]["variations"] = json!([])), "0 variations"),
        (changed(|form| form["services"][0]["name"] = json!("a b")), "name"),
        (changed(|form| form["generation"] = Value::Null), "without the other"),
        (changed(|form| form["generation"] = json!(-1)), "-1"),
        (
            changed(|form| {
                let twice = form["services"][0].clone();
                form["services"].as_array_mut().unwrap().push(twice);
            }),
            "checkout is there twice",
        ),
        (json!({}), "services"),
        (json!([]), ""),
    ] {
        let (_server, custom, _folder) = answered(200, form).await;
        match custom.read().await.unwrap_err() {
            RouterError::Nonsense { said, .. } => assert!(said.contains(why), "{said}"),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn an_answer_of_another_generation_is_no_yes() {
    let (_server, custom, _folder) = answered(200, json!({"epoch": 3, "generation": 6})).await;
    let older = custom.apply(&checkout(7)).await.unwrap_err();
    insta::assert_snapshot!(older, @r#"what the webhook says makes no sense: "it was told 3.7, and answers with 3.6""#);
    for status in [200, 409] {
        let (_server, custom, _folder) = answered(status, json!({"epoch": 4, "generation": 1})).await;
        let newer = custom.apply(&checkout(7)).await.unwrap_err();
        assert!(matches!(newer, RouterError::Older { newest, .. } if newest.epoch == 4), "{newer}");
    }
    let (_server, custom, _folder) = answered(200, json!("yes")).await;
    let bare = custom.apply(&checkout(7)).await.unwrap_err();
    assert!(matches!(bare, RouterError::Nonsense { .. }), "{bare}");
}

#[tokio::test]
async fn only_what_a_repeat_can_not_help_counts_as_refused() {
    for status in [400, 409, 413, 422] {
        let (_server, custom, _folder) = answered(status, json!("port 80 is taken\u{7}")).await;
        let error = custom.apply(&checkout(7)).await.unwrap_err();
        assert!(matches!(error, RouterError::Refused { .. }), "{status}: {error}");
        assert!(error.to_string().contains("port 80 is taken"), "{error}");
    }
    for status in [301, 401, 403, 404, 429, 500, 503] {
        let (server, custom, _folder) = answering(move || {
            (status, "Location: /elsewhere\r\n".to_owned(), b"{\"epoch\":3,\"generation\":7}".to_vec())
        })
        .await;
        let error = custom.apply(&checkout(7)).await.unwrap_err();
        assert!(matches!(error, RouterError::Away { .. }), "{status}: {error}");
        assert_eq!(server.calls.lock().unwrap().len(), 1, "no redirect is followed");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_has_one() {
    let (_server, custom, _folder) = answering(|| (200, String::new(), vec![b' '; 17 * 1024 * 1024])).await;
    let error = custom.read().await.unwrap_err();
    assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
    let server = Server::start(at(0), |_| std::future::pending()).await;
    let folder = tempfile::tempdir().unwrap();
    let mut hangs = settings(server.at, folder.path());
    hangs.time_limit = std::time::Duration::from_millis(50);
    let error = Custom::open(hangs).unwrap().read().await.unwrap_err();
    assert!(matches!(error, RouterError::Silent { .. }), "{error}");
}

#[tokio::test]
async fn a_configuration_is_checked_by_its_text() {
    let (server, custom, folder) = answered(200, json!({"refused": "line 3"})).await;
    let config = folder.path().join("router.conf");
    std::fs::write(&config, "listen 80\n").unwrap();
    let checked = custom.check(Some(&config)).await.unwrap();
    assert_eq!((checked.refused.as_deref(), checked.left_over.len()), (Some("line 3"), 0));
    custom.check(None).await.unwrap();
    let calls = server.calls.lock().unwrap().clone();
    assert_eq!(calls[0].json()["config"], json!("listen 80\n"));
    assert_eq!(calls[1].json(), json!({"do": "validate", "router": "edge-1"}));
    assert!(custom.check(Some(Path::new("/nowhere"))).await.is_err());
    std::fs::write(&config, vec![b'#'; 1024 * 1024 + 1]).unwrap();
    assert!(custom.check(Some(&config)).await.unwrap_err().to_string().contains("more than 1 MiB"));
}

#[tokio::test]
async fn whoever_is_killed_before_the_call_has_noted_the_newest_number_or_nothing() {
    let (server, custom, folder) = answered(200, json!({"epoch": 3, "generation": 7})).await;
    drop(custom);
    let server = Arc::new(server);
    for steps in 0.. {
        let dying = Custom::open_on(settings(server.at, folder.path()), Disk::dying_after(steps)).unwrap();
        let outcome = dying.apply(&checkout(7)).await;
        drop(dying);
        let older = Custom::open(settings(server.at, folder.path())).unwrap().apply(&checkout(6)).await;
        assert!(steps < 50, "{outcome:?}");
        if outcome.is_ok() {
            assert!(matches!(older, Err(RouterError::Older { .. })), "{older:?}");
            assert!(steps > 0);
            return;
        }
        let _ = std::fs::remove_file(folder.path().join("newest"));
    }
}
