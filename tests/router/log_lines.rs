//! Lines that routers log, read; whether real ones write them so is tried in `tests/router`.

use proptest::prelude::*;
use router::log_line::{LONGEST, Line, Logged, NotALine, Outcome, read};
use traffic::Failure;

const NGINX: &str = "<190>Nov 23 12:39:36 cm: cm1|n|checkout|B|0351||1795437576.909|200|200|0.000|0.001|0.012|52|52|OK|127.0.0.1:1|GET|52";
const STREAM: &str =
    "<190>Nov 23 12:39:36 cm: cm1|s|checkout|B|0351|1795437576.909|200|0.012|55|52|127.0.0.1:1|2862";
const HAPROXY: &str =
    "cm1|h|checkout|choirmaster:checkout:B|351||1795437576909|200|1|2|3|4|--|0|55|52|2862\n";

fn call(text: &str) -> Line<'_> {
    match read(text.as_bytes()) {
        Ok(Logged::Call(line)) => line,
        other => panic!("{other:?} of {text}"),
    }
}

/// A good line of nginx with these fields in place of its own.
fn nginx(changes: &[(usize, &str)]) -> String {
    let mut fields: Vec<&str> = NGINX.split('|').collect();
    for (at, field) in changes {
        fields[at + 2] = field;
    }
    fields.join("|")
}

/// The same of nginx's stream module.
fn stream(changes: &[(usize, &str)]) -> String {
    let mut fields: Vec<&str> = STREAM.split('|').collect();
    for (at, field) in changes {
        fields[at + 2] = field;
    }
    fields.join("|")
}

fn haproxy(changes: &[(usize, &str)]) -> String {
    let mut fields: Vec<&str> = HAPROXY.trim_end().split('|').collect();
    for (at, field) in changes {
        fields[at + 2] = field;
    }
    fields.join("|")
}

#[test]
fn both_say_the_same_of_a_call() {
    for (text, took_ms, process) in [(NGINX, 12, None), (HAPROXY, 10, Some(2_862))] {
        let Line { service, variation, group, by_header, chosen_ms, outcome, sent_again, .. } = call(text);
        assert_eq!(
            (service, variation, group, by_header),
            ("checkout", Some("B"), Some((351 % 64) as u8), false)
        );
        assert_eq!((chosen_ms, sent_again), (Some(1_795_437_576_909), 0));
        assert_eq!((outcome, call(text).process), (Outcome::Answered { status: 200, took_ms }, process));
    }
    assert!(call(&nginx(&[(3, "v1")])).by_header && call(&haproxy(&[(3, "1")])).by_header);
    assert_eq!(call(&nginx(&[(2, "")])).group, None);
    assert_eq!(read(b"<190>Nov 23 12:39:36 cm: cm1|n?"), Ok(Logged::Question));
}

#[test]
fn how_a_call_ended_at_nginx_is_told_from_its_line() {
    let failed = |failure| Outcome::Failed(failure);
    let cases: [(&[(usize, &str)], Outcome); 13] = [
        (&[(5, "404"), (6, "404")], Outcome::Answered { status: 404, took_ms: 12 }),
        (&[(5, "101"), (6, "101")], Outcome::Upgraded),
        (&[(5, "502"), (6, "502"), (7, "-"), (8, "-"), (10, "0")], failed(Failure::Refused)),
        (&[(5, "504"), (6, "504"), (7, "-"), (8, "-"), (10, "0")], failed(Failure::Refused)),
        (&[(5, "502"), (6, "502"), (8, "-"), (10, "0")], failed(Failure::Died)),
        (&[(5, "504"), (6, "504"), (8, "-"), (10, "0")], failed(Failure::TimedOut)),
        (&[(5, "502"), (6, "502"), (7, "-"), (8, "-"), (13, "cm_1f00_1")], Outcome::NoTarget),
        (
            &[(5, "502"), (6, "502, 502"), (7, "-, -"), (8, "-, -"), (13, "127.0.0.1:1, cm_1f00_1")],
            failed(Failure::Refused),
        ),
        // What it answered itself is its answer.
        (&[(5, "502"), (6, "502")], Outcome::Answered { status: 502, took_ms: 12 }),
        (&[(10, "4"), (11, "4")], Outcome::BrokenOff),
        (&[(10, "4"), (14, "HEAD")], Outcome::Answered { status: 200, took_ms: 12 }),
        (&[(10, "52"), (11, "40"), (12, "")], Outcome::CallerGone),
        (&[(5, "499"), (6, "-"), (8, "-")], Outcome::CallerGone),
    ];
    for (changes, outcome) in cases {
        assert_eq!(call(&nginx(changes)).outcome, outcome, "{changes:?}");
    }
    // One target failed it, and another one of the same variation carried it out.
    let again = nginx(&[
        (6, "502, 200"),
        (7, "-, 0.001"),
        (8, "-, 0.002"),
        (9, "0.001, 0.003"),
        (10, "0, 52"),
        (13, "127.0.0.1:1, [::1]:2"),
    ]);
    let line = call(&again);
    assert_eq!((line.sent_again, line.outcome), (1, Outcome::Answered { status: 200, took_ms: 4 }));
}

