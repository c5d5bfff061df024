//! The strategy that puts back what ran before a release.

use std::{collections::BTreeMap, time::Duration};

use language::{
    Action, AtRollback, Base, NoCalls, OnConflict, OnLimit, Order, ROLLBACK_OF, Rollback, Strategy, Untested,
    check_submission,
};

use super::{load, samples};

/// What puts back what ran before a text, at once or in its stages, and as it is read.
fn rollback(text: &str, is_staged: bool) -> (String, Strategy) {
    let before = load(text);
    let services = before.functions.len()..before.subjects_count();
    let winners = services.map(|service| before.winner_of(service).unwrap()).collect();
    rollback_from(text, winners, is_staged)
}

fn rollback_from(text: &str, winners: Vec<usize>, is_staged: bool) -> (String, Strategy) {
    let of = load(text).id.to_string();
    let rollback = Rollback { id: format!("{of}-rollback"), of, winners, is_staged };
    let written = rollback.strategy(text).unwrap();
    let checked = check_submission(written.as_bytes());
    let strategy = checked.strategy.unwrap_or_else(|| panic!("{:?}\n{written}", checked.diagnostics));
    (written, strategy)
}

fn sample(name: &str) -> String {
    samples().into_iter().find(|(file, _)| file == name).unwrap().1
}

