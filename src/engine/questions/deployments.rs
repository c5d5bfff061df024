//! What runs where below a manager: the kind `deployments`. Where the path goes on, the manager asks the next one.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    kind::{LOOK_PATIENCE, PATIENCE, QuestionKind, ToAnswer, ask},
    path::next_hop,
};
use crate::{Engine, EngineError, json_columns, unreadable::Unreadable};
use domain::release::state::Snapshot;
use model::{ChildKey, ReleaseId, ReleaseKey};
use protocol::{
    api::{Deployment, Page},
    question::MAX_ANSWER_ENTRIES,
    time::rfc3339,
};
use store::{DeploymentFilter, StoreError, rows::DeploymentRow};

/// The kind `deployments`.
#[derive(Debug)]
pub struct DeploymentsOf;

/// A page of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeploymentsWanted {
    /// The managers that lead there from the one that is asked.
    #[serde(default)]
    pub path: Vec<String>,
    /// Only this function.
    #[serde(default)]
    pub function: Option<String>,
    /// Only after this one: the number of a child, and a function.
    #[serde(default)]
    pub after: Option<(u32, String)>,
    /// 1 to [`MAX_ANSWER_ENTRIES`].
    pub limit: u32,
}

impl QuestionKind for DeploymentsOf {
    const NAME: &'static str = "deployments";
    type Body = DeploymentsWanted;
    type Answer = Page<Deployment>;

    async fn answer(asked: ToAnswer, wanted: DeploymentsWanted) -> Result<Page<Deployment>, String> {
        if wanted.path.is_empty() {
            let filter = DeploymentFilter {
                function: wanted.function,
                child_key: None,
                after: wanted.after.map(|(child, function)| (function, child)),
                limit: wanted.limit.clamp(1, MAX_ANSWER_ENTRIES as u32),
            };
            return page(&asked.engine, &filter).await.map_err(|error| error.to_string());
        }
        below_within(&asked.engine, wanted, asked.left_below()).await
    }
}

/// Why a page can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A page of what runs below a manager below this one.
pub async fn ask_below(engine: &Engine, wanted: DeploymentsWanted) -> Result<Page<Deployment>, String> {
    below_within(engine, wanted, PATIENCE).await
}

/// A page of the deployments below a manager below this one, which is waited for so long.
async fn below_within(
    engine: &Engine,
    wanted: DeploymentsWanted,
    time: Duration,
) -> Result<Page<Deployment>, String> {
    let (key, path) = next_hop(engine, &wanted.path)?;
    let said = ask::<DeploymentsOf>(engine, key, &DeploymentsWanted { path, ..wanted }, time).await;
    said.map_err(|why| why.to_string())
}

/// A page of this manager's own.
pub async fn page(engine: &Engine, filter: &DeploymentFilter) -> Result<Page<Deployment>, PageError> {
    let rows = engine.reader().deployments(filter).await?;
    let last = rows.last().filter(|_| rows.len() == filter.limit as usize);
    let next = last.map(|row| format!("{}:{}", row.child_key, row.function));
    let state = engine.snapshot(LOOK_PATIENCE).await?;
    // Few releases stand behind many rows.
    let keys: HashSet<ReleaseKey> = rows.iter().map(|row| ReleaseKey(row.release_key)).collect();
    let named = Named { state: &state, releases: engine.view().releases.ids_of(&keys) };
    let items = rows.into_iter().map(|row| named.show(row, engine.unreadable())).collect();
    Ok(Page { items, next })
}

/// The ids that stand behind numbers.
struct Named<'s> {
    state: &'s Snapshot,
    releases: HashMap<ReleaseKey, ReleaseId>,
}

impl Named<'_> {
    /// With ids in place of numbers. A release leaves the history after the last child that runs it: one that isn't known is
    /// a fault of the row, and said to be.
    fn show(&self, row: DeploymentRow, unreadable: &Unreadable) -> Deployment {
        let child = self.state.children.get(ChildKey(row.child_key));
        let forgotten = || format!("forgotten child {}", row.child_key);
        let unknown = || {
            unreadable.note(&json_columns::unknown_release(&row));
            format!("unknown release {}", row.release_key)
        };
        Deployment {
            child: child.map_or_else(forgotten, |child| child.id.to_string()),
            release: self
                .releases
                .get(&ReleaseKey(row.release_key))
                .map_or_else(unknown, ToString::to_string),
            function: row.function,
            variant: row.variant,
            path: row.path,
            since: rfc3339(row.at_ms),
        }
    }
}
