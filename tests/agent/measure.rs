//! From the proxy's counts to what the manager is told of a stage.

#![allow(clippy::float_cmp, reason = "what travels is the same to the last bit")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agent::measure::{BASE, MAX_PARTS, NEW, Reads, StageCounts};
use call_metrics::{
    CallMetrics, Cursor, Interval, Key, Moment, Reading, Retention, Row, Tally, Timeline, Times,
};
use language::{Stage, offer};
use model::StageStatus;
use proptest::prelude::*;
use protocol::{ResultRequest, StageSummary, StratumForm, child::MAX_STRATA};
use tokio::time::Instant;

const ALL: Reads = Reads { values: true, groups: true };

pub fn stage(conditions: &str) -> Stage {
    let text = format!(
        "id: 1\nname: n\nfunctions:\n  - name: f\n    base_version: {{path: a, env: nodejs}}\n    new_version: {{path: b, env: \
         nodejs}}\nstages:\n  - name: Canary\n    type: WaitForSignal\n    func_name: f\n    variants:\n      - {{name: base_version, \
         trafficPercentage: 90}}\n      - {{name: new_version, trafficPercentage: 10}}\n    metrics_conditions: {conditions}\n    \
         end_conditions:\n      - {{name: minDuration, threshold: 10s}}\n      - {{name: minCalls, threshold: 20}}\n    end_action: \
         {{onSuccess: rollout}}\n"
    );
    offer::read(&text).unwrap().stages.remove(0).stage
}

fn key(variation: &str) -> Arc<Key> {
    key_of(variation, 1_000)
}

/// Of calls of which the new version was to get so many, in units of 0.01 %.
fn key_of(variation: &str, new: u16) -> Arc<Key> {
    Arc::new(Key {
        service: "f".to_owned(),
        split: "11/Canary".to_owned(),
        shares: Arc::from([10_000 - new, new]),
        variation: variation.to_owned(),
        version: variation.to_owned(),
        by_header: false,
    })
}

fn row(variation: &str, tally: Tally) -> Row {
    Row { key: key(variation), tally }
}

/// So many calls that succeeded, one after the other a microsecond longer, and so many errors.
pub fn tally(succeeded: u64, errors: u64) -> Tally {
    Tally {
        calls: succeeded + errors,
        succeeded,
        errors,
        times: Times::of((0..succeeded as u32).map(|us| 1_000 + us).collect()),
        ..Tally::default()
    }
}

fn interval(from: u64, to: u64, rows: Vec<Row>) -> Interval {
    Interval { from, to, began_ms: from as i64 * 10_000, seconds: 10, rows }
}

fn reading(life: u64, closed: Vec<Interval>, open: Vec<Interval>, next: u64) -> Reading {
    let closed = closed.into_iter().map(Arc::new).collect();
    Reading {
        closed,
        open,
        next: Cursor { life, interval: next },
        gone: 0,
        cut_short: 0,
        in_flight: Vec::new(),
    }
}

fn counts() -> StageCounts {
    StageCounts::new("f", "11/Canary")
}

fn calls(counts: &StageCounts) -> [u64; 2] {
    [counts.base().calls, counts.new_version().calls]
}

fn none(_: &Interval) -> Option<u32> {
    None
}

/// As if the manager's time were the proxy's.
#[allow(clippy::unnecessary_wraps, reason = "whoever asks allows for a time that isn't known")]
fn same(interval: &Interval) -> Option<u32> {
    Some(interval.from as u32 + 1)
}

fn told(summary: &StageSummary) -> StageSummary {
    let body = serde_json::json!({"id": "c", "release_id": "11", "stage_summaries": [summary]}).to_string();
    ResultRequest::parse(body.as_bytes()).unwrap().stage_summaries.remove(0)
}

#[test]
fn what_a_version_had_to_answer_counts_and_how_it_failed_does_not_matter() {
    let mut new = tally(3, 2);
    new.client_errors = 4;
    new.client_error_times = Times::of(vec![10, 20, 30, 40]);
    new.failed = [1, 2, 3, 4, 5];
    new.repeated = 15;
    new.repeats_failed = 1;
    new.broken_off = 6;
    (new.passed_over, new.callers_gone, new.bad_bodies, new.upgraded, new.cut) = (7, 8, 9, 10, 11);
    new.calls = 3 + 2 + 4 + 15 + 6 + 7 + 8 + 9 + 10 + 11;
    let by_header =
        Row { key: Arc::new(Key { by_header: true, ..(*key(NEW)).clone() }), tally: tally(50, 0) };
    let other_split = Key { split: "10/Canary".to_owned(), ..(*key(NEW)).clone() };
    let other_service = Key { service: "g".to_owned(), ..(*key(NEW)).clone() };
    let rows = vec![
        row(BASE, tally(80, 1)),
        row(NEW, new),
        by_header,
        Row { key: Arc::new(other_split), tally: tally(50, 0) },
        Row { key: Arc::new(other_service), tally: tally(50, 0) },
        row("shadow", tally(50, 0)),
    ];
    let mut counts = counts();
    counts.take(&reading(1, vec![interval(0, 1, rows)], vec![], 1), none);
    assert_eq!(calls(&counts), [81, 30]);
    let side = counts.new_version();
    assert_eq!((side.errors, side.repeated, side.passed_over, side.times.count()), (23, 15, 7, 7));
    assert_eq!(counts.base().errors, 1);
    let summary = counts.summary(&stage("[]"), StageStatus::Completed, ALL);
    assert_eq!((summary.f1_calls, summary.f1_errors), (Some(81), Some(1)));
    assert_eq!((summary.f2_calls, summary.f2_errors), (Some(30), Some(23)));
    assert_eq!(summary.f2_times.minimum, 0.01);
    assert_eq!(summary.f2_times.maximum, 1.002);
    assert_eq!(summary.f2_values.unwrap().count(), 7);
    assert!(summary.strata.is_empty(), "nobody told the manager's time");
}

