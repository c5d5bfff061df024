//! Each of the nine points in which deployed agents behave as nobody would expect, by its number.

use std::{collections::HashSet, time::Duration};

use serde_json::json;
use simulated_children::{AgentReport, Behaviour, Exit, FleetConfig, Latency, LiveVersion};

use super::manager::{
    CLOSE, Call, Manager, PACE, Script, count, functions_zip, offer, results, stage, work, zip_of,
};

fn ab() -> String {
    offer(&[stage("one", "A/B", "rollout", "rollback")])
}

fn waiting() -> String {
    offer(&[stage("one", "WaitForSignal", "rollout", "rollback")])
}

fn polled_after_work(calls: &[Call]) -> bool {
    let last = calls.iter().rposition(|call| call.path != "/poll");
    last.is_some_and(|last| calls[last].path == "/result" && calls.len() > last + 1)
}

fn bad_new_version(config: FleetConfig) -> FleetConfig {
    let mut config = config;
    config.traffic.bad_path = Some("f2".into());
    config.traffic.bad.errors = 1.0;
    config
}

fn without_calls(config: FleetConfig) -> FleetConfig {
    let mut config = config;
    config.traffic.calls_per_second = 0.0;
    config
}

fn live(agent: &AgentReport) -> Option<&LiveVersion> {
    agent.live.get("sieve")
}

fn new_version() -> LiveVersion {
    LiveVersion::New { path: "fns/f2".into() }
}

fn base_version() -> LiveVersion {
    LiveVersion::Base { path: "fns/f1".into() }
}

#[tokio::test]
async fn point_1_an_ab_stage_is_silent_until_its_result() {
    let manager = Manager::start(Script::of(&ab())).await;
    let (_, calls) = manager.run_until(manager.config(), polled_after_work).await;
    let start = calls.iter().position(|call| call.path == "/release").unwrap();
    let paths: Vec<&str> = calls[start..start + 4].iter().map(|call| call.path.as_str()).collect();
    assert_eq!(paths, ["/release", "/release/functions/r1", "/result", "/poll"]);
    assert_eq!(results(&calls)[0].status(), Some(4));
}

#[tokio::test]
async fn point_1_it_asks_for_the_end_after_five_seconds_and_then_every_second() {
    const SLOWER: f64 = 0.01;
    let manager = Manager::start(Script::of(&waiting())).await;
    let config = FleetConfig { pace: SLOWER, setup: Duration::ZERO, ..manager.config() };
    let (_, calls) = manager.run_until(config, |calls| count(calls, "/end_stage") >= 20).await;
    let at =
        |path: &str| calls.iter().filter(|call| call.path == path).map(|call| call.at).collect::<Vec<_>>();
    let (questions, functions) = (at("/end_stage"), at("/release/functions/r1")[0]);
    assert!(questions[0] - functions >= Duration::from_secs(5).mul_f64(SLOWER));
    let gaps: Vec<Duration> = questions.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // The waits are lower bounds; a busy machine may stretch some, but not all of them.
    let nominal = Duration::from_secs(1).mul_f64(SLOWER);
    assert!(
        gaps.iter().min().is_some_and(|gap| (nominal.mul_f64(0.5)..nominal * 4).contains(gap)),
        "{gaps:?}"
    );
}

#[tokio::test]
async fn point_1_announces_success_until_accepted_then_judges_after_signal() {
    let script = Script { result_statuses: vec![503, 409], end_at: Some(11), ..Script::of(&waiting()) };
    let manager = Manager::start(script).await;
    let (report, calls) = manager.run_until(manager.config(), polled_after_work).await;
    let said: Vec<String> = calls
        .iter()
        .filter(|call| matches!(call.path.as_str(), "/result" | "/end_stage"))
        .map(|call| call.status().map_or_else(|| "?".into(), |status| status.to_string()))
        .collect();
    // Minima of 10 s: five questions from second 5 to 9, then three announcements, the third is accepted.
    assert_eq!(said.concat(), "?????2?2?2????4");
    assert_eq!(results(&calls)[0].body["next_stage"], "rollout", "an announcement says what would follow");
    assert_eq!(results(&calls)[3].body["next_stage"], "", "a final result names stages only");
    assert_eq!(live(&report.agents[0]), Some(&new_version()));
}