#[test]
fn at_once_it_is_a_strategy_that_people_can_read() {
    let (text, _) = rollback(&sample("canary.yml"), false);
    insta::assert_snapshot!(text, @r##"
    # Puts back what ran before release canary.
    id: "canary-rollback"
    name: "rollback of canary"
    annotations:
      "rollback-of": "canary"
    type: "patch"
    functions:
      - name: "sieve"
        base_version:
          path: "fns/sieve_new"
          env: "nodejs"
        new_version:
          path: "fns/sieve_base"
          env: "nodejs"
    rollback:
      action:
        function: "base_version"
    stages:
      - name: "put back"
        type: "A/B"
        func_name: "sieve"
        variants:
          - name: "base_version"
            trafficPercentage: "100"
          - name: "new_version"
            trafficPercentage: "0"
        end_action:
          onSuccess: "rollout"
    rollout:
      order: "parallel"
      on_failure: "continue"
      no_calls: "after 10m"
      untested: "rollout"
    "##);
}

/// Everything that a strategy may say of who takes part, of other releases and of when.
const LED: &str = r#"id: led
name: led
on_conflict: supersede
forward_up: true
stage_deadline: 2h
annotations: {ticket: OPS-7}
functions:
  - name: sieve
    agents: {labels: {"null": "a: b", tier: edge}}
    sticky: {cookie: session}
    retry: never
    base_version: &base {path: fns/sieve_1, env: nodejs}
    new_version:
      <<: *base
      path: fns/sieve_2
  - {name: greet, base_version: {path: fns/greet_1, env: python}, new_version: {path: fns/greet_2, env: python}}
target:
  area: {type: Polygon, coordinates: [[[13, 52], [14, 52], [14, 53], [13, 53], [13, 52]]]}
  labels: {tier: edge}
rollout: {order: waves, waves: [1, 100%], soak: 5m, max_failed: 0, approval: before_each_wave, start: "2020-01-01T00:00:00Z"}
analysis_templates:
  errors: {provider: children, metric: errorRate, strategy: CANARY_BASELINE}
stages:
  - name: Canary
    type: WaitForSignal
    func_name: sieve
    variants: [{name: base_version, trafficPercentage: 90}, {name: new_version, trafficPercentage: 10}]
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    analysis: {duration: 1m, interval: 10s, metrics: [{template: {name: errors}}]}
    end_action: {onSuccess: Greet}
  - name: Greet
    type: A/B
    func_name: greet
    variants: [{name: base_version, trafficPercentage: 50}, {name: new_version, trafficPercentage: 50}]
    end_action: {onSuccess: rollout}
"#;

#[test]
fn who_takes_part_stays_and_all_else_is_of_its_own() {
    let before = load(LED);
    for is_staged in [false, true] {
        let (_, after) = rollback(LED, is_staged);
        assert_eq!((after.id.as_str(), &*after.name), ("led-rollback", "rollback of led"));
        assert_eq!(after.annotations, BTreeMap::from([(ROLLBACK_OF.to_owned(), "led".to_owned())]));
        assert_eq!((&after.target, &after.deadlines), (&before.target, &before.deadlines));
        assert_eq!((after.on_conflict, after.forward_up), (OnConflict::Queue, false));
        for (before, after) in before.functions.iter().zip(&after.functions) {
            assert_eq!((&after.base, &after.new), (&before.new, &before.base));
            assert_eq!(
                (&after.name, &after.agents, &after.sticky, &after.retry),
                (&before.name, &before.agents, &before.sticky, &before.retry)
            );
        }
        assert!(after.stages.iter().all(|stage| stage.analysis.is_none()));
    }
}

#[test]
fn at_once_nothing_gets_calls_before_all_have_started_and_nobody_stops_others() {
    let (_, after) = rollback(LED, false);
    let stages: Vec<_> =
        after.stages.iter().map(|stage| (stage.subject, stage.new_traffic, stage.min_calls)).collect();
    assert_eq!(stages, [(0, 0, 0), (1, 0, 0)]);
    assert_eq!(after.success_path(), [0, 1]);
    assert_eq!((after.next(0, false), after.next(1, true)), (Action::Rollback, Action::Rollout));
    let rollout = after.rollout.unwrap();
    assert_eq!((rollout.order, rollout.on_failure), (Order::Parallel, OnLimit::Continue));
    assert_eq!(rollout.no_calls, NoCalls::After(Duration::from_mins(10)));
    assert_eq!(rollout.untested, Untested::Rollout);
    assert_eq!((rollout.approval, rollout.start_ms), (None, None));
}

#[test]
fn in_stages_they_are_those_of_the_release_without_start_and_analyses() {
    let before = load(LED);
    let (_, after) = rollback(LED, true);
    let mut expected = before.stages.clone();
    expected[0].analysis = None;
    assert_eq!(after.stages, expected);
    let mut expected = before.rollout.unwrap();
    expected.start_ms = None;
    assert_eq!(after.rollout.unwrap(), expected);
}

#[test]
fn every_sample_can_be_rolled_back_and_that_again() {
    for (file, text) in samples() {
        let before = load(&text);
        for is_staged in [false, true] {
            let (once, _) = rollback(&text, is_staged);
            let (_, twice) = rollback(&once, is_staged);
            assert_eq!(twice.functions, before.functions, "{file}");
            assert_eq!(twice.target, before.target, "{file}");
        }
    }
}

const SERVICE: &str = r#"id: shop-7
name: shop
services:
  - name: shop
    routers: {labels: {env: prod}}
    ports: [{port: 8080}]
    sticky: {cookie: cm_shop}
    header: {name: X-Variation, values: {B: B, C: C}}
    base: replace
    at_rollback: retire
    variations:
      - {name: A, targets: ["10.0.0.1:80"], health: {path: /ready}}
      - {name: B, targets: ["10.0.0.2:80"]}
      - {name: C, run: {path: shop_v3, limits: {memory: 128Mi}}}
stages:
  - {name: little, type: Traffic, shares: {A: 80, B: 15, C: 5}, end_action: {onSuccess: half}}
  - {name: half, type: WaitForSignal, shares: {A: 30, B: 10, C: 60}, end_action: {onSuccess: rollout}}
"#;

#[test]
fn at_once_a_service_has_what_serves_and_what_served() {
    let before = load(SERVICE);
    assert_eq!(before.winner_of(0), Some(2));
    let (_, after) = rollback(SERVICE, false);
    let (old, new) = (&before.services[0], &after.services[0]);
    assert_eq!(new.variations, [old.variations[2].clone(), old.variations[0].clone()]);
    assert_eq!((&new.runs, &new.sticky, &new.ports), (&old.runs, &old.sticky, &old.ports));
    assert_eq!((&new.routers, &new.rule), (&old.routers, &None));
    assert_eq!((new.base, new.at_rollback), (Base::Serving, AtRollback::Keep));
    assert_eq!((after.stages.len(), &*after.stages[0].shares), (1, &[10_000, 0][..]));
    assert_eq!(after.winner_of(0), Some(1));
    let rollout = after.rollout.unwrap();
    assert_eq!((rollout.order, rollout.on_failure), (Order::Parallel, OnLimit::Continue));
    // The one that somebody promoted, whatever the stages say.
    let (_, after) = rollback_from(SERVICE, vec![1], false);
    assert_eq!(after.services[0].variations[..], [old.variations[1].clone(), old.variations[0].clone()]);
    assert!(after.services[0].runs.is_empty());
}

#[test]
fn in_stages_the_shares_of_two_variations_change_places() {
    let before = load(SERVICE);
    let (_, after) = rollback(SERVICE, true);
    let names = |strategy: &Strategy| {
        strategy.services[0].variations.iter().map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&before), ["A", "B", "C"]);
    assert_eq!(names(&after), ["C", "B", "A"]);
    // What serves has as much as what is stable had, and what comes back as much as that.
    assert_eq!(after.stages, before.stages);
    assert_eq!(after.winner_of(0), Some(2));
    assert_eq!((after.services[0].base, after.services[0].at_rollback), (Base::Serving, AtRollback::Retire));
    let (_, twice) = rollback(&rollback(SERVICE, true).0, true);
    assert_eq!(twice.services[0].variations, before.services[0].variations);
}

