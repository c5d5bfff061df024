//! One proxy that several agents lead at the same time: a real one, of which is noted how often it is asked.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent::{
    data_plane::{Answer, BuiltInProxy, DataPlane, Former, Part, SharedProxy, View},
    runtime::VersionId,
    settings::ProxySettings,
    state_machine::{
        Abilities, CountsReading, ManagedService, ReadBack, Trouble, TroubleKind,
        table::{Served, Table},
    },
};
use call_metrics::{Cursor, Interval, Key, Reading, Row, Tally};
use model::traffic::OpenPorts;
use proxy::{
    Kind, Limits, Listen, Proxy,
    control::{self, client::Client, control_handler::ControlHandler, form::TableNumber},
    form::{ServiceForm, TableForm},
};
use router::{Operations, controller::Phase};
use serde_json::json;
use tokio::{
    net::UnixListener,
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
    time::{self, timeout},
};
use traffic::{
    HashFunction, Shares,
    desired::{self, Protocol, ServiceSpec},
};

use crate::world::wait_until;

/// The proxy beside an agent, and how often it was asked for what.
#[derive(Debug)]
struct Watched {
    proxy: BuiltInProxy,
    looks: AtomicUsize,
    tables: AtomicUsize,
    /// With what its counts were asked for.
    cursors: Mutex<Vec<Cursor>>,
    /// What it has counted, as a test says.
    reading: Mutex<Option<Reading>>,
    /// A test says that its process has ended, or that other targets can be reached.
    changed: Notify,
    outdated: Notify,
    /// How often it is waited for other targets just now.
    waiters: AtomicUsize,
    /// A service with which a table waits until a test lets it go.
    held: Mutex<Option<&'static str>>,
    let_go: Notify,
    lingers: watch::Sender<bool>,
    /// The next look is told to a test, and waits until that lets it go.
    holds_look: AtomicBool,
    looked: Notify,
    look_goes_on: Notify,
}

/// What marks connections of its.
const MARK: u32 = 7;

/// One more until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Watched {
    /// Waits until a table waits for a test.
    async fn table_waits(&self) {
        drop(self.lingers.subscribe().wait_for(|lingers| *lingers).await.unwrap());
    }
}

impl DataPlane for Watched {
    fn operations(&self) -> &dyn Operations {
        self.proxy.operations()
    }

    fn abilities(&self) -> Abilities {
        self.proxy.abilities()
    }

    fn look(&self) -> Answer<'_, Result<ReadBack, Trouble>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let is_held = self.holds_look.swap(false, Ordering::SeqCst);
        Box::pin(async move {
            let looked = self.proxy.look().await;
            if is_held {
                self.looked.notify_one();
                self.look_goes_on.notified().await;
            }
            looked
        })
    }

    fn serves(&self) -> Answer<'_, Result<Vec<ServiceForm>, Trouble>> {
        self.proxy.serves()
    }

    fn apply<'a>(&'a self, table: &'a Table) -> Answer<'a, Result<(), Trouble>> {
        self.tables.fetch_add(1, Ordering::SeqCst);
        self.lingers.send_replace(false);
        let held = *self.held.lock().unwrap();
        let is_held = table.served.services.iter().any(|led| held == Some(led.service.name.as_str()));
        Box::pin(async move {
            if is_held {
                self.lingers.send_replace(true);
                self.let_go.notified().await;
                self.lingers.send_replace(false);
            }
            self.proxy.apply(table).await
        })
    }

    fn lingers(&self) -> Answer<'_, ()> {
        Box::pin(self.table_waits())
    }

    fn changed(&self) -> Answer<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn outdated(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let _watched = Counted::of(&self.waiters);
            self.outdated.notified().await;
        })
    }

    fn is_drained<'a>(
        &'a self,
        function: &'a str,
        version: &'a VersionId,
    ) -> Answer<'a, Result<bool, Trouble>> {
        self.proxy.is_drained(function, version)
    }

    fn empty<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Result<Option<u64>, Trouble>> {
        self.proxy.empty(service, variation)
    }

    fn count(&self, cursor: Cursor, needs_all: bool) -> Answer<'_, Result<CountsReading, Trouble>> {
        self.cursors.lock().unwrap().push(cursor);
        match self.reading.lock().unwrap().clone() {
            Some(reading) => Box::pin(async { Ok(CountsReading::Read(Box::new(reading))) }),
            None => self.proxy.count(cursor, needs_all),
        }
    }

    fn view(&self) -> View {
        self.proxy.view()
    }

    fn mark(&self) -> Option<u32> {
        Some(MARK)
    }

    fn ports(&self) -> Option<Vec<OpenPorts>> {
        self.proxy.ports()
    }

    fn repair(&self) -> Answer<'_, Result<(), Trouble>> {
        self.proxy.repair()
    }

    fn end(&self, at_most: Duration) -> Answer<'_, Result<bool, Trouble>> {
        self.proxy.end(at_most)
    }
}

