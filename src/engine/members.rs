//! Child keys, ascending, packed: the gaps between them as base-128 numbers. A hundred thousand members are some
//! hundred kilobytes. Their waves are base-128 numbers one after the other, nothing where all are in the first and run everything; where
//! some don't, the functions that each does not run follow, as sets of two halves; and where some walk through the whole strategy
//! by themselves, which these are, as a last run of bits, 32 a number.

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

/// What is stored of a member that has not acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PackedPart {
    pub wave: u32,
    /// The functions that it does not run, as a set.
    pub lacks: u64,
    /// Whether it walks through the whole strategy by itself.
    pub in_place: bool,
}

/// Bits in a number.
const BITS: usize = u32::BITS as usize;

/// The parts of the members of a slice.
pub(super) fn pack_parts(parts: &[PackedPart]) -> Vec<u8> {
    let mut packed = Vec::new();
    let some_lack = parts.iter().any(|part| part.lacks > 0);
    let some_in_place = parts.iter().any(|part| part.in_place);
    if some_lack || some_in_place || parts.iter().any(|part| part.wave > 0) {
        packed.reserve(parts.len());
        for part in parts {
            push(&mut packed, part.wave);
        }
    }
    if some_lack {
        for part in parts {
            push(&mut packed, part.lacks as u32);
            push(&mut packed, (part.lacks >> 32) as u32);
        }
    }
    if some_in_place {
        for parts in parts.chunks(BITS) {
            let bit = |(at, part): (usize, &PackedPart)| u32::from(part.in_place) << at;
            push(&mut packed, parts.iter().enumerate().map(bit).sum());
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

/// The parts of `members` members; `None` if there are not as many, or one can't be read.
pub(super) fn unpack_parts(packed: &[u8], members: usize) -> Option<Vec<PackedPart>> {
    if packed.is_empty() {
        return Some(vec![PackedPart::default(); members]);
    }
    let numbers = numbers(packed)?;
    let (waves, rest) = numbers.split_at_checked(members)?;
    // A set takes two numbers a member and the bits one for 32, so how many there are tells what they are.
    let bits = members.div_ceil(BITS);
    let (lacks, in_place) = match rest.len().checked_sub(2 * members) {
        Some(_) => rest.split_at_checked(2 * members)?,
        None => (&[][..], rest),
    };
    if !in_place.is_empty() && in_place.len() != bits {
        return None;
    }
    let part = |(at, wave): (usize, &u32)| {
        let lacks = match lacks.get(2 * at..2 * at + 2) {
            Some([low, high]) => u64::from(*low) | u64::from(*high) << 32,
            _ => 0,
        };
        let in_place = in_place.get(at / BITS).is_some_and(|bits| bits >> (at % BITS) & 1 == 1);
        PackedPart { wave: *wave, lacks, in_place }
    };
    Some(waves.iter().enumerate().map(part).collect())
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
