use bytes::{Buf, BytesMut};
use tokio::{io::AsyncWriteExt, time::Instant};
use traffic::Failure;

use super::{
    Copied,
    compare::{Content, Framed},
};
use crate::{
    buffers::Buffers,
    head::{HEAD_BYTES, Request, RequestSummary, Response, ResponseSummary, ends_behind},
    stream::{ROOM, ToVersion, poll_fill},
};

/// What a copy was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub content: Content,
    pub read_at: Instant,
    /// The connection, where it can be used again.
    pub again: Option<ToVersion>,
}

/// There was no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoResponse {
    pub failure: Failure,
    /// Nothing of one was there when the connection ended.
    pub nothing_came: bool,
}

/// Sends a copy over a connection and reads the answer, as much of it as is compared.
pub(super) async fn exchange(
    mut line: ToVersion,
    copied: &Copied,
    buffers: &Buffers,
) -> Result<Answer, NoResponse> {
    let mut came = buffers.take();
    let ended = match line.write_all(&copied.head).await {
        Ok(()) => read(&mut line, &mut came, &copied.asked).await,
        Err(_) => Err(Failure::Died),
    };
    let nothing_is_left = came.is_empty();
    buffers.give_back(came);
    match ended {
        Ok((answered, body)) => {
            let can_again = body.is_done() && answered.keep_alive && nothing_is_left;
            Ok(Answer {
                status: answered.status,
                content: body.content,
                read_at: Instant::now(),
                again: can_again.then_some(line),
            })
        }
        Err(failure) => {
            Err(NoResponse { failure, nothing_came: failure == Failure::Died && nothing_is_left })
        }
    }
}

async fn read(
    line: &mut ToVersion,
    came: &mut BytesMut,
    asked: &RequestSummary,
) -> Result<(ResponseSummary, Framed), Failure> {
    let answered = read_head(line, came, asked).await?;
    let mut body = Framed::new(answered.framing);
    loop {
        let taken = body.take(came).map_err(|_| Failure::Nonsense)?;
        came.advance(taken);
        if body.is_done() || body.content.goes_on() {
            return Ok((answered, body));
        }
        // However fast the version sends, calls come in between.
        tokio::task::yield_now().await;
        if fill(line, came).await? == 0 {
            return if body.ends_with_connection() { Ok((answered, body)) } else { Err(Failure::Died) };
        }
    }
}

/// The head of the answer; those that come before the answer are passed over.
async fn read_head(
    line: &mut ToVersion,
    came: &mut BytesMut,
    asked: &RequestSummary,
) -> Result<ResponseSummary, Failure> {
    let mut looked = 0;
    loop {
        while !came.is_empty() && (looked == 0 || came.len() > HEAD_BYTES || ends_behind(came, looked)) {
            let answered = {
                let mut room = Request::room();
                let response = Response::read(came, &mut room, asked).map_err(|_| Failure::Nonsense)?;
                response.map(|response| response.answered)
            };
            let Some(answered) = answered else { break };
            looked = 0;
            came.advance(answered.head_len);
            match answered.status {
                101 => return Err(Failure::Nonsense),
                100..200 => {}
                _ => return Ok(answered),
            }
        }
        looked = came.len();
        if fill(line, came).await? == 0 {
            return Err(Failure::Died);
        }
    }
}

/// Reads more; 0 is the end of the connection.
async fn fill(line: &mut ToVersion, came: &mut BytesMut) -> Result<usize, Failure> {
    std::future::poll_fn(|cx| poll_fill(line, came, ROOM, cx)).await.map_err(|_| Failure::Died)
}
