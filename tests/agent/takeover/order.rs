//! In which order it is done, and what becomes of it when it breaks off. The proxy is real; the ground is a list.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent::{
    settings::TakeoverSettings,
    state_machine::{Trouble, TroubleKind},
    takeover::{
        Answer, Ground, Takeover,
        left_over::LeftOver,
        nft::{Found, Redirect, Redirects, sent},
    },
};
use model::traffic::{Listen, Protocol, Socket};
use proxy::{
    Limits, Proxy,
    control::{
        self,
        client::Client,
        control_handler::ControlHandler,
        form::{ListenStatus, Status},
    },
    form::ServiceForm,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    net::{TcpStream, UnixListener},
    task::JoinHandle,
};
use traffic::{
    BUCKETS, HashFunction, Run, Table,
    desired::{DesiredConfig, Number, Service, ServiceSpec, Variation},
};

use crate::{ports::range, world::wait_until};

/// The port of a program that goes on.
const TAKEN: u16 = 8080;

#[derive(Debug, Default)]
struct Rules {
    /// None: nothing is left.
    redirects: Option<Redirects>,
    /// Somebody has put another rule beside them.
    is_changed: bool,
    /// Before each of so many further calls breaks off; none: none does.
    left: Option<usize>,
    /// How often it was looked, and who listens was.
    looks: usize,
    surveys: usize,
    /// Flows of which ports were forgotten.
    forgotten: Vec<Option<u16>>,
    /// Where the program listens that has the port.
    listeners: Vec<IpAddr>,
    /// Why nothing can be done; none: all can.
    why_not: Option<String>,
}

/// The same rules, as one agent knows them.
#[derive(Debug, Default)]
struct List {
    rules: Arc<Mutex<Rules>>,
    /// It has put them in force.
    has_put: AtomicBool,
}

impl List {
    fn new(rules: &Arc<Mutex<Rules>>) -> Self {
        Self { rules: Arc::clone(rules), has_put: AtomicBool::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Rules) -> T) -> Result<T, Trouble> {
        let mut rules = self.rules.lock().unwrap();
        match &mut rules.left {
            Some(0) => return Err(Trouble::passing("it broke off")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(act(&mut rules))
    }
}

impl Ground for List {
    fn hold(&self) -> Result<(), Trouble> {
        self.rules.lock().unwrap().why_not.clone().map_or(Ok(()), |why| Err(Trouble::refused(why)))
    }

    fn is_anothers(&self) -> bool {
        false
    }

    fn look(&self) -> Answer<'_, Result<Found, Trouble>> {
        let has_put = self.has_put.load(Ordering::SeqCst);
        self.rules.lock().unwrap().looks += 1;
        let found = self.with(|rules| Found {
            is_there: rules.redirects.is_some(),
            is_as_put: has_put && !rules.is_changed,
            sent: rules.redirects.as_ref().map(sent).unwrap_or_default(),
        });
        Box::pin(async { found })
    }

    fn take<'a>(&'a self, all: &'a Redirects) -> Answer<'a, Result<(), Trouble>> {
        let taken = self.with(|rules| (rules.redirects, rules.is_changed) = (Some(all.clone()), false));
        self.has_put.fetch_or(taken.is_ok(), Ordering::SeqCst);
        Box::pin(async { taken })
    }

    fn give_back(&self) -> Answer<'_, Result<(), Trouble>> {
        let given_back = self.with(|rules| rules.redirects = None);
        Box::pin(async { given_back })
    }

    fn forget_flows(&self, at: Option<u16>) {
        self.rules.lock().unwrap().forgotten.push(at);
    }

    fn listeners(&self, _: Socket) -> Vec<IpAddr> {
        self.rules.lock().unwrap().listeners.clone()
    }

    fn beside(&self, _: Option<u16>) -> BTreeMap<u16, Vec<(IpAddr, bool)>> {
        self.rules.lock().unwrap().surveys += 1;
        BTreeMap::new()
    }

