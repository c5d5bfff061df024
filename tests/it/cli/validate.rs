use choirmaster::cli::{schema, source::SourceSpec, validate};

use crate::{reference::REFERENCE, texts::with};

fn run(files: &[&str], json: bool, input: &str) -> (u8, String) {
    let args = validate::Args {
        files: files.iter().map(ToString::to_string).collect(),
        json,
        strategies: None,
        wanted: SourceSpec::default(),
    };
    let mut out = Vec::new();
    let code = validate::run_with(&args, &mut input.as_bytes(), &mut out);
    (code, String::from_utf8(out).unwrap())
}

#[test]
fn a_sound_file_ends_with_0() {
    assert_eq!(run(&["-"], false, REFERENCE), (0, "1 file, 0 errors, 0 warnings\n".to_owned()));
}

#[test]
fn faults_are_printed_with_their_place_and_end_with_1() {
    let (code, text) = run(&["-"], false, &with("trafficPercentage: 95", "trafficPercentage: 90"));
    assert_eq!(code, 1);
    insta::assert_snapshot!(text, @r#"
    <stdin>:17:7: error: the traffic of stage "Canary 5 Percent" adds up to 95 %, not to 100 %
     17 |       - name: base_version
        |       ^
      help: give base_version 95 and new_version 5

    1 file, 1 error, 0 warnings
    "#);
}

#[test]
fn what_one_report_of_a_deployed_agent_means_for_an_analysis_is_a_note() {
    let metric =
        "{name: times, provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH}";
    let block = format!("    analysis: {{duration: 1m, interval: 5s, metrics: [{metric}]}}\n    end_action:");
    let judged = format!("rollout: {{order: parallel}}\n{}", REFERENCE.replace("    end_action:", &block));
    let (code, text) = run(&["-"], false, &judged);
    assert_eq!(code, 0, "{text}");
    insta::assert_snapshot!(text.lines().next().unwrap(), @"<stdin>: note: analysis of stage Canary 5 Percent: a deployed agent reports once, when it has met minDuration (10s) and minCalls (100), and so is looked at once; interval (5s) acts only for children that report while a stage goes on");
    assert!(text.ends_with("1 file, 0 errors, 0 warnings\n"), "{text}");
    let (_, json) = run(&["-"], true, &judged);
    let reports: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(reports[0]["notes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_file_that_is_not_there_ends_with_2() {
    let (code, text) = run(&["no/such.yml", "-"], false, REFERENCE);
    assert_eq!(code, 2);
    assert!(text.starts_with("no/such.yml: can't be read: "), "{text}");
    assert!(text.ends_with("2 files, 0 errors, 0 warnings, 1 unreadable\n"), "{text}");
}

#[test]
fn json_carries_the_same() {
    let (code, text) = run(&["-"], true, &with("id: 11", "id: 1/1"));
    assert_eq!(code, 1);
    let reports: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(reports[0]["file"], "<stdin>");
    assert_eq!(reports[0]["valid"], false);
    assert_eq!(reports[0]["diagnostics"][0]["code"], "bad-id");
    assert_eq!(reports[0]["diagnostics"][0]["severity"], "error");
    assert_eq!(reports[0]["diagnostics"][0]["line"], 1);
    assert_eq!(reports[0]["diagnostics"][0]["column"], 5);
}

#[test]
fn the_schema_is_printed_as_json() {
    let mut out = Vec::new();
    assert_eq!(schema::run(&schema::Args { crd: false }, &mut out), 0);
    assert!(serde_json::from_slice::<serde_json::Value>(&out).unwrap().is_object());
}

#[test]
fn the_definitions_are_printed_as_documents_of_yaml() {
    let mut out = Vec::new();
    assert_eq!(schema::run(&schema::Args { crd: true }, &mut out), 0);
    let text = String::from_utf8(out).unwrap();
    let printed: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(printed, canary_releases::crd::definitions(), "{text}");
}