#[test]
fn an_interval_that_went_on_is_counted_once_when_it_is_closed() {
    let mut counts = counts();
    let open = |n: u64| interval(3, 4, vec![row(NEW, tally(n, 0))]);
    counts.take(&reading(1, vec![], vec![open(5)], 3), same);
    assert_eq!(calls(&counts), [0, 5]);
    counts.take(&reading(1, vec![], vec![open(8)], 3), same);
    assert_eq!(calls(&counts), [0, 8]);
    let closing = reading(1, vec![open(9)], vec![interval(4, 5, vec![row(NEW, tally(2, 1))])], 4);
    counts.take(&closing, same);
    assert_eq!(calls(&counts), [0, 12]);
    // The same once more, as after a restart that had kept less.
    counts.take(&closing, same);
    assert_eq!(calls(&counts), [0, 12]);
}

#[test]
fn what_went_on_in_a_life_of_the_proxy_that_is_over_stays() {
    let mut counts = counts();
    counts.take(&reading(1, vec![], vec![interval(7, 8, vec![row(NEW, tally(5, 0))])], 7), same);
    counts.take(&reading(2, vec![interval(0, 1, vec![row(NEW, tally(3, 0))])], vec![], 1), same);
    assert_eq!(calls(&counts), [0, 8]);
    counts.take(&reading(2, vec![interval(1, 2, vec![row(NEW, tally(1, 0))])], vec![], 2), same);
    assert_eq!(calls(&counts), [0, 9]);
}

#[test]
fn merged_intervals_are_counted_once_or_as_lost() {
    let mut counts = counts();
    counts.take(&reading(1, vec![interval(0, 1, vec![row(NEW, tally(5, 0))])], vec![], 1), same);
    counts.take(&reading(1, vec![interval(1, 9, vec![row(NEW, tally(70, 0))])], vec![], 9), same);
    assert_eq!((calls(&counts), counts.gone()), ([0, 75], 0));
    // Whoever read less had these put together with some that are counted already.
    counts.take(&reading(1, vec![interval(5, 20, vec![row(NEW, tally(40, 0))])], vec![], 20), same);
    assert_eq!((calls(&counts), counts.gone()), ([0, 75], 40));
}

#[test]
fn calls_dropped_by_proxy_during_stage_are_reported() {
    let mut counts = counts();
    let with = |life, gone| Reading { gone, ..reading(life, vec![], vec![], 0) };
    counts.take(&with(1, 100), none);
    assert_eq!(counts.gone(), 0, "they were gone before it began");
    counts.take(&with(1, 130), none);
    counts.take(&with(2, 5), none);
    assert_eq!(counts.gone(), 35);
}

#[test]
fn an_interval_keeps_the_number_that_it_was_given_first() {
    let mut counts = counts();
    let open = |n: u64| interval(3, 4, vec![row(NEW, tally(n, 0)), row(BASE, tally(9, 0))]);
    counts.take(&reading(1, vec![], vec![open(5)], 3), |_| Some(70));
    counts.take(&reading(1, vec![open(6)], vec![], 4), |_| Some(71));
    let later = interval(4, 5, vec![row(NEW, tally(2, 0))]);
    counts.take(&reading(1, vec![later], vec![], 5), |_| Some(71));
    let summary = counts.summary(&stage("[]"), StageStatus::InProgress, ALL);
    let parts: Vec<_> = summary.strata.iter().map(|of| (of.interval, of.f1_calls, of.f2_calls)).collect();
    assert_eq!(parts, [(70, Some(9), Some(6)), (71, Some(0), Some(2))]);
    assert_eq!(told(&summary), summary);
}

