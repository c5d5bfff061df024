//! Five routers behind one release: own agents, each with its proxy, as they are run. What one of them can't do is taken back from all.

use serde_json::Value;

use super::{
    node::Node,
    services::{Backend, Users},
    serving::free_address,
    site::Site,
};
use std::net::SocketAddr;

const ROUTERS: usize = 5;

/// The one that refuses says so long before.
const STAGE_DEADLINE: &str = "stage_deadline: 2m\n";

/// Routers with a name each, behind one port at addresses of their own.
pub struct Five {
    pub site: Site,
    pub nodes: Vec<Node>,
    pub routers: Vec<SocketAddr>,
    port: u16,
    pub a: Backend,
    pub b: Backend,
}

pub async fn five(number: usize, manager: &[String]) -> Five {
    let site = Site::with(manager).await;
    let port = free_address().port();
    let (mut nodes, mut routers) = (Vec::new(), Vec::new());
    for place in 1..=number {
        let at = SocketAddr::from(([127, 0, 5, place as u8], port));
        let name = format!("router-{place}");
        let folder = site.folder().join(&name);
        let mut node = Node::of(&folder, &name, &site.manager.url(), &["agent.labels=env=prod"]);
        node.listens_also(at);
        node.come_back();
        nodes.push(node);
        routers.push(at);
    }
    for node in &nodes {
        node.until_it_answers().await;
    }
    site.manager.knows(number).await;
    Five { site, nodes, routers, port, a: Backend::start('A'), b: Backend::start('B') }
}

impl Five {
    /// `more`: keys of the strategy, each with its line's end.
    pub fn strategy(&self, id: &str, more: &str, stages: &str) -> String {
        let (port, a, b) = (self.port, self.a.at, self.b.at);
        format!(
            "id: {id}\nname: {id}\n{more}services:\n  - name: checkout\n    routers: {{labels: {{env: prod}}}}\n    ports: [{{port: {port}}}]\n    \
             sticky: {{header: X-User}}\n    variations:\n      - {{name: A, targets: [\"{a}\"]}}\n      - {{name: B, targets: [\"{b}\"]}}\n{stages}"
        )
    }

    /// Waits until each of them says that it gives B so much, in units of 0.01 %.
    pub async fn gives(&self, nodes: &[usize], of_b: u16) {
        for node in nodes {
            self.nodes[*node]
                .until(&format!("it gives {of_b} to B"), |status| {
                    let service = status.services.first();
                    service.is_some_and(|service| service.variations[1].share == of_b)
                })
                .await;
            // What the agent wants is one thing, and what its proxy does another.
            self.nodes[*node]
                .until_proxy(&format!("its table gives {of_b} to B"), |status| {
                    let service = status.services.iter().find(|service| service.name == "checkout");
                    service.is_some_and(|service| {
                        let b = service.variations.iter().find(|variation| variation.name == "B");
                        b.map_or(0, |b| b.share) == of_b
                    })
                })
                .await;
        }
    }
}

/// A stage that waits for its signal, and has so much of B, in percent.
pub fn stage(name: &str, of_b: &str, of_a: &str, duration: &str, next: &str) -> String {
    format!(
        "  - name: {name}\n    type: WaitForSignal\n    shares: {{A: {of_a}, B: {of_b}}}\n    metrics_conditions: [{{name: errorRate, threshold: \
         \"<0.02\"}}]\n    end_conditions: [{{name: minDuration, threshold: {duration}}}, {{name: minCalls, threshold: \"20\"}}]\n    end_action: \
         {{onSuccess: {next}, onFailure: rollback}}\n"
    )
}