    fn own_of(&self, _: &[IpAddr]) -> Vec<IpAddr> {
        Vec::new()
    }

    fn addresses(&self, port: u16, of: &[IpAddr]) -> Vec<SocketAddr> {
        if of.is_empty() {
            return vec![(Ipv4Addr::LOCALHOST, port).into()];
        }
        of.iter().map(|address| (*address, port).into()).collect()
    }

    fn is_free(&self, Socket { port, is_udp }: Socket, _: &[IpAddr]) -> bool {
        let at = (Ipv4Addr::LOCALHOST, port);
        if is_udp { std::net::UdpSocket::bind(at).is_ok() } else { TcpListener::bind(at).is_ok() }
    }

    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

/// A proxy, and what is taken over for it.
struct World {
    client: Client,
    rules: Arc<Mutex<Rules>>,
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
            rules: Arc::default(),
            file: folder.path().join("takeover.json"),
            ports: range(9),
            serving,
            _folder: folder,
        }
    }

    fn settings(&self, sockets: bool, nftables: bool) -> TakeoverSettings {
        let (program, file) = ("nft".into(), self.file.clone());
        TakeoverSettings { sockets, nftables, program, ports: self.ports, file }
    }

    /// An agent's, from what is on disk.
    fn takeover(&self, nftables: bool) -> Takeover {
        self.takeover_by(false, nftables)
    }

    fn takeover_by(&self, sockets: bool, nftables: bool) -> Takeover {
        let ground = Box::new(List::new(&self.rules));
        Takeover::start_on(self.settings(sockets, nftables), self.client.clone(), ground)
    }

    /// What an agent that has ended has left in force.
    async fn left_over(&self) -> Result<Option<LeftOver>, Trouble> {
        LeftOver::find_on(&self.settings(false, true), Box::new(List::new(&self.rules))).await
    }

    fn rules<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(&mut self.rules.lock().unwrap())
    }

    fn redirects(&self) -> Redirects {
        self.rules(|rules| rules.redirects.clone().unwrap_or_default())
    }

    fn is_left(&self) -> bool {
        self.rules(|rules| rules.redirects.is_some())
    }

    async fn status(&self) -> Status {
        self.client.get("/status").await.unwrap()
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
    service_of(Protocol::Http)
}

fn service_of(protocol: Protocol) -> Service {
    let whole = Run { from: 0, to: BUCKETS, variation: traffic::Variation::STABLE };
    let spec = ServiceSpec {
        name: "checkout".parse().unwrap(),
        listens: vec![Listen::new(TAKEN, protocol)],
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

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    wait_until(what, async || holds().await.then_some(())).await;
}

/// As an agent puts a table in force.
async fn apply(takeover: &Takeover, services: Vec<Service>) -> Result<Vec<Service>, Trouble> {
    let placed = takeover.before_table(services, &[]).await?;
    takeover.after_table().await?;
    Ok(placed)
}

/// Takes the port over, and gives where the proxy listens for it.
async fn take(takeover: &Takeover) -> u16 {
    apply(takeover, vec![service()]).await.unwrap()[0].listens[0].at.unwrap()
}

fn sent_to(port: u16) -> Redirects {
    sent_as(false, port, Vec::new())
}

fn sent_as(is_udp: bool, to: u16, of: Vec<IpAddr>) -> Redirects {
    Redirects::from([(Socket { port: TAKEN, is_udp }, Redirect { to, of })])
}

#[tokio::test]
async fn callers_come_once_the_table_is_in_force_and_go_before_it_is_gone() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let number = Number { epoch: 1, generation: 1 };
    DesiredConfig::new(number, vec![service()]).expect_err("its calls would go round");

    let placed = takeover.before_table(vec![service()], &[]).await.unwrap();
    let at = placed[0].listens[0].at.unwrap();
    assert_eq!((placed[0].listens[0].port, world.listened().await), (TAKEN, vec![at]));
    assert_eq!(world.redirects(), Redirects::new(), "no table has the service yet");
    // The program that has the port is no end of the proxy's own.
    DesiredConfig::new(number, placed).unwrap();
    takeover.after_table().await.unwrap();
    assert_eq!(world.redirects(), sent_to(at));
    assert!(!takeover.differs(&world.status().await).await);

    // Another table of the same service moves nobody, also of an agent that was started anew.
    drop(takeover);
    let takeover = world.takeover(true);
    let placed = takeover.before_table(vec![service()], &[]).await.unwrap();
    assert_eq!((placed[0].listens[0].at, world.redirects()), (Some(at), sent_to(at)));
    takeover.after_table().await.unwrap();

    // Once this is answered, a table without it may follow.
    let idle = TcpStream::connect((Ipv4Addr::LOCALHOST, at)).await.unwrap();
    takeover.before_table(Vec::new(), &[]).await.unwrap();
    assert_eq!((world.redirects(), world.listened().await), (Redirects::new(), Vec::new()));
    takeover.after_table().await.unwrap();
    assert!(world.is_left(), "it goes on for a connection that came in");
    drop(idle);
    until("nothing is left", async || !world.is_left()).await;
    until("it is forgotten", async || std::fs::read_to_string(&world.file).unwrap() == "[]").await;
}