#[test]
fn how_a_session_ended_at_nginx_is_told_from_its_line() {
    let line = call(STREAM);
    assert_eq!((line.service, line.variation, line.group), ("checkout", Some("B"), Some((351 % 64) as u8)));
    assert_eq!((line.outcome, line.bytes), (Outcome::Passed { took_ms: 12 }, Some((55, 52))));
    // Its variation was chosen when it began.
    assert_eq!(line.chosen_ms, Some(1_795_437_576_909 - 12));
    assert_eq!((line.sent_again, line.process), (0, Some(2_862)), "which counts no calls");
    assert_eq!(call(&stream(&[(2, "")])).group, None);
    let again = stream(&[(8, "127.0.0.1:1, [::1]:2")]);
    assert_eq!((call(&again).sent_again, call(&again).outcome), (1, Outcome::Passed { took_ms: 12 }));
    for (status, addresses, outcome) in [
        ("502", "127.0.0.1:1", Outcome::Failed(Failure::Refused)),
        ("502", "127.0.0.1:1, cm_1f00_1", Outcome::Failed(Failure::Refused)),
        ("502", "cm_1f00_1", Outcome::NoTarget),
        ("400", "", Outcome::CallerGone),
        ("500", "127.0.0.1:1", Outcome::CallerGone),
    ] {
        assert_eq!(call(&stream(&[(4, status), (8, addresses)])).outcome, outcome, "{status} {addresses}");
    }
}

#[test]
fn how_a_call_ended_at_haproxy_is_told_from_its_line() {
    let cases = [
        ("--", Outcome::Answered { status: 200, took_ms: 10 }),
        ("SC", Outcome::Failed(Failure::Refused)),
        ("sC", Outcome::Failed(Failure::Refused)),
        ("sQ", Outcome::Failed(Failure::Refused)),
        ("SH", Outcome::Failed(Failure::Died)),
        ("sH", Outcome::Failed(Failure::TimedOut)),
        ("PH", Outcome::Failed(Failure::Nonsense)),
        ("SD", Outcome::BrokenOff),
        ("sD", Outcome::BrokenOff),
        ("CD", Outcome::CallerGone),
        ("CH", Outcome::CallerGone),
        ("cD", Outcome::CallerGone),
        ("PR", Outcome::CallerGone),
    ];
    for (state, outcome) in cases {
        assert_eq!(call(&haproxy(&[(10, state)])).outcome, outcome, "{state}");
    }
    assert_eq!(call(&haproxy(&[(10, "SC"), (6, "-1"), (7, "-1")])).outcome, Outcome::NoTarget);
    let tcp = haproxy(&[(5, ""), (8, "0"), (2, "")]);
    assert_eq!(call(&tcp).outcome, Outcome::Passed { took_ms: 7 });
    assert_eq!(call(&tcp).bytes, Some((55, 52)));
    assert_eq!(call(&haproxy(&[(1, "choirmaster:checkout")])).variation, None);
    assert_eq!(call(&haproxy(&[(11, "+2")])).sent_again, 2);
}

#[test]
fn what_isnt_whole_or_has_more_isnt_a_line() {
    for good in [NGINX, STREAM, HAPROXY.trim_end()] {
        let fields: Vec<&str> = good.split('|').collect();
        for at in 2..fields.len() {
            let mut less = fields.clone();
            less.remove(at);
            assert_eq!(read(less.join("|").as_bytes()), Err(NotALine), "without {at}");
        }
        assert_eq!(read(format!("{good}|").as_bytes()), Err(NotALine));
        assert_eq!(read(&good.as_bytes()[4..]), Err(NotALine));
    }
    for (at, field) in
        [(2, "12345"), (2, "-1"), (2, "x"), (4, "now"), (4, "99999999999999999999"), (5, "99999"), (5, "x")]
    {
        assert_eq!(read(nginx(&[(at, field)]).as_bytes()), Err(NotALine), "{at}: {field}");
        assert_eq!(read(haproxy(&[(at, field)]).as_bytes()), Err(NotALine), "{at}: {field}");
    }
    for (at, field) in [(2, "x"), (3, "now"), (4, "099"), (5, "1"), (6, "-1"), (7, ""), (9, "")] {
        assert_eq!(read(stream(&[(at, field)]).as_bytes()), Err(NotALine), "{at}: {field}");
    }
    assert_eq!(read(haproxy(&[(0, "other")]).as_bytes()), Err(NotALine), "a backend of another service");
    assert_eq!(read(&vec![b'a'; LONGEST + 1]), Err(NotALine));
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd_to_be_read(bytes in prop::collection::vec(any::<u8>(), 0..1_500)) {
        let _ = read(&bytes);
    }

    #[test]
    fn no_fields_are_too_odd_to_be_read(
        writer in "[nhs]", fields in prop::collection::vec("[0-9.,: \\-|a-zA-Z+]{0,20}", 9..18),
    ) {
        let _ = read(format!("cm1|{writer}|{}", fields.join("|")).as_bytes());
    }

    #[test]
    fn any_field_may_be_odd(at in 0..16_usize, field in "\\PC{0,30}") {
        let _ = read(nginx(&[(at, &field)]).as_bytes());
        let _ = read(haproxy(&[(at.min(14), &field)]).as_bytes());
        let _ = read(stream(&[(at.min(9), &field)]).as_bytes());
    }
}
