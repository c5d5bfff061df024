use std::rc::Rc;

use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{Method, Request, header, request::Parts};
use tokio::{io::Empty, time::Instant};

use super::{
    answer::AnswerTo,
    attempt::CallInFlight,
    head::{self, Asking, CheckedHead},
    read::Reader,
    routing::{Outcome, carry},
    upload::Upload,
};
use crate::{
    access_log::Line, answer::Own, caller::Caller, connection_timeout::ConnectionTimeout, count::Unserved,
    decide::RoutingDecision, worker::Worker,
};

/// Carries out a call of a caller who speaks HTTP/2.
pub(crate) async fn call(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    caller: Caller,
    worker: Rc<Worker>,
) -> Outcome {
    let began = Instant::now();
    let limits = worker.limits();
    let (head, body) = request.into_parts();
    let is_head = head.method == Method::HEAD;
    let mut to = AnswerTo::<Empty>::Stream { respond, is_head };
    let (asking, decided, line) = match prepare(&head, caller, &worker) {
        Ok(prepared) => prepared,
        Err((own, why)) => {
            worker.counts().note_unserved(why);
            return match to.own(&own, false).await {
                Ok(()) => Outcome::Answered { again: true },
                Err(_) => Outcome::CallerGone,
            };
        }
    };
    let awaits_continue = head.headers.get(header::EXPECT).is_some_and(|value| value == "100-continue");
    drop(head);
    let count = decided.count(worker.counts(), began, line);
    let kept = decided.may_be_sent_again().then(|| worker.kept());
    let upload = Upload::new(Reader::<Empty>::stream(body), kept, limits, awaits_continue);
    let time_limit = ConnectionTimeout::new(limits.first_byte);
    let mut call = CallInFlight { asking, upload, to, time_limit, limits, watch: None };
    if call.upload.is_empty() {
        call.watch = decided.watch(head::asked(is_head), || call.asking.to_plain(false).0);
    }
    let outcome = carry(&mut call, &decided, count, &worker).await;
    if outcome == Outcome::CallerGone {
        // Where it is the caller's slowness, the caller gets to know.
        call.to.break_off(Reason::CANCEL);
    }
    outcome
}

/// A call that was given to a version, and its line in the access log.
type Prepared = (Asking, RoutingDecision, Option<Box<Line>>);

/// Finds the service and the version.
fn prepare(head: &Parts, caller: Caller, worker: &Worker) -> Result<Prepared, (Own, Unserved)> {
    let refused = |refusal| (Own::refusal(refusal), Unserved::Refused);
    let seen = CheckedHead::judged(head, caller.address, worker.limits().head_fields).map_err(refused)?;
    let at = (caller.port, seen.host.map(str::as_bytes));
    let Some((local, route)) = worker.route(at, seen.target()) else {
        return Err((Own::no_service(), Unserved::NoService));
    };
    let decided = RoutingDecision::new(&local, route.index, (&seen, &caller), head.method.as_str());
    let asking = Asking::of_stream(&seen, route, caller).map_err(refused)?;
    let number = (local.table().epoch(), local.table().generation());
    let traced = head.headers.get("traceparent").map(http::HeaderValue::as_bytes);
    let line = worker.log().map(|log| Box::new(log.line(traced, number)));
    Ok((asking, decided, line))
}
