//! Offers as agents read them.

use std::time::Duration;

use language::{
    Action, FromParent, Function, Interim, Stage, StageKind, Strategy, offer,
    render::{self, ROLLOUT_STAGE, UNDO_STAGE},
    render_full,
};
use proptest::prelude::*;

use super::{
    REFERENCE, load,
    render::{in_a_row, told},
    samples,
};

/// What an agent that walks by itself is to read of a stage.
fn in_place(stage: &Stage) -> Stage {
    let min_calls = stage.min_calls.max(u64::from(stage.new_traffic > 0));
    Stage { kind: StageKind::WaitForSignal, min_calls, analysis: None, ..stage.clone() }
}

fn read(text: &str) -> offer::Offer {
    offer::read(text).unwrap_or_else(|found| panic!("{found:?}\n{text}"))
}

fn stages(of: &offer::Offer) -> Vec<Stage> {
    of.stages.iter().map(|stage| stage.stage.clone()).collect()
}

/// With ways through the stages that a list of them doesn't show, and with reports while they go on.
fn with_ways(mut strategy: Strategy, failures: &[usize], every_ms: u64) -> Strategy {
    let last = strategy.stages.len();
    for (at, to) in failures.iter().enumerate().take(last) {
        let to = at + 1 + to;
        if to < last {
            strategy.stages[at].on_failure = Action::Stage(to);
        }
    }
    let told = |stage: &Stage| (stage.name.clone(), Interim { every_ms, cut_ms: every_ms * 3 });
    let interim = strategy.stages.iter().map(told).collect();
    strategy.from_parent = Some(FromParent { interim, ..FromParent::default() });
    strategy
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    #[test]
    fn what_an_agent_is_handed_in_place_is_what_it_reads(
        strategy in in_a_row(),
        failures in proptest::collection::vec(0..4_usize, 5),
        every_ms in 1..10_000_000_u64,
        is_reported: bool,
    ) {
        let strategy = with_ways(strategy, &failures, every_ms);
        let text = render_full::in_place(&strategy, "o-1.r2", is_reported);
        let offer = read(&text);
        prop_assert_eq!(&offer.id, "o-1.r2");
        prop_assert_eq!(&offer.functions, &told(&strategy));
        prop_assert_eq!(stages(&offer), strategy.stages.iter().map(in_place).collect::<Vec<_>>());
        let interim = is_reported.then_some(Interim { every_ms, cut_ms: every_ms * 3 });
        prop_assert!(offer.stages.iter().all(|stage| stage.interim == interim));
    }

    #[test]
    fn what_is_handed_out_stage_by_stage_is_read_as_every_strategy_is(
        strategy in in_a_row(),
        at in any::<prop::sample::Index>(),
    ) {
        let at = at.index(strategy.stages.len());
        for text in [
            render::stage(&strategy, at, "o-2"),
            render::reported_stage(&with_ways(strategy.clone(), &[], 500), at, "o-2"),
            render::undo(&strategy, 0, "o-2"),
            render::rollout(&strategy, 0, "o-2"),
        ] {
            let offer = read(&text);
            let plain: String =
                text.split_inclusive('\n').filter(|line| !is_of_interim(line)).collect();
            let checked = language::check(&plain).strategy.expect("a strategy");
            prop_assert_eq!(&offer.functions, &checked.functions);
            prop_assert_eq!(stages(&offer), checked.stages);
            prop_assert_eq!(offer.stages[0].interim.is_some(), plain != text);
        }
    }
}

fn is_of_interim(line: &str) -> bool {
    ["    interim:", "      every: ", "      cut: "].iter().any(|key| line.starts_with(key))
}

#[test]
fn a_withdrawn_offer_has_nothing_in_it() {
    let offer = read(&render::withdrawn(&load(REFERENCE), "11"));
    assert_eq!((offer.id.as_str(), offer.functions.len(), offer.stages.len()), ("11", 0, 0));
}

#[test]
fn an_undo_for_managers_is_an_undo_for_agents() {
    let strategy = load(REFERENCE);
    let offer = read(&render_full::undo(&strategy, 0));
    assert_eq!((offer.id.as_str(), offer.stages[0].stage.name.as_str()), ("11", UNDO_STAGE));
    assert_eq!(offer.functions[0].new, strategy.functions[0].base);
    let rollout = read(&render::rollout(&strategy, 0, "11.rollout"));
    assert_eq!(rollout.stages[0].stage.name, ROLLOUT_STAGE);
    assert_eq!(rollout.stages[0].stage.on_success, Action::Rollout);
}

