use std::{collections::BTreeMap, sync::Arc, time::Duration};

use call_metrics::Tally;
use call_metrics::{CallMetrics, Cursor, Key, Moment, Reading, Retention, Timeline, Times};
use proptest::prelude::*;
use tokio::time::Instant;

const LENGTH: u64 = 10;

fn timeline() -> Timeline {
    Timeline::new(Instant::now(), LENGTH as u32)
}

fn call_metrics(room: Retention) -> CallMetrics {
    CallMetrics::new(timeline(), room, 7)
}

fn key(version: u8) -> Arc<Key> {
    Arc::new(Key {
        service: "a".into(),
        split: "s".into(),
        shares: [9_000, 1_000].into(),
        variation: "new".into(),
        version: version.to_string(),
        by_header: false,
    })
}

/// So many calls that succeeded, each after this time.
fn tally(calls: u64, us: u32) -> Tally {
    let times = Times::of(vec![us; calls as usize]);
    Tally { calls, succeeded: calls, times, ..Tally::default() }
}

fn moment() -> Moment {
    Moment { now: Instant::now(), wall_ms: 1_000_000_000_000 }
}

fn calls(reading: &Reading) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for row in reading.closed.iter().flat_map(|interval| &interval.rows) {
        assert_eq!(row.tally.times.count(), row.tally.calls);
        *calls.entry(row.key.version.clone()).or_default() += row.tally.calls;
    }
    calls
}

#[derive(Debug, Clone)]
enum Step {
    Count {
        version: u8,
        calls: u64,
    },
    /// So many intervals pass, and are closed.
    Pass(u64),
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8, 1..30_u64).prop_map(|(version, calls)| Step::Count { version, calls }),
        3 => (0..20_u64).prop_map(Step::Pass),
        1 => Just(Step::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_call_is_read_once_despite_pace_and_memory_limits(
        steps in prop::collection::vec(step(), 0..60),
        intervals in 1..20_u64,
        bytes in prop_oneof![Just(0_usize), Just(10_000), Just(usize::MAX)],
    ) {
        let age = Duration::from_secs(LENGTH * intervals);
        let mut call_metrics = call_metrics(Retention { age, bytes, ..Retention::default() });
        let (mut now, mut cursor) = (0, Cursor::default());
        let (mut counted, mut read) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
        let read_on = |call_metrics: &mut CallMetrics, cursor: &mut Cursor, read: &mut BTreeMap<String, u64>| {
            let reading = call_metrics.since(*cursor);
            let places: Vec<_> = reading.closed.iter().map(|interval| (interval.from, interval.to)).collect();
            let begins = reading.closed.first().is_none_or(|first| first.from >= cursor.interval);
            let apart = places.windows(2).all(|pair| pair[0].1 <= pair[1].0);
            for (version, calls) in calls(&reading) {
                *read.entry(version).or_default() += calls;
            }
            *cursor = reading.next;
            (begins && apart, reading.gone)
        };
        for step in steps {
            match step {
                Step::Count { version, calls } => {
                    call_metrics.absorb(now, &key(version), &tally(calls, 120), moment());
                    *counted.entry(version.to_string()).or_default() += calls;
                }
                Step::Pass(intervals) => {
                    now += intervals;
                    call_metrics.close(now);
                }
                Step::Read => prop_assert_eq!(read_on(&mut call_metrics, &mut cursor, &mut read), (true, 0)),
            }
        }
        call_metrics.close(now + 1);
        prop_assert_eq!(read_on(&mut call_metrics, &mut cursor, &mut read), (true, 0));
        prop_assert_eq!(&read, &counted);
        prop_assert!(call_metrics.since(cursor).closed.is_empty());
    }
}

#[test]
fn late_calls_count_in_next_interval_not_a_closed_one() {
    let mut call_metrics = call_metrics(Retention::default());
    call_metrics.absorb(0, &key(0), &tally(3, 100), moment());
    call_metrics.close(1);
    let before = call_metrics.since(Cursor::default());
    call_metrics.absorb(0, &key(0), &tally(2, 100), moment());
    let after = call_metrics.since(Cursor::default());
    assert_eq!(before.closed, after.closed);
    assert_eq!((after.open[0].from, after.open[0].rows[0].tally.calls), (1, 2));
}

#[test]
fn what_goes_on_is_read_again_until_it_is_closed() {
    let mut call_metrics = call_metrics(Retention::default());
    call_metrics.absorb(0, &key(0), &tally(3, 100), moment());
    let first = call_metrics.since(Cursor::default());
    assert_eq!((first.closed.len(), first.open[0].rows[0].tally.calls), (0, 3));
    call_metrics.absorb(0, &key(0), &tally(2, 100), moment());
    call_metrics.close(1);
    let second = call_metrics.since(first.next);
    assert_eq!((second.closed[0].rows[0].tally.calls, second.open.len()), (5, 0));
}

