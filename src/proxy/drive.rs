//! A call from its head to the end of its answer: which version gets it, and where it goes when that fails it.

use std::{io, net::IpAddr, rc::Rc};

use bytes::{Buf, BytesMut};
use tokio::time::Instant;
use traffic::{Choice, Failure, Retry, may_repeat};

use crate::{
    Limits,
    access_log::Line,
    answer::Own,
    call::Call,
    connection::Caller,
    count::{CallCount, Outcome, Unserved},
    exchange::{Detail, Ended, Rules},
    head::{Asked, Forwarded, Refusal, Request},
    live::{Place, Served},
    patience::Patience,
    pool::{self, FRESH},
    stream::Stream,
    tunnel,
    worker::Worker,
};

/// How many targets of a version a call waits for that don't even refuse a connection.
const SILENT_TARGETS: usize = 3;

/// What becomes of the caller's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It can bring a further call.
    Call,
    /// It is closed at once.
    Close,
    /// It is closed when the caller has read the answer: what it still sends is read for a while.
    Linger,
}

/// A call that was read and given to a version.
struct Prepared {
    asked: Asked,
    /// The head as the versions get it.
    head: Vec<u8>,
    chosen: Rc<Served>,
    /// Where it goes if the chosen version fails it; none where that is the stable one already.
    stable: Option<Rc<Served>>,
    retry: Retry,
    /// A header asked for the chosen one.
    by_header: bool,
    /// Of the call's key, among all keys.
    group: Option<u8>,
    line: Option<Box<Line>>,
    /// `Set-Cookie` with its line end.
    cookie: Vec<u8>,
}

/// Carries a call out.
pub(crate) async fn call<S: Stream>(
    stream: &mut S,
    inbox: &mut BytesMut,
    patience: &mut Patience,
    caller: Caller,
    worker: &Worker,
) -> Next {
    let began = Instant::now();
    match prepare(inbox, caller, worker) {
        Ok(mut prepared) => {
            inbox.advance(prepared.asked.head_len);
            let kept = (prepared.retry == Retry::Failed).then(|| worker.kept());
            let counted = prepared.chosen.counted(prepared.by_header);
            let count = worker.counts().begin(counted, prepared.group, began, prepared.line.take());
            let head = (prepared.asked, &*prepared.head);
            let mut call = Call::new((stream, inbox, patience), worker.limits(), head, kept);
            drive(&mut call, &prepared, count, worker).await
        }
        Err((own, Some(asked))) => {
            worker.counts().note_unserved(Unserved::NoService);
            inbox.advance(asked.head_len);
            let mut call = Call::new((stream, inbox, patience), worker.limits(), (asked, &[]), None);
            answer(&mut call, &own, worker).await
        }
        Err((own, None)) => {
            worker.counts().note_unserved(Unserved::Refused);
            let written = patience.write_all(stream, &own.write(None, true), worker.limits().body_idle).await;
            if written.is_ok() { Next::Linger } else { Next::Close }
        }
    }
}

/// Tries the chosen version, then the stable one where that is allowed.
async fn drive<S: Stream>(
    call: &mut Call<'_, S>,
    prepared: &Prepared,
    mut count: CallCount<'_>,
    worker: &Worker,
) -> Next {
    let chosen = &prepared.chosen;
    let mut served = chosen;
    if let Some(stable) = &prepared.stable
        && chosen.version.is_passed_over()
    {
        count.pass_over();
        served = stable;
    }
    loop {
        let stable = prepared.stable.as_ref().filter(|_| Rc::ptr_eq(served, chosen));
        let (ended, place) = try_version(call, served, prepared, stable.is_some(), worker).await;
        if stable.is_some() {
            note_recent(chosen, &ended);
        }
        return match ended {
            Ended::Failed(failure, detail) => {
                drop(place);
                let untouched = failure == Failure::Refused && !call.has_begun();
                if let Some(stable) = stable
                    && may_repeat(prepared.retry, failure)
                    && (untouched || call.can_be_sent_again())
                {
                    count.repeat(failure);
                    served = stable;
                    continue;
                }
                let is_base = served.variation.is_stable();
                Worker::report_failure(served.version.shared(), is_base, failure, &detail.text);
                let own = failure_answer(served, failure, &detail);
                count.end(Outcome::Failed(failure), Some(own.status));
                answer(call, &own, worker).await
            }
            Ended::Answered { answered, again: _, caller_again, read } => {
                let took = count.took(read.at, read.held);
                count.end(Outcome::Answered { status: answered.status, took }, Some(answered.status));
                if caller_again { Next::Call } else { Next::Linger }
            }
            Ended::Upgraded { stream, came } => {
                count.end(Outcome::Upgraded, Some(101));
                tunnel::run((call.caller, call.inbox), (stream, came), call.limits).await;
                drop(place);
                Next::Close
            }
            Ended::BrokenOff => {
                count.end(Outcome::BrokenOff, None);
                Next::Close
            }
            Ended::CallerGone => {
                count.end(Outcome::CallerGone, None);
                Next::Close
            }
            Ended::CallerSlow => {
                drop(place);
                let why = "the body of the call stood still for too long";
                let own = Own::refusal(Refusal { status: 408, why });
                count.end(Outcome::CallerGone, Some(own.status));
                answer(call, &own, worker).await
            }
            Ended::BadBody(fault) => {
                drop(place);
                let own = Own::refusal(Refusal::bad(fault.0));
                count.end(Outcome::BadBody, Some(own.status));
                answer(call, &own, worker).await
            }
        };
    }
}