#[test]
fn report_overflow_is_counted_in_its_last_part() {
    let mut counts = counts();
    for at in 0..200 {
        let one = interval(at, at + 1, vec![row(NEW, tally(2, 1)), row(BASE, tally(10, 0))]);
        counts.take(&reading(1, vec![one], vec![], at + 1), same);
    }
    let summary = counts.summary(&stage("[]"), StageStatus::InProgress, ALL);
    assert_eq!(summary.strata.len(), MAX_PARTS);
    assert_eq!(summary.strata[0].f2_calls, Some(3));
    assert_eq!(summary.strata.iter().filter_map(|of| of.f2_calls).sum::<u64>(), 600);
    assert_eq!(told(&summary), summary);
}

/// Calls of four users of two groups.
fn grouped(calls: [u64; 2], failures: [u64; 2]) -> Tally {
    let mut groups =
        call_metrics::Groups { times: vec![Times::default(); 64], ..call_metrics::Groups::default() };
    for (at, group) in [3_usize, 60].into_iter().enumerate() {
        groups.calls[group] = calls[at];
        groups.failures[group] = failures[at];
        groups.times[group] = Times::of(vec![1_000 + at as u32; (calls[at] - failures[at]) as usize]);
    }
    let (failed, all) = (failures.iter().sum::<u64>(), calls.iter().sum::<u64>());
    let mut times = Times::default();
    groups.times.iter().for_each(|of| times.merge(of));
    Tally {
        calls: all,
        succeeded: all - failed,
        errors: failed,
        times,
        groups: Some(Box::new(groups)),
        ..Tally::default()
    }
}

#[test]
fn sticky_calls_are_reported_by_user_group_over_whole_stage() {
    let mut counts = counts();
    for at in 0..3 {
        let rows = vec![row(BASE, grouped([5, 4], [1, 0])), row(NEW, grouped([2, 0], [1, 0]))];
        counts.take(&reading(1, vec![interval(at, at + 1, rows)], vec![], at + 1), same);
    }
    let summary = counts.summary(&stage("[]"), StageStatus::Completed, ALL);
    assert_eq!(summary.assignment, Some(analysis::Assignment::User));
    let parts: Vec<_> = summary
        .strata
        .iter()
        .map(|of| (of.group, of.interval, of.f1_calls, of.f1_errors, of.f2_calls, of.f2_errors))
        .collect();
    let n = Some::<u64>;
    assert_eq!(parts, [(Some(3), 0, n(15), n(3), n(6), n(3)), (Some(60), 0, n(12), n(0), n(0), n(0))]);
    assert_eq!(summary.strata[0].f2_values.as_ref().unwrap().count(), 3);
    assert!(summary.strata[1].f2_values.is_none());
    assert_eq!(told(&summary), summary);
    // A manager that knows nothing of groups would compare their calls as independent ones.
    let plain = counts.summary(&stage("[]"), StageStatus::Completed, Reads { values: true, groups: false });
    assert!(plain.strata.is_empty() && plain.f1_values.is_none() && plain.f1_errors.is_none());
    assert_eq!((plain.f1_calls, plain.f2_calls, plain.f2_errors), (n(27), n(6), n(3)));
}

#[test]
fn conditions_are_held_against_the_new_version_alone() {
    let mut counts = counts();
    let rows = vec![row(BASE, tally(10, 90)), row(NEW, tally(99, 1))];
    counts.take(&reading(1, vec![interval(0, 1, rows)], vec![], 1), none);
    for (conditions, holds) in [
        ("[]", true),
        ("[{name: errorRate, threshold: '<=0.01'}]", true),
        ("[{name: errorRate, threshold: '<0.01'}]", false),
        ("[{name: responseTime, threshold: '<=1.049'}]", true),
        ("[{name: responseTime, threshold: '<1.049'}]", false),
        ("[{name: responseTime, threshold: '<=1.098', compareWith: Maximum}]", true),
        ("[{name: responseTime, threshold: '<1.098', compareWith: Maximum}]", false),
        ("[{name: responseTime, threshold: '>=1', compareWith: Minimum}]", true),
        ("[{name: responseTime, threshold: '>1', compareWith: Minimum}]", false),
        ("[{name: responseTime, threshold: '<=1.094', compareWith: P95}]", true),
        ("[{name: responseTime, threshold: '<1.094', compareWith: P95}]", false),
    ] {
        assert_eq!(counts.conditions_hold(&stage(conditions)), holds, "{conditions}");
    }
    assert!(counts.is_met(&stage("[]"), Duration::from_secs(10)));
    assert!(!counts.is_met(&stage("[]"), Duration::from_secs(9)));
}

#[test]
fn a_version_without_an_answer_keeps_no_condition() {
    let mut counts = counts();
    let slow = stage("[{name: responseTime, threshold: '<=250'}]");
    assert!(!counts.is_tested(&slow) && !counts.conditions_hold(&slow));
    assert!(!counts.is_met(&slow, Duration::from_secs(100)));
    counts.take(&reading(1, vec![interval(0, 1, vec![row(NEW, tally(0, 30))])], vec![], 1), none);
    assert!(counts.is_tested(&slow) && !counts.conditions_hold(&slow), "no call had a time");
    let summary = counts.summary(&slow, StageStatus::Failure, ALL);
    assert_eq!((summary.f2_times.median, summary.f2_err_rate), (-1.0, 1.0));
    let none = Stage { new_traffic: 0, conditions: Vec::new(), ..slow };
    assert!(StageCounts::new("f", "s").conditions_hold(&none));
}

