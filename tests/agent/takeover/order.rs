//! In which order it is done, and what becomes of it when it breaks off. The proxy is real; the ground is a list.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use agent::{
    settings::TakeoverSettings,
    state_machine::{Trouble, TroubleKind},
    takeover::{
        Answer, Ground, Takeover,
        nft::{Found, Redirects},
    },
};
use model::traffic::{Listen, Protocol, Socket};
use proxy::{
    Limits, Proxy,
    control::{self, client::Client, control_handler::ControlHandler, form::ListenStatus},
    form::ServiceForm,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    net::{TcpStream, UnixListener},
    sync::watch,
    task::JoinHandle,
};
use traffic::{
    BUCKETS, HashFunction, Run, Table,
    desired::{DesiredConfig, Number, Service, ServiceSpec, Variation},
};

use crate::ports::range;

/// The port of a program that goes on.
const TAKEN: u16 = 8080;

#[derive(Debug, Default)]
struct Rules {
    /// None: nothing is left.
    redirects: Option<Redirects>,
    /// Before each of so many further calls breaks off; none: none does.
    left: Option<usize>,
}

#[derive(Debug, Clone, Default)]
struct List(Arc<Mutex<Rules>>);

impl List {
    fn redirects(&self) -> Redirects {
        self.0.lock().unwrap().redirects.clone().unwrap_or_default()
    }

    fn is_left(&self) -> bool {
        self.0.lock().unwrap().redirects.is_some()
    }

    fn break_after(&self, calls: Option<usize>) {
        self.0.lock().unwrap().left = calls;
    }

    fn with<T>(&self, act: impl FnOnce(&mut Option<Redirects>) -> T) -> Result<T, Trouble> {
        let mut rules = self.0.lock().unwrap();
        match &mut rules.left {
            Some(0) => return Err(Trouble::passing("it broke off")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(act(&mut rules.redirects))
    }
}

impl Ground for List {
    fn look(&self) -> Answer<'_, Result<Found, Trouble>> {
        let found = self.with(|redirects| Found {
            is_there: redirects.is_some(),
            redirects: redirects.clone().unwrap_or_default(),
            others: 0,
        });
        Box::pin(async { found })
    }

    fn take<'a>(&'a self, all: &'a Redirects) -> Answer<'a, Result<(), Trouble>> {
        let taken = self.with(|redirects| *redirects = Some(all.clone()));
        Box::pin(async { taken })
    }

    fn give_back(&self) -> Answer<'_, Result<(), Trouble>> {
        let given_back = self.with(|redirects| *redirects = None);
        Box::pin(async { given_back })
    }

    fn addresses(&self, port: u16) -> Vec<SocketAddr> {
        vec![(Ipv4Addr::LOCALHOST, port).into()]
    }

    fn is_free(&self, Socket { port, .. }: Socket) -> bool {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
    }
}

/// A proxy, and what is taken over for it.
struct World {
    client: Client,
    ground: List,
    file: PathBuf,
    ports: (u16, u16),
    serving: JoinHandle<()>,
    _folder: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    fn start(mark: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proxy = Proxy::start(1, Limits { mark, ..Limits::default() }).unwrap();
        let state = folder.path().join("proxy");
        std::fs::create_dir(&state).unwrap();
        let handler = Arc::new(ControlHandler::new(proxy, &state, Vec::new(), "0.0.0-test").unwrap());
        let socket = folder.path().join("proxy.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        handler.open();
        let serving = tokio::spawn(control::serve(listener, handler));
        Self {
            client: Client::new(socket),
            ground: List::default(),
            file: folder.path().join("takeover.json"),
            ports: range(9),
            serving,
            _folder: folder,
        }
    }

    /// An agent's, from what is on disk.
    fn takeover(&self, nftables: bool) -> Takeover {
        let settings =
            TakeoverSettings { nftables, program: "nft".into(), ports: self.ports, file: self.file.clone() };
        Takeover::start_on(settings, self.client.clone(), Box::new(self.ground.clone()))
    }

    /// The ports at which the proxy listens because of a list.
    async fn listened(&self) -> Vec<u16> {
        let status: ListenStatus = self.client.get("/listen").await.unwrap();
        assert!(status.missing.is_empty());
        status.list.listen.iter().map(|form| form.address.port()).collect()
    }
}

/// A service with the port of another program, which is its target.
fn service() -> Service {
    let whole = Run { from: 0, to: BUCKETS, variation: traffic::Variation::STABLE };
    let spec = ServiceSpec {
        name: "checkout".parse().unwrap(),
        listens: vec![Listen::new(TAKEN, Protocol::Http)],
        sticky: None,
        rule: None,
        salt: "checkout".parse().unwrap(),
        hash: HashFunction::Murmur2,
        variations: vec![Variation {
            name: "A".parse().unwrap(),
            targets: vec![format!("127.0.0.1:{TAKEN}").parse().unwrap()],
            health: None,
        }],
        table: Table::from_runs(1, &[whole]).unwrap(),
    };
    Service::new(spec).unwrap()
}

async fn before_table(takeover: &Takeover, services: Vec<Service>) -> Result<Vec<Service>, Trouble> {
    takeover.before_table(services, &[], &watch::Sender::new(false)).await
}

/// As an agent puts a table in force.
async fn apply(takeover: &Takeover, services: Vec<Service>) -> Result<Vec<Service>, Trouble> {
    let placed = before_table(takeover, services).await?;
    takeover.after_table().await?;
    Ok(placed)
}

fn sent_to(port: u16) -> Redirects {
    Redirects::from([(Socket { port: TAKEN, is_udp: false }, port)])
}

#[tokio::test]
async fn callers_come_once_the_table_is_in_force_and_go_before_it_is_gone() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let number = Number { epoch: 1, generation: 1 };
    DesiredConfig::new(number, vec![service()]).expect_err("its calls would go round");

