use serde::{Deserialize, Serialize};

use crate::BUCKETS;

/// One of the [`BUCKETS`] buckets of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u16);

/// How the key of a call becomes a number. Routers that share a service share its function, so that they give a key the same
/// variation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashFunction {
    /// `MurmurHash2`, 32 bits, seed 0, of the salt followed by the key: what nginx's `split_clients` computes.
    #[default]
    Murmur2,
    /// xxHash, 32 bits, of the key, whose seed is the salt's own xxHash: what `HAProxy`'s `xxh32` converter computes.
    Xxh32,
}

impl HashFunction {
    pub const ALL: [Self; 2] = [Self::Murmur2, Self::Xxh32];

    /// As it is written in strategies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Murmur2 => "murmur2",
            Self::Xxh32 => "xxh32",
        }
    }

    /// The one by which a router draws users that knows these, the usual one first, where a service asks for one or for none.
    #[must_use]
    pub fn chosen(known: &[Self], asked: Option<Self>) -> Option<Self> {
        asked.filter(|asked| known.contains(asked)).or_else(|| known.first().copied())
    }
}

impl Bucket {
    /// The bucket of a key.
    #[must_use]
    pub fn of_key(function: HashFunction, salt: &[u8], key: &[u8]) -> Self {
        match function {
            HashFunction::Murmur2 => {
                let mut text = Vec::with_capacity(salt.len() + key.len() + 1);
                text.extend_from_slice(salt);
                text.extend_from_slice(key);
                let hundreds = part_of_100(murmur2(&text));
                text.push(b'#');
                Self(100 * hundreds + part_of_100(murmur2(&text)))
            }
            HashFunction::Xxh32 => {
                let seed = xxhash_rust::xxh32::xxh32(salt, 0);
                Self((xxhash_rust::xxh32::xxh32(key, seed) % u32::from(BUCKETS)) as u16)
            }
        }
    }

    /// The bucket of a number that was drawn from all of 32 bits, each as likely.
    #[must_use]
    pub fn of_random(drawn: u32) -> Self {
        Self(((u64::from(drawn) * u64::from(BUCKETS)) >> 32) as u16)
    }

    /// From 0 to before [`BUCKETS`].
    #[must_use]
    pub fn index(self) -> u16 {
        self.0
    }
}

/// How many groups keys are told apart into, so that it can be seen how much alike the calls of one caller are.
pub const GROUPS: u8 = 64;

/// The group of a key, below [`GROUPS`]. It depends on the key alone, and so stays whatever the shares, the salt and the function
/// of a service are; each variation has keys of every group, for other bits of a hash decide about the bucket.
#[must_use]
pub fn group_of_key(key: &[u8]) -> u8 {
    (murmur2(key) % u32::from(GROUPS)) as u8
}

/// Which hundredth of all 32-bit numbers a hash lies in, with the bounds of nginx: the k-th begins at k times the whole part of
/// `0xffff_ffff` / 100, and the last takes what is left.
fn part_of_100(hash: u32) -> u16 {
    (hash / (u32::MAX / 100)).min(99) as u16
}

/// `MurmurHash2` of 32 bits with seed 0, by Austin Appleby, in the byte order of little-endian machines.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mix = |k: u32| {
        let k = k.wrapping_mul(M);
        (k ^ (k >> 24)).wrapping_mul(M)
    };
    let mut hash = data.len() as u32;
    let words = data.chunks_exact(4);
    let rest = words.remainder();
    for word in words {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        hash = hash.wrapping_mul(M) ^ mix(word);
    }
    if !rest.is_empty() {
        for (place, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}
