//! A call from its head to the end of its answer: which version gets it, and where it goes when that fails it.

use std::{io, net::IpAddr, rc::Rc};

use bytes::{Buf, BytesMut};
use tokio::time::Instant;
use traffic::{Failure, Retry};

use crate::{
    Limits,
    access_log::Line,
    answer::Own,
    call::Call,
    caller::{Caller, Next},
    connection_timeout::ConnectionTimeout,
    count::{CallCount, Outcome, Unserved},
    decide::{self, RoutingDecision, SILENT_TARGETS},
    exchange::{AttemptEnd, Detail, Rules},
    head::{Forwarded, Refusal, Request, RequestSummary},
    http2,
    live::{Place, Served},
    pool::{self, FRESH},
    stream::Stream,
    tunnel::{self, Idle},
    worker::Worker,
};

/// A call that was read and given to a version.
struct Prepared {
    asked: RequestSummary,
    /// The head as the versions get it.
    head: Vec<u8>,
    decided: RoutingDecision,
    line: Option<Box<Line>>,
}

/// Carries a call out.
pub(crate) async fn call<S: Stream>(
    stream: &mut S,
    inbox: &mut BytesMut,
    time_limit: &mut ConnectionTimeout,
    caller: Caller,
    worker: &Rc<Worker>,
) -> Next {
    let began = Instant::now();
    match prepare(inbox, caller, worker) {
        Ok(mut prepared) => {
            inbox.advance(prepared.asked.head_len);
            let decided = &prepared.decided;
            let count = decided.count(worker.counts(), began, prepared.line.take());
            let head = (prepared.asked, &*prepared.head);
            if decided.may_need_http2() {
                return Box::pin(http2::bridge((stream, inbox), head, decided, count, worker)).await;
            }
            let is_kept = decided.retry() == Retry::Failed;
            let mut call = Call::new((stream, inbox, time_limit), worker, head, is_kept);
            call.watch = prepared.decided.watch(prepared.asked, || prepared.head.clone());
            drive(&mut call, &prepared, count, worker).await
        }
        Err((own, Some(asked))) => {
            worker.counts().note_unserved(Unserved::NoService);
            inbox.advance(asked.head_len);
            let mut call = Call::new((stream, inbox, time_limit), worker, (asked, &[]), false);
            answer(&mut call, &own, worker).await
        }
        Err((own, None)) => {
            worker.counts().note_unserved(Unserved::Refused);
            let written =
                time_limit.write_all(stream, &own.write(None, true), worker.limits().body_idle).await;
            if written.is_ok() { Next::Linger } else { Next::Close }
        }
    }
}

/// Tries the chosen version, then the stable one where that is allowed.
async fn drive<S: Stream>(
    call: &mut Call<'_, S>,
    prepared: &Prepared,
    mut count: CallCount<'_>,
    worker: &Rc<Worker>,
) -> Next {
    let decided = &prepared.decided;
    let mut served = decided.begin(&mut count);
    loop {
        let (ended, place) = try_version(call, served, decided, worker).await;
        if let Some(failed) = was_failed(&ended) {
            decided.note_attempt(served, failed);
        }
        return match ended {
            AttemptEnd::Failed(failure, detail) => {
                drop(place);
                let untouched = failure == Failure::Refused && !call.has_begun();
                let can_be_sent = untouched || call.can_be_sent_again();
                if let Some(stable) = decided.repeat_on(&mut count, served, failure, can_be_sent) {
                    served = stable;
                    continue;
                }
                let is_base = served.variation.is_stable();
                Worker::report_failure(served.version.shared(), is_base, failure, &detail.text);
                let own = decide::told_of(served, failure, detail.is_full);
                count.end(Outcome::Failed(failure), Some(own.status));
                answer(call, &own, worker).await
            }
            AttemptEnd::Answered { answered, again: _, caller_again, read } => {
                let took = count.took(read.at, read.held);
                count.end(Outcome::Answered { status: answered.status, took }, Some(answered.status));
                decided.copy(call.watch.take(), answered.status, worker);
                if caller_again { Next::Call } else { Next::Linger }
            }
            AttemptEnd::Upgraded { stream, came } => {
                count.end(Outcome::Upgraded, Some(101));
                let idle = Idle::of_upgraded(call.limits);
                tunnel::run((call.caller, call.inbox), (stream, came), (idle, call.buffers)).await;
                drop(place);
                Next::Close
            }
            AttemptEnd::BrokenOff => {
                count.end(Outcome::BrokenOff, None);
                Next::Close
            }
            AttemptEnd::CallerGone => {
                count.end(Outcome::CallerGone, None);
                Next::Close
            }
            AttemptEnd::CallerSlow => {
                drop(place);
                let why = "the body of the call stood still for too long";
                let own = Own::refusal(Refusal { status: 408, why });
                count.end(Outcome::CallerGone, Some(own.status));
                answer(call, &own, worker).await
            }
            AttemptEnd::BadBody(fault) => {
                drop(place);
                let own = Own::refusal(Refusal::bad(fault.0));
                count.end(Outcome::BadBody, Some(own.status));
                answer(call, &own, worker).await
            }
        };
    }
}

