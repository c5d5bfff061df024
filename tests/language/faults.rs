use std::fmt::Write as _;

use language::{MAX_DIAGNOSTICS, MAX_STRATEGY_BYTES, Severity, check, check_bytes};

use super::{REFERENCE, rendered, with};

#[test]
fn every_fault_is_reported_at_once() {
    let text = REFERENCE
        .replace("id: 11", "id: a/b")
        .replace("func_name: sieve", "func_name: seive")
        .replace("trafficPercentage: 95", "trafficPercentage: 90")
        .replace("\"<0.02\"", "0.02")
        .replace("minCalls", "minCall")
        .replace("threshold: 10s", "threshold: 10")
        .replace("onSuccess: rollout", "onSuccess: rolout")
        .replace("fns/sample_f2", "../sample_f2")
        .replace("      env: nodejs\nstages", "      envs: nodejs\nstages")
        .replace("type: WaitForSignal", "type: waitforsignal");
    insta::assert_snapshot!(rendered(&text), @r#"
    r.yml:1:5: error: an id consists of letters, digits and . _ ~ -, not of '/'
     1 | id: a/b
       |     ^
      help: write letters, digits and . _ ~ -, as in 11 or sieve-2026.1
    r.yml:10:13: error: the path "../sample_f2" leaves its folder
     10 |       path: ../sample_f2
        |             ^
      help: write a relative path with forward slashes, as in fns/sample_f1
    r.yml:11:7: error: new_version of function "sieve" has no key "envs"
     11 |       envs: nodejs
        |       ^
      help: did you mean env?
    r.yml:14:11: error: there is no stage type "waitforsignal"
     14 |     type: waitforsignal
        |           ^
      help: did you mean WaitForSignal?
    r.yml:15:16: error: there is no function "seive"
     15 |     func_name: seive
        |                ^
      help: did you mean sieve?
    r.yml:17:7: error: the traffic of stage "Canary 5 Percent" adds up to 95 %, not to 100 %
     17 |       - name: base_version
        |       ^
      help: give base_version 95 and new_version 5
    r.yml:23:20: error: the threshold "0.02" has no operator
     23 |         threshold: 0.02
        |                    ^
      help: write "<0.02" or "<=0.02"
    r.yml:29:20: error: the duration "10" has no unit
     29 |         threshold: 10
        |                    ^
      help: write 10s for seconds, or one of ms, m, h, d
    r.yml:30:15: error: there is no end condition "minCall"
     30 |       - name: minCall
        |               ^
      help: did you mean minCalls?
    r.yml:33:18: error: there is no stage or action "rolout"
     33 |       onSuccess: rolout
        |                  ^
      help: did you mean rollout?
    "#);
}

#[test]
fn each_rule_says_what_is_wrong_and_what_to_write() {
    let stage_end = "    end_action:\n      onSuccess: rollout";
    let misspelt = with("metrics_conditions", "metric_conditions")
        .replace("threshold: \"<0.02\"", "treshold: \"<0.02\"")
        .replace("end_conditions", "endconditions")
        .replace("end_action", "end_actions");
    let cases = [
        ("no name", with("name: canary5percent\n", "")),
        ("empty name", with("name: canary5percent", "name:")),
        ("name with a line break", with("name: canary5percent", "name: \"a\\nb\"")),
        ("long id", with("id: 11", &format!("id: {}", "x".repeat(49)))),
        ("id is a list", with("id: 11", "id: [11]")),
        ("duplicate key", with("id: 11", "id: 11\nid: 12")),
        ("unknown key far off", with("id: 11", "id: 11\nzzzzzzzzzz: 1")),
        ("a truth that is none", with("id: 11", "id: 11\nforward_up: yes")),
        ("almost a block of a later version", with("id: 11", "id: 11\nrolout: {}")),
        ("functions is no list", with("functions:\n  - name", "functions:\n    name")),
        ("no stages", REFERENCE.split("stages:").next().unwrap().to_owned() + "stages: []\n"),
        ("absolute path", with("fns/sample_f2", "/fns/sample_f2")),
        ("windows path", with("fns/sample_f2", "'fns\\sample_f2'")),
        ("quantile of 100", with("\"Median\"", "P100")),
        ("misspelt statistic", with("\"Median\"", "median")),
        ("percent as a share", with("\"<0.02\"", "\"<2\"")),
        ("not a number", with("\"<0.02\"", "\"<NaN\"")),
        ("negative threshold", with("\"<0.02\"", "\"<-1\"")),
        ("more than all calls", with("\"<0.02\"", "\"<200%\"")),
        ("a time as a share", with("\"<0.02\"", "\"<200ms\"")),
        ("a share as a time", with("\"<=250\"", "<=2%")),
        ("a percentage without an operator", with("\"<0.02\"", "2 %")),
        ("misspelt keys of a stage", misspelt),
        ("unquoted greater", with("\"<0.02\"", ">=0.02")),
        ("fraction of traffic", with("trafficPercentage: 5 ", "trafficPercentage: 5.5 ")),
        ("traffic over 100", with("trafficPercentage: 5 ", "trafficPercentage: 105 ")),
        ("percent sign", with("trafficPercentage: 5 ", "trafficPercentage: 5% ")),
        ("one variant only", with("      - name: base_version\n        trafficPercentage: 95\n", "")),
        ("the same variant twice", with("      - name: new_version\n", "      - name: base_version\n")),
        ("an unknown variant", with("      - name: new_version\n", "      - name: newversion\n")),
        ("unknown metric", with("name: errorRate", "name: errorrate")),
        ("unit nobody reads", with("threshold: 10s", "threshold: 10 sec")),
        ("less than a millisecond", with("threshold: 10s", "threshold: 0.0005s")),
        ("too long", with("threshold: 10s", "threshold: 400d")),
        ("calls with a unit", with("\"100\"", "100s")),
        ("minimum given twice", with("name: minCalls", "name: minDuration").replace("\"100\"", "5s")),
        ("no end_action", with(stage_end, "    x:\n      onSuccess: rollout")),
        ("a stage that leads to itself", with("onSuccess: rollout", "onSuccess: Canary 5 Percent")),
        ("a reserved name", with("name: Canary 5 Percent", "name: rollback")),
        ("roll-back to the new version", with("    function: base_version", "    function: new_version")),
        ("tab as indentation", with("  - name: sieve", "\t- name: sieve")),
        ("two documents", format!("{REFERENCE}\n---\n{REFERENCE}")),
        ("nothing", String::new()),
        ("only a comment", "# soon\n".to_owned()),
        ("a single word", "hello".to_owned()),
    ];
    let mut text = String::new();
    for (what, yaml) in cases {
        assert!(check(&yaml).strategy.is_none(), "{what} was accepted");
        let _ = writeln!(text, "## {what}\n{}\n", rendered(&yaml));
    }
    insta::assert_snapshot!(text, @r#"
    ## no name
    r.yml:1:1: error: the strategy lacks name
     1 | id: 11
       | ^
      help: write name: my release

    ## empty name
    r.yml:2:1: error: name of the strategy is empty
     2 | name:
       | ^
      help: write name: my release

    ## name with a line break
    r.yml:2:7: error: name contains a line break or another control character
     2 | name: "a\nb"
       |       ^
      help: write a short text on one line

    ## long id
    r.yml:1:5: error: an id has at most 48 bytes, this one has 49
     1 | id: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
       |     ^
      help: write letters, digits and . _ ~ -, as in 11 or sieve-2026.1

    ## id is a list
    r.yml:1:5: error: id is not a single value
     1 | id: [11]
       |     ^
      help: write it on one line, as in id: value

    ## duplicate key
    r.yml:2:1: error: the strategy has the key id twice, first in line 1
     2 | id: 12
       | ^
      help: keep one of the two

    ## unknown key far off
    r.yml:2:1: error: the strategy has no key "zzzzzzzzzz"
     2 | zzzzzzzzzz: 1
       | ^
      help: its keys are id, name, type, functions, services, stages, strategy, rollback, on_conflict, offer_deadline, setup_grace, stage_deadline, target, rollout, forward_up, annotations, namespace, analysis_templates

    ## a truth that is none
    r.yml:2:13: error: forward_up is true or false, not "yes"
     2 | forward_up: yes
       |             ^
      help: write true or false

    ## almost a block of a later version
    r.yml:2:1: error: the strategy has no key "rolout"
     2 | rolout: {}
       | ^
      help: did you mean rollout?

    ## functions is no list
    r.yml:5:5: error: functions is not a list
     5 |     name: sieve
       |     ^
      help: start each item with a dash

    ## no stages
    r.yml:12:9: error: stages is empty
     12 | stages: []
        |         ^
      help: name at least one

    ## absolute path
    r.yml:10:13: error: the path "/fns/sample_f2" is absolute
     10 |       path: /fns/sample_f2
        |             ^
      help: write a relative path with forward slashes, as in fns/sample_f1

    ## windows path
    r.yml:10:13: error: the path "fns\\sample_f2" contains a backslash or a control character
     10 |       path: 'fns\sample_f2'
        |             ^
      help: write a relative path with forward slashes, as in fns/sample_f1

    ## quantile of 100
    r.yml:26:22: error: there is no statistic "P100"
     26 |         compareWith: P100
        |                      ^
      help: it is Median, Minimum, Maximum or a percentile such as P95

    ## misspelt statistic
    r.yml:26:22: error: there is no statistic "median"
     26 |         compareWith: median
        |                      ^
      help: did you mean Median?

    ## percent as a share
    r.yml:23:20: error: errorRate is a share from 0 to 1, not 2
     23 |         threshold: "<2"
        |                    ^
      help: write "<0.02" for 2 %

    ## not a number
    r.yml:23:20: error: "NaN" in the threshold "<NaN" is not a number
     23 |         threshold: "<NaN"
        |                    ^
      help: write a plain number after the operator, as in "<0.02" or "<=250", or one in %, ms or s

    ## negative threshold
    r.yml:23:20: error: the threshold "<-1" is negative; rates and times never are
     23 |         threshold: "<-1"
        |                    ^
      help: write a number from 0 up

    ## more than all calls
    r.yml:23:20: error: errorRate is at most 100 %
     23 |         threshold: "<200%"
        |                    ^
      help: write a smaller one, as in "<2%"

    ## a time as a share
    r.yml:23:20: error: errorRate is a share of calls, and this is a time
     23 |         threshold: "<200ms"
        |                    ^
      help: write "<2%", or name: responseTime for a time

    ## a share as a time
    r.yml:25:20: error: responseTime is a time, and this is a percentage
     25 |         threshold: <=2%
        |                    ^
      help: write "<=250ms", or name: errorRate for a share of calls

    ## a percentage without an operator
    r.yml:23:20: error: the threshold "2 %" has no operator
     23 |         threshold: 2 %
        |                    ^
      help: write "<2 %" or "<=2 %"

    ## misspelt keys of a stage
    r.yml:21:5: error: stage "Canary 5 Percent" has no key "metric_conditions"
     21 |     metric_conditions: # all of them
        |     ^
      help: did you mean metrics_conditions?
    r.yml:23:9: error: condition "errorRate" of stage "Canary 5 Percent" has no key "treshold"
     23 |         treshold: "<0.02"
        |         ^
      help: did you mean threshold?
    r.yml:27:5: error: stage "Canary 5 Percent" has no key "endconditions"
     27 |     endconditions:
        |     ^
      help: did you mean end_conditions?
    r.yml:32:5: error: stage "Canary 5 Percent" has no key "end_actions"
     32 |     end_actions:
        |     ^
      help: did you mean end_action?

    ## unquoted greater
    r.yml:23:20: error: not readable as YAML: while scanning a block scalar, did not find expected comment or line break
     23 |         threshold: >=0.02
        |                    ^
      help: a threshold that starts with > must be quoted, as in threshold: ">=0.5"

    ## fraction of traffic
    r.yml:20:28: error: "5.5" is not a percentage
     20 |         trafficPercentage: 5.5 # fixed once the proxy runs
        |                            ^
      help: write a whole number from 0 to 100 without a sign, as in 5

    ## traffic over 100
    r.yml:20:28: error: "105" is not a percentage
     20 |         trafficPercentage: 105 # fixed once the proxy runs
        |                            ^
      help: write a whole number from 0 to 100 without a sign, as in 5

    ## percent sign
    r.yml:20:28: error: "5%" is not a percentage
     20 |         trafficPercentage: 5% # fixed once the proxy runs
        |                            ^
      help: write a whole number from 0 to 100 without a sign, as in 5

    ## one variant only
    r.yml:17:7: error: variants of stage "Canary 5 Percent" lack base_version
     17 |       - name: new_version
        |       ^
      help: add base_version with trafficPercentage: 95

    ## the same variant twice
    r.yml:19:9: error: stage "Canary 5 Percent" names base_version twice
     19 |       - name: base_version
        |         ^
      help: keep one of the two, the other variant is new_version

    ## an unknown variant
    r.yml:19:15: error: there is no variant "newversion"
     19 |       - name: newversion
        |               ^
      help: did you mean new_version?

    ## unknown metric
    r.yml:22:15: error: there is no metric "errorrate"
     22 |       - name: errorrate
        |               ^
      help: did you mean errorRate?

    ## unit nobody reads
    r.yml:29:20: error: "10 sec" is not a duration
     29 |         threshold: 10 sec
        |                    ^
      help: write numbers with units, as in 500ms, 10s, 1m30s, 2h or 1d (whole milliseconds)

    ## less than a millisecond
    r.yml:29:20: error: "0.0005s" is not a duration
     29 |         threshold: 0.0005s
        |                    ^
      help: write numbers with units, as in 500ms, 10s, 1m30s, 2h or 1d (whole milliseconds)

    ## too long
    r.yml:29:20: error: the duration "400d" is over 366 days
     29 |         threshold: 400d
        |                    ^
      help: write a shorter one

    ## calls with a unit
    r.yml:31:20: error: "100s" is not a number of calls
     31 |         threshold: 100s
        |                    ^
      help: write a whole number from 0 to 1000000000, as in 100

    ## minimum given twice
    r.yml:30:9: error: end condition "minDuration" of stage "Canary 5 Percent" is given twice
     30 |       - name: minDuration
        |         ^
      help: keep one of the two

    ## no end_action
    r.yml:13:5: error: stage "Canary 5 Percent" lacks end_action
     13 |   - name: Canary 5 Percent
        |     ^
      help: write end_action: and below it onSuccess: rollout and onFailure: rollback
    r.yml:32:5: error: stage "Canary 5 Percent" has no key "x"
     32 |     x:
        |     ^
      help: its keys are name, type, func_name, variants, service, shares, with_next, healthy_targets, metrics_conditions, end_conditions, end_action, analysis

    ## a stage that leads to itself
    r.yml:33:18: error: onSuccess leads back to a stage that leads here: this never ends
     33 |       onSuccess: Canary 5 Percent
        |                  ^
      help: go on to a later stage, or end in rollout or rollback

    ## a reserved name
    r.yml:13:11: error: a stage can't be called rollback
     13 |   - name: rollback
        |           ^
      help: that is the name of an action; call it otherwise

    ## roll-back to the new version
    r.yml:38:15: error: there is no version to roll back to called "new_version"
     38 |     function: new_version
        |               ^
      help: did you mean base_version?

    ## tab as indentation
    r.yml:5:2: error: not readable as YAML: there is a tab in the indentation
     5 |  - name: sieve
       |  ^
      help: indent with spaces

    ## two documents
    r.yml:39:1: error: there is more than one YAML document
     39 | ---
        | ^
      help: keep one strategy in a file, and remove what follows ---

    ## nothing
    r.yml:1:1: error: there is no strategy here
      help: start with id: and name:

    ## only a comment
    r.yml:1:1: error: there is no strategy here
     1 | # soon
       | ^
      help: start with id: and name:

    ## a single word
    r.yml:1:1: error: the strategy is not a mapping
     1 | hello
       | ^
      help: write its keys one per line, as in id: …
    "#);
}

/// Three stages after each other.
fn three() -> String {
    let stage = REFERENCE.split("stages:\n").nth(1).unwrap().split("\nrollback:").next().unwrap();
    let head = REFERENCE.split("stages:\n").next().unwrap();
    let named = |name: &str, next: &str| {
        stage.replace("Canary 5 Percent", name).replace("onSuccess: rollout", &format!("onSuccess: {next}"))
    };
    format!("{head}stages:\n{}{}{}", named("A", "B"), named("B", "C"), named("C", "rollout"))
}

#[test]
fn loops_and_names_between_stages_are_checked() {
    let loop_over_all = three().replace("onSuccess: rollout", "onSuccess: A");
    let by_failure = three().replacen("onFailure: rollback", "onFailure: A", 2);
    let twice = three().replace("name: C", "name: B");
    let mut text = String::new();
    for (what, yaml) in [("all in a ring", loop_over_all), ("by failure", by_failure), ("twice", twice)] {
        assert!(check(&yaml).strategy.is_none(), "{what} was accepted");
        let _ = writeln!(text, "## {what}\n{}\n", rendered(&yaml));
    }
    insta::assert_snapshot!(text, @r#"
    ## all in a ring
    r.yml:77:18: error: onSuccess leads back to a stage that leads here: this never ends
     77 |       onSuccess: A
        |                  ^
      help: go on to a later stage, or end in rollout or rollback

    ## by failure
    r.yml:34:18: error: onFailure leads back to a stage that leads here: this never ends
     34 |       onFailure: A
        |                  ^
      help: go on to a later stage, or end in rollout or rollback
    r.yml:56:18: error: onFailure leads back to a stage that leads here: this never ends
     56 |       onFailure: A
        |                  ^
      help: go on to a later stage, or end in rollout or rollback

    ## twice
    r.yml:55:18: error: there is no stage or action "C"
     55 |       onSuccess: C
        |                  ^
      help: write rollout, rollback or the name of a stage
    r.yml:57:11: error: there are two stages "B", the first in line 35
     57 |   - name: B
        |           ^
      help: rename one of them
    "#);
}

#[test]
fn what_is_odd_but_possible_is_a_warning() {
    let no_conditions = {
        let from = REFERENCE.find("    metrics_conditions").unwrap();
        let to = REFERENCE.find("    end_conditions").unwrap();
        format!("{}{}", &REFERENCE[..from], &REFERENCE[to..])
    };
    let no_minimum = {
        let from = REFERENCE.find("    end_conditions").unwrap();
        let to = REFERENCE.find("    end_action").unwrap();
        format!("{}{}", &REFERENCE[..from], &REFERENCE[to..])
    };
    let second = "      - name: responseTime";
    let above = format!("      - {{name: responseTime, threshold: \">300\"}}\n{second}");
    let cases = [
        ("no way to roll out", with("onSuccess: rollout", "onSuccess: rollback")),
        ("no condition", no_conditions),
        ("short deadline", with("id: 11", "id: 11\nstage_deadline: 5s")),
        ("a name tinyFaaS refuses", REFERENCE.replace(": sieve", ": my-sieve")),
        ("unreachable stage", three().replacen("onSuccess: B", "onSuccess: C", 1)),
        ("same folder", with("sample_f2", "sample_f1")),
        ("compareWith of a rate", with("\"<0.02\"", "\"<0.02\"\n        compareWith: Median")),
        (
            "unused function",
            with(
                "stages:",
                "  - {name: two, base_version: {path: a, env: e}, new_version: {path: b, env: e}}\nstages:",
            ),
        ),
        ("errors demanded", with("<0.02", ">0.02")),
        ("nothing is below nought", with("<=250", "<0")),
        ("two that exclude each other", with(second, &above)),
        ("no minimum", no_minimum),
    ];
    let mut text = String::new();
    for (what, yaml) in cases {
        let checked = check(&yaml);
        assert!(checked.strategy.is_some(), "{what} was refused: {}", rendered(&yaml));
        assert!(checked.diagnostics.iter().all(|d| d.severity == Severity::Warning));
        let _ = writeln!(text, "## {what}\n{}\n", rendered(&yaml));
    }
    insta::assert_snapshot!(text, @r#"
    ## no way to roll out
    r.yml:33:18: warning: no way leads to rollout: every child ends on its base version
     33 |       onSuccess: rollback
        |                  ^
      help: let the last stage have onSuccess: rollout

    ## no condition
    r.yml:13:11: warning: stage "Canary 5 Percent" has no condition on the new version
     13 |   - name: Canary 5 Percent
        |           ^
      help: add metrics_conditions, as in errorRate with threshold: "<0.02"

    ## short deadline
    r.yml:2:17: warning: stage_deadline is below the minDuration of stage "Canary 5 Percent"
     2 | stage_deadline: 5s
       |                 ^
      help: raise stage_deadline or lower minDuration

    ## a name tinyFaaS refuses
    r.yml:5:11: warning: tinyFaaS refuses the function name "my-sieve"
     5 |   - name: my-sieve
       |           ^
      help: use letters and digits only, as in mysieve

    ## unreachable stage
    r.yml:35:5: warning: nothing leads to stage "B"
     35 |   - name: B
        |     ^
      help: name it in an onSuccess or onFailure, or leave it out

    ## same folder
    r.yml:5:5: warning: both versions of "sieve" are the same folder
     5 |   - name: sieve
       |     ^
      help: give new_version a folder of its own

    ## compareWith of a rate
    r.yml:24:22: warning: compareWith has no meaning for errorRate
     24 |         compareWith: Median
        |                      ^
      help: leave it out

    ## unused function
    r.yml:1:1: warning: no stage tests the function "two"
     1 | id: 11
       | ^
      help: name it in the func_name of a stage, or leave it out

    ## errors demanded
    r.yml:23:20: warning: errorRate >0.02 holds only if calls of the new version fail
     23 |         threshold: ">0.02"
        |                    ^
      help: write "<0.02" where less than 2 % may fail

    ## nothing is below nought
    r.yml:25:20: warning: responseTime <0 Median can't hold: no time is below 0
     25 |         threshold: "<0"
        |                    ^
      help: write "<=250" for 250 ms

    ## two that exclude each other
    r.yml:26:20: warning: responseTime <=250 Median and responseTime >300 Median can't both hold
     26 |         threshold: "<=250"
        |                    ^
      help: change one of the two

    ## no minimum
    r.yml:13:11: warning: stage "Canary 5 Percent" waits for nothing: it may end before the new version had a call
     13 |   - name: Canary 5 Percent
        |           ^
      help: add end_conditions: [{name: minDuration, threshold: 10m}, {name: minCalls, threshold: 1000}]
    "#);
}

#[test]
fn bombs_and_deep_nesting_are_refused() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(",");
        let _ = writeln!(bomb, "a{level}: &a{level} [{below}]");
    }
    let long_text = format!("a: &a {}\nb: [{}]\n", "x".repeat(200_000), vec!["*a"; 200].join(","));
    let deep_flow = "[".repeat(50_000);
    let deep_block = (0..400).map(|depth| " ".repeat(depth) + "a:\n").collect::<Vec<_>>().concat();
    let wide = format!("a: [{}]", "1,".repeat(100_000));
    let big = "#".repeat(MAX_STRATEGY_BYTES + 1);
    let mut text = String::new();
    for (what, yaml) in [
        ("alias bomb", bomb),
        ("long text", long_text),
        ("deep flow", deep_flow),
        ("deep block", deep_block),
        ("wide", wide),
        ("big", big),
    ] {
        let checked = check(&yaml);
        assert!(checked.strategy.is_none());
        let found = &checked.diagnostics[0];
        let _ = writeln!(text, "{what}: {}: {} ({:?})", found.code, found.message, found.fix);
    }
    insta::assert_snapshot!(text, @r#"
    alias bomb: too-complex: this is too deep or too big for a strategy (Some("a strategy has at most 20000 values, 32 levels and 256 aliases"))
    long text: too-complex: this is too deep or too big for a strategy (Some("a strategy has at most 20000 values, 32 levels and 256 aliases"))
    deep flow: too-complex: this is too deep or too big for a strategy (Some("a strategy has at most 20000 values, 32 levels and 256 aliases"))
    deep block: too-complex: this is too deep or too big for a strategy (Some("a strategy has at most 20000 values, 32 levels and 256 aliases"))
    wide: too-complex: this is too deep or too big for a strategy (Some("a strategy has at most 20000 values, 32 levels and 256 aliases"))
    big: too-large: a strategy has at most 262144 bytes, this one has 262145 (Some("split the release"))
    "#);
}

#[test]
fn what_is_no_text_is_refused_with_its_place() {
    let checked = check_bytes(b"id: 11\nname: caf\xe9\n");
    assert!(checked.strategy.is_none());
    insta::assert_snapshot!(checked.diagnostics[0].render("r.yml"), @r#"
    r.yml:2:10: error: this is not UTF-8 text
     2 | name: caf
       |          ^
      help: save the file as UTF-8
    "#);
}

#[test]
fn the_number_of_diagnostics_and_their_length_are_limited() {
    let many = (0..3000).map(|n| format!("unknown{n}: 1")).collect::<Vec<_>>().join("\n");
    assert_eq!(check(&many).diagnostics.len(), MAX_DIAGNOSTICS);
    let long = format!("{{{}}}", (0..2000).map(|n| format!("unknown{n}: 1")).collect::<Vec<_>>().join(", "));
    let found = check(&long).diagnostics;
    assert!(found.iter().all(|d| d.render("r.yml").len() < 2000));
}

#[test]
fn control_characters_never_reach_a_terminal() {
    let shown = rendered("id: \"a\\u001b[31m\"\nname: \u{1b}[31mred\n");
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
}

#[test]
fn an_error_is_not_lost_among_warnings() {
    let condition = "      - name: errorRate\n        threshold: \"<0.02\"\n        compareWith: Median\n";
    let from = REFERENCE.find("      - name: errorRate").unwrap();
    let to = REFERENCE.find("    end_conditions").unwrap();
    let stage = |n: usize| {
        format!("{}{}{}", &REFERENCE[..from], condition.repeat(32), &REFERENCE[to..])
            .split("stages:\n")
            .nth(1)
            .unwrap()
            .split("\nrollback:")
            .next()
            .unwrap()
            .replace("Canary 5 Percent", &format!("S{n}"))
            .replace("onSuccess: rollout", &format!("onSuccess: S{}", n + 1))
    };
    let head = REFERENCE.split("stages:\n").next().unwrap();
    let many: String = (0..20).map(stage).collect::<Vec<_>>().concat();
    let last = stage(20).replace("onSuccess: S21", "onSuccess: rollout");
    // The error stands behind more warnings than are kept, and before still more.
    let text =
        format!("{head}stages:\n{many}{last}").replace("S10\n    type:", "S10\n    oops: 1\n    type:");
    let checked = check(&text);
    assert!(checked.strategy.is_none());
    assert_eq!(checked.diagnostics.len(), MAX_DIAGNOSTICS);
    assert!(checked.diagnostics.iter().any(|d| d.code == "unknown-key"));
    assert!(check(&text.replace("    oops: 1\n", "")).strategy.is_some());
}

#[test]
fn slips_of_yaml_are_said_in_words_where_they_are() {
    let area = |coordinates: &str| {
        format!("{REFERENCE}\ntarget: {{area: {{type: Polygon, coordinates: {coordinates}}}}}\n")
    };
    let cases = [
        ("a key too far to the right", with("      path: fns/sample_f2", "       path: fns/sample_f2")),
        ("a key too far to the left", with("      path: fns/sample_f2", "     path: fns/sample_f2")),
        ("a list item too far to the right", with("  - name: sieve", "   - name: sieve")),
        ("a key at the side of a list", with("    func_name: sieve", "   func_name: sieve")),
        ("a quote that is not closed", with("\"<0.02\"", "\"<0.02")),
        ("a single quote that is not closed", with("\"<0.02\"", "'<0.02")),
        ("a quote that is not closed at the end", format!("{REFERENCE}\non_conflict: \"queue\n")),
        ("a colon in a value", with("name: canary5percent", "name: canary: 5 percent")),
        ("a colon without a space", with("name: canary5percent", "name:canary5percent")),
        ("no colon", with("name: canary5percent", "name canary5percent")),
        ("a dash without a space", with("      - name: minCalls", "      -name: minCalls")),
        ("a value that begins with a sign", with("name: canary5percent", "name: @canary")),
        ("a reference", with("name: canary5percent", "name: *canary")),
        ("an escape that is none", with("name: canary5percent", "name: \"c:\\canary\"")),
        ("a bracket too few", area("[[[13, 52], [14, 52], [14, 53], [13, 52]]")),
        ("a bracket too many", area("[[[13, 52], [14, 52], [14, 53], [13, 52]]]]")),
        (
            "a brace that is never closed",
            area("[[[13, 52], [14, 52], [14, 53], [13, 52]]]").replace("}}\n", "}\n"),
        ),
    ];
    let mut text = String::new();
    for (what, yaml) in cases {
        assert!(check(&yaml).strategy.is_none(), "{what} was accepted");
        let _ = writeln!(text, "## {what}\n{}\n", rendered(&yaml));
    }
    insta::assert_snapshot!(text, @r#"
    ## a key too far to the right
    r.yml:11:7: error: not readable as YAML: the indentation fits nothing above: what is said here begins after 6 spaces, in line 10 after 7 spaces
     11 |       env: nodejs
        |       ^
      help: keys that belong together begin in the same column; behind a dash that is two columns further

    ## a key too far to the left
    r.yml:11:7: error: not readable as YAML: the indentation fits nothing above: what is said here begins after 6 spaces, in line 10 after 5 spaces
     11 |       env: nodejs
        |       ^
      help: keys that belong together begin in the same column; behind a dash that is two columns further

    ## a list item too far to the right
    r.yml:6:5: error: not readable as YAML: the indentation fits nothing above: what is said here begins after 4 spaces, in line 5 after 5 spaces
     6 |     base_version:
       |     ^
      help: keys that belong together begin in the same column; behind a dash that is two columns further

    ## a key at the side of a list
    r.yml:15:4: error: not readable as YAML: the indentation fits nothing above: what is said here begins after 3 spaces, in line 14 after 4 spaces
     15 |    func_name: sieve
        |    ^
      help: keys that belong together begin in the same column; behind a dash that is two columns further

    ## a quote that is not closed
    r.yml:23:20: error: not readable as YAML: the quote that is opened here is not closed in this line
     23 |         threshold: "<0.02
        |                    ^
      help: write "<0.02"

    ## a single quote that is not closed
    r.yml:23:20: error: not readable as YAML: the quote that is opened here is not closed in this line
     23 |         threshold: '<0.02
        |                    ^
      help: write '<0.02'

    ## a quote that is not closed at the end
    r.yml:39:14: error: not readable as YAML: the quote that is opened here is not closed in this line
     39 | on_conflict: "queue
        |              ^
      help: write "queue"

    ## a colon in a value
    r.yml:2:13: error: not readable as YAML: there is a colon in the value
     2 | name: canary: 5 percent
       |             ^
      help: put the value in quotes: name: "canary: 5 percent"

    ## a colon without a space
    r.yml:2:5: error: not readable as YAML: a colon needs a space behind it
     2 | name:canary5percent
       |     ^
      help: write name: canary5percent

    ## no colon
    r.yml:2:1: error: not readable as YAML: there is no colon behind a key in this line
     2 | name canary5percent
       | ^
      help: write it as key: value, or put a text of several lines in quotes

    ## a dash without a space
    r.yml:30:7: error: not readable as YAML: a dash needs a space behind it
     30 |       -name: minCalls
        |       ^
      help: write - name: minCalls

    ## a value that begins with a sign
    r.yml:2:7: error: not readable as YAML: a value can't begin with "@"
     2 | name: @canary
       |       ^
      help: put the value in quotes

    ## a reference
    r.yml:2:7: error: not readable as YAML: a value that begins with * is a reference to a &name, and there is none of this name
     2 | name: *canary
       |       ^
      help: put the value in quotes

    ## an escape that is none
    r.yml:2:7: error: not readable as YAML: a backslash in double quotes begins an escape, and there is none like this
     2 | name: "c:\canary"
       |       ^
      help: write \\ for a backslash, or use single quotes

    ## a bracket too few
    r.yml:39:45: error: not readable as YAML: the [ that is opened here is closed by }
     39 | target: {area: {type: Polygon, coordinates: [[[13, 52], [14, 52], [14, 53], [13, 52]]}}
        |                                             ^
      help: a ] is missing before it, or there is one } too many

    ## a bracket too many
    r.yml:39:16: error: not readable as YAML: the { that is opened here is closed by ]
     39 | target: {area: {type: Polygon, coordinates: [[[13, 52], [14, 52], [14, 53], [13, 52]]]]}}
        |                ^
      help: a } is missing before it, or there is one ] too many

    ## a brace that is never closed
    r.yml:39:9: error: not readable as YAML: the { that is opened here is never closed
     39 | target: {area: {type: Polygon, coordinates: [[[13, 52], [14, 52], [14, 53], [13, 52]]]}
        |         ^
      help: write } where it ends
    "#);
}

#[test]
fn brackets_of_areas_that_are_too_few_or_too_many_are_counted() {
    let area = |kind: &str, coordinates: &str| {
        format!("{REFERENCE}\ntarget: {{area: {{type: {kind}, coordinates: {coordinates}}}}}\n")
    };
    let ring = "[[13, 52], [14, 52], [14, 53], [13, 52]]";
    let mut text = String::new();
    for (kind, coordinates) in [
        ("Polygon", ring.to_owned()),
        ("Polygon", format!("[[{ring}]]")),
        ("MultiPolygon", format!("[{ring}]")),
        ("MultiPolygon", format!("[[[{ring}]]]")),
    ] {
        let _ = writeln!(text, "{}\n", rendered(&area(kind, &coordinates)));
    }
    insta::assert_snapshot!(text, @r"
    r.yml:39:45: error: a pair of brackets is missing: positions make a ring, and rings a polygon
     39 | target: {area: {type: Polygon, coordinates: [[13, 52], [14, 52], [14, 53], [13, 52]]}}
        |                                             ^
      help: write [[[13.3, 52.4], [13.5, 52.4], [13.5, 52.6], [13.3, 52.4]]], and one pair more in a MultiPolygon

    r.yml:39:46: error: there is a pair of brackets too many: positions make a ring, and rings a polygon
     39 | target: {area: {type: Polygon, coordinates: [[[[13, 52], [14, 52], [14, 53], [13, 52]]]]}}
        |                                              ^
      help: take one [ and one ] away

    r.yml:39:51: error: a pair of brackets is missing: positions make a ring, and rings a polygon
     39 | target: {area: {type: MultiPolygon, coordinates: [[[13, 52], [14, 52], [14, 53], [13, 52]]]}}
        |                                                   ^
      help: write [[[13.3, 52.4], [13.5, 52.4], [13.5, 52.6], [13.3, 52.4]]], and one pair more in a MultiPolygon

    r.yml:39:52: error: there is a pair of brackets too many: positions make a ring, and rings a polygon
     39 | target: {area: {type: MultiPolygon, coordinates: [[[[[13, 52], [14, 52], [14, 53], [13, 52]]]]]}}
        |                                                    ^
      help: take one [ and one ] away
    ");
}

#[test]
fn what_is_probably_meant_otherwise_is_warned_of() {
    let judged = |provider: &str| {
        let block = format!(
            "    analysis: {{duration: 1m, interval: 1m, metrics: [{{name: load, provider: {provider}, query: up, expected: \
             {{max: 1}}}}]}}\n    end_action:"
        );
        with("    end_action:", &block)
    };
    let cases = [
        ("a runtime with a letter too few", with("      env: nodejs\nstages", "      env: nodjs\nstages")),
        ("a runtime with letters swapped", with("      env: nodejs\nstages", "      env: pyhton3\nstages")),
        (
            "no calls for the new version",
            with("Percentage: 95", "Percentage: 100").replace("Percentage: 5 ", "Percentage: 0 "),
        ),
        ("almost a provider", judged("prometeus")),
        ("almost the children", judged("childen")),
    ];
    let mut text = String::new();
    for (what, yaml) in cases {
        assert!(check(&yaml).strategy.is_some(), "{what} was refused: {}", rendered(&yaml));
        let _ = writeln!(text, "## {what}\n{}\n", rendered(&yaml));
    }
    insta::assert_snapshot!(text, @r#"
    ## a runtime with a letter too few
    r.yml:11:12: warning: no platform is known for a runtime called "nodjs"
     11 |       env: nodjs
        |            ^
      help: did you mean nodejs?

    ## a runtime with letters swapped
    r.yml:11:12: warning: no platform is known for a runtime called "pyhton3"
     11 |       env: pyhton3
        |            ^
      help: did you mean python?

    ## no calls for the new version
    r.yml:13:11: warning: the new version gets no calls in stage "Canary 5 Percent", which proves nothing of it
     13 |   - name: Canary 5 Percent
        |           ^
      help: give new_version a trafficPercentage above 0, or leave the stage out

    ## almost a provider
    r.yml:32:77: warning: a provider called "prometeus" would have to be configured
     32 |     analysis: {duration: 1m, interval: 1m, metrics: [{name: load, provider: prometeus, query: up, expected: {max: 1}}]}
        |                                                                             ^
      help: did you mean prometheus?

    ## almost the children
    r.yml:32:77: warning: a provider called "childen" would have to be configured
     32 |     analysis: {duration: 1m, interval: 1m, metrics: [{name: load, provider: childen, query: up, expected: {max: 1}}]}
        |                                                                             ^
      help: did you mean children?
    "#);
    for own in ["node18", "python3.11", "nodejs-20", "go", "tinyos", "firecracker"] {
        let yaml = with("      env: nodejs\nstages", &format!("      env: {own}\nstages"));
        assert_eq!(rendered(&yaml), "", "{own}");
    }
    assert_eq!(rendered(&judged("prom")), "");
}

#[test]
fn a_start_that_is_over_is_warned_of_where_the_time_is_known() {
    let text = format!("{REFERENCE}\nrollout: {{order: parallel, start: 2026-03-01T06:00:00Z}}\n");
    let start = 1_772_344_800_000;
    let mut checked = check(&text);
    assert_eq!(checked.strategy.as_ref().unwrap().rollout.as_ref().unwrap().start_ms, Some(start));
    checked.compare_start(start);
    assert_eq!(checked.diagnostics, []);
    checked.compare_start(start + 1);
    insta::assert_snapshot!(checked.diagnostics[0].render("r.yml"), @r"
    r.yml:39:35: warning: this instant is over: the release starts at once
     39 | rollout: {order: parallel, start: 2026-03-01T06:00:00Z}
        |                                   ^
      help: write one that is yet to come, or leave start out
    ");
    assert!(checked.strategy.is_some());
}
