//! A call from its head to the end of its answer: which version gets it, and where it goes when that fails it.

use std::{net::IpAddr, rc::Rc};

use bytes::{Buf, BytesMut};
use tokio::{io::AsyncWriteExt, time::Instant};
use traffic::{Choice, Failure, Retry, may_repeat};

use crate::{
    Limits,
    access_log::Line,
    answer::Own,
    connection::Caller,
    count::{CallCount, Outcome, Unserved},
    exchange::{Call, Detail, Ended, Rules},
    head::{Asked, Forwarded, Framing, Refusal, Request},
    live::{Place, Served},
    patience::Patience,
    pool::{self, FRESH},
    stream::Stream,
    tunnel,
    worker::Worker,
};

/// What becomes of the caller's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It can bring a further call.
    Call,
    Close,
    /// It is closed, and what the caller still sends is read for a while.
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
    let mut prepared = match prepare(inbox, caller, worker) {
        Ok(prepared) => prepared,
        Err((own, asked)) => {
            let why = if asked.is_some() { Unserved::NoService } else { Unserved::Refused };
            worker.counts().note_unserved(why);
            let stays = asked.is_some_and(|asked| asked.keep_alive && asked.framing == Framing::None);
            let stays = stays && !worker.is_draining();
            inbox.advance(asked.map_or(inbox.len(), |asked| asked.head_len));
            return match (stream.write_all(&own.write(asked.as_ref(), !stays)).await, stays) {
                (Ok(()), true) => Next::Call,
                (Ok(()), false) => Next::Linger,
                (Err(_), _) => Next::Close,
            };
        }
    };
    inbox.advance(prepared.asked.head_len);
    let may_be_repeated = prepared.retry == Retry::Failed;
    let counted = prepared.chosen.counted(prepared.by_header);
    let count = worker.counts().begin(counted, prepared.group, began, prepared.line.take());
    let with = (stream, inbox, patience);
    let mut call = Call::new(with, worker.limits(), (prepared.asked, &prepared.head), may_be_repeated);
    drive(&mut call, &prepared, count, worker).await
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
        let failed = matches!(ended, Ended::Failed(..));
        if stable.is_some() {
            chosen.version.note(failed);
        }
        match ended {
            Ended::Failed(failure, detail) => {
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
                let own = own_failure(served, failure, &detail);
                count.end(Outcome::Failed(failure), Some(own.status));
                return answer_failure(call, &own, worker).await;
            }
            Ended::Answered { answered, again: _, caller_again, read } => {
                let took = count.took(read.at, read.held);
                count.end(Outcome::Answered { status: answered.status, took }, Some(answered.status));
                return if caller_again {
                    Next::Call
                } else if call.is_body_taken() {
                    Next::Close
                } else {
                    Next::Linger
                };
            }
            Ended::BrokenOff => {
                count.end(Outcome::BrokenOff, None);
                return Next::Close;
            }
            Ended::Upgraded { stream, came } => {
                count.end(Outcome::Upgraded, Some(101));
                tunnel::run((call.caller, call.inbox), (stream, came), worker.limits().tunnel_idle).await;
                drop(place);
                return Next::Close;
            }
            Ended::CallerGone => {
                count.end(Outcome::CallerGone, None);
                return Next::Close;
            }
            Ended::BadBody(fault) => {
                let own = Own::refusal(Refusal::bad(fault.0));
                count.end(Outcome::BadBody, Some(own.status));
                let _ = call.caller.write_all(&own.write(Some(&call.asked), true)).await;
                return Next::Linger;
            }
        }
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
    let fields = [&*served.field, &prepared.cookie].concat();
    let rules = Rules {
        status_fails: can_go_elsewhere && may_repeat(prepared.retry, Failure::Status),
        fields: &fields,
        close: worker.draining(),
    };
    let idle_less_than = if prepared.retry == Retry::Failed { limits.pooled } else { FRESH };
    let targets = version.shared().targets();
    let first = version.next_target();
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
            Err(error) => last_error = Some(format!("{}: {error}", targets[at])),
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

/// What the caller gets when nothing came of its call.
fn own_failure(served: &Served, failure: Failure, detail: &Detail) -> Own {
    let is_full = failure == Failure::Refused && detail.is_full;
    let status = match failure {
        Failure::Refused if is_full => 503,
        Failure::TimedOut => 504,
        Failure::Refused | Failure::Died | Failure::Nonsense | Failure::Status => 502,
    };
    Own {
        status,
        error: failure.name(),
        text: format!(
            "version {:?} did not answer this call: {}",
            served.version.shared().name(),
            detail.text
        ),
        retry_after: is_full.then_some(1),
    }
}

/// Says to the caller that nothing came of its call.
async fn answer_failure<S: Stream>(call: &mut Call<'_, S>, own: &Own, worker: &Worker) -> Next {
    let stays = call.is_body_taken() && call.asked.keep_alive && !worker.is_draining();
    match (call.caller.write_all(&own.write(Some(&call.asked), !stays)).await, stays) {
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
        let text = format!("no service is at {}", request.target);
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
