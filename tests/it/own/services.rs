//! Services behind the proxies of own agents: variations that somebody else runs, here this test.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use super::{manager::Manager, node::Node, site::Site};

/// So many users call, each over a connection of its own at each router.
pub const USERS: usize = 60;

/// A variation: answers with its name, or with an error while it is bad.
pub struct Backend {
    pub at: SocketAddr,
    pub is_bad: Arc<AtomicBool>,
    /// One call in so many is answered with an error; 0: none.
    pub fails_one_in: Arc<AtomicU64>,
    pub calls: Arc<AtomicU64>,
    // Ends with the test.
    _serving: JoinSet<()>,
}

impl Backend {
    pub fn start(name: char) -> Self {
        // With room for all who connect at once on a busy machine: who finds none tries again after a second, and is given up by then.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(4_096).unwrap();
        let at = listener.local_addr().unwrap();
        let (is_bad, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let fails_one_in = Arc::<AtomicU64>::default();
        let mut serving = JoinSet::new();
        let (bad, rate, counted) = (Arc::clone(&is_bad), Arc::clone(&fails_one_in), Arc::clone(&calls));
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let of_it = (Arc::clone(&bad), Arc::clone(&rate));
                connections.spawn(answer(stream, name, of_it, Arc::clone(&counted)));
            }
        });
        Self { at, is_bad, fails_one_in, calls, _serving: serving }
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

