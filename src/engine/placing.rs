//! Parts of workflows that wait for a node are tried again, and nodes that are gone are looked for.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{audit::Actor, handle::Engine, mailbox::By};
use domain::{release::command::Command, workflows};

/// From one look to the next.
const EVERY: Duration = Duration::from_secs(2);

/// How long the engine may take with a look.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks until it is told to stop.
pub fn run(engine: Engine, stop: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(look(engine, stop))
}

async fn look(engine: Engine, stop: CancellationToken) {
    while stop.run_until_cancelled(sleep(EVERY)).await.is_some() {
        let is_due = engine.read(PATIENCE, |state| {
            let mut nodes = state.workflows.nodes();
            state.workflows.waiting() > 0 || nodes.any(|node| state.children.get(node).is_none())
        });
        if is_due.await.unwrap_or(false) {
            let look = workflows::Command::Look { chance: rand::random() };
            let by = By { actor: Actor::Timer, note: None };
            if let Err(error) = engine.call(Command::Workflows(look), by, PATIENCE).await {
                tracing::debug!(%error, "functions of workflows that wait could not be placed");
            }
        }
    }
}
