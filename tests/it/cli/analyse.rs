//! `choirmaster analyse` on files.

use std::{fs, path::Path};

use super::{code, err, out, repository, run};

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
    Fail: the canary is 20 % higher than the baseline; 5 % is allowed; if it were only 5 %, chance would show this less than once in a million.

              COUNT  P50      P95      P99
    baseline  2000   19.9950  28.9905  29.7901
    canary    1999   23.9940  34.7886  35.7481

    canary / baseline: 1.2000 (90 % interval 1.1819 to 1.2184)
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
        // Read as 5 each, they were all alike.
        ("ms\n5,0\n5,9\n", &[], "line 2: \"5,0\" has 2 columns, and the first line has 1"),
        ("5\n\n5,9\n", &[], "line 3"),
        ("5,0;1\n5,9;1\n", &["--column", "1"], "\"5,0\" is no number"),
        ("ms,child\n5,a\n5\n", &["--column", "ms"], "line 3: \"5\" has 1 column"),
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

#[test]
fn a_faster_canary_passes_unless_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    csv(folder, "old.csv", 2_000, 1.0);
    let fast = csv(folder, "fast.csv", 1_999, 0.7);
    let output = analyse(folder, &fast, &["--column", "ms"]);
    assert_eq!(code(&output), 0, "{}", out(&output));
    let either = analyse(folder, &fast, &["--column", "ms", "--deviation", "either"]);
    assert_eq!(code(&either), 4, "{}", out(&either));
}

#[test]
fn a_tolerance_says_in_which_unit_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    csv(folder, "old.csv", 2_000, 1.0);
    let slow = csv(folder, "slow.csv", 1_999, 1.2);
    let with = |tolerance: &str, unit: &str| {
        analyse(folder, &slow, &["--column", "ms", "--tolerance", tolerance, "--unit", unit])
    };
    for (tolerance, unit, says) in [
        ("0.5", "ms", "0.5 has no unit"),
        ("20", "s", "20 has no unit"),
        ("20ms", "MiB", "--unit ms"),
        ("20MiB", "ms", "--unit MiB"),
        ("1e3%", "ms", "no tolerance"),
        ("five", "ms", "no tolerance"),
        ("2000%", "ms", "1000 %"),
        ("5%", "5ms", "a unit is a word"),
    ] {
        let output = with(tolerance, unit);
        assert_eq!(code(&output), 1, "{tolerance}: {}", out(&output));
        assert!(err(&output).contains(says), "{tolerance}: {}", err(&output));
    }
    // The canary is 4 higher: of milliseconds 3 are too few, of microseconds 5,000 are, of seconds one is plenty.
    for (tolerance, unit, ends) in [
        ("3ms", "ms", 4),
        ("6ms", "ms", 0),
        ("0.006ms", "us", 0),
        ("3ms", "us", 0),
        ("6000ms", "s", 0),
        ("3req/s", "req/s", 4),
    ] {
        let output = with(tolerance, unit);
        assert_eq!(code(&output), ends, "{tolerance} of {unit}: {}", out(&output));
    }
    for (more, says) in [
        (["--alpha", "7"], "no share"),
        (["--quantile", "99"], "no quantile"),
        (["--duration", "30"], "no duration"),
        (["--looks", "0"], "1..=1000"),
    ] {
        let output = analyse(folder, &slow, &[&["--column", "ms"][..], &more].concat());
        assert_eq!(code(&output), 1, "{more:?}: {}", out(&output));
        assert!(err(&output).contains(says), "{more:?}: {}", err(&output));
    }
}