const HYBRID: &str = r#"id: both
name: both
functions:
  - {name: sieve, base_version: {path: fns/sieve_1, env: nodejs}, new_version: {path: fns/sieve_2, env: nodejs}}
services:
  - name: checkout
    ports: [{port: 8080}]
    variations: [{name: A, targets: ["127.0.0.1:9101"]}, {name: B, targets: ["127.0.0.1:9111"]}]
strategy: canary-10-25-50-100
stages:
  - name: deploy
    type: A/B
    func_name: sieve
    variants: [{name: base_version, trafficPercentage: 100}, {name: new_version, trafficPercentage: 0}]
    end_action: {onSuccess: 10 %}
"#;

#[test]
fn of_both_agents_go_first_and_what_a_name_means_is_written_out() {
    let (_, at_once) = rollback(HYBRID, false);
    let subjects: Vec<_> = at_once.stages.iter().map(|stage| stage.subject).collect();
    assert_eq!((subjects, at_once.is_hybrid()), (vec![0, 1], true));
    assert_eq!(at_once.rollout.unwrap().untested, Untested::Leave);
    let (_, staged) = rollback(HYBRID, true);
    assert_eq!(staged.stages, load(HYBRID).stages);
    assert_eq!(staged.rollout, load(HYBRID).rollout);
}

#[test]
fn of_what_has_other_services_there_is_none() {
    let written = |text: &str, winners: &[usize]| {
        let (id, of) = ("b".to_owned(), "a".to_owned());
        Rollback { id, of, winners: winners.to_vec(), is_staged: false }.strategy(text)
    };
    for winners in [&[][..], &[0], &[3], &[1, 1]] {
        assert_eq!(written(SERVICE, winners), None, "{winners:?}");
    }
    assert_eq!(written("no strategy", &[]), None);
    assert_eq!(written("a: [", &[]), None);
    assert!(written(SERVICE, &[1]).is_some());
}

#[test]
fn the_last_stage_of_a_service_says_who_wins() {
    let stages = |stages: &str| {
        let (head, _) = SERVICE.split_once("stages:").unwrap();
        load(&format!("{head}stages:\n{stages}")).winner_of(0)
    };
    let one = |name: &str, shares: &str, then: &str| {
        format!("  - {{name: {name}, type: Traffic, shares: {{{shares}}}, end_action: {{{then}}}}}\n")
    };
    let last = |shares: &str| stages(&one("one", shares, "onSuccess: rollout"));
    assert_eq!(last("A: 100"), Some(1));
    assert_eq!(last("B: 50, C: 50"), Some(1));
    assert_eq!(last("A: 40, B: 29, C: 31"), Some(2));
    let (b, c) = ("A: 50, B: 50", "A: 50, C: 50");
    let path = one("one", b, "onSuccess: two") + &one("two", c, "onSuccess: rollout");
    assert_eq!(stages(&path), Some(2));
    let fork = one("one", b, "onSuccess: rollout, onFailure: two") + &one("two", c, "onSuccess: rollout");
    assert_eq!(stages(&fork), None);
    let failing = one("one", b, "onSuccess: two, onFailure: rollout") + &one("two", c, "onSuccess: rollout");
    assert_eq!(stages(&failing), None);
    // What leads nowhere says nothing.
    let nowhere = one("one", b, "onSuccess: rollback");
    assert_eq!(stages(&nowhere), Some(1));
    assert!(!load(&format!("{}stages:\n{nowhere}", SERVICE.split_once("stages:").unwrap().0)).may_roll_out());
}
