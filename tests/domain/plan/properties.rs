//! Against a checker that is slow and obvious: every child, polygon by polygon, by the general relation of `geo`.

use std::collections::BTreeMap;

use domain::plan::{AreaIndex, Cover, Lies, Shape, plan, why_not};
use geo::{
    Coord, LineString, MultiPolygon, Polygon, Relate, Validation, coordinate_position::CoordPos,
    dimensions::Dimensions,
};
use language::{Partial, Strategy, Target, TargetArea};
use model::{Capabilities, ChildKey, Cordon};
use proptest::prelude::*;

use super::{Child, Children, strategy};

/// A star around a point of a coarse lattice: many of them touch, share corners and edges.
fn star(reach: i32) -> impl Strategy_<Value = Polygon> {
    let corner = (1..=reach, prop::bool::weighted(0.3));
    (0..20_i32, 0..20_i32, prop::collection::vec(corner, 4..9)).prop_filter_map(
        "crosses itself",
        |(x, y, corners)| {
            let turn = std::f64::consts::TAU / corners.len() as f64;
            let mut ring: Vec<Coord> = corners
                .iter()
                .enumerate()
                .map(|(at, (far, fine))| {
                    let (sin, cos) = (turn * at as f64).sin_cos();
                    let (dx, dy) = (cos * f64::from(*far), sin * f64::from(*far));
                    let round = |z: f64| if *fine { (z * 8.0).round() / 8.0 } else { z.round() };
                    Coord { x: f64::from(x) + round(dx), y: f64::from(y) + round(dy) }
                })
                .collect();
            ring.dedup();
            ring.push(*ring.first()?);
            let polygon = Polygon::new(LineString::new(ring), Vec::new());
            polygon.is_valid().then_some(polygon)
        },
    )
}

use proptest::strategy::Strategy as Strategy_;

/// One to three polygons that may overlap; some have a hole.
fn areas() -> impl Strategy_<Value = MultiPolygon> {
    prop::collection::vec((star(8), prop::option::of(star(2))), 1..4).prop_map(|polygons| {
        let with_hole = |(outer, inner): (Polygon, Option<Polygon>)| {
            let holed =
                inner.map(|inner| Polygon::new(outer.exterior().clone(), vec![inner.exterior().clone()]));
            holed.filter(Validation::is_valid).unwrap_or(outer)
        };
        MultiPolygon::new(polygons.into_iter().map(with_hole).collect())
    })
}

fn text(polygon: &Polygon) -> String {
    let ring: Vec<[f64; 2]> = polygon.exterior().coords().map(|c| [c.x, c.y]).collect();
    serde_json::json!({"type": "Polygon", "coordinates": [ring]}).to_string()
}

/// Obvious: the interiors of the two have a point in common.
fn meet(child: &Polygon, target: &MultiPolygon) -> bool {
    target.iter().any(|part| child.relate(part).get(CoordPos::Inside, CoordPos::Inside) != Dimensions::Empty)
}

fn child() -> impl Strategy_<Value = (Child, Option<Polygon>)> {
    let runtimes = prop::option::of(prop::sample::subsequence(vec!["nodejs", "python", "go"], 0..=3));
    let labels = || prop::collection::btree_map("[ab]", "[xy]", 0..3);
    let kind = (prop::option::weighted(0.95, star(3)), 0..4_u32, prop::bool::weighted(0.9));
    (kind, runtimes, labels(), labels(), any::<bool>()).prop_map(
        |((area, agents, open), runtimes, reported, given, is_busy)| {
            let capabilities = runtimes.map(|runtimes| Capabilities {
                runtimes: Some(runtimes.into_iter().map(str::to_owned).collect()),
                labels: reported,
                ..Capabilities::default()
            });
            let cordon = if open { Cordon::Open } else { Cordon::Cordoned };
            let id = String::new();
            let area_text = area.as_ref().map(text);
            (Child { id, area: area_text, agents, cordon, capabilities, labels: given, is_busy }, area)
        },
    )
}

fn target() -> impl Strategy_<Value = Target> {
    (prop::option::weighted(0.9, areas()), prop::collection::btree_map("[ab]", "[xy]", 0..2), any::<bool>())
        .prop_map(|(area, labels, allow)| Target {
            area: area.as_ref().map(TargetArea::from),
            labels,
            partial: if allow { Partial::Allow } else { Partial::Refuse },
        })
}

/// Two functions: `nodejs`, and at these agents from `nodejs` to `python`.
fn two_functions(target: Target, agents: BTreeMap<String, String>) -> Strategy {
    let mut strategy = strategy("");
    let mut second = strategy.functions[0].clone();
    "other".clone_into(&mut second.name);
    "python".clone_into(&mut second.new.env);
    second.agents = agents;
    strategy.functions.push(second);
    strategy.target = Some(target);
    strategy
}

