use std::{
    cell::Cell,
    future::poll_fn,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    Piece,
    read::{ReadFault, Reader},
    write::Writer,
};

/// The most pieces that are kept of a body, however small they are.
const KEPT_PIECES: usize = 4_096;

/// The body of a call, and what was kept of it so that it can be sent again.
pub(crate) struct Upload<R> {
    pub reader: Reader<R>,
    /// The pieces that came, while the body can still be sent again.
    kept: Option<Vec<Piece>>,
    kept_bytes: usize,
    most: usize,
    has_begun: bool,
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
}

/// How sending a body ended.
#[derive(Debug)]
pub(crate) enum Sent {
    Whole,
    /// The version takes no more, which isn't the end: it may have answered.
    VersionClosed,
    /// The caller's side of it broke.
    Broken(ReadFault),
}

impl<R: AsyncRead + Unpin> Upload<R> {
    /// `most`: how many bytes of it are kept.
    pub(crate) fn new(reader: Reader<R>, is_kept: bool, most: usize) -> Self {
        Self { reader, kept: is_kept.then(Vec::new), kept_bytes: 0, most, has_begun: false }
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
        }
    }

    /// Sends the whole body, beginning with what was kept of it.
    pub(crate) async fn send<W: AsyncWrite + Unpin>(
        &mut self,
        writer: &mut Writer<W>,
        progress: &Progress,
    ) -> Sent {
        if self.is_empty() {
            return Sent::Whole;
        }
        let mut at = 0;
        loop {
            let piece = match poll_fn(|cx| self.poll_piece(&mut at, progress, cx)).await {
                Some(Ok(piece)) => piece,
                Some(Err(fault)) => return Sent::Broken(fault),
                None => break,
            };
            progress.moved.set(true);
            let ends = matches!(piece, Piece::Trailers(_));
            let last = self.reader.is_ended() && self.kept.as_ref().is_none_or(|kept| at == kept.len());
            if writer.write(piece, last).await.is_err() {
                return Sent::VersionClosed;
            }
            progress.moved.set(true);
            if ends || last {
                return Sent::Whole;
            }
        }
        match writer.end().await {
            Ok(()) => Sent::Whole,
            Err(_) => Sent::VersionClosed,
        }
    }

    /// The piece at a place among those kept, or the next that comes.
    fn poll_piece(
        &mut self,
        at: &mut usize,
        progress: &Progress,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Piece, ReadFault>>> {
        if let Some(piece) = self.kept.as_ref().and_then(|kept| kept.get(*at)) {
            *at += 1;
            return Poll::Ready(Some(Ok(piece.clone())));
        }
        let piece = std::task::ready!(self.reader.poll_piece(cx));
        self.has_begun = true;
        if let Some(Ok(piece)) = &piece {
            *at += 1;
            self.kept_bytes += match piece {
                Piece::Data(data) => data.len(),
                Piece::Trailers(_) => 0,
            };
            let has_room = |kept: &Vec<Piece>| {
                !progress.is_decided.get() && self.kept_bytes <= self.most && kept.len() < KEPT_PIECES
            };
            self.kept = self.kept.take().filter(has_room);
            if let Some(kept) = &mut self.kept {
                kept.push(piece.clone());
            }
        }
        progress.can_be_sent.set(self.can_be_sent());
        Poll::Ready(piece)
    }
}
