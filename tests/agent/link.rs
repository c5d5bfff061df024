//! The link to the manager, against a server that behaves as networks do.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use choirmaster_agent::link::{About, Joined, LinkError, Manager, Reads, Settings};
use model::StageStatus;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;
use wire::StageSummary;

use crate::scripted::{Asked, Reply, Server};

const NO_WAIT: Duration = Duration::ZERO;

fn manager(server: &Server, token: Option<&str>) -> Manager {
    let settings = Settings { url: server.url(), ..Settings::default() };
    Manager::new(&settings, token.map(str::to_owned)).unwrap()
}

fn about() -> About {
    About {
        name: Some("kiosk 7".to_owned()),
        area: Some(r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}"#.to_owned()),
        labels: BTreeMap::from([("env".to_owned(), "prod".to_owned())]),
        runtimes: vec!["nodejs".to_owned(), "python".to_owned()],
    }
}

/// Bytes of a download that no two places of which are alike.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 + at) as u8).collect()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(bytes)))
}

/// How a manager answers a question for functions: whole, or what is missing.
fn served(asked: &Asked, bytes: &[u8], tag: &str) -> Reply {
    let from = asked.header("range").map(|range| -> usize {
        range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap()
    });
    let reply = match from.filter(|_| asked.header("if-range") == Some(tag)) {
        None => Reply::new(200, bytes),
        Some(from) if from >= bytes.len() => {
            return Reply::new(416, "").with("content-range", format!("bytes */{}", bytes.len()));
        }
        Some(from) => Reply::new(206, &bytes[from..])
            .with("content-range", format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len())),
    };
    reply.with("etag", tag).with("repr-digest", digest(bytes)).with("content-type", "application/zip")
}

async fn download(manager: &Manager, folder: &Path) -> Result<Vec<u8>, LinkError> {
    let into = folder.join("fns.zip");
    manager.functions("child", "R.1", &into).await?;
    Ok(fs::read(into).unwrap())
}

