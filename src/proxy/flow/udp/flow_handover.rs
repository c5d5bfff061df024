//! How a flow goes from process to process.

use std::{net::SocketAddr, os::fd::OwnedFd, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::flow::{Flow, Where};
use crate::{
    count::Course,
    live::{Target, Version},
};
use call_metrics::Key;

/// A flow without its socket, which goes along as a descriptor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FlowForm {
    /// The socket at which its datagrams come in.
    pub listen: SocketAddr,
    caller: SocketAddr,
    /// Under what it is counted.
    key: Arc<Key>,
    course: Course,
    group: Option<u8>,
    /// The variation that has it, and its version.
    variation: String,
    version: String,
    target: String,
    /// Since it began, and since something moved.
    age_ms: u64,
    idle_ms: u64,
    up: u64,
    down: u64,
    is_answered: bool,
}

/// A flow that was taken over, with its socket.
#[derive(Debug)]
pub(crate) struct AdoptedFlow {
    pub form: FlowForm,
    pub socket: OwnedFd,
    pub version: Arc<Version>,
}

impl FlowForm {
    /// Nothing where the flow has no target yet.
    pub(super) fn of(flow: &Flow, listen: SocketAddr) -> Option<Self> {
        let course = flow.course.borrow();
        let Where { key, course, group, began, variation, version, target } = course.clone()?;
        let (up, down) = flow.passed.get();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Some(Self {
            listen,
            caller: flow.caller,
            key,
            course,
            group,
            variation: variation.into(),
            version: version.into(),
            target,
            age_ms: ms(began.elapsed()),
            idle_ms: ms(flow.last().elapsed()),
            up,
            down,
            is_answered: flow.is_answered.get(),
        })
    }

    /// The service and the variation that has it.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.key.service, &self.variation)
    }

    /// Whether it is one at this version.
    pub(crate) fn is_at(&self, version: &Version) -> bool {
        let has_target = version.targets().iter().any(|target| target.to_string() == self.target);
        version.name() == self.variation && version.digest() == self.version && has_target
    }

    /// A version that no table names any more.
    pub(crate) fn version_alone(&self) -> Option<Version> {
        let target: Target = self.target.parse().ok()?;
        let names = (&*self.variation, &*self.version);
        Some(Version::new(names, Box::new([target]), crate::live::Protocol::Http1, None))
    }

    /// The flow as it goes on here.
    pub(super) fn flow(&self) -> (Flow, Where) {
        let flow = Flow::new(self.caller);
        let now = Instant::now();
        let before = |ms| now.checked_sub(Duration::from_millis(ms)).unwrap_or(now);
        flow.moved_at(before(self.idle_ms));
        flow.place_at(flow.last());
        flow.passed.set((self.up, self.down));
        flow.is_answered.set(self.is_answered);
        let at = Where {
            key: Arc::clone(&self.key),
            course: self.course,
            group: self.group,
            began: before(self.age_ms),
            variation: self.variation.as_str().into(),
            version: self.version.as_str().into(),
            target: self.target.clone(),
        };
        (flow, at)
    }
}
