//! Managers of releases of services that die or stand still in the middle of a change, while agents, their proxies and their callers go
//! on: in the end routers do what the store says.

use std::{net::SocketAddr, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    node::Node,
    processes,
    routers::{Routers, all_to, approved_stages, strategy, two_stages},
    scale::Scale,
    users::{Backend, Users},
};
use crate::{
    crash::server::{Server, Start, tail},
    ports::free_port,
    store::place::{Kind, Place},
    world::client,
};

const ROUTERS: u8 = 2;

/// So many, or all of them where they are asked for.
const KILLS: u64 = 3;
const ALL_KILLS: u64 = 50;

/// Of a rollout.
const IN_STEP: &str = "order: global_incremental, on_failure: rollback";

/// All shares, in units of 0.01 %.
const WHOLE: u16 = 10_000;

/// A lease lives ten seconds, and a standby looks once a second.
const TAKE_OVER: Duration = Duration::from_mins(1);

/// Longest wait for the end of a release.
const END: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routers_end_at_what_the_store_says_whenever_the_manager_is_killed() {
    let Scale { part, .. } = Scale::find();
    let mut chance = fastrand::Rng::with_seed(part);
    let mut world = Routers::start(ROUTERS, &[]).await;
    world.submit("first", &all_to("A")).await;
    world.site.manager.ended("first").await;
    world.all_give(0).await;
    let users = Users::call(&world.at);
    let (mut kills, mut number, mut ends) = (0, 0, Vec::new());
    let mut is_swapped = false;
    let enough = if std::env::var_os("CHOIRMASTER_TEST_ALL_KILLS").is_some() { ALL_KILLS } else { KILLS };
    while kills < enough {
        number += 1;
        let id = format!("release-{number}");
        let stages = two_stages("300ms");
        let text = world.strategy(&id, &format!("rollout: {{{IN_STEP}}}\n{stages}"));
        // What serves is the stable one, whatever it is called.
        let text = if is_swapped { swapped(&text, &world.a, &world.b) } else { text };
        world.site.manager.submit(&text).await;
        let aborts_at = chance.bool().then(|| chance.u64(..3));
        for kill in 0..3 {
            sleep(Duration::from_millis(chance.u64(0..700))).await;
            if aborts_at == Some(kill) {
                // It may be over, or nobody may have begun with it.
                let _ = world
                    .site
                    .manager
                    .order(&format!("/api/v1/releases/{id}/abort"), &json!({"by": "tester"}))
                    .await;
                sleep(Duration::from_millis(chance.u64(0..60))).await;
            }
            world.site.manager.kill();
            kills += 1;
            sleep(Duration::from_millis(chance.u64(0..200))).await;
            world.site.manager.come_back().await;
        }
        let ended = world.site.manager.ended(&id).await;
        let state = ended["state"].as_str().unwrap().to_owned();
        if !["Done", "RolledBack", "Aborted"].contains(&&*state) {
            let events = world.site.manager.get(&format!("/api/v1/audit?release={id}")).await;
            panic!("{ended:#} after {events:#?}");
        }
        is_swapped ^= state == "Done";
        world.serve_alone(if is_swapped { "B" } else { "A" }).await;
        users.round().await;
        let (wins, loses) = if is_swapped { ('B', 'A') } else { ('A', 'B') };
        for router in 0..usize::from(ROUTERS) {
            assert_eq!(users.of(router, loses).len(), 0, "{wins} serves at {router} after {ended:#}");
        }
        ends.push(state);
    }
    users.end().await;
    eprintln!("part {part}: {kills} kills through {number} releases, which ended {ends:?}");
}

/// The same strategy with B as what is stable.
fn swapped(text: &str, a: &Backend, b: &Backend) -> String {
    let (a, b) = (a.at.to_string(), b.at.to_string());
    let text = text.replace(&format!("name: A, targets: [\"{a}\"]"), "name: \u{1}, targets: [\u{2}]");
    let text = text.replace(&format!("name: B, targets: [\"{b}\"]"), &format!("name: A, targets: [\"{a}\"]"));
    let text = text.replace("name: \u{1}, targets: [\u{2}]", &format!("name: B, targets: [\"{b}\"]"));
    text.replace("shares: {A: ", "shares: {\u{1}: ")
        .replace(", B: ", ", A: ")
        .replace("shares: {\u{1}: ", "shares: {B: ")
}

impl Routers {
    /// Waits until the proxies themselves say that this variation has everything.
    async fn serve_alone(&self, name: &str) {
        for node in &self.nodes {
            serves_alone(node, name).await;
        }
    }
}

async fn serves_alone(node: &Node, name: &str) {
    node.until_proxy(&format!("{name} serves alone"), |status| {
        let service = status.services.iter().find(|service| service.name == "checkout");
        service.is_some_and(|service| {
            service.variations.iter().any(|one| one.name == name && one.share == WHOLE)
        })
    })
    .await;
}

/// Where agents find whoever leads: each connection goes to the manager that led when it began, and stays there.
struct Way {
    at: SocketAddr,
    leader: watch::Sender<SocketAddr>,
    _passing: JoinSet<()>,
}

