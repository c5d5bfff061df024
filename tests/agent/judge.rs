//! Versions are stopped by themselves where it is proven that they break a condition, and only there.

use std::{sync::Arc, time::Duration};

use agent::{
    judge::{Breach, Judge, UNTOLD_ALPHA},
    measure::{NEW, StageCounts},
};
use call_metrics::{Cursor, InFlight, Interval, Key, Reading, Row, Tally, Times};
use language::Stage;

use super::measure::stage;

const RATE: &str = "[{name: errorRate, threshold: '<0.02'}]";

/// What was counted of the new version, as if it went on.
pub fn counted(tally: Tally) -> StageCounts {
    with_in_flight(tally, 0)
}

fn with_in_flight(tally: Tally, calls: u32) -> StageCounts {
    let key = Arc::new(Key {
        service: "f".to_owned(),
        split: "s".to_owned(),
        shares: Arc::from([9_000, 1_000]),
        variation: NEW.to_owned(),
        version: NEW.to_owned(),
        by_header: false,
    });
    let open = vec![Interval { from: 0, to: 1, began_ms: 0, seconds: 10, rows: vec![Row { key, tally }] }];
    let next = Cursor { life: 1, interval: 0 };
    let mut counts = StageCounts::new("f", "s");
    let in_flight =
        ["f", "g"].map(|of| InFlight { service: of.to_owned(), variation: NEW.to_owned(), calls });
    let reading =
        Reading { closed: Vec::new(), open, next, gone: 0, cut_short: 0, in_flight: in_flight.to_vec() };
    counts.take(&reading, |_| None);
    counts
}

fn errors(calls: u64, errors: u64) -> StageCounts {
    counted(Tally { calls, errors, succeeded: calls - errors, ..Tally::default() })
}

fn times(us: Vec<u32>) -> StageCounts {
    let calls = us.len() as u64;
    counted(Tally { calls, succeeded: calls, times: Times::of(us), ..Tally::default() })
}

