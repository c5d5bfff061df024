//! What the `modern` kind does that deployed agents don't.

use std::time::Duration;

use analysis::{Histogram, Rounding, Values};
use simulated_children::{CallClock, FleetConfig, FleetKind, LiveVersion, MAX_SESSION_CALLS};

use super::manager::{Call, Manager, Script, count, offer, results, stage};

fn modern(config: FleetConfig) -> FleetConfig {
    FleetConfig {
        kind: FleetKind::Modern,
        // How long an answer takes would count as time of the stage.
        wait: Duration::ZERO,
        runtimes: vec!["nodejs".into()],
        labels: [("tier".to_owned(), "edge".to_owned())].into(),
        ..config
    }
}

fn waiting() -> String {
    offer(&[stage("one", "WaitForSignal", "rollout", "rollback")])
}

fn final_results(calls: &[Call]) -> Vec<&Call> {
    results(calls).into_iter().filter(|call| !matches!(call.status(), Some(1 | 2))).collect()
}

#[tokio::test]
async fn it_says_what_it_is_and_counts_its_calls() {
    let manager = Manager::start(Script { end_at: Some(12), ..Script::of(&waiting()) }).await;
    let config = modern(manager.config());
    let (report, calls) = manager.run_until(config, |calls| !final_results(calls).is_empty()).await;
    let mut said = calls[0].body.clone();
    assert!(said.as_object_mut().unwrap().remove("geographic_area").is_some());
    insta::assert_snapshot!(said, @r#"
    {"capabilities":{"features":["interim","values","groups"],"labels":{"tier":"edge"},"runtimes":["nodejs"]},"id":"","kind":"agent","name":"simulated-0","number_of_children":0}
    "#);
    let summary = &final_results(&calls)[0].body["stage_summaries"][0];
    let (f1, f2) = (summary["f1_calls"].as_u64().unwrap(), summary["f2_calls"].as_u64().unwrap());
    assert_eq!(f1 + f2, 2_400, "12 seconds of 200 calls");
    let histogram: Histogram = serde_json::from_value(summary["f2_histogram"].clone()).unwrap();
    assert_eq!(histogram.count(), f2 - summary["f2_errors"].as_u64().unwrap());
    assert_eq!(report.agents[0].live["sieve"], LiveVersion::New { path: "fns/f2".into() });
}

/// An offer that is to be reported while it goes on.
fn reported_every(every: &str) -> String {
    let text = waiting();
    let marked = text.replace(
        "    end_action:",
        &format!("    interim:\n      every: {every}\n      cut: {every}\n    end_action:"),
    );
    assert_ne!(text, marked);
    marked
}

/// Every report of a stage, the last one and those on the way.
async fn reports(features: Vec<&'static str>, clock: CallClock) -> Vec<serde_json::Value> {
    let script = Script { end_at: Some(12), features, ..Script::of(&reported_every("10ms")) };
    let manager = Manager::start(script).await;
    let config = FleetConfig { clock, ..modern(manager.config()) };
    let (_, calls) = manager.run_until(config, |calls| !final_results(calls).is_empty()).await;
    let reports: Vec<_> =
        results(&calls).iter().map(|call| call.body["stage_summaries"][0].clone()).collect();
    let on_the_way = reports.iter().filter(|report| report["status"] == 1 && report["f1_calls"] != 0);
    assert!(on_the_way.count() > 0, "{reports:?}");
    reports
}

/// What was told of a version, of the whole stage and of its parts.
fn told<'r>(report: &'r serde_json::Value, form: &str) -> Vec<&'r serde_json::Value> {
    let strata = report["strata"].as_array().into_iter().flatten();
    std::iter::once(report).chain(strata).filter_map(|part| part.get(form)).collect()
}

#[tokio::test]
async fn who_reads_values_is_told_each_time_to_the_microsecond_in_every_report() {
    for report in reports(vec!["interim", "values"], CallClock::MICROSECONDS).await {
        for (values, histogram, calls, errors) in [
            ("f1_values", "f1_histogram", "f1_calls", "f1_errors"),
            ("f2_values", "f2_histogram", "f2_calls", "f2_errors"),
        ] {
            assert!(told(&report, histogram).is_empty(), "{report}");
            let successful = report[calls].as_u64().unwrap() - report[errors].as_u64().unwrap();
            let forms = told(&report, values);
            assert_eq!(forms.is_empty(), successful == 0, "{report}");
            for (place, form) in forms.into_iter().enumerate() {
                assert_eq!((&form["step"], &form["rounding"]), (&0.001.into(), &"nearest".into()));
                let values: Values = serde_json::from_value(form.clone()).unwrap();
                assert!(place > 0 || values.count() == successful, "{report}");
                // 2,400 calls at a stage's end: more times than are told one by one.
                let pairs = values.exact().unwrap_or_default();
                assert_eq!(pairs.is_empty(), form.get("sketch").is_some(), "{form}");
                assert!(pairs.iter().all(|(ms, _)| (ms * 1e3 - (ms * 1e3).round()).abs() < 1e-6), "{form}");
            }
        }
    }
}

