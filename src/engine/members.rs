//! Child keys, ascending, packed: the gaps between them as base-128 numbers. A hundred thousand members are some
//! hundred kilobytes. Their waves are base-128 numbers one after the other, nothing where all are in the first.

use crate::model::ChildKey;

/// Members in one stored slice.
pub(super) const SLICE_MEMBERS: usize = 50_000;

pub(super) fn pack(keys: &[ChildKey]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(keys.len() * 2);
    let mut before = 0;
    for key in keys {
        push(&mut packed, key.0.wrapping_sub(before));
        before = key.0;
    }
    packed
}

/// The waves of the members of a slice.
pub(super) fn pack_waves(waves: &[u32]) -> Vec<u8> {
    let mut packed = Vec::new();
    if waves.iter().any(|wave| *wave > 0) {
        packed.reserve(waves.len());
        for wave in waves {
            push(&mut packed, *wave);
        }
    }
    packed
}

fn push(packed: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        packed.push(number as u8 | 0x80);
        number >>= 7;
    }
    packed.push(number as u8);
}

/// `None` if the bytes end within a number or a number is too large.
pub(super) fn unpack(packed: &[u8]) -> Option<Vec<ChildKey>> {
    let mut before = 0_u32;
    let mut next = |gap: u32| {
        before = before.checked_add(gap)?;
        Some(ChildKey(before))
    };
    numbers(packed)?.into_iter().map(&mut next).collect()
}

/// The waves of `members` members; `None` if there are not as many, or one can't be read.
pub(super) fn unpack_waves(packed: &[u8], members: usize) -> Option<Vec<u32>> {
    if packed.is_empty() {
        return Some(vec![0; members]);
    }
    numbers(packed).filter(|waves| waves.len() == members)
}

fn numbers(packed: &[u8]) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut bytes = packed.iter();
    while let Some(first) = bytes.next() {
        let mut number = u32::from(first & 0x7f);
        let mut byte = *first;
        let mut shift = 7;
        while byte & 0x80 != 0 {
            byte = *bytes.next()?;
            number |= u32::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
        }
        numbers.push(number);
    }
    Some(numbers)
}
