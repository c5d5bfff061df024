//! Whether a version answers.

use std::time::Duration;

use proxy::live::Target;
use tokio::time::{Instant, sleep, timeout};

use super::{
    super::{Health, Phase, check, error::Fault},
    ask, listeners,
    run::Run,
    shim::Status,
    tree,
};

/// Waits until a version answers whose processes' environment holds this entry. `before` is how often it had been started again when that began.
pub(super) async fn until_healthy(
    run: &Run,
    (target, entry): (&Target, &str),
    health: &Health,
    before: u64,
) -> Result<Status, Fault> {
    let until = Instant::now() + health.give_up;
    let mut passed = 0;
    loop {
        let status = ask::status(run).await?;
        if let Some(exit) = status.last_exit.clone()
            && (status.phase == Phase::Pauses || status.restarts > before)
        {
            return Err(Fault::DiedAtOnce { exit, log: run.tail() });
        }
        let check = is_healthy(target, health.path.as_deref(), (status.shim, entry));
        let check = timeout(health.timeout, check);
        let why = match check.await {
            Ok(Ok(())) => {
                passed += 1;
                None
            }
            Ok(Err(why)) => Some(why),
            Err(_) => Some(format!("no answer within {} ms", health.timeout.as_millis())),
        };
        if passed >= health.healthy_after.max(1) {
            return Ok(status);
        }
        if why.is_some() {
            passed = 0;
        }
        if Instant::now() >= until {
            let why = why.unwrap_or_else(|| "not as often in a row as it has to be".to_owned());
            return Err(Fault::NeverHealthy { after: health.give_up, why, log: run.tail() });
        }
        sleep(health.interval).await;
    }
}

async fn is_healthy(target: &Target, path: Option<&str>, (shim, entry): (u32, &str)) -> Result<(), String> {
    if let Target::Tcp(address) = target {
        // Somebody else may answer there.
        let mut ports = listeners::ports(&tree::descendants(shim));
        if !ports.contains(&address.port()) {
            // Another shim may have started it.
            let marked: Vec<u32> = tree::marked_with_descendants(entry).into_iter().collect();
            ports.extend(listeners::ports(&marked));
        }
        if !ports.contains(&address.port()) {
            let others = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            return Err(match others.as_str() {
                "" => format!("it doesn't listen on $PORT, which is {}", address.port()),
                others => format!("it listens on {others}, not on $PORT, which is {}", address.port()),
            });
        }
    }
    check::answers(target, path).await
}

/// How long a version that did not become healthy has to end.
pub(super) const SHORT_GRACE: Duration = Duration::from_secs(1);