#[test]
fn a_broken_condition_is_told_with_what_was_measured_and_what_is_allowed() {
    let mut counts = counts();
    let rows = vec![row(BASE, tally(95, 5)), row(NEW, tally(6, 2))];
    counts.take(&reading(1, vec![interval(0, 1, rows)], vec![], 1), none);
    let broken = |conditions: &str| counts.broken_condition(&stage(conditions));
    insta::assert_snapshot!(
        broken("[{name: errorRate, threshold: \"<0.02\"}]").unwrap(),
        @"errorRate 25 % (2 of 8 calls), allowed <2 %; base version 5 % (5 of 100 calls)"
    );
    insta::assert_snapshot!(
        broken("[{name: responseTime, compareWith: Maximum, threshold: \"<=0.5\"}]").unwrap(),
        @"responseTime Maximum 1 ms (6 calls), allowed <=0.5 ms; base version 1.09 ms (95 calls)"
    );
    assert_eq!(broken("[{name: errorRate, threshold: \"<0.3\"}]"), None);
}

#[test]
fn calls_that_all_failed_break_a_limit_of_times_in_words_too() {
    let mut counts = counts();
    counts.take(&reading(1, vec![interval(0, 1, vec![row(NEW, tally(0, 30))])], vec![], 1), none);
    let by_time = stage("[{name: responseTime, compareWith: Median, threshold: \"<250\"}]");
    assert_eq!(counts.broken_condition(&by_time).as_deref(), Some("all of its 30 calls failed"));
}

/// Times that nobody measured would keep every limit.
#[test]
fn a_limit_of_times_is_not_kept_where_nobody_measures_any() {
    let untimed = |calls| Tally { times: Times::default(), ..tally(calls, 0) };
    let mut counts = counts();
    let rows = vec![row(BASE, untimed(90)), row(NEW, untimed(10))];
    counts.take(&reading(1, vec![interval(0, 1, rows)], Vec::new(), 1), none);
    let by_time = stage("[{name: responseTime, compareWith: Median, threshold: \"<250\"}]");
    assert_eq!(counts.why_unjudged(&by_time).as_deref(), Some("nobody measures how long its calls take"));
    assert!(!counts.conditions_hold(&by_time) && !counts.is_met(&by_time, Duration::from_hours(1)));
    let by_errors = stage("[{name: errorRate, threshold: \"<0.02\"}]");
    assert!(counts.conditions_hold(&by_errors) && counts.why_unjudged(&by_errors).is_none());
}

#[test]
fn the_longest_and_the_shortest_call_are_told_exactly_however_many_there_are() {
    let mut counts = counts();
    let rows = |from: u32| {
        let times = Times::of((0..5_000).map(|us| from + us).collect());
        vec![row(NEW, Tally { calls: 5_000, succeeded: 5_000, times, ..Tally::default() })]
    };
    for at in 0..2 {
        let one = interval(at, at + 1, rows(20_000 + 100 * at as u32));
        counts.take(&reading(1, vec![one], vec![], at + 1), none);
    }
    let summary = counts.summary(&stage("[]"), StageStatus::Completed, Reads::default());
    assert_eq!((summary.f2_times.minimum, summary.f2_times.maximum), (20.0, 25.099));
    assert!((summary.f2_times.median / 22.55 - 1.0).abs() < 0.006, "{:?}", summary.f2_times);
    assert!(summary.f2_histogram.is_some() && summary.f2_values.is_none());
}

#[test]
fn it_is_the_same_after_it_was_kept() {
    let mut counts = counts();
    let rows = || vec![row(BASE, grouped([5, 4], [1, 0])), row(NEW, tally(1_500, 3))];
    counts.take(&reading(1, vec![interval(0, 1, rows())], vec![interval(1, 2, rows())], 1), same);
    let text = serde_json::to_string(&counts).unwrap();
    assert_eq!(serde_json::from_str::<StageCounts>(&text).unwrap(), counts);
}

/// Calls of both versions while the new one was to get so many, in units of 0.01 %.
fn shared(new: u16, calls: [u64; 2]) -> Vec<Row> {
    let of = |(variation, calls): (&str, u64)| Row { key: key_of(variation, new), tally: tally(calls, 0) };
    [BASE, NEW].into_iter().zip(calls).map(of).collect()
}

/// Share, interval, calls of both versions.
fn told_apart(counts: &StageCounts) -> Vec<(Option<u8>, u32, u64, u64)> {
    let summary = counts.summary(&stage("[]"), StageStatus::InProgress, ALL);
    assert_eq!(told(&summary), summary);
    let of = |of: &StratumForm| (of.split, of.interval, of.f1_calls.unwrap(), of.f2_calls.unwrap());
    summary.strata.iter().map(of).collect()
}