/// A proxy that takes calls at some ports.
struct World {
    root: tempfile::TempDir,
    ports: Vec<u16>,
    client: Client,
    serving: JoinHandle<()>,
    _handler: Arc<ControlHandler>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    fn start() -> Self {
        let root = tempfile::Builder::new().prefix("shared").tempdir().unwrap();
        let proxy = Proxy::start(1, Limits::default()).unwrap();
        let listen = [(); 3].map(|()| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            Listen { kind: Kind::Plain, address: proxy.listen(&listener).unwrap() }
        });
        let ports = listen.iter().map(|one| one.address.port()).collect();
        let state = root.path().join("proxy");
        fs::create_dir(&state).unwrap();
        let handler = Arc::new(ControlHandler::new(proxy, &state, listen.to_vec(), "0.0.0-test").unwrap());
        let socket = UnixListener::bind(control_of(root.path())).unwrap();
        handler.open();
        let serving = tokio::spawn(control::serve(socket, Arc::clone(&handler)));
        let client = Client::new(control_of(root.path()));
        Self { root, ports, client, serving, _handler: handler }
    }

    /// Led by these agents, by a process that has just been started.
    fn led_by(&self, agents: &[&str]) -> (Arc<SharedProxy>, Arc<Watched>) {
        let settings = ProxySettings { control: control_of(self.root.path()), start: None, takeover: None };
        let watched = Arc::new(Watched {
            proxy: BuiltInProxy::new(settings),
            looks: AtomicUsize::default(),
            tables: AtomicUsize::default(),
            cursors: Mutex::default(),
            reading: Mutex::default(),
            changed: Notify::new(),
            outdated: Notify::new(),
            waiters: AtomicUsize::default(),
            held: Mutex::default(),
            let_go: Notify::new(),
            lingers: watch::Sender::new(false),
            holds_look: AtomicBool::default(),
            looked: Notify::new(),
            look_goes_on: Notify::new(),
        });
        let front: Arc<dyn DataPlane> = Arc::<Watched>::clone(&watched);
        (SharedProxy::new(front, names(agents)), watched)
    }

    /// The table in force, a line each service: its name, and all that was told of it.
    async fn in_force(&self) -> Vec<(String, String)> {
        let table: TableForm = self.client.get("/table").await.unwrap();
        let line = |of: &ServiceForm| (of.name.clone(), serde_json::to_string(of).unwrap());
        let mut lines: Vec<_> = table.services.iter().map(line).collect();
        lines.sort();
        lines
    }

    /// The number of the table in force.
    async fn number(&self) -> u64 {
        self.client.get::<TableForm>("/table").await.unwrap().generation
    }

    async fn names_in_force(&self) -> Vec<String> {
        self.in_force().await.into_iter().map(|(name, _)| name).collect()
    }

    /// What was told of a service that is in force.
    async fn told_of(&self, name: &str) -> String {
        let found = self.in_force().await.into_iter().find(|(of, _)| of == name);
        found.unwrap_or_else(|| panic!("{name} is not in force")).1
    }
}

