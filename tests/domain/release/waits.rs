//! How long something takes yet, as a person reads it.

use domain::release::waits::Span;

#[test]
fn a_span_is_shown_in_its_two_largest_units() {
    let shown = |seconds: u64| Span(seconds * 1_000).to_string();
    let table = [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (61, "1m 1s"),
        (599, "9m 59s"),
        (600, "10m"),
        (899, "14m"),
        (3_600, "1h"),
        (3_900, "1h 5m"),
        (86_400, "1d"),
        (90_000, "1d 1h"),
        (10 * 86_400, "10d"),
    ];
    for (seconds, text) in table {
        assert_eq!(shown(seconds), text);
    }
}