#[test]
fn calls_of_two_shares_are_never_told_together() {
    let mut counts = counts();
    // The share changes in the second interval.
    let second = [shared(1_000, [45, 5]), shared(3_000, [35, 15])].concat();
    let going_on = vec![interval(2, 3, shared(3_000, [70, 30]))];
    let closed = vec![interval(0, 1, shared(1_000, [90, 10])), interval(1, 2, second)];
    counts.take(&reading(1, closed, going_on, 2), same);
    let first = [(Some(10), 1, 90, 10), (Some(10), 2, 45, 5), (Some(30), 2, 35, 15), (Some(30), 3, 70, 30)];
    assert_eq!(told_apart(&counts), first);
    assert_eq!(calls(&counts), [240, 60]);

    // It goes back to what it was before, and the agent is started anew meanwhile.
    let text = serde_json::to_string(&counts).unwrap();
    let mut counts: StageCounts = serde_json::from_str(&text).unwrap();
    let third = [shared(3_000, [70, 30]), shared(1_000, [9, 1])].concat();
    counts.take(&reading(1, vec![interval(2, 3, third)], vec![], 3), same);
    let then = [first[0], first[1], (Some(10), 3, 9, 1), first[2], first[3]];
    assert_eq!(told_apart(&counts), then);
    assert_eq!(calls(&counts), [249, 61]);
    let summary = counts.summary(&stage("[]"), StageStatus::InProgress, ALL);
    let timed = summary.strata.iter().map(|of| of.f2_values.as_ref().unwrap().count());
    assert_eq!(timed.collect::<Vec<_>>(), [10, 5, 1, 15, 30]);
}

/// The rows of an interval are in the order of their shares, and not in that in which these came.
#[test]
fn a_share_that_was_told_stays_before_one_that_comes_in_the_same_interval() {
    let mut counts = counts();
    counts.take(&reading(1, vec![], vec![interval(0, 1, shared(1_000, [9, 1]))], 0), same);
    assert_eq!(told_apart(&counts), [(Some(10), 1, 9, 1)]);
    let both = || interval(0, 1, [shared(3_000, [7, 3]), shared(1_000, [18, 2])].concat());
    let in_turn = [(Some(10), 1, 18, 2), (Some(30), 1, 7, 3)];
    counts.take(&reading(1, vec![], vec![both()], 0), same);
    assert_eq!(told_apart(&counts), in_turn, "while it goes on");
    counts.take(&reading(1, vec![both()], vec![], 1), same);
    assert_eq!(told_apart(&counts), in_turn, "once it is closed");
}

#[test]
fn where_nobody_told_the_time_the_shares_are_told_apart_once_there_are_two() {
    let mut counts = counts();
    counts.take(&reading(1, vec![interval(0, 1, shared(1_000, [90, 10]))], vec![], 1), none);
    assert!(told_apart(&counts).is_empty(), "one share needs no cut");
    counts.take(&reading(1, vec![interval(1, 2, shared(3_000, [70, 30]))], vec![], 2), none);
    assert_eq!(told_apart(&counts), [(Some(10), 0, 90, 10), (Some(30), 0, 70, 30)]);
}

#[test]
fn a_share_that_is_no_percentage_is_the_one_that_the_stage_orders() {
    let mut counts = counts();
    let rows = [shared(25, [90, 10]), shared(10_000, [0, 7]), shared(0, [8, 0])].concat();
    counts.take(&reading(1, vec![interval(0, 1, rows)], vec![], 1), same);
    assert_eq!(told_apart(&counts), [(None, 1, 90, 10), (Some(100), 1, 0, 7), (Some(0), 1, 8, 0)]);
}

#[test]
fn a_share_that_comes_when_a_report_is_full_has_a_part_of_its_own() {
    let mut counts = counts();
    let take = |counts: &mut StageCounts, at: u64, rows| {
        counts.take(&reading(1, vec![interval(at, at + 1, rows)], vec![], at + 1), same);
    };
    for at in 0..60 {
        take(&mut counts, at, shared(1_000, [9, 1]));
    }
    let mut before = told_apart(&counts);
    assert_eq!(before.len(), MAX_PARTS);
    for (at, percent) in (60..).step_by(3).zip(30..60) {
        take(&mut counts, at, shared(100 * percent, [3, 2]));
        take(&mut counts, at + 1, shared(1_000, [9, 1]));
        take(&mut counts, at + 2, shared(100 * percent, [3, 2]));
        let after = told_apart(&counts);
        assert!(after.len() >= before.len() && after.len() <= MAX_STRATA, "{}", after.len());
        for (was, is) in before.iter().zip(&after) {
            assert_eq!((was.0, was.1), (is.0, is.1));
            assert!(was.2 <= is.2 && was.3 <= is.3, "{was:?} and then {is:?}");
        }
        before = after;
    }
    assert_eq!(before.len(), MAX_STRATA);
    assert_eq!(before[MAX_PARTS], (Some(30), 61, 6, 4));
    assert_eq!(calls(&counts), [60 * 9 + 30 * 15, 60 + 30 * 5]);
    let summary = counts.summary(&stage("[]"), StageStatus::InProgress, ALL);
    let is_timed = |of: &StratumForm| of.f2_values.is_some();
    assert!(
        summary.strata[..MAX_PARTS].iter().all(is_timed) && !summary.strata[MAX_PARTS..].iter().any(is_timed)
    );
}

