//! The forms of the child protocol: both spellings, every refusal, and bodies made of anything.

use std::borrow::Cow;

use model::StageStatus;
use proptest::prelude::*;
use protocol::{
    EndStageAnswer, EndStageRequest, FollowUp, MAX_ERROR_BYTES, PollAnswer, PollRequest, ResultRequest,
    StageSummary, TimesForm,
    child::{
        MAX_CHILD_NAME_BYTES, MAX_GROUPED_STRATA, MAX_HISTOGRAM_BOUNDS, MAX_LABELS, MAX_RUNTIMES,
        MAX_STAGE_NAME_BYTES, MAX_STRATA, MAX_SUMMARIES,
    },
};
use serde_json::json;

const DEPLOYED_POLL: &str = r#"{"geographic_area":{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.4]]]},"id":"979cb6a598b3","number_of_children":0}"#;

const DEPLOYED_RESULT: &str = r#"{"id":"979cb6a598b3","release_id":"11","stage_summaries":[{"stage_name":"Canary 5 Percent","proxy_times":{"median":8.4590075,"minimum":6.76557,"maximum":10.48016},"f1_times_summary":{"median":8.381174999999999,"minimum":6.756165,"maximum":10.469223},"f2_times_summary":{"median":8.968692999999998,"minimum":7.736968,"maximum":10.404069},"f1_err_rate":0.0,"f2_err_rate":0.0,"status":2}],"next_stage":"rollback"}"#;

const OLDER_RESULT: &str = r#"{
  "id": 7, "release_id": 0,
  "stage_summaries": [{
    "ProxyTimes": {"Median": 8.24175, "Minimum": 7.03625, "Maximum": 21.592958},
    "F1TimesSummary": {"Median": 7.912958, "Minimum": 6.979334, "Maximum": 19.588959},
    "F2TimesSummary": {"Median": 8.200792, "Minimum": 7.104208, "Maximum": 21.5505},
    "F1ErrRate": 0, "F2ErrRate": 0.25,
    "status": "Completed", "next_stage": "Half"
  }]
}"#;

