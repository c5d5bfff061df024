//! `?wait=30s` at `/poll` and `/end_stage`: the answer comes as soon as it would be another one, or after the wait.
//!
//! Deployed agents never send it; between managers it lets a signal cross a level in milliseconds. What a waiting
//! call sees is what is published, and that is committed: waiting reveals nothing that a crash could undo.
//!
//! A call that waits is a call of its child all the time; one that is answered was heard of once more then.

use std::{future::pending, time::Duration};

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::{caller::check_standing, refused::Refused};
use crate::Context;
use engine::waiters::Waiter;
use model::duration;

/// Longest wait, unless configured otherwise. Who asks for more waits for so long.
pub const MAX_WAIT: Duration = Duration::from_mins(1);

/// Calls that may wait at once, unless configured otherwise; more are answered at once.
pub const MAX_WAITERS: usize = 20_000;

/// Longest part of a value that a refusal repeats, in characters.
const MAX_SHOWN_CHARS: usize = 40;

/// How long the caller is willing to wait; `None`: not at all.
#[derive(Debug)]
pub(super) struct Wait(pub Option<Duration>);

#[derive(Debug, Deserialize)]
struct Parameters {
    wait: Option<String>,
}

impl FromRequestParts<Context> for Wait {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, ctx: &Context) -> Result<Self, Refused> {
        // Deployed agents send no query, and this is all that it costs them.
        if parts.uri.query().is_none() {
            return Ok(Self(None));
        }
        let Query(Parameters { wait }) =
            Query::try_from_uri(&parts.uri).map_err(|error| Refused::bad(error.body_text()))?;
        let Some(text) = wait else { return Ok(Self(None)) };
        let millis = duration::read_millis(&text).ok_or_else(|| {
            let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
            Refused::bad(format!("`wait` is a duration, as in 30s, 1m or 500ms, not {shown:?}"))
        })?;
        let wait = Duration::from_millis(millis).min(ctx.settings.max_wait);
        Ok(Self((!wait.is_zero()).then_some(wait)))
    }
}

/// A call that has begun to wait. It looks for itself; this says when a look is worth it.
pub(super) struct WaitingCall<'c> {
    ctx: &'c Context,
    child: &'c str,
    waiter: Waiter<'c>,
    until: Instant,
}

impl<'c> WaitingCall<'c> {
    /// From now on nothing is missed: the caller looks once more before it waits. `None`: the child is not known, or
    /// too many wait already.
    pub fn begin(ctx: &'c Context, child: &'c str, wait: Duration) -> Option<Self> {
        let view = ctx.view();
        let key = view.children.with(child, |entry| entry.key)?;
        let waiter = view.waiters.register(key, ctx.settings.max_waiters)?;
        Some(Self { ctx, child, waiter, until: Instant::now() + wait })
    }

    /// Waits until another look is worth it. False: there was the last one.
    pub async fn again(&mut self) -> Result<bool, Refused> {
        self.again_or(pending()).await
    }

    /// Waits until another look is worth it, which it is also when `other` ends. False: there was the last one.
    pub async fn again_or(&mut self, other: impl Future<Output = ()>) -> Result<bool, Refused> {
        let (view, stopping) = (self.ctx.view(), &self.ctx.stopping);
        check_standing(self.ctx, self.child)?;
        if Instant::now() >= self.until || stopping.is_cancelled() {
            return Ok(false);
        }
        // Nobody tells when the lease runs out, it just does; and nothing may be answered then.
        let until = self.until.min(Instant::now() + self.ctx.engine.clock().lease_left());
        tokio::select! {
            () = self.waiter.woken() => {}
            () = other => {}
            () = sleep_until(until) => {}
            () = stopping.cancelled() => {}
        }
        let served_ms = self.ctx.served_ms();
        if !self.ctx.is_serving() {
            return Err(Refused::unavailable(self.ctx));
        }
        check_standing(self.ctx, self.child)?;
        view.children.with(self.child, |entry| entry.touch(served_ms));
        Ok(true)
    }
}