#[tokio::test]
async fn who_does_not_read_values_is_told_histograms() {
    for report in reports(vec!["interim"], CallClock::MICROSECONDS).await {
        assert_eq!((told(&report, "f1_values").len(), told(&report, "f2_values").len()), (0, 0));
        let of_base: u64 = report["f1_calls"].as_u64().unwrap() - report["f1_errors"].as_u64().unwrap();
        let histograms = told(&report, "f1_histogram");
        assert_eq!(histograms.is_empty(), of_base == 0, "{report}");
        if let Some(histogram) = histograms.first() {
            let histogram: Histogram = serde_json::from_value((*histogram).clone()).unwrap();
            assert_eq!(histogram.count(), of_base);
        }
    }
}

#[tokio::test]
async fn a_coarse_clock_is_told_with_what_it_showed() {
    let clock = CallClock { step: Duration::from_millis(2), rounding: Rounding::Down };
    let reports = reports(vec!["values"], clock).await;
    let last = &reports.last().unwrap()["f1_values"];
    assert_eq!((&last["step"], &last["rounding"]), (&2.0.into(), &"down".into()));
    let values: Values = serde_json::from_value(last.clone()).unwrap();
    let pairs = values.exact().unwrap();
    assert!(pairs.len() > 3 && pairs.iter().all(|(ms, _)| ms % 2.0 == 0.0), "{pairs:?}");
    // A quarter of them take less than 6.5 ms.
    assert_eq!(values.quantile(0.25), Some(6.0));
}

/// The last report of a stage whose calls come in sessions of ten.
async fn of_sessions(features: Vec<&'static str>) -> serde_json::Value {
    let script = Script { end_at: Some(12), features, ..Script::of(&reported_every("10ms")) };
    let manager = Manager::start(script).await;
    let config = FleetConfig { session_calls: 10, ..modern(manager.config()) };
    let (_, calls) = manager.run_until(config, |calls| !final_results(calls).is_empty()).await;
    for call in results(&calls) {
        protocol::ResultRequest::parse(call.body.to_string().as_bytes()).unwrap();
    }
    final_results(&calls)[0].body["stage_summaries"][0].clone()
}

#[tokio::test]
async fn who_reads_groups_is_told_sessions_by_groups_of_users() {
    for features in [vec!["interim", "values", "groups"], vec!["groups"]] {
        let report = of_sessions(features).await;
        assert_eq!(report["assignment"], "user");
        let strata = report["strata"].as_array().unwrap();
        // Some two hundred sessions: most of 64 groups have one, and no two strata are of one group.
        let mut groups: Vec<u64> = strata.iter().map(|stratum| stratum["group"].as_u64().unwrap()).collect();
        groups.dedup();
        assert!((30..=64).contains(&groups.len()) && groups.len() == strata.len(), "{groups:?}");
        let sum = |of: &str| strata.iter().map(|stratum| stratum[of].as_u64().unwrap()).sum::<u64>();
        for calls in ["f1_calls", "f2_calls", "f1_errors", "f2_errors"] {
            assert_eq!(sum(calls), report[calls].as_u64().unwrap(), "{calls}");
        }
        // Whole sessions, but for the last one.
        let odd = |stratum: &&serde_json::Value| {
            ["f1_calls", "f2_calls"].iter().any(|calls| !stratum[calls].as_u64().unwrap().is_multiple_of(10))
        };
        assert!(strata.iter().filter(odd).count() <= 1, "{strata:?}");
        assert!(strata.iter().all(|stratum| stratum.get("interval").is_none_or(|at| at == 0)));
    }
}

#[tokio::test]
async fn who_does_not_read_groups_is_told_nothing_that_it_could_take_for_independent_calls() {
    let report = of_sessions(vec!["interim", "values"]).await;
    for part in ["assignment", "strata", "f1_values", "f1_histogram", "f1_errors"] {
        assert!(report.get(part).is_none(), "{part}: {report}");
    }
    // How many there were, and how the new version does by itself.
    assert!(["f1_calls", "f2_calls"].iter().all(|calls| report[calls].as_u64().unwrap() > 100), "{report}");
    assert!(report.get("f2_values").is_some() && report.get("f2_errors").is_some(), "{report}");
}

#[tokio::test]
async fn a_session_has_a_call_at_least() {
    let manager = Manager::start(Script::of(&waiting())).await;
    for session_calls in [0, MAX_SESSION_CALLS + 1] {
        let config = FleetConfig { session_calls, ..modern(manager.config()) };
        assert!(config.validate().is_err());
    }
}

