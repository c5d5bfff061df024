//! `target` and `rollout`: what they mean, and every way to get them wrong.

use std::{fmt::Write as _, time::Duration};

use language::{
    Amount, Approval, ApprovalOf, LateJoiners, NoCalls, Notes, OnLimit, Order, Partial, Rollout, Round,
    Untested, check, check_submission,
};

use super::{REFERENCE, load, rendered};

fn with_block(block: &str) -> String {
    format!("{block}{REFERENCE}")
}

fn rollout(keys: &str) -> Rollout {
    load(&with_block(&format!("rollout: {{{keys}}}\n"))).rollout.unwrap()
}

const SQUARE: &str = "[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]";

#[test]
fn an_empty_rollout_has_the_documented_defaults() {
    let found = rollout("");
    assert_eq!(found, Rollout::default());
    assert_eq!(found.order, Order::Parallel);
    assert_eq!((found.max_failed, found.max_timed_out), (Amount::Count(0), Amount::Count(0)));
    assert_eq!((found.max_unreachable, found.on_failure), (Amount::WHOLE, OnLimit::Rollback));
    assert_eq!((found.max_untested, found.untested), (Amount::WHOLE, Untested::Leave));
    assert_eq!(found.no_calls, NoCalls::After(Duration::from_hours(1)));
    assert_eq!((found.late_joiners, found.approval, found.start_ms), (LateJoiners::Exclude, None, None));
}

#[test]
fn every_key_of_rollout_is_understood() {
    let found = rollout(
        "order: waves, waves: [1, 0.5%, 10%, 500, 100%], max_failed: 2.5%, max_timed_out: 3, max_unreachable: 10%, \
         max_untested: 2, no_calls: after 1h30m, untested: rollout, on_failure: pause, min_succeeded: 5%, silent_after: 90s, \
         max_in_progress: 500, soak: 10m, approval: before_each_wave, approval_timeout: 1h, \
         late_joiners: include, notes: required, start: 2026-03-01T07:00:00+01:00",
    );
    let expected = Rollout {
        order: Order::Waves(vec![
            Amount::Count(1),
            Amount::Share(5_000),
            Amount::Share(100_000),
            Amount::Count(500),
            Amount::WHOLE,
        ]),
        max_failed: Amount::Share(25_000),
        max_timed_out: Amount::Count(3),
        max_unreachable: Amount::Share(100_000),
        max_untested: Amount::Count(2),
        no_calls: NoCalls::After(Duration::from_mins(90)),
        untested: Untested::Rollout,
        on_failure: OnLimit::Pause,
        min_succeeded: Some(Amount::Share(50_000)),
        silent_after: Some(Duration::from_secs(90)),
        max_in_progress: Some(500),
        soak: Duration::from_mins(10),
        approval: Some(Approval { of: ApprovalOf::Waves, timeout: Duration::from_hours(1) }),
        late_joiners: LateJoiners::Include,
        notes: Notes::Required,
        start_ms: Some(1_772_344_800_000),
        analysis: None,
    };
    assert_eq!(found, expected);
    assert_eq!(
        rollout("order: location_sequential, start_at: [13.40, 52.52]").order,
        Order::LocationSequential { start_at: [13.4, 52.52] }
    );
    assert_eq!(rollout("order: global_incremental, soak: 1h").order, Order::GlobalIncremental);
    assert_eq!(rollout("no_calls: never").no_calls, NoCalls::Never);
    let stages = rollout("approval: {stages: [Canary 5 Percent]}").approval.unwrap();
    assert_eq!(stages, Approval { of: ApprovalOf::Stages(vec![0]), timeout: Duration::from_hours(6) });
}

#[test]
fn absent_keys_leave_the_canonical_form_as_it_was() {
    let form = serde_json::to_string(&rollout("")).unwrap();
    assert!(!form.contains("min_succeeded") && !form.contains("silent_after"), "{form}");
}

#[test]
fn required_successes_are_capped_by_opened_children_but_never_zero() {
    let (plain, tenth) = (rollout(""), rollout("min_succeeded: 10%"));
    let cases = [(100, 0, 1, 1), (100, 1, 1, 1), (100, 50, 1, 10), (101, 50, 1, 11), (5, 3, 1, 1)];
    for (planned, opened, of_plain, of_tenth) in cases {
        let must = (plain.must_succeed(planned, opened), tenth.must_succeed(planned, opened));
        assert_eq!(must, (of_plain, of_tenth), "{planned} planned, {opened} opened");
    }
}

