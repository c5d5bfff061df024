//! The small languages inside scalars: durations, thresholds, counts, statistics, paths.

use std::{fmt::Write as _, time::Duration};

use super::{
    condition::{Operator, Statistic},
    diagnostic::quoted,
};

/// Longest duration a strategy may name: 366 days.
pub const MAX_DURATION: Duration = Duration::from_hours(366 * 24);

/// Most calls a stage may ask for; deployed agents read the number into 32 bits on some boards.
pub const MAX_CALLS: u64 = 1_000_000_000;

/// Highest response time a threshold may name, in milliseconds.
pub const MAX_RESPONSE_TIME_MS: f64 = 1e9;

/// Longest path of a version's folder, in bytes.
pub const MAX_PATH_BYTES: usize = 200;

/// Why a scalar is refused, and what to write.
pub(super) struct ScalarFault<T> {
    pub message: String,
    pub fix: String,
    /// What it says nevertheless: it is only more, or less, than is allowed.
    pub value: Option<T>,
}

pub(super) fn fault<T>(message: impl Into<String>, fix: impl Into<String>) -> ScalarFault<T> {
    ScalarFault { message: message.into(), fix: fix.into(), value: None }
}

impl<T> ScalarFault<T> {
    /// Of a value that is understood and beyond a limit.
    pub fn beyond(self, value: T) -> Self {
        Self { value: Some(value), ..self }
    }

    /// The fault of what a value is a part of.
    pub fn map<U>(self, whole: impl FnOnce(T) -> U) -> ScalarFault<U> {
        ScalarFault { message: self.message, fix: self.fix, value: self.value.map(whole) }
    }
}

const UNITS: [(&str, u64); 5] =
    [("d", 24 * 3_600_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// `10s`, `1m30s`, `500ms`, `2h`, `1.5h`, `1d`: whole milliseconds.
pub(super) fn duration(text: &str) -> Result<Duration, ScalarFault<Duration>> {
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit()) {
        if trimmed.bytes().all(|b| b == b'0') {
            return Ok(Duration::ZERO);
        }
        return Err(fault(
            format!("the duration {} has no unit", quoted(text)),
            format!("write {}s for seconds, or one of ms, m, h, d", quoted(trimmed).trim_matches('"')),
        ));
    }
    let millis = duration_millis(trimmed).ok_or_else(|| {
        fault(
            format!("{} is not a duration", quoted(text)),
            "write numbers with units, as in 500ms, 10s, 1m30s, 2h or 1d (whole milliseconds)",
        )
    })?;
    let duration = Duration::from_millis(millis);
    if duration > MAX_DURATION {
        let fault = fault(format!("the duration {} is over 366 days", quoted(text)), "write a shorter one");
        return Err(fault.beyond(duration));
    }
    Ok(duration)
}

fn duration_millis(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(share_of(number, *millis)?)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

/// A decimal number of units, exactly, or nothing where it is no whole number of milliseconds.
fn share_of(number: &str, unit_millis: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !all_digits(fraction) || number.ends_with('.') {
        return None;
    }
    let mut millis = whole.parse::<u64>().ok()?.checked_mul(unit_millis)?;
    if !fraction.is_empty() {
        let scaled = fraction.parse::<u64>().ok()?.checked_mul(unit_millis)?;
        let scale = 10_u64.pow(fraction.len() as u32);
        if scaled % scale != 0 {
            return None;
        }
        millis = millis.checked_add(scaled / scale)?;
    }
    Some(millis)
}

/// A duration as deployed agents read it: `h`, `m`, `s`, `ms`.
pub(super) fn go_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (unit, millis) in &UNITS[1..] {
        let count = rest / u128::from(*millis);
        if count > 0 {
            let _ = write!(text, "{count}{unit}");
        }
        rest %= u128::from(*millis);
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

const OPERATORS: [(&str, Operator); 6] = [
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("=", Operator::Equal),
];

/// What a threshold says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threshold {
    pub operator: Operator,
    /// A share, or milliseconds.
    pub value: f64,
    /// `None`: the number stands alone.
    pub unit: Option<ThresholdUnit>,
}

/// What the number of a threshold is followed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThresholdUnit {
    Percent,
    /// `ms` or `s`.
    Time,
}

/// Each with the power of ten that makes it a share, or milliseconds. What another one ends with comes behind it.
const THRESHOLD_UNITS: [(&str, ThresholdUnit, i32); 3] =
    [("%", ThresholdUnit::Percent, -2), ("ms", ThresholdUnit::Time, 0), ("s", ThresholdUnit::Time, 3)];

/// An operator and a number: `<0.02`, `<2%`, `<= 250`, `<=250ms`, `<1.5s`.
pub(super) fn threshold(text: &str) -> Result<Threshold, ScalarFault<Threshold>> {
    let trimmed = text.trim();
    let Some((operator, number)) =
        OPERATORS.iter().find_map(|(sign, operator)| Some((*operator, trimmed.strip_prefix(sign)?.trim())))
    else {
        return Err(match measured(trimmed) {
            Some(_) => fault(
                format!("the threshold {} has no operator", quoted(text)),
                format!("write \"<{trimmed}\" or \"<={trimmed}\""),
            ),
            None => fault(
                format!("{} is not a threshold", quoted(text)),
                "write an operator (<, <=, >, >=, =) and a number, as in \"<0.02\" or \"<=250\"",
            ),
        });
    };
    let Some((value, unit)) = measured(number) else {
        return Err(fault(
            format!("{} in the threshold {} is not a number", quoted(number), quoted(text)),
            "write a plain number after the operator, as in \"<0.02\" or \"<=250\", or one in %, ms or s",
        ));
    };
    if value.is_sign_negative() {
        let fault = fault(
            format!("the threshold {} is negative; rates and times never are", quoted(text)),
            "write a number from 0 up",
        );
        // -0 says 0, and was taken for it.
        return Err(if value == 0.0 {
            fault.beyond(Threshold { operator, value: 0.0, unit })
        } else {
            fault
        });
    }
    Ok(Threshold { operator, value, unit })
}

/// A number, and its unit where it has one.
fn measured(text: &str) -> Option<(f64, Option<ThresholdUnit>)> {
    let of_unit = |(name, unit, power): &(&str, ThresholdUnit, i32)| {
        Some((text.strip_suffix(name)?.trim_end(), Some(*unit), *power))
    };
    let (number, unit, power) = THRESHOLD_UNITS.iter().find_map(of_unit).unwrap_or((text, None, 0));
    let plain = plain_number(number)?;
    // By its digits where it has no exponent of its own: 0.7 / 100 is not quite 0.007.
    let value = format!("{number}e{power}").parse::<f64>().unwrap_or_else(|_| plain * 10_f64.powi(power));
    value.is_finite().then_some((value, unit))
}

/// A finite number without the words that Rust reads too (`inf`, `NaN`).
pub(super) fn plain_number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    text.parse::<f64>().ok().filter(|n| plain && n.is_finite())
}

