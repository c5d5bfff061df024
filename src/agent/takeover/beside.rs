//! Who else takes calls at ports that are taken over by a socket, as the proxy says it. Pure.
//!
//! Until it is known that nobody does, somebody may. That somebody does is sure at once, that nobody does only once it was so twice: a
//! program that has much to do may not come to accept in time.

use std::{collections::BTreeMap, time::Duration};

use proxy::control::form::Others;
use tokio::time::Instant;

/// How often it is asked while somebody may.
const SHARED_EVERY: Duration = Duration::from_secs(1);

/// The same while nobody does: callers wait for a moment then, and a program that comes back is there for long.
const ALONE_EVERY: Duration = Duration::from_secs(10);

/// So many answers in a row say that nobody does.
const SURE: u32 = 2;

/// What was answered of each port.
#[derive(Debug, Default)]
pub(super) struct Beside(BTreeMap<u16, Answers>);

#[derive(Debug, Clone, Copy)]
struct Answers {
    /// So many in a row that nobody does.
    alone: u32,
    at: Instant,
}

impl Beside {
    /// Whether it is time to ask of a port.
    pub fn is_due(&self, port: u16, now: Instant) -> bool {
        let every = if self.is_shared(port) { SHARED_EVERY } else { ALONE_EVERY };
        self.0.get(&port).is_none_or(|answers| now.duration_since(answers.at) >= every)
    }

    /// Whether somebody else may take calls there.
    pub fn is_shared(&self, port: u16) -> bool {
        self.0.get(&port).is_none_or(|answers| answers.alone < SURE)
    }

    /// Takes an answer in. True: it is news.
    pub fn note(&mut self, port: u16, others: &Others, now: Instant) -> bool {
        let before = self.is_shared(port);
        let answers = self.0.entry(port).or_insert(Answers { alone: 0, at: now });
        answers.at = now;
        answers.alone = if nobody(others) { answers.alone.saturating_add(1) } else { 0 };
        self.is_shared(port) != before
    }

    /// Only these ports are taken over so.
    pub fn keep(&mut self, ports: &[u16]) {
        self.0.retain(|port, _| ports.contains(port));
    }
}

/// Whether it is sure that nobody else takes calls at any of the addresses.
fn nobody(Others { addresses }: &Others) -> bool {
    !addresses.is_empty() && addresses.iter().all(|one| one.others == Some(false))
}

/// Whether it is sure that others take calls at each of the addresses.
pub(super) fn somebody(Others { addresses }: &Others) -> bool {
    !addresses.is_empty() && addresses.iter().all(|one| one.others == Some(true))
}

/// Whether the proxy can stop taking calls without there being nobody left: it takes none, or others do, at each address.
pub(super) fn may_go(Others { addresses }: &Others) -> bool {
    addresses.iter().all(|one| !one.takes || one.others == Some(true))
}