/// They are no calls of the version: it hasn't answered them.
#[test]
fn calls_without_a_target_break_a_limit_of_errors_and_are_in_no_number_that_is_told() {
    let mut judge = Judge::new(&stage(RATE), UNTOLD_ALPHA);
    let mut look = |no_target: u64| {
        let counts = counted(Tally { calls: 990 + no_target, succeeded: 990, no_target, ..Tally::default() });
        let new = counts.new_version();
        assert_eq!((new.calls, new.errors, new.no_target), (990, 0, no_target));
        (
            judge.look(&counts, Duration::from_secs(1)).map(|breach| breach.text),
            counts.conditions_hold(&stage(RATE)),
        )
    };
    assert_eq!(look(10), (None, true));
    let (breach, holds) = look(100);
    insta::assert_snapshot!(breach.unwrap(), @r#"errorRate <0.02 is broken: 100 of 1090 calls of the new version failed or found no target (100 in all), which a version that keeps it shows with a probability of 1.5e-32 at most"#);
    assert!(!holds);
}

/// Calls that fail independently of each other, looked at after every few of them.
struct Run {
    rng: fastrand::Rng,
    judge: Judge,
    calls: u64,
    errors: u64,
    elapsed: Duration,
}

impl Run {
    fn new(stage: &Stage, alpha: f64, seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self { rng, judge: Judge::new(stage, alpha), calls: 0, errors: 0, elapsed: Duration::ZERO }
    }

    /// So many looks after `calls` calls each, of which a share fails; the calls until it is stopped.
    fn go_on(&mut self, looks: u64, calls: u64, share: f64, pause: Duration) -> Option<u64> {
        for _ in 0..looks {
            self.calls += calls;
            self.errors += (0..calls).filter(|_| self.rng.f64() < share).count() as u64;
            self.elapsed += pause;
            if self.judge.look(&errors(self.calls, self.errors), self.elapsed).is_some() {
                return Some(self.calls);
            }
        }
        None
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_version_that_fails_every_call_is_stopped_after_a_handful() {
    for (alpha, most, expected) in
        [(1e-3, "<0.02", 3), (1e-7, "<0.02", 5), (1e-7, "<0.001", 3), (1e-7, "<0.2", 12)]
    {
        let stage = stage(&format!("[{{name: errorRate, threshold: '{most}'}}]"));
        let mut run = Run::new(&stage, alpha, 1);
        assert_eq!(run.go_on(100, 1, 1.0, SECOND / 10), Some(expected), "{alpha} {most}");
    }
}

#[test]
fn what_breaks_is_said_with_the_numbers() {
    let mut judge = Judge::new(&stage(RATE), 1e-7);
    assert_eq!(judge.look(&errors(2, 2), SECOND), None);
    let Breach { condition, text } = judge.look(&errors(6, 6), SECOND).unwrap();
    assert_eq!(condition, 0);
    insta::assert_snapshot!(text, @"errorRate <0.02 is broken: 6 of 6 calls of the new version failed, which a version that keeps it shows with a probability of 4.4e-10 at most");
    let slow = stage("[{name: errorRate, threshold: '<0.02'}, {name: responseTime, threshold: '<=250'}]");
    let Breach { condition, text } = Judge::new(&slow, 1e-7).look(&times(vec![300_000; 60]), SECOND).unwrap();
    assert_eq!(condition, 1);
    insta::assert_snapshot!(text, @"responseTime <=250 Median is broken: 60 of 60 calls of the new version took more than 250 ms, which a version that keeps it shows with a probability of 2.6e-17 at most");
}

#[test]
fn version_failing_after_good_hour_is_stopped_within_few_calls() {
    let mut run = Run::new(&stage(RATE), 1e-6, 7);
    assert_eq!(run.go_on(3_630, 10, 0.005, SECOND), None);
    let before = run.calls;
    let stopped = run.go_on(60, 1, 1.0, SECOND / 10).unwrap() - before;
    assert!(stopped <= 40, "{stopped} calls failed, after {before} good ones");
}

#[test]
fn what_fails_twice_as_often_as_it_may_is_stopped_in_time() {
    let mut calls: Vec<u64> = (0..20)
        .map(|seed| Run::new(&stage(RATE), 1e-6, seed).go_on(2_000, 10, 0.04, SECOND).unwrap())
        .collect();
    calls.sort_unstable();
    let expected = analysis::limit_evidence::calls_until(0.04, 0.02, 0.5e-6).unwrap();
    let median = calls[10];
    assert!((expected / 2..2 * expected).contains(&median), "{median}, about {expected} were expected");
    assert!(calls[19] < 4 * expected, "{calls:?}");
}

/// Of so many agents, each with its part of alpha and a version that fails as often as it just may, how many stop it.
fn false_alarms(agents: u64, alpha: f64, looks: u64, seed: u64) -> u64 {
    let stage = stage(RATE);
    let alarmed =
        |agent: &u64| Run::new(&stage, alpha, seed + agent).go_on(looks, 10, 0.02, 2 * SECOND).is_some();
    (0..agents).filter(alarmed).count() as u64
}

#[test]
fn repeated_looks_keep_false_stops_within_alpha() {
    let found = false_alarms(300, 0.1, 200, 1_000);
    assert!(found <= 30, "{found} of 300 at an alpha of 0.1");
    assert!(found > 0, "with as large an alpha some are stopped, or nothing was looked at");
}

#[test]
fn a_fleet_of_a_thousand_together_stops_no_good_version() {
    assert_eq!(false_alarms(1_000, 0.005 / 1_000.0, 40, 90_000), 0);
    // Where each of them had all of alpha, some would.
    assert!(false_alarms(1_000, 0.05, 40, 90_000) > 0);
}

#[test]
fn one_call_beyond_the_longest_or_below_the_shortest_is_enough() {
    for (condition, us, says) in [
        ("{name: responseTime, threshold: '<=250', compareWith: Maximum}", 250_001, "took 250.001 ms"),
        ("{name: responseTime, threshold: '<250', compareWith: Maximum}", 250_000, "took 250 ms"),
        ("{name: responseTime, threshold: '>=10', compareWith: Minimum}", 9_999, "took 9.999 ms"),
        ("{name: responseTime, threshold: '==100', compareWith: Maximum}", 100_001, "took 100.001 ms"),
    ] {
        let mut judge = Judge::new(&stage(&format!("[{condition}]")), 1e-9);
        assert_eq!(judge.look(&times(vec![100_000]), SECOND), None, "{condition}");
        let mut all = vec![100_000; 5_000];
        all.push(us);
        let breach = judge.look(&times(all), SECOND).expect(condition);
        assert!(breach.text.contains(says), "{}", breach.text);
    }
}

#[test]
fn what_may_still_hold_at_the_end_is_no_breach() {
    for (condition, us) in [
        ("{name: responseTime, threshold: '>=250', compareWith: Maximum}", 10_000),
        ("{name: responseTime, threshold: '<=10', compareWith: Minimum}", 90_000),
        ("{name: errorRate, threshold: '<=1'}", 10_000),
        ("{name: responseTime, threshold: '<=250'}", 250_000),
        ("{name: responseTime, threshold: '>=10'}", 10_000),
    ] {
        let mut judge = Judge::new(&stage(&format!("[{condition}]")), 0.4);
        for minute in 0..100_u32 {
            let calls = times(vec![us; 50 * minute as usize]);
            assert_eq!(judge.look(&calls, 60 * SECOND * minute), None, "{condition}");
        }
    }
    let mut judge = Judge::new(&stage("[]"), 1e-6);
    assert_eq!(judge.look(&errors(1_000, 1_000), SECOND), None);
}

#[test]
fn limits_of_times_are_proven_as_those_of_errors_are() {
    for (condition, us) in [
        ("{name: responseTime, threshold: '<=250'}", 251_000),
        ("{name: responseTime, threshold: '<=250', compareWith: P95}", 251_000),
        ("{name: responseTime, threshold: '>=10'}", 9_000),
        ("{name: responseTime, threshold: '==10'}", 9_000),
    ] {
        let mut judge = Judge::new(&stage(&format!("[{condition}]")), 1e-7);
        let stopped = (1..200).find(|calls| judge.look(&times(vec![us; *calls]), SECOND).is_some());
        assert!(stopped.is_some_and(|calls| calls <= 32), "{condition}: {stopped:?}");
    }
    // A limit of 0 errors needs no proof but one.
    let mut judge = Judge::new(&stage("[{name: errorRate, threshold: '<=0'}]"), 1e-9);
    assert_eq!(judge.look(&errors(1_000, 0), SECOND), None);
    assert!(judge.look(&errors(1_001, 1), SECOND).is_some());
}

#[test]
fn times_that_come_to_be_kept_less_exactly_prove_nothing() {
    let mut judge = Judge::new(&stage("[{name: responseTime, threshold: '<=100', compareWith: P95}]"), 0.4);
    // Those a little above the limit lie in its bucket from a thousand calls on.
    for minute in 0..40_u32 {
        let calls = 100 * minute as usize;
        let us = (0..calls).map(|call| if call % 40 == 0 { 100_100 } else { 50_000 }).collect();
        assert_eq!(judge.look(&times(us), 60 * SECOND * minute), None);
    }
}

#[test]
fn it_judges_on_after_it_was_kept() {
    let mut run = Run::new(&stage(RATE), 1e-6, 3);
    assert_eq!(run.go_on(400, 10, 0.01, SECOND), None);
    let text = serde_json::to_string(&run.judge).unwrap();
    let again: Judge = serde_json::from_str(&text).unwrap();
    assert_eq!(again, run.judge);
    assert!(text.len() < 4_000, "few windows are kept at once: {text}");
}

#[test]
fn what_is_no_probability_is_a_small_one() {
    let usual = Judge::new(&stage(RATE), UNTOLD_ALPHA);
    for alpha in [0.0, -1.0, 1.0, 2.0, f64::NAN, f64::INFINITY] {
        assert_eq!(Judge::new(&stage(RATE), alpha), usual, "{alpha}");
    }
}

#[test]
fn fast_errors_of_a_version_whose_answers_take_long_are_no_proof() {
    // 1 % fail at once, the others take ten seconds: 2,000 calls were made, of which 20 have failed.
    let tally = |calls, errors| Tally { calls, errors, succeeded: calls - errors, ..Tally::default() };
    let mut judge = Judge::new(&stage(RATE), 1e-3);
    assert_eq!(judge.look(&with_in_flight(tally(20, 20), 1_980), 10 * SECOND), None);
    assert!(judge.clone().look(&with_in_flight(tally(20, 20), 0), 10 * SECOND).is_some());
    // Where all fail, those that go on hide it for some calls only.
    assert!(judge.clone().look(&with_in_flight(tally(2_000, 2_000), 1_980), 20 * SECOND).is_some());
    // A window doesn't count errors of calls that went on when it began, as those are that time out after the traffic has ended.
    let mut judge = Judge::new(&stage(RATE), 0.4);
    assert_eq!(judge.look(&with_in_flight(tally(100_000, 1_000), 900), 61 * SECOND), None);
    assert_eq!(judge.look(&with_in_flight(tally(100_900, 1_900), 0), 62 * SECOND), None);
    assert!(judge.look(&with_in_flight(tally(101_000, 2_000), 0), 63 * SECOND).is_some());
}