#[tokio::test]
async fn what_an_ended_agent_has_taken_over_is_given_back_by_whoever_ends_the_proxy() {
    let world = World::start(Some(1));
    assert!(world.left_over().await.unwrap().is_none(), "nothing is taken over");
    let takeover = world.takeover(true);
    take(&takeover).await;
    drop(takeover);
    world.rules(|rules| rules.left = Some(0));
    assert_eq!(world.left_over().await.unwrap_err().text, "it broke off");
    world.rules(|rules| rules.left = None);
    let left_over = world.left_over().await.unwrap().unwrap();
    assert_eq!(left_over.ports(None).await, [(TAKEN, true)], "its program goes on");
    assert!(!world.redirects().is_empty(), "who only looks changes nothing");
    left_over.send_nobody().await.unwrap();
    assert_eq!((world.redirects(), world.is_left()), (Redirects::new(), true), "who has come in goes on");
    left_over.give_back().await.unwrap();
    assert!(!world.is_left());
    assert_eq!(world.rules(|rules| rules.forgotten.pop()), Some(None));
    assert!(world.left_over().await.unwrap().is_none(), "it is forgotten");
    assert!(!world.file.exists(), "no file is left that the agent of another user couldn't read");
}

#[tokio::test]
async fn a_table_that_changes_nothing_of_it_asks_for_no_rules() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let at = take(&takeover).await;
    // Whoever looks now and then is told what isn't so, and takes nothing from that which is in force.
    world.rules(|rules| rules.why_not = Some("nft is gone".to_owned()));
    let placed = apply(&takeover, vec![service()]).await.unwrap();
    assert_eq!((placed[0].listens[0].at, world.redirects()), (Some(at), sent_to(at)));
    // What is to be given back isn't, and what callers are sent to stays.
    let refused = apply(&takeover, Vec::new()).await.unwrap_err();
    assert_eq!((refused.kind, refused.text.as_str()), (TroubleKind::Refused, "nft is gone"));
    assert_eq!((world.redirects(), world.listened().await), (sent_to(at), vec![at]));
    world.rules(|rules| rules.why_not = None);
    apply(&takeover, Vec::new()).await.unwrap();
    assert!(!world.is_left());
}

