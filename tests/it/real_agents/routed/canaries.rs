//! Canaries of services of HTTP and TCP behind an nginx, by its `http` and its `stream` module.

use std::{fs, net::SocketAddr, time::Duration};

use agent::control::form::RouterPhase;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    super::{
        users::{Backend, USERS, Users},
        wait::wait_until,
    },
    World, world_of,
};
use crate::ports::free_port;

/// A service with two versions, of which the first one serves.
struct Service {
    name: &'static str,
    protocol: &'static str,
    at: SocketAddr,
    versions: [Backend; 2],
}

impl Service {
    fn new(name: &'static str, protocol: &'static str, at: SocketAddr) -> Self {
        Self { name, protocol, at, versions: ['A', 'B'].map(Backend::start) }
    }

    /// The release that has its name.
    fn release(&self) -> String {
        let Self { name, protocol, at, versions: [one, two] } = self;
        format!(
            "kind: Release\nmetadata: {{name: {name}}}\nspec:\n  routers: {{env: prod}}\n  version: 1\n  versions:\n    - {{version: 1, \
             targets: {{{name}: [\"{}\"]}}}}\n    - {{version: 2, targets: {{{name}: [\"{}\"]}}}}\n  services: [{{name: {name}, ports: \
             [{{port: {}, protocol: {protocol}}}]}}]\n",
            one.at,
            two.at,
            at.port()
        )
    }

    /// A canary of its second version. `transition`: empty, or what becomes of it.
    fn canary(&self, id: &str, weight: u16, transition: &str) -> String {
        let Self { name, at, .. } = self;
        format!(
            "kind: CanaryRelease\nmetadata: {{name: {id}}}\nspec:\n  release: {name}\n  version: 2\n  services: [{{service: {name}, ports: \
             [{{port: {}, config: {{weight: {weight}}}}}]}}]\n  transition: {transition:?}\n",
            at.port()
        )
    }

    /// Waits until nginx was read back to give the canary so many percent.
    async fn gives(&self, world: &World, weight: u16) {
        world.gives(self.name, [Some(10_000 - 100 * weight), Some(100 * weight)]).await;
    }

    /// A canary gets several weights, one after the other, and is adopted, while users call; they call on.
    async fn adopts(&self, world: &World, id: &str) -> Users {
        const WEIGHTS: [u16; 3] = [10, 70, 30];
        let (manager, [old, new]) = (&world.site.manager, &self.versions);
        manager.submit(&self.canary(id, WEIGHTS[0], "")).await;
        self.gives(world, WEIGHTS[0]).await;
        // With each reload nginx closes connections of HTTP that wait for the next call.
        let users = Users::calling(&[self.at], false, Duration::from_millis(200));
        users.round().await;
        let mut stays = None;
        if self.protocol == "TCP" {
            stays = Some(Connection::with(self.at, 'A').await);
        }
        for weight in WEIGHTS {
            manager.submit(&self.canary(id, weight, "")).await;
            self.gives(world, weight).await;
            let before = [old, new].map(Backend::calls);
            wait_until("both versions have calls by this weight", async || {
                old.calls() > before[0] && new.calls() > before[1]
            })
            .await;
        }
        assert_eq!(manager.state(id).await.as_deref(), Some("Running"), "nobody says that it is good enough");

        manager.submit(&self.canary(id, WEIGHTS[2], "Adopted")).await;
        let ended = manager.ended(id).await;
        assert_eq!(ended["state"], "Done", "{ended:#}");
        world.gives(self.name, [None, Some(10_000)]).await;
        users.round().await;
        assert_eq!(users.of(0, 'B').len(), USERS);
        let alone = old.calls();
        users.round().await;
        assert_eq!(old.calls(), alone, "what was replaced gets no call");
        if let Some(stays) = &mut stays {
            assert_eq!(
                stays.asks().await,
                'A',
                "a connection stays where it is, whatever becomes of weights"
            );
        }
        users
    }
}

/// A connection of TCP that stays open.
struct Connection(TcpStream);

impl Connection {
    /// One that was given to this version.
    async fn with(at: SocketAddr, version: char) -> Self {
        loop {
            let mut connection = Self(TcpStream::connect(at).await.unwrap());
            if connection.asks().await == version {
                return connection;
            }
        }
    }

    /// Who answers on it.
    async fn asks(&mut self) -> char {
        let mut answer = *b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n?";
        self.0.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n").await.unwrap();
        self.0.read_exact(&mut answer).await.unwrap();
        char::from(answer[answer.len() - 1])
    }
}

impl World {
    /// Waits until the only router was read back to give the two variations of a service these shares, in units of 0.01 %; none: it isn't
    /// there.
    async fn gives(&self, service: &str, shares: [Option<u16>; 2]) {
        let what = format!("{shares:?} of {service} are read back");
        self.nodes[0]
            .until(&what, |status| {
                let service = status.services.iter().find(|one| one.name == service);
                let variations = service.into_iter().flat_map(|service| &service.variations);
                let seen: Vec<_> = variations.map(|variation| variation.seen).collect();
                let obeys = status.router.as_ref().is_some_and(|router| {
                    router.phase == RouterPhase::InForce && router.wanted == router.seen
                });
                seen == shares && obeys
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_of_http_and_tcp_behind_nginx_are_adopted_and_no_call_is_lost() {
    let world = world_of(&["nginx"], "300ms").await;
    let (manager, at) = (&world.site.manager, world.routers[0]);
    let http = Service::new("checkout", "HTTP", at);
    let tcp = Service::new("wares", "TCP", SocketAddr::new(at.ip(), free_port()));
    for service in [&http, &tcp] {
        manager.submit(&service.release()).await;
    }

    // Nothing led it before, and so nothing does once its first canary is deprecated.
    manager.submit(&tcp.canary("wares-1", 10, "")).await;
    tcp.gives(&world, 10).await;
    let mut stays = Connection::with(tcp.at, 'B').await;
    manager.submit(&tcp.canary("wares-1", 10, "Deprecated")).await;
    let ended = manager.ended("wares-1").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    world.nodes[0].until("nothing is led", |status| status.services.is_empty()).await;
    let gone = async || TcpStream::connect(tcp.at).await.is_err();
    wait_until("nobody listens there", gone).await;
    let file = world.site.folder().join("of-nginx/ours/choirmaster.conf.stream");
    assert_eq!(fs::read_to_string(file).unwrap(), "");
    assert_eq!(stays.asks().await, 'B', "what is there is cut by nothing");

    let of_http = http.adopts(&world, "checkout-2").await;
    let of_tcp = tcp.adopts(&world, "wares-2").await;
    for (users, service) in [(of_http, &http), (of_tcp, &tcp)] {
        users.round().await;
        assert_eq!(users.of(0, 'B').len(), USERS, "{}", service.name);
        users.end().await;
    }
}
