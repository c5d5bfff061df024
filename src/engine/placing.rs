//! Workflows are looked at as time passes: nodes fall silent, come back or are drained, and what waits is tried again.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{audit::Actor, handle::Engine, mailbox::By};
use domain::{
    release::command::Command,
    workflows::{self, Attention, attention},
};
use model::ChildKey;

/// How many times within a keep-alive it is looked for nodes that fell silent.
const TIMES: u32 = 8;

/// The shortest time between two of these.
const AT_LEAST: Duration = Duration::from_millis(50);

/// How long the engine may take with a look.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks until it is told to stop.
pub fn run(engine: Engine, keep_alive: Duration, stop: CancellationToken) -> BoxFuture<'static, ()> {
    let placing = Placing { engine, keep_alive, known: BTreeSet::new(), looked: Instant::now() };
    Box::pin(placing.run(stop))
}

struct Placing {
    engine: Engine,
    keep_alive: Duration,
    /// Nodes that were silent, drained or gone at the last look.
    known: BTreeSet<ChildKey>,
    looked: Instant,
}

impl Placing {
    async fn run(mut self, stop: CancellationToken) {
        let every = (self.keep_alive / TIMES).max(AT_LEAST);
        while stop.run_until_cancelled(sleep(every)).await.is_some() {
            if let Err(error) = self.look().await {
                tracing::debug!(%error, "workflows could not be looked at");
            }
        }
    }

    async fn look(&mut self) -> Result<(), super::EngineError> {
        let children = &self.engine.view().children;
        let now = self.engine.clock().now();
        let Attention { nodes, is_unsettled } =
            self.engine.read(PATIENCE, |state| attention(state, &**children, now)).await?;
        let is_new = nodes.iter().any(|node| !self.known.contains(node));
        let is_again = (is_unsettled || !nodes.is_empty()) && self.looked.elapsed() >= self.keep_alive;
        if is_new || is_again {
            self.looked = Instant::now();
            let look = workflows::Command::Look { chance: rand::random() };
            let by = By { actor: Actor::Timer, note: None };
            self.engine.call(Command::Workflows(look), by, PATIENCE).await?;
        }
        self.known = nodes;
        Ok(())
    }
}