fn control_of(root: &Path) -> std::path::PathBuf {
    root.join("proxy.sock")
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

fn knowing(all: &[&str]) -> Former {
    Former { names: names(all), reads: None }
}

/// A service at a port, of which its second variation gets so much.
fn service(name: &str, port: u16, of_new: u16) -> ManagedService {
    let variation = |name: &str, port: u16| desired::Variation {
        name: name.parse().unwrap(),
        targets: vec![format!("127.0.0.1:{port}").parse().unwrap()],
        health: None,
    };
    let spec = ServiceSpec {
        name: name.parse().unwrap(),
        listens: vec![desired::Listen::new(port, Protocol::Http)],
        sticky: None,
        rule: None,
        salt: name.parse().unwrap(),
        hash: HashFunction::Murmur2,
        variations: vec![variation("A", 1), variation("B", 2)],
        table: traffic::Table::new(&Shares::new([10_000 - of_new, of_new]).unwrap()),
    };
    ManagedService {
        service: desired::Service::new(spec).unwrap(),
        retry: None,
        proxy_protocol: None,
        drain: None,
        split: String::new(),
    }
}

fn number(generation: u64) -> TableNumber {
    TableNumber { epoch: 0, generation }
}

fn table(generation: u64, services: impl IntoIterator<Item = ManagedService>) -> Table {
    let services = services.into_iter().collect();
    Table { number: number(generation), served: Served { functions: Vec::new(), services } }
}

/// What an agent reads back: the number of its table, and what it may lead.
async fn read_back(part: &Part) -> (u64, bool, BTreeSet<String>) {
    let ReadBack { number, differs, services } = part.look().await.unwrap();
    (number.generation, differs, services)
}

#[tokio::test]
async fn tables_stand_side_by_side_and_another_one_leaves_the_bytes_of_the_others() {
    let world = World::start();
    let (shared, _) = world.led_by(&["a", "b"]);
    let (a, b) = (shared.join("a", Former::default()), shared.join("b", Former::default()));
    a.apply(&table(4, [service("shop", world.ports[0], 1_000)])).await.unwrap();
    b.apply(&table(1, [service("till", world.ports[1], 5_000)])).await.unwrap();
    assert_eq!(read_back(&a).await, (4, false, names(&["shop"])));
    assert_eq!(read_back(&b).await, (1, false, names(&["till"])));

    let (shop, till) = (world.told_of("shop").await, world.told_of("till").await);
    a.apply(&table(5, [service("shop", world.ports[0], 3_000)])).await.unwrap();
    assert_ne!(world.told_of("shop").await, shop);
    assert_eq!(world.told_of("till").await, till);
    assert_eq!(read_back(&a).await, (5, false, names(&["shop"])));
    assert_eq!(read_back(&b).await, (1, false, names(&["till"])), "its own number");

    a.apply(&table(6, [])).await.unwrap();
    assert_eq!(world.in_force().await, [("till".to_owned(), till)]);
    assert_eq!(read_back(&a).await, (6, false, BTreeSet::new()));
    assert_eq!(read_back(&b).await, (1, false, names(&["till"])));
}

/// The first of them once dropped what all others led.
#[tokio::test]
async fn a_process_that_starts_again_drops_nothing_of_agents_that_are_still_to_begin() {
    let world = World::start();
    let all = ["a", "b", "c"];
    {
        let (shared, _) = world.led_by(&all);
        for (agent, (name, port)) in all.iter().zip(["shop", "till", "desk"].iter().zip(&world.ports)) {
            let part = shared.join(agent, Former::default());
            part.apply(&table(1, [service(name, *port, 1_000)])).await.unwrap();
        }
    }
    let (till, desk) = (world.told_of("till").await, world.told_of("desk").await);
    let (shared, _) = world.led_by(&all);
    let a = shared.join("a", knowing(&["shop"]));
    assert!(read_back(&a).await.2.contains("shop"), "what it led may be in force");
    a.apply(&table(2, [service("shop", world.ports[0], 3_000)])).await.unwrap();
    assert_eq!(world.told_of("till").await, till);
    assert_eq!(world.told_of("desk").await, desk);

    // It let its service go, and was ended before that came about.
    let b = shared.join("b", knowing(&["till"]));
    assert_eq!(read_back(&b).await, (0, false, names(&["desk", "till"])));
    b.apply(&table(2, [])).await.unwrap();
    assert_eq!(world.names_in_force().await, ["desk", "shop"]);

    // It has lost its memory, and may have led what nobody knows.
    let c = shared.join("c", Former::default());
    a.apply(&table(3, [service("shop", world.ports[0], 4_000)])).await.unwrap();
    assert_eq!(world.told_of("desk").await, desk);
    assert_eq!(read_back(&c).await, (0, false, names(&["desk"])));
    c.apply(&table(1, [service("desk", world.ports[2], 2_000)])).await.unwrap();
    assert_ne!(world.told_of("desk").await, desk);
    c.apply(&table(2, [])).await.unwrap();
    a.apply(&table(4, [service("shop", world.ports[0], 5_000)])).await.unwrap();
    assert_eq!(world.names_in_force().await, ["shop"], "what was let go doesn't come back");
}

#[tokio::test]
async fn an_agent_that_starts_again_by_itself_has_what_it_told() {
    let world = World::start();
    let (shared, _) = world.led_by(&["a", "b"]);
    let (a, b) = (shared.join("a", Former::default()), shared.join("b", Former::default()));
    a.apply(&table(1, [service("shop", world.ports[0], 1_000)])).await.unwrap();
    let shop = world.told_of("shop").await;
    drop(a);
    b.apply(&table(1, [service("till", world.ports[1], 1_000)])).await.unwrap();
    assert_eq!(world.told_of("shop").await, shop);
    let a = shared.join("a", knowing(&["shop"]));
    assert_eq!(read_back(&a).await, (1, false, names(&["shop"])));
    a.apply(&table(2, [])).await.unwrap();
    assert_eq!(world.names_in_force().await, ["till"]);
}

#[tokio::test]
async fn what_nobody_knows_goes_once_all_know_what_is_theirs() {
    let world = World::start();
    {
        let (shared, _) = world.led_by(&["gone"]);
        let gone = shared.join("gone", Former::default());
        gone.apply(&table(1, [service("desk", world.ports[2], 1_000)])).await.unwrap();
    }
    let (shared, _) = world.led_by(&["a", "b"]);
    let (a, b) = (shared.join("a", Former::default()), shared.join("b", Former::default()));
    a.apply(&table(1, [service("shop", world.ports[0], 1_000)])).await.unwrap();
    assert_eq!(world.names_in_force().await, ["desk", "shop"], "the other one may have led it");
    b.apply(&table(1, [service("till", world.ports[1], 1_000)])).await.unwrap();
    assert_eq!(world.names_in_force().await, ["shop", "till"]);
}

#[tokio::test]
async fn a_service_is_the_first_ones_until_it_lets_it_go() {
    let world = World::start();
    let (shared, _) = world.led_by(&["a", "b"]);
    let (a, b) = (shared.join("a", Former::default()), shared.join("b", Former::default()));
    let shop = |of_new| service("shop", world.ports[0], of_new);
    a.apply(&table(1, [shop(1_000)])).await.unwrap();
    let told = world.told_of("shop").await;
    let refused = b.apply(&table(1, [shop(9_000)])).await.unwrap_err();
    assert_eq!(refused.kind, TroubleKind::Refused);
    assert_eq!(
        refused.text,
        "a and b would both lead shop at one proxy: have the release's routers name one of them"
    );
    assert_eq!(world.told_of("shop").await, told);
    assert_eq!(read_back(&a).await, (1, false, names(&["shop"])));
    assert_eq!(read_back(&b).await, (0, false, BTreeSet::new()), "it is another's");
    a.apply(&table(2, [])).await.unwrap();
    b.apply(&table(2, [shop(9_000)])).await.unwrap();
    assert_eq!(read_back(&b).await, (2, false, names(&["shop"])));
}

#[tokio::test]
async fn what_is_refused_is_refused_to_one_and_the_others_go_on() {
    let world = World::start();
    let agents = ["a", "b", "c", "d"];
    let (shared, _) = world.led_by(&agents);
    let [a, b, c, d] = agents.map(|agent| shared.join(agent, Former::default()));
    // Nobody listens there.
    let closed = table(1, [service("desk", 7, 1_000)]);
    let of_a = table(1, [service("shop", world.ports[0], 1_000)]);
    let of_c = table(1, [service("till", world.ports[1], 1_000)]);
    let taken = table(1, [service("stall", world.ports[0], 1_000)]);
    let (a_told, b_told, c_told, d_told) =
        tokio::join!(a.apply(&of_a), b.apply(&closed), c.apply(&of_c), d.apply(&taken));
    a_told.unwrap();
    c_told.unwrap();
    for (refused, why) in
        [(b_told, "on port 7 no calls are taken"), (d_told, "the services shop and stall would both have")]
    {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind, TroubleKind::Refused, "{}", refused.text);
        assert!(refused.text.contains(why), "{}", refused.text);
    }
    assert_eq!(world.names_in_force().await, ["shop", "till"]);
    assert_eq!(read_back(&a).await, (1, false, names(&["shop"])));
    assert_eq!(read_back(&b).await, (0, false, BTreeSet::new()));
    assert_eq!(read_back(&c).await, (1, false, names(&["till"])));
    b.apply(&table(2, [service("desk", world.ports[2], 1_000)])).await.unwrap();
    assert_eq!(world.names_in_force().await, ["desk", "shop", "till"]);
}

