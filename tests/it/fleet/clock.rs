//! The manager's time, as a child knows it.

use model::{ManagerClock, ManagerInstant};

#[test]
fn the_median_of_five_answers_counts_and_half_its_round_trip_is_the_error() {
    let mut clock = ManagerClock::default();
    assert_eq!(clock.at(0), None, "nobody has told it the time");
    // Asked and answered by the child's clock, told: the third answer took long, on its way back.
    for (sent, came, told) in [
        (0, 10, 1_005),
        (1_000, 1_010, 2_006),
        (2_000, 2_400, 3_001),
        (3_000, 3_010, 4_004),
        (4_000, 4_010, 5_005),
    ] {
        clock.heard(sent, came, told, 3);
    }
    // The offsets: 1,000, 1,001, 801, 999, 1,000.
    assert_eq!(clock.at(9_000), Some(ManagerInstant { ms: 10_000, error_ms: 8 }));
    // The oldest is forgotten: a manager whose clock was put forward is followed.
    for (at, told) in [(5_000, 65_005), (6_000, 66_005), (7_000, 67_005)] {
        clock.heard(at, at + 10, told, 0);
    }
    assert_eq!(clock.at(9_000).unwrap().ms, 69_000);
}

#[test]
fn time_off_by_over_fifth_of_interval_belongs_to_none() {
    let at = |ms, error_ms| ManagerInstant { ms, error_ms };
    assert_eq!((at(20_000, 2_000).interval(10_000), at(20_000, 2_001).interval(10_000)), (3, 0));
    assert_eq!(
        (at(19_999, 0).interval(10_000), at(0, 0).interval(10_000)),
        (2, 1),
        "no interval is number 0"
    );
    assert_eq!((at(19_999, 0).until_next(10_000), at(20_000, 0).until_next(10_000)), (1, 10_000));
    // A clock that stands before 1970, or a length of nothing, is no reason to stop.
    assert_eq!((at(-5, 0).interval(10_000), at(5, 0).interval(0), at(-5, 0).until_next(0)), (1, 6, 1));
}
