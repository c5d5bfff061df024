//! Which version a call is tried on, and where it goes when that fails it.

use std::rc::Rc;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use traffic::{Failure, Retry};

use super::{
    answer,
    attempt::{AttemptEnd, CallInFlight, Line, Rules, attempt},
    response_head::FailedAttempt,
};
use crate::{
    answer::Own,
    count::{CallCount, Outcome as Counted},
    decide::{self, RoutingDecision, SILENT_TARGETS},
    head::Refusal,
    live::{Place, Protocol, Served},
    pool::{self, FRESH},
    worker::Worker,
};

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered, if only by the proxy. `again`: whole, so that the connection can bring a further call.
    Answered {
        again: bool,
    },
    BrokenOff,
    CallerGone,
}

/// Tries the chosen version, then the stable one where that is allowed.
pub(crate) async fn carry<R, W>(
    call: &mut CallInFlight<'_, R, W>,
    decided: &RoutingDecision,
    mut count: CallCount<'_>,
    worker: &Rc<Worker>,
) -> Outcome
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut served = decided.begin(&mut count);
    loop {
        let (ended, place) = try_version(call, served, decided, worker).await;
        match ended {
            AttemptEnd::Failed(_) => decided.note_attempt(served, true),
            AttemptEnd::Answered { .. } | AttemptEnd::BrokenOff => decided.note_attempt(served, false),
            // Its caller kept it from going anywhere.
            AttemptEnd::CallerGone | AttemptEnd::CallerSlow | AttemptEnd::BadBody(_) => {}
        }
        match ended {
            AttemptEnd::Failed(missed) => {
                let can_be_sent = call.upload.can_be_sent();
                if let Some(stable) = decided.repeat_on(&mut count, served, missed.failure, can_be_sent) {
                    served = stable;
                    continue;
                }
                let shared = served.version.shared();
                Worker::report_failure(shared, served.variation.is_stable(), missed.failure, &missed.text);
                let own = decide::told_of(served, missed.failure, missed.is_full);
                count.end(Counted::Failed(missed.failure), Some(own.status));
                return say(call, &own, worker).await;
            }
            AttemptEnd::Answered { status, counts_as, read, caller_again, again: _ } => {
                let took = count.took(read.at, read.held);
                count.end(Counted::Answered { status: counts_as, took }, Some(status));
                decided.copy(call.watch.take(), status, worker);
                return Outcome::Answered { again: caller_again };
            }
            AttemptEnd::BrokenOff => {
                count.end(Counted::BrokenOff, None);
                return Outcome::BrokenOff;
            }
            AttemptEnd::CallerGone => {
                count.end(Counted::CallerGone, None);
                return Outcome::CallerGone;
            }
            AttemptEnd::CallerSlow => {
                drop(place);
                let why = "the body of the call stood still for too long";
                let own = Own::refusal(Refusal { status: 408, why });
                count.end(Counted::CallerGone, Some(own.status));
                return say(call, &own, worker).await;
            }
            AttemptEnd::BadBody(why) => {
                drop(place);
                let own = Own::refusal(Refusal::bad(why));
                count.end(Counted::BadBody, Some(own.status));
                return say(call, &own, worker).await;
            }
        }
    }
}

/// Answers with what the proxy says itself.
async fn say<R, W>(call: &mut CallInFlight<'_, R, W>, own: &Own, worker: &Worker) -> Outcome
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let stays = call.upload.reader.is_ended() && !worker.is_draining() && call.to.stays();
    match timeout(call.limits.body_idle, call.to.own(own, !stays)).await {
        Ok(Ok(())) => Outcome::Answered { again: stays },
        Ok(Err(_)) | Err(_) => Outcome::CallerGone,
    }
}