#[test]
fn waves_round_up_and_limits_round_down() {
    for (amount, agents, up, down) in [
        (Amount::Share(10_000), 50, 1, 0),
        (Amount::Share(10_000), 100, 1, 1),
        (Amount::Share(10_000), 101, 2, 1),
        (Amount::Share(1), 1_000_000, 1, 1),
        (Amount::WHOLE, u32::MAX, u32::MAX, u32::MAX),
        (Amount::Share(500_000), 0, 0, 0),
        (Amount::Count(7), 3, 3, 3),
    ] {
        assert_eq!((amount.of(agents, Round::Up), amount.of(agents, Round::Down)), (up, down), "{amount}");
    }
}

#[test]
fn every_kind_of_area_is_read() {
    let polygon = format!("{{type: Polygon, coordinates: [{SQUARE}]}}");
    for (area, polygons) in [
        (polygon.clone(), 1),
        (format!("{{type: MultiPolygon, coordinates: [[{SQUARE}], [{SQUARE}]], bbox: [0, 0, 10, 10]}}"), 2),
        (format!("{{type: Feature, properties: {{name: x}}, geometry: {polygon}}}"), 1),
        (
            format!(
                "{{type: FeatureCollection, name: drawn, features: [{{type: Feature, properties: null, \
                 geometry: {polygon}}}, {{type: Feature, properties: {{}}, geometry: {polygon}}}]}}"
            ),
            2,
        ),
    ] {
        let text = with_block(&format!(
            "target:\n  area: {area}\n  labels: {{tier: edge, zone: 7}}\n  partial: allow\n"
        ));
        let target = load(&text).target.unwrap();
        assert_eq!(target.area.unwrap().0.len(), polygons);
        assert_eq!(target.labels["zone"], "7");
        assert_eq!(target.partial, Partial::Allow);
    }
}

#[test]
fn a_strategy_without_blocks_is_stored_as_before_there_were_any() {
    let form = serde_json::to_value(load(REFERENCE)).unwrap();
    assert!(form.get("target").is_none() && form.get("rollout").is_none());
    let text = with_block(&format!(
        "target: {{area: {{type: Polygon, coordinates: [{SQUARE}]}}}}\nrollout: {{order: waves, waves: [100%]}}\n"
    ));
    let strategy = load(&text);
    let again = serde_json::from_value(serde_json::to_value(&strategy).unwrap()).unwrap();
    assert_eq!(strategy, again);
}

#[test]
fn what_can_be_checked_can_be_submitted() {
    let text = with_block("target: {labels: {tier: edge}, partial: allow}\n");
    assert!(check_submission(text.as_bytes()).strategy.is_some());
    let text =
        with_block("target: {labels: {tier: edge}}\nrollout: {max_in_progress: 5, late_joiners: include}\n");
    assert!(check_submission(text.as_bytes()).strategy.is_some());
    assert!(check_submission(REFERENCE.as_bytes()).strategy.is_some());
}

