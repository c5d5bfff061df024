//! The small languages of the arguments: shares, quantiles, and amounts that say in which unit they are.

use std::{fmt, str::FromStr, time::Duration};

use analysis::Tolerance;
use model::duration::read_go;

/// Units of time by name, in nanoseconds.
const TIMES: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];

/// Longest name of a unit, in bytes.
const MAX_UNIT_BYTES: usize = 32;

/// What values are in. One of time is converted to another, any other word only means itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit(String);

impl Unit {
    fn nanoseconds(&self) -> Option<f64> {
        TIMES.iter().find(|(name, _)| *name == self.0).map(|(_, nanoseconds)| *nanoseconds)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_word = |c: char| c.is_alphabetic() || matches!(c, 'µ' | '/' | '_');
        if text.is_empty() || text.len() > MAX_UNIT_BYTES || !text.chars().all(is_word) {
            return Err("a unit is a word, as ms, s or MiB".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

/// A tolerance as it is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Tolerated {
    Share(f64),
    Amount(f64, Unit),
}

impl Tolerated {
    /// Of values in `unit`.
    pub fn of(&self, unit: &Unit) -> Result<Tolerance, String> {
        let (amount, own) = match self {
            Self::Share(share) => return Ok(Tolerance::Ratio(*share)),
            Self::Amount(amount, own) => (*amount, own),
        };
        if own == unit {
            return Ok(Tolerance::Shift(amount));
        }
        match (own.nanoseconds(), unit.nanoseconds()) {
            (Some(own), Some(unit)) => Ok(Tolerance::Shift(amount * (own / unit))),
            _ => Err(format!(
                "the tolerance is in {own} and the values are in {unit}: name the unit of the values, as in --unit {own}"
            )),
        }
    }
}

impl FromStr for Tolerated {
    type Err = String;

    /// `5%`, or a number with a unit.
    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let wrong = || format!("{trimmed:?} is no tolerance: write a share as 5%, or an amount as 20ms");
        if let Some(percent) = trimmed.strip_suffix('%') {
            return number(percent).map(|percent| Self::Share(percent / 100.0)).ok_or_else(wrong);
        }
        let letters = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (amount, unit) = trimmed.split_at(letters);
        let amount = number(amount).ok_or_else(wrong)?;
        if unit.trim().is_empty() {
            return Err(format!("{trimmed} has no unit: write {trimmed}% or {trimmed}ms"));
        }
        Ok(Self::Amount(amount, unit.trim().parse().map_err(|_| wrong())?))
    }
}

/// `5%` or `0.05`, from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let share = match trimmed.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(trimmed),
    };
    share
        .filter(|share| *share <= 1.0)
        .ok_or_else(|| format!("{trimmed:?} is no share: write 5% or 0.05, at most 100%"))
}

/// `p99`, `p99.9` or `0.99`, without its ends.
pub fn quantile(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let quantile = match trimmed.strip_prefix(['p', 'P']) {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(trimmed),
    };
    quantile
        .filter(|quantile| *quantile > 0.0 && *quantile < 1.0)
        .ok_or_else(|| format!("{trimmed:?} is no quantile: write p99 or 0.99"))
}

/// `30m`, above 0.
pub fn duration(text: &str) -> Result<Duration, String> {
    let found = read_go(text).filter(|duration| !duration.is_zero());
    found.ok_or_else(|| format!("{text:?} is no duration: write 30m, 90s or 1h30m"))
}

/// `40/s`, `2000/m`: calls in a second.
pub fn traffic(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no rate of calls: write 40/s, 2000/m or 5000/h");
    let (calls, unit) = text.trim().split_once('/').ok_or_else(wrong)?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(wrong()),
    };
    number(calls).filter(|calls| *calls > 0.0).map(|calls| calls / seconds).ok_or_else(wrong)
}

/// A plain number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text).filter(|number| *number > 0.0).ok_or_else(|| format!("{text:?} is no number above 0"))
}

/// Digits with or without a point; neither a sign nor an exponent.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| plain)
}