#[test]
fn intervals_that_nobody_read_in_time_become_one_that_says_so() {
    let mut call_metrics =
        call_metrics(Retention { age: Duration::from_secs(2 * LENGTH), ..Retention::default() });
    for interval in 0..10 {
        call_metrics.absorb(interval, &key(0), &tally(interval + 1, 100), moment());
    }
    call_metrics.close(10);
    let reading = call_metrics.since(Cursor::default());
    let places: Vec<_> = reading.closed.iter().map(|interval| (interval.from, interval.to)).collect();
    assert_eq!(places, [(0, 8), (8, 9), (9, 10)]);
    assert_eq!(reading.closed[0].rows[0].tally.calls, 36);
}

#[test]
fn what_was_read_is_let_go_when_it_is_old_and_not_merged() {
    let mut call_metrics =
        call_metrics(Retention { age: Duration::from_secs(2 * LENGTH), ..Retention::default() });
    let mut cursor = Cursor::default();
    for interval in 0..10 {
        call_metrics.absorb(interval, &key(0), &tally(1, 100), moment());
        call_metrics.close(interval + 1);
        cursor = call_metrics.since(cursor).next;
    }
    let from_the_beginning = call_metrics.since(Cursor::default());
    let places: Vec<_> =
        from_the_beginning.closed.iter().map(|interval| (interval.from, interval.to)).collect();
    assert_eq!(places, [(8, 9), (9, 10)]);
}

#[test]
fn versions_beyond_merge_limit_are_counted_as_gone() {
    let room = Retention { age: Duration::from_secs(LENGTH), merged_rows: 2, ..Retention::default() };
    let mut call_metrics = call_metrics(room);
    for version in 0..4 {
        call_metrics.absorb(0, &key(version), &tally(5, 100), moment());
    }
    call_metrics.close(5);
    let reading = call_metrics.since(Cursor::default());
    assert_eq!((calls(&reading).values().sum::<u64>(), reading.gone), (10, 10));
}

#[test]
fn a_cursor_of_another_life_reads_from_the_beginning() {
    let mut call_metrics = call_metrics(Retention::default());
    call_metrics.absorb(0, &key(0), &tally(3, 100), moment());
    call_metrics.close(5);
    let of_another = Cursor { life: 6, interval: 5 };
    assert_eq!(call_metrics.since(of_another).closed.len(), 1);
    let of_this = Cursor { life: 7, interval: 5 };
    assert_eq!(call_metrics.since(of_this).closed.len(), 0);
}

#[test]
fn an_interval_says_when_it_began_by_the_clock_of_the_wall() {
    let timeline = timeline();
    let mut call_metrics = CallMetrics::new(timeline, Retention::default(), 1);
    let now = timeline.start_of(3) + Duration::from_secs(4);
    call_metrics.absorb(3, &key(0), &tally(1, 100), Moment { now, wall_ms: 1_000_000 });
    let reading = call_metrics.since(Cursor::default());
    assert_eq!((reading.open[0].began_ms, reading.open[0].seconds), (996_000, LENGTH));
}

#[test]
fn a_reading_that_travelled_is_the_same() {
    let mut call_metrics = call_metrics(Retention::default());
    let mut with_groups = tally(2_000, 100);
    with_groups.failed = [1, 2, 3, 4, 5];
    with_groups.groups.get_or_insert_default().calls[63] = 9;
    call_metrics.absorb(0, &key(0), &with_groups, moment());
    call_metrics.close(1);
    call_metrics.absorb(1, &key(0), &tally(3, 100), moment());
    let reading = call_metrics.since(Cursor::default());
    let text = serde_json::to_string(&reading).unwrap();
    assert!(
        text.contains(r#""failed":{"refused":1,"died":2,"timed_out":3,"nonsense":4,"status":5}"#),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Reading>(&text).unwrap(), reading);
}

#[test]
fn a_clock_of_the_wall_that_jumps_moves_no_interval_and_loses_no_call() {
    let timeline = timeline();
    let mut call_metrics = CallMetrics::new(timeline, Retention::default(), 7);
    let (mut cursor, mut seen, mut last_to) = (Cursor::default(), 0, 0);
    // An hour back, a day on, before 1970, and as far as it goes.
    for (interval, wall_ms) in
        [1_000_000_000_000, 999_996_400_000, 1_000_086_400_000, -1, i64::MAX, i64::MIN, 0]
            .into_iter()
            .enumerate()
    {
        let interval = interval as u64;
        let moment = Moment { now: timeline.start_of(interval), wall_ms };
        call_metrics.absorb(interval, &key(0), &tally(1, 100), moment);
        call_metrics.close(interval + 1);
        let reading = call_metrics.since(cursor);
        assert_eq!(reading.closed.len(), 1);
        let closed = &reading.closed[0];
        assert_eq!((closed.from, closed.to, closed.began_ms), (last_to, interval + 1, wall_ms));
        last_to = closed.to;
        seen += calls(&reading).values().sum::<u64>();
        cursor = reading.next;
    }
    assert_eq!(seen, 7);
}
