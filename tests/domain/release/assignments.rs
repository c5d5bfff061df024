//! The assignments of a release are a map of which copies are cheap.

use std::{collections::BTreeMap, ops::Bound};

use domain::release::{assignment::Assignment, assignments::Assignments};
use model::ChildKey;

fn assignment(wave: u32) -> Assignment {
    Assignment { wave, ..Assignment::new(0) }
}

fn all(keys: &[u32]) -> Assignments {
    keys.iter().map(|key| (ChildKey(*key), assignment(*key))).collect()
}

#[test]
fn it_is_a_map_whoever_joins_when() {
    let mut found = all(&[2, 4, 6, 8]);
    let mut model: BTreeMap<ChildKey, Assignment> =
        [2, 4, 6, 8].map(|key| (ChildKey(key), assignment(key))).into();
    for (key, wave) in [(5, 1), (9, 2), (1, 3), (4, 4), (5, 5)] {
        found.insert(ChildKey(key), assignment(wave));
        model.insert(ChildKey(key), assignment(wave));
        assert!(found.iter().eq(model.iter()));
        assert!(found.keys().eq(model.keys()) && found.values().eq(model.values()));
        assert_eq!(found.len(), model.len());
    }
    for key in 0..11 {
        let key = ChildKey(key);
        assert_eq!(found.get(&key), model.get(&key));
        assert_eq!(found.get_mut(&key), model.get_mut(&key));
        for end in [3, 6, 9, 12] {
            let ranges = [
                (Bound::Included(key), Bound::Unbounded),
                (Bound::Excluded(key), Bound::Included(ChildKey(end).max(ChildKey(key.0 + 1)))),
                (Bound::Unbounded, Bound::Excluded(ChildKey(end))),
            ];
            for range in ranges {
                assert!(found.range(range).eq(model.range(range)), "{range:?}");
            }
        }
    }
    assert_eq!(found, model.into_iter().collect::<Assignments>());
}

#[test]
fn whatever_comes_in_no_order_is_put_in_order() {
    assert_eq!(all(&[3, 1, 2, 1]), all(&[1, 2, 3]));
    assert_ne!(all(&[1]), all(&[1, 2]));
    assert!(all(&[]).is_empty());
}

#[test]
fn a_copy_stays_as_it_was() {
    let mut found = all(&[2, 4, 6, 8]);
    found.insert(ChildKey(5), assignment(1));
    let copy = found.clone();
    found.insert(ChildKey(7), assignment(2));
    found.values_mut().for_each(|part| part.wave += 10);
    assert!(copy.iter().map(|(key, part)| (key.0, part.wave)).eq([(2, 2), (4, 4), (5, 1), (6, 6), (8, 8)]));
    let changed = [(2, 12), (4, 14), (5, 11), (6, 16), (7, 12), (8, 18)];
    assert!(found.iter().map(|(key, part)| (key.0, part.wave)).eq(changed));
}
