//! Who takes part in a release over a tree: exactly those who would if all were children of one manager.

use domain::{parent::area::reported, plan::plan};
use language::{Strategy, Target, TargetArea, check_from_parent};
use num_rational::BigRational;
use proptest::{collection::vec, prelude::*, strategy::Strategy as Strategy_};

use super::{Child, Children, strategy};
use crate::release::world::{World, canary};

/// Corners of a convex polygon, anticlockwise.
type Convex = Vec<[f64; 2]>;

/// Lines of a grid: irregular, or around a place, of a thousandth of a thousandth of a degree beside the whole world.
fn lines(range: f64) -> impl Strategy_<Value = Vec<f64>> {
    let irregular = vec(-range..range, 4..7);
    let decimal = (-900..800_i32, 4..7_usize).prop_map(move |(from, count)| {
        (0..count).map(|at| (f64::from(from) / 10.0 + at as f64 * 0.7) * range / 180.0).collect()
    });
    let tiny = (-0.9 * range..0.9 * range, 3..6_usize).prop_map(move |(from, count)| {
        let around = [-range, range].into_iter();
        (0..count).map(|at| from + at as f64 * 1e-6).chain(around).collect()
    });
    prop_oneof![irregular, decimal, tiny].prop_map(|mut lines: Vec<f64>| {
        lines.sort_by(f64::total_cmp);
        lines.dedup();
        lines
    })
}

fn rectangle(west: f64, south: f64, east: f64, north: f64) -> Convex {
    vec![[west, south], [east, south], [east, north], [west, north]]
}

fn ring(corners: &Convex) -> Vec<[f64; 2]> {
    // No edge may be longer than half of the globe.
    let mut ring: Vec<[f64; 2]> = Vec::new();
    for (at, corner) in corners.iter().enumerate() {
        let next = corners[(at + 1) % corners.len()];
        ring.push(*corner);
        if (next[0] - corner[0]).abs() > 180.0 {
            ring.push([f64::midpoint(next[0], corner[0]), corner[1]]);
        }
    }
    ring.push(ring[0]);
    ring
}

/// Twice the area of a triangle, exactly; positive if it runs anticlockwise.
fn turn(one: [f64; 2], two: [f64; 2], three: [f64; 2]) -> BigRational {
    let exact = |number: f64| BigRational::from_float(number).unwrap();
    let [[ax, ay], [bx, by], [cx, cy]] = [one, two, three].map(|point| point.map(exact));
    (&bx - &ax) * (cy - &ay) - (by - ay) * (cx - ax)
}

/// Two convex polygons share more than their borders unless an edge of one of them has the whole other one on its outer side.
fn meet(one: &Convex, two: &Convex) -> bool {
    let nothing = BigRational::from_integer(0.into());
    let parted_by = |edges: &Convex, others: &Convex| {
        (0..edges.len()).any(|at| {
            let (from, to) = (edges[at], edges[(at + 1) % edges.len()]);
            others.iter().all(|point| turn(from, to, *point) <= nothing)
        })
    };
    !parted_by(one, two) && !parted_by(two, one)
}

/// A grid of agents, below which manager each of them is, and a target of convex parts.
#[derive(Debug)]
struct Case {
    agents: Vec<Convex>,
    below: Vec<usize>,
    target: Vec<Convex>,
}

/// Managers that have agents; two of them, and one alone, are below the root.
const LOWEST: usize = 3;

fn cases() -> impl Strategy_<Value = Case> {
    let part = (any::<[prop::sample::Index; 4]>(), 0..4_usize, any::<bool>());
    let below = vec(0..LOWEST, 36);
    (lines(180.0), lines(90.0), vec(part, 1..3), below).prop_map(|(columns, rows, parts, below)| {
        let cells = rows
            .windows(2)
            .flat_map(|row| columns.windows(2).map(|column| rectangle(column[0], row[0], column[1], row[1])));
        let agents: Vec<Convex> = cells.collect();
        let mut target: Vec<Convex> = Vec::new();
        for (picked, corner, is_triangle) in parts {
            let pick = |lines: &[f64], one: usize, two: usize| {
                let (one, two) = (picked[one].index(lines.len()), picked[two].index(lines.len() - 1));
                let two = (one + 1 + two) % lines.len();
                (lines[one.min(two)], lines[one.max(two)])
            };
            let ((west, east), (south, north)) = (pick(&columns, 0, 1), pick(&rows, 2, 3));
            let mut part = rectangle(west, south, east, north);
            if is_triangle && east - west <= 180.0 {
                part.remove(corner);
            }
            target.push(part);
        }
        Case { below: below[..agents.len()].to_vec(), agents, target }
    })
}