impl Way {
    async fn to(leader: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let leader = watch::Sender::new(leader);
        let now = leader.subscribe();
        let mut passing = JoinSet::new();
        passing.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut caller, _)) = listener.accept().await {
                let to = *now.borrow();
                connections.spawn(async move {
                    if let Ok(mut manager) = TcpStream::connect(to).await {
                        let _ = copy_bidirectional(&mut caller, &mut manager).await;
                    }
                });
            }
        });
        Self { at, leader, _passing: passing }
    }
}

struct Asked {
    http: reqwest::Client,
    at: SocketAddr,
}

impl Asked {
    async fn release(&self, id: &str) -> Value {
        let answer = self.http.get(format!("http://{}/api/v1/releases/{id}", self.at)).send().await.unwrap();
        answer.json().await.unwrap()
    }

    async fn submit(&self, text: String) {
        let request = self.http.post(format!("http://{}/release", self.at));
        Self::is_done(request.header("content-type", "application/yaml").body(text)).await;
    }

    async fn act(&self, what: &str) {
        let request = self.http.post(format!("http://{}/api/v1/releases/r/{what}", self.at));
        Self::is_done(request.json(&json!({"by": "tester"}))).await;
    }

    async fn is_done(request: reqwest::RequestBuilder) {
        let answer = request.send().await.unwrap();
        let (of, status) = (answer.url().path().to_owned(), answer.status());
        assert!(status.is_success(), "{of}: {status} {}", answer.text().await.unwrap());
    }
}

async fn in_the_middle_of_a_change(place: &Place) {
    let first = Start { set: Vec::new(), ..Start::on(place) };
    let leader = first.listening().await;
    let standby =
        Start { log: first.log.with_extension("standby"), flags: vec!["--standby"], ..first.clone() };
    let waiting = tokio::spawn(standby.spawn().listening());
    let way = Way::to(leader.address).await;
    let folder = tempfile::Builder::new().prefix("own").tempdir().unwrap();
    let port = free_port();
    let at = SocketAddr::from(([127, 0, 6, 1], port));
    let manager = format!("http://{}", way.at);
    let node = Node::router(folder.path(), "router", &manager, at);
    node.until_it_answers().await;
    let (a, b) = (Backend::start('A'), Backend::start('B'));
    let http = client().build().unwrap();
    let mut asked = Asked { http, at: leader.address };
    let stages = approved_stages(&format!("{IN_STEP}, "));
    let text = strategy("r", port, [("A", a.at), ("B", b.at)], &stages);
    super::wait::wait_until("the leader knows the router", async || {
        let answer = asked.http.get(format!("http://{}/api/v1/children", asked.at)).send().await.unwrap();
        let listed: Value = answer.json().await.unwrap();
        listed["items"].as_array().is_some_and(|all| all.len() == 1)
    })
    .await;
    asked.submit(text).await;
    let begun = |share: u16| {
        node.until("it is tried", move |status| {
            status.services.first().is_some_and(|service| service.variations[1].share == share)
        })
    };
    begun(1_000).await;
    node.until_proxy("its table gives B a tenth", |status| {
        let service = status.services.iter().find(|service| service.name == "checkout");
        service
            .is_some_and(|service| service.variations.iter().any(|one| one.name == "B" && one.share == 1_000))
    })
    .await;
    let users = Users::call(&[at]);
    users.round().await;
    super::wait::wait_until("it asks for the next stage", async || {
        asked.release("r").await["state"] == "AwaitingApproval"
    })
    .await;
    asked.act("approve").await;
    // The router was told to go on, or is about to be: whatever is on its way comes when the leader leads no more.
    tell(&leader, Signal::STOP);
    let taken = timeout(TAKE_OVER, waiting).await.expect("the standby does not take over").unwrap();
    let next = taken.unwrap_or_else(|status| panic!("it ended: {status}\n{}", tail(&standby.log)));
    asked.at = next.address;
    way.leader.send_replace(next.address);
    asked.act("abort").await;
    tell(&leader, Signal::CONT);
    let ended = async {
        loop {
            let shown = asked.release("r").await;
            if ["Aborted", "RolledBack", "Done"].contains(&shown["state"].as_str().unwrap_or_default()) {
                return shown;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let ended =
        timeout(END, ended).await.unwrap_or_else(|_| panic!("it never ends\n{}", node.what_it_said()));
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    serves_alone(&node, "A").await;
    users.round().await;
    assert_eq!(users.of(0, 'B').len(), 0, "{ended:#}");
    let then = b.calls();
    users.round().await;
    assert_eq!(b.calls(), then, "what was taken back gets no call");
    users.end().await;
    next.kill();
    leader.kill();
}

fn tell(server: &Server, signal: Signal) {
    assert!(processes::send(server.id(), signal));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_word_of_a_leader_that_stood_still_through_a_take_over_changes_nothing_at_a_router() {
    Place::with(Kind::Postgres, in_the_middle_of_a_change).await;
}