#[test]
fn it_tells_what_a_release_would_have_done_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    csv(folder, "old.csv", 2_000, 1.0);
    let slow = csv(folder, "slow.csv", 2_000, 1.2);
    let same = csv(folder, "same.csv", 2_000, 1.0);
    let column = ["--column", "ms", "--duration", "30m", "--looks", "12"];
    let stopped = analyse(folder, &slow, &column);
    assert_eq!(code(&stopped), 4, "{}", err(&stopped));
    assert!(err(&stopped).contains("in the order of the files"), "{}", err(&stopped));
    let table: Vec<String> = out(&stopped).lines().take(3).map(str::to_owned).collect();
    insta::assert_snapshot!(table.join("\n"), @r"
    LOOK  AFTER   BASELINE  CANARY  P       FAILS AT
    1     2m 30s  167       167     3.8e-5  0.0061    Fail
    ");
    let passed = analyse(folder, &same, &column);
    assert_eq!(code(&passed), 0, "{}", out(&passed));
    assert!(out(&passed).contains("\n12    30m 0s"), "{}", out(&passed));
    let early = analyse(folder, &same, &[column.as_slice(), &["--early-pass"]].concat());
    assert_eq!(code(&early), 0, "{}", out(&early));
    assert!(out(&early).contains("; passed early, at look 4 of 12."), "{}", out(&early));
    assert!(out(&early).contains("PASSES AT"), "{}", out(&early));
    let once = analyse(folder, &same, &["--column", "ms", "--early-pass"]);
    assert_eq!((code(&once), err(&once).contains("add --looks or --duration")), (1, true), "{}", err(&once));
    // Quantiles and rates are looked at over time too, and only the number of looks matters.
    let tail = analyse(folder, &slow, &["--column", "ms", "--looks", "5", "--quantile", "p90"]);
    assert_eq!(code(&tail), 4, "{}", out(&tail));
    let flags = |name: &str, every: u32| {
        let flags: Vec<String> = (0..6_000).map(|i| u32::from(i % every == 0).to_string()).collect();
        fs::write(folder.join(name), flags.join("\n")).unwrap();
    };
    flags("old.csv", 200);
    flags("bad", 20);
    let rate = analyse(folder, "bad", &["--rate", "--looks", "6", "--json"]);
    assert_eq!(code(&rate), 4, "{}", out(&rate));
    let found: serde_json::Value = serde_json::from_str(&out(&rate)).unwrap();
    assert_eq!(found["plannedLooks"], 6);
    let looks = found["looks"].as_array().unwrap();
    assert!(looks.len() < 6, "{found}");
    assert_eq!(looks.last().unwrap()["verdict"], "fail");
    assert_eq!(looks[0]["evidence"]["canary"]["count"], 1_000);
    let counts = r#"{"calls": 10, "events": 1}"#;
    fs::write(folder.join("counts"), counts).unwrap();
    let orderless = analyse(folder, "counts", &["--rate", "--looks", "6"]);
    assert_eq!(code(&orderless), 1);
    assert!(err(&orderless).contains("order of time"), "{}", err(&orderless));
}

#[test]
fn values_are_looked_at_when_they_were_measured() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, factor: f64| {
        // A thousand values within the first of ten minutes, and one long after.
        let mut text = "at,ms\n".to_owned();
        for i in 0..1_000_u32 {
            let ms = (10.0 + f64::from(i * 379 % 1_000) / 100.0) * factor;
            text.push_str(&format!("2026-05-01T12:00:{:02}.{:03}Z,{ms}\n", i * 59 / 1_000, i));
        }
        text.push_str("2026-05-01T13:00:00Z,10\n");
        fs::write(folder.join(name), text).unwrap();
    };
    write("old.csv", 1.0);
    write("slow.csv", 1.4);
    let output =
        analyse(folder, "slow.csv", &["--column", "ms", "--time", "at", "--duration", "10m", "--json"]);
    assert_eq!(code(&output), 4, "{}{}", out(&output), err(&output));
    assert!(err(&output).contains("2 values were measured later than 10m"), "{}", err(&output));
    let found: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(found["looks"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["looks"][0]["evidence"]["baseline"]["count"], 1_000);
}

#[test]
fn an_empty_side_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    csv(folder, "old.csv", 20, 1.0);
    fs::write(folder.join("none.csv"), "minute,ms\n").unwrap();
    fs::write(folder.join("other.csv"), "minute,ms\n7,1\n").unwrap();
    let column = ["--column", "ms"];
    let canary = analyse(folder, "none.csv", &column);
    assert_eq!(code(&canary), 5, "{}", out(&canary));
    assert!(
        out(&canary).starts_with("No data: the canary measured nothing; see that it gets calls."),
        "{}",
        out(&canary)
    );
    let args = ["analyse", "--baseline", "none.csv", "--canary", "old.csv", "--column", "ms"];
    let baseline = run(folder, args.iter().chain(&["--stratum", "minute"]));
    assert!(
        out(&baseline).starts_with("No data: the baseline measured nothing; see that it gets calls."),
        "{}",
        out(&baseline)
    );
    let both = run(folder, ["analyse", "--baseline", "none.csv", "--canary", "none.csv", "--column", "ms"]);
    assert!(out(&both).starts_with("No data: neither side"), "{}", out(&both));
    let apart = analyse(folder, "other.csv", &["--column", "ms", "--stratum", "minute"]);
    assert_eq!(code(&apart), 1, "{}", out(&apart));
    assert!(err(&apart).contains("no stratum in common"), "{}", err(&apart));
}

