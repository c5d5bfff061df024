use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
    rc::Rc,
};

use tokio::time::Instant;

use super::flow::Flow;

/// The flows of a listening socket, by caller, and which of them was idle for longest.
#[derive(Debug, Default)]
pub(super) struct Flows {
    of: HashMap<SocketAddr, Rc<Flow>>,
    /// When each was active, as it was known when it was put here: it may have been active since, but never before.
    order: BTreeSet<(Instant, SocketAddr)>,
}

impl Flows {
    pub(super) fn get(&self, caller: SocketAddr) -> Option<&Rc<Flow>> {
        self.of.get(&caller)
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    pub(super) fn insert(&mut self, flow: Rc<Flow>) {
        self.order.insert((flow.placed_at(), flow.caller));
        self.of.insert(flow.caller, flow);
    }

    /// Takes a flow out; another one of the same caller stays.
    pub(super) fn remove(&mut self, flow: &Rc<Flow>) {
        if self.of.get(&flow.caller).is_some_and(|known| Rc::ptr_eq(known, flow)) {
            self.of.remove(&flow.caller);
            self.order.remove(&(flow.placed_at(), flow.caller));
        }
    }

    /// Takes the one out that was idle for longest.
    pub(super) fn take_oldest(&mut self) -> Option<Rc<Flow>> {
        while let Some((placed_at, caller)) = self.order.pop_first() {
            let Some(flow) = self.of.get(&caller) else { continue };
            // The first whose place is still true is the oldest: those behind it were active later than their places say, or then.
            if flow.last() == placed_at {
                return self.of.remove(&caller);
            }
            flow.place_at(flow.last());
            self.order.insert((flow.last(), caller));
        }
        None
    }

    pub(super) fn take_all(&mut self) -> Vec<Rc<Flow>> {
        self.order.clear();
        self.of.drain().map(|(_, flow)| flow).collect()
    }
}
