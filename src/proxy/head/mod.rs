//! Heads of requests and answers: read, judged, and written anew for the other side.
//!
//! Invariants:
//! - what passes has one meaning: a head from which two programs could read bodies of different lengths is refused;
//! - lines end in CR LF, no field is folded, and a name has no space before its colon;
//! - fields of one connection (`Connection` and what it names, `Keep-Alive`, `Proxy-Connection`, `TE`, `Upgrade`) don't pass;
//!   everything else passes byte for byte, in its order, but for what frames a call's body and names its host where the target
//!   does: they are written anew, in the one way that nobody reads differently.

mod fields;
mod framing;
mod request;
mod response;

pub(crate) use self::{
    framing::{Framing, Lengths},
    request::{Forwarded, Request, RequestSummary},
    response::{Added, HEAD_BYTES, Response, ResponseSummary},
};

use crate::live;

/// The most fields that can be read of a head, whatever the limits say.
pub(crate) const MOST_FIELDS: usize = 256;

/// Why a request is refused, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: u16,
    pub why: &'static str,
}

impl Refusal {
    pub(crate) const fn bad(why: &'static str) -> Self {
        Self { status: 400, why }
    }
}

/// A written head, for a version that is below a path.
pub(crate) fn below(head: &[u8], path: &str) -> Vec<u8> {
    let mut words = head.splitn(3, |&byte| byte == b' ');
    match (words.next(), words.next().and_then(|target| std::str::from_utf8(target).ok()), words.next()) {
        (Some(method), Some(target), Some(rest)) => {
            [method, b" ", live::below(path, target).as_bytes(), b" ", rest].concat()
        }
        // Nothing that was written here.
        _ => head.to_vec(),
    }
}

/// Whether a head ends in what came behind `looked`: at an empty line, whatever its line ends are. A head that comes byte by byte
/// is so looked through once, and not once a byte.
pub(crate) fn ends_behind(came: &[u8], looked: usize) -> bool {
    let from = looked.saturating_sub(3);
    memchr::memchr_iter(b'\n', &came[from..])
        .any(|at| matches!(came[from + at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}