#[test]
fn groups_of_users_are_told_by_share_of_as_many_shares_as_a_report_has_room_for() {
    let mut counts = counts();
    let take = |counts: &mut StageCounts, at: u64, new: u16| {
        let row = |variation, tally| Row { key: key_of(variation, new), tally };
        let rows = vec![row(BASE, grouped([5, 4], [1, 0])), row(NEW, grouped([2, 1], [1, 0]))];
        counts.take(&reading(1, vec![interval(at, at + 1, rows)], vec![], at + 1), same);
        let summary = counts.summary(&stage("[]"), StageStatus::InProgress, ALL);
        assert_eq!(told(&summary), summary);
        assert_eq!(summary.assignment, Some(analysis::Assignment::User));
        let of = |of: &StratumForm| (of.split, of.group.unwrap(), of.f1_calls.unwrap(), of.f2_calls.unwrap());
        summary.strata.iter().map(of).collect::<Vec<_>>()
    };
    let ten = [(Some(10), 3, 5, 2), (Some(10), 60, 4, 1)];
    assert_eq!(take(&mut counts, 0, 1_000), ten);
    let thirty = [(Some(30), 3, 5, 2), (Some(30), 60, 4, 1)];
    assert_eq!(take(&mut counts, 1, 3_000), [ten, thirty].concat());
    take(&mut counts, 2, 4_000);
    let four = take(&mut counts, 3, 5_000);
    assert_eq!(four.len(), 8);
    assert_eq!(take(&mut counts, 4, 2_000), four, "the numbers of the stage alone have these");
    assert_eq!(calls(&counts), [45, 15]);
    assert_eq!(take(&mut counts, 5, 1_000)[0], (Some(10), 3, 10, 4));
}

#[test]
fn groups_with_too_many_values_have_times_of_their_first_share_alone() {
    let mut counts = counts();
    for (at, new) in [(0, 1_000), (1, 3_000)] {
        let mut groups =
            call_metrics::Groups { times: vec![Times::default(); 64], ..call_metrics::Groups::default() };
        for group in 0..64_u32 {
            let times = (0..400).map(|us| 1_000 + 400 * group + us).collect();
            (groups.calls[group as usize], groups.times[group as usize]) = (400, Times::of(times));
        }
        let mut times = Times::default();
        groups.times.iter().for_each(|of| times.merge(of));
        let calls = 64 * 400;
        let groups = Some(Box::new(groups));
        let tally = Tally { calls, succeeded: calls, times, groups, ..Tally::default() };
        let rows = [BASE, NEW].map(|variation| Row { key: key_of(variation, new), tally: tally.clone() });
        counts.take(&reading(1, vec![interval(at, at + 1, rows.into())], vec![], at + 1), same);
    }
    let summary = counts.summary(&stage("[]"), StageStatus::InProgress, ALL);
    assert_eq!(summary.strata.len(), 128);
    for stratum in &summary.strata {
        assert_eq!((stratum.f1_calls, stratum.f2_calls), (Some(400), Some(400)));
        assert_eq!(stratum.f1_values.is_some(), stratum.split == Some(10));
        assert_eq!(stratum.f2_values.is_some(), stratum.split == Some(10));
    }
}

/// Who kept no shares goes on with what it has, as with calls of the share that the stage orders.
#[test]
fn what_was_kept_without_shares_goes_on() {
    let mut counts = counts();
    let going_on = vec![interval(1, 2, shared(25, [40, 4]))];
    counts.take(&reading(1, vec![interval(0, 1, shared(25, [90, 10]))], going_on, 1), same);
    let text = serde_json::to_string(&counts).unwrap();
    assert!(!text.contains("percent"), "{text}");
    let mut counts: StageCounts = serde_json::from_str(&text).unwrap();
    counts.take(&reading(1, vec![interval(1, 2, shared(1_000, [45, 5]))], vec![], 2), same);
    assert_eq!(told_apart(&counts), [(None, 1, 90, 10), (Some(10), 2, 45, 5)]);
    assert_eq!(calls(&counts), [135, 15]);
}

/// Shares that come and go, in units of 0.01 %; one of them is no percentage.
const SHARES: [u16; 3] = [1_000, 3_000, 25];