fn geojson(area: &Convex) -> String {
    serde_json::json!({"type": "Polygon", "coordinates": [ring(area)]}).to_string()
}

fn at(areas: &[String]) -> Children {
    Children::new(areas.iter().enumerate().map(|(at, area)| Child::at(&at.to_string(), area)).collect())
}

/// Which children take part.
fn takes(target: &Target, areas: &[String]) -> Vec<bool> {
    let strategy = Strategy { target: Some(target.clone()), ..strategy("") };
    let children = at(areas);
    let found = plan(&strategy, &children);
    (0..children.list.len()).map(|at| found.members.iter().any(|key| key.0 as usize == at)).collect()
}

/// What a manager tells of those below it.
fn told(areas: &[String]) -> String {
    let areas: Vec<_> = areas.iter().map(|area| area.as_str().into()).collect();
    reported(&areas).close.unwrap()
}

/// The target as a manager below with this area reads it.
fn handed(target: &Target, area: &str) -> Target {
    let mut world = World::new();
    let manager = world.manager(area, 1);
    let text = serde_json::to_string(&target.area).unwrap();
    world
        .submit_text(&format!(
            "target: {{area: {{type: MultiPolygon, coordinates: {text}}}}}\n{}",
            canary("7", "a")
        ))
        .unwrap();
    let offer = world.poll(&manager);
    let offer = world.fetch(&manager, &offer).unwrap();
    let text = offer.text("7");
    check_from_parent(text.as_bytes()).strategy.unwrap().target.unwrap()
}

proptest! {
    #![proptest_config(crate::cases::cases(150))]

    #[test]
    fn over_a_tree_those_take_part_who_would_without_it(case in cases()) {
        let area = TargetArea(case.target.iter().map(|part| vec![ring(part)]).collect());
        let target = Target { area: Some(area), ..Target::default() };
        let areas: Vec<String> = case.agents.iter().map(geojson).collect();
        let expected: Vec<bool> =
            case.agents.iter().map(|agent| case.target.iter().any(|part| meet(agent, part))).collect();
        prop_assert_eq!(&takes(&target, &areas), &expected, "below one manager");

        let members = |manager: usize| -> Vec<usize> { (0..areas.len()).filter(|at| case.below[*at] == manager).collect() };
        let lowest: Vec<Vec<usize>> = (0..LOWEST).map(members).filter(|members| !members.is_empty()).collect();
        let of = |members: &Vec<usize>| members.iter().map(|at| areas[*at].clone()).collect::<Vec<_>>();
        let mut found = vec![false; areas.len()];
        for middle in lowest.chunks(2) {
            let of_middle: Vec<String> = middle.iter().map(|members| told(&of(members))).collect();
            let area = told(&of_middle);
            if takes(&target, std::slice::from_ref(&area)) != [true] {
                continue;
            }
            let target = handed(&target, &area);
            for (at, members) in middle.iter().enumerate() {
                if !takes(&target, &of_middle)[at] {
                    continue;
                }
                let target = handed(&target, &of_middle[at]);
                for (at, takes_part) in members.iter().zip(takes(&target, &of(members))) {
                    found[*at] = takes_part;
                }
            }
        }
        prop_assert_eq!(found, expected, "three levels below");
    }
}

/// Two agents that share an edge, which is also the target's.
#[test]
fn who_only_touches_the_target_takes_no_part_below_a_manager_either() {
    let [inside, beside] =
        [(13.1, 13.8), (13.8, 14.1)].map(|(west, east)| geojson(&rectangle(west, 52.0, east, 53.0)));
    let area = TargetArea(vec![vec![ring(&rectangle(13.1, 52.3, 13.8, 52.7))]]);
    let target = Target { area: Some(area), ..Target::default() };
    let areas = vec![inside, beside];
    let below = handed(&handed(&target, &told(&areas)), &told(&areas));
    assert_eq!(takes(&below, &areas), [true, false]);
    assert_eq!(below, target, "to the letter");
}
