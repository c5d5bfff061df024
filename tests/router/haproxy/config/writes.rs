//! Changes in a process that runs.

use proptest::prelude::*;
use router::haproxy::config::{
    Map, Maps, ProcessReport, Write, maps, section, seen, state, to_switch_off, writes,
};
use traffic::{
    desired::{DesiredConfig, ServiceSpec},
    observed::{ObservedConfig, differences},
};

use super::{any_specs, any_table, frame, model::Model, shop, wanted};

fn seen_of(model: &Model) -> ObservedConfig {
    seen(ProcessReport { maps: &model.maps, servers: &model.servers(), load: &model.load() }).unwrap()
}

/// Services, and the same with other tables and other values of rules.
fn any_two() -> impl Strategy<Value = (Vec<ServiceSpec>, Vec<ServiceSpec>)> {
    any_specs().prop_flat_map(|specs| {
        let changed: Vec<_> = specs
            .iter()
            .map(|spec| {
                let spec = spec.clone();
                (any_table(spec.variations.len()), any::<bool>()).prop_map(move |(table, drops)| {
                    let mut spec = ServiceSpec { table, ..spec.clone() };
                    if let Some(rule) = spec.rule.as_mut().filter(|_| drops) {
                        rule.values.pop();
                    }
                    spec
                })
            })
            .collect();
        (Just(specs), changed)
    })
}

fn all_steps<'w>(model: &Model, wanted: &'w Maps) -> Vec<Write<'w>> {
    let mut steps = to_switch_off(&model.maps, &wanted["state.map"]);
    let mut after = model.clone();
    after.obey_all(&steps);
    steps.extend(writes(&after.maps, wanted));
    steps
}

proptest! {
    #[test]
    fn what_was_told_is_read_back(specs in any_specs()) {
        let wanted = wanted(7, &specs);
        let model = Model::of(&wanted);
        prop_assert_eq!(differences(&wanted, &seen_of(&model)), []);
        for map in model.maps.keys() {
            prop_assert_eq!(model.asks_for(map).len(), 3);
        }
    }

    #[test]
    fn each_step_of_a_change_gives_each_service_what_it_had_or_is_to_have((before, after) in any_two()) {
        let (before, after) = (wanted(7, &before), wanted(8, &after));
        let (old, new) = (section(&before, &frame()).unwrap(), section(&after, &frame()).unwrap());
        prop_assert_eq!(&old.structure, &new.structure);
        let new = maps(&after);
        prop_assert_eq!(&new["state.map"], &state(&after));
        let mut model = Model::of(&before);
        let steps = all_steps(&model, &new);
        for (at, write) in steps.iter().enumerate() {
            model.obey(write);
            let seen = seen_of(&model);
            for service in after.services() {
                let name = service.name.as_str();
                let table = seen.services[name].table.clone().unwrap();
                let had = &before.service(name).unwrap().table;
                let is_stable = table.hundredths()[0] == 10_000;
                prop_assert!(table == *had || table == service.table || is_stable, "{at}: {table:?}");
            }
            prop_assert!(at + 1 == steps.len() || seen.number != Some(after.number), "the number is the last");
        }
        prop_assert_eq!(differences(&after, &seen_of(&model)), []);
        prop_assert_eq!(writes(&model.maps, &new), []);
        prop_assert_eq!(to_switch_off(&model.maps, &new["state.map"]), []);
    }
}

fn with_b(share: u16) -> DesiredConfig {
    let mut spec = shop();
    let shares = traffic::Shares::new([10_000 - share, share]).unwrap();
    spec.table = spec.table.with_shares(&shares).unwrap();
    wanted(u64::from(share) + 1, &[spec])
}

#[test]
fn to_take_all_back_is_one_entry() {
    let (half, none) = (with_b(5_000), with_b(0));
    let mut model = Model::of(&half);
    let none = state(&none);
    let off = to_switch_off(&model.maps, &none);
    assert_eq!(off, [Write::Set { map: "state.map", key: "service/shop", value: "off" }]);
    model.obey(&off[0]);
    assert_eq!(seen_of(&model).services["shop"].variations[1].hundredths, 0);
    assert_eq!(to_switch_off(&model.maps, &state(&with_b(1))), []);
}

type Meddle = fn(&mut Map);

#[test]
fn what_was_changed_in_a_process_by_hand_is_seen_and_written_anew() {
    let wanted = with_b(5_000);
    let told = maps(&wanted);
    let changes: [(&str, Meddle); 6] = [
        ("shop.table", |map| map.truncate(100)),
        ("shop.table", |map| map[0].1 = "nobody".to_owned()),
        ("shop.table", |map| map.push(("10000".to_owned(), "B".to_owned()))),
        ("shop.table", |map| map.push(("0007".to_owned(), "B".to_owned()))),
        ("state.map", |map| map[1].1 = "off".to_owned()),
        ("state.map", |map| map[0].1 = "3.1".to_owned()),
    ];
    for (map, change) in changes {
        let mut model = Model::of(&wanted);
        change(model.maps.get_mut(map).unwrap());
        assert!(!differences(&wanted, &seen_of(&model)).is_empty(), "{map}");
        let steps = all_steps(&model, &told);
        model.obey_all(&steps);
        assert_eq!(differences(&wanted, &seen_of(&model)), []);
    }
}

#[test]
fn a_rule_that_somebody_changed_is_no_rule_of_that_number() {
    let mut spec = shop();
    spec.rule = Some(traffic::desired::Rule {
        name: "X-Variation".parse().unwrap(),
        values: vec![("B".parse().unwrap(), traffic::Variation(1))],
    });
    let wanted = wanted(4, &[spec]);
    let told = maps(&wanted);
    let mut model = Model::of(&wanted);
    assert_eq!(seen_of(&model).number, Some(wanted.number));
    model.maps.get_mut("shop.rule").unwrap()[0].0 = "43".to_owned();
    assert_eq!(seen_of(&model).number, None);
    let steps = all_steps(&model, &told);
    model.obey_all(&steps);
    assert_eq!(seen_of(&model).number, Some(wanted.number));
    assert_eq!(model.state().len(), 3);
}