#[tokio::test]
async fn a_table_of_somebody_elses_is_replaced_by_all() {
    let world = World::start();
    let (shared, _) = world.led_by(&["a", "b"]);
    let (a, b) = (shared.join("a", Former::default()), shared.join("b", Former::default()));
    let of_a = table(1, [service("shop", world.ports[0], 1_000)]);
    a.apply(&of_a).await.unwrap();
    b.apply(&table(1, [service("till", world.ports[1], 1_000)])).await.unwrap();
    let empty = json!({"epoch": 3, "generation": 9, "services": []}).to_string();
    let _: serde_json::Value = world.client.put("/table", empty.into()).await.unwrap();
    assert_eq!(read_back(&a).await, (1, true, BTreeSet::new()));
    assert_eq!(read_back(&b).await, (1, true, BTreeSet::new()));
    a.apply(&of_a).await.unwrap();
    assert_eq!(world.names_in_force().await, ["shop", "till"]);
    assert_eq!(read_back(&b).await, (1, false, names(&["till"])));
}

#[tokio::test]
async fn one_that_gives_up_while_it_tells_for_all_leaves_it_to_the_next() {
    let world = World::start();
    let (shared, _) = world.led_by(&["a", "b"]);
    let (a, b) = (shared.join("a", Former::default()), shared.join("b", Former::default()));
    let of_a = table(1, [service("shop", world.ports[0], 1_000)]);
    assert!(timeout(Duration::ZERO, a.apply(&of_a)).await.is_err(), "it has begun, and no more");
    b.apply(&table(1, [service("till", world.ports[1], 1_000)])).await.unwrap();
    assert_eq!(world.names_in_force().await, ["till"], "who gave up may want something else by now");
    a.apply(&of_a).await.unwrap();
    assert_eq!(world.names_in_force().await, ["shop", "till"]);
}