#[tokio::test]
async fn point_1_when_its_conditions_fail_it_sends_failure_without_a_signal() {
    let manager = Manager::start(Script::of(&waiting())).await;
    let (report, calls) = manager.run_until(bad_new_version(manager.config()), polled_after_work).await;
    assert_eq!(results(&calls).iter().map(|call| call.status()).collect::<Vec<_>>(), [Some(5)]);
    assert_eq!(results(&calls)[0].body["stage_summaries"][0]["f2_err_rate"], 1.0);
    assert_eq!(results(&calls)[0].body["stage_summaries"][0]["f2_times_summary"]["median"], -1.0);
    assert_eq!(live(&report.agents[0]), Some(&base_version()));
}

#[tokio::test]
async fn point_2_ending_first_of_three_stages_leads_to_rollout() {
    let stages = [
        stage("one", "WaitForSignal", "two", "rollback"),
        stage("two", "WaitForSignal", "three", "rollback"),
        stage("three", "WaitForSignal", "rollout", "rollback"),
    ];
    let manager = Manager::start(Script { end_at: Some(1), ..Script::of(&offer(&stages)) }).await;
    let (report, calls) = manager.run_until(manager.config(), polled_after_work).await;
    let said: Vec<(&str, Option<u64>, &str)> = results(&calls)
        .into_iter()
        .map(|call| (call.stage(), call.status(), call.body["next_stage"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("one", Some(4), "two"), ("two", Some(4), "three"), ("three", Some(4), "")]);
    assert_eq!(live(&report.agents[0]), Some(&new_version()));
}

#[tokio::test]
async fn point_2_it_acts_before_it_reports() {
    let manager = Manager::start(Script { hang_results: true, ..Script::of(&ab()) }).await;
    let (report, _) = manager.run_until(manager.config(), |calls| count(calls, "/result") == 1).await;
    assert_eq!(live(&report.agents[0]), Some(&new_version()));
}

#[tokio::test]
async fn point_3_it_ignores_jumps() {
    let stages = [
        stage("one", "A/B", "three", "rollback"),
        stage("two", "A/B", "three", "rollback"),
        stage("three", "A/B", "rollout", "one"),
    ];
    let manager = Manager::start(Script::of(&offer(&stages))).await;
    let (_, calls) = manager.run_until(manager.config(), polled_after_work).await;
    let said: Vec<&str> = results(&calls).into_iter().map(Call::stage).collect();
    assert_eq!(said, ["one", "two", "three"]);
    assert_eq!(results(&calls)[0].body["next_stage"], "three", "what it says is not what it does");
}

fn rolls_back_first() -> String {
    offer(&[stage("one", "A/B", "rollback", "rollback"), stage("two", "A/B", "rollout", "rollback")])
}

#[tokio::test]
async fn point_3_after_a_roll_back_it_runs_the_next_stage_against_deleted_functions() {
    let manager = Manager::start(Script::of(&rolls_back_first())).await;
    let (report, calls) = manager.run_until(manager.config(), polled_after_work).await;
    let second = &results(&calls)[1].body["stage_summaries"][0];
    assert_eq!((&second["stage_name"], &second["status"]), (&json!("two"), &json!(5)));
    assert_eq!(second["f2_err_rate"], 1.0);
    for times in ["f1_times_summary", "f2_times_summary", "proxy_times"] {
        assert_eq!(second[times], json!({"median": -1.0, "minimum": -1.0, "maximum": -1.0}));
    }
    assert_eq!(live(&report.agents[0]), Some(&base_version()));
    assert!(report.without_service() >= 10.0, "for the minimum duration: {:?}", report.agents[0]);
}

#[tokio::test]
async fn point_3_or_it_exits_after_the_roll_back() {
    let manager = Manager::start(Script::of(&rolls_back_first())).await;
    let mut config = manager.config();
    config.faults.exit_after_rollback = 1.0;
    let (report, calls) = manager.run_until(config, |_| false).await;
    assert_eq!(report.agents[0].exit, Some(Exit::AfterRollback));
    assert_eq!(results(&calls).len(), 1);
}

async fn exit_of(script: Script) -> (Exit, Vec<Call>) {
    let manager = Manager::start(script).await;
    let (report, calls) = manager.run_until(manager.config(), |_| false).await;
    (report.agents[0].exit.clone().unwrap(), calls)
}

#[tokio::test]
async fn point_4_it_exits_on_any_error_of_the_two_downloads() {
    for status in [404, 503, CLOSE] {
        let (exit, calls) = exit_of(Script { release_status: status, ..Script::of(&ab()) }).await;
        assert!(matches!(exit, Exit::Release(_)), "{status}: {exit:?}");
        assert_eq!(work(&calls), ["/release"]);
        let (exit, calls) = exit_of(Script { functions_status: status, ..Script::of(&ab()) }).await;
        assert!(matches!(exit, Exit::Functions(_)), "{status}: {exit:?}");
        assert_eq!(work(&calls), ["/release", "/release/functions/r1"]);
    }
    let no_archive = ("r1".into(), ab(), b"not a zip".to_vec());
    let (exit, _) = exit_of(Script { offers: vec![no_archive], ..Script::of("") }).await;
    assert!(matches!(exit, Exit::Functions(_)), "{exit:?}");
}

#[tokio::test]
async fn point_4_it_exits_on_yaml_it_cannot_read() {
    for (ordinary, unreadable) in [
        ("\"Median\"", "P95"),
        ("onFailure: rollback", "onFailure: two"),
        ("threshold: \"100\"", "threshold: 100"),
        ("\"<0.02\"", "0.02"),
        ("\"<0.02\"", "\"< 0.02\""),
        ("trafficPercentage: 50", "trafficPercentage: 2.5"),
        ("trafficPercentage: 50", "trafficPercentage: \"50\""),
        ("end_action: ", "end_action: ["),
    ] {
        let yaml = ab();
        assert!(yaml.contains(ordinary), "{ordinary}");
        let (exit, calls) = exit_of(Script::of(&yaml.replacen(ordinary, unreadable, 1))).await;
        assert!(matches!(exit, Exit::Yaml(_)), "{unreadable}: {exit:?}");
        assert_eq!(work(&calls), ["/release"], "it reads before it fetches the functions");
    }
}

#[tokio::test]
async fn point_4_its_proxy_stays_behind_when_it_exits_in_the_middle() {
    let second = stage("two", "A/B", "rollout", "rollback").replace("func_name: sieve", "func_name: sleve");
    let manager = Manager::start(Script::of(&offer(&[stage("one", "A/B", "two", "rollback"), second]))).await;
    let (report, _) = manager.run_until(manager.config(), |_| false).await;
    assert_eq!(report.agents[0].exit, Some(Exit::UnknownFunction("sleve".into())));
    assert_eq!(live(&report.agents[0]), Some(&LiveVersion::OrphanedProxy));
    assert!(report.without_service() > 0.0, "{:?}", report.agents[0]);
}

fn without_minima(yaml: &str) -> String {
    yaml.replace("threshold: 10s", "threshold: 0s").replace("threshold: \"100\"", "threshold: \"0\"")
}

#[tokio::test]
async fn point_5_missing_calls_pass_every_condition_but_one() {
    let passes = without_minima(&waiting());
    let fails = passes.replace(
        "    end_conditions:",
        "      - {name: responseTime, threshold: \">=0\", compareWith: Minimum}\n    end_conditions:",
    );
    for (yaml, status) in [(passes, 4), (fails, 5)] {
        let manager = Manager::start(Script { end_at: Some(1), ..Script::of(&yaml) }).await;
        let (_, calls) = manager.run_until(without_calls(manager.config()), polled_after_work).await;
        let last = *results(&calls).last().unwrap();
        assert_eq!(last.status(), Some(status));
        assert_eq!(last.body["stage_summaries"][0]["f2_err_rate"], 0.0);
        assert_eq!(last.body["stage_summaries"][0]["f2_times_summary"]["minimum"], -1.0);
    }
}

#[tokio::test]
async fn point_5_errors_of_the_base_version_are_never_reported() {
    let manager = Manager::start(Script::of(&ab())).await;
    let mut config = manager.config();
    config.traffic.base.errors = 1.0;
    let (_, calls) = manager.run_until(config, polled_after_work).await;
    let summary = &results(&calls)[0].body["stage_summaries"][0];
    assert_eq!(summary["f1_err_rate"], 0.0);
    assert_eq!(summary["f1_times_summary"]["median"], -1.0, "there were no other calls to it");
}

#[tokio::test]
async fn point_5_a_final_result_is_never_sent_again() {
    let manager = Manager::start(Script { result_statuses: vec![503; 100], ..Script::of(&ab()) }).await;
    let polled_often =
        |calls: &[Call]| calls.iter().rev().take_while(|call| call.path == "/poll").count() > 20;
    let (report, calls) =
        manager.run_until(manager.config(), |calls| count(calls, "/result") > 0 && polled_often(calls)).await;
    assert_eq!(results(&calls).len(), 1);
    assert_eq!(live(&report.agents[0]), Some(&new_version()));
}

#[tokio::test]
async fn point_6_a_stage_without_calls_never_ends_in_ab_whatever_its_minimum() {
    let manager = Manager::start(Script::of(&without_minima(&ab()))).await;
    let hundred_seconds = Duration::from_secs(100).mul_f64(PACE);
    // The last call is the download, until there is a result.
    let long_after = |calls: &[Call]| {
        let last = calls.last().filter(|call| call.path != "/poll" && call.path != "/release");
        last.is_some_and(|last| last.path == "/result" || last.at.elapsed() > hundred_seconds)
    };
    let (report, calls) = manager.run_until(without_calls(manager.config()), long_after).await;
    assert_eq!(work(&calls), ["/release", "/release/functions/r1"]);
    assert_eq!(report.totals.running, 1);

    let manager = Manager::start(Script::of(&without_minima(&ab()))).await;
    let mut config = manager.config();
    config.traffic.calls_per_second = 0.1;
    let (_, calls) = manager.run_until(config, polled_after_work).await;
    assert_eq!(results(&calls).len(), 1, "a single call is enough");
}

#[tokio::test]
async fn point_7_two_functions_cross_wire_its_proxies() {
    let other = "  - name: other\n    base_version: {path: fns/f1, env: nodejs}\n    new_version: {path: fns/bad, env: nodejs}\nstages:";
    let manager = Manager::start(Script::of(&ab().replacen("stages:", other, 1))).await;
    let mut config = manager.config();
    config.traffic.bad_path = Some("fns/bad".into());
    config.traffic.bad = Behaviour { errors: 1.0, latency: Latency::Constant { ms: 1.0 } };
    let (_, calls) = manager.run_until(config, polled_after_work).await;
    assert_eq!(
        results(&calls)[0].status(),
        Some(5),
        "sieve is judged by the calls to the new version of other"
    );
}

#[tokio::test]
async fn point_7_unknown_stage_types_and_durations_in_days_do_nothing() {
    for yaml in [ab().replace("A/B", "Shadow"), ab().replace("10s", "1d")] {
        let manager = Manager::start(Script::of(&yaml)).await;
        let went_on = |calls: &[Call]| {
            let last = calls.iter().rposition(|call| call.path.starts_with("/release/functions"));
            last.is_some_and(|last| calls.len() > last + 5)
        };
        let (report, calls) = manager.run_until(manager.config(), went_on).await;
        assert_eq!(work(&calls), ["/release", "/release/functions/r1"]);
        assert_eq!(report.agents[0].exit, None);
    }
}

#[tokio::test]
async fn point_8_restarted_agent_is_new_child_and_reuses_files() {
    let manager = Manager::start(Script::of(&waiting())).await;
    let mut config = manager.config();
    config.faults.crash = 0.1;
    config.faults.restart_after = Duration::from_secs(1);
    let downloads = |calls: &[Call]| count(calls, "/release/functions/r1");
    let in_second_life = |calls: &[Call]| downloads(calls) >= 3 && calls.last().unwrap().path == "/end_stage";
    let (report, calls) = manager.run_until(config, in_second_life).await;
    let polls: Vec<&Call> = calls.iter().filter(|call| call.path == "/poll").collect();
    let areas: HashSet<String> = polls.iter().map(|call| call.body["geographic_area"].to_string()).collect();
    assert_eq!(areas.len(), 1);
    let agent = &report.agents[0];
    assert!(agent.restarts >= 2 && agent.ids.len() >= 3, "{agent:?}");
    assert!(agent.reused >= 2, "{agent:?}");
    assert_eq!(agent.setups.get("fns/f2"), Some(&1), "only the first life set it up");
}

#[tokio::test]
async fn point_8_a_lost_first_answer_leaves_a_ghost() {
    let manager = Manager::start(Script::of(&ab())).await;
    let mut config = manager.config();
    config.faults.lose_first_answer = 1.0;
    let (report, calls) = manager.run_until(config, polled_after_work).await;
    let asked: Vec<&str> = calls
        .iter()
        .filter(|call| call.path == "/poll")
        .map(|call| call.body["id"].as_str().unwrap())
        .collect();
    assert_eq!(asked[..3], ["", "", "child-2"]);
    assert_eq!(report.agents[0].ids, ["child-2"]);
}

#[tokio::test]
async fn point_9_a_folder_that_was_not_unpacked_fails_silently() {
    let folders = [("fns/", 0o755), ("fns/f1/", 0o755), ("fns/f2/", 0o755)];
    let (f1, f2) = (("fns/f1/index.js", 0o644), ("fns/f2/index.js", 0o644));
    let in_order = |order: &[(&str, u32)]| zip_of(order);
    for (what, archive) in [
        ("no folder entries", in_order(&[f1, f2])),
        ("a file before its folder", in_order(&[folders[0], folders[1], f1, f2, folders[2]])),
        ("no folder for the new version", in_order(&[folders[0], folders[1], f1])),
        (
            "an unreadable file",
            in_order(&[folders[0], folders[1], f1, folders[2], ("fns/f2/index.js", 0o600)]),
        ),
    ] {
        let manager =
            Manager::start(Script { offers: vec![("r1".into(), ab(), archive)], ..Script::of("") }).await;
        let went_on = |calls: &[Call]| count(calls, "/release/functions/r1") == 1 && calls.len() > 10;
        let (report, calls) = manager.run_until(manager.config(), went_on).await;
        assert_eq!(work(&calls), ["/release", "/release/functions/r1"], "{what}");
        assert_eq!(report.agents[0].exit, None, "{what}");
        assert_eq!(report.agents[0].live.get("sieve"), None, "{what}");
    }
}

#[tokio::test]
async fn point_9_it_fetches_functions_by_the_id_in_the_yaml_and_escapes_nothing() {
    let yaml = ab().replace("id: r1\n", "id: 7.10\n");
    let offers = vec![("r&1=2".to_owned(), yaml, functions_zip())];
    let manager = Manager::start(Script { offers, ..Script::of("") }).await;
    let (_, calls) = manager.run_until(manager.config(), polled_after_work).await;
    assert_eq!(work(&calls), ["/release", "/release/functions/7.10", "/result"]);
    let download = calls.iter().find(|call| call.path == "/release").unwrap();
    assert_eq!(download.query, "childID=child-1&releaseID=r&1=2");
    assert_eq!(results(&calls)[0].body["release_id"], "7.10");
}

#[tokio::test]
async fn a_withdrawn_offer_is_run_as_nothing() {
    let withdrawn = "id: r1\nname: test\nfunctions: []\nstages: []\n";
    let manager = Manager::start(Script::of(withdrawn)).await;
    let went_on = |calls: &[Call]| count(calls, "/release/functions/r1") == 1 && calls.len() > 10;
    let (report, calls) = manager.run_until(manager.config(), went_on).await;
    assert_eq!(work(&calls), ["/release", "/release/functions/r1"]);
    assert_eq!((report.agents[0].exit.clone(), report.agents[0].live.len()), (None, 0));
}