#[test]
fn every_sample_is_an_offer_of_a_plain_manager() {
    for (file, text) in samples() {
        let strategy = load(&text);
        let offer = offer::read(&text).unwrap_or_else(|found| panic!("{file}: {found:?}"));
        assert_eq!(offer.functions, strategy.functions, "{file}");
        assert_eq!(stages(&offer), strategy.stages, "{file}");
        assert_eq!(offer.id, strategy.id.as_str(), "{file}");
    }
}

/// As a manager hands it out that passes on the text of whoever wrote it.
const PLAIN: &str = r#"id: spring release/7
name: two steps
type: minor
functions:
  - name: resize
    base_version: {path: fns/resize_1, env: python3}
    new_version: {path: fns/resize_2, env: python3}
    memory: 64
stages:
  - name: first look
    type: A/B
    func_name: resize
    variants:
      - {name: new_version, trafficPercentage: 20}
      - {name: base_version, trafficPercentage: 80}
    metrics_conditions:
      - name: responseTime
        threshold: "<=80"
        compareWith: Maximum
    end_conditions:
      - {name: minCalls, threshold: 40}
    end_action: {onSuccess: all of it, onFailure: rollback}
    notes: whatever
  - name: all of it
    type: WaitForSignal
    func_name: resize
    variants:
      - {name: base_version, trafficPercentage: 0}
      - {name: new_version, trafficPercentage: 100}
    end_action: {onSuccess: rollout}
rollback:
  action: {function: base_version}
owner: {team: images}
"#;

#[test]
fn a_plain_managers_offer_is_read_whatever_else_stands_in_it() {
    let offer = read(PLAIN);
    assert_eq!(offer.id, "spring release/7");
    let [first, second] = &stages(&offer)[..] else { panic!("{offer:?}") };
    assert_eq!((first.kind, first.new_traffic, first.min_calls), (StageKind::AB, 20, 40));
    assert_eq!((first.on_success, first.on_failure), (Action::Stage(1), Action::Rollback));
    assert_eq!((second.on_success, second.on_failure), (Action::Rollout, Action::Rollback));
    assert_eq!((second.min_duration, offer.alpha), (Duration::ZERO, None));
}

#[test]
fn what_was_accepted_before_a_rule_came_is_read() {
    let many = "n".repeat(300);
    let text = REFERENCE.replace("canary5percent", &many).replace("fns/sample_f1", &"p".repeat(3_000));
    assert!(language::check(&text).strategy.is_none());
    let offer = read(&text);
    assert_eq!(offer.functions[0].base.path.len(), 3_000);
}

#[test]
fn what_is_no_offer_says_what_is_wrong() {
    let with = |from: &str, to: &str| {
        let text = PLAIN.replacen(from, to, 1);
        assert_ne!(text, PLAIN);
        text
    };
    for (text, says) in [
        (String::new(), "there is no strategy here"),
        ("[".repeat(5_000), "this is too deep"),
        ("x: [".to_owned(), ""),
        (with("id: spring release/7\n", ""), "the strategy lacks id"),
        (with("id: spring release/7", "id: \"a\\nb\""), "id contains a line break"),
        (with("fns/resize_1", "../up"), "path"),
        (with("func_name: resize", "func_name: shrink"), "there is no function \"shrink\""),
        (with("onSuccess: all of it", "onSuccess: none of it"), "there is no stage or action"),
        (with("onSuccess: rollout", "onSuccess: first look"), "leads back"),
        (with("trafficPercentage: 20", "trafficPercentage: 30"), "adds up to 110 %"),
        (with("    notes: whatever", "    interim: {every: 5x, cut: 1m}"), "is not a duration"),
        ("id: 1\nname: n\nfunctions: []\nstages:\n  - 3\n".to_owned(), "stage 1 is not a mapping"),
        ("x".repeat(offer::MAX_OFFER_BYTES + 1), "an offer has at most"),
    ] {
        let found = offer::read(&text).expect_err(&text);
        let all: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|found| found.severity == language::Severity::Error), "{all:?}");
        assert!(all.iter().any(|found| found.contains(says)), "{says}: {all:#?}");
    }
    let functions: &[Function] = &read(PLAIN).functions;
    let half = render::withdrawn(&load(REFERENCE), "1").replace(
        "functions: []",
        "functions:\n  - {name: f, base_version: {path: a, env: b}, new_version: {path: c, env: d}}",
    );
    let found = offer::read(&half).unwrap_err();
    assert!(found[0].message.contains("functions without stages"), "{found:?} {functions:?}");
}
