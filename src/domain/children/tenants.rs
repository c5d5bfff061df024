//! Whose the children are: those of each tenant, in the order of their births.
//!
//! A tenant's list is read off this, so that what it costs grows with the children of that tenant, and not with those of all. A child is
//! a bit, 64 of them a word, and the words lie in pages that a copy shares with the original.

use std::{collections::BTreeMap, sync::Arc};

use model::{
    ChildKey,
    pages::{Pages, Place},
    steps,
};

/// Words on a page: children who came one after the other are often one tenant's.
const WORDS_ON_A_PAGE: usize = 8;

/// The children of each tenant. A copy shares everything with the original.
#[derive(Debug, Clone, Default)]
pub(super) struct Tenants {
    of: Arc<BTreeMap<Box<str>, Own>>,
}

/// Those of one tenant.
#[derive(Debug, Clone, Default)]
struct Own {
    count: u32,
    words: Pages<Word, WORDS_ON_A_PAGE>,
}

/// Of 64 numbers in a row those who are there, by bits.
#[derive(Debug, Clone, Copy)]
struct Word(u64);

impl Place for Word {
    const VACANT: Self = Self(0);

    fn is_vacant(&self) -> bool {
        self.0 == 0
    }
}

/// In which word a child is, and which bit of it.
const fn place(key: ChildKey) -> (usize, u64) {
    (key.0 as usize / 64, 1 << (key.0 % 64))
}

impl Tenants {
    pub fn count(&self, tenant: &str) -> u32 {
        self.of.get(tenant).map_or(0, |own| own.count)
    }

    /// The children of a tenant in the order of their births, only keys above `after`.
    pub fn after(&self, tenant: &str, after: Option<ChildKey>) -> impl Iterator<Item = ChildKey> {
        let first = after.map_or(0, |key| key.0 as usize + 1);
        let words = self.of.get(tenant).into_iter().flat_map(move |own| own.words.from(first / 64));
        words.flat_map(move |(at, word)| {
            let seen = if at == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
            let mut left = word.0 & seen;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                steps::take(1);
                Some(ChildKey(at as u32 * 64 + bit))
            })
        })
    }

    /// A child is this tenant's from now on; `None`: nobody's.
    pub fn insert(&mut self, tenant: Option<&str>, key: ChildKey) {
        let Some(tenant) = tenant else { return };
        let own = Arc::make_mut(&mut self.of).entry(tenant.into()).or_default();
        let (at, bit) = place(key);
        let before = own.words.get(at).map_or(0, |word| word.0);
        if before & bit == 0 {
            own.words.put(at, Word(before | bit));
            own.count += 1;
        }
    }

    /// A child is this tenant's no longer.
    pub fn remove(&mut self, tenant: Option<&str>, key: ChildKey) {
        let Some(tenant) = tenant else { return };
        let (at, bit) = place(key);
        let of = Arc::make_mut(&mut self.of);
        let Some(own) = of.get_mut(tenant) else { return };
        let before = own.words.get(at).map_or(0, |word| word.0);
        if before & bit == 0 {
            return;
        }
        match before & !bit {
            0 => drop(own.words.take(at)),
            left => own.words.put(at, Word(left)),
        }
        own.count -= 1;
        if own.count == 0 {
            of.remove(tenant);
        }
    }
}