#[test]
fn every_fault_of_the_blocks_says_what_to_write() {
    let area = |area: &str| format!("target: {{area: {area}}}\n");
    let ring = |ring: &str| area(&format!("{{type: Polygon, coordinates: [{ring}]}}"));
    let keys = |keys: &str| format!("rollout: {{{keys}}}\n");
    let cases = [
        ("an empty target", "target: {}\n".to_owned()),
        ("a target begun", "target:\n".to_owned()),
        ("an area begun", "target:\n  area:\n".to_owned()),
        ("no labels", "target: {labels: {}}\n".to_owned()),
        ("a label without value", "target: {labels: {tier: }}\n".to_owned()),
        ("a label twice", "target: {labels: {tier: a, tier: b}}\n".to_owned()),
        ("labels as a list", "target: {labels: [tier]}\n".to_owned()),
        (
            "unknown keys",
            format!("target: {{label: {{tier: edge}}, aera: {{type: Polygon, coordinates: [{SQUARE}]}}}}\n"),
        ),
        ("partial", "target: {partial: yes}\n".to_owned()),
        ("an area that is a word", area("Berlin")),
        ("a point", area("{type: Point, coordinates: [1, 2]}")),
        ("a misspelt type", area("{type: polygon, coordinates: []}")),
        ("no type", area("{coordinates: []}")),
        ("misspelt coordinates", area("{type: Polygon, coordinate: []}")),
        ("no polygons", area("{type: MultiPolygon, coordinates: []}")),
        ("no features", area("{type: FeatureCollection, features: []}")),
        ("a feature without geometry", area("{type: Feature, properties: {}}")),
        ("numbers for rings", ring("1, 2")),
        ("an open ring", ring("[[0, 0], [1, 0], [1, 1], [0, 1]]")),
        ("a short ring", ring("[[0, 0], [1, 0], [0, 0]]")),
        ("latitude first", ring("[[0, 100], [1, 0], [1, 1], [0, 100]]")),
        ("a word for a number", ring("[[0, north], [1, 0], [1, 1], [0, 0]]")),
        ("one number", ring("[[0], [1, 0], [1, 1], [0, 0]]")),
        ("over the antimeridian", ring("[[170, 0], [-170, 0], [-170, 5], [170, 5], [170, 0]]")),
        ("a bow tie", ring("[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]")),
        ("a hole outside", ring(&format!("{SQUARE}, [[20, 20], [21, 20], [21, 21], [20, 20]]"))),
        ("an unknown order", keys("order: wave")),
        ("an unknown key", keys("max_fail: 1")),
        ("waves of another order", keys("waves: [1, 100%]")),
        ("no waves", keys("order: waves")),
        ("empty waves", keys("order: waves, waves: []")),
        ("waves that don't grow", keys("order: waves, waves: [5, 5, 10%, 10%, 100%]")),
        ("a wave of nobody", keys("order: waves, waves: [0, 0%, 100%]")),
        ("the last wave is not all", keys("order: waves, waves: [1, 50%]")),
        ("something after all", keys("order: waves, waves: [100%, 500]")),
        ("a wave over 100 %", keys("order: waves, waves: [1, 150%]")),
        ("five decimals", keys("order: waves, waves: [0.00001%, 100%]")),
        ("a negative limit", keys("max_failed: -1")),
        ("a limit over 100 %", keys("max_failed: 101%, max_timed_out: 1.5, max_unreachable: many")),
        ("calls that never end", keys("no_calls: 1h, max_untested: some, untested: leaf")),
        ("no time without calls", keys("no_calls: after a while")),
        ("nowhere to start", keys("order: location_sequential")),
        ("a start elsewhere", keys("order: location_sequential, start_at: [52.52, 113.4]")),
        ("a start of another order", keys("start_at: [13.4, 52.5]")),
        ("soak in parallel", keys("soak: 10m")),
        ("nobody at once", keys("max_in_progress: 0")),
        ("a share at once", keys("max_in_progress: 10%")),
        ("approval before no wave", keys("approval: before_each_wave")),
        ("approval of a stage nobody knows", keys("approval: {stages: [Canary 5 percent, x]}")),
        ("approval of a stage twice", keys("approval: {stages: [Canary 5 Percent, Canary 5 Percent]}")),
        ("approval of no stage", keys("approval: {stages: []}")),
        ("approval misspelt", keys("approval: before_rolout")),
        ("a timeout of nothing", keys("approval_timeout: 1h")),
        ("no time to approve", keys("approval: before_rollout, approval_timeout: 0s")),
        ("on_failure", keys("on_failure: roll_back, late_joiners: included")),
        ("a start without offset", keys("start: 2026-03-01 06:00")),
    ];
    let mut text = String::new();
    for (what, block) in cases {
        let yaml = with_block(&block);
        assert!(check(&yaml).strategy.is_none(), "{what} was accepted");
        let found: Vec<String> = check(&yaml)
            .diagnostics
            .iter()
            .map(|d| {
                format!("{}:{} {}: {} => {}", d.line, d.column, d.code, d.message, d.fix.as_deref().unwrap())
            })
            .collect();
        let _ = writeln!(text, "## {what}\n{}", found.join("\n"));
    }
    insta::assert_snapshot!(text, @r#"
    ## an empty target
    1:9 missing-value: target is empty => say who takes part by area: or labels:, or leave target out
    ## a target begun
    1:1 missing-value: target of the strategy is empty => write target: {labels: {tier: edge}}
    ## an area begun
    2:3 missing-value: area of target is empty => write area: and below it a GeoJSON Polygon
    ## no labels
    1:18 missing-value: labels is empty => name at least one, as in {tier: edge}, or leave labels out
    ## a label without value
    1:19 missing-value: the label "tier" has no value => write tier: value
    ## a label twice
    1:28 duplicate-key: labels has the key "tier" twice, first in line 1 => keep one of the two
    ## labels as a list
    1:18 wrong-type: labels is not a mapping => write labels: {tier: edge}
    ## unknown keys
    1:10 unknown-key: target has no key "label" => did you mean labels?
    1:31 unknown-key: target has no key "aera" => did you mean area?
    ## partial
    1:19 unknown-value: there is no partial "yes" => it is one of refuse, allow
    ## an area that is a word
    1:16 bad-area: the area is no GeoJSON object => write area: {type: Polygon, coordinates: [...]}
    ## a point
    1:23 bad-area: a Point has no area => draw a Polygon or MultiPolygon around it
    ## a misspelt type
    1:23 bad-area: there is no GeoJSON type "polygon" => did you mean Polygon?
    ## no type
    1:16 bad-area: the area has no type => add type:, or use a GeoJSON Polygon, MultiPolygon, Feature or FeatureCollection
    ## misspelt coordinates
    1:16 bad-area: the Polygon has no coordinates => is "coordinate" meant to be coordinates?
    ## no polygons
    1:50 bad-area: there is nothing in a list of polygons => draw at least one ring of positions
    ## no features
    1:52 bad-area: there is nothing in a list of features => draw at least one ring of positions
    ## a feature without geometry
    1:16 bad-area: the Feature has no geometry => add geometry:, or use a GeoJSON Polygon, MultiPolygon, Feature or FeatureCollection
    ## numbers for rings
    1:46 bad-area: this is not a ring of positions => coordinates are polygons of rings of [longitude, latitude]
    1:49 bad-area: this is not a ring of positions => coordinates are polygons of rings of [longitude, latitude]
    ## an open ring
    1:46 bad-area: a ring does not end where it begins => repeat the first position at the end
    ## a short ring
    1:46 bad-area: a ring has 3 positions, at least 4 are needed => a ring has three corners or more, and the first again
    ## latitude first
    1:47 bad-area: latitude 100 is out of range => longitude comes first, then latitude, in degrees, as in [13.4, 52.52]
    ## a word for a number
    1:47 bad-area: this is no position => write [longitude, latitude], as in [13.4, 52.52]
    ## one number
    1:47 bad-area: a position has 1 numbers, longitude and latitude are needed => longitude comes first, then latitude, in degrees, as in [13.4, 52.52]
    ## over the antimeridian
    1:46 bad-area: an edge spans 340° of longitude: across the antimeridian use two polygons or longitudes beyond ±180 => cut it in two at ±180, or go on beyond ±180, as in [190, 10]
    ## a bow tie
    1:45 bad-area: the area is not valid: a ring crosses itself => rings must not cross themselves or each other, and holes lie inside
    ## a hole outside
    1:45 bad-area: the area is not valid: interior ring at index 0 is not contained within the polygon's exterior => rings must not cross themselves or each other, and holes lie inside
    ## an unknown order
    1:18 unknown-value: there is no order "wave" => did you mean waves?
    ## an unknown key
    1:11 unknown-key: rollout has no key "max_fail" => did you mean max_failed?
    ## waves of another order
    1:18 no-effect: waves has a meaning only with order: waves => write order: waves, or leave it out
    ## no waves
    1:10 missing-key: rollout lacks waves => write waves: [1, 10%, 100%]
    ## empty waves
    1:32 bad-waves: waves is empty => add 100% as the last wave
    ## waves that don't grow
    1:36 bad-waves: the wave 5 is not larger than the ones before => waves are cumulative: each says how many agents have had their turn after it, as in [1, 10%, 100%]
    1:44 bad-waves: the wave 10% is not larger than the ones before => waves are cumulative: each says how many agents have had their turn after it, as in [1, 10%, 100%]
    ## a wave of nobody
    1:33 bad-waves: a wave of 0 holds nobody => begin with 1 or a percentage above 0
    1:36 bad-waves: a wave of 0% holds nobody => begin with 1 or a percentage above 0
    ## the last wave is not all
    1:36 bad-waves: the last wave is 50%, so some children would never have their turn => add 100% as the last wave
    ## something after all
    1:39 bad-waves: the wave 500 is not larger than the ones before => waves are cumulative: each says how many agents have had their turn after it, as in [1, 10%, 100%]
    1:39 bad-waves: the last wave is 500, so some children would never have their turn => add 100% as the last wave
    ## a wave over 100 %
    1:36 bad-amount: "150%" is more than all => write at most 100%
    ## five decimals
    1:33 bad-amount: "0.00001%" is neither a count nor a percentage => write a whole number, as in 10, or a percentage with at most four decimals, as in 2.5%
    ## a negative limit
    1:23 bad-amount: "-1" is neither a count nor a percentage => write a whole number, as in 10, or a percentage with at most four decimals, as in 2.5%
    ## a limit over 100 %
    1:23 bad-amount: "101%" is more than all => write at most 100%
    1:44 bad-amount: "1.5" is neither a count nor a percentage => write a whole number, as in 10, or a percentage with at most four decimals, as in 2.5%
    1:66 bad-amount: "many" is neither a count nor a percentage => write a whole number, as in 10, or a percentage with at most four decimals, as in 2.5%
    ## calls that never end
    1:21 bad-duration: "1h" does not say when a stage without calls ends => write after and a duration, as in after 1h, or never
    1:39 bad-amount: "some" is neither a count nor a percentage => write a whole number, as in 10, or a percentage with at most four decimals, as in 2.5%
    1:55 unknown-value: there is no untested "leaf" => did you mean leave?
    ## no time without calls
    1:21 bad-duration: "after a while" does not say when a stage without calls ends => write after and a duration, as in after 1h, or never
    ## nowhere to start
    1:10 missing-key: rollout lacks start_at => write start_at: [13.40, 52.52]
    ## a start elsewhere
    1:49 bad-area: latitude 113.4 is out of range => longitude comes first, then latitude, in degrees, as in [13.4, 52.52]
    ## a start of another order
    1:21 no-effect: start_at has a meaning only with order: location_sequential => write order: location_sequential, or leave it out
    ## soak in parallel
    1:17 no-effect: soak has no meaning with order: parallel, where nothing waits for others => choose another order, or leave soak out
    ## nobody at once
    1:28 bad-count: "0" is no number of agents that may be at work at once => write a whole number from 1, as in 500
    ## a share at once
    1:28 bad-count: "10%" is no number of agents that may be at work at once => write a whole number from 1, as in 500
    ## approval before no wave
    1:21 no-effect: approval: before_each_wave has a meaning only with order: waves => write order: waves, or approval: before_rollout
    ## approval of a stage nobody knows
    1:31 unknown-stage: there is no stage "Canary 5 percent" => did you mean Canary 5 Percent?
    1:49 unknown-stage: there is no stage "x" => write the name of a stage
    ## approval of a stage twice
    1:49 duplicate-name: approval names the stage "Canary 5 Percent" twice => keep one of the two
    ## approval of no stage
    1:30 missing-value: stages of approval is empty => name at least one stage
    ## approval misspelt
    1:21 unknown-value: there is no approval "before_rolout" => did you mean before_rollout?
    ## a timeout of nothing
    1:29 no-effect: approval_timeout has no meaning without approval => add approval: before_rollout, or leave it out
    ## no time to approve
    1:55 bad-duration: an approval that has no time can't be given => write how long it is waited for, as in 6h
    ## on_failure
    1:23 unknown-value: there is no on_failure "roll_back" => did you mean rollback?
    1:48 unknown-value: there is no late_joiners "included" => did you mean include?
    ## a start without offset
    1:18 bad-time: "2026-03-01 06:00" is no instant => write it as RFC 3339 with an offset, as in 2026-03-01T06:00:00Z or 2026-03-01T07:00:00+01:00
    "#);
}

#[test]
fn faults_of_both_blocks_come_at_once_each_with_its_line() {
    let text = with_block(
        "target:\n  area:\n    type: Polygon\n    coordinates:\n      - [[0, 0], [1, 0], [1, 1], [0, 1]]\n  labels:\n    \
         tier:\nrollout:\n  order: waves\n  waves: [10%, 5%]\n  max_faild: 1\n",
    );
    insta::assert_snapshot!(rendered(&text), @r#"
    r.yml:5:9: error: a ring does not end where it begins
     5 |       - [[0, 0], [1, 0], [1, 1], [0, 1]]
       |         ^
      help: repeat the first position at the end
    r.yml:7:5: error: the label "tier" has no value
     7 |     tier:
       |     ^
      help: write tier: value
    r.yml:10:16: error: the wave 5% is not larger than the ones before
     10 |   waves: [10%, 5%]
        |                ^
      help: waves are cumulative: each says how many agents have had their turn after it, as in [1, 10%, 100%]
    r.yml:10:16: error: the last wave is 5%, so some children would never have their turn
     10 |   waves: [10%, 5%]
        |                ^
      help: add 100% as the last wave
    r.yml:11:3: error: rollout has no key "max_faild"
     11 |   max_faild: 1
        |   ^
      help: did you mean max_failed?
    "#);
}

#[test]
fn a_target_has_a_limit_of_positions() {
    let ring: Vec<String> = (0..5_100).map(|i| format!("[{}, {}]", f64::from(i) / 100.0, i % 2)).collect();
    let text =
        with_block(&format!("target: {{area: {{type: Polygon, coordinates: [[{}]]}}}}\n", ring.join(",")));
    let found = check(&text);
    assert_eq!(found.diagnostics.len(), 1);
    assert_eq!(found.diagnostics[0].message, "the area has 5099 vertices, at most 5000 are accepted");
}
