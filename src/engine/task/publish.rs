//! What a commit has made true is shown to readers.

use std::collections::BTreeMap;

use tokio::task::yield_now;

use crate::view::View;
use domain::release::state::{Release, State};
use model::{ChildKey, ReleaseKey};

/// Children published before others get a turn on this thread.
const PUBLISH_SLICE: usize = 1_000;

/// Shows everything, after a load.
pub fn publish_all(state: &State, view: &View) {
    for (id, known) in &state.known {
        view.releases.know(id, known.key);
    }
    for key in state.releases.keys() {
        view.publish_release(state, *key);
    }
    for (key, _) in state.children.iter() {
        view.children.publish(state, key);
    }
}

/// Shows what one commit has touched.
pub async fn publish(
    state: &State,
    view: &View,
    children: &[ChildKey],
    whole: &[ReleaseKey],
    releases: &[ReleaseKey],
    closed: &BTreeMap<ReleaseKey, Release>,
) {
    for key in releases.iter().chain(closed.keys()) {
        view.publish_release(state, *key);
    }
    // One without participants is over in the commit that made it, and known all the same.
    for (key, release) in closed {
        view.releases.know(&release.id, *key);
    }
    view.releases.publish_places(state);
    for key in children {
        view.children.publish(state, *key);
    }
    for key in whole {
        let Some(release) = state.release(*key).or_else(|| closed.get(key)) else { continue };
        for (place, child) in release.assignments.keys().enumerate() {
            view.children.publish(state, *child);
            if place % PUBLISH_SLICE == PUBLISH_SLICE - 1 {
                yield_now().await;
            }
        }
    }
}
