use std::rc::Rc;

use super::local::LocalVersion;
use crate::Limits;

/// A call's place at a version, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    version: Rc<LocalVersion>,
}

impl Place {
    /// A place at a version, at once or out of its queue; none if that is full or takes too long.
    pub(crate) async fn take(version: &Rc<LocalVersion>, limits: &Limits) -> Option<Self> {
        let taken = version.shared().places().take(limits).await;
        taken.then(|| Self { version: Rc::clone(version) })
    }
}

impl Place {
    /// The same for what may take much longer than a call.
    pub(crate) async fn take_flow(version: &Rc<LocalVersion>, limits: &Limits) -> Option<Self> {
        let taken = version.shared().places().take_of(limits.flows, limits).await;
        taken.then(|| Self { version: Rc::clone(version) })
    }

    /// The same, at once or not at all.
    pub(crate) fn take_flow_now(version: &Rc<LocalVersion>, limits: &Limits) -> Option<Self> {
        let taken = version.shared().places().try_take(limits.flows);
        taken.then(|| Self { version: Rc::clone(version) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.version.shared().places().give_back();
    }
}