/// Which functions a child runs by the rules read one after the other, or none.
fn expected(child: &Child, area: Option<&Polygon>, strategy: &Strategy) -> Option<Vec<usize>> {
    let target = strategy.target.as_ref().unwrap();
    if let Some(wanted) = &target.area
        && !area.is_some_and(|area| meet(area, &wanted.polygons()))
    {
        return None;
    }
    let mut labels = child.capabilities.as_ref().map_or_else(BTreeMap::new, |c| c.labels.clone());
    labels.extend(child.labels.clone());
    if child.cordon != Cordon::Open || target.labels.iter().any(|(key, value)| labels.get(key) != Some(value))
    {
        return None;
    }
    let runs = |env: &str| child.capabilities.as_ref().is_none_or(|c| c.runs(env));
    let all = strategy.functions.len();
    let is_meant =
        |at: usize| strategy.functions[at].agents.iter().all(|(key, value)| labels.get(key) == Some(value));
    let can: Vec<usize> = (0..all)
        .filter(|at| is_meant(*at))
        .filter(|at| runs(&strategy.functions[*at].base.env) && runs(&strategy.functions[*at].new.env))
        .collect();
    let enough = if target.partial == Partial::Allow { !can.is_empty() } else { can.len() == all };
    enough.then_some(can)
}

proptest! {
    #![proptest_config(crate::cases::cases(400))]

    #[test]
    fn the_quick_way_finds_what_the_slow_way_finds(target in areas(), children in prop::collection::vec(star(3), 1..20)) {
        let all = Shape::of(&MultiPolygon::new(children.clone()));
        for cover in [Cover::anywhere(&target), Cover::new(&target, all.bounds(), 40_000)] {
            for child in &children {
                let shape = Shape::read(&text(child)).unwrap();
                let lies = cover.place_shape(&shape);
                prop_assert_eq!(lies != Lies::Outside, meet(child, &target), "{:?} in {:?}", child, target);
                if lies == Lies::Inside {
                    prop_assert!(target.iter().any(|part| part.relate(child).is_contains()));
                    prop_assert!((cover.km2_of(&shape) / shape.km2() - 1.0).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn a_plan_is_what_the_rules_say_of_each_child(
        target in target(),
        agents in prop::collection::btree_map("[ab]", "[xy]", 0..2),
        children in prop::collection::vec(child(), 0..30),
    ) {
        let strategy = two_functions(target, agents);
        let (list, areas): (Vec<_>, Vec<_>) = children.into_iter().unzip();
        let children = Children::new(list);
        let found = plan(&strategy, &children);
        let mut members = Vec::new();
        let mut counted = 0;
        let cover = strategy.target.as_ref().unwrap().area.as_ref().map(|area| Cover::anywhere(&area.polygons()));
        for (at, (child, area)) in children.list.iter().zip(&areas).enumerate() {
            let key = ChildKey(at as u32);
            let part = expected(child, area.as_ref(), &strategy);
            let alone = why_not(&strategy, &children, cover.as_ref(), key).unwrap();
            prop_assert_eq!(alone.is_ok(), part.is_some());
            if let Some(part) = part {
                let place = members.len();
                let runs: Vec<usize> = (0..2).filter(|function| found.part(place).has(*function)).collect();
                prop_assert_eq!(runs, part);
                members.push(key);
            } else {
                let why = alone.unwrap_err();
                prop_assert!(found.excluded.iter().any(|(known, _)| *known == why));
                counted += 1;
            }
        }
        prop_assert_eq!(&found.members, &members);
        prop_assert_eq!(found.excluded.iter().map(|(_, tally)| tally.children).sum::<u32>(), counted);
        let agents: u32 = children.list.iter().map(|child| child.agents).sum();
        let told = found.participants.agents + found.excluded.iter().map(|(_, tally)| tally.agents).sum::<u64>();
        prop_assert_eq!(told, u64::from(agents));
        prop_assert_eq!(found, plan(&strategy, &children));
    }

    #[test]
    fn an_index_that_grew_is_the_one_that_was_loaded(
        steps in prop::collection::vec((0..8_u32, prop::option::of(star(3)), 0..3_u8), 0..60),
    ) {
        let mut known: BTreeMap<u32, (Option<String>, u32)> = BTreeMap::new();
        let mut index = AreaIndex::default();
        for (key, area, what) in steps {
            let area = area.as_ref().map(text);
            match what {
                0 => {
                    index.remove(ChildKey(key));
                    known.remove(&key);
                }
                1 => {
                    index.move_to(ChildKey(key), area.as_deref());
                    if let Some(child) = known.get_mut(&key) {
                        child.0 = area;
                    }
                }
                _ => {
                    index.insert(ChildKey(key), area.as_deref(), key);
                    known.insert(key, (area, key));
                }
            }
        }
        let mut loaded = AreaIndex::default();
        for (key, (area, agents)) in &known {
            loaded.insert(ChildKey(*key), area.as_deref(), *agents);
        }
        prop_assert_eq!(index.len(), known.len());
        let told = |index: &AreaIndex| format!("{:?}", index.iter().collect::<Vec<_>>());
        prop_assert_eq!(told(&index), told(&loaded));
    }
}
