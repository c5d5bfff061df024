//! How long tests wait.

use std::{fmt::Debug, time::Duration};

use tokio::time::{Instant, sleep};

/// How long a test waits for what has to happen. Where it happens nobody waits that long, also on a machine with other work that is several
/// times slower than usual; so one deadline is enough for all, and nothing is concluded from it but that a test has failed.
pub const DEADLINE: Duration = Duration::from_mins(4);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(10);

/// Asks until it is so; the answer that was expected. Panics with the last one.
pub async fn until<T: Debug>(
    what: &str,
    mut ask: impl AsyncFnMut() -> T,
    is_expected: impl Fn(&T) -> bool,
) -> T {
    let began = Instant::now();
    loop {
        let answer = ask().await;
        if is_expected(&answer) {
            return answer;
        }
        assert!(began.elapsed() < DEADLINE, "{what} never was as expected: {answer:#?}");
        sleep(PAUSE).await;
    }
}
