//! A canary ends as asked, whoever dies on its way, and after whatever fact was stored last.
//!
//! - The *manager* stores commits: the release, what its router fetched, each weight, that the stage is skipped and the roll-out approved,
//!   what was reported, an abort, the end with the registered release. The log of its store is cut behind each of them, and another manager
//!   goes on from there.
//! - The *agent* stores `state.json`: the offer, its plan, the stage in hand, weights that it was told, who takes over, results that are owed,
//!   services that are let go. It is killed after one write, then after two, and so on, until it is through before it dies.
//! - Of ports of others it stores `takeover.json`: the proxy may listen for them, calls may come, none is to come any more, nothing is left. It
//!   is killed after each of these.
//! - The *proxy* stores `table`: each share, who serves alone; and `listen.json`: where it listens beside its configuration. The process that
//!   serves is killed then, or the one that holds the sockets.
//!
//! Whoever was not answered asks again, as operators and routers do; nobody else helps. What is stored is seen as it comes, so a further
//! fact is tried without a word here. Callers call all the time. An agent that dies costs none of them a call. A process of a proxy costs each of
//! them the one that it has in flight: the next one is answered, so nobody is without the service for longer than that.

use std::{
    collections::BTreeSet, env, fs, io, mem::MaybeUninit, os::fd::AsFd as _, path::Path, process::Stdio,
    time::Duration,
};

use ab_releases::DEFAULT_TENANT;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde_json::{Value, json};
use tokio::{net::unix::pipe::Receiver, select};

use super::{
    ADOPTED, DEPRECATED, canary,
    life::{state, stored},
    weight::{self, asks, shown, trailed},
    with_weight,
};
use crate::{
    ab::player::Player,
    deadline::until,
    real_agents::{
        canaries::{self as real, node_gives},
        node::Node,
        processes,
        routers::{Routers, all_to},
        taken_over::{self, WITHIN, in_a_network_of_its_own, rules},
        users::{USERS, Users},
        wait::wait_until,
    },
    world::World,
};

const ID: &str = "checkout-2";

/// What somebody asks of a manager.
#[derive(Debug)]
enum Call {
    /// An operator submits a manifest.
    Submit(String),
    /// The router takes the offer.
    Fetch,
    /// It asks whether it may end the stage.
    Ask,
    /// It says how far the stage is.
    Report(u8),
}

impl Call {
    /// Makes it, and says what was answered as far as the same call is always answered so.
    async fn make(&self, player: &Player) -> String {
        match self {
            Self::Submit(manifest) => {
                player.world.submit(manifest).await.ok();
                String::new()
            }
            Self::Fetch => {
                let offer = player.polls().await.1;
                assert!(offer == ID || offer.is_empty(), "{offer}");
                player.world.fetch(&player.router, ID).await.ok().text()
            }
            Self::Ask => asks(player, json!({})).await,
            Self::Report(status) => {
                let answer = player.reports(ID, "canary", *status, 10).await;
                assert!(answer.status < 500, "{answer:?}");
                String::new()
            }
        }
    }
}

/// A canary begins and has two other weights, and then this happens.
fn life(rest: impl IntoIterator<Item = Call>) -> Vec<Call> {
    let weighs = |weight| Call::Submit(with_weight(&canary(2, ""), weight));
    let begins = [Call::Submit(canary(2, "")), Call::Fetch, weighs(30), Call::Ask, weighs(5), Call::Ask];
    begins.into_iter().chain(rest).collect()
}

/// What is in the files of a store.
struct Files {
    file: Vec<u8>,
    log: Vec<u8>,
}

/// Of a log as SQLite writes it, in bytes.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

impl Files {
    fn of(world: &World) -> Self {
        let url = world.store();
        let file = url.strip_prefix("sqlite://").unwrap();
        Self { file: fs::read(file).unwrap(), log: fs::read(format!("{file}-wal")).unwrap() }
    }

    /// Where the log can be cut so that it has whole commits: behind each frame that ends one.
    fn commits(&self) -> Vec<usize> {
        let word = |at: usize| u32::from_be_bytes(self.log[at..at + 4].try_into().unwrap());
        let frame = FRAME_HEADER + word(8) as usize;
        let frames = (LOG_HEADER..).step_by(frame).take_while(|at| at + frame <= self.log.len());
        // What ends a commit says how large the file is then.
        frames.filter(|at| word(at + 4) > 0).map(|at| at + frame).collect()
    }

    /// A manager on what was there once the log was so long.
    async fn world_at(&self, cut: usize) -> World {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("choir.db"), &self.file).unwrap();
        fs::write(folder.path().join("choir.db-wal"), &self.log[..cut]).unwrap();
        World::on(folder).await
    }
}

