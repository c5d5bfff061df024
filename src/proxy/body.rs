//! The end of a body, found without changing a byte of it.
//!
//! Chunks are looked through as strictly as they could be written: a size in hexadecimal digits, CR LF, the data, CR LF; trailers
//! are lines of fields. Extensions of chunks are refused, since nobody needs them and programs differ in how they read them.

use crate::head::Framing;

/// How far a body has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Done,
    Left(u64),
    UntilClose,
    /// The digits of a chunk's size so far.
    Size {
        size: u64,
        digits: u8,
    },
    /// The line feed behind a chunk's size.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// CR LF behind a chunk's data.
    DataEnd {
        seen_return: bool,
    },
    /// Trailers: how many bytes they have so far, and of the line that is being read.
    Trailers {
        bytes: u32,
        of_line: u32,
        seen_return: bool,
    },
}

/// The most bytes of trailers.
const TRAILER_BYTES: u32 = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyFault(pub &'static str);

impl Body {
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None => State::Done,
            Framing::Length(length) => State::Left(length),
            Framing::Chunked => State::Size { size: 0, digits: 0 },
            Framing::UntilClose => State::UntilClose,
        };
        Self { state }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the end of the connection is the body's end.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose | State::Done)
    }

    /// How many of these bytes belong to the body; all of them, unless it ends among them.
    pub(crate) fn take(&mut self, came: &[u8]) -> Result<usize, BodyFault> {
        let mut at = 0;
        while at < came.len() && self.state != State::Done {
            at += match &mut self.state {
                State::Left(left) | State::Data { left } => {
                    let len = (came.len() - at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= len as u64;
                    len
                }
                State::UntilClose => came.len() - at,
                State::Done => 0,
                State::Size { .. }
                | State::SizeEnd { .. }
                | State::DataEnd { .. }
                | State::Trailers { .. } => {
                    self.step(came[at])?;
                    1
                }
            };
            match self.state {
                State::Left(0) => self.state = State::Done,
                State::Data { left: 0 } => self.state = State::DataEnd { seen_return: false },
                _ => {}
            }
        }
        Ok(at)
    }

    /// One byte of what stands between the data.
    fn step(&mut self, byte: u8) -> Result<(), BodyFault> {
        self.state = match (&self.state, byte) {
            (&State::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                if digits >= 15 {
                    return Err(BodyFault("a chunk that is too large"));
                }
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                State::Size { size: size * 16 + u64::from(digit), digits: digits + 1 }
            }
            (&State::Size { size, digits: 1.. }, b'\r') => State::SizeEnd { size },
            (&State::SizeEnd { size: 0 }, b'\n') => {
                State::Trailers { bytes: 0, of_line: 0, seen_return: false }
            }
            (&State::SizeEnd { size }, b'\n') => State::Data { left: size },
            (State::DataEnd { seen_return: false }, b'\r') => State::DataEnd { seen_return: true },
            (State::DataEnd { seen_return: true }, b'\n') => State::Size { size: 0, digits: 0 },
            (&State::Trailers { bytes, of_line, seen_return }, _) => {
                trailer(bytes, of_line, seen_return, byte)?
            }
            _ => return Err(BodyFault("a chunk that isn't one")),
        };
        Ok(())
    }
}

fn trailer(bytes: u32, of_line: u32, seen_return: bool, byte: u8) -> Result<State, BodyFault> {
    if bytes >= TRAILER_BYTES {
        return Err(BodyFault("trailers that are too large"));
    }
    match (seen_return, byte) {
        (false, b'\r') => Ok(State::Trailers { bytes: bytes + 1, of_line, seen_return: true }),
        (true, b'\n') if of_line == 0 => Ok(State::Done),
        (true, b'\n') => Ok(State::Trailers { bytes: bytes + 1, of_line: 0, seen_return: false }),
        (true, _) | (false, b'\n' | 0) => Err(BodyFault("a trailer that isn't one")),
        (false, b' ' | b'\t' | b':') if of_line == 0 => Err(BodyFault("a trailer without a name")),
        (false, _) => Ok(State::Trailers { bytes: bytes + 1, of_line: of_line + 1, seen_return: false }),
    }
}