#[tokio::test]
async fn what_happens_to_the_proxy_is_heard_by_all_and_other_targets_are_told_for_all() {
    let world = World::start();
    let (shared, watched) = world.led_by(&["a", "b"]);
    let (a, b) = (shared.join("a", Former::default()), shared.join("b", Former::default()));
    a.apply(&table(7, [service("shop", world.ports[0], 1_000)])).await.unwrap();
    b.apply(&table(3, [service("till", world.ports[1], 1_000)])).await.unwrap();
    watched.changed.notify_one();
    tokio::join!(a.changed(), b.changed());

    let (before, number) = (world.in_force().await, world.number().await);
    watched.outdated.notify_one();
    wait_until("it is told again", async || (world.number().await > number).then_some(())).await;
    assert_eq!(world.in_force().await, before);
    assert_eq!(read_back(&a).await, (7, false, names(&["shop"])), "its own table is the same");
    assert_eq!(read_back(&b).await, (3, false, names(&["till"])));
}

fn function(name: &str) -> ServiceForm {
    let variation = json!({"name": "base", "version": "1", "targets": ["127.0.0.1:1"]});
    serde_json::from_value(json!({"name": name, "variations": [variation], "shares": [10_000]})).unwrap()
}

#[tokio::test]
async fn a_thousand_at_once_are_one_table_one_look_and_one_reading() {
    const AGENTS: usize = 1_000;
    /// The first asks for itself, and the next for all others; a few more where the machine is slow.
    const FEW: usize = 10;
    let world = World::start();
    let agents: Vec<String> = (0..AGENTS).map(|at| format!("a{at:04}")).collect();
    let (shared, watched) = world.led_by(&agents.iter().map(String::as_str).collect::<Vec<_>>());
    let parts: Vec<Arc<Part>> =
        agents.iter().map(|agent| Arc::new(shared.join(agent, Former::default()))).collect();

    let mut telling = JoinSet::new();
    for (part, name) in parts.iter().cloned().zip(agents.clone()) {
        telling.spawn(async move {
            let served = Served { functions: vec![function(&name)], services: Vec::new() };
            part.apply(&Table { number: number(1), served }).await
        });
    }
    for told in telling.join_all().await {
        told.unwrap();
    }
    let tables = watched.tables.load(Ordering::SeqCst);
    assert!(tables <= FEW, "{tables} tables");
    assert_eq!(world.names_in_force().await, agents);

    let before = watched.looks.load(Ordering::SeqCst);
    let mut looking = JoinSet::new();
    for part in parts.clone() {
        looking.spawn(async move { read_back(&part).await });
    }
    let mut seen = BTreeSet::new();
    for (number, differs, own) in looking.join_all().await {
        assert_eq!((number, differs, own.len()), (1, false, 1));
        seen.extend(own);
    }
    assert_eq!(seen.len(), AGENTS, "each sees its own");
    let looks = watched.looks.load(Ordering::SeqCst) - before;
    assert!(looks <= FEW, "{looks} looks");

    let mut counting = JoinSet::new();
    for part in parts.clone() {
        counting.spawn(async move { part.count(Cursor::default(), true).await });
    }
    for counted in counting.join_all().await {
        counted.unwrap();
    }
    let readings = watched.cursors.lock().unwrap().len();
    assert!(readings <= FEW, "{readings} readings");
}