/// Stands between the agent and its proxy on the proxy's socket: tables that give B half are refused.
mod refusing {
    use std::{path::Path, sync::Arc};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{UnixListener, UnixStream},
        task::JoinSet,
    };

    /// What the body of a table has that is refused.
    const REFUSED: &str = "[5000,10000,0]";

    pub struct Between {
        _serving: JoinSet<()>,
    }

    impl Between {
        /// The proxy's socket is moved aside, and this listens in its place.
        pub fn begin(socket: &Path) -> Self {
            let behind = socket.with_extension("behind");
            std::fs::rename(socket, &behind).unwrap();
            let listener = UnixListener::bind(socket).unwrap();
            let behind: Arc<Path> = behind.into();
            let mut serving = JoinSet::new();
            serving.spawn(async move {
                let mut passing = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    passing.spawn(pass(stream, Arc::clone(&behind)));
                }
            });
            Self { _serving: serving }
        }
    }

    /// One request after the other, each answered by the proxy or refused.
    async fn pass(mut caller: UnixStream, behind: Arc<Path>) {
        let Ok(mut proxy) = UnixStream::connect(&behind).await else { return };
        while let Some(message) = message(&mut caller).await {
            let text = String::from_utf8_lossy(&message).into_owned();
            if text.starts_with("PUT /table") && text.contains(REFUSED) {
                let body = "{\"error\": \"there is no room for this table\"}";
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 422 Unprocessable Content\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
                );
                if caller.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
                continue;
            }
            if proxy.write_all(&message).await.is_err() {
                return;
            }
            let Some(answer) = self::message(&mut proxy).await else { return };
            if caller.write_all(&answer).await.is_err() {
                return;
            }
        }
    }

    /// A whole message of HTTP/1.1 whose body has a length.
    async fn message(stream: &mut UnixStream) -> Option<Vec<u8>> {
        let (mut came, mut room) = (Vec::new(), vec![0; 16 * 1024]);
        loop {
            if let Some(end) = came.windows(4).position(|end| end == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&came[..end]).to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
                let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or_default();
                if came.len() >= end + 4 + length {
                    return Some(came);
                }
            }
            match stream.read(&mut room).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => came.extend_from_slice(&room[..read]),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_one_of_five_routers_refuses_the_second_stage_all_five_end_at_nothing() {
    let world = five(ROUTERS, &[]).await;
    let all: Vec<usize> = (0..ROUTERS).collect();
    let stages = format!(
        "rollout: {{order: global_incremental, max_failed: 0, max_timed_out: 0, on_failure: rollback}}\nstages:\n{}{}",
        stage("little", "10", "90", "1s", "half"),
        stage("half", "50", "50", "1s", "rollout")
    );
    let _between = refusing::Between::begin(&world.nodes[3].folder.join("proxy.sock"));
    world.site.manager.submit(&world.strategy("r", STAGE_DEADLINE, &stages)).await;
    world.gives(&all, 1_000).await;
    let users = Users::call(&world.routers);
    users.round().await;
    let little = users.of(0, 'B');
    assert!(!little.is_empty(), "somebody is to get B");
    assert!(all.iter().all(|router| users.of(*router, 'B') == little), "the same users everywhere");
    // Those that can do the second stage, while the fourth can't.
    world.gives(&[0, 1, 2, 4], 5_000).await;
    let ended = world.site.manager.ended("r").await;
    assert_eq!(ended["state"], "RolledBack", "{ended:#}");
    users.round().await;
    for router in all {
        assert_eq!(users.of(router, 'B').len(), 0, "router {router} after {ended:#}");
    }
    let then = world.b.calls();
    users.round().await;
    assert_eq!(world.b.calls(), then, "what was taken back gets no call");
    let parts = Value::from(world.site.manager.parts("r").await).to_string();
    assert!(parts.contains("the proxy refuses its shares"), "{parts}");
    let lost = users.lost().await;
    let why = || -> String {
        let texts = world.nodes.iter().filter_map(|node| std::fs::read_to_string(node.access_log()).ok());
        let of_lost = |text: String| {
            text.lines().filter(|line| line.contains("502")).take(3).collect::<Vec<_>>().join("\n")
        };
        texts.map(of_lost).collect::<Vec<_>>().join("\n")
    };
    assert!(lost.is_empty(), "{} are lost, the first {}: {}", lost.len(), lost[0], why());
}