pub(super) fn sign(operator: Operator) -> &'static str {
    match operator {
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
        Operator::Equal => "=",
    }
}

/// A bare count of calls.
pub(super) fn calls(text: &str) -> Result<u64, ScalarFault<u64>> {
    let wrong = || {
        fault(
            format!("{} is not a number of calls", quoted(text)),
            format!("write a whole number from 0 to {MAX_CALLS}, as in 100"),
        )
    };
    match whole(text) {
        Some(calls) if calls > MAX_CALLS => Err(wrong().beyond(calls)),
        calls => calls.ok_or_else(wrong),
    }
}

/// A whole percentage.
pub(super) fn percentage(text: &str) -> Result<u8, ScalarFault<u8>> {
    let wrong = || {
        fault(
            format!("{} is not a percentage", quoted(text)),
            "write a whole number from 0 to 100 without a sign, as in 5",
        )
    };
    whole(text).filter(|n| *n <= 100).and_then(|n| u8::try_from(n).ok()).ok_or_else(wrong)
}

/// A percentage with at most two decimals, in units of 0.01 %.
pub(super) fn hundredths(text: &str) -> Result<u16, ScalarFault<u16>> {
    let wrong = || {
        fault(
            format!("{} is not a percentage", quoted(text)),
            "write a number from 0 to 100 with at most two decimals and without a sign, as in 0.25",
        )
    };
    let trimmed = text.trim();
    let (percent, rest) = trimmed.split_once('.').unwrap_or((trimmed, "0"));
    let digits = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !digits(percent, 3) || !digits(rest, 2) {
        return Err(wrong());
    }
    let number = |text: &str| text.parse::<u16>().ok();
    let rest = number(rest).map(|rest_of| if rest.len() == 1 { 10 * rest_of } else { rest_of });
    let percent = number(percent).filter(|percent| *percent <= 100);
    let hundredths = percent.zip(rest).map(|(percent, rest)| 100 * percent + rest);
    hundredths.filter(|share| *share <= 10_000).ok_or_else(wrong)
}

/// The same written down.
pub(super) fn percent(hundredths: u16) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn whole(text: &str) -> Option<u64> {
    let trimmed = text.trim();
    trimmed.bytes().all(|b| b.is_ascii_digit()).then(|| trimmed.parse().ok())?
}

pub(super) const STATISTICS: [&str; 6] = ["Median", "Minimum", "Maximum", "P90", "P95", "P99"];

/// `Median`, `Minimum`, `Maximum`, or `P` and a percentage between 0 and 100.
pub(super) fn statistic(text: &str) -> Option<Statistic> {
    match text {
        "Median" => Some(Statistic::Median),
        "Minimum" => Some(Statistic::Minimum),
        "Maximum" => Some(Statistic::Maximum),
        _ => {
            let digits = text.strip_prefix('P')?;
            if digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
                return None;
            }
            let percent = plain_number(digits)?;
            (percent > 0.0 && percent < 100.0).then_some(Statistic::Quantile(percent / 100.0))
        }
    }
}

/// The relative path of a version's folder, without `./` in front and `/` behind.
pub(super) fn folder(text: &str) -> Result<String, ScalarFault<String>> {
    let path = text.strip_prefix("./").unwrap_or(text);
    let path = path.strip_suffix('/').unwrap_or(path);
    let wrong = |why: &str| {
        fault(
            format!("the path {} {why}", quoted(text)),
            "write a relative path with forward slashes, as in fns/sample_f1",
        )
    };
    if path.is_empty() {
        return Err(wrong("is empty"));
    }
    if path.starts_with('/') || path.as_bytes().get(1) == Some(&b':') {
        return Err(wrong("is absolute"));
    }
    if path.chars().any(|c| c.is_control() || c == '\\') {
        return Err(wrong("contains a backslash or a control character"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(wrong("leaves its folder"));
    }
    if path.split('/').any(|part| part.is_empty() || part == ".") {
        return Err(wrong("has an empty part"));
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(wrong(&format!("is longer than {MAX_PATH_BYTES} bytes")).beyond(path.to_owned()));
    }
    Ok(path.to_owned())
}
