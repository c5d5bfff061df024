//! The link to the manager, against a server that behaves as networks do.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use agent::{
    link::{About, Joined, LinkError, Manager, Settings},
    measure::Reads,
};
use model::{NodeCapabilities, StageStatus};
use protocol::StageSummary;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde_json::json;
use tokio_rustls::TlsAcceptor;

use crate::{
    ports::free_port,
    scripted::{Reply, Server},
};

const NO_WAIT: Duration = Duration::ZERO;

pub fn manager(server: &Server, token: Option<&str>) -> Manager {
    let settings = Settings { url: server.url(), ..Settings::default() };
    Manager::new(&settings, token.map(str::to_owned)).unwrap()
}

fn about() -> About {
    About {
        name: Some("kiosk 7".to_owned()),
        area: Some(r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}"#.to_owned()),
        labels: BTreeMap::from([("env".to_owned(), "prod".to_owned())]),
        runtimes: vec!["nodejs".to_owned(), "python".to_owned()],
        routers: vec!["embedded".to_owned()],
        node: Some(NodeCapabilities { cores: 4, memory_mib: Some(512), ..NodeCapabilities::default() }),
        nonce: Some("made-up-at-random".to_owned()),
    }
}

#[tokio::test]
async fn a_poll_says_what_the_agent_is_and_learns_what_the_manager_reads() {
    let server = Server::start(|nth, _| match nth {
        0 => Reply::new(200, r#"{"id":"a1","new_release":""}"#),
        _ => Reply::new(200, r#"{"id":"a1","new_release":"R.1","features":["values","groups"]}"#),
    });
    let manager = manager(&server, Some("mine"));
    let polled = manager.poll(None, &about(), NO_WAIT).await.unwrap();
    assert_eq!((polled.id.as_str(), polled.offer), ("a1", None));
    assert_eq!(manager.reads(), Reads::default());
    let polled = manager.poll(Some("a1"), &about(), Duration::from_millis(1500)).await.unwrap();
    assert_eq!(polled.offer.as_deref(), Some("R.1"));
    assert_eq!(manager.reads(), Reads { values: true, groups: true });

    let asked = server.asked();
    assert_eq!((asked[0].target.as_str(), asked[1].target.as_str()), ("/poll", "/poll?wait=1500ms"));
    assert_eq!(asked[0].header("authorization"), Some("Bearer mine"));
    let said = asked[0].json();
    assert_eq!((&said["id"], &said["nonce"]), (&json!(""), &json!("made-up-at-random")));
    assert_eq!(said["kind"], "agent");
    assert_eq!(said["name"], "kiosk 7");
    assert_eq!(said["geographic_area"]["type"], "Polygon");
    assert_eq!(
        said["capabilities"],
        json!({
            "runtimes": ["nodejs", "python"],
            "labels": {"env": "prod"},
            "features": ["interim", "values", "groups", "routers", "winner", "shares", "flows", "runs", "together"],
            "leads": "whole",
            "routers": ["embedded"],
            "node": {"cpus": 0, "cores": 4, "mhz": 0, "memory_mib": 512},
        })
    );
    assert_eq!(asked[1].json()["id"], "a1");
    assert!(asked[1].json().get("nonce").is_none(), "who has an id needs none");
}

#[tokio::test]
async fn the_calls_of_a_release_have_the_forms_of_the_protocol() {
    let server = Server::start(|nth, _| match nth {
        0 => Reply::new(200, "id: R\n"),
        1 => Reply::new(200, ""),
        2 => Reply::new(200, r#"{"time_ms":1234,"time_error_ms":5}"#),
        3 => Reply::new(200, r#"{"end_stage":true,"then":"rollback","skip":["two"]}"#),
        _ => Reply::new(200, r#"{"end_stage":false,"shares":{"one":3000}}"#),
    });
    let manager = manager(&server, None);
    assert_eq!(manager.release("a 1", "R.1").await.unwrap(), "id: R\n");
    let done = StageSummary::without_calls(StageStatus::Completed);
    assert_eq!(manager.result("a 1", "R.1", &done, "two").await.unwrap(), None);
    let so_far = StageSummary::without_calls(StageStatus::InProgress);
    let time = manager.result("a 1", "R.1", &so_far, "").await.unwrap().unwrap();
    assert_eq!((time.time_ms, time.time_error_ms), (1234, 5));
    let wait = Duration::from_secs(30);
    let skipped = (vec!["two".to_owned()], BTreeMap::new());
    let end = manager.end_stage("a 1", "R.1", "one", skipped, wait).await.unwrap();
    assert!(end.end_stage && end.then.is_some() && end.skip == ["two"] && end.shares.is_empty());
    let shares = BTreeMap::from([("one".to_owned(), 2_000)]);
    let told = manager.end_stage("a 1", "R.1", "one", (Vec::new(), shares), wait).await.unwrap();
    assert_eq!((told.end_stage, told.shares), (false, BTreeMap::from([("one".to_owned(), 3_000)])));

    let asked = server.asked();
    assert_eq!(asked[0].target, "/release?childID=a+1&releaseID=R.1");
    assert_eq!(asked[0].header("authorization"), None);
    assert_eq!(asked[1].json()["next_stage"], "two");
    assert_eq!(asked[1].json()["release_id"], "R.1");
    assert_eq!(asked[1].json()["stage_summaries"][0]["status"], 4);
    assert_eq!(asked[3].target, "/end_stage?wait=30000ms");
    assert_eq!(
        asked[3].json(),
        json!({"id": "a 1", "strategy_id": "R.1", "stage_name": "one", "skipped": ["two"]})
    );
    assert_eq!(
        asked[4].json(),
        json!({"id": "a 1", "strategy_id": "R.1", "stage_name": "one", "shares": {"one": 2_000}})
    );
}

#[tokio::test]
async fn an_address_may_have_a_path_before_that_of_the_protocol() {
    let server = Server::start(|_, _| Reply::new(200, r#"{"id":"a1"}"#));
    let settings = Settings { url: format!("{}/edge/", server.url()), ..Settings::default() };
    Manager::new(&settings, None).unwrap().poll(None, &about(), NO_WAIT).await.unwrap();
    assert_eq!(server.asked()[0].target, "/edge/poll");
}

#[tokio::test]
async fn what_is_no_answer_of_a_manager_passes_and_what_a_manager_refuses_does_not() {
    let huge = vec![b' '; 65 * 1024];
    let bad: Vec<(Reply, &str, bool)> = vec![
        (Reply::new(503, "later"), "it answered 503", true),
        (Reply::new(500, "<html>").with("content-type", "text/html"), "it answered 500", true),
        (
            Reply::new(200, "<html>log in</html>").with("content-type", "text/html; charset=utf-8"),
            "it answered nonsense: a page to be looked at (200)",
            true,
        ),
        (
            Reply::new(403, "<html>no</html>").with("content-type", "text/html"),
            "it answered nonsense: a page to be looked at (403)",
            true,
        ),
        (
            Reply::new(302, "").with("location", "http://127.0.0.1:1/login"),
            "it answered nonsense: another address (302)",
            true,
        ),
        (Reply::new(200, huge), "it answered nonsense: more than 65536 bytes", true),
        (Reply::new(200, "[]"), "it answered nonsense: the body must be a JSON object", true),
        (Reply::new(200, r#"{"id":""}"#), "it answered nonsense: `id` must not be empty", true),
        (Reply::new(401, "the token\nwas revoked"), "it answered 401: the tokenwas revoked", false),
        (Reply::new(404, "unknown"), "it answered 404: unknown", false),
        (Reply::new(429, "too many"), "it answered 429: too many", true),
        (Reply::new(200, r#"{"id":"a1"}"#).breaking_after(4), "", true),
    ];
    let replies: Vec<Reply> = bad.iter().map(|(reply, ..)| reply.clone()).collect();
    let server = Server::start(move |nth, _| replies[nth].clone());
    let manager = manager(&server, Some("a-secret"));
    for (reply, text, passes) in bad {
        let error = manager.poll(Some("a1"), &about(), NO_WAIT).await.unwrap_err();
        assert_eq!(error.passes(), passes, "{reply:?}: {error}");
        assert!(error.to_string().starts_with(text), "{error}, not {text}");
        assert!(!format!("{error} {error:?}").contains("a-secret"));
    }
    // None was made twice, and the redirect was not followed.
    assert_eq!(server.asked().len(), 12);
}

#[tokio::test]
async fn nobody_listening_is_told_without_the_address() {
    let port = free_port();
    let settings = Settings { url: format!("http://user:pass-word@127.0.0.1:{port}"), ..Settings::default() };
    let manager = Manager::new(&settings, None).unwrap();
    let error = manager.poll(None, &about(), NO_WAIT).await.unwrap_err();
    assert!(error.passes());
    let shown = format!("{error} {error:?} {manager:?}");
    assert!(error.to_string().starts_with("it can't be reached: "), "{error}");
    assert!(!shown.contains("pass-word"), "{shown}");
}

#[test]
fn addresses_and_files_that_can_not_be_used_are_named_without_what_is_secret() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, key) = (folder.path().join("empty.pem"), folder.path().join("key.pem"));
    fs::write(&empty, "").unwrap();
    fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let of = |url: &str| Settings { url: url.to_owned(), ..Settings::default() };
    let good = of("https://manager.example");
    let wrong = [
        (of("manager:9991"), r#""manager:9991" is no address of a manager: it looks like https://HOST:PORT"#),
        (
            of("ftp://me:secret@manager"),
            r#""ftp://…@manager" is no address of a manager: it looks like https://HOST:PORT"#,
        ),
        (
            Settings { ca_file: Some("/nowhere.pem".into()), ..good.clone() },
            "ca_file /nowhere.pem can't be read: No such file or directory (os error 2)",
        ),
        (Settings { ca_file: Some(empty.clone()), ..good.clone() }, "holds no certificate"),
        (
            Settings { certificate: Some(empty.clone()), ..good.clone() },
            "key is missing: the certificate needs its private key",
        ),
        (
            Settings { key: Some(key.clone()), ..good.clone() },
            "certificate is missing: the key belongs to one",
        ),
        (
            Settings { certificate: Some(empty), key: Some(key), ..good },
            "are no certificate with its private key (PEM)",
        ),
    ];
    for (settings, text) in wrong {
        let error = Manager::new(&settings, None).unwrap_err();
        assert!(error.to_string().ends_with(text), "{error}");
        assert!(!error.passes() && !error.to_string().contains("secret@"));
    }
}

#[tokio::test]
async fn a_token_that_no_header_can_carry_is_a_fault_of_the_settings() {
    let server = Server::start(|_, _| Reply::new(200, ""));
    let manager = manager(&server, Some("two\nlines"));
    let error = manager.poll(None, &about(), NO_WAIT).await.unwrap_err();
    assert!(matches!(error, LinkError::Settings(_)) && !error.to_string().contains("lines\n"), "{error}");
    assert!(server.asked().is_empty());
    manager.set_token(Some("one".to_owned()));
    let _ = manager.poll(None, &about(), NO_WAIT).await;
    assert_eq!(server.asked()[0].header("authorization"), Some("Bearer one"));
}

#[tokio::test]
async fn who_joins_shows_the_join_token_and_keeps_what_is_answered_to_itself() {
    let server = Server::start(|nth, _| match nth {
        0 => Reply::new(200, r#"{"id":"a1","token":"own-secret"}"#),
        1 => Reply::new(200, r#"{"id":"a1","token":"own secret"}"#),
        2 => Reply::new(200, r#"{"id":"a1","token":7,"x":"own-secret"}"#),
        _ => Reply::new(401, "no such token"),
    });
    let manager = manager(&server, None);
    let joined: Joined = manager.join("door", &about()).await.unwrap();
    assert_eq!((joined.id.as_str(), joined.token.as_str()), ("a1", "own-secret"));
    assert!(!format!("{joined:?}").contains("own-secret"));
    for _ in 0..2 {
        let error = manager.join("door", &about()).await.unwrap_err();
        assert!(matches!(error, LinkError::Nonsense(_)) && !error.to_string().contains("secret"), "{error}");
    }
    let error = manager.join("door", &about()).await.unwrap_err();
    assert!(matches!(error, LinkError::Refused { status: 401, .. }), "{error}");
    let asked = server.asked();
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("POST", "/join"));
    assert_eq!(asked[0].header("authorization"), Some("Bearer door"));
    assert_eq!(asked[0].json(), json!({"name": "kiosk 7", "kind": "agent", "nonce": "made-up-at-random"}));
}

/// Who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key, in PEM.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }
}

/// A server that is called `localhost`; only who shows a certificate of `callers` is served, if there is one.
fn secured(authority: &Authority, callers: Option<&Authority>) -> Server {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (certificate, key) = authority.sign("localhost");
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match callers {
        None => builder.with_no_client_auth(),
        Some(callers) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(callers.roots()), provider).build().unwrap(),
        ),
    };
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let config =
        builder.with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap();
    Server::secured(TlsAcceptor::from(Arc::new(config)), |_, _| Reply::new(200, r#"{"id":"a1"}"#))
}

#[tokio::test]
async fn over_tls_the_manager_has_to_be_of_the_named_authority() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = secured(&ours, None);
    let folder = tempfile::tempdir().unwrap();
    let ca_file = |authority: &Authority| {
        let file = folder.path().join("ca.pem");
        fs::write(&file, authority.0.pem()).unwrap();
        Settings {
            url: format!("https://localhost:{}", server.port),
            ca_file: Some(file),
            ..Settings::default()
        }
    };
    let manager = Manager::new(&ca_file(&ours), None).unwrap();
    assert_eq!(manager.poll(None, &about(), NO_WAIT).await.unwrap().id, "a1");
    let manager = Manager::new(&ca_file(&theirs), Some("mine".to_owned())).unwrap();
    let error = manager.poll(None, &about(), NO_WAIT).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    // Nothing was said to whoever it is.
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn who_has_a_certificate_of_its_own_shows_it() {
    let (servers, agents, others) =
        (Authority::new("servers"), Authority::new("agents"), Authority::new("others"));
    let server = secured(&servers, Some(&agents));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        Some(file)
    };
    let with = |identity: Option<(String, String)>| Settings {
        url: format!("https://localhost:{}", server.port),
        ca_file: write("ca.pem", &servers.0.pem()),
        certificate: identity.as_ref().and_then(|(certificate, _)| write("own.crt", certificate)),
        key: identity.as_ref().and_then(|(_, key)| write("own.key", key)),
    };
    let manager = Manager::new(&with(Some(agents.sign("agent-7"))), None).unwrap();
    assert_eq!(manager.poll(None, &about(), NO_WAIT).await.unwrap().id, "a1");
    for identity in [None, Some(others.sign("agent-7"))] {
        let manager = Manager::new(&with(identity), None).unwrap();
        let error = manager.poll(None, &about(), NO_WAIT).await.unwrap_err();
        assert!(matches!(error, LinkError::Unreachable(_)), "{error}");
    }
    assert_eq!(server.asked().len(), 1);
}

/// Once they were read at the start alone, and a certificate that was renewed was not shown before a restart.
#[tokio::test]
async fn certificates_that_are_replaced_are_used_without_a_restart() {
    let (servers, agents, others) =
        (Authority::new("servers"), Authority::new("agents"), Authority::new("others"));
    let server = secured(&servers, Some(&agents));
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let put = |(certificate, key): (String, String)| {
        fs::write(at("own.crt"), certificate).unwrap();
        fs::write(at("own.key"), key).unwrap();
    };
    put(others.sign("agent-7"));
    fs::write(at("ca.pem"), others.0.pem()).unwrap();
    let settings = Settings {
        url: format!("https://localhost:{}", server.port),
        ca_file: Some(at("ca.pem")),
        certificate: Some(at("own.crt")),
        key: Some(at("own.key")),
    };
    let manager = Manager::new(&settings, None).unwrap();
    let polled = async || manager.poll(None, &about(), NO_WAIT).await.map(|polled| polled.id);
    assert!(polled().await.unwrap_err().to_string().contains("certificate"));
    fs::write(at("ca.pem"), servers.0.pem()).unwrap();
    assert!(matches!(polled().await.unwrap_err(), LinkError::Unreachable(_)), "it is of others still");
    put(agents.sign("agent-7"));
    assert_eq!(polled().await.unwrap(), "a1");

    // What can't be used changes nothing: a file cut short, one that is gone, a key of another certificate.
    let (certificate, _) = agents.sign("agent-7");
    fs::write(at("own.crt"), &certificate[..certificate.len() / 2]).unwrap();
    assert_eq!(polled().await.unwrap(), "a1");
    fs::remove_file(at("ca.pem")).unwrap();
    assert_eq!(polled().await.unwrap(), "a1");
    fs::write(at("ca.pem"), servers.0.pem()).unwrap();
    fs::write(at("own.crt"), &certificate).unwrap();
    assert_eq!(polled().await.unwrap(), "a1");
    // What can be used again is used, also where it is none that the manager takes.
    put(others.sign("agent-7"));
    assert!(matches!(polled().await.unwrap_err(), LinkError::Unreachable(_)));
}
