use xxhash_rust::xxh64::Xxh64;

use crate::{
    body::{Body, BodyFault, Run},
    head::Framing,
};

/// How much of bodies is compared, in bytes.
const COMPARED: u64 = 256 * 1024;

/// How much the answer to a copy is like that of the stable version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    Same,
    /// As far as they were compared; both go on.
    SameBeginning,
    OtherStatus,
    OtherBody,
}

/// What is known of a body: its beginning by a digest, and its length as far as that goes.
#[derive(Clone)]
pub(super) struct Content {
    digest: Xxh64,
    bytes: u64,
    goes_on: bool,
}

/// A body with what frames it.
#[derive(Debug)]
pub(super) struct Framed {
    body: Body,
    pub content: Content,
}

impl Content {
    pub(super) fn new() -> Self {
        Self { digest: Xxh64::new(0), bytes: 0, goes_on: false }
    }

    pub(super) fn add(&mut self, data: &[u8]) {
        let left = usize::try_from(COMPARED - self.bytes).unwrap_or(usize::MAX);
        let compared = &data[..left.min(data.len())];
        self.digest.update(compared);
        self.bytes += compared.len() as u64;
        self.goes_on |= compared.len() < data.len();
    }

    /// Whether it is longer than what is compared.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.bytes, self.goes_on, self.digest.digest())
            == (other.bytes, other.goes_on, other.digest.digest())
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Content");
        shown.field("bytes", &self.bytes).field("goes_on", &self.goes_on).finish_non_exhaustive()
    }
}

impl Framed {
    pub(super) fn new(framing: Framing) -> Self {
        Self { body: Body::new(framing), content: Content::new() }
    }

    /// How many of these bytes belong to the body; all of them, unless it ends among them.
    pub(super) fn take(&mut self, came: &[u8]) -> Result<usize, BodyFault> {
        let mut at = 0;
        while at < came.len() {
            let rest = &came[at..];
            at += match self.body.run() {
                Run::Done => break,
                Run::Data(most) => {
                    let data = &rest[..rest.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
                    self.content.add(data);
                    self.body.take(data)?
                }
                Run::Between | Run::Trailers => self.body.take(&rest[..1])?,
            };
        }
        Ok(at)
    }

    pub(super) fn is_done(&self) -> bool {
        self.body.is_done()
    }

    pub(super) fn ends_with_connection(&self) -> bool {
        self.body.ends_with_connection()
    }
}

/// Compares what the stable version answered with what came to a copy: the status, and the body.
pub(super) fn likeness(stable: (u16, &Content), copy: (u16, &Content)) -> Likeness {
    if stable.0 != copy.0 {
        Likeness::OtherStatus
    } else if !stable.1.is_like(copy.1) {
        Likeness::OtherBody
    } else if stable.1.goes_on() {
        Likeness::SameBeginning
    } else {
        Likeness::Same
    }
}
