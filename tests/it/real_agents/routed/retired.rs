//! A service is retired while a call to it goes on, and one goes that came with a release which is rolled back.

use std::{fs, net::SocketAddr};

use agent::control::form::{RouterPhase, Status};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{
    super::{
        routers::{all_to, approved_stages, strategy},
        wait::wait_until,
    },
    World, world, world_that_drains,
};
use crate::ports::free_port;

/// A call that goes on, and its other end.
struct Held {
    caller: TcpStream,
    target: TcpStream,
}

impl Held {
    async fn begin(router: SocketAddr, target: &TcpListener) -> Self {
        let mut caller = TcpStream::connect(router).await.unwrap();
        caller.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n").await.unwrap();
        loop {
            let (mut target, _) = target.accept().await.unwrap();
            // Who only looks whether somebody is there says nothing.
            if target.read(&mut [0; 4_096]).await.is_ok_and(|came| came > 0) {
                return Self { caller, target };
            }
        }
    }

    async fn end(mut self) {
        self.target.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow").await.unwrap();
        let mut came = Vec::new();
        while !came.ends_with(b"slow") {
            assert!(self.caller.read_buf(&mut came).await.unwrap() > 0, "it is cut: {came:?}");
        }
        assert!(came.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&came));
    }
}

impl World {
    /// At each router a call to a service goes on that is then retired, and gets no further one. The orders are open.
    async fn retired(&self) -> (Vec<Held>, Vec<Value>) {
        let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let variations = [("A", slow.local_addr().unwrap()), ("B", self.b.at)];
        let text = strategy("as-it-is", self.routers[0].port(), variations, &all_to("A"));
        self.site.manager.submit(&text).await;
        self.site.manager.ended("as-it-is").await;
        self.seen(Some(10_000), None).await;
        let mut held = Vec::new();
        for router in &self.routers {
            held.push(Held::begin(*router, &slow).await);
        }
        let is_standing = |told: &Value| {
            let routers = told["by_router"].as_array();
            routers.is_some_and(|all| all.len() == 2 && all.iter().all(|one| one["standing"] == true))
        };
        self.site.manager.until("/api/v1/services/checkout", is_standing).await;
        let (status, text) =
            self.site.manager.order("/api/v1/services/checkout/retire", &json!({"by": "tester"})).await;
        assert_eq!(status, 200, "{text}");
        let orders: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(orders.len(), 2, "{orders:#?}");
        for router in &self.routers {
            wait_until("nobody listens there", async || TcpStream::connect(router).await.is_err()).await;
        }
        (held, orders)
    }

    /// What the router's agent answers to an order in the end.
    async fn answered(&self, order: &Value) -> Value {
        self.site.manager.until(&path(order), |order| order["state"] != "open").await
    }

    /// Nothing is left of the service.
    async fn is_gone(&self) {
        for node in &self.nodes {
            node.until("nothing is led", |status| status.services.is_empty()).await;
        }
        wait_until("the manager knows", async || {
            self.site.manager.get("/api/v1/services/checkout").await.is_none()
        })
        .await;
    }
}

fn path(order: &Value) -> String {
    format!("/api/v1/routers/{}/orders/{}", order["router"].as_str().unwrap(), order["number"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_is_retired_after_its_last_call_has_ended() {
    let world = world_that_drains("10m").await;
    let (held, orders) = world.retired().await;
    for order in &orders {
        let order = world.site.manager.get(&format!("{}?wait=1s", path(order))).await.unwrap();
        assert_eq!(order["state"], "open", "its call goes on: {order:#}");
    }
    for held in held {
        held.end().await;
    }
    for order in &orders {
        let order = world.answered(order).await;
        assert_eq!((&order["state"], &order["answer"]["text"]), (&json!("done"), &json!("")), "{order:#}");
    }
    world.is_gone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_outlast_the_wait_for_them_are_counted_and_end_well_all_the_same() {
    let world = world_that_drains("300ms").await;
    let (held, orders) = world.retired().await;
    for order in &orders {
        let order = world.answered(order).await;
        let text = json!("1 calls to A did not end in time");
        assert_eq!((&order["state"], &order["answer"]["text"]), (&json!("done"), &text), "{order:#}");
    }
    for held in held {
        held.end().await;
    }
    world.is_gone().await;
}

/// Whether a router was read back to do all that is wanted, and that is so many services.
fn leads(status: &Status, services: usize) -> bool {
    let router = status.router.as_ref();
    status.services.len() == services
        && status.work.is_none()
        && router.is_some_and(|router| router.phase == RouterPhase::InForce && router.wanted == router.seen)
}

impl World {
    /// What is ours of each router's configuration, but for its number.
    fn configurations(&self) -> Vec<String> {
        let text = |kind: &str, name: &str| {
            fs::read_to_string(self.site.folder().join(format!("of-{kind}/ours/{name}"))).unwrap()
        };
        let nginx = text("nginx", "choirmaster.conf");
        let head = nginx.lines().find_map(|line| line.strip_prefix("# digest ")).unwrap();
        let (digest, load) = head.split_once(" load ").unwrap();
        let nginx = nginx.replace(head, "").replace(&format!("{digest} {load}"), digest);
        let haproxy = text("haproxy", "choirmaster.cfg");
        vec![nginx, haproxy.split_once('\n').unwrap().1.to_owned()]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_came_with_a_release_goes_with_its_rollback() {
    let world = world().await;
    let variations = [("A", world.a.at), ("B", world.b.at)];
    let wares = strategy("wares-0", free_port(), variations, &all_to("A"));
    world.site.manager.submit(&wares.replace("name: checkout\n", "name: wares\n")).await;
    world.site.manager.ended("wares-0").await;
    for node in &world.nodes {
        node.until("it leads one", |status| leads(status, 1)).await;
    }
    let before = world.configurations();

    let first = strategy("checkout-1", world.routers[0].port(), variations, &approved_stages(""));
    let first = first.replace("    variations:\n", "    at_rollback: retire\n    variations:\n");
    world.site.manager.submit(&first).await;
    world.seen(Some(9_000), Some(1_000)).await;
    assert_ne!(world.configurations(), before);
    world.site.manager.act("checkout-1", "abort").await;
    let ended = world.site.manager.ended("checkout-1").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    for node in &world.nodes {
        node.until("it leads one", |status| leads(status, 1)).await;
    }
    assert_eq!(world.configurations(), before);
    for router in &world.routers {
        wait_until("nobody listens there", async || TcpStream::connect(router).await.is_err()).await;
    }
}