async fn answer(
    mut stream: TcpStream,
    name: char,
    (is_bad, fails_one_in): (Arc<AtomicBool>, Arc<AtomicU64>),
    calls: Arc<AtomicU64>,
) {
    let mut came = Vec::new();
    let mut room = [0; 2048];
    loop {
        while let Some(end) = came.windows(4).position(|end| end == b"\r\n\r\n") {
            came.drain(..end + 4);
            let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
            let one_in = fails_one_in.load(Ordering::Relaxed);
            let is_its_turn = number.checked_rem(one_in) == Some(0);
            let status = if is_its_turn || is_bad.load(Ordering::Relaxed) { "500 Broken" } else { "200 OK" };
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\n\r\n{name}");
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
        match stream.read(&mut room).await {
            Ok(0) | Err(_) => return,
            Ok(read) => came.extend_from_slice(&room[..read]),
        }
    }
}

/// What users were answered last, and how often they were answered, by router and user.
type Seen = Arc<Mutex<BTreeMap<(usize, usize), (char, u64)>>>;

/// Users who call all the time, without any repeat of their own.
pub struct Users {
    seen: Seen,
    lost: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    calling: JoinSet<()>,
}

impl Users {
    pub fn call(routers: &[SocketAddr]) -> Self {
        Self::calling(routers, true, Duration::from_millis(10))
    }

    /// Those who keep their connections, or have another one for each call, with so long a pause between two.
    pub fn calling(routers: &[SocketAddr], keep: bool, pause: Duration) -> Self {
        let (seen, lost, is_over) = (Seen::default(), Arc::default(), Arc::<AtomicBool>::default());
        let mut users = Self { seen, lost, is_over, calling: JoinSet::new() };
        for (router, &at) in routers.iter().enumerate() {
            for user in 0..USERS {
                let (seen, lost) = (Arc::clone(&users.seen), Arc::clone(&users.lost));
                let is_over = Arc::clone(&users.is_over);
                users.calling.spawn(async move {
                    let mut connection = None;
                    while !is_over.load(Ordering::Relaxed) {
                        match call(&mut connection, at, user, keep).await {
                            Ok(name) => {
                                let mut seen = seen.lock().unwrap();
                                let answers = seen.get(&(router, user)).map_or(0, |(_, answers)| *answers);
                                seen.insert((router, user), (name, answers + 1));
                            }
                            Err(why) => lost.lock().unwrap().push(format!("user {user} at {at}: {why}")),
                        }
                        tokio::time::sleep(pause).await;
                    }
                });
            }
        }
        users
    }

    /// Each user has made a call, and was answered, by then.
    pub async fn round(&self) {
        let before = self.seen.lock().unwrap().clone();
        super::wait::wait_until("users are answered", async || {
            let seen = self.seen.lock().unwrap();
            // Of the first answer the call may have been made before.
            let is_answered = |(key, (_, answers)): (&(usize, usize), &(char, u64))| {
                *answers >= before.get(key).map_or(0, |(_, answers)| *answers) + 2
            };
            seen.len() == self.calling.len() && seen.iter().all(is_answered)
        })
        .await;
    }

    /// The users whom a router gives a variation.
    pub fn of(&self, router: usize, variation: char) -> BTreeSet<usize> {
        let seen = self.seen.lock().unwrap();
        let of = seen.iter().filter(|((of, _), (name, _))| *of == router && *name == variation);
        of.map(|((_, user), _)| *user).collect()
    }

    /// The users whom both routers give the second variation, once these are the same and more than so many: what was decided is in
    /// force at either in its own time.
    async fn same(&self, more_than: usize) -> BTreeSet<usize> {
        super::wait::wait_until("a user gets the same at either router", async || {
            self.round().await;
            let of_first = self.of(0, 'B');
            of_first.len() > more_than && of_first == self.of(1, 'B')
        })
        .await;
        self.of(0, 'B')
    }

    pub async fn end(self) {
        let answered: u64 = self.seen.lock().unwrap().values().map(|(_, answers)| answers).sum();
        assert_eq!(self.lost().await, [""; 0], "of {answered}");
    }

    /// Ends them, and says which calls were not answered well.
    pub async fn lost(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.calling.join_all().await;
        self.lost.lock().unwrap().clone()
    }
}

/// One call, over the connection of the one before where that goes on.
async fn call(
    connection: &mut Option<TcpStream>,
    at: SocketAddr,
    user: usize,
    keep: bool,
) -> Result<char, String> {
    let mut stream = match connection.take() {
        Some(stream) => stream,
        None => TcpStream::connect(at).await.map_err(|error| error.to_string())?,
    };
    let close = if keep { "" } else { "Connection: close\r\n" };
    let text = format!("GET /basket HTTP/1.1\r\nHost: shop\r\n{close}X-User: user-{user}\r\n\r\n");
    stream.write_all(text.as_bytes()).await.map_err(|error| error.to_string())?;
    let (mut came, mut room) = (Vec::new(), [0; 2048]);
    let end = loop {
        if let Some(end) = came.windows(4).position(|end| end == b"\r\n\r\n")
            && came.len() > end + 4
        {
            break end;
        }
        match stream.read(&mut room).await {
            Ok(0) => return Err("the connection ended before the answer".to_owned()),
            Ok(read) => came.extend_from_slice(&room[..read]),
            Err(error) => return Err(error.to_string()),
        }
    };
    let head = String::from_utf8_lossy(&came[..end]).into_owned();
    if !head.starts_with("HTTP/1.1 200") {
        return Err(head.lines().next().unwrap_or_default().to_owned());
    }
    if !head.to_ascii_lowercase().contains("connection: close") {
        *connection = Some(stream);
    }
    Ok(char::from(came[end + 4]))
}

/// A manager, two routers that listen on the same port of different addresses, and two variations.
struct World {
    site: Site,
    nodes: Vec<Node>,
    routers: Vec<SocketAddr>,
    port: u16,
    a: Backend,
    b: Backend,
}

async fn world() -> World {
    let site = Site::start().await;
    let port = super::serving::free_address().port();
    let (mut nodes, mut routers) = (Vec::new(), Vec::new());
    for number in 1..=2 {
        let at = SocketAddr::from(([127, 0, 0, number], port));
        let name = format!("router-{number}");
        let mut node =
            Node::of(&site.folder().join(&name), &name, &site.manager.url(), &["agent.labels=env=prod"]);
        node.listens_also(at);
        node.come_back();
        node.until_it_answers().await;
        nodes.push(node);
        routers.push(at);
    }
    site.manager.knows(2).await;
    World { site, nodes, routers, port, a: Backend::start('A'), b: Backend::start('B') }
}

impl World {
    fn of_both(&self, id: &str, stages: &str) -> String {
        strategy(id, self.port, [("A", self.a.at), ("B", self.b.at)], stages)
    }

    fn manager(&self) -> &Manager {
        &self.site.manager
    }

    /// Waits until each agent leads the service by these shares, in units of 0.01 %.
    async fn shares(&self, shares: [u16; 2]) {
        for node in &self.nodes {
            node.until(&format!("shares are {shares:?}"), |status| {
                let service = status.services.first();
                let of =
                    service.map(|service| service.variations.iter().map(|one| one.share).collect::<Vec<_>>());
                of.is_some_and(|of| of == shares)
            })
            .await;
            node.until_proxy("its table is in force", |proxy| proxy.table.generation > 0).await;
        }
    }
}

/// A release of a service with two variations at a port.
pub fn strategy(id: &str, port: u16, [stable, new]: [(&str, SocketAddr); 2], stages: &str) -> String {
    format!(
        r#"id: {id}
name: checkout
services:
  - name: checkout
    routers: {{labels: {{env: prod}}}}
    ports: [{{port: {port}}}]
    sticky: {{header: X-User}}
    variations:
      - {{name: {}, targets: ["{}"]}}
      - {{name: {}, targets: ["{}"]}}
{stages}"#,
        stable.0, stable.1, new.0, new.1
    )
}

/// `10 %`, then `50 %`, each as long as this.
pub fn two_stages(duration: &str) -> String {
    let stages = [stage("little", 10, duration, "half"), stage("half", 50, duration, "rollout")];
    format!("stages:\n{}", stages.concat())
}

/// `10 %`, `50 %` and all of it, the latter two once somebody approves of them: each lasts until the test has seen what it wants to see.
pub fn approved_stages() -> String {
    let shares = [
        stage("little", 10, "100ms", "half"),
        stage("half", 50, "100ms", "all"),
        stage("all", 100, "100ms", "rollout"),
    ];
    format!("stages:\n{}rollout: {{approval: {{stages: [half, all]}}}}\n", shares.concat())
}

fn stage(name: &str, of_b: u8, duration: &str, next: &str) -> String {
    let of_a = 100 - of_b;
    format!(
        "  - name: {name}\n    type: WaitForSignal\n    shares: {{A: {of_a}, B: {of_b}}}\n    metrics_conditions: [{{name: errorRate, \
         threshold: \"<0.02\"}}]\n    end_conditions: [{{name: minDuration, threshold: {duration}}}, {{name: minCalls, threshold: \
         \"50\"}}]\n    end_action: {{onSuccess: {next}, onFailure: rollback}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_released_on_two_routers_as_on_one_and_no_call_is_lost() {
    let world = world().await;
    // Nothing serves before there was any release: the first stage gives everything to what is stable.
    world.manager().submit(&world.of_both("checkout-0", "stages:\n  - name: as it is\n    type: Traffic\n    shares: {A: 100}\n    end_action: {onSuccess: rollback}\n")).await;
    world.manager().ended("checkout-0").await;
    world.shares([10_000, 0]).await;
    let users = Users::call(&world.routers);
    users.round().await;
    assert_eq!((users.of(0, 'A').len(), users.of(1, 'A').len(), world.b.calls()), (USERS, USERS, 0));

    world.manager().submit(&world.of_both("checkout-1", &approved_stages())).await;
    world.shares([9_000, 1_000]).await;
    let little = users.same(0).await;
    assert!((1..USERS / 3).contains(&little.len()), "{little:?}");
    world.manager().approve("checkout-1").await;
    world.shares([5_000, 5_000]).await;
    let half = users.same(little.len()).await;
    assert!(half.is_superset(&little), "{little:?} {half:?}");

    world.manager().approve("checkout-1").await;
    let ended = world.manager().ended("checkout-1").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.shares([0, 10_000]).await;
    users.round().await;
    assert_eq!((users.of(0, 'B').len(), users.of(1, 'B').len()), (USERS, USERS));
    let alone = world.a.calls();
    users.round().await;
    assert_eq!(world.a.calls(), alone, "what was replaced gets no call");
    let listed = world.manager().get("/api/v1/deployments?function=service/checkout").await.unwrap();
    let listed = listed["items"].as_array().unwrap();
    assert!(
        listed.len() == 2 && listed.iter().all(|one| one["variant"] == "new" && one["path"] == "B"),
        "{listed:#?}"
    );

    // The next one begins with what serves now, and is refused with both where it doesn't, unless it says that it means that.
    let another =
        world.of_both("again", &two_stages("100ms")).replace("name: A,", "name: C,").replace("{A: ", "{C: ");
    let (a, b) = (world.a.at, world.b.at);
    let (status, why) = world.manager().try_to_submit(&another).await;
    assert_eq!(status, 409, "{why}");
    assert!(why.contains(&format!("the stable variation of checkout is C at {a}")), "{why}");
    assert!(why.contains(&format!("is B at {b}")), "{why}");
    world.shares([0, 10_000]).await;
    world.manager().submit(&another.replace("    sticky:", "    base: replace\n    sticky:")).await;
    let ended = world.manager().ended("again").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.shares([0, 10_000]).await;
    users.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variation_that_fails_is_felt_by_nobody_and_taken_back_everywhere() {
    let world = world().await;
    world.b.is_bad.store(true, Ordering::Relaxed);
    world.manager().submit(&world.of_both("bad", &two_stages("20s"))).await;
    world.shares([9_000, 1_000]).await;
    let users = Users::call(&world.routers);
    let ended = world.manager().ended("bad").await;
    assert_eq!(ended["state"], "RolledBack", "{ended:#}");
    world.shares([10_000, 0]).await;
    assert!(world.b.calls() > 0);
    users.round().await;
    let then = world.b.calls();
    users.round().await;
    assert_eq!(world.b.calls(), then, "what was taken back gets no call");
    users.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_are_killed_in_a_stage_go_on_with_it_and_an_abort_takes_it_back() {
    let mut world = world().await;
    world.manager().submit(&world.of_both("r", &two_stages("600s"))).await;
    world.shares([9_000, 1_000]).await;
    let users = Users::call(&world.routers);
    users.round().await;
    let before = users.of(0, 'B');
    for node in &mut world.nodes {
        node.kill();
        node.come_back();
    }
    world.shares([9_000, 1_000]).await;
    users.round().await;
    assert_eq!((&users.of(0, 'B'), &users.of(1, 'B')), (&before, &before), "nobody moves");
    world.manager().act("r", "abort").await;
    let ended = world.manager().ended("r").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    world.shares([10_000, 0]).await;
    users.end().await;
}
