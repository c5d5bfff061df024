//! What the orders to a router have in common: one command, then what comes of it.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use crate::{Context, context::PATIENCE, problem::Problem, v1::traffic::form::FormInputs};
use domain::{
    release::command::{Command, Reply},
    traffic::{self, OrderAsked, OrderState},
};
use engine::{By, EngineError};
use model::{duration, traffic::OrderWhat};
use protocol::{api::RouterOrder, traffic::MAX_ORDER_TEXT_BYTES};

/// An order is handed out for so long: its agent may be away for a while.
const HANDED_OUT_FOR: Duration = Duration::from_mins(10);

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Waiting {
    /// Answer once the outcome is known, at the latest after this time: `30s`, `500ms`. Without it, at once.
    wait: Option<String>,
}

impl Waiting {
    /// For how long the caller waits.
    pub fn read(&self, ctx: &Context) -> Result<Duration, Problem> {
        let Some(text) = &self.wait else { return Ok(Duration::ZERO) };
        let wrong = || Problem::bad_request("`wait` is a duration, as in 30s, 1m or 500ms");
        let millis = duration::read_millis(text).ok_or_else(wrong)?;
        Ok(Duration::from_millis(millis).min(ctx.settings.max_wait))
    }
}

/// Who is asked for what.
pub struct OrderTarget {
    pub router: String,
    pub what: OrderWhat,
    pub service: Option<String>,
    pub config: Option<String>,
}

/// Puts an order to a router, and answers it with what came of it within the wait.
pub async fn order(
    ctx: &Context,
    asked: OrderTarget,
    by: By,
    wait: Duration,
) -> Result<RouterOrder, Problem> {
    let OrderTarget { router, what, service, config } = asked;
    let is_text = |text: &String| {
        !text.is_empty() && text.len() <= MAX_ORDER_TEXT_BYTES && !text.chars().any(char::is_control)
    };
    if !config.iter().chain(&service).all(is_text) {
        let detail =
            format!("a path or a service has 1 to {MAX_ORDER_TEXT_BYTES} bytes without control characters");
        return Err(Problem::bad_request(detail));
    }
    let within_ms = u64::try_from(HANDED_OUT_FOR.as_millis()).unwrap_or(u64::MAX);
    let asked = OrderAsked { what, service, config, within_ms, by: by.actor.name() };
    let command = Command::Traffic(traffic::Command::Order { child: router.clone(), asked });
    match ctx.engine.call(command, by, PATIENCE).await? {
        Reply::Ordered { number } => outcome(ctx, &router, number, wait).await,
        _ => Err(EngineError::Failed.into()),
    }
}

/// How an order stands, once it is over or the wait is.
pub async fn outcome(
    ctx: &Context,
    router: &str,
    number: u64,
    wait: Duration,
) -> Result<RouterOrder, Problem> {
    let until = Instant::now() + wait;
    let key = ctx.view().children.with(router, |child| child.key);
    let key = key.ok_or_else(|| Problem::unknown_router(router))?;
    let view = ctx.view();
    // Whoever waits looks once more after it has registered; where there are too many it doesn't wait.
    let mut waiter = if wait.is_zero() { None } else { view.waiters.register(key, ctx.settings.max_waiters) };
    loop {
        let order = look(ctx, router, number).await?;
        let Some(waiter) = waiter.as_mut().filter(|_| order.state == OrderState::Open.name()) else {
            return Ok(order);
        };
        tokio::select! {
            woken = timeout_at(until, waiter.woken()) => if woken.is_err() { return Ok(order) },
            () = ctx.stopping.cancelled() => return Ok(order),
        }
    }
}

async fn look(ctx: &Context, router: &str, number: u64) -> Result<RouterOrder, Problem> {
    let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
    let wanted = router.to_owned();
    let found = ctx.engine.read(PATIENCE, move |state| {
        let look = FormInputs { seen: seen.as_ref(), now };
        let known = state.traffic.get(state.children.key(&wanted)?)?;
        Some(known.orders.iter().find(|order| order.number == number).map(|order| look.order(&wanted, order)))
    });
    let known = found.await?.ok_or_else(|| Problem::unknown_router(router))?;
    known.ok_or_else(|| {
        let detail =
            format!("router {router} has no order {number}, or not any more: the last 16 are remembered");
        Problem::new(StatusCode::NOT_FOUND, "unknown-order", detail)
    })
}
