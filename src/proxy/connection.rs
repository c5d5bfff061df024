//! A caller's connection: one call after the other.

use std::{future::poll_fn, io, rc::Rc, task::Poll, time::Duration};

use bytes::{Buf, BytesMut};
use tokio::{io::AsyncWriteExt, time::Instant};

use crate::{
    answer::Own,
    caller::{Caller, Next},
    connection_timeout::ConnectionTimeout,
    count::Unserved,
    drive,
    head::{Refusal, Request, ends_behind},
    http2::{self, PREFACE, Rewound},
    stream::{Stream, poll_fill},
    worker::Worker,
};

/// How much is read at once of a head.
const ROOM: usize = 8 * 1024;
/// How long a caller whose connection ends is read on altogether, so that it gets to read the answer.
const LINGER: Duration = Duration::from_secs(10);
/// How long it is waited for more of what it sends.
const LINGER_IDLE: Duration = Duration::from_secs(1);

/// What is there of the next call.
enum Head {
    Whole,
    /// The caller speaks HTTP/2.
    Http2,
    /// The caller left, or was idle for too long.
    Ended,
    Refused(Refusal),
}

/// Serves a connection until it ends.
pub(crate) async fn serve<S: Stream>(mut stream: S, caller: Caller, worker: Rc<Worker>) {
    let mut inbox = BytesMut::new();
    let mut time_limit = ConnectionTimeout::new(worker.limits().idle);
    let mut is_first = true;
    loop {
        let head = next_head(&mut stream, &mut inbox, &mut time_limit, &worker, is_first).await;
        is_first = false;
        match head {
            Head::Http2 => {
                let rewound = Rewound::new(inbox, stream);
                return Box::pin(http2::serve(rewound, caller, worker)).await;
            }
            Head::Ended => return,
            Head::Refused(refusal) => {
                worker.counts().note_unserved(Unserved::Refused);
                let own = Own::refusal(refusal).write(None, true);
                let _ = time_limit.write_all(&mut stream, &own, worker.limits().body_idle).await;
                return linger(&mut stream, &mut inbox, &mut time_limit).await;
            }
            Head::Whole => {}
        }
        match drive::call(&mut stream, &mut inbox, &mut time_limit, caller, &worker).await {
            Next::Call => {}
            Next::Close => return,
            Next::Linger => return linger(&mut stream, &mut inbox, &mut time_limit).await,
        }
    }
}

/// Waits until the head of a call is whole, which is looked for only behind what was looked through already. What comes first may
/// say that this is HTTP/2: no call of HTTP/1.1 begins so.
async fn next_head<S: Stream>(
    stream: &mut S,
    inbox: &mut BytesMut,
    time_limit: &mut ConnectionTimeout,
    worker: &Worker,
    is_first: bool,
) -> Head {
    let limits = worker.limits();
    if inbox.is_empty() {
        // An idle connection holds no buffer.
        worker.buffers().give_back(std::mem::take(inbox));
        time_limit.begin(limits.idle);
        let input = poll_fn(|cx| match stream.poll_input(cx) {
            Poll::Ready(ready) => Poll::Ready(Some(ready)),
            Poll::Pending => time_limit.poll_over(cx).map(|()| None),
        });
        if !matches!(input.await, Some(Ok(()))) {
            return Head::Ended;
        }
        *inbox = worker.buffers().take();
    }
    // Empty lines before a head don't prolong the wait for it.
    let mut has_begun = !inbox.is_empty();
    if has_begun {
        time_limit.begin(limits.head_time);
    }
    let mut looked = 0;
    loop {
        let may_be_http2 =
            is_first && !inbox.is_empty() && PREFACE.starts_with(&inbox[..PREFACE.len().min(inbox.len())]);
        if may_be_http2 && inbox.len() >= PREFACE.len() {
            return Head::Http2;
        }
        cut_blank_lines(inbox);
        if !may_be_http2 && ends_behind(inbox, looked) {
            return Head::Whole;
        }
        // What can't become a head is refused at once.
        if looked == 0 && !inbox.is_empty() && !may_be_http2 {
            let mut room = Request::room();
            if let Err(refusal) = Request::read(inbox, &mut room, limits) {
                return Head::Refused(refusal);
            }
        }
        if inbox.len() > limits.head_bytes {
            return Head::Refused(Refusal { status: 431, why: "the head is too large" });
        }
        looked = inbox.len();
        let read = poll_fn(|cx| match poll_fill(stream, inbox, ROOM, cx) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => time_limit.poll_over(cx).map(|()| None),
        });
        match read.await {
            Some(Ok(1..)) if !has_begun => {
                has_begun = true;
                time_limit.begin(limits.head_time);
            }
            Some(Ok(1..)) => {}
            None if !inbox.is_empty() => {
                return Head::Refused(Refusal { status: 408, why: "the head of the call took too long" });
            }
            None | Some(Ok(0) | Err(_)) => return Head::Ended,
        }
    }
}

/// Some callers send an empty line behind a body; it belongs to nothing.
fn cut_blank_lines(inbox: &mut BytesMut) {
    while inbox.starts_with(b"\r\n") {
        inbox.advance(2);
    }
}

/// Closes a connection whose caller may still be sending: first the end is said, then what comes is read for a while, since a
/// connection that is closed with unread bytes takes the answer with it.
pub(crate) async fn linger<S: Stream>(
    stream: &mut S,
    inbox: &mut BytesMut,
    time_limit: &mut ConnectionTimeout,
) {
    let _: io::Result<()> = stream.shutdown().await;
    let until = Instant::now() + LINGER;
    while Instant::now() < until {
        inbox.clear();
        time_limit.begin(LINGER_IDLE);
        let read = poll_fn(|cx| match poll_fill(stream, inbox, ROOM, cx) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => time_limit.poll_over(cx).map(|()| None),
        });
        match read.await {
            Some(Ok(1..)) => {}
            Some(Ok(0) | Err(_)) | None => return,
        }
    }
}

/// Bytes of a task that serves a caller's connection, without its buffers, of which it holds none while it is idle.
pub(crate) fn task_bytes<S: Stream>() -> usize {
    fn of_output<A, B, C, F>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }
    of_output(serve::<S>)
}
