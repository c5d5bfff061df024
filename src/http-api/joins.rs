//! How often somebody may try to join.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Calls of one address within a [`WINDOW`]: a building full of nodes behind one address joins within minutes, and who guesses
/// gets nowhere.
pub const MAX_JOINS: u32 = 120;

/// So long calls are counted together.
const WINDOW: Duration = Duration::from_mins(1);

/// Addresses that are counted apart; in a window with more, the others wait for the next one.
const MAX_ADDRESSES: usize = 10_000;

/// Who wanted to join lately.
#[derive(Debug, Default)]
pub struct Joins(Mutex<Option<Counted>>);

#[derive(Debug)]
struct Counted {
    since: Instant,
    calls: HashMap<Option<IpAddr>, u32>,
}

impl Joins {
    /// Counts a call, and tells whether it may be answered. Those of whom nobody knows where they call from are one.
    pub fn may(&self, address: Option<IpAddr>) -> bool {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = match &mut *counted {
            Some(counted) if counted.since.elapsed() < WINDOW => counted,
            other => other.insert(Counted { since: Instant::now(), calls: HashMap::new() }),
        };
        let address = address.map(neighbourhood);
        if counted.calls.len() >= MAX_ADDRESSES && !counted.calls.contains_key(&address) {
            return false;
        }
        let calls = counted.calls.entry(address).or_default();
        *calls = calls.saturating_add(1);
        *calls <= MAX_JOINS
    }
}

/// Whoever has one address of IPv6 has 2^64 of them.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}
