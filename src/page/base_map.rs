//! The land as a drawing, made from the data that the map's script reads (`assets/land/convert.mjs` says what its form is).

use std::fmt::Write as _;

/// Reads numbers in groups of seven bits; what lies behind the end is 0.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        while let Some((byte, rest)) = self.0.split_first() {
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 || shift > 56 {
                break;
            }
        }
        number
    }

    fn signed(&mut self) -> i64 {
        let number = self.number();
        (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
    }
}

/// A document with one path, `land`, in hundredths of a degree with north at the top.
pub fn svg(data: &[u8]) -> String {
    let mut reader = Reader(data.get(4..).unwrap_or_default());
    let mut path = String::with_capacity(data.len() * 3);
    let mut last = (0, 0);
    for _ in 0..reader.number() {
        let mut at = (0, 0);
        for corner in 0..reader.number() {
            at = (at.0 + reader.signed(), at.1 - reader.signed());
            let letter = if corner == 0 { "M" } else { "l" };
            let (x, y) = if corner == 0 { at } else { (at.0 - last.0, at.1 - last.1) };
            // To write into a string can't fail.
            let _ = write!(path, "{letter}{x} {y}");
            last = at;
        }
        path.push('z');
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\"><path id=\"land\" fill-rule=\"evenodd\" d=\"{path}\"/></svg>"
    )
}