#[tokio::test]
async fn who_can_take_nothing_over_is_told_why_and_all_else_goes_on() {
    let world = World::start(Some(1));
    world.rules(|rules| rules.why_not = Some("nft can't be run".to_owned()));
    let takeover = world.takeover(true);
    let status = world.status().await;
    let why = Some("nft can't be run".to_owned());
    until("it was looked", async || takeover.trouble(&status) == why).await;
    assert!(takeover.ports(&status).is_empty(), "none are offered to the manager");
    assert!(!takeover.differs(&status).await);
    apply(&takeover, Vec::new()).await.unwrap();
    let refused = apply(&takeover, vec![service()]).await.unwrap_err();
    assert_eq!(refused.kind, TroubleKind::Refused);
    assert_eq!(refused.text, "calls to port 8080 can't be taken over: nft can't be run");
    // Nothing is held up by what came to nothing.
    apply(&takeover, Vec::new()).await.unwrap();
    assert!(world.listened().await.is_empty());
    world.rules(|rules| rules.why_not = None);
    until("it can now", async || takeover.trouble(&status).is_none()).await;
    assert_eq!(takeover.ports(&status).len(), 4);
    take(&takeover).await;
}

/// As it is told where another agent led the service before all was started anew, and is still to begin.
#[tokio::test]
async fn a_service_that_stays_as_it_stands_in_the_table_keeps_its_port() {
    let world = World::start(Some(1));
    let at = take(&world.takeover(true)).await;
    let form = |protocol: &str, ports: &[u16], hosts: &[&str]| -> ServiceForm {
        let variation = json!({"name": "A", "version": "1", "targets": ["127.0.0.1:8080"]});
        let form = json!({"name": "checkout", "protocol": protocol, "ports": ports, "hosts": hosts,
            "variations": [variation], "shares": [10_000]});
        serde_json::from_value(form).unwrap()
    };
    let takeover = world.takeover(true);
    let before = async |told: &[ServiceForm]| {
        takeover.before_table(Vec::new(), told).await.unwrap();
        takeover.after_table().await.unwrap();
        (world.redirects(), world.listened().await)
    };
    assert_eq!(before(&[form("http", &[at], &[])]).await, (sent_to(at), vec![at]));
    for other in [form("http", &[TAKEN], &[]), form("tcp", &[at], &[]), form("tls", &[], &["shop.example"])] {
        take(&takeover).await;
        assert_eq!(before(&[other]).await, (Redirects::new(), Vec::new()));
    }
}

#[tokio::test]
async fn callers_come_from_where_the_program_listens_that_has_the_port() {
    let world = World::start(Some(1));
    let own = IpAddr::from(Ipv4Addr::LOCALHOST);
    world.rules(|rules| rules.listeners = vec![own]);
    let at = take(&world.takeover(true)).await;
    assert_eq!(world.redirects(), sent_as(false, at, vec![own]));
    let listened: ListenStatus = world.client.get("/listen").await.unwrap();
    assert_eq!(listened.list.listen[0].address, SocketAddr::new(own, at));
    // So it stays, whatever that program does, and whoever goes on.
    world.rules(|rules| rules.listeners.clear());
    assert_eq!(take(&world.takeover(true)).await, at);
    assert_eq!(world.redirects(), sent_as(false, at, vec![own]));
}

/// At an address of UDP the proxy takes nothing again before its last flow has ended.
#[tokio::test]
async fn a_port_is_taken_over_again_elsewhere_while_callers_are_left_from_before() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let first = take(&takeover).await;
    let idle = TcpStream::connect((Ipv4Addr::LOCALHOST, first)).await.unwrap();
    apply(&takeover, Vec::new()).await.unwrap();
    assert_eq!((world.redirects(), world.listened().await), (Redirects::new(), Vec::new()));
    let second = take(&takeover).await;
    assert_ne!(second, first);
    assert_eq!((world.redirects(), world.listened().await), (sent_to(second), vec![second]));
    apply(&takeover, Vec::new()).await.unwrap();
    assert!(world.is_left(), "it goes on for the connection that came in first");
    drop(idle);
    until("nothing is left", async || !world.is_left()).await;
}