    let placed = before_table(&takeover, vec![service()]).await.unwrap();
    let at = placed[0].listens[0].at.unwrap();
    assert_eq!((placed[0].listens[0].port, world.listened().await), (TAKEN, vec![at]));
    assert_eq!(world.ground.redirects(), Redirects::new(), "no table has the service yet");
    // The program that has the port is no end of the proxy's own.
    DesiredConfig::new(number, placed).unwrap();
    takeover.after_table().await.unwrap();
    assert_eq!(world.ground.redirects(), sent_to(at));
    assert!(!takeover.differs().await);

    // Another table of the same service moves nobody, also of an agent that was started anew.
    drop(takeover);
    let takeover = world.takeover(true);
    let placed = before_table(&takeover, vec![service()]).await.unwrap();
    assert_eq!((placed[0].listens[0].at, world.ground.redirects()), (Some(at), sent_to(at)));
    takeover.after_table().await.unwrap();

    // Once this is answered, a table without it may follow.
    before_table(&takeover, Vec::new()).await.unwrap();
    assert_eq!((world.ground.redirects(), world.listened().await), (Redirects::new(), Vec::new()));
    assert!(!world.ground.is_left());
    assert_eq!(std::fs::read_to_string(&world.file).unwrap(), "[]");
}

/// As it is told where another agent led the service before all was started anew, and is still to begin.
#[tokio::test]
async fn a_service_that_stays_as_it_stands_in_the_table_keeps_its_port() {
    let world = World::start(Some(1));
    let placed = apply(&world.takeover(true), vec![service()]).await.unwrap();
    let at = placed[0].listens[0].at.unwrap();
    let form = |protocol: &str, ports: &[u16], hosts: &[&str]| -> ServiceForm {
        let variation = json!({"name": "A", "version": "1", "targets": ["127.0.0.1:8080"]});
        let form = json!({"name": "checkout", "protocol": protocol, "ports": ports, "hosts": hosts,
            "variations": [variation], "shares": [10_000]});
        serde_json::from_value(form).unwrap()
    };
    let takeover = world.takeover(true);
    let before = async |told: &[ServiceForm]| {
        takeover.before_table(Vec::new(), told, &watch::Sender::new(false)).await.unwrap();
        takeover.after_table().await.unwrap();
        (world.ground.redirects(), world.listened().await)
    };
    assert_eq!(before(&[form("http", &[at], &[])]).await, (sent_to(at), vec![at]));
    for other in [form("http", &[TAKEN], &[]), form("tcp", &[at], &[]), form("tls", &[], &["shop.example"])] {
        apply(&takeover, vec![service()]).await.unwrap();
        assert_eq!(before(&[other]).await, (Redirects::new(), Vec::new()));
    }
}

