//! A service is retired while a call to it goes on.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{
    super::{
        routers::{all_to, strategy},
        wait::wait_until,
    },
    World, world_that_drains,
};

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
