use super::fields::{tokens, trimmed};

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks, the last of which is empty, and trailers.
    Chunked,
    /// Everything until the connection ends; answers alone.
    UntilClose,
}

/// What the fields of a head say about its body.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lengths {
    pub length: Option<u64>,
    pub chunked: bool,
}

impl Lengths {
    /// Takes a field into account. Refused is what leaves room for a second reading: more than one length, a length that isn't
    /// just digits, a transfer coding other than `chunked` alone, both.
    pub(crate) fn note(&mut self, name: &str, value: &[u8]) -> Result<(), &'static str> {
        if name.eq_ignore_ascii_case("content-length") {
            if self.length.is_some() {
                return Err("two content lengths");
            }
            let value = trimmed(value);
            let is_number = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
            if !is_number {
                return Err("a content length that isn't a number of bytes");
            }
            self.length = Some(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')));
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            let is_chunked_alone = !self.chunked
                && tokens(value).map(|coding| coding.eq_ignore_ascii_case(b"chunked")).eq([true]);
            if !is_chunked_alone {
                return Err("a transfer encoding other than chunked alone");
            }
            self.chunked = true;
        }
        if self.chunked && self.length.is_some() {
            return Err("a content length and a transfer encoding");
        }
        Ok(())
    }

    /// How the end of a request's body is told.
    pub(crate) fn of_request(self) -> Framing {
        match (self.chunked, self.length) {
            (true, _) => Framing::Chunked,
            (false, None | Some(0)) => Framing::None,
            (false, Some(length)) => Framing::Length(length),
        }
    }
}
