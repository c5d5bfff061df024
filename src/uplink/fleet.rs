//! What is below this manager, looked at slice by slice, so that the engine has time for other things in between.

use super::{PATIENCE, Trouble};
use crate::{
    engine::{Engine, EngineError},
    link::{Below, Look, slice},
};

/// Looks at all children.
pub(super) async fn look_below(engine: &Engine) -> Result<Below, Trouble> {
    let (mut look, mut after) = (Look::default(), None);
    loop {
        let (slice, next) = engine.query(PATIENCE, move |state| slice(state, after)).await?;
        look.add(slice);
        after = next;
        if next.is_none() {
            break;
        }
    }
    tokio::task::spawn_blocking(move || Below::from(look)).await.map_err(|_| EngineError::Failed.into())
}
