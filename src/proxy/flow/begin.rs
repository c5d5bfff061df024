//! How a flow begins, whatever it is of.

use std::net::IpAddr;

use tokio::time::Instant;

use crate::{caller::Caller, count::CallCount, decide::RoutingDecision, live::Local, worker::Worker};

/// A flow as the choice of a variation sees it.
struct Seen(IpAddr);

impl traffic::Call for Seen {
    fn header(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn cookie(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn address(&self) -> IpAddr {
        self.0
    }
}

/// A flow that was given to a variation.
pub(super) struct Begun<'w> {
    pub service: Box<str>,
    pub decided: RoutingDecision,
    pub count: CallCount<'w>,
}

/// Gives a flow to a variation of a service.
pub(super) fn begin<'w>(local: &Local, service: usize, caller: &Caller, worker: &'w Worker) -> Begun<'w> {
    let began = Instant::now();
    let shared = local.service(service).shared();
    // No method: it is repeated where it can't have been seen, unless its service says never.
    let decided = RoutingDecision::new(local, service, (&Seen(caller.address), caller), "");
    let count = decided.count(worker.counts(), began, worker.flow_line());
    Begun { service: shared.name().into(), decided, count }
}
