use std::{collections::BTreeMap, time::Duration};

use language::{
    Action, Condition, Function, Metric, OnConflict, Operator, ReleaseDeadlines, Stage, StageKind, Statistic,
    Strategy, Version, check, check_from_parent,
    render::{self, ROLLOUT_STAGE, UNDO_STAGE},
    render_full,
};
use model::ReleaseId;
use proptest::prelude::*;

use super::{REFERENCE, load, samples};

#[test]
fn an_offer_of_a_stage_reads_like_the_reference() {
    insta::assert_snapshot!(render::stage(&load(REFERENCE), 0, "11"), @r#"
    id: "11"
    name: "canary5percent"
    type: "patch/major/minor"
    functions:
      - name: "sieve"
        base_version:
          path: "fns/sample_f1"
          env: "nodejs"
        new_version:
          path: "fns/sample_f2"
          env: "nodejs"
    stages:
      - name: "Canary 5 Percent"
        type: WaitForSignal
        func_name: "sieve"
        variants:
          - name: base_version
            trafficPercentage: 95
          - name: new_version
            trafficPercentage: 5
        metrics_conditions:
          - name: errorRate
            threshold: "<0.02"
          - name: responseTime
            threshold: "<=250"
            compareWith: Median
          - name: responseTime
            threshold: ">=0"
            compareWith: Minimum
        end_conditions:
          - name: minDuration
            threshold: 10s
          - name: minCalls
            threshold: "100"
        end_action:
          onSuccess: rollback
          onFailure: rollback
    rollback:
      action:
        function: base_version
    "#);
}

#[test]
fn an_undo_can_only_leave_the_base_version() {
    insta::assert_snapshot!(render::undo(&load(REFERENCE), 0, "11.undo"), @r#"
    id: "11.undo"
    name: "canary5percent"
    type: "patch/major/minor"
    functions:
      - name: "sieve"
        base_version:
          path: "fns/sample_f1"
          env: "nodejs"
        new_version:
          path: "fns/sample_f1"
          env: "nodejs"
    stages:
      - name: "choirmaster undo"
        type: WaitForSignal
        func_name: "sieve"
        variants:
          - name: base_version
            trafficPercentage: 100
          - name: new_version
            trafficPercentage: 0
        metrics_conditions: []
        end_conditions:
          - name: minDuration
            threshold: 0s
          - name: minCalls
            threshold: "0"
        end_action:
          onSuccess: rollback
          onFailure: rollback
    rollback:
      action:
        function: base_version
    "#);
}

#[test]
fn a_roll_out_has_no_condition() {
    let offer = load(&render::rollout(&load(REFERENCE), 0, "11.9"));
    let stage = &offer.stages[0];
    assert_eq!(stage.name, ROLLOUT_STAGE);
    assert_eq!((stage.kind, stage.new_traffic), (StageKind::WaitForSignal, 100));
    assert_eq!((stage.conditions.len(), stage.min_calls, stage.min_duration), (0, 0, Duration::ZERO));
    assert_eq!((stage.on_success, stage.on_failure), (Action::Rollout, Action::Rollback));
}

#[test]
fn a_withdrawn_offer_is_an_offer_of_nothing() {
    insta::assert_snapshot!(render::withdrawn(&load(REFERENCE), "11"), @r#"
    id: "11"
    name: "canary5percent"
    type: "patch/major/minor"
    functions: []
    stages: []
    rollback:
      action:
        function: base_version
    "#);
}

#[test]
fn an_index_that_is_not_there_is_an_offer_of_nothing() {
    let strategy = load(REFERENCE);
    let nothing = render::withdrawn(&strategy, "x");
    assert_eq!(render::stage(&strategy, 7, "x"), nothing);
    assert_eq!(render::undo(&strategy, 7, "x"), nothing);
    assert_eq!(render::rollout(&strategy, 7, "x"), nothing);
}

#[test]
fn names_that_yaml_reads_otherwise_stay_names() {
    let mut strategy = load(REFERENCE);
    for name in [
        "yes",
        "null",
        "~",
        "1e3",
        "0x10",
        "a: b # c",
        "- x",
        "\"quoted\" 'too'",
        "back\\slash",
        "{[*&!|>%@`",
        "ä€𝄞",
        " spaces ",
        "---",
        "\u{2028}\u{feff}\u{202e}",
    ] {
        name.clone_into(&mut strategy.name);
        name.clone_into(&mut strategy.stages[0].name);
        let offer = load(&render::stage(&strategy, 0, "1"));
        assert_eq!((offer.name.as_str(), offer.stages[0].name.as_str()), (name, name));
    }
    // A strategy can't have these, but what is rendered must hold whatever it is.
    for name in ["line\nbreak", "tab\t", "bell\u{7}", "\u{85}"] {
        name.clone_into(&mut strategy.name);
        let offer = render::stage(&strategy, 0, "1");
        assert!(offer.is_ascii() && offer.lines().nth(2).unwrap().starts_with("type: "), "{offer}");
    }
}

#[test]
fn every_sample_can_be_handed_out() {
    for (file, text) in samples() {
        let strategy = load(&text);
        for stage in 0..strategy.stages.len() {
            let offer = load(&render::stage(&strategy, stage, "x"));
            let [only] = &offer.stages[..] else { panic!("{file}: {offer:?}") };
            assert_eq!(only.kind, StageKind::WaitForSignal, "{file}");
            assert_eq!([only.on_success, only.on_failure], [Action::Rollback; 2], "{file}");
            assert!(only.min_calls > 0, "{file}: without a call it would end, and fail");
        }
        for function in 0..strategy.functions.len() {
            let undo = load(&render::undo(&strategy, function, "x"));
            assert_eq!(undo.functions[0].new, strategy.functions[function].base);
            assert_eq!(undo.stages[0].name, UNDO_STAGE);
        }
    }
}

fn some_name() -> impl Strategy2<Value = String> {
    "[^\\p{Cc}]{1,20}".prop_filter("not blank, not an action", |name| {
        !name.trim().is_empty() && name != "rollout" && name != "rollback"
    })
}

// proptest calls its generators by the name of our subject.
use proptest::strategy::Strategy as Strategy2;

fn version() -> impl Strategy2<Value = Version> {
    ("[a-zA-Z0-9_]{1,8}(/[a-zA-Z0-9_ é'\"#-]{1,8}){0,2}", some_name()).prop_map(|(path, env)| Version {
        path,
        env,
        content: None,
    })
}

fn condition() -> impl Strategy2<Value = Condition> {
    let statistic = prop_oneof![
        Just(Statistic::Median),
        Just(Statistic::Minimum),
        Just(Statistic::Maximum),
        (1..100_u8).prop_map(|p| Statistic::Quantile(f64::from(p) / 100.0)),
    ];
    let operator = prop_oneof![
        Just(Operator::Less),
        Just(Operator::LessOrEqual),
        Just(Operator::Greater),
        Just(Operator::GreaterOrEqual),
        Just(Operator::Equal),
    ];
    let metric = prop_oneof![
        (Just(Metric::ErrorRate), 0.0..=1.0_f64),
        (statistic.prop_map(Metric::ResponseTime), 0.0..1e9_f64),
    ];
    (metric, operator).prop_map(|((metric, threshold), operator)| Condition { metric, operator, threshold })
}

fn some_stage() -> impl Strategy2<Value = Stage> {
    (
        some_name(),
        prop_oneof![Just(StageKind::AB), Just(StageKind::WaitForSignal)],
        0..=100_u8,
        proptest::collection::vec(condition(), 0..4),
        0..1_000_000_000_u64,
        0..1_000_000_u64,
    )
        .prop_map(|(name, kind, new_traffic, conditions, millis, min_calls)| Stage {
            name,
            kind,
            subject: 0,
            new_traffic,
            shares: Vec::new(),
            with_next: false,
            healthy_targets: None,
            conditions,
            min_duration: Duration::from_millis(millis),
            min_calls,
            on_success: Action::Rollout,
            on_failure: Action::Rollback,
            analysis: None,
        })
}

/// One function and stages in a row.
pub fn in_a_row() -> impl Strategy2<Value = Strategy> {
    let stages = proptest::collection::vec(some_stage(), 1..5);
    let agents = proptest::collection::btree_map(some_name(), some_name(), 0..3);
    (some_name(), "[^\\p{Cc}]{0,10}", (some_name(), agents), version(), version(), stages)
        .prop_filter("distinct stages", |(.., stages)| {
            let names: std::collections::HashSet<_> = stages.iter().map(|s| &s.name).collect();
            names.len() == stages.len()
        })
        .prop_filter("not blank", |(_, kind, ..)| kind.is_empty() || !kind.trim().is_empty())
        .prop_map(|(name, kind, (function, agents), base, new, mut stages)| {
            let last = stages.len() - 1;
            for (at, stage) in stages.iter_mut().enumerate().take(last) {
                stage.on_success = Action::Stage(at + 1);
            }
            Strategy {
                id: ReleaseId::parse("r").unwrap(),
                name,
                kind,
                functions: vec![Function { name: function, agents, base, new, sticky: None, retry: None }],
                services: Vec::new(),
                stages,
                on_conflict: OnConflict::Queue,
                deadlines: ReleaseDeadlines::default(),
                target: None,
                rollout: None,
                forward_up: false,
                from_parent: None,
                annotations: BTreeMap::new(),
            }
        })
}

/// The functions as agents are told of them: not who else runs them.
pub fn told(strategy: &Strategy) -> Vec<Function> {
    let alone = |function: &Function| Function { agents: BTreeMap::new(), ..function.clone() };
    strategy.functions.iter().map(alone).collect()
}

/// What an agent is meant to judge of a stage.
fn as_handed_out(mut stage: Stage) -> Stage {
    let extra = Condition {
        metric: Metric::ResponseTime(Statistic::Minimum),
        operator: Operator::GreaterOrEqual,
        threshold: 0.0,
    };
    stage.conditions.retain(|c| !c.metric.is_quantile());
    if stage.new_traffic > 0 && !stage.conditions.contains(&extra) {
        stage.conditions.push(extra);
    }
    stage
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    #[test]
    fn the_full_language_says_the_same_again(strategy in in_a_row()) {
        let again = check_from_parent(render_full::whole(&strategy).as_bytes());
        prop_assert_eq!(again.strategy, Some(strategy));
    }

    #[test]
    fn a_one_stage_offer_means_what_the_stage_means(strategy in in_a_row(), at in any::<prop::sample::Index>()) {
        let at = at.index(strategy.stages.len());
        let offer = check(&render::stage(&strategy, at, "o-2")).strategy.expect("an offer loads");
        let handed_out = as_handed_out(strategy.stages[at].clone());
        let led = Stage {
            kind: StageKind::WaitForSignal,
            min_calls: handed_out.min_calls.max(1),
            on_success: Action::Rollback,
            ..handed_out
        };
        prop_assert_eq!(&offer.stages, &vec![led]);
        prop_assert_eq!(&offer.functions, &told(&strategy));
        prop_assert_eq!(offer.id.as_str(), "o-2");
    }
}
