//! Children by tenant: an index that changes with them, and that is walked over alone.

use std::collections::{BTreeMap, BTreeSet};

use domain::children::{
    Absences, Arrival, Books, Change, Child, Children, Forgetting, registration::Registration,
};
use model::{ChildId, ChildKey, Now, TENANT_LABEL, steps};
use proptest::prelude::*;

const NOW: Now = Now { wall_ms: 1_700_000_000_000, served_ms: 1_000 };

fn record(key: u32) -> Child {
    let registration = Registration {
        id: ChildId::parse(&format!("child-{key}")).unwrap(),
        key: ChildKey(key),
        area: None,
        address: None,
        agents: 0,
        profile: None,
        live: domain::children::registration::Live::default(),
    };
    Child::new(registration, NOW)
}

#[derive(Default)]
struct Known {
    books: Books,
    children: Children,
}

impl Known {
    fn change(&mut self, change: &Change) {
        self.books.apply(&mut self.children, change, Absences::default());
    }

    fn arrives(&mut self, key: u32) {
        let (child, arrival) = (ChildKey(key), Arrival::Registered);
        self.change(&Change::Arrived { child, arrival, record: Box::new(record(key)) });
    }

    fn label(&mut self, key: u32, tenant: Option<&str>) {
        let value = tenant.map(str::to_owned);
        self.change(&Change::Labelled { child: ChildKey(key), key: TENANT_LABEL.to_owned(), value });
    }

    fn of(&self, tenant: &str, after: Option<u32>) -> Vec<u32> {
        self.children.after_of(tenant, after.map(ChildKey)).map(|(key, _)| key.0).collect()
    }
}

#[derive(Debug, Clone)]
enum Deed {
    Arrives(u32),
    Labelled(u32, Option<&'static str>),
    Forgotten(u32),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let key = || prop_oneof![0_u32..200, 1_000_u32..1_003];
    let tenant = prop_oneof![Just(None), Just(Some("acme")), Just(Some("umbra"))];
    let deed = prop_oneof![
        key().prop_map(Deed::Arrives),
        (key(), tenant).prop_map(|(key, tenant)| Deed::Labelled(key, tenant)),
        key().prop_map(Deed::Forgotten),
    ];
    proptest::collection::vec(deed, 1..150)
}

proptest! {
    #![proptest_config(crate::cases::cases(64))]

    #[test]
    fn the_index_says_what_the_children_say(deeds in deeds(), after in 0_u32..1_003) {
        let mut known = Known::default();
        let mut expected: BTreeMap<u32, Option<&str>> = BTreeMap::new();
        let mut copies = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Arrives(key) => {
                    known.arrives(key);
                    expected.insert(key, None);
                }
                Deed::Labelled(key, tenant) if expected.contains_key(&key) => {
                    known.label(key, tenant);
                    expected.insert(key, tenant);
                }
                Deed::Labelled(..) => {}
                Deed::Forgotten(key) => {
                    let (child, id) = (ChildKey(key), ChildId::parse(&format!("child-{key}")).unwrap());
                    known.change(&Change::Forgotten { child, id, why: Forgetting::ByOperator });
                    expected.remove(&key);
                }
            }
            copies.push((known.children.clone(), expected.clone()));
        }
        // What readers hold stays as it was.
        for (children, expected) in &copies {
            for tenant in ["acme", "umbra"] {
                let all: BTreeSet<u32> =
                    expected.iter().filter(|(_, of)| **of == Some(tenant)).map(|(key, _)| *key).collect();
                let found: Vec<u32> = children.after_of(tenant, None).map(|(key, _)| key.0).collect();
                prop_assert_eq!(&found, &all.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(children.of_tenant(tenant) as usize, all.len());
                let behind: Vec<u32> =
                    children.after_of(tenant, Some(ChildKey(after))).map(|(key, _)| key.0).collect();
                prop_assert_eq!(behind, all.range(after + 1..).copied().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn a_tenants_children_are_found_without_a_walk_over_the_others() {
    let mut walked = Vec::new();
    for many in [1_000, 100_000] {
        let mut known = Known::default();
        (0..many).for_each(|key| known.arrives(key));
        for key in [0, many / 2, many - 1] {
            known.label(key, Some("acme"));
        }
        let before = steps::taken();
        assert_eq!(known.of("acme", None), [0, many / 2, many - 1]);
        assert_eq!(known.of("acme", Some(many / 2)), [many - 1]);
        walked.push(steps::taken() - before);
    }
    assert_eq!(walked, [4, 4]);
}
