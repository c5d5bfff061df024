//! A map as bytes: `application/vnd.choirmaster.map`.
//!
//! Everything is little-endian. A header of 32 bytes, then five columns of `count` values, one after the other:
//!
//! | at | type | what |
//! |---|---|---|
//! | 0 | 4 bytes | `CHMP` |
//! | 4 | u16 | version: 1 |
//! | 6 | u16 | flags: bit 0 is set where it is the map of a release |
//! | 8 | u32 | `count`: children |
//! | 12 | u32 | generation: which look this is |
//! | 16 | u64 | epoch: which series of looks, below 2⁵³ |
//! | 24 | u32 | waves: 1 + the highest wave in the last column |
//! | 28 | u32 | bytes of the first column, a multiple of 4 |
//! | 32 | LEB128 | numbers of children, ascending: each is the difference to the one before (the first to 0); then zeros up to a multiple of 4 bytes |
//! | | i32 | longitude of the middle of its area, in 10⁻⁷ degrees, −180 to 180; −2³¹ where no area is known |
//! | | i32 | latitude, likewise |
//! | | u8 | bits 0–5: its state, a number of [`model::MapState`]; bit 6: its area spans 180° or more; bit 7: it is a manager |
//! | | LEB128 | its wave, from 0 |
//!
//! `EPOCH-GENERATION` in decimals is the place from which `map/changes` goes on without a gap.

use super::rows::Rows;

/// The media type.
pub const MEDIA: &str = "application/vnd.choirmaster.map";

const MAGIC: &[u8; 4] = b"CHMP";
const VERSION: u16 = 1;
const OF_RELEASE: u16 = 1;
const HEADER: usize = 32;

/// Appends a number in groups of seven bits, the lowest first; all groups but the last have their high bit set.
pub fn leb128(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a map.
pub fn write(rows: &Rows, epoch: u64, generation: u32, of_release: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + rows.len() * 12);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend((if of_release { OF_RELEASE } else { 0 }).to_le_bytes());
    out.extend((rows.len() as u32).to_le_bytes());
    out.extend(generation.to_le_bytes());
    out.extend(epoch.to_le_bytes());
    let waves = rows.waves.iter().max().map_or(0, |last| last + 1);
    out.extend(waves.to_le_bytes());
    out.extend([0; 4]);
    let mut before = 0;
    for number in &rows.numbers {
        leb128(&mut out, u64::from(number - before));
        before = *number;
    }
    out.resize(out.len().next_multiple_of(4), 0);
    let first = (out.len() - HEADER) as u32;
    out[28..HEADER].copy_from_slice(&first.to_le_bytes());
    for column in [&rows.x, &rows.y] {
        out.extend(column.iter().flat_map(|value| value.to_le_bytes()));
    }
    out.extend(&rows.states);
    for wave in &rows.waves {
        leb128(&mut out, u64::from(*wave));
    }
    out
}
