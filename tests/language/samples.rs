use std::time::Duration;

use language::{
    Action, Condition, Metric, OnConflict, Operator, ReleaseDeadlines, StageKind, Statistic, check,
};

use super::{REFERENCE, load, samples, with};

#[test]
fn the_reference_loads_without_a_word() {
    let checked = check(REFERENCE);
    assert_eq!(checked.diagnostics, []);
    let strategy = checked.strategy.unwrap();
    assert_eq!(strategy.id.as_str(), "11");
    assert_eq!(strategy.kind, "patch/major/minor");
    assert_eq!((strategy.on_conflict, strategy.deadlines), (OnConflict::Queue, ReleaseDeadlines::default()));
    let stage = &strategy.stages[0];
    assert_eq!(stage.kind, StageKind::WaitForSignal);
    assert_eq!((stage.subject, stage.new_traffic), (0, 5));
    assert_eq!((stage.min_duration, stage.min_calls), (Duration::from_secs(10), 100));
    assert_eq!((stage.on_success, stage.on_failure), (Action::Rollout, Action::Rollback));
    let median = Metric::ResponseTime(Statistic::Median);
    assert_eq!(
        stage.conditions,
        [
            Condition { metric: Metric::ErrorRate, operator: Operator::Less, threshold: 0.02 },
            Condition { metric: median, operator: Operator::LessOrEqual, threshold: 250.0 },
        ]
    );
}

#[test]
fn every_sample_loads_without_a_word() {
    let samples = samples();
    assert!(samples.len() >= 7);
    for (file, text) in samples {
        let checked = check(&text);
        let faults: Vec<String> = checked.diagnostics.iter().map(|d| d.render(&file)).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert!(checked.strategy.is_some());
    }
}

#[test]
fn the_success_path_follows_jumps() {
    let jump = samples().into_iter().find(|(file, _)| file == "jump.yml").unwrap().1;
    let strategy = load(&jump);
    assert_eq!(strategy.success_path(), [0, 2]);
    assert_eq!(strategy.reachable(), [true, true, true]);
    assert_eq!(strategy.next(0, true), Action::Stage(2));
    assert_eq!(strategy.next(0, false), Action::Stage(1));
    assert_eq!(strategy.next(2, true), Action::Rollout);
    assert_eq!(strategy.next(99, true), Action::Rollback);
}

#[test]
fn ids_keep_their_spelling() {
    for id in ["1.10", "007", "0x1f", "1e3", "yes", "true", "-5", "1_000", "12345678901234567890123", ".5"] {
        assert_eq!(load(&with("id: 11", &format!("id: {id}"))).id.as_str(), id);
        assert_eq!(load(&with("id: 11", &format!("id: \"{id}\""))).id.as_str(), id);
    }
    assert_eq!(load(&with("id: 11", "id: &x 1.10")).id.as_str(), "1.10");
}

#[test]
fn thresholds_may_be_unquoted_and_spaced() {
    for (written, operator, value) in [
        ("<=250", Operator::LessOrEqual, 250.0),
        ("\"< 250.5\"", Operator::Less, 250.5),
        ("\">=1e2\"", Operator::GreaterOrEqual, 100.0),
        ("'>5'", Operator::Greater, 5.0),
        ("<=250ms", Operator::LessOrEqual, 250.0),
        ("\"< 1.5 s\"", Operator::Less, 1500.0),
        ("=5", Operator::Equal, 5.0),
        ("==5", Operator::Equal, 5.0),
    ] {
        let text = with("\"<=250\"", written);
        let condition = &load(&text).stages[0].conditions[1];
        assert_eq!((condition.operator, condition.threshold), (operator, value), "{written}");
    }
    for (written, share) in
        [("<2%", 0.02), ("\"< 0.7 %\"", 0.007), ("<=0%", 0.0), ("<1e1%", 0.1), ("<=100%", 1.0)]
    {
        let condition = &load(&with("\"<0.02\"", written)).stages[0].conditions[0];
        assert_eq!((condition.metric, condition.threshold), (Metric::ErrorRate, share), "{written}");
    }
}

#[test]
fn durations_are_exact() {
    for (written, millis) in [
        ("500ms", 500),
        ("10s", 10_000),
        ("1m30s", 90_000),
        ("2h", 7_200_000),
        ("1.5h", 5_400_000),
        ("1d", 86_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("0", 0),
        ("0.25s", 250),
    ] {
        let stage = &load(&with("threshold: 10s", &format!("threshold: {written}"))).stages[0];
        assert_eq!(stage.min_duration, Duration::from_millis(millis), "{written}");
    }
}

#[test]
fn what_is_optional_may_be_left_out() {
    let text = with("      onFailure: rollback\n", "").replace("type: patch/major/minor\n", "");
    let text = text.split("\nrollback:").next().unwrap();
    let strategy = load(text);
    assert_eq!(strategy.kind, "");
    assert_eq!(strategy.stages[0].on_failure, Action::Rollback);
    let from = text.find("    end_conditions").unwrap();
    let to = text.find("    end_action").unwrap();
    let stage = &load(&format!("{}{}", &text[..from], &text[to..])).stages[0];
    assert_eq!((stage.min_duration, stage.min_calls), (Duration::ZERO, 0));
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let text = with("    base_version:\n      path", "    base_version: &v\n      path")
        .replace("    new_version:\n", "    new_version:\n      <<: *v\n")
        .replace("      path: fns/sample_f2\n      env: nodejs\n", "      path: fns/sample_f2\n");
    let checked = check(&text);
    assert_eq!(checked.diagnostics, []);
    let function = &checked.strategy.unwrap().functions[0];
    assert_eq!((function.new.path.as_str(), function.new.env.as_str()), ("fns/sample_f2", "nodejs"));
}

#[test]
fn line_ends_and_marks_of_other_systems_change_nothing() {
    let plain = load(REFERENCE);
    assert_eq!(load(&REFERENCE.replace('\n', "\r\n")), plain);
    assert_eq!(load(&format!("\u{feff}{REFERENCE}")), plain);
}

#[test]
fn a_percentile_is_kept_for_the_manager() {
    let strategy = load(&with("\"Median\"", "P99.9"));
    assert_eq!(
        strategy.stages[0].conditions[1].metric,
        Metric::ResponseTime(Statistic::Quantile(99.9 / 100.0))
    );
    assert!(strategy.stages[0].conditions[1].metric.is_quantile());
}

#[test]
fn the_optional_keys_are_read() {
    let added = "id: 11\non_conflict: supersede\noffer_deadline: 1d\nsetup_grace: 5m\nstage_deadline: 2h";
    let strategy = load(&with("id: 11", added));
    assert_eq!(strategy.on_conflict, OnConflict::Supersede);
    assert_eq!(strategy.deadlines.offer, Some(Duration::from_hours(24)));
    assert_eq!(strategy.deadlines.setup_grace, Some(Duration::from_mins(5)));
    assert_eq!(strategy.deadlines.stage, Some(Duration::from_hours(2)));
}

#[test]
fn comments_may_be_of_any_number() {
    let text = REFERENCE.replace('\n', &format!("\n{}", "          # a remark\n".repeat(200)));
    assert_eq!(check(&text).diagnostics, []);
}