/// Tries a version's targets until one takes the call.
async fn try_version<R, W>(
    call: &mut CallInFlight<'_, R, W>,
    served: &Rc<Served>,
    decided: &RoutingDecision,
    worker: &Worker,
) -> (AttemptEnd, Option<Place>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let version = &served.version;
    let Some(place) = Place::take(version, worker.limits()).await else {
        let missed = FailedAttempt::new(Failure::Refused, "all its places are taken");
        return (AttemptEnd::Failed(FailedAttempt { is_full: true, ..missed }), None);
    };
    let rules = Rules {
        status_fails: decided.status_fails(served),
        close: worker.draining(),
        added: answer::added(version.shared().name(), decided.cookie.as_deref()),
    };
    let (mut silent, mut last_error) = (0, None);
    for at in version.targets_in_turn() {
        call.asking.go_below(version.shared().targets()[at].path());
        let tried = match version.shared().protocol() {
            Protocol::Http1 => try_plain(call, served, (at, decided), &rules, worker).await,
            Protocol::H2c => try_http2(call, served, (at, decided), &rules, worker).await,
        };
        match tried {
            Ok(ended) => return (ended, Some(place)),
            Err(error) => {
                worker.note_unreachable();
                silent += usize::from(error.kind() == std::io::ErrorKind::TimedOut);
                last_error = Some(format!("{}: {error}", version.shared().targets()[at]));
            }
        }
        if silent == SILENT_TARGETS {
            break;
        }
    }
    let why = last_error.unwrap_or_else(|| "it has no target".to_owned());
    (AttemptEnd::Failed(FailedAttempt::new(Failure::Refused, why)), Some(place))
}

/// An error is that no connection could be made.
async fn try_plain<R, W>(
    call: &mut CallInFlight<'_, R, W>,
    served: &Rc<Served>,
    (at, decided): (usize, &RoutingDecision),
    rules: &Rules<'_>,
    worker: &Worker,
) -> std::io::Result<AttemptEnd>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let limits = call.limits;
    let idle_less_than = if decided.retry() == Retry::Failed { limits.pooled } else { FRESH };
    let is_shared = decided.header.is_none();
    let pooled = is_shared.then(|| served.version.connections(at).plain.borrow_mut().take(idle_less_than));
    if let Some(stream) = pooled.flatten() {
        let ended = keep(attempt(call, Line::Plain(stream), rules).await, served, at, call);
        if !is_repeated_here(&ended, call, decided.retry()) {
            return Ok(ended);
        }
        decided.note_sent_again(worker.counts(), served);
    }
    let target = &served.version.shared().targets()[at];
    let stream = pool::connect_as(target, decided.header.as_deref(), limits).await?;
    let ended = attempt(call, Line::Plain(stream), rules).await;
    Ok(if is_shared { keep(ended, served, at, call) } else { ended })
}

/// An error is that no connection could be made.
async fn try_http2<R, W>(
    call: &mut CallInFlight<'_, R, W>,
    served: &Rc<Served>,
    (at, decided): (usize, &RoutingDecision),
    rules: &Rules<'_>,
    worker: &Worker,
) -> std::io::Result<AttemptEnd>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let links = &served.version.connections(at).links;
    let target = &served.version.shared().targets()[at];
    let ride = links.take(target, call.limits).await?;
    let is_new = ride.is_new;
    let ended = attempt(call, Line::Ride(ride), rules).await;
    if is_new || !is_repeated_here(&ended, call, decided.retry()) {
        return Ok(ended);
    }
    decided.note_sent_again(worker.counts(), served);
    let ride = links.take(target, call.limits).await?;
    Ok(attempt(call, Line::Ride(ride), rules).await)
}

/// Whether the call is sent to the same version over another connection, since the one that it was sent over had ended.
fn is_repeated_here<R, W>(ended: &AttemptEnd, call: &CallInFlight<'_, R, W>, retry: Retry) -> bool
where
    R: AsyncRead + Unpin,
{
    let AttemptEnd::Failed(missed) = ended else {
        return false;
    };
    let is_harmless = missed.failure == Failure::Refused || retry == Retry::Failed;
    missed.is_of_connection && is_harmless && call.upload.can_be_sent()
}

/// Puts the connection of an attempt into its pool, where it can be used again.
fn keep<R, W>(
    mut ended: AttemptEnd,
    served: &Served,
    target: usize,
    call: &CallInFlight<'_, R, W>,
) -> AttemptEnd {
    if let AttemptEnd::Answered { again, .. } = &mut ended
        && let Some((stream, keeps_idle)) = again.take()
    {
        served.version.connections(target).plain.borrow_mut().put(stream, keeps_idle, call.limits);
    }
    ended
}