/// Names of the files of a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_poll_says_what_the_agent_is_and_learns_what_the_manager_reads() {
    let server = Server::start(|nth, _| match nth {
        0 => Reply::new(200, r#"{"id":"a1","new_release":""}"#),
        _ => Reply::new(200, r#"{"id":"a1","new_release":"R.1","features":["values","groups"]}"#),
    })
    .await;
    let manager = manager(&server, Some("mine"));
    let polled = manager.poll(None, &about(), NO_WAIT).await.unwrap();
    assert_eq!((polled.id.as_str(), polled.offer), ("a1", None));
    assert_eq!(manager.reads(), Reads::default());
    let polled = manager.poll(Some("a1"), &about(), Duration::from_millis(1500)).await.unwrap();
    assert_eq!(polled.offer.as_deref(), Some("R.1"));
    assert_eq!(manager.reads(), Reads { interim: false, values: true, groups: true });

    let asked = server.asked();
    assert_eq!((asked[0].target.as_str(), asked[1].target.as_str()), ("/poll", "/poll?wait=1500ms"));
    assert_eq!(asked[0].header("authorization"), Some("Bearer mine"));
    let said = asked[0].json();
    assert_eq!(said["id"], "");
    assert_eq!(said["kind"], "agent");
    assert_eq!(said["name"], "kiosk 7");
    assert_eq!(said["geographic_area"]["type"], "Polygon");
    assert_eq!(
        said["capabilities"],
        json!({
            "runtimes": ["nodejs", "python"],
            "labels": {"env": "prod"},
            "features": ["interim", "values", "groups"],
            "leads": "whole",
        })
    );
    assert_eq!(asked[1].json()["id"], "a1");
}

#[tokio::test]
async fn the_calls_of_a_release_have_the_forms_of_the_protocol() {
    let server = Server::start(|nth, _| match nth {
        0 => Reply::new(200, "id: R\n"),
        1 => Reply::new(200, ""),
        2 => Reply::new(200, r#"{"time_ms":1234,"time_error_ms":5}"#),
        _ => Reply::new(200, r#"{"end_stage":true,"then":"rollback","skip":["two"]}"#),
    })
    .await;
    let manager = manager(&server, None);
    assert_eq!(manager.release("a 1", "R.1").await.unwrap(), "id: R\n");
    let done = StageSummary::without_calls(StageStatus::Completed);
    assert_eq!(manager.result("a 1", "R.1", &done, "two").await.unwrap(), None);
    let so_far = StageSummary::without_calls(StageStatus::InProgress);
    let time = manager.result("a 1", "R.1", &so_far, "").await.unwrap().unwrap();
    assert_eq!((time.time_ms, time.time_error_ms), (1234, 5));
    let wait = Duration::from_secs(30);
    let end = manager.end_stage("a 1", "R.1", "one", &["two".to_owned()], wait).await.unwrap();
    assert!(end.end_stage && end.then.is_some() && end.skip == ["two"]);

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
}

#[tokio::test]
async fn an_address_may_have_a_path_before_that_of_the_protocol() {
    let server = Server::start(|_, _| Reply::new(200, r#"{"id":"a1"}"#)).await;
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
    let server = Server::start(move |nth, _| replies[nth].clone()).await;
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
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
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
    let server = Server::start(|_, _| Reply::new(200, "")).await;
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
    })
    .await;
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
    assert_eq!(asked[0].json(), json!({"name": "kiosk 7", "kind": "agent"}));
}

#[tokio::test]
async fn a_download_goes_on_where_it_was_broken_off_also_after_a_restart() {
    let whole = bytes(700_000);
    let sent = whole.clone();
    let server = Server::start(move |nth, asked| {
        let reply = served(asked, &sent, "\"one\"");
        match nth {
            0 => reply.breaking_after(300_000),
            1 => reply.breaking_after(100_000),
            _ => reply,
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        // Each time another process.
        let error = download(&manager(&server, None), folder.path()).await.unwrap_err();
        assert!(matches!(error, LinkError::Unreachable(_)), "{error}");
        assert!(!folder.path().join("fns.zip").exists());
    }
    assert_eq!(download(&manager(&server, None), folder.path()).await.unwrap(), whole);
    assert_eq!(files(folder.path()), ["fns.zip"]);
    let asked = server.asked();
    assert_eq!(asked[0].target, "/release/functions/R.1?childID=child");
    let ranges: Vec<Option<&str>> = asked.iter().map(|asked| asked.header("range")).collect();
    assert_eq!(ranges, [None, Some("bytes=300000-"), Some("bytes=400000-")]);
    assert_eq!(asked[1].header("if-range"), Some("\"one\""));
}

#[tokio::test]
async fn a_download_that_has_changed_since_begins_anew() {
    let (old, new) = (bytes(50_000), bytes(40_000).into_iter().rev().collect::<Vec<u8>>());
    let sent = new.clone();
    let server = Server::start(move |nth, asked| match nth {
        0 => served(asked, &old, "\"old\"").breaking_after(30_000),
        _ => served(asked, &sent, "\"new\""),
    })
    .await;
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    download(&manager, folder.path()).await.unwrap_err();
    assert_eq!(download(&manager, folder.path()).await.unwrap(), new);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_part_that_does_not_go_with_the_rest_is_thrown_away_once() {
    let whole = bytes(10_000);
    // What a wrong server may answer to who has 4,000 bytes.
    let wrong: [fn(&[u8]) -> Reply; 5] = [
        |all| Reply::new(206, &all[4_000..]).with("content-range", "bytes 5000-9999/10000"),
        |all| Reply::new(206, &all[4_000..8_000]).with("content-range", "bytes 4000-7999/10000"),
        |all| Reply::new(206, &all[4_000..]),
        |all| {
            Reply::new(206, &all[4_000..])
                .with("content-range", "bytes 4000-9999/10000")
                .with("etag", "\"another\"")
        },
        |_| Reply::new(416, "").with("content-range", "bytes */3000"),
    ];
    for rest in wrong {
        let sent = whole.clone();
        let server = Server::start(move |nth, asked| match nth {
            0 => served(asked, &sent, "\"one\"").breaking_after(4_000),
            1 => rest(&sent),
            _ => served(asked, &sent, "\"one\""),
        })
        .await;
        let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
        download(&manager, folder.path()).await.unwrap_err();
        assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
        let asked = server.asked();
        assert_eq!(asked[1].header("range"), Some("bytes=4000-"));
        assert_eq!(asked[2].header("range"), None);
    }
}

#[tokio::test]
async fn a_wrong_digest_is_tried_once_more_and_then_told() {
    let whole = bytes(9_000);
    let sent = whole.clone();
    let server = Server::start(move |nth, asked| {
        let mut damaged = sent.clone();
        damaged[4_444] ^= 1;
        let of = if matches!(nth, 0 | 2 | 3) { &damaged } else { &sent };
        Reply { body: of.clone(), ..served(asked, &sent, "\"one\"") }
    })
    .await;
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
    assert_eq!(server.asked().len(), 2);
    fs::remove_file(folder.path().join("fns.zip")).unwrap();
    let error = download(&manager, folder.path()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "it answered nonsense: functions whose bytes don't have the digest that it names, twice"
    );
    assert_eq!(server.asked().len(), 4);
    // Nothing wrong is left to be taken for the functions.
    assert!(files(folder.path()).is_empty());
}

#[tokio::test]
async fn a_damaged_part_is_found_by_the_digest_of_the_whole() {
    let whole = bytes(9_000);
    let sent = whole.clone();
    let server = Server::start(move |nth, asked| {
        let reply = served(asked, &sent, "\"one\"");
        if nth == 0 { reply.breaking_after(5_000) } else { reply }
    })
    .await;
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    download(&manager, folder.path()).await.unwrap_err();
    let part = folder.path().join("fns.zip.part");
    let mut kept = fs::read(&part).unwrap();
    kept[17] ^= 1;
    fs::write(&part, kept).unwrap();
    assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
    let ranges: Vec<bool> = server.asked().iter().map(|asked| asked.header("range").is_some()).collect();
    assert_eq!(ranges, [false, true, false]);
}

#[tokio::test]
async fn a_download_that_was_whole_before_a_crash_is_not_asked_for_again() {
    let whole = bytes(5_000);
    let sent = whole.clone();
    let server = Server::start(move |_, asked| served(asked, &sent, "\"one\"").breaking_after(4_999)).await;
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    download(&manager, folder.path()).await.unwrap_err();
    fs::write(folder.path().join("fns.zip.part"), &whole).unwrap();
    assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn the_functions_of_a_manager_that_tells_no_digest_are_taken_whole() {
    let whole = bytes(8_000);
    let sent = whole.clone();
    let server = Server::start(move |nth, _| {
        let reply = Reply::new(200, sent.clone()).with("etag", "W/\"weak\"");
        if nth == 0 { reply.breaking_after(4_000) } else { reply }
    })
    .await;
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    download(&manager, folder.path()).await.unwrap_err();
    assert_eq!(download(&manager, folder.path()).await.unwrap(), whole);
    assert_eq!(server.asked()[1].header("range"), None);
}

#[tokio::test]
async fn functions_that_are_too_large_a_page_or_refused_leave_nothing() {
    let server = Server::start(|nth, _| match nth {
        0 => Reply::new(200, "").with("content-length", "134217729").breaking_after(0),
        1 => Reply::new(200, "<html>").with("content-type", "text/html"),
        2 => Reply::new(204, ""),
        3 => Reply::new(503, ""),
        _ => Reply::new(404, "there is no release R.1"),
    })
    .await;
    let (manager, folder) = (manager(&server, None), tempfile::tempdir().unwrap());
    let texts = [
        "it answered nonsense: functions of 134217729 bytes, of which at most 134217728 are taken",
        "it answered nonsense: a page to be looked at (200)",
        "it answered nonsense: functions with the status 204",
        "it answered 503",
        "it answered 404: there is no release R.1",
    ];
    for text in texts {
        let error = download(&manager, folder.path()).await.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert!(files(folder.path()).is_empty());
    }
}

#[tokio::test]
async fn a_place_that_takes_nothing_is_told_as_such() {
    let server = Server::start(|_, asked| served(asked, &bytes(1_000_000), "\"one\"")).await;
    let manager = manager(&server, None);
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("missing/fns.zip");
    let error = manager.functions("child", "R.1", &into).await.unwrap_err();
    assert!(matches!(error, LinkError::Disk(_)), "{error}");
    assert!(error.to_string().starts_with("keeping the download /"), "{error}");
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
async fn secured(authority: &Authority, callers: Option<&Authority>) -> Server {
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
    Server::secured(TlsAcceptor::from(Arc::new(config)), |_, _| Reply::new(200, r#"{"id":"a1"}"#)).await
}

#[tokio::test]
async fn over_tls_the_manager_has_to_be_of_the_named_authority() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = secured(&ours, None).await;
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
    let server = secured(&servers, Some(&agents)).await;
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
