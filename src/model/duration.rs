//! Durations as people write them: `90d`, `24h`, `1h30m`, `500ms`.

use std::time::Duration;

/// The units with their milliseconds, the largest first.
const UNITS: [(&str, u64); 5] =
    [("d", 24 * 60 * 60 * 1000), ("h", 60 * 60 * 1000), ("m", 60 * 1000), ("s", 1000), ("ms", 1)];

/// The milliseconds of whole numbers with units: `1h30m`. `None` if it is no such text, or more than fit.
pub fn read_millis(text: &str) -> Option<u64> {
    let (mut rest, mut sum) = (text.trim(), 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, scale) = UNITS.iter().find(|(unit, _)| *unit == &rest[..letters])?;
        sum = sum.checked_add(number.checked_mul(*scale)?)?;
        rest = &rest[letters..];
    }
    (!text.trim().is_empty()).then_some(sum)
}

/// The text that gives so many milliseconds, the larger unit first.
pub fn show_millis(mut millis: u64) -> String {
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, scale) in UNITS {
        if millis >= scale {
            text.extend([(millis / scale).to_string().as_str(), unit]);
            millis %= scale;
        }
    }
    text
}

/// A duration as Go reads it, of hours, minutes, seconds and milliseconds: `1h30m`, `1.5s`, `0`. No days.
pub fn read_go(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    Some(total)
}