#[test]
fn a_poll_of_a_deployed_agent_is_read_without_copying_and_written_as_it_was() {
    let request = PollRequest::parse(DEPLOYED_POLL.as_bytes()).unwrap();
    assert!(matches!(request.id, Some(Cow::Borrowed("979cb6a598b3"))));
    assert_eq!(request.number_of_children, 0);
    assert!(request.geographic_area.unwrap().get().starts_with(r#"{"type":"Polygon""#));
    assert_eq!(serde_json::to_string(&request).unwrap(), DEPLOYED_POLL);
}

#[test]
fn a_poll_may_leave_everything_out_and_hold_anything_else() {
    for body in [
        "{}",
        r#"{"id":null,"geographic_area":null,"number_of_children":null,"x":[1,{"y":2}]}"#,
        r#"{"id":""}"#,
    ] {
        let request = PollRequest::parse(body.as_bytes()).unwrap();
        assert_eq!((request.id(), request.number_of_children), ("", 0), "{body}");
        assert!(request.geographic_area.is_none(), "{body}");
    }
}

#[test]
fn a_child_without_an_id_says_so_with_an_empty_one() {
    insta::assert_snapshot!(serde_json::to_string(&PollRequest::default()).unwrap(), @r#"{"id":"","number_of_children":0}"#);
}

#[test]
fn an_id_that_is_a_number_is_kept_as_it_was_written() {
    for (written, read) in [
        ("7", "7"),
        ("-0", "-0"),
        ("1.50", "1.50"),
        ("1e3", "1e3"),
        ("18446744073709551616", "18446744073709551616"),
    ] {
        let body = format!(r#"{{"id": {written} , "strategy_id": {written}, "stage_name": "s"}}"#);
        assert_eq!(PollRequest::parse(body.as_bytes()).unwrap().id(), read);
        assert_eq!(EndStageRequest::parse(body.as_bytes()).unwrap().strategy_id, read);
    }
}

#[test]
fn escapes_in_an_id_are_resolved() {
    let request = PollRequest::parse(br#"{"id":"a\u0062\nc"}"#).unwrap();
    assert_eq!(request.id(), "ab\nc");
}

#[test]
fn what_newer_children_add_to_a_poll_is_read() {
    let body = br#"{"id":"a","name":"north","kind":"rm","number_of_children":12,
        "capabilities":{"runtimes":["nodejs"],"labels":{"tier":"edge"}}}"#;
    let request = PollRequest::parse(body).unwrap();
    insta::assert_snapshot!(
        serde_json::to_string(&request).unwrap(),
        @r#"{"id":"a","number_of_children":12,"name":"north","kind":"rm","capabilities":{"runtimes":["nodejs"],"labels":{"tier":"edge"}}}"#
    );
}

#[test]
fn answers_are_written_as_children_read_them() {
    let answer = PollAnswer { id: "a".into(), new_release: "21.2".into(), ..PollAnswer::default() };
    insta::assert_snapshot!(serde_json::to_string(&answer).unwrap(), @r#"{"id":"a","new_release":"21.2"}"#);
    let plain = EndStageAnswer::default();
    insta::assert_snapshot!(serde_json::to_string(&plain).unwrap(), @r#"{"end_stage":false}"#);
    let back =
        EndStageAnswer { end_stage: true, then: Some(FollowUp::Rollback), ..EndStageAnswer::default() };
    insta::assert_snapshot!(serde_json::to_string(&back).unwrap(), @r#"{"end_stage":true,"then":"rollback"}"#);
    let won = EndStageAnswer {
        end_stage: true,
        skip: vec!["half".to_owned()],
        winner: Some("C".to_owned()),
        ..EndStageAnswer::default()
    };
    let written = serde_json::to_string(&won).unwrap();
    insta::assert_snapshot!(written, @r#"{"end_stage":true,"skip":["half"],"winner":"C"}"#);
    assert_eq!(serde_json::from_str::<EndStageAnswer>(&written).unwrap(), won);
    let shared =
        EndStageAnswer { shares: [("canary".to_owned(), 3_000)].into(), ..EndStageAnswer::default() };
    let written = serde_json::to_string(&shared).unwrap();
    insta::assert_snapshot!(written, @r#"{"end_stage":false,"shares":{"canary":3000}}"#);
    assert_eq!(serde_json::from_str::<EndStageAnswer>(&written).unwrap(), shared);
}

#[test]
fn a_question_for_the_end_of_a_stage_says_which_shares_were_told_if_any_were() {
    for written in [
        r#"{"id":"a","stage_name":"canary","strategy_id":"21"}"#,
        r#"{"id":"a","stage_name":"canary","strategy_id":"21","shares":{"canary":3000,"half":0}}"#,
    ] {
        let read = EndStageRequest::parse(written.as_bytes()).unwrap();
        assert_eq!(read.shares.get("canary").copied(), written.contains("3000").then_some(3_000));
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
    }
    let wrong = br#"{"id":"a","stage_name":"canary","strategy_id":"21","shares":{"canary":-1}}"#;
    assert!(
        refused(EndStageRequest::parse(wrong))
            .starts_with("the body can't be read: invalid value: integer `-1`")
    );
}

#[test]
fn a_result_of_a_deployed_agent_is_read_and_written_as_it_was() {
    let request = ResultRequest::parse(DEPLOYED_RESULT.as_bytes()).unwrap();
    assert_eq!(request.stage_summaries[0].status, StageStatus::SuccessWaiting);
    assert_eq!(request.next_stage_after(0), None);
    assert_eq!(serde_json::to_string(&request).unwrap(), DEPLOYED_RESULT);
}

#[test]
fn a_result_in_the_older_spelling_means_the_same() {
    let request = ResultRequest::parse(OLDER_RESULT.as_bytes()).unwrap();
    assert_eq!(request.next_stage_after(0), Some("Half"));
    insta::assert_snapshot!(
        serde_json::to_string(&request).unwrap(),
        @r#"{"id":"7","release_id":"0","stage_summaries":[{"proxy_times":{"median":8.24175,"minimum":7.03625,"maximum":21.592958},"f1_times_summary":{"median":7.912958,"minimum":6.979334,"maximum":19.588959},"f2_times_summary":{"median":8.200792,"minimum":7.104208,"maximum":21.5505},"f1_err_rate":0.0,"f2_err_rate":0.25,"status":4,"next_stage":"Half"}],"next_stage":""}"#
    );
}

#[test]
fn every_status_is_read_by_number_and_by_name() {
    for status in StageStatus::ALL {
        for written in [status.wire().to_string(), format!("{:?}", status.name())] {
            let body = format!(r#"{{"id":"a","release_id":"1","stage_summaries":[{{"status":{written}}}]}}"#);
            assert_eq!(ResultRequest::parse(body.as_bytes()).unwrap().stage_summaries[0].status, status);
        }
    }
}

#[test]
fn numbers_that_were_not_sent_read_as_no_call() {
    let body = br#"{"id":"a","release_id":"1","stage_summaries":[{"status":6}]}"#;
    let request = ResultRequest::parse(body).unwrap();
    assert_eq!(request.stage_summaries, [StageSummary::without_calls(StageStatus::Error)]);
}

#[test]
fn what_follows_is_taken_from_the_summary_or_for_the_last_one_from_the_call() {
    let summary = |next: Option<&str>| StageSummary {
        next_stage: next.map(Into::into),
        ..StageSummary::without_calls(StageStatus::Completed)
    };
    let mut request = ResultRequest {
        id: "a".into(),
        release_id: "1".into(),
        stage_summaries: vec![summary(None), summary(Some("b")), summary(None)],
        next_stage: Some("c".into()),
    };
    assert_eq!([0, 1, 2, 3].map(|i| request.next_stage_after(i)), [None, Some("b"), Some("c"), None]);
    for no_stage in ["", "rollout", "rollback"] {
        request.next_stage = Some(no_stage.into());
        assert_eq!(request.next_stage_after(2), None, "{no_stage}");
    }
}

fn result_with(change: impl FnOnce(&mut StageSummary)) -> String {
    let mut summary = StageSummary::without_calls(StageStatus::Completed);
    change(&mut summary);
    let request = ResultRequest {
        id: "a".into(),
        release_id: "1".into(),
        stage_summaries: vec![summary],
        next_stage: None,
    };
    match request.validate() {
        Ok(()) => "accepted".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_result_with_impossible_numbers_is_refused_by_the_name_of_its_field() {
    let mut said = String::new();
    let mut say = |text: String| said.push_str(&(text + "\n"));
    say(result_with(|_| ()));
    say(result_with(|s| s.proxy_times.median = -2.0));
    say(result_with(|s| s.f1_times.minimum = f64::NAN));
    say(result_with(|s| s.f2_times.maximum = f64::INFINITY));
    say(result_with(|s| s.f1_err_rate = -0.5));
    say(result_with(|s| s.f2_err_rate = 1.5));
    say(result_with(|s| s.f2_err_rate = f64::NAN));
    say(result_with(|s| (s.f2_calls, s.f2_errors) = (Some(3), Some(4))));
    say(result_with(|s| s.stage_name = Some("x".repeat(MAX_STAGE_NAME_BYTES + 1))));
    insta::assert_snapshot!(said, @r"
    accepted
    `stage_summaries[0].proxy_times.median` is -2: a time is in ms, at least 0, or -1 for no call
    `stage_summaries[0].f1_times_summary.minimum` is NaN: a time is in ms, at least 0, or -1 for no call
    `stage_summaries[0].f2_times_summary.maximum` is inf: a time is in ms, at least 0, or -1 for no call
    `stage_summaries[0].f1_err_rate` is -0.5: a rate is from 0 to 1
    `stage_summaries[0].f2_err_rate` is 1.5: a rate is from 0 to 1
    `stage_summaries[0].f2_err_rate` is NaN: a rate is from 0 to 1
    `stage_summaries[0].f2_errors` is 4, more than the 3 calls
    `stage_summaries[0].stage_name` has at most 256 bytes, this one has 257
    ");
}

fn refused<T>(parsed: Result<T, protocol::WireError>) -> String {
    parsed.err().map_or("accepted".into(), |error| error.to_string()) + "\n"
}

#[test]
fn a_sketch_and_strata_must_make_sense() {
    let body = |more: serde_json::Value| {
        let mut summary = json!({"status": 4});
        summary.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"id": "a", "release_id": "1", "stage_summaries": [summary]}).to_string()
    };
    let sketch = |buckets: serde_json::Value| {
        json!({"mapping": {"gamma": 1.02, "indexOffset": 0.0, "interpolation": "NONE"},
            "positiveValues": {"binCounts": buckets}, "zeroCount": 1.0})
    };
    let stratum =
        json!({"split": 50, "interval": 3, "f1_calls": 9, "f2_histogram": sketch(json!({"-5": 2, "7": 1}))});
    let with = |key: &str, value: serde_json::Value| {
        let mut stratum = stratum.clone();
        stratum[key] = value;
        body(json!({"strata": [stratum]}))
    };
    let cubic = json!({"mapping": {"gamma": 1.02, "interpolation": "CUBIC"}});
    let negative = json!({"mapping": {"gamma": 1.02}, "negativeValues": {"binCounts": {"1": 1}}});
    let most = 1_u64 << 48;
    let said: String = [
        body(json!({"f1_histogram": sketch(json!({"3": 4})), "strata": [stratum, {}]})),
        with("f2_histogram", json!({"bounds_ms": [1.0], "counts": [3, 4]})),
        with("split", json!(101)),
        with("f2_values", json!({"exact": [[15, 3], [-1, 2]]})),
        with("interval", json!(-1)),
        with("f1_errors", json!(10)),
        with("f2_histogram", sketch(json!({"1": most, "2": 1}))),
        with("f2_histogram", sketch(json!({"1": 0.5}))),
        with("f2_histogram", negative),
        with("f2_histogram", cubic),
        with("f2_histogram", json!({"counts": [1]})),
        body(json!({"strata": vec![stratum.clone(); MAX_STRATA + 1]})),
    ]
    .iter()
    .map(|body| refused(ResultRequest::parse(body.as_bytes())))
    .collect();
    insta::assert_snapshot!(said, @r#"
    accepted
    accepted
    `stage_summaries[0].strata[0].split` is 101: a percentage is from 0 to 100
    the body can't be read: -1 ms is no time that is counted: 0, or from 0.0005 to 2000000000 at line 1 column 264
    the body can't be read: invalid value: integer `-1`, expected a whole number from 0 to 4294967295 at line 1 column 240
    `stage_summaries[0].strata[0].f1_errors` is 10, more than the 9 calls
    the counts of `stage_summaries[0].strata[0].f2_histogram` add up to too much
    the body can't be read: a count of 0.5 is no whole number from 0 to 2^53 at line 1 column 221
    `stage_summaries[0].strata[0].f2_histogram` counts negative times
    the body can't be read: interpolation "CUBIC" isn't supported: only NONE, the logarithmic mapping, merges here at line 1 column 147
    the body can't be read: missing field `bounds_ms` at line 1 column 111
    `stage_summaries[0].strata` holds at most 64 entries without a group, this one has 65
    "#);
    // What is written is read as the same.
    let request = body(json!({"strata": [stratum]}));
    let request = ResultRequest::parse(request.as_bytes()).unwrap();
    let written = serde_json::to_vec(&request).unwrap();
    assert_eq!(ResultRequest::parse(&written).unwrap().stage_summaries, request.stage_summaries);
}

/// As JSON itself sees it: 3.0 is 3.
#[test]
fn whole_numbers_may_be_written_with_a_point() {
    let body = |count: &str| {
        let side = format!(r#""f1_calls":{count},"f1_errors":0.0"#);
        let histogram = format!(r#""f1_histogram":{{"bounds_ms":[1],"counts":[{count},0]}}"#);
        let strata = format!(r#"[{{{side},"interval":2.0,"split":5.0}}]"#);
        let summary = format!(r#"{{"status":4,{side},{histogram},"participants":2.0,"strata":{strata}}}"#);
        format!(r#"{{"id":"a","release_id":"1","stage_summaries":[{summary}]}}"#)
    };
    let (plain, pointed) = (body("7"), body("7.0"));
    assert_eq!(ResultRequest::parse(plain.as_bytes()), ResultRequest::parse(pointed.as_bytes()));
    for wrong in ["7.5", "-1", "-1.0", "1e300", "\"7\""] {
        let refused = refused(ResultRequest::parse(body(wrong).as_bytes()));
        assert!(refused.contains("a whole number from 0 to 18446744073709551615"), "{wrong}: {refused}");
    }
}

#[test]
fn groups_of_users_must_make_sense() {
    let body = |assignment: &str, strata: serde_json::Value| {
        let summary = json!({"status": 4, "assignment": assignment, "strata": strata});
        json!({"id": "a", "release_id": "1", "stage_summaries": [summary]}).to_string()
    };
    let said: String = [
        body("user", json!([{"group": 0, "f1_calls": 9}, {"group": 63}])),
        // Where there is a group it goes without saying, and a stratum says otherwise than the summary.
        body("call", json!([{"group": 7}, {"assignment": "child"}])),
        body("session", json!([])),
        body("user", json!([{"group": 64}])),
        body("user", json!([{"group": -1}])),
        body("user", json!([{"group": 7, "assignment": "call"}])),
        body("user", json!([{"group": 7, "interval": 2}])),
        body("user", json!(vec![json!({"group": 7}); MAX_GROUPED_STRATA])),
        body("user", json!(vec![json!({"group": 7}); MAX_GROUPED_STRATA + 1])),
        body("user", json!(vec![json!({"split": 7}); MAX_STRATA + 1])),
    ]
    .iter()
    .map(|body| refused(ResultRequest::parse(body.as_bytes())))
    .collect();
    insta::assert_snapshot!(said, @r"
    accepted
    accepted
    the body can't be read: unknown variant `session`, expected one of `call`, `user`, `child` at line 1 column 69
    `stage_summaries[0].strata[0].group` is 64: groups of users are numbered from 0 to 63
    the body can't be read: invalid value: integer `-1`, expected a whole number from 0 to 255 at line 1 column 99
    `stage_summaries[0].strata[0].group` is 7, and `assignment` is call: a group is one of users all of whose calls go to one version, so it is user or child
    `stage_summaries[0].strata[0].interval` is 2: a group counts over the whole stage, so it is 0 or left out
    accepted
    `stage_summaries[0].strata` holds at most 256 entries of groups, this one has 257
    `stage_summaries[0].strata` holds at most 64 entries without a group, this one has 65
    ");
    // What is written is read as the same; what nobody said is not written.
    let request = body("child", json!([{"group": 7, "assignment": "user", "f1_calls": 9}]));
    let request = ResultRequest::parse(request.as_bytes()).unwrap();
    let written = serde_json::to_vec(&request).unwrap();
    assert_eq!(ResultRequest::parse(&written).unwrap().stage_summaries, request.stage_summaries);
    let plain = serde_json::to_string(&StageSummary::without_calls(StageStatus::Completed)).unwrap();
    assert!(!plain.contains("assignment"), "{plain}");
}

#[test]
fn a_histogram_must_make_sense() {
    let body = |bounds: serde_json::Value, counts: serde_json::Value| {
        json!({"id": "a", "release_id": "1", "stage_summaries":
            [{"status": 4, "f2_histogram": {"bounds_ms": bounds, "counts": counts}}]})
        .to_string()
    };
    let said: String = [
        body(json!([1.0, 2.0]), json!([3, 4, 5])),
        body(json!([]), json!([3])),
        body(json!([2.0, 1.0]), json!([3, 4, 5])),
        body(json!([-1.0, 1.0]), json!([3, 4, 5])),
        body(json!([1.0, 2.0]), json!([3, 4])),
        body(json!([1.0]), json!([u64::MAX, 1])),
        body(json!(vec![1.0; MAX_HISTOGRAM_BOUNDS + 1]), json!([])),
    ]
    .iter()
    .map(|body| refused(ResultRequest::parse(body.as_bytes())))
    .collect();
    insta::assert_snapshot!(said, @r"
    accepted
    accepted
    `stage_summaries[0].f2_histogram.bounds_ms` must ascend from 0 or above, in ms
    `stage_summaries[0].f2_histogram.bounds_ms` must ascend from 0 or above, in ms
    `stage_summaries[0].f2_histogram.counts` has 2 entries for 2 bounds: it takes one more than these
    `stage_summaries[0].f2_histogram.counts` add up to too much
    `stage_summaries[0].f2_histogram.bounds_ms` holds at most 512 entries, this one has 513
    ");
}

#[test]
fn malformed_results_are_refused_in_one_line() {
    let too_many = json!({"id": "a", "release_id": "1", "stage_summaries": vec![json!({"status": 4}); MAX_SUMMARIES + 1]});
    let said: String = [
        "",
        "[]",
        r#"{"id":"a","release_id":"1","stage_summaries":[]}"#,
        &too_many.to_string(),
        r#"{"id":"a","release_id":"1"}"#,
        r#"{"release_id":"1","stage_summaries":[{"status":4}]}"#,
        r#"{"id":null,"release_id":"1","stage_summaries":[{"status":4}]}"#,
        r#"{"id":"a","release_id":[1],"stage_summaries":[{"status":4}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{"status":7}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{"status":-1}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{"status":"Don\ne"}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{"status":4,"f2_err_rate":"0"}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{"status":4,"f2_err_rate":1e999}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{"status":4,"f2_calls":-1}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{"status":4,"proxy_times":{"median":1}}]}"#,
        r#"{"id":"a","release_id":"1","stage_summaries":[{"status":4}]} {}"#,
    ]
    .iter()
    .map(|body| refused(ResultRequest::parse(body.as_bytes())))
    .collect();
    insta::assert_snapshot!(said, @r#"
    the body must be a JSON object
    the body must be a JSON object
    `stage_summaries` must hold at least one summary
    `stage_summaries` holds at most 64 entries, this one has 65
    the body can't be read: missing field `stage_summaries` at line 1 column 27
    the body can't be read: missing field `id` at line 1 column 51
    the body can't be read: `id` must not be null at line 1 column 10
    the body can't be read: `release_id` must be a string or a number at line 1 column 26
    the body can't be read: missing field `status` at line 1 column 48
    the body can't be read: invalid value: integer `7`, expected `status` as a number from 0 to 6 or a name from `Pending` to `Error` at line 1 column 57
    the body can't be read: invalid type: integer `-1`, expected `status` as a number from 0 to 6 or a name from `Pending` to `Error` at line 1 column 58
    the body can't be read: invalid value: string "Don\ne", expected `status` as a number from 0 to 6 or a name from `Pending` to `Error` at line 1 column 64
    the body can't be read: invalid type: string "0", expected f64 at line 1 column 75
    the body can't be read: number out of range at line 1 column 77
    the body can't be read: invalid value: integer `-1`, expected a whole number from 0 to 18446744073709551615 at line 1 column 71
    the body can't be read: missing field `minimum` at line 1 column 84
    the body can't be read: trailing characters at line 1 column 62
    "#);
}

#[test]
fn malformed_polls_are_refused_in_one_line() {
    let long_name = json!({"name": "x".repeat(MAX_CHILD_NAME_BYTES + 1)}).to_string();
    let runtimes = json!({"capabilities": {"runtimes": vec!["a"; MAX_RUNTIMES + 1]}}).to_string();
    let labels: serde_json::Map<_, _> = (0..=MAX_LABELS).map(|i| (i.to_string(), json!("x"))).collect();
    let labels = json!({"capabilities": {"labels": labels}}).to_string();
    let said: String = [
        "{",
        "[]",
        r#"{"number_of_children":-1}"#,
        r#"{"number_of_children":NaN}"#,
        r#"{"number_of_children":1.5}"#,
        r#"{"number_of_children":"1"}"#,
        r#"{"number_of_children":4294967296}"#,
        r#"{"id":true}"#,
        r#"{"id":"\ud800"}"#,
        r#"{"id":"a","id":"b"}"#,
        r#"{"kind":"queen"}"#,
        r#"{"capabilities":{"runtimes":"nodejs"}}"#,
        &long_name,
        &runtimes,
        &labels,
    ]
    .iter()
    .map(|body| refused(PollRequest::parse(body.as_bytes())))
    .collect();
    insta::assert_snapshot!(said, @r#"
    the body can't be read: EOF while parsing an object at line 1 column 1
    the body must be a JSON object
    the body can't be read: invalid value: integer `-1`, expected `number_of_children` as a whole number from 0 to 4294967295 at line 1 column 24
    the body can't be read: expected value at line 1 column 23
    the body can't be read: invalid value: floating point `1.5`, expected `number_of_children` as a whole number from 0 to 4294967295 at line 1 column 25
    the body can't be read: invalid type: string "1", expected `number_of_children` as a whole number from 0 to 4294967295 at line 1 column 25
    the body can't be read: invalid value: integer `4294967296`, expected `number_of_children` as a whole number from 0 to 4294967295 at line 1 column 32
    the body can't be read: `id` must be a string or a number at line 1 column 11
    the body can't be read: `id` has a broken escape at line 1 column 15
    the body can't be read: duplicate field `id` at line 1 column 14
    the body can't be read: unknown variant `queen`, expected `agent` or `rm` at line 1 column 15
    the body can't be read: invalid type: string "nodejs", expected a sequence at line 1 column 36
    `name` has at most 128 bytes, this one has 129
    `capabilities.runtimes` holds at most 64 entries, this one has 65
    `capabilities.labels` holds at most 64 entries, this one has 65
    "#);
}

#[test]
fn malformed_questions_for_the_end_of_a_stage_are_refused_in_one_line() {
    let said: String = [
        r#"{"id":"a","strategy_id":21,"stage_name":"s"}"#,
        r#"{"id":"a","strategy_id":21}"#,
        r#"{"id":"a","stage_name":"s"}"#,
        r#"{"strategy_id":21,"stage_name":"s"}"#,
        r#"{"id":"a","strategy_id":{},"stage_name":"s"}"#,
        r#"{"id":"a","strategy_id":21,"stage_name":7}"#,
    ]
    .iter()
    .map(|body| refused(EndStageRequest::parse(body.as_bytes())))
    .collect();
    insta::assert_snapshot!(said, @r#"
    accepted
    the body can't be read: missing field `stage_name` at line 1 column 27
    the body can't be read: missing field `strategy_id` at line 1 column 27
    the body can't be read: missing field `id` at line 1 column 35
    the body can't be read: `strategy_id` must be a string or a number at line 1 column 26
    the body can't be read: invalid type: integer `7`, expected a string at line 1 column 41
    "#);
}

#[test]
fn a_refusal_is_one_bounded_line_whatever_it_quotes() {
    let body = format!(r#"{{"kind":"a\nb\r\u2028{}"}}"#, "é".repeat(MAX_ERROR_BYTES));
    let text = refused(PollRequest::parse(body.as_bytes()));
    let line = text.strip_suffix('\n').unwrap();
    assert!(
        line.len() <= MAX_ERROR_BYTES && line.lines().count() == 1 && !line.contains('\u{2028}'),
        "{line:?}"
    );
}

fn check_all(body: &[u8]) -> Result<(), TestCaseError> {
    let refusals = [
        PollRequest::parse(body).err(),
        ResultRequest::parse(body).err(),
        EndStageRequest::parse(body).err(),
    ];
    for refusal in refusals.into_iter().flatten() {
        let text = refusal.to_string();
        prop_assert!(text.len() <= MAX_ERROR_BYTES && !text.contains(['\n', '\r']), "{text:?}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        check_all(&body)?;
    }

    #[test]
    fn a_body_with_bytes_changed_is_read_or_refused(
        which in 0usize..3,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut body = [DEPLOYED_POLL, DEPLOYED_RESULT, OLDER_RESULT][which].as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        check_all(&body)?;
        body.truncate(cut.index(body.len()));
        check_all(&body)?;
    }

    #[test]
    fn a_result_that_was_written_reads_the_same(
        id in "[a-z\\\\\"\n]{0,8}", name in proptest::option::of("\\PC{0,12}"), times in proptest::array::uniform3(0u32..1_000_000),
        rate in 0.0f64..=1.0, status in 0u64..7, calls in proptest::option::of(any::<u64>()),
    ) {
        let [median, minimum, maximum] = times.map(|t| f64::from(t) / 8.0);
        let request = ResultRequest {
            id: id.into(),
            release_id: "1".into(),
            stage_summaries: vec![StageSummary {
                stage_name: name,
                f2_times: TimesForm { median, minimum, maximum },
                f2_err_rate: (rate * 1024.0).round() / 1024.0,
                f2_calls: calls,
                ..StageSummary::without_calls(StageStatus::from_wire(status).unwrap())
            }],
            next_stage: Some("x".into()),
        };
        let written = serde_json::to_vec(&request).unwrap();
        prop_assert_eq!(ResultRequest::parse(&written).unwrap(), request);
    }
}
