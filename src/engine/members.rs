//! Child keys, ascending, packed: the gaps between them as base-128 numbers. A hundred thousand members are some
//! hundred kilobytes. Their waves are base-128 numbers one after the other, nothing where all are in the first and run everything; where
//! some don't, the functions that each does not run follow, as sets of two halves.

use model::ChildKey;

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

/// The wave of each member of a slice, and the functions that it does not run, as a set.
pub(super) fn pack_parts(parts: &[(u32, u64)]) -> Vec<u8> {
    let mut packed = Vec::new();
    let some_lack = parts.iter().any(|(_, lacks)| *lacks > 0);
    if some_lack || parts.iter().any(|(wave, _)| *wave > 0) {
        packed.reserve(parts.len());
        for (wave, _) in parts {
            push(&mut packed, *wave);
        }
    }
    if some_lack {
        for (_, lacks) in parts {
            push(&mut packed, *lacks as u32);
            push(&mut packed, (*lacks >> 32) as u32);
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

/// The wave of each of `members` members, and the functions that it does not run; `None` if there are not as many, or
/// one can't be read.
pub(super) fn unpack_parts(packed: &[u8], members: usize) -> Option<Vec<(u32, u64)>> {
    if packed.is_empty() {
        return Some(vec![(0, 0); members]);
    }
    let numbers = numbers(packed)?;
    let (waves, lacks) = numbers.split_at_checked(members)?;
    if lacks.is_empty() {
        return Some(waves.iter().map(|wave| (*wave, 0)).collect());
    }
    let lacks = lacks.chunks(2).map(|halves| match halves {
        [low, high] => Some(u64::from(*low) | u64::from(*high) << 32),
        _ => None,
    });
    let lacks = lacks.collect::<Option<Vec<u64>>>().filter(|lacks| lacks.len() == members)?;
    Some(waves.iter().copied().zip(lacks).collect())
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
