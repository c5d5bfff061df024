use choirmaster::cli::{schema, validate};

use super::{REFERENCE, with};

fn run(files: &[&str], json: bool, input: &str) -> (u8, String) {
    let args = validate::Args {
        files: files.iter().map(ToString::to_string).collect(),
        json,
        wanted: Default::default(),
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
    assert_eq!(schema::run(&schema::Args {}, &mut out), 0);
    assert!(serde_json::from_slice::<serde_json::Value>(&out).unwrap().is_object());
}
