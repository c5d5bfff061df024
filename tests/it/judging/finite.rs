//! Numbers that JSON can't hold are found before anything is stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use analysis::{Sample, Stratum};
use domain::release::analysis::Metered;
use engine::tried_alone::{can_be_stored, has_only_numbers};

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Numbers {
    number: f64,
    optional: Option<f64>,
    nested: Option<Box<Numbers>>,
    list: Vec<f64>,
    pair: (u8, f64),
    map: BTreeMap<String, f64>,
    kind: Kind,
    kinds: Vec<Kind>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
enum Kind {
    #[default]
    None,
    One(f64),
    Optional(Option<f64>),
    Two(f64, f64),
    Named {
        number: f64,
    },
}

/// Fine is exactly what can be read back once it was written.
#[test]
fn what_has_only_numbers_can_be_read_back_and_nothing_else() {
    let (none, fine) = (f64::NAN, Numbers::default());
    let nested = |nested: Numbers| Numbers { nested: Some(Box::new(nested)), ..fine.clone() };
    let kind = |kind: Kind| Numbers { kinds: vec![Kind::None, kind], ..fine.clone() };
    let cases = [
        fine.clone(),
        Numbers { number: none, ..fine.clone() },
        Numbers { number: f64::INFINITY, ..fine.clone() },
        Numbers { optional: Some(none), ..fine.clone() },
        Numbers { list: vec![1.0, -f64::INFINITY], ..fine.clone() },
        Numbers { pair: (1, none), ..fine.clone() },
        Numbers { map: [("key".to_owned(), none)].into(), ..fine.clone() },
        Numbers { kind: Kind::One(none), ..fine.clone() },
        nested(fine.clone()),
        nested(Numbers { number: none, ..fine.clone() }),
        nested(Numbers { optional: Some(none), ..fine.clone() }),
        kind(Kind::One(1.0)),
        kind(Kind::Optional(Some(none))),
        kind(Kind::Two(1.0, none)),
        kind(Kind::Named { number: none }),
    ];
    let mut refused = 0;
    for case in &cases {
        let text = serde_json::to_string(case).unwrap();
        let is_read = serde_json::from_str::<Numbers>(&text).is_ok();
        assert_eq!(has_only_numbers(case), is_read, "{case:?}");
        refused += usize::from(!is_read);
    }
    assert_eq!(refused, 9);
}

#[test]
fn what_a_look_found_is_looked_through() {
    let found = |value: f64| {
        let stratum = Stratum::new("one", 0, Sample::Values(vec![1.0]), Sample::Values(vec![value]));
        Metered { strata: vec![stratum], ..Metered::default() }
    };
    assert!(can_be_stored(&found(2.0)));
    assert!(!can_be_stored(&found(f64::NAN)));
}