fn row(service: &str, calls: u64) -> Row {
    let key = Key {
        service: service.to_owned(),
        split: "s".to_owned(),
        shares: Arc::from([9_000, 1_000]),
        variation: "A".to_owned(),
        version: String::new(),
        by_header: false,
    };
    Row { key: Arc::new(key), tally: Tally { calls, ..Tally::default() } }
}

fn interval(from: u64, rows: Vec<Row>) -> Interval {
    Interval { from, to: from + 1, began_ms: 0, seconds: 1, rows }
}

/// Where intervals begin, and the calls of each by service.
type Calls = Vec<(u64, Vec<(String, u64)>)>;

/// What an agent gets of closed intervals, and of those that go on.
async fn counted(part: &Part, cursor: Cursor, needs_all: bool) -> [Calls; 2] {
    let counted = part.count(cursor, needs_all).await.unwrap();
    let CountsReading::Read(reading) = counted else { panic!("nobody counts") };
    let of = |interval: &Interval| {
        let rows = interval.rows.iter().map(|row| (row.key.service.clone(), row.tally.calls));
        (interval.from, rows.collect::<Vec<_>>())
    };
    [reading.closed.iter().map(|one| of(one)).collect(), reading.open.iter().map(of).collect()]
}

#[tokio::test]
async fn counts_are_read_from_where_the_slowest_stands_that_needs_them_and_each_gets_its_own() {
    let world = World::start();
    let (shared, watched) = world.led_by(&["a", "b", "idle"]);
    let at = |interval| Cursor { life: 7, interval };
    let of = |name: &str, reads| Former { names: names(&[name]), reads };
    let a = shared.join("a", of("shop", Some(at(4))));
    let b = shared.join("b", of("till", Some(at(3))));
    let idle = shared.join("idle", of("desk", None));
    *watched.reading.lock().unwrap() = Some(Reading {
        closed: vec![
            Arc::new(interval(3, vec![row("shop", 1), row("till", 2)])),
            Arc::new(interval(4, vec![row("shop", 5)])),
        ],
        open: vec![interval(5, vec![row("till", 8)])],
        next: at(5),
        gone: 0,
        cut_short: 0,
        in_flight: Vec::new(),
    });
    let calls = |name: &str, calls| vec![(name.to_owned(), calls)];
    let asked = || watched.cursors.lock().unwrap().last().copied().unwrap();

    assert_eq!(counted(&a, at(4), true).await, [vec![(4, calls("shop", 5))], vec![(5, Vec::new())]]);
    assert_eq!(asked(), at(3), "the other one has read less");
    assert_eq!(counted(&b, at(3), true).await, [vec![(3, calls("till", 2))], vec![(5, calls("till", 8))]]);
    assert_eq!(asked(), at(3));
    assert_eq!(counted(&b, at(5), true).await, [Vec::new(), vec![(5, calls("till", 8))]]);
    assert_eq!(asked(), at(4));
    // It reads now and then, so that counts are let go.
    assert_eq!(counted(&idle, at(1), false).await, [Vec::new(), vec![(5, Vec::new())]]);
    assert_eq!(asked(), at(4), "who needs none holds up nobody");
    counted(&b, at(9), true).await;
    counted(&a, at(9), true).await;
    assert_eq!(asked(), at(9));
    // Whoever has another table put in force needs all that is counted from now on.
    idle.apply(&table(1, [service("desk", world.ports[0], 1_000)])).await.unwrap();
    counted(&a, at(9), true).await;
    assert_eq!(asked(), at(5));
}

