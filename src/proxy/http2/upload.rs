use std::{
    cell::Cell,
    future::poll_fn,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::Limits;

use super::{
    BodyPart,
    read::{ReadFault, Reader},
    write::Writer,
};

/// The most pieces that are kept of a body, however small they are.
const KEPT_PIECES: usize = 4_096;

/// The body of a call, and what was kept of it so that it can be sent again.
pub(crate) struct Upload<'c, R> {
    pub reader: Reader<R>,
    /// The pieces that came, while the body can still be sent again.
    kept: Option<Kept<'c>>,
    has_begun: bool,
    /// The caller sends its body once it was told to go on.
    awaits_continue: bool,
}

/// A body, as far as it came. What all calls of a thread keep together has a limit.
struct Kept<'c> {
    pieces: Vec<BodyPart>,
    bytes: usize,
    of_thread: &'c Cell<usize>,
    limits: &'c Limits,
}

/// What sending a body and awaiting its answer tell each other.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Something was passed on since this was last taken.
    pub moved: Cell<bool>,
    /// The body can be sent again.
    pub can_be_sent: Cell<bool>,
    /// It need not be kept any more.
    pub is_decided: Cell<bool>,
    /// The next of the body is the caller's to send.
    waits_for_caller: Cell<bool>,
    /// Nobody told the caller to go on yet.
    awaits_continue: Cell<bool>,
    /// The caller takes nothing of what is there of the answer.
    pub is_held: Cell<bool>,
}

impl Progress {
    /// Whether the body goes on only if the caller sends something.
    pub(crate) fn waits_for_caller(&self) -> bool {
        self.waits_for_caller.get() && !self.awaits_continue.get()
    }

    /// The caller was told to go on.
    pub(crate) fn note_continue(&self) {
        if self.awaits_continue.replace(false) {
            self.moved.set(true);
        }
    }
}

/// How sending a body ended.
#[derive(Debug)]
pub(crate) enum UploadEnd {
    Whole,
    /// The version takes no more, which isn't the end: it may have answered.
    VersionClosed,
    /// The caller's side of it broke.
    Broken(ReadFault),
}

impl<'c, R: AsyncRead + Unpin> Upload<'c, R> {
    /// `kept`: for calls that may have to be sent again, how many bytes of bodies the thread keeps now.
    pub(crate) fn new(
        reader: Reader<R>,
        kept: Option<&'c Cell<usize>>,
        limits: &'c Limits,
        awaits_continue: bool,
    ) -> Self {
        let kept = kept.map(|of_thread| Kept { pieces: Vec::new(), bytes: 0, of_thread, limits });
        Self { reader, kept, has_begun: false, awaits_continue }
    }

    /// Whether the call has no body.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_begun && self.reader.is_ended()
    }

    /// Whether it can be sent from its beginning.
    pub(crate) fn can_be_sent(&self) -> bool {
        !self.has_begun || self.kept.is_some()
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            moved: Cell::new(false),
            can_be_sent: Cell::new(self.can_be_sent()),
            is_decided: Cell::new(false),
            waits_for_caller: Cell::new(false),
            awaits_continue: Cell::new(self.awaits_continue),
            is_held: Cell::new(false),
        }
    }

    /// Sends the whole body, beginning with what was kept of it.
    pub(crate) async fn send<W: AsyncWrite + Unpin>(
        &mut self,
        writer: &mut Writer<W>,
        progress: &Progress,
    ) -> UploadEnd {
        if self.is_empty() {
            return UploadEnd::Whole;
        }
        let mut at = 0;
        loop {
            let piece = match poll_fn(|cx| self.poll_piece(&mut at, progress, cx)).await {
                Some(Ok(piece)) => piece,
                Some(Err(fault)) => return UploadEnd::Broken(fault),
                None => break,
            };
            progress.moved.set(true);
            let ends = matches!(piece, BodyPart::Trailers(_));
            let last =
                self.reader.is_ended() && self.kept.as_ref().is_none_or(|kept| at == kept.pieces.len());
            if writer.write(piece, last).await.is_err() {
                return UploadEnd::VersionClosed;
            }
            progress.moved.set(true);
            if ends || last {
                return UploadEnd::Whole;
            }
        }
        match writer.end().await {
            Ok(()) => UploadEnd::Whole,
            Err(_) => UploadEnd::VersionClosed,
        }
    }

    /// The piece at a place among those kept, or the next that comes.
    fn poll_piece(
        &mut self,
        at: &mut usize,
        progress: &Progress,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyPart, ReadFault>>> {
        if let Some(piece) = self.kept.as_ref().and_then(|kept| kept.pieces.get(*at)) {
            *at += 1;
            progress.waits_for_caller.set(false);
            return Poll::Ready(Some(Ok(piece.clone())));
        }
        let polled = self.reader.poll_piece(cx);
        progress.waits_for_caller.set(polled.is_pending());
        let piece = std::task::ready!(polled);
        self.has_begun = true;
        self.awaits_continue = false;
        progress.note_continue();
        if let Some(Ok(piece)) = &piece {
            *at += 1;
            let undecided = self.kept.take().filter(|_| !progress.is_decided.get());
            self.kept = undecided.and_then(|kept| kept.with(piece));
        }
        progress.can_be_sent.set(self.can_be_sent());
        Poll::Ready(piece)
    }
}

impl Kept<'_> {
    /// With what came; nothing where that is more than can be kept.
    fn with(mut self, piece: &BodyPart) -> Option<Self> {
        let came = match piece {
            BodyPart::Data(data) => data.len(),
            BodyPart::Trailers(_) => 0,
        };
        let (bytes, of_thread) = (self.bytes + came, self.of_thread.get() + came);
        let has_room = bytes <= self.limits.kept_body && of_thread <= self.limits.kept_bodies;
        if !has_room || self.pieces.len() >= KEPT_PIECES {
            return None;
        }
        self.of_thread.set(of_thread);
        self.bytes = bytes;
        self.pieces.push(piece.clone());
        Some(self)
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.of_thread.set(self.of_thread.get() - self.bytes);
    }
}
