use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Nothing that is waited for takes longer, also where versions start and the machine has other work.
const LONGEST: Duration = Duration::from_mins(3);

/// Waits until something is so.
pub async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + LONGEST;
    while !is_so().await {
        assert!(Instant::now() < until, "waited in vain until {what}");
        sleep(Duration::from_millis(1)).await;
    }
}