/// What happens between a proxy and whoever reads it.
#[derive(Debug, Clone)]
enum Happening {
    /// Calls end: of which share, at which version, how many, how many of them as errors.
    Calls(usize, bool, u64, u64),
    /// So many intervals pass.
    Passes(u64),
    /// The agent reads, and keeps what it has then.
    Read,
    /// The agent reads, and dies before it has kept that.
    ReadInVain,
    /// The proxy is started anew. What it had is read before, as at a hand-over.
    Anew,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..SHARES.len(), any::<bool>(), 0..30_u64, 0..5_u64)
            .prop_map(|(share, new, ok, bad)| Happening::Calls(share, new, ok, bad)),
        2 => (1..4_u64).prop_map(Happening::Passes),
        1 => (20..60_u64).prop_map(Happening::Passes),
        4 => Just(Happening::Read),
        1 => Just(Happening::ReadInVain),
        1 => Just(Happening::Anew),
    ]
}

/// Share, interval and group.
type Part = (Option<u8>, u32, Option<u8>);

fn no_less(before: &StageSummary, after: &StageSummary) -> bool {
    let each = |summary: &StageSummary| -> BTreeMap<Part, [Option<u64>; 4]> {
        let whole = [summary.f1_calls, summary.f1_errors, summary.f2_calls, summary.f2_errors];
        let parts = summary.strata.iter().map(|of| {
            let numbers = [of.f1_calls, of.f1_errors, of.f2_calls, of.f2_errors];
            ((of.split, of.interval, of.group), numbers)
        });
        parts.chain([((None, u32::MAX, None), whole)]).collect()
    };
    let after = each(after);
    each(before).iter().all(|(part, before)| {
        after.get(part).is_some_and(|after| before.iter().zip(after).all(|(before, after)| before <= after))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::cases::cases(200) })]

    #[test]
    fn each_call_is_counted_once_and_nothing_that_was_told_shrinks(
        happenings in prop::collection::vec(happening(), 1..60),
        ages_after in 5..40_u64,
    ) {
        let origin = Instant::now();
        let timeline = Timeline::new(origin, 10);
        let room = Retention { age: Duration::from_secs(10 * ages_after), ..Retention::default() };
        let at = |interval: u64| Moment { now: timeline.start_of(interval), wall_ms: 0 };
        let (mut life, mut now, mut made) = (1, 0, [[0, 0]; SHARES.len()]);
        let mut call_metrics = CallMetrics::new(timeline, room, life);
        let (mut counts, mut before) = (counts(), None::<StageSummary>);
        let stage = stage("[]");
        let take = |counts: &mut StageCounts, call_metrics: &mut CallMetrics| {
            let reading = call_metrics.since(counts.cursor());
            counts.take(&reading, same);
        };
        for happening in happenings {
            match happening {
                Happening::Calls(share, new, ok, bad) => {
                    let key = key_of(if new { NEW } else { BASE }, SHARES[share]);
                    call_metrics.absorb(now, &key, &tally(ok, bad), at(now));
                    made[share][usize::from(new)] += ok + bad;
                }
                Happening::Passes(intervals) => {
                    now += intervals;
                    call_metrics.close(now);
                }
                Happening::Read => {
                    take(&mut counts, &mut call_metrics);
                    let all = made.iter().fold([0, 0], |all, of| [all[0] + of[0], all[1] + of[1]]);
                    prop_assert_eq!(calls(&counts), all);
                    prop_assert_eq!(counts.gone(), 0);
                    let summary = counts.summary(&stage, StageStatus::InProgress, ALL);
                    prop_assert!(before.is_none_or(|before| no_less(&before, &summary)));
                    for (share, made) in [Some(10), Some(30), None].into_iter().zip(made) {
                        let of_share = summary.strata.iter().filter(|of| of.split == share);
                        let sum = of_share.fold([0, 0], |sum: [u64; 2], of| {
                            [sum[0] + of.f1_calls.unwrap(), sum[1] + of.f2_calls.unwrap()]
                        });
                        prop_assert_eq!(sum, made);
                    }
                    before = Some(summary);
                }
                Happening::ReadInVain => take(&mut counts.clone(), &mut call_metrics),
                Happening::Anew => {
                    take(&mut counts, &mut call_metrics);
                    (life, now) = (life + 1, 0);
                    call_metrics = CallMetrics::new(timeline, room, life);
                }
            }
        }
    }
}

/// Of a service with three variations.
fn service_row(variation: &str, tally: Tally) -> Row {
    let key = Key {
        service: "shop".to_owned(),
        split: "r/s".to_owned(),
        shares: Arc::from([8_000, 1_000, 1_000]),
        variation: variation.to_owned(),
        version: variation.to_owned(),
        by_header: false,
    };
    Row { key: Arc::new(key), tally }
}

fn service_counts() -> StageCounts {
    StageCounts::of_service("shop", ["A", "B", "C"].map(str::to_owned).into(), "r/s")
}