#[tokio::test]
async fn its_results_are_results_that_the_wire_accepts() {
    let manager = Manager::start(Script { end_at: Some(12), ..Script::of(&waiting()) }).await;
    let (_, calls) =
        manager.run_until(modern(manager.config()), |calls| !final_results(calls).is_empty()).await;
    for call in results(&calls) {
        protocol::ResultRequest::parse(call.body.to_string().as_bytes()).unwrap();
    }
}

#[tokio::test]
async fn it_sends_a_result_again_until_it_is_answered() {
    let yaml = offer(&[stage("one", "A/B", "rollout", "rollback")]);
    let manager = Manager::start(Script { result_statuses: vec![503, 503], ..Script::of(&yaml) }).await;
    let polled = |calls: &[Call]| calls.last().unwrap().path == "/poll" && count(calls, "/result") > 0;
    let (_, calls) =
        manager.run_until(modern(manager.config()), |calls| !calls.is_empty() && polled(calls)).await;
    let sent = results(&calls);
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|call| call.body == sent[0].body));
}

#[tokio::test]
async fn it_keeps_its_id_over_restarts() {
    let manager = Manager::start(Script::of(&waiting())).await;
    let mut config = modern(manager.config());
    config.faults.crash = 0.2;
    config.faults.restart_after = Duration::from_secs(1);
    // Once it has an id, no poll of any later life asks for one.
    let (report, calls) = manager.run_until(config, |calls| calls.len() > 60).await;
    assert!(report.agents[0].restarts > 1);
    assert_eq!(report.agents[0].ids, ["child-1"]);
    let asking = calls.iter().filter(|call| call.path == "/poll" && call.body["id"] == "").count();
    assert_eq!(asking, 1);
}

#[tokio::test]
async fn it_rolls_back_when_the_signal_says_so() {
    let script = Script { end_at: Some(12), then_rollback: true, ..Script::of(&waiting()) };
    let manager = Manager::start(script).await;
    let (report, _) =
        manager.run_until(modern(manager.config()), |calls| !final_results(calls).is_empty()).await;
    assert_eq!(report.agents[0].live["sieve"], LiveVersion::Base { path: "fns/f1".into() });
}

#[tokio::test]
async fn it_follows_jumps_and_stops_after_a_roll_back() {
    let yaml = offer(&[
        stage("one", "A/B", "three", "rollback"),
        stage("two", "A/B", "rollout", "rollback"),
        stage("three", "A/B", "rollback", "rollback"),
    ]);
    let manager = Manager::start(Script::of(&yaml)).await;
    let polled = |calls: &[Call]| count(calls, "/result") > 1 && calls.last().unwrap().path == "/poll";
    let (_, calls) = manager.run_until(modern(manager.config()), polled).await;
    assert_eq!(results(&calls).into_iter().map(Call::stage).collect::<Vec<_>>(), ["one", "three"]);
}

#[tokio::test]
async fn an_error_of_a_download_does_not_end_it() {
    let manager = Manager::start(Script { release_status: 503, ..Script::of(&waiting()) }).await;
    let went_on = |calls: &[Call]| count(calls, "/release") > 0 && calls.len() > 6;
    let (report, _) = manager.run_until(modern(manager.config()), went_on).await;
    assert_eq!(report.agents[0].exit, None);
}

#[tokio::test]
async fn it_lets_the_manager_wait_where_it_has_nothing_else_to_do() {
    let manager = Manager::start(Script { end_at: Some(15), ..Script::of(&waiting()) }).await;
    let config = FleetConfig { wait: Duration::from_secs(30), ..modern(manager.config()) };
    let (report, calls) = manager.run_until(config, |calls| !final_results(calls).is_empty()).await;
    assert_eq!(report.agents[0].live["sieve"], LiveVersion::New { path: "fns/f2".into() });
    let announced = calls.iter().position(|call| call.status() == Some(2)).unwrap();
    for (place, call) in calls.iter().enumerate() {
        // 30 s of its clock.
        let expected = match call.path.as_str() {
            "/poll" => "wait=60ms",
            "/end_stage" if place > announced => "wait=60ms",
            "/end_stage" => "",
            _ => continue,
        };
        assert_eq!(call.query, expected, "{place} after {announced}: {call:?}");
    }
    assert!(count(&calls[announced..], "/end_stage") > 0);
    // Nobody waits so long for an answer that the connection is given up.
    let slow = Manager::start(Script::of(&waiting())).await;
    let config = FleetConfig { pace: 100.0, wait: Duration::from_secs(30), ..modern(slow.config()) };
    let (_, calls) = slow.run_until(config, |calls| !calls.is_empty()).await;
    assert_eq!(calls[0].query, "wait=25s");
}
