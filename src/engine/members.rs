//! Child keys, ascending, packed: the gaps between them as base-128 numbers. A hundred thousand members are some
//! hundred kilobytes.

use crate::model::ChildKey;

/// Members in one stored slice.
pub(super) const SLICE_MEMBERS: usize = 50_000;

pub(super) fn pack(keys: &[ChildKey]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(keys.len() * 2);
    let mut before = 0;
    for key in keys {
        let mut gap = key.0.wrapping_sub(before);
        before = key.0;
        while gap >= 0x80 {
            packed.push(gap as u8 | 0x80);
            gap >>= 7;
        }
        packed.push(gap as u8);
    }
    packed
}

/// `None` if the bytes end within a number or a number is too large.
pub(super) fn unpack(packed: &[u8]) -> Option<Vec<ChildKey>> {
    let mut keys = Vec::new();
    let mut before = 0_u32;
    let mut bytes = packed.iter();
    while let Some(first) = bytes.next() {
        let mut gap = u32::from(first & 0x7f);
        let mut byte = *first;
        let mut shift = 7;
        while byte & 0x80 != 0 {
            byte = *bytes.next()?;
            gap |= u32::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
        }
        before = before.checked_add(gap)?;
        keys.push(ChildKey(before));
    }
    Some(keys)
}