#[tokio::test]
async fn it_is_said_when_callers_have_to_leave_first() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let placed = apply(&takeover, vec![service()]).await.unwrap();
    let at = placed[0].listens[0].at.unwrap();
    let caller = TcpStream::connect((Ipv4Addr::LOCALHOST, at)).await.unwrap();
    let lingers = watch::Sender::new(false);
    let mut said = lingers.subscribe();
    let leaves = async {
        drop(said.wait_for(|lingers| *lingers).await.unwrap());
        drop(caller);
    };
    let (given_back, ()) = tokio::join!(takeover.before_table(Vec::new(), &[], &lingers), leaves);
    given_back.unwrap();
    assert_eq!((world.ground.redirects(), world.listened().await), (Redirects::new(), Vec::new()));
}

#[tokio::test]
async fn what_breaks_off_anywhere_is_finished_by_the_next_agent() {
    let mut broken = 0;
    for calls in 0.. {
        let world = World::start(Some(1));
        world.ground.break_after(Some(calls));
        let first = apply(&world.takeover(true), vec![service()]).await;
        world.ground.break_after(None);
        let next = world.takeover(true);
        let placed = apply(&next, vec![service()]).await.unwrap();
        let at = placed[0].listens[0].at.unwrap();
        assert_eq!((world.ground.redirects(), world.listened().await), (sent_to(at), vec![at]), "{calls}");

        // And so is what is given back.
        world.ground.break_after(Some(calls));
        let second = apply(&next, Vec::new()).await;
        drop(next);
        world.ground.break_after(None);
        apply(&world.takeover(true), Vec::new()).await.unwrap();
        assert_eq!((world.ground.redirects(), world.listened().await), (Redirects::new(), vec![]), "{calls}");
        assert!(!world.ground.is_left(), "{calls}");
        if first.is_ok() && second.is_ok() {
            break;
        }
        broken += usize::from(first.is_err()) + usize::from(second.is_err());
    }
    assert!(broken > 4, "it broke off at {broken} places");
}

#[tokio::test]
async fn what_somebody_changes_is_a_drift_and_put_right() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let placed = apply(&takeover, vec![service()]).await.unwrap();
    let at = placed[0].listens[0].at.unwrap();
    world.ground.with(|redirects| *redirects = None).unwrap();
    takeover.drifted().await;
    let drifts = takeover.drifts();
    assert_eq!(drifts[0].wanted, format!("tcp {TAKEN} at {at}"));
    assert_eq!(drifts[0].seen, "nothing");
    assert!(takeover.differs().await);
    apply(&takeover, vec![service()]).await.unwrap();
    assert_eq!(world.ground.redirects(), sent_to(at));
    assert!(!takeover.differs().await);
}

#[tokio::test]
async fn callers_go_to_who_has_the_port_while_no_proxy_answers() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let placed = apply(&takeover, vec![service()]).await.unwrap();
    let at = placed[0].listens[0].at.unwrap();
    takeover.proxy_is_away().await;
    assert_eq!(world.ground.redirects(), sent_to(at), "it may be back in a moment");
    while !world.ground.redirects().is_empty() {
        takeover.proxy_is_away().await;
        tokio::task::yield_now().await;
    }
    // It is back.
    assert!(takeover.differs().await);
    apply(&takeover, vec![service()]).await.unwrap();
    assert_eq!(world.ground.redirects(), sent_to(at));
}

#[tokio::test]
async fn who_may_not_any_more_gives_everything_back() {
    let world = World::start(Some(1));
    apply(&world.takeover(true), vec![service()]).await.unwrap();
    let placed = apply(&world.takeover(false), vec![service()]).await.unwrap();
    assert_eq!(
        placed[0].listens[0].at, None,
        "the proxy refuses it, as it does any port that it doesn't have"
    );
    assert_eq!((world.ground.redirects(), world.listened().await), (Redirects::new(), Vec::new()));
}

#[tokio::test]
async fn a_proxy_that_marks_nothing_gets_nobodys_calls() {
    let world = World::start(None);
    let takeover = world.takeover(true);
    let refused = apply(&takeover, vec![service()]).await.unwrap_err();
    assert_eq!(refused.kind, TroubleKind::Refused);
    assert!(
        refused.text.starts_with("calls to port 8080 can't be taken over: the proxy doesn't mark"),
        "{refused:?}"
    );
    assert_eq!((world.ground.redirects(), world.listened().await), (Redirects::new(), Vec::new()));
    let status = world.client.get("/status").await.unwrap();
    assert!(takeover.ports(&status).is_empty(), "none are offered to the manager");
}