/// A reading of the proxy's up to an interval, with a call of each of these in the one before.
fn reading(names: &[&str], next: Cursor) -> Reading {
    let rows = names.iter().map(|name| row(name, 1)).collect();
    Reading {
        closed: vec![Arc::new(interval(next.interval - 1, rows))],
        open: Vec::new(),
        next,
        gone: 0,
        cut_short: 0,
        in_flight: Vec::new(),
    }
}

/// What came while it didn't ask once went to the others alone.
#[tokio::test]
async fn one_that_comes_late_gets_all_counts_that_it_needs_and_is_waited_for_a_minute() {
    let world = World::start();
    let (shared, watched) = world.led_by(&["a", "b"]);
    let at = |interval| Cursor { life: 7, interval };
    let of = |name: &str, reads| Former { names: names(&[name]), reads: Some(reads) };
    let (a, b) = (shared.join("a", of("shop", at(4))), shared.join("b", of("till", at(4))));
    *watched.reading.lock().unwrap() = Some(reading(&["shop", "till"], at(6)));
    let asked = || watched.cursors.lock().unwrap().last().copied().unwrap();
    counted(&a, at(4), true).await;
    counted(&b, at(6), true).await;
    assert_eq!(asked(), at(4));

    time::pause();
    time::advance(Duration::from_secs(61)).await;
    time::resume();
    counted(&b, at(6), true).await;
    assert_eq!(asked(), at(6), "the other one isn't waited for any more");
    let [closed, _] = counted(&a, at(4), true).await;
    assert_eq!((asked(), closed), (at(4), vec![(5, vec![("shop".to_owned(), 1)])]));
    counted(&b, at(6), true).await;
    assert_eq!(asked(), at(4), "it is waited for again");
    counted(&a, at(4), false).await;
    assert_eq!(asked(), at(6), "once its stage is over, nobody waits for it");
}

/// The first who reads once had the proxy say all that it had kept for an hour.
#[tokio::test]
async fn who_needs_no_counts_reads_from_where_it_stood() {
    let world = World::start();
    let (shared, watched) = world.led_by(&["a"]);
    let a = shared.join("a", Former::default());
    let at = Cursor { life: 7, interval: 50 };
    *watched.reading.lock().unwrap() = Some(reading(&["shop"], at));
    counted(&a, at, false).await;
    assert_eq!(*watched.cursors.lock().unwrap(), [at]);
}

