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
    /// Trailers: how many bytes they have so far, and what is being read of them.
    Trailers {
        bytes: u32,
        part: Trailer,
    },
}

/// What is being read of the trailers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trailer {
    /// A field's name: how many bytes it has, and which of [`NO_TRAILERS`] it can still become, a bit each.
    Name {
        len: u8,
        can_be: u8,
    },
    Value,
    /// The line feed behind a field.
    LineEnd,
    /// The line feed behind the last line, which is empty.
    End,
}

/// Fields that tell where a message goes and where it ends: who adds trailers to the head would read another message.
const NO_TRAILERS: [&[u8]; 7] =
    [b"content-length", b"transfer-encoding", b"host", b"connection", b"trailer", b"te", b"upgrade"];

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
            (&State::SizeEnd { size: 0 }, b'\n') => State::Trailers { bytes: 0, part: Trailer::START },
            (&State::SizeEnd { size }, b'\n') => State::Data { left: size },
            (State::DataEnd { seen_return: false }, b'\r') => State::DataEnd { seen_return: true },
            (State::DataEnd { seen_return: true }, b'\n') => State::Size { size: 0, digits: 0 },
            (&State::Trailers { bytes: TRAILER_BYTES.., .. }, _) => {
                return Err(BodyFault("trailers that are too large"));
            }
            (State::Trailers { part: Trailer::End, .. }, b'\n') => State::Done,
            (&State::Trailers { bytes, part }, _) => {
                let part = part.after(byte).ok_or(BodyFault("a trailer that isn't one"))?;
                State::Trailers { bytes: bytes + 1, part }
            }
            _ => return Err(BodyFault("a chunk that isn't one")),
        };
        Ok(())
    }
}

impl Trailer {
    const START: Self = Self::Name { len: 0, can_be: u8::MAX };

    /// What is read behind this byte; none if it can't stand here.
    fn after(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Name { len: 0, .. }, b'\r') => Some(Self::End),
            (Self::Name { len: 1.., .. }, b':') => (!self.is_refused()).then_some(Self::Value),
            (Self::Name { len, can_be }, _) if is_of_name(byte) => {
                let goes_on = |name: &[u8]| name.get(usize::from(len)) == Some(&byte.to_ascii_lowercase());
                let going_on = (0..NO_TRAILERS.len()).filter(|&at| goes_on(NO_TRAILERS[at]));
                let going_on = going_on.fold(0, |bits, at| bits | (1 << at));
                Some(Self::Name { len: len.checked_add(1)?, can_be: can_be & going_on })
            }
            (Self::Value, b'\r') => Some(Self::LineEnd),
            (Self::Value, b'\t' | b' '..=b'~' | 0x80..) => Some(Self::Value),
            (Self::LineEnd, b'\n') => Some(Self::START),
            (Self::Name { .. } | Self::Value | Self::LineEnd | Self::End, _) => None,
        }
    }

    /// Whether the name that was read is whole and no trailer's.
    fn is_refused(self) -> bool {
        let Self::Name { len, can_be } = self else { return false };
        (0..NO_TRAILERS.len()).any(|at| can_be & (1 << at) != 0 && NO_TRAILERS[at].len() == usize::from(len))
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
