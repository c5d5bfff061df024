use std::rc::Rc;

use bytes::BytesMut;

use super::{
    answer::AnswerTo,
    attempt::CallInFlight,
    head::Asking,
    read::Reader,
    routing::{Outcome, carry},
    upload::Upload,
};
use crate::{
    caller::Next, connection_timeout::ConnectionTimeout, count::CallCount, decide::RoutingDecision,
    head::RequestSummary, stream::Stream, worker::Worker,
};

/// Carries out a call of a caller who speaks HTTP/1.1 and that may go to a version that speaks HTTP/2. The inbox holds what came
/// behind the head, which is given as a version gets it that speaks HTTP/1.1.
pub(crate) async fn bridge<S: Stream>(
    (stream, inbox): (&mut S, &mut BytesMut),
    (asked, head): (RequestSummary, &[u8]),
    decided: &RoutingDecision,
    count: CallCount<'_>,
    worker: &Rc<Worker>,
) -> Next {
    let limits = worker.limits();
    let Some(asking) = Asking::of_plain(head) else {
        return Next::Close;
    };
    let (from, to) = tokio::io::split(&mut *stream);
    let reader = Reader::plain(from, std::mem::take(inbox), asked.framing);
    let mut call = CallInFlight {
        asking,
        upload: Upload::new(
            reader,
            decided.may_be_sent_again().then(|| worker.kept()),
            limits,
            asked.awaits_continue,
        ),
        to: AnswerTo::Plain { io: to, asked },
        time_limit: ConnectionTimeout::new(limits.first_byte),
        limits,
        watch: decided.watch(asked, || head.to_vec()),
    };
    let outcome = carry(&mut call, decided, count, worker).await;
    let is_body_taken = call.upload.reader.is_ended();
    if let Reader::Plain(plain) = call.upload.reader {
        *inbox = plain.inbox;
    }
    drop(call.to);
    match outcome {
        Outcome::Answered { again: true } => Next::Call,
        Outcome::Answered { again: false } if !is_body_taken => Next::Linger,
        Outcome::Answered { again: false } | Outcome::CallerGone => Next::Close,
        Outcome::BrokenOff => {
            stream.break_off();
            Next::Close
        }
    }
}
