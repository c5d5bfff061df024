//! Pairs are a set of tuples.

use std::collections::BTreeSet;

use model::{ChildKey, pairs::Pairs};

#[test]
fn it_is_a_set_of_tuples() {
    let (mut pairs, mut model) = (Pairs::default(), BTreeSet::new());
    let words = [0, 1, u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, u64::MAX - 1, u64::MAX];
    let all = words.iter().flat_map(|word| [0, 7, u32::MAX].map(|child| (*word, ChildKey(child))));
    let all: Vec<_> = all.collect();
    for pair in all.iter().rev() {
        pairs.insert(*pair);
        model.insert(*pair);
        assert_eq!(pairs.first(), model.first().copied());
    }
    for from in &all {
        for to in all.iter().filter(|to| from <= *to) {
            assert!(pairs.range(*from..=*to).eq(model.range(*from..=*to).copied()));
            assert!(pairs.range(..*to).rev().eq(model.range(..*to).rev().copied()));
        }
    }
    for pair in all {
        pairs.remove(pair);
        model.remove(&pair);
        assert!(pairs.range(..).eq(model.iter().copied()));
    }
}