fn service_stage(shares: &str) -> Stage {
    let text = format!(
        "id: r\nname: r\nservices:\n  - name: shop\n    ports: [{{port: 80}}]\n    variations:\n      - {{name: A, targets: \
         [\"127.0.0.1:1\"]}}\n      - {{name: B, targets: [\"127.0.0.1:2\"]}}\n      - {{name: C, targets: \
         [\"127.0.0.1:3\"]}}\nstages:\n  - name: s\n    type: Traffic\n    shares: {shares}\n    metrics_conditions: [{{name: \
         errorRate, threshold: \"<=0.05\"}}]\n    end_conditions: [{{name: minDuration, threshold: 1s}}]\n    end_action: \
         {{onSuccess: rollout, onFailure: rollback}}\n"
    );
    offer::read(&text).unwrap().stages.remove(0).stage
}

#[test]
fn more_than_two_variations_are_counted_and_told_apart_also_over_intervals_and_a_restart() {
    let mut counts = service_counts();
    let rows = |n: u64| {
        vec![
            service_row("A", tally(8 * n, 1)),
            service_row("B", tally(n, 2)),
            service_row("C", tally(n, 3)),
            service_row("D", tally(n, 4)),
        ]
    };
    counts.take(&reading(1, vec![interval(0, 1, rows(10))], vec![interval(1, 2, rows(1))], 1), same);
    let text = serde_json::to_string(&counts).unwrap();
    let mut counts: StageCounts = serde_json::from_str(&text).unwrap();
    counts.take(&reading(1, vec![interval(1, 2, rows(5))], vec![], 2), same);
    let of = |name: &str| counts.of_named(name).map(|side| (side.calls, side.errors));
    assert_eq!((of("A"), of("B"), of("C"), of("D")), (Some((122, 2)), Some((19, 4)), Some((21, 6)), None));
    let summary = told(&counts.summary(&service_stage("{A: 80, B: 10, C: 10}"), StageStatus::Completed, ALL));
    assert_eq!((summary.f1_calls, summary.f2_calls, summary.f2_errors), (Some(122), Some(19), Some(4)));
    let names: Vec<_> =
        summary.variations.iter().map(|one| (one.name.as_str(), one.calls, one.errors)).collect();
    assert_eq!(names, [("A", 122, 2), ("B", 19, 4), ("C", 21, 6)]);
    for one in &summary.variations {
        let parts: u64 = one.strata.iter().map(|stratum| stratum.calls).sum();
        assert_eq!((parts, one.strata.len()), (one.calls, 2), "{}", one.name);
        assert!(one.histogram.is_some());
    }
    // With two there is nothing more to say.
    assert!(self::counts().summary(&stage("[]"), StageStatus::Completed, ALL).variations.is_empty());
}

#[test]
fn each_variation_that_gets_calls_has_to_keep_the_conditions_and_to_be_tested() {
    let read = |rows| {
        let mut counts = service_counts();
        counts.take(&reading(1, vec![interval(0, 1, rows)], vec![], 1), none);
        counts
    };
    let stage = service_stage("{A: 80, B: 10, C: 10}");
    let bad_c = read(vec![service_row("B", tally(100, 0)), service_row("C", tally(80, 20))]);
    assert!(bad_c.is_tested(&stage) && !bad_c.conditions_hold(&stage));
    let good = read(vec![service_row("B", tally(100, 0)), service_row("C", tally(100, 1))]);
    assert!(good.is_tested(&stage) && good.conditions_hold(&stage));
    let no_c = read(vec![service_row("B", tally(100, 0))]);
    assert!(!no_c.is_tested(&stage));
    // Where it is to get none, nobody waits for it.
    assert!(no_c.is_tested(&service_stage("{A: 80, B: 20, C: 0}")));
}

#[test]
fn calls_by_other_shares_of_the_same_stage_count_and_are_held_against_these() {
    let given = |shares: [u16; 2], [base, new]: [u64; 2]| {
        let of = |name: &str, calls: u64| Row {
            key: Arc::new(Key { shares: Arc::from(shares), ..(*key(name)).clone() }),
            tally: Tally { calls, succeeded: calls, ..Tally::default() },
        };
        vec![of(BASE, base), of(NEW, new)]
    };
    let read = |second: [u16; 2]| {
        let mut counts = counts();
        let first = interval(0, 1, given([9_000, 1_000], [9_000, 1_000]));
        // The change came in the midst of an interval.
        let both = [given([9_000, 1_000], [900, 100]), given(second, [7_000, 3_000])].concat();
        counts.take(&reading(1, vec![first, interval(1, 2, both)], vec![], 2), none);
        assert_eq!(calls(&counts), [16_900, 4_100]);
        counts.mismatch(1e-3, 20_000, true)
    };
    assert_eq!(read([7_000, 3_000]).map(|found| found.to_string()), None);
    assert!(read([8_000, 2_000]).is_some(), "a split that is wrong is found all the same");
}
