//! The PROXY protocol: who the caller is, said by whoever passes its connection on, in front of everything else that comes over it
//! (`HAProxy`'s `doc/proxy-protocol.txt`, versions 1 and 2).
//!
//! It is **believed** only of peers in a set of networks ([`Network`]), and each of their connections has to begin with it: a
//! header that is missing, malformed, too long or late ends the connection, since to guess would let callers say who they are.
//! Of anybody else's connection it is nothing but the first bytes: no HTTP, and payload of TCP.
//!
//! It is **sent** where a service of the table asks for it.
//!
//! Deliberately not here: headers for datagrams, and what else a header of version 2 may hold (TLVs), which is passed over.

mod network;
mod parse;
mod read;
mod write;

pub use self::{
    network::{Network, NetworkError},
    parse::{Announced, MAX_HEADER, Malformed, Parsed, parse},
};
pub(crate) use self::{read::read, write::header};

/// Which of its versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyHeader {
    V1,
    V2,
}

/// With what a header of version 2 begins.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// With what one of version 1 does.
const WORD: &[u8] = b"PROXY ";