/// How everything stands with the canary: its release, the registered one, its shares, and each weight that it was given.
async fn stands(player: &Player) -> (String, String, [Value; 3], Vec<Value>) {
    let registered = stored(&player.world, DEFAULT_TENANT, "shop").await.0;
    (state(player, ID).await, registered, shown(player).await, trailed(player).await)
}

/// Has the manager die behind each commit of a life. Gives how the canary ends.
async fn the_manager_dies_behind_each_commit_of(life: &[Call]) -> String {
    let player = weight::start().await;
    let registered = stored(&player.world, DEFAULT_TENANT, "shop").await;
    let before = Files::of(&player.world);
    let (mut answers, mut ends) = (Vec::new(), Vec::new());
    for call in life {
        answers.push(call.make(&player).await);
        ends.push(Files::of(&player.world).log.len());
    }
    let as_asked = stands(&player).await;
    let after = Files::of(&player.world);
    let Player { world, router, capabilities } = player;
    world.stop().await;
    let is_one_log = after.file == before.file && after.log.starts_with(&before.log);
    assert!(is_one_log, "the log was folded into the file meanwhile: it has not all commits");

    let mut interrupted = BTreeSet::new();
    for cut in after.commits().into_iter().filter(|cut| *cut >= before.log.len()) {
        // Nobody who asked was answered yet.
        let first = ends.iter().position(|end| cut <= *end).unwrap_or(life.len());
        let what = format!("dead in {:?}, with {cut} bytes of its log", life.get(first));
        interrupted.insert(first);
        let world = after.world_at(cut).await;
        let player = Player { world, router: router.clone(), capabilities: capabilities.clone() };
        for (call, answer) in life.iter().zip(&answers).skip(first) {
            assert_eq!(call.make(&player).await, *answer, "{call:?}, {what}");
        }
        assert_eq!(stands(&player).await, as_asked, "{what}");
        if as_asked.1 == registered.0 {
            assert_eq!(stored(&player.world, DEFAULT_TENANT, "shop").await, registered, "{what}");
        }
        player.world.stop().await;
    }
    let writes = life.iter().enumerate().filter(|(_, call)| !matches!(call, Call::Ask));
    let missed: Vec<_> = writes.filter(|(at, _)| !interrupted.contains(at)).collect();
    assert!(missed.is_empty(), "nobody died in {missed:?}");
    as_asked.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_adopted_whichever_commit_was_its_managers_last() {
    let adopted = life([Call::Submit(canary(2, ADOPTED)), Call::Report(2), Call::Ask, Call::Report(4)]);
    assert_eq!(the_manager_dies_behind_each_commit_of(&adopted).await, "Done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_deprecated_whichever_commit_was_its_managers_last() {
    let deprecated = life([Call::Submit(canary(2, DEPRECATED)), Call::Ask, Call::Report(5)]);
    assert_eq!(the_manager_dies_behind_each_commit_of(&deprecated).await, "Aborted");
}

/// The writes of a file that is replaced as a whole each time, as the kernel tells of them.
struct Writes {
    told: Receiver,
    file: &'static str,
}

impl Writes {
    fn of(folder: &Path, file: &'static str) -> Self {
        let told = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&told, folder, WatchFlags::MOVED_TO | WatchFlags::ONLYDIR).unwrap();
        // It is no pipe, but is readable as one is: when there is something.
        Self { told: Receiver::from_owned_fd_unchecked(told).unwrap(), file }
    }

    /// Waits until there were so many.
    async fn number(&self, writes: u32) {
        let mut seen = 0;
        while seen < writes {
            self.told.readable().await.unwrap();
            match self.told.try_io(|| self.read()) {
                Ok(more) => seen += more,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
        }
    }

    fn read(&self) -> io::Result<u32> {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut told = inotify::Reader::new(self.told.as_fd(), &mut room);
        let mut seen = 0;
        loop {
            let one = told.next()?;
            seen += u32::from(one.file_name().is_some_and(|name| name.to_bytes() == self.file.as_bytes()));
            if told.is_buffer_empty() {
                return Ok(seen);
            }
        }
    }
}

/// Something that is stored, below the folder of an agent.
#[derive(Clone, Copy)]
struct Fact {
    folder: &'static str,
    file: &'static str,
    /// Whoever comes back may write what stands there already. So it dies after one more write each time, lest it never gets further. Else
    /// each write is a step, and it dies after each.
    is_repeated: bool,
}

const STATE: Fact = Fact { folder: "state", file: "state.json", is_repeated: true };
const TAKEOVER: Fact = Fact { folder: "state", file: "takeover.json", is_repeated: false };
const TABLE: Fact = Fact { folder: "proxy", file: "table", is_repeated: true };
const LISTEN: Fact = Fact { folder: "proxy", file: "listen.json", is_repeated: false };

/// More deaths than anything takes that gets on.
const MOST_DEATHS: u32 = 40;

/// Has somebody die at the writes that follow from an order, until nobody dies before all is done. Gives how often somebody died.
async fn dies_after_each_write(
    node: &mut Node,
    fact: Fact,
    order: impl Future<Output = ()>,
    mut dies: impl AsyncFnMut(&mut Node),
    is_done: impl AsyncFn(&Node),
) -> u32 {
    let folder = node.folder.join(fact.folder);
    let mut writes = Writes::of(&folder, fact.file);
    order.await;
    let mut deaths = 0;
    loop {
        let next = if fact.is_repeated { deaths + 1 } else { 1 };
        let dies_first = select! {
            biased;
            () = writes.number(next) => true,
            () = is_done(&*node) => false,
        };
        if !dies_first {
            return deaths;
        }
        assert!(deaths < MOST_DEATHS, "{} is written without an end", fact.file);
        writes = Writes::of(&folder, fact.file);
        dies(node).await;
        deaths += 1;
    }
}

async fn agent_dies(node: &mut Node) {
    node.kill();
    node.come_back();
}

/// In turn the process of a proxy that serves, and the one that starts it again: of both at once nobody would be left.
async fn proxy_dies(node: &Node, serves: bool) {
    let dying = process(node, serves).expect("it runs");
    assert!(processes::kill(dying));
    wait_until("another one is in its place", async || {
        process(node, serves).is_some_and(|next| next != dying)
    })
    .await;
    node.until_proxy("it answers, and has somebody who would start it again", |status| status.held).await;
}

/// Nothing leads the service any more.
async fn is_gone(node: &Node) {
    node.until("it leads nothing", |status| status.services.is_empty()).await;
    node.until_proxy("its table is empty", |status| status.services.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_ends_as_asked_although_its_agent_dies_after_each_write() {
    let Routers { site, mut nodes, at, a, b } = Routers::start(1, &[]).await;
    let (manager, port, node) = (&site.manager, at[0].port(), &mut nodes[0]);
    let order = async |version, weight, transition| {
        manager.submit(&real::canary(port, version, weight, transition)).await;
    };
    let ends = async |canary: &str, state: &str| {
        let ended = manager.ended(canary).await;
        assert_eq!(ended["state"], state, "{ended:#}");
    };
    manager.submit(&real::shop(port, 1, &[a.at, b.at, b.at])).await;
    let mut deaths = Vec::new();

    // The first one brings the service here, and takes it away again.
    let gives = async |node: &Node| node_gives(node, 1_000).await;
    deaths.push(dies_after_each_write(node, STATE, order(2, 10, ""), agent_dies, gives).await);
    let is_back = async |node: &Node| {
        ends("checkout-2", "Aborted").await;
        is_gone(node).await;
    };
    deaths.push(dies_after_each_write(node, STATE, order(2, 10, "Deprecated"), agent_dies, is_back).await);

    // The second one stays, and nobody who calls notices that anybody dies.
    order(3, 10, "").await;
    node_gives(node, 1_000).await;
    let users = Users::call(&at);
    users.round().await;
    let gives = async |node: &Node| node_gives(node, 3_000).await;
    deaths.push(dies_after_each_write(node, STATE, order(3, 30, ""), agent_dies, gives).await);
    let serves = async |node: &Node| {
        ends("checkout-3", "Done").await;
        node_gives(node, 10_000).await;
    };
    deaths.push(dies_after_each_write(node, STATE, order(3, 30, "Adopted"), agent_dies, serves).await);
    users.round().await;
    assert_eq!(users.of(0, 'B').len(), USERS);
    users.end().await;
    assert!(deaths.iter().all(|deaths| *deaths > 0), "each order is written down: {deaths:?}");
    eprintln!("the agent died {deaths:?} times");
}

/// The process of a proxy that serves, or the one that holds its sockets.
fn process(node: &Node, serves: bool) -> Option<u32> {
    let mut all = node.proxy_processes().into_iter();
    all.find(|one| one.arguments.contains("--serving") == serves).map(|one| one.pid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_ends_as_asked_although_its_proxy_dies_at_each_table() {
    let world = Routers::start(1, &[]).await;
    world.submit("checkout-0", &all_to("A")).await;
    world.site.manager.ended("checkout-0").await;
    world.all_give(0).await;
    let Routers { site, mut nodes, at, a, b } = world;
    let (manager, port, node) = (&site.manager, at[0].port(), &mut nodes[0]);
    manager.submit(&real::shop(port, 1, &[a.at, b.at])).await;
    let users = Users::call(&at);
    users.round().await;

    let (mut serving_deaths, mut deaths) = (0, 0);
    for (weight, transition, share) in [(10, "", 1_000), (40, "", 4_000), (40, "Adopted", 10_000)] {
        let order = async { manager.submit(&real::canary(port, 2, weight, transition)).await };
        let dies = async |node: &mut Node| {
            let serves = deaths % 2 == 0;
            deaths += 1;
            serving_deaths += usize::from(serves);
            proxy_dies(node, serves).await;
        };
        let is_done = async |node: &Node| {
            if transition == "Adopted" {
                let ended = manager.ended("checkout-2").await;
                assert_eq!(ended["state"], "Done", "{ended:#}");
            }
            node_gives(node, share).await;
        };
        let died = dies_after_each_write(node, TABLE, order, dies, is_done).await;
        assert!(died > 0, "{weight} % {transition} is written down");
        users.round().await;
    }
    assert_eq!(users.of(0, 'B').len(), USERS);
    // What the process that served had in flight is gone with it, and a connection to it tells that to whoever calls next.
    let lost = users.lost().await;
    assert!(lost.len() <= serving_deaths * USERS, "{serving_deaths} deaths: {lost:#?}");
    let users = Users::call(&at);
    users.round().await;
    users.end().await;
    eprintln!(
        "of the proxy died {deaths}, of these {serving_deaths} that served; {} calls were lost",
        lost.len()
    );
}

/// Callers of a port of others, each over another connection for each call.
fn callers(world: &taken_over::World) -> Users {
    Users::calling(&[world.a.at], false, Duration::from_millis(50))
}

/// A canary comes to a port of others and goes again. Whoever is to die does so at the writes that follow from either. Gives how often.
async fn comes_and_goes(
    world: &mut taken_over::World,
    (fact, version): (Fact, u8),
    mut dies: impl AsyncFnMut(&mut Node),
) -> u32 {
    let (port, before, id) = (world.port(), rules(), format!("checkout-{version}"));
    let taken_over::World { site, node, .. } = world;
    let manager = &site.manager;
    let order = async |transition| {
        let canary = real::canary(port, version, 10, transition);
        let submit = async || manager.try_to_submit(&canary).await;
        // What an agent may take over is known a moment after the agent is.
        until("it is taken", submit, |(status, _)| *status < 300).await;
    };
    let called = format!("tcp dport {port} ");
    let is_there = async |node: &Node| {
        node_gives(node, 1_000).await;
        wait_until("its calls are taken over", async || rules().contains(&called)).await;
    };
    let came = dies_after_each_write(node, fact, order(""), &mut dies, is_there).await;
    let is_back = async |node: &Node| {
        let ended = manager.ended(&id).await;
        assert_eq!(ended["state"], "Aborted", "{ended:#}");
        is_gone(node).await;
        wait_until("the rules are as they were", async || rules() == before).await;
    };
    let went = dies_after_each_write(node, fact, order("Deprecated"), &mut dies, is_back).await;
    assert!(came > 0 && went > 0, "{} has all of it: {came}, {went}", fact.file);
    came + went
}

#[test]
fn a_port_of_others_is_taken_over_and_given_back_whoever_dies_at_each_fact() {
    in_a_network_of_its_own("canaries::kills::story_of_deaths_at_a_port_of_others", Stdio::inherit());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_deaths_at_a_port_of_others() {
    if env::var_os(WITHIN).is_none() {
        return;
    }
    let mut world = taken_over::World::start().await;
    let versions = [world.a.at, world.b.at, world.b.at, world.b.at, world.b.at];
    world.site.manager.submit(&real::shop(world.port(), 1, &versions)).await;
    let users = callers(&world);
    users.round().await;
    for (fact, version) in [(STATE, 2), (TAKEOVER, 3)] {
        let deaths = comes_and_goes(&mut world, (fact, version), agent_dies).await;
        eprintln!("the agent died {deaths} times at {}", fact.file);
        users.round().await;
    }
    users.end().await;

    let users = callers(&world);
    users.round().await;
    let mut all = 0;
    for (fact, version) in [(LISTEN, 4), (TABLE, 5)] {
        let dies = async |node: &mut Node| {
            all += 1;
            proxy_dies(node, all % 2 == 0).await;
        };
        let deaths = comes_and_goes(&mut world, (fact, version), dies).await;
        eprintln!("the proxy died {deaths} times at {}", fact.file);
        users.round().await;
    }
    // Once with the process, and once more where nobody answered for so long that calls went to whoever has the port.
    let lost = users.lost().await;
    assert!(lost.len() <= 2 * all * USERS, "{all} deaths: {lost:#?}");
    let users = callers(&world);
    users.round().await;
    users.end().await;
    eprintln!("the proxy died {all} times, and {} calls were lost", lost.len());
}