/// Whether the version failed the call; nothing where its caller kept it from going anywhere.
fn was_failed(ended: &AttemptEnd) -> Option<bool> {
    match ended {
        AttemptEnd::Failed(..) => Some(true),
        AttemptEnd::Answered { .. } | AttemptEnd::BrokenOff | AttemptEnd::Upgraded { .. } => Some(false),
        AttemptEnd::CallerGone | AttemptEnd::CallerSlow | AttemptEnd::BadBody(_) => None,
    }
}

/// Tries a version's targets until one takes the call.
async fn try_version<S: Stream>(
    call: &mut Call<'_, S>,
    served: &Rc<Served>,
    decided: &RoutingDecision,
    worker: &Worker,
) -> (AttemptEnd, Option<Place>) {
    let limits = worker.limits();
    let version = &served.version;
    let Some(place) = Place::take(version, limits).await else {
        return (refused("all its places are taken", true), None);
    };
    let cookie = decided.cookie_field();
    let rules = Rules {
        status_fails: decided.status_fails(served),
        fields: [&served.field, &cookie],
        close: worker.draining(),
    };
    let idle_less_than = if decided.retry() == Retry::Failed { limits.pooled } else { FRESH };
    let targets = version.shared().targets();
    let mut silent = 0;
    let mut last_error = None;
    for at in version.targets_in_turn() {
        call.go_below(targets[at].path());
        let is_shared = decided.header.is_none();
        let pooled = is_shared.then(|| version.connections(at).plain.borrow_mut().take(idle_less_than));
        if let Some(stream) = pooled.flatten() {
            let ended = keep(call.attempt(stream, &rules).await, served, at, limits);
            let went_stale =
                matches!(&ended, AttemptEnd::Failed(Failure::Died, detail) if detail.nothing_came);
            if !(went_stale && call.can_be_sent_again()) {
                return (ended, Some(place));
            }
            decided.note_sent_again(worker.counts(), served);
        }
        match pool::connect_as(&targets[at], decided.header.as_deref(), limits).await {
            Ok(stream) => {
                let ended = call.attempt(stream, &rules).await;
                let ended = if is_shared { keep(ended, served, at, limits) } else { ended };
                return (ended, Some(place));
            }
            Err(error) => {
                worker.note_unreachable();
                silent += usize::from(error.kind() == io::ErrorKind::TimedOut);
                last_error = Some(format!("{}: {error}", targets[at]));
            }
        }
        if silent == SILENT_TARGETS {
            break;
        }
    }
    (refused(last_error.as_deref().unwrap_or("it has no target"), false), Some(place))
}

fn refused(why: &str, is_full: bool) -> AttemptEnd {
    AttemptEnd::Failed(Failure::Refused, Detail { is_full, ..Detail::new(why) })
}

/// Puts the connection of an attempt into its pool, where it can be used again.
fn keep(mut ended: AttemptEnd, served: &Served, target: usize, limits: &Limits) -> AttemptEnd {
    if let Some((stream, keeps_idle)) = ended.take_connection() {
        served.version.connections(target).plain.borrow_mut().put(stream, keeps_idle, limits);
    }
    ended
}

/// Answers a call that nothing was passed on of. The next one can follow where no more of this one comes.
async fn answer<S: Stream>(call: &mut Call<'_, S>, own: &Own, worker: &Worker) -> Next {
    let stays = call.discard_rest() && call.asked.keep_alive && !worker.is_draining();
    let bytes = own.write(Some(&call.asked), !stays);
    match (call.time_limit.write_all(call.caller, &bytes, call.limits.body_idle).await, stays) {
        (Ok(()), true) => Next::Call,
        (Ok(()), false) => Next::Linger,
        (Err(_), _) => Next::Close,
    }
}

/// Reads the head, finds the service and the version, and writes the head that the version gets.
fn prepare(
    inbox: &BytesMut,
    caller: Caller,
    worker: &Worker,
) -> Result<Prepared, (Own, Option<RequestSummary>)> {
    let mut room = Request::room();
    let request = match Request::read(inbox, &mut room, worker.limits()) {
        Ok(Some(request)) => request,
        Ok(None) => return Err((Own::refusal(Refusal::bad("this isn't HTTP")), None)),
        Err(refusal) => return Err((Own::refusal(refusal), None)),
    };
    let asked = request.asked;
    let Some((local, route)) = worker.route((caller.port, request.host), request.target) else {
        return Err((Own::no_service(), Some(asked)));
    };
    let seen = Seen { request: &request, address: caller.address };
    let decided = RoutingDecision::new(&local, route.index, (&seen, &caller), request.method);
    let number = (local.table().epoch(), local.table().generation());
    let line = worker.log().map(|log| Box::new(log.line(request.field("traceparent"), number)));
    let mut head = Vec::new();
    let added = Forwarded {
        caller: caller.address,
        scheme: caller.scheme,
        target: route.target,
        prefix: route.prefix,
    };
    request.write(added, &mut head);
    Ok(Prepared { asked, head, decided, line })
}

/// A request as the choice of a variation sees it.
struct Seen<'s, 'h, 'f> {
    request: &'s Request<'h, 'f>,
    address: IpAddr,
}

impl traffic::Call for Seen<'_, '_, '_> {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.request.field(name)
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        self.request.cookie(name)
    }

    fn address(&self) -> IpAddr {
        self.address
    }
}
