//! HTTP/2: callers who speak it, versions that do, and the ways between it and HTTP/1.1.
//!
//! A call is carried here unless its caller and all versions it may go to speak HTTP/1.1; those have a faster way of their own.
//! Bodies travel in pieces ([`BodyPart`]), trailers are one of them; each side reads and writes them as its protocol wants. A piece is
//! read only when the one before was taken at the other side, so that whoever is slow slows down the other.
//!
//! What is decided and counted is the same for all protocols (`decide`). Deliberately not here: protocols that a connection changes
//! to in the middle. A caller that asks for one and whose version speaks HTTP/2 gets an answer without the change.

mod answer;
mod attempt;
mod bridge;
mod call;
mod grpc;
mod head;
mod link;
mod read;
mod response_head;
mod rewound;
mod routing;
mod serve;
mod upload;
mod write;

use self::read::BodyPart;
pub(crate) use self::{bridge::bridge, link::Links, rewound::Rewound, serve::serve};

/// What a caller sends first who knows that HTTP/2 is spoken here.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
