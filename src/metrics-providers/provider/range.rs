//! How far a query in `PromQL` looks back.

use std::{str::Chars, time::Duration};

const UNITS: [(&str, u64); 7] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 7 * 86_400_000),
    ("y", 365 * 86_400_000),
];

/// How far the values that one point is made of can lie back: the longest `[range]`, and all subqueries around it. Two
/// points that are as far apart have no data in common. `None`: it looks at instants only.
pub fn longest_range(query: &str) -> Option<Duration> {
    let (mut longest, mut around) = (0_u64, 0_u64);
    let mut rest = query.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' | '\'' | '`' => skip_string(c, &mut rest),
            '#' => {
                rest.by_ref().find(|c| *c == '\n');
            }
            '[' => {
                let inner: String = rest.by_ref().take_while(|c| *c != ']').collect();
                match inner.split_once(':') {
                    Some((range, _)) => around = around.saturating_add(millis(range)),
                    None => longest = longest.max(millis(&inner)),
                }
            }
            _ => {}
        }
    }
    let all = longest.saturating_add(around);
    (all > 0).then(|| Duration::from_millis(all))
}

fn skip_string(quote: char, rest: &mut Chars<'_>) {
    while let Some(c) = rest.next() {
        match c {
            '\\' if quote != '`' => {
                rest.next();
            }
            c if c == quote => return,
            _ => {}
        }
    }
}

/// `5m`, `1h30m`, or a number of seconds; 0 for what is none, which Prometheus refuses.
fn millis(text: &str) -> u64 {
    let mut rest = text.trim();
    if let Ok(seconds) = rest.parse::<u64>() {
        return seconds.saturating_mul(1000);
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let (Ok(number), Some((_, scale))) = (number.parse::<u64>(), unit) else { return 0 };
        total = total.saturating_add(number.saturating_mul(*scale));
        rest = tail;
    }
    total
}