#[tokio::test]
async fn a_look_that_began_before_a_table_doesnt_show_it_in_force() {
    let world = World::start();
    let (shared, watched) = world.led_by(&["a", "b"]);
    let [a, b] = ["a", "b"].map(|agent| Arc::new(shared.join(agent, Former::default())));
    a.apply(&table(1, [service("shop", world.ports[0], 1_000)])).await.unwrap();
    b.apply(&table(1, [service("till", world.ports[1], 1_000)])).await.unwrap();
    for (part, of_new, is_before) in [(&a, 2_000_u16, true), (&b, 3_000, false)] {
        watched.holds_look.store(true, Ordering::SeqCst);
        let part = Arc::clone(part);
        let look = tokio::spawn(async move { read_back(&part).await });
        watched.looked.notified().await;
        let generation = u64::from(of_new) / 1_000;
        a.apply(&table(generation, [service("shop", world.ports[0], of_new)])).await.unwrap();
        watched.look_goes_on.notify_one();
        let (_, differs, _) = look.await.unwrap();
        assert_eq!(differs, is_before, "of the other one the table is the same");
        assert_eq!(read_back(&a).await, (generation, false, names(&["shop"])));
    }
}

#[tokio::test]
async fn a_table_that_waits_keeps_nobody_else_waiting() {
    /// So often it gives way.
    const WAYS: u16 = 5;
    let world = World::start();
    let (shared, watched) = world.led_by(&["a", "b", "c"]);
    let [a, b, c] = ["a", "b", "c"].map(|agent| Arc::new(shared.join(agent, Former::default())));
    b.apply(&table(1, [service("till", world.ports[1], 1_000)])).await.unwrap();
    *watched.held.lock().unwrap() = Some("shop");
    let of_a = table(1, [service("shop", world.ports[0], 1_000)]);
    let tell = |part: &Arc<Part>, table: &Table| {
        let (part, table) = (Arc::clone(part), table.clone());
        tokio::spawn(async move { part.apply(&table).await })
    };
    let within = Duration::from_mins(1);
    for time in 1..=WAYS {
        let waits = tell(&a, &of_a);
        watched.table_waits().await;
        wait_until("the names of the table before aren't looked at meanwhile", async || {
            (watched.waiters.load(Ordering::SeqCst) == 0).then_some(())
        })
        .await;
        let of_b = table(u64::from(1 + time), [service("till", world.ports[1], 1_000 + time)]);
        timeout(within, b.apply(&of_b)).await.unwrap().unwrap();
        let gave_way = timeout(within, waits).await.unwrap().unwrap().unwrap_err();
        assert_eq!(gave_way.kind, TroubleKind::Passes, "{}", gave_way.text);
    }
    assert_eq!(world.names_in_force().await, ["till"]);

    // Then others wait for it.
    let waits = tell(&a, &of_a);
    watched.table_waits().await;
    let of_b = tell(&b, &table(9, [service("till", world.ports[1], 9_000)]));
    let of_c = tell(&c, &table(1, [service("desk", world.ports[2], 1_000)]));
    for (name, part) in [("b asks", &b), ("c asks", &c)] {
        wait_until(name, async || (part.view().phase == Phase::Telling).then_some(())).await;
    }
    *watched.held.lock().unwrap() = Some("desk");
    watched.let_go.notify_one();
    timeout(within, waits).await.unwrap().unwrap().unwrap();
    // Of two that are told together, the one is found that waits.
    timeout(within, of_b).await.unwrap().unwrap().unwrap();
    assert_eq!(world.names_in_force().await, ["shop", "till"]);
    watched.let_go.notify_one();
    timeout(within, of_c).await.unwrap().unwrap().unwrap();
    assert_eq!(world.names_in_force().await, ["desk", "shop", "till"]);
    wait_until("those of this one are looked at", async || {
        (watched.waiters.load(Ordering::SeqCst) == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn targets_are_asked_with_the_mark_of_the_proxy() {
    let world = World::start();
    let (shared, _) = world.led_by(&["a"]);
    assert_eq!(shared.join("a", Former::default()).mark(), Some(MARK));
}
