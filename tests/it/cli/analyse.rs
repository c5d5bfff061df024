//! `choirmaster analyse` on files.

use std::{fs, path::Path};

use super::{code, err, out, run};

/// A column of numbers between 10 and 30 that are all different, times a factor.
fn csv(folder: &Path, name: &str, count: u32, factor: f64) -> String {
    let mut text = "minute,ms\n".to_owned();
    for i in 0..count {
        let value = 10.0 + f64::from(i * 7_919 % count) / f64::from(count) * 20.0;
        text.push_str(&format!("{},{:.5}\n", i % 3, value * factor));
    }
    fs::write(folder.join(name), text).unwrap();
    name.to_owned()
}

fn analyse(folder: &Path, canary: &str, more: &[&str]) -> std::process::Output {
    let args = ["analyse", "--baseline", "old.csv", "--canary", canary];
    run(folder, args.iter().chain(more))
}

#[test]
fn a_result_says_why_and_the_exit_code_says_what() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    csv(folder, "old.csv", 2_000, 1.0);
    let slow = csv(folder, "slow.csv", 1_999, 1.2);
    let same = csv(folder, "same.csv", 1_999, 1.0);
    let few = csv(folder, "few.csv", 7, 1.1);
    let column = ["--column", "ms", "--deviation", "high"];
    let failed = analyse(folder, &slow, &column);
    assert_eq!(code(&failed), 4, "{}", err(&failed));
    insta::assert_snapshot!(out(&failed), @r"
    Fail: the canary is 20 % above the baseline, more than the tolerated 5 % (p = 2e-41, 0.05 was enough).

              COUNT  P50      P95      P99
    baseline  2000   19.9950  28.9905  29.7901
    canary    1999   23.9940  34.7886  35.7481

    canary / baseline: 1.2000 (90 % interval 1.1819 to 1.2183)
    P(canary > baseline) + ½ P(equal): 0.6625

    TESTED                                    Z      P        FAILS AT  P OF NO PASS
    values higher by more than the tolerance  13.44  1.7e-41  0.0500    1.0000
    ");
    assert_eq!(code(&analyse(folder, &same, &column)), 0);
    assert_eq!(code(&analyse(folder, &few, &column)), 5);
    // By minute it is the same, and stays the same the other way round.
    let strata = analyse(folder, &slow, &["--column", "2", "--stratum", "minute"]);
    assert_eq!(code(&strata), 4, "{}", out(&strata));
    assert_eq!(code(&analyse(folder, &slow, &["--column", "ms", "--deviation", "low"])), 0);
    assert_eq!(code(&analyse(folder, &slow, &["--column", "ms", "--quantile", "p95"])), 4);
    assert_eq!(code(&analyse(folder, &slow, &["--column", "ms", "--tolerance", "9ms"])), 0);
}

#[test]
fn json_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("old.csv"), "{\"calls\": 10000, \"events\": 10}").unwrap();
    fs::write(folder.join("new.json"), "{\"calls\": 10000, \"events\": 60}").unwrap();
    let output = analyse(folder, "new.json", &["--rate", "--floor", "0.1%", "--json"]);
    assert_eq!(code(&output), 4, "{}", err(&output));
    let finding: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(finding["verdict"], "fail");
    assert_eq!(finding["evidence"]["canary"]["rate"], 0.006);
}

#[test]
fn objects_and_flags_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let flags = |count: u32, every: u32| {
        let all = (0..count).map(|i| format!("{{\"failed\": {}}}", i % every == 0));
        format!("[{}]", all.collect::<Vec<_>>().join(","))
    };
    fs::write(folder.join("old.csv"), flags(5_000, 500)).unwrap();
    fs::write(folder.join("new.json"), flags(5_000, 50)).unwrap();
    let output = analyse(folder, "new.json", &["--rate", "--column", "failed"]);
    assert_eq!(code(&output), 4, "{}{}", out(&output), err(&output));
}

#[test]
fn bad_files_are_the_callers_fault_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    csv(folder, "old.csv", 20, 1.0);
    for (text, more, says) in [
        ("1\n2\nx\n", &[][..], "line 3"),
        ("a,b\n1,2\n", &["--column", "c"], "only a, b"),
        ("{\"x\": 1}", &[], "neither an array"),
        ("[1, \"2\"]", &[], "element 1"),
        ("[{\"ms\": 1}]", &[], "--column"),
        ("1\nNaN\n", &[], "NaN"),
        ("-1\n2\n", &[], "negative"),
    ] {
        fs::write(folder.join("bad"), text).unwrap();
        let args = ["analyse", "--baseline", "bad", "--canary", "bad"];
        let output = run(folder, args.iter().chain(more));
        assert_eq!(code(&output), 1, "{text}: {}", out(&output));
        let told = out(&output) + &err(&output);
        assert!(told.contains(says), "{text}: {told}");
    }
    let missing = run(folder, ["analyse", "--baseline", "no", "--canary", "no"]);
    assert_eq!(code(&missing), 1);
    assert!(err(&missing).contains("no can't be read"), "{}", err(&missing));
    let zero = analyse(folder, "old.csv", &["--column", "ms", "--tolerance", "0%"]);
    assert_eq!(code(&zero), 1);
}