#[test]
fn it_says_beforehand_what_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plan = |more: &[&str]| run(folder, ["analyse", "--plan"].iter().chain(more));
    let values =
        plan(&["--split", "20%", "--cv", "0.5", "--traffic", "40/s", "--duration", "1m", "--looks", "12"]);
    assert_eq!(code(&values), 0, "{}", err(&values));
    insta::assert_snapshot!(out(&values), @r"
    Worse is: values higher by more than 5 %. Alpha 5 %, 20 % of the calls on the canary, 12 looks.
    Assumed: log-normal values whose standard deviation is 0.5 of their mean.

    CALLS  LASTS   EQUAL VERSIONS PASS  FOUND 4 TIMES OF 5
    3,800  1m 35s  80 %                 from +10.6 %
    6,656  2m 47s  95 %                 from +9.17 %
    2,400  1m 0s   62 %                 from +12 %
    ");
    let page = fs::read_to_string(repository().join("docs/analysis.md")).unwrap();
    let said = out(&values);
    let (_, table) = said.split_once("\n\n").unwrap();
    assert!(page.contains(table), "docs/analysis.md shows another table");
    insta::assert_snapshot!(err(&values), @"warning: raise the number of calls to 3,800: with 2,400 calls only 62 % of equal versions pass");
    let errors = plan(&["--rate", "--error-rate", "0.1%", "--floor", "0%", "--calls", "12000"]);
    insta::assert_snapshot!(out(&errors), @r"
    Worse is: a rate higher by more than 5 %. Alpha 5 %, 50 % of the calls on the canary, 1 look.
    Assumed: 0.1 % of the calls are events.

    CALLS       LASTS  EQUAL VERSIONS PASS  FOUND 4 TIMES OF 5
    10,436,608  -      80 %                 from +10.1 %
    18,284,544  -      95 %                 from +8.86 %
    12,000      -      3 %                  from +226 %
    ");
    // By what was measured, in its own unit.
    csv(folder, "old.csv", 2_000, 1.0);
    let observed = plan(&[
        "--baseline",
        "old.csv",
        "--column",
        "ms",
        "--tolerance",
        "1ms",
        "--quantile",
        "p90",
        "--json",
    ]);
    let found: serde_json::Value = serde_json::from_str(&out(&observed)).unwrap();
    assert_eq!(found["assumed"], "values vary as the 2000 of old.csv");
    assert_eq!(found["relative"], false);
    let calls: Vec<u64> =
        found["wanted"].as_array().unwrap().iter().map(|w| w[1]["calls"].as_u64().unwrap()).collect();
    assert!(calls[0] > 500 && calls[1] > calls[0], "{found}");
    // No traffic makes good what varies from run to run.
    let never = plan(&["--run-variation", "3%"]);
    assert!(out(&never).contains("never  -      80 %"), "{}", out(&never));
    for (more, says) in [
        (&["--tolerance", "20ms"][..], "typical value"),
        (&["--canary", "new.csv"], "--canary"),
        (&["--traffic", "40"], "40/s"),
        (&["--split", "0%"], "between 0 and 1"),
        (&["--rate", "--cv", "1"], "--cv"),
    ] {
        let output = plan(more);
        assert_eq!(code(&output), 1, "{more:?}: {}", out(&output));
        assert!(err(&output).contains(says), "{more:?}: {}", err(&output));
    }
}

#[test]
fn what_was_written_for_another_tool_is_translated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let template = "kind: AnalysisTemplate\nspec:\n  metrics:\n    load:\n      provider: prom\n      timeout: 5s\n      \
                    interval: 1m\n      expected: {max: 1}\n      query: up{job=\"{{ .App.Name }}\"}\n";
    fs::write(folder.join("template.yaml"), template).unwrap();
    let output = run(folder, ["analyse", "import", "template.yaml"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("query: 'up{job=\"{{ .BuiltInArgs.App.Name }}\"}'"), "{}", out(&output));
    assert_eq!(
        err(&output),
        "left out: AnalysisTemplate, metric load: timeout, for a provider has its own timeout\n"
    );
    let json = run(folder, ["analyse", "import", "template.yaml", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(found["dropped"].as_array().unwrap().len(), 1, "{found}");
    fs::write(folder.join("other.yaml"), "kind: Secret\n").unwrap();
    let nothing = run(folder, ["analyse", "import", "other.yaml"]);
    assert_eq!(code(&nothing), 1);
    assert!(err(&nothing).contains("neither an ANALYSIS stage"), "{}", err(&nothing));
}
