//! Calls to a port that another program has, at which the proxy takes them as well: beside that program's socket, or by one that is lent, as
//! systemd lends it.

use std::{
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::net::TcpStream;

use super::{
    canaries::{canary, shop},
    node::Node,
    processes,
    site::Site,
    users::{Backend, Users, answer},
    wait::wait_until,
};
use crate::{ports::free_address, reuse_port::Program};

/// A version that listens at a port of its own, and at the one that is called; and the next one.
struct World {
    site: Site,
    node: Node,
    a: Backend,
    b: Backend,
    /// The port that callers call.
    at: SocketAddr,
}

impl World {
    /// `set`: of the agent, beside what all have.
    async fn start(at: SocketAddr, set: &[&str]) -> Self {
        let site = Site::start().await;
        let set = [&["agent.labels=env=prod", "takeover.sockets=true"], set].concat();
        let node = Node::of(&site.folder().join("router"), "router", &site.manager.url(), &set);
        Self { site, node, a: Backend::start('A'), b: Backend::start('B'), at }
    }

    async fn come_back(&mut self) {
        self.node.come_back();
        self.node.until_it_answers().await;
        self.site.manager.knows(1).await;
    }

    /// What the first version does with a connection to the called port.
    fn answers(&self) -> impl Fn(TcpStream) -> Answering + Send + use<> {
        let (is_bad, calls) = (Arc::clone(&self.a.is_bad), Arc::clone(&self.a.calls));
        move |stream| -> Answering { Box::pin(answer(stream, 'A', Arc::clone(&is_bad), Arc::clone(&calls))) }
    }

    /// Half of the calls, once the manager knows what the agent may do.
    async fn share(&self) {
        let manager = &self.site.manager;
        manager.submit(&shop(self.at.port(), 1, &[self.a.at, self.b.at])).await;
        wait_until("the port may be taken over", async || {
            manager.try_to_submit(&canary(self.at.port(), 2, 50, "")).await.0 < 300
        })
        .await;
    }

    /// Waits until the canary gets calls, more than were on their way when this was asked.
    async fn canary_gets_calls(&self) {
        let before = self.b.calls();
        wait_until("the canary gets calls", async || self.b.calls() > before + 200).await;
    }

    /// Waits until its weight is in force, or isn't, for this reason.
    async fn weight_is(&self, reason: &str) {
        let is_so = |found: &Value| {
            let conditions = found["status"]["conditions"].as_array();
            let weight = conditions.into_iter().flatten().find(|one| one["type"] == "WeightInForce");
            weight.is_some_and(|weight| weight["reason"] == reason)
        };
        self.site.manager.until("/api/v1/canary-releases/checkout-2", is_so).await;
    }

    /// Waits until the agent says that it waits for the other program.
    async fn waits(&self) {
        let why = "can't be given back before another program takes calls there again";
        self.site.manager.until("/api/v1/routers", |found| found.to_string().contains(why)).await;
    }

    /// Waits until it is as if there had been no canary.
    async fn is_over(&self, users: &Users) {
        let ended = self.site.manager.ended("checkout-2").await;
        assert_eq!(ended["state"], "Aborted", "{ended:#}");
        self.node.until("it leads nothing", |status| status.services.is_empty()).await;
        users.round().await;
        let alone = self.b.calls();
        users.round().await;
        assert_eq!(self.b.calls(), alone, "as if nothing had happened");
    }
}

type Answering = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Each call over a connection of its own: who listens gets new ones.
fn calling(at: SocketAddr) -> Users {
    Users::calling(&[at], false, Duration::from_millis(10))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_is_taken_and_given_back_beside_the_socket_of_its_program_and_no_call_is_lost() {
    let at = free_address();
    let mut world = World::start(at, &[]).await;
    let other = Program::beside(at, world.answers());
    world.come_back().await;
    let users = calling(at);
    users.round().await;
    assert_eq!(world.b.calls(), 0);
    world.share().await;
    world.canary_gets_calls().await;
    // A part of the calls passes the proxy by, and that is said everywhere.
    world.weight_is("PortShared").await;
    let manager = &world.site.manager;
    let is_shared = |found: &Value| found["by_router"][0]["led"]["ports"][0]["shared"] == true;
    let found = manager.until("/api/v1/services/checkout", is_shared).await;
    assert_eq!(found["unproven"], 1);
    assert_eq!(found["by_router"][0]["led"]["ports"][0]["at"], at.port());

    other.lets_go().await;
    world.weight_is("InForce").await;
    let (a, b) = (world.a.calls(), world.b.calls());
    world.canary_gets_calls().await;
    let (of_stable, of_canary) = (world.a.calls() - a, world.b.calls() - b);
    assert!(of_stable < 2 * of_canary && of_canary < 2 * of_stable, "{of_canary} to {of_stable}");
    world.node.kill();
    world.canary_gets_calls().await;
    world.node.come_back();
    world.node.until_it_answers().await;
    world.weight_is("InForce").await;

    // Nobody would be there: the proxy stays until somebody is.
    world.site.manager.submit(&canary(at.port(), 2, 50, "Deprecated")).await;
    world.waits().await;
    users.round().await;
    let kept = Users::call(&[at]);
    kept.round().await;
    let _other = Program::beside(at, world.answers());
    world.is_over(&users).await;
    kept.round().await;
    kept.end().await;
    users.end().await;
}

/// Starts a proxy as systemd does to which a unit lends a socket.
fn start_proxy(node: &Node, socket: &TcpListener) {
    let program = node.program();
    let mut command = Command::new("sh");
    // The pid stays, and the socket becomes descriptor 3.
    command.args(["-c", "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", "sh"]);
    command.arg(program.get_program()).args(["proxy", "--set", "takeover.sockets=true"]);
    command.arg("--control").arg(node.folder.join("proxy.sock"));
    command.arg("--state").arg(node.folder.join("proxy")).arg("--listen").arg(node.at.to_string());
    command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(&node.folder).stdin(OwnedFd::from(socket.try_clone().unwrap()));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut proxy = command.spawn().unwrap();
    // It ends with the test, if not before.
    std::thread::spawn(move || proxy.wait());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_is_taken_and_given_back_by_a_socket_that_is_lent_whoever_is_killed_and_no_call_is_lost() {
    let at = free_address();
    let socket = TcpListener::bind(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut world = World::start(at, &["proxy.start=false"]).await;
    let other = Program::having(&socket, world.answers());
    start_proxy(&world.node, &socket);
    world.come_back().await;
    world.node.until_proxy("it was lent a socket", |status| status.lent == Some(vec![at])).await;
    let users = calling(at);
    users.round().await;
    assert_eq!(world.b.calls(), 0, "a socket that is lent is accepted on by nobody's wish but the agent's");
    world.share().await;
    world.canary_gets_calls().await;
    world.weight_is("PortShared").await;
    other.lets_go().await;
    world.weight_is("InForce").await;
    users.end().await;

    // What comes while nobody accepts waits for the proxy that is started then.
    processes::kill(world.node.holder().unwrap());
    for left in world.node.proxy_processes() {
        processes::kill(left.pid);
    }
    wait_until("no proxy answers", async || world.node.proxy_status().await.is_none()).await;
    let users = calling(at);
    start_proxy(&world.node, &socket);
    world.canary_gets_calls().await;
    world.node.kill();
    users.round().await;
    world.node.come_back();
    world.node.until_it_answers().await;

    world.site.manager.submit(&canary(at.port(), 2, 50, "Deprecated")).await;
    world.waits().await;
    users.round().await;
    let _other = Program::having(&socket, world.answers());
    world.is_over(&users).await;
    users.end().await;
}
