//! Folding a change in. Infallible: whether it is right was decided before it was made.

use std::sync::Arc;

use super::{Change, Traffic};

/// Folds one change in.
pub fn apply(traffic: &mut Traffic, change: &Change) {
    match change {
        Change::Told { child, router, .. } | Change::Ordered { child, router, .. } => {
            traffic.hold(*child, Arc::clone(router));
        }
        // What they say is in the record already; they are for the history and the trail.
        Change::Shifted { .. }
        | Change::Drifted { .. }
        | Change::Health { .. }
        | Change::Stood { .. }
        | Change::Answered { .. } => {}
    }
}