/// Notes how a call of a new version went, unless its caller kept it from going anywhere.
fn note_recent(chosen: &Served, ended: &Ended) {
    match ended {
        Ended::Failed(..) => chosen.version.note(true),
        Ended::Answered { .. } | Ended::BrokenOff | Ended::Upgraded { .. } => chosen.version.note(false),
        Ended::CallerGone | Ended::CallerSlow | Ended::BadBody(_) => {}
    }
}

/// Tries a version's targets until one takes the call.
async fn try_version<S: Stream>(
    call: &mut Call<'_, S>,
    served: &Rc<Served>,
    prepared: &Prepared,
    can_go_elsewhere: bool,
    worker: &Worker,
) -> (Ended, Option<Place>) {
    let limits = worker.limits();
    let version = &served.version;
    let Some(place) = Place::take(version, limits).await else {
        return (refused("all its places are taken", true), None);
    };
    let rules = Rules {
        status_fails: can_go_elsewhere && may_repeat(prepared.retry, Failure::Status),
        fields: [&served.field, &prepared.cookie],
        close: worker.draining(),
    };
    let idle_less_than = if prepared.retry == Retry::Failed { limits.pooled } else { FRESH };
    let targets = version.shared().targets();
    let first = version.next_target();
    let mut silent = 0;
    let mut last_error = None;
    for at in (0..targets.len()).map(|next| (first + next) % targets.len()) {
        let pooled = version.pool(at).borrow_mut().take(idle_less_than);
        if let Some(stream) = pooled {
            let ended = keep(call.attempt(stream, &rules).await, served, at, limits);
            let went_stale = matches!(&ended, Ended::Failed(Failure::Died, detail) if detail.nothing_came);
            if !(went_stale && call.can_be_sent_again()) {
                return (ended, Some(place));
            }
            worker.counts().note_sent_again(served.counted(prepared.by_header));
        }
        match pool::connect(&targets[at], limits).await {
            Ok(stream) => return (keep(call.attempt(stream, &rules).await, served, at, limits), Some(place)),
            Err(error) => {
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

fn refused(why: &str, is_full: bool) -> Ended {
    Ended::Failed(Failure::Refused, Detail { is_full, ..Detail::new(why) })
}

/// Puts the connection of an attempt into its pool, where it can be used again.
fn keep(mut ended: Ended, served: &Served, target: usize, limits: &Limits) -> Ended {
    if let Some((stream, keeps_idle)) = ended.take_connection() {
        served.version.pool(target).borrow_mut().put(stream, keeps_idle, limits);
    }
    ended
}

/// What the caller is told when a version failed its call. Addresses and the like stand in the log alone.
fn failure_answer(served: &Served, failure: Failure, detail: &Detail) -> Own {
    let (status, why) = match failure {
        Failure::Refused if detail.is_full => (503, "all its places are taken"),
        Failure::Refused => (502, "no connection to it could be made"),
        Failure::Died => (502, "it ended the connection before its answer was there"),
        Failure::TimedOut => (504, "it took too long"),
        Failure::Nonsense => (502, "what it answered is no HTTP with one meaning"),
        Failure::Status => (502, "it answered with a server error"),
    };
    Own {
        status,
        error: failure.name(),
        text: format!("version {:?} did not answer this call: {why}", served.version.shared().name()),
        retry_after: detail.is_full.then_some(1),
    }
}

/// Answers a call that nothing was passed on of. The next one can follow where no more of this one comes.
async fn answer<S: Stream>(call: &mut Call<'_, S>, own: &Own, worker: &Worker) -> Next {
    let stays = call.discard_rest() && call.asked.keep_alive && !worker.is_draining();
    let bytes = own.write(Some(&call.asked), !stays);
    match (call.patience.write_all(call.caller, &bytes, call.limits.body_idle).await, stays) {
        (Ok(()), true) => Next::Call,
        (Ok(()), false) => Next::Linger,
        (Err(_), _) => Next::Close,
    }
}

/// Reads the head, finds the service and the version, and writes the head that the version gets.
fn prepare(inbox: &BytesMut, caller: Caller, worker: &Worker) -> Result<Prepared, (Own, Option<Asked>)> {
    let mut room = Request::room();
    let request = match Request::read(inbox, &mut room, worker.limits()) {
        Ok(Some(request)) => request,
        Ok(None) => return Err((Own::refusal(Refusal::bad("this isn't HTTP")), None)),
        Err(refusal) => return Err((Own::refusal(refusal), None)),
    };
    let asked = request.asked;
    let local = worker.local();
    let Some(route) = local.table().route(request.host, request.target) else {
        let text = "no service has this host or path".to_owned();
        return Err((Own { status: 404, error: "no_service", text, retry_after: None }, Some(asked)));
    };
    let service = local.service(route.index);
    let shared = service.shared();
    let choice = shared.choose(&Seen { request: &request, address: caller.address }, || fastrand::u64(..));
    let chosen = Rc::clone(service.served(choice.variation));
    let stable =
        (!choice.variation.is_stable()).then(|| Rc::clone(service.served(traffic::Variation::STABLE)));
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
    Ok(Prepared {
        asked,
        head,
        chosen,
        stable,
        retry: shared.retry(request.method),
        by_header: choice.by_header,
        group: choice.group,
        line,
        cookie: cookie(shared.sticky(), &choice),
    })
}

/// The field that gives a caller the key with which the choice stays.
fn cookie(sticky: Option<&traffic::Sticky>, choice: &Choice) -> Vec<u8> {
    match (sticky, choice.new_cookie()) {
        (Some(traffic::Sticky::Cookie(name)), Some(key)) => {
            format!("Set-Cookie: {name}={key}; Path=/; HttpOnly; SameSite=Lax\r\n").into_bytes()
        }
        _ => Vec::new(),
    }
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
