//! Calls at which deployed agents exit on an error: trouble that passes is waited for.

use std::time::Duration;

use tokio::time::timeout;

use crate::{Context, context::OFFER_PATIENCE};

/// Between two tries, unless the store is heard to take commits again before.
const RETRY_EVERY: Duration = Duration::from_millis(250);

/// Tries until there is an answer that another try would not change; a try without one had trouble that passes. `None`: it
/// has not passed within [`OFFER_PATIENCE`].
pub(super) async fn until_answered<T, F>(ctx: &Context, mut attempt: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Option<T>>,
{
    let trying = async {
        loop {
            if let Some(answer) = attempt().await {
                return answer;
            }
            ctx.view().until_recovered(RETRY_EVERY).await;
        }
    };
    timeout(OFFER_PATIENCE, trying).await.ok()
}