#[tokio::test]
async fn the_kernel_forgets_flows_of_udp_once_their_port_is_given_back() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let placed = apply(&takeover, vec![service_of(Protocol::Udp)]).await.unwrap();
    let at = placed[0].listens[0].at.unwrap();
    assert_eq!(world.redirects(), sent_as(true, at, Vec::new()));
    assert!(world.rules(|rules| rules.forgotten.is_empty()));
    apply(&takeover, Vec::new()).await.unwrap();
    assert!(!world.is_left());
    assert_eq!(world.rules(|rules| rules.forgotten.clone()), [Some(at)]);
}

#[tokio::test]
async fn rules_are_looked_at_once_and_then_only_while_anything_is_taken_over() {
    let world = World::start(Some(1));
    // What else it looks after shows that time passes.
    let takeover = world.takeover_by(true, true);
    until("it has looked at all else again", async || world.rules(|rules| rules.surveys) > 1).await;
    let looks = || world.rules(|rules| rules.looks);
    assert_eq!(looks(), 1);
    take(&takeover).await;
    let before = looks();
    until("it is looked again and again", async || looks() > before + 1).await;
}

#[tokio::test]
async fn where_somebody_else_has_the_proxys_port_by_now_another_one_is_taken() {
    let world = World::start(Some(1));
    let at = take(&world.takeover(true)).await;
    // As after a restart of the machine: no rules, and the proxy couldn't listen there.
    world.rules(|rules| rules.redirects = None);
    let none = json!({"epoch": 0, "generation": 50, "listen": []});
    let _: ListenStatus = world.client.put("/listen", none.to_string().into()).await.unwrap();
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, at)).unwrap();
    let next = take(&world.takeover(true)).await;
    assert_ne!(next, at);
    assert_eq!((world.redirects(), world.listened().await), (sent_to(next), vec![next]));
    drop(other);
}

#[tokio::test]
async fn what_breaks_off_anywhere_is_finished_by_the_next_agent() {
    let mut broken = 0;
    for calls in 0.. {
        let world = World::start(Some(1));
        world.rules(|rules| rules.left = Some(calls));
        let first = apply(&world.takeover(true), vec![service()]).await;
        world.rules(|rules| rules.left = None);
        let next = world.takeover(true);
        let at = take(&next).await;
        assert_eq!((world.redirects(), world.listened().await), (sent_to(at), vec![at]), "{calls}");

        // And so is what is given back.
        world.rules(|rules| rules.left = Some(calls));
        let second = apply(&next, Vec::new()).await;
        drop(next);
        world.rules(|rules| rules.left = None);
        apply(&world.takeover(true), Vec::new()).await.unwrap();
        assert_eq!((world.redirects(), world.listened().await), (Redirects::new(), vec![]), "{calls}");
        assert!(!world.is_left(), "{calls}");
        if first.is_ok() && second.is_ok() {
            break;
        }
        broken += usize::from(first.is_err()) + usize::from(second.is_err());
    }
    assert!(broken > 3, "it broke off at {broken} places");
}

#[tokio::test]
async fn what_somebody_takes_away_is_a_drift_and_put_right_with_the_table() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let at = take(&takeover).await;
    let status = world.status().await;
    world.rules(|rules| rules.redirects = None);
    // However often it is looked before it is put right, it is one.
    takeover.drifted().await;
    takeover.drifted().await;
    takeover.drifted().await;
    let drifts = takeover.drifts();
    assert_eq!((drifts.len(), drifts[0].wanted.as_str()), (1, format!("tcp {TAKEN} at {at}").as_str()));
    assert_eq!(drifts[0].seen, "nothing");
    assert!(takeover.differs(&status).await && !world.is_left(), "a table may not have the service any more");
    assert_eq!(take(&takeover).await, at);
    assert_eq!(world.redirects(), sent_to(at));
    assert!(!takeover.differs(&status).await);
}

#[tokio::test]
async fn what_somebody_puts_beside_the_rules_is_a_drift_and_put_right_at_once() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let at = take(&takeover).await;
    world.rules(|rules| rules.is_changed = true);
    until("it is put right", async || !world.rules(|rules| rules.is_changed)).await;
    let drifts = takeover.drifts();
    assert_eq!((drifts.len(), drifts[0].seen.as_str()), (1, "the same by other rules"));
    assert_eq!(world.redirects(), sent_to(at));
}

