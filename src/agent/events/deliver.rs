//! What waits is handed over, in its order: one task for each instance and target between which something waits.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    basics::{lock, now_ms},
    event::{Event, Outcome, PATIENCE},
    headers::{AGE, FROM, LOGICAL, NODE, NUMBER, OUTPUT, SIGNATURE},
    inner::Inner,
    routes::Route,
    store::{Waiting, Write},
};

/// The first pause after a target has not taken an event, and the longest.
const AGAIN: Duration = Duration::from_millis(20);
const AGAIN_AT_LAST: Duration = Duration::from_secs(1);

/// Sees to it that what waits between the two is handed over.
pub(super) fn begin(inner: &Arc<Inner>, from: String, to: String) {
    if lock(&inner.busy).insert((from.clone(), to.clone())) {
        let mut deliveries = lock(&inner.deliveries);
        while deliveries.try_join_next().is_some() {}
        let inner = Arc::clone(inner);
        deliveries.spawn(async move { hand_over(&inner, from, to).await });
    }
}

async fn hand_over(inner: &Arc<Inner>, from: String, to: String) {
    let mut routes = inner.routes.subscribe();
    let mut failures = 0_u32;
    loop {
        let waiting = match inner.store.first(&from, &to) {
            Ok(Some(waiting)) => waiting,
            Ok(None) => {
                let mut busy = lock(&inner.busy);
                // One that was put out just now has seen that somebody is busy with it.
                if inner.store.first(&from, &to).is_ok_and(|first| first.is_none()) {
                    busy.remove(&(from, to));
                    return;
                }
                continue;
            }
            Err(error) => {
                tracing::error!(%error, "events that wait can't be read");
                sleep(AGAIN_AT_LAST).await;
                continue;
            }
        };
        let route = routes.borrow_and_update().route(&from, &to);
        let is_done = match route {
            Route::Nobody => {
                tracing::info!(
                    from,
                    to,
                    number = waiting.number,
                    "an event is dropped: nobody is its target any more"
                );
                true
            }
            Route::Unknown => false,
            Route::To(target) => {
                match attempt(inner, &target.part, target.url.as_deref(), &target.key, &from, &waiting).await
                {
                    Outcome::Taken => true,
                    Outcome::Refused(why) => {
                        tracing::warn!(
                            from,
                            to,
                            number = waiting.number,
                            "an event is dropped: its target refuses it: {why}"
                        );
                        true
                    }
                    Outcome::Later(why) => {
                        if failures == 0 {
                            tracing::debug!(from, to, "an event waits: {why}");
                        }
                        false
                    }
                }
            }
        };
        if is_done {
            let Waiting { number, body, .. } = &waiting;
            let (bytes, number) = (body.len() as u64, *number);
            let sent = Write::Sent { from: from.clone(), to: to.clone(), number, bytes };
            if let Err(error) = inner.store.write(sent).await {
                tracing::error!(%error, "that an event was handed over can't be written");
                sleep(AGAIN_AT_LAST).await;
            }
            failures = 0;
            continue;
        }
        let pause = AGAIN.saturating_mul(1 << failures.min(10)).min(AGAIN_AT_LAST);
        failures = failures.saturating_add(1);
        // Whoever has moved is found at once.
        if timeout(pause, routes.changed()).await.is_ok_and(|changed| changed.is_ok()) {
            failures = 0;
        }
    }
}

async fn attempt(
    inner: &Arc<Inner>,
    part: &str,
    url: Option<&str>,
    key: &str,
    from: &str,
    waiting: &Waiting,
) -> Outcome {
    let Waiting { number, output, logical, at_ms, body } = waiting;
    let (routes, number) = (Arc::clone(&inner.routes.borrow()), *number);
    // Both by this machine's clock; whoever takes it has another one.
    let age_ms = u64::try_from(now_ms() - at_ms).unwrap_or(0);
    let node = &*routes.node;
    let event = Event { part, node, from, logical, number, output, age_ms, body };
    if routes.part(part).is_some() {
        return inner.take(&event).await;
    }
    let Some(url) = url else { return Outcome::Later("its target runs nowhere".to_owned()) };
    let request = inner
        .client
        .post(format!("{url}/events/{part}"))
        .timeout(PATIENCE + Duration::from_secs(5))
        .header(NODE, node)
        .header(FROM, from)
        .header(LOGICAL, logical)
        .header(NUMBER, number)
        .header(AGE, age_ms)
        .header(OUTPUT, output)
        .header(SIGNATURE, event.sign(key))
        .body(body.clone());
    match request.send().await {
        Ok(answer) if answer.status().is_success() => Outcome::Taken,
        Ok(answer) if answer.status() == reqwest::StatusCode::UNPROCESSABLE_ENTITY => {
            Outcome::Refused(answer.text().await.unwrap_or_default())
        }
        Ok(answer) => Outcome::Later(format!("its node answers {}", answer.status())),
        Err(error) => Outcome::Later(error.to_string()),
    }
}
