//! Bytes as hexadecimal digits: two for each byte, the higher one first.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// That a text isn't bytes in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{expected} hexadecimal digits are expected")]
pub struct NotHex {
    /// How many there had to be: two for each byte.
    pub expected: usize,
}

/// Bytes as digits, with small letters.
pub fn encode(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        digits.push(char::from(DIGITS[usize::from(byte >> 4)]));
        digits.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    digits
}

/// So many bytes from a text that is their digits and nothing else, with letters of either case.
///
/// # Errors
///
/// The text has another length, or something else in it.
pub fn decode<const N: usize>(text: &str) -> Result<[u8; N], NotHex> {
    let wrong = NotHex { expected: 2 * N };
    if text.len() != wrong.expected {
        return Err(wrong);
    }
    let mut bytes = [0; N];
    for (at, byte) in text.bytes().enumerate() {
        let digit = char::from(byte).to_digit(16).ok_or(wrong)?;
        bytes[at / 2] = bytes[at / 2] << 4 | digit as u8;
    }
    Ok(bytes)
}

/// Whether a text has nothing in it but digits as [`encode`] writes them.
pub fn is_encoded(text: &str) -> bool {
    text.bytes().all(|byte| DIGITS.contains(&byte))
}
