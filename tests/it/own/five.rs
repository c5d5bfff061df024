//! Five routers behind one release: own agents, each with its proxy, as they are run. What one of them can't do is taken back from all.

use serde_json::Value;

use super::{
    routers::{Routers, approved_stages},
    users::Users,
};

const ROUTERS: u8 = 5;

/// The one that refuses says so long before.
const STAGE_DEADLINE: &str = "stage_deadline: 2m\n";

/// Stands between the agent and its proxy on the proxy's socket: tables that give B half are refused, for good once that is said and
/// until then for the moment.
mod refusing {
    use std::{
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{UnixListener, UnixStream},
        task::JoinSet,
    };

    /// What the body of a table has that is refused.
    const REFUSED: &str = "[5000,10000,0]";

    pub struct Between {
        is_for_good: Arc<AtomicBool>,
        _serving: JoinSet<()>,
    }

    impl Between {
        /// The proxy's socket is moved aside, and this listens in its place.
        pub fn begin(socket: &Path) -> Self {
            let behind = socket.with_extension("behind");
            std::fs::rename(socket, &behind).unwrap();
            let listener = UnixListener::bind(socket).unwrap();
            let behind: Arc<Path> = behind.into();
            let is_for_good = Arc::<AtomicBool>::default();
            let for_good = Arc::clone(&is_for_good);
            let mut serving = JoinSet::new();
            serving.spawn(async move {
                let mut passing = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    passing.spawn(pass(stream, Arc::clone(&behind), Arc::clone(&for_good)));
                }
            });
            Self { is_for_good, _serving: serving }
        }

        pub fn refuses_for_good(&self) {
            self.is_for_good.store(true, Ordering::Relaxed);
        }
    }

    /// One request after the other, each answered by the proxy or refused.
    async fn pass(mut caller: UnixStream, behind: Arc<Path>, is_for_good: Arc<AtomicBool>) {
        let Ok(mut proxy) = UnixStream::connect(&behind).await else { return };
        while let Some(message) = message(&mut caller).await {
            let text = String::from_utf8_lossy(&message).into_owned();
            if text.starts_with("PUT /table") && text.contains(REFUSED) {
                let body = "{\"error\": \"there is no room for this table\"}";
                let length = body.len();
                let is_for_good = is_for_good.load(Ordering::Relaxed);
                let status =
                    if is_for_good { "422 Unprocessable Content" } else { "503 Service Unavailable" };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
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
    let world = Routers::start(ROUTERS, &[]).await;
    let all = 0..usize::from(ROUTERS);
    let stages =
        approved_stages("order: global_incremental, max_failed: 0, max_timed_out: 0, on_failure: rollback, ");
    let between = refusing::Between::begin(&world.nodes[3].folder.join("proxy.sock"));
    world.submit("r", &format!("{STAGE_DEADLINE}{stages}")).await;
    world.all_give(1_000).await;
    let users = Users::call(&world.at);
    users.round().await;
    let little = users.of(0, 'B');
    assert!(!little.is_empty(), "somebody is to get B");
    assert!(all.clone().all(|router| users.of(router, 'B') == little), "the same users everywhere");
    // Those that can do the second stage, while the fourth can't.
    world.site.manager.approve("r").await;
    world.give(&[0, 1, 2, 4], 5_000).await;
    between.refuses_for_good();
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
