//! What proxies counted, over all their lives: each writes a line for each call, and says how often it sent one again.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc, time::Duration};

use parking::Shared;
use serde_json::Value;
use tokio::{task::AbortHandle, time::sleep};

use super::{ledger::Counted, node::Node, wait::wait_until};

/// Well within the life of any proxy.
const LOOK: Duration = Duration::from_millis(20);

/// After so many looks that found nothing new, what is missing never comes.
const LAST_LOOKS: u32 = 1_000;

const SENT_AGAIN: &str = "choirmaster_proxy_sent_again_total{";

/// Looks at a proxy while it is called.
pub struct Counting {
    log: PathBuf,
    /// By process: calls that it has sent again.
    sent_again: Shared<BTreeMap<u32, u64>>,
    looks: AbortHandle,
}

/// The lines of all calls.
#[derive(Debug)]
pub struct Lines {
    lines: Vec<Value>,
    sent_again: u64,
}

mod parking {
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    /// A value that a task writes and a test reads.
    #[derive(Debug, Default, Clone)]
    pub struct Shared<T>(Arc<Mutex<T>>);

    impl<T> Shared<T> {
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

impl Counting {
    pub fn start(node: &Node) -> Self {
        let sent_again = Shared::<BTreeMap<u32, u64>>::default();
        let (seen, proxy) = (sent_again.clone(), Arc::new(node.proxy()));
        let looks = tokio::spawn(async move {
            loop {
                let status = proxy.get::<proxy::control::form::Status>("/status").await;
                if let (Ok(status), Ok(text)) = (status, proxy.text("/metrics").await) {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    let lines = text.lines().filter(|line| line.starts_with(SENT_AGAIN));
                    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
                    let now = values.sum::<u64>();
                    let mut seen = seen.lock();
                    let known = seen.entry(status.pid).or_default();
                    *known = now.max(*known);
                }
                sleep(LOOK).await;
            }
        })
        .abort_handle();
        Self { log: node.access_log(), sent_again, looks }
    }

    /// Reads the lines once there are so many; lines are written by a thread for which no call waits.
    pub async fn finish(self, calls: usize) -> Lines {
        let mut text = String::new();
        // Lines of a proxy that was killed are gone with it, which whoever killed it takes into account.
        let mut looks = 0;
        wait_until("all calls are written down", async || {
            let now = fs::read_to_string(&self.log).unwrap_or_default();
            looks = if now == text { looks + 1 } else { 0 };
            text = now;
            text.lines().count() >= calls || looks > LAST_LOOKS
        })
        .await;
        // One more look at what was sent again.
        sleep(2 * LOOK).await;
        self.looks.abort();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Lines { lines, sent_again: self.sent_again.lock().values().sum() }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.looks.abort();
    }
}

impl Lines {
    pub fn all(&self) -> Counted {
        let is = |line: &Value, field: &str| line[field] == true;
        let count = |field: &str| self.lines.iter().filter(|line| is(line, field)).count() as u64;
        Counted {
            calls: self.lines.len() as u64,
            repeated: count("repeated"),
            passed_over: count("passed_over"),
            sent_again: self.sent_again,
            ..Counted::default()
        }
    }

    /// Calls that were given to another version than that with this digest.
    pub fn of_all_but(&self, digest: &str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["version"] != digest)
    }

    /// Calls that were given to either variation of a version with this digest.
    pub fn of_version(&self, digest: &str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["version"] == digest)
    }
}
