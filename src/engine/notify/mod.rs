//! Carries out the effects of the outbox: tells webhooks how releases ended.
//!
//! An effect is stored in the commit that causes it and removed when it is carried out, so it is carried out at
//! least once, also across a crash. A webhook that does not answer delays no other: each call has a task.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Engine,
    effect::{PendingEffect, Webhook},
};

/// A webhook has this long to answer.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The first wait after a failed call; each following one is twice as long.
pub const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The longest wait between two calls.
pub const LONGEST_RETRY: Duration = Duration::from_mins(5);

/// An effect that has waited longer than this, in serving time, is given up, with a line in the log.
pub const GIVE_UP_AFTER: Duration = Duration::from_hours(24);

/// Webhook calls at once.
const MAX_CALLS: usize = 16;

/// Carries effects out as they come, until `stop` or until the engine is gone. What is not done then is left in
/// the store for the next life.
pub fn run(
    engine: Engine,
    effects: mpsc::UnboundedReceiver<PendingEffect<Webhook>>,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(carry_out_all(engine, effects, stop))
}

async fn carry_out_all(
    engine: Engine,
    mut effects: mpsc::UnboundedReceiver<PendingEffect<Webhook>>,
    stop: CancellationToken,
) {
    // A redirect is not followed: what was told to one address is not for another that this one chooses.
    let client = reqwest::Client::builder().timeout(CALL_TIMEOUT).redirect(reqwest::redirect::Policy::none());
    let client = match client.build() {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "webhooks can't be called; their calls stay in the store");
            return;
        }
    };
    let slots = Arc::new(Semaphore::new(MAX_CALLS));
    let mut calls = JoinSet::new();
    loop {
        let effect = tokio::select! {
            effect = effects.recv() => effect,
            () = stop.cancelled() => None,
        };
        let Some(effect) = effect else { break };
        let (engine, client, slots) = (engine.clone(), client.clone(), Arc::clone(&slots));
        calls.spawn(async move {
            carry_out(&engine, &client, &slots, &effect).await;
            // If the engine is gone, the effect is left to the next life.
            let _ = engine.effects_done(vec![effect.row]).await;
        });
        while calls.try_join_next().is_some() {}
    }
    calls.shutdown().await;
}

async fn carry_out(
    engine: &Engine,
    client: &reqwest::Client,
    slots: &Semaphore,
    effect: &PendingEffect<Webhook>,
) {
    let mut wait = FIRST_RETRY;
    loop {
        let Err(why) = call(client, slots, effect.row, &effect.what).await else { return };
        if Duration::from_millis(effect.age_ms(engine.clock().served_ms())) > GIVE_UP_AFTER {
            tracing::error!(id = effect.row, why, "a webhook was not reached in time and is given up");
            return;
        }
        tracing::warn!(id = effect.row, why, "a webhook was not reached; it is called again");
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_RETRY);
    }
}

/// One call. The error names no URL: it may hold a secret.
async fn call(client: &reqwest::Client, slots: &Semaphore, id: u64, hook: &Webhook) -> Result<(), String> {
    let _slot = slots.acquire().await.map_err(|e| e.to_string())?;
    let sent = client
        .post(&hook.url)
        .header("Idempotency-Key", id.to_string())
        .json(&hook.body)
        .send()
        .await
        .map_err(|e| e.without_url().to_string())?;
    if sent.status().is_success() {
        return Ok(());
    }
    Err(format!("it answered {}", sent.status()))
}