#[tokio::test]
async fn the_next_agent_forgets_what_was_given_back_once_its_callers_are_gone() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let at = take(&takeover).await;
    let idle = TcpStream::connect((Ipv4Addr::LOCALHOST, at)).await.unwrap();
    apply(&takeover, Vec::new()).await.unwrap();
    drop(takeover);
    // It has no table to tell.
    let takeover = world.takeover(true);
    until("it has looked", async || takeover.ports(&world.status().await).len() == 4).await;
    assert!(world.is_left(), "it goes on for a connection that came in");
    drop(idle);
    until("nothing is left", async || !world.is_left()).await;
    until("it is forgotten", async || std::fs::read_to_string(&world.file).unwrap() == "[]").await;
    assert_eq!(takeover.drifts().len(), 0, "nobody has changed anything");
}

#[tokio::test]
async fn callers_go_to_who_has_the_port_while_no_proxy_answers() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let at = take(&takeover).await;
    takeover.proxy_is_away().await;
    assert_eq!(world.redirects(), sent_to(at), "it may be back in a moment");
    until("callers are sent there no more", async || {
        takeover.proxy_is_away().await;
        world.redirects().is_empty()
    })
    .await;
    // What came in may go on, and flows, which never end for the kernel, go elsewhere.
    assert!(world.is_left());
    assert_eq!(world.rules(|rules| rules.forgotten.clone()), [None::<u16>]);
    // It is back.
    assert!(takeover.differs(&world.status().await).await);
    assert_eq!(take(&takeover).await, at);
    assert_eq!(world.redirects(), sent_to(at));
}

#[tokio::test]
async fn what_an_agent_of_before_left_without_a_word_is_removed() {
    let world = World::start(Some(1));
    world.rules(|rules| rules.redirects = Some(sent_to(1)));
    let _takeover = world.takeover(true);
    until("nothing is left", async || !world.is_left()).await;
}

#[tokio::test]
async fn who_may_not_any_more_gives_everything_back() {
    let world = World::start(Some(1));
    take(&world.takeover(true)).await;
    let placed = apply(&world.takeover(false), vec![service()]).await.unwrap();
    assert_eq!(
        placed[0].listens[0].at, None,
        "the proxy refuses it, as it does any port that it doesn't have"
    );
    assert_eq!((world.redirects(), world.listened().await), (Redirects::new(), Vec::new()));
    assert!(!world.is_left());
}

#[tokio::test]
async fn a_proxy_whose_own_calls_would_come_back_gets_none() {
    let world = World::start(None);
    let takeover = world.takeover(true);
    let refused = apply(&takeover, vec![service()]).await.unwrap_err();
    assert_eq!(refused.kind, TroubleKind::Refused);
    assert!(
        refused.text.starts_with("calls to port 8080 can't be taken over: the proxy doesn't mark"),
        "{refused:?}"
    );
    assert_eq!((world.redirects(), world.listened().await), (Redirects::new(), Vec::new()));
    let status = world.status().await;
    assert!(takeover.ports(&status).is_empty(), "none are offered to the manager");
    assert!(takeover.trouble(&status).unwrap().starts_with("the proxy doesn't mark its own"));
}

#[tokio::test]
async fn callers_are_sent_to_no_proxy_that_has_taken_the_place_of_one_that_marks_its_calls() {
    let world = World::start(Some(1));
    let takeover = world.takeover(true);
    let at = take(&takeover).await;
    let other = Status { marks: false, ..world.status().await };
    until("callers are sent there no more", async || {
        takeover.differs(&other).await;
        world.redirects().is_empty()
    })
    .await;
    assert!(takeover.differs(&world.status().await).await);
    assert_eq!(take(&takeover).await, at);
    assert_eq!(world.redirects(), sent_to(at));
}
