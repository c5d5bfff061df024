//! Targets are looked at over real connections.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use router::health::{Checker, Fault, HealthReport, MAX_ANSWER, Settings, ask};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::watch,
};
use traffic::{
    desired::{self, DesiredConfig, ServiceSpec, Target},
    health::{Probe, Verdict},
};

use crate::{
    controller::states::{spec, target, wanted_of},
    ports::free_address,
};

/// Answers each connection with this, once a question has ended, and closes it.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    pub says: watch::Sender<Vec<u8>>,
    /// Connections so far, those that are open, and the most that were at a time.
    counts: Arc<[AtomicUsize; 3]>,
    asked: watch::Receiver<String>,
}

impl Backend {
    pub async fn start(says: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (says, to_say) = watch::channel(says.into());
        let (tell, asked) = watch::channel(String::new());
        let counts: Arc<[AtomicUsize; 3]> = Arc::default();
        let of_tasks = Arc::clone(&counts);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let [all, open, most] = &*of_tasks;
                all.fetch_add(1, Ordering::Relaxed);
                most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let (counts, says, tell) = (Arc::clone(&of_tasks), to_say.borrow().clone(), tell.clone());
                tokio::spawn(async move {
                    let mut question = Vec::new();
                    while !question.ends_with(b"\r\n\r\n") {
                        if stream.read_buf(&mut question).await.unwrap_or(0) == 0 {
                            break;
                        }
                    }
                    tell.send_replace(String::from_utf8_lossy(&question).into_owned());
                    if says == b"hang" {
                        // Until the other side has had enough.
                        let _ = stream.read(&mut [0; 8]).await;
                    } else {
                        let _ = stream.write_all(&says).await;
                    }
                    counts[1].fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, says, counts, asked }
    }

    pub fn target(&self) -> Target {
        target(&self.address.to_string())
    }
}

pub fn how(path: Option<&str>) -> desired::Health {
    desired::Health {
        path: path.map(Into::into),
        interval: Duration::from_millis(100),
        timeout: Duration::from_millis(500),
        ..desired::Health::default()
    }
}

fn probe(target: Target, path: Option<&str>) -> Probe {
    Probe { target, how: how(path) }
}

async fn asked(says: &[u8]) -> Result<(), Fault> {
    let backend = Backend::start(says).await;
    ask(&probe(backend.target(), Some("/ready"))).await
}

#[tokio::test]
async fn a_status_from_200_to_399_is_good() {
    for good in [200, 204, 301, 399] {
        assert_eq!(asked(format!("HTTP/1.1 {good} X\r\n\r\n").as_bytes()).await, Ok(()), "{good}");
    }
    for bad in [400, 404, 500, 503, 999] {
        let found = asked(format!("HTTP/1.1 {bad} X\r\n\r\n").as_bytes()).await;
        assert_eq!(found, Err(Fault::Status(bad)));
    }
    // The head is enough, whatever is announced behind it; and what only announces the answer is passed over.
    assert_eq!(asked(b"HTTP/1.0 200 OK\r\nContent-Length: 99999\r\n\r\nabc").await, Ok(()));
    assert_eq!(asked(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n").await, Ok(()));
    let announced = asked(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 X\r\n\r\n").await;
    assert_eq!(announced, Err(Fault::Status(500)));
}

#[tokio::test]
async fn what_is_no_answer_is_bad() {
    assert!(matches!(asked(b"").await, Err(Fault::Broken(_))));
    assert!(matches!(asked(b"HTTP/1.1 200 OK\r\nX: 1\r\n").await, Err(Fault::Broken(_))));
    assert_eq!(asked(b"SSH-2.0-OpenSSH_9\r\n").await, Err(Fault::NotHttp));
    assert_eq!(asked(b"HTTP/2 200\r\n\r\n").await, Err(Fault::NotHttp));
    assert_eq!(asked(b"HTTP/1.1 101 Switching\r\n\r\n").await, Err(Fault::NotHttp));
    assert_eq!(asked(b"hang").await, Err(Fault::Late));
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(2 * MAX_ANSWER));
    assert_eq!(asked(endless.as_bytes()).await, Err(Fault::TooLong));
    let fields = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert_eq!(asked(fields.as_bytes()).await, Err(Fault::TooLong));
    let announces = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
    assert_eq!(asked(announces.as_bytes()).await, Err(Fault::TooLong));
}

#[tokio::test]
async fn a_connection_is_enough_where_no_path_is_asked_for() {
    let backend = Backend::start(b"".as_slice()).await;
    assert_eq!(ask(&probe(backend.target(), None)).await, Ok(()));
    let free = free_address();
    let refused = ask(&probe(target(&free.to_string()), None)).await;
    assert_eq!(refused, Err(Fault::Connect(std::io::ErrorKind::ConnectionRefused)));
    assert_eq!(ask(&probe(target("backend.example:80"), None)).await, Err(Fault::Unresolved));
}

#[tokio::test]
async fn the_question_names_the_target_and_asks_to_be_closed() {
    let mut backend = Backend::start(b"HTTP/1.1 200 OK\r\n\r\n".as_slice()).await;
    ask(&probe(backend.target(), Some("/ready?a=b"))).await.unwrap();
    let question = backend.asked.wait_for(|question| !question.is_empty()).await.unwrap().clone();
    let expected = format!(
        "GET /ready?a=b HTTP/1.1\r\nHost: {}\r\nUser-Agent: choirmaster-health\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        backend.address
    );
    assert_eq!(question, expected);
}

pub const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
pub const BAD: &[u8] = b"HTTP/1.1 503 No\r\n\r\n";

/// A service that leads to these.
fn leads_to(targets: Vec<Target>) -> ServiceSpec {
    let mut spec = spec("shop", 1, &[10_000]);
    spec.variations[0].targets = targets;
    spec.variations[0].health = Some(how(Some("/ready")));
    spec
}

fn wants(generation: u64, specs: Vec<ServiceSpec>) -> Arc<DesiredConfig> {
    Arc::new(wanted_of(generation, specs))
}

async fn until(checker: &Checker, is_so: impl Fn(&HealthReport) -> bool) -> Arc<HealthReport> {
    checker.found().wait_for(|found| is_so(found)).await.unwrap().clone()
}

fn verdict(found: &HealthReport, target: &Target) -> Verdict {
    found.health.verdict(target, &how(Some("/ready")))
}

#[tokio::test]
async fn verdicts_follow_what_targets_answer() {
    let (a, b) = (Backend::start(GOOD).await, Backend::start(BAD).await);
    let (wanted, to_check) = watch::channel(None);
    let checker = Checker::start(to_check, &Settings::default());
    wanted.send_replace(Some(wants(1, vec![leads_to(vec![a.target(), b.target()])])));
    until(&checker, |found| verdict(found, &a.target()) == Verdict::Healthy).await;
    let found = until(&checker, |found| verdict(found, &b.target()) == Verdict::Unhealthy).await;
    let why = found.faults.get(&probe(b.target(), Some("/ready"))).unwrap();
    insta::assert_snapshot!(why, @"answers with status 503");
    assert_eq!(found.faults.len(), 1);
    a.says.send_replace(b"hang".to_vec());
    b.says.send_replace(GOOD.to_vec());
    until(&checker, |found| verdict(found, &b.target()) == Verdict::Healthy).await;
    let found = until(&checker, |found| verdict(found, &a.target()) == Verdict::Unhealthy).await;
    assert_eq!(found.faults.get(&probe(a.target(), Some("/ready"))), Some(&Fault::Late));
    assert_eq!(found.faults.len(), 1);
}

#[tokio::test]
async fn another_wanted_state_keeps_what_is_known_of_targets_that_stay() {
    let (a, b) = (Backend::start(GOOD).await, Backend::start(GOOD).await);
    let (wanted, to_check) = watch::channel(Some(wants(1, vec![leads_to(vec![a.target()])])));
    let checker = Checker::start(to_check, &Settings::default());
    until(&checker, |found| verdict(found, &a.target()) == Verdict::Healthy).await;
    let mut found = checker.found();
    found.mark_unchanged();
    wanted.send_replace(Some(wants(2, vec![leads_to(vec![b.target(), a.target()])])));
    loop {
        found.changed().await.unwrap();
        let now = found.borrow_and_update().clone();
        assert_eq!(verdict(&now, &a.target()), Verdict::Healthy);
        if verdict(&now, &b.target()) == Verdict::Healthy {
            break;
        }
    }
    // Who is looked at no more is unknown again.
    wanted.send_replace(Some(wants(3, vec![leads_to(vec![b.target()])])));
    until(&checker, |found| verdict(found, &a.target()) == Verdict::Unknown).await;
    let connections = a.counts[0].load(Ordering::Relaxed);
    b.says.send_replace(BAD.to_vec());
    until(&checker, |found| verdict(found, &b.target()) == Verdict::Unhealthy).await;
    assert!(a.counts[0].load(Ordering::Relaxed) <= connections + 1, "but for one that was on its way");
}

#[tokio::test]
async fn services_that_share_a_target_share_its_checks() {
    let a = Backend::start(GOOD).await;
    let mut other = leads_to(vec![a.target()]);
    (other.name, other.listens[0].port) = ("other".parse().unwrap(), 2);
    let (_wanted, to_check) = watch::channel(Some(wants(1, vec![leads_to(vec![a.target()]), other])));
    let checker = Checker::start(to_check, &Settings::default());
    until(&checker, |found| verdict(found, &a.target()) == Verdict::Healthy).await;
    assert_eq!(a.counts[0].load(Ordering::Relaxed), 2, "two good ones in a row, and no more");
}

#[tokio::test]
async fn many_targets_are_looked_at_some_at_a_time() {
    let backend = Backend::start(GOOD).await;
    let specs = (0..200).map(|at| {
        let mut spec = leads_to(vec![backend.target()]);
        // Each asks for a path of its own, so that each is looked at by itself.
        spec.variations[0].health = Some(how(Some(&format!("/ready/{at}"))));
        (spec.name, spec.listens[0].port) = (format!("s{at}").parse().unwrap(), 1 + at);
        spec
    });
    let (_wanted, to_check) = watch::channel(Some(wants(1, specs.collect())));
    let settings = Settings { at_once: 8, ..Settings::default() };
    let checker = Checker::start(to_check, &settings);
    let all_healthy = |found: &HealthReport| {
        (0..200).all(|at| {
            found.health.verdict(&backend.target(), &how(Some(&format!("/ready/{at}")))) == Verdict::Healthy
        })
    };
    until(&checker, all_healthy).await;
    assert!(
        backend.counts[2].load(Ordering::Relaxed) <= 8 + 8,
        "those whose end the backend hasn't seen yet beside them"
    );
}

#[tokio::test]
async fn it_ends_with_whoever_wants_something() {
    let (wanted, to_check) = watch::channel(None);
    let checker = Checker::start(to_check, &Settings::default());
    let mut found = checker.found();
    drop(wanted);
    while found.changed().await.is_ok() {}
}
