//! The small languages inside an analysis' scalars: shares, tolerances, quantiles, weights, limits.

use std::time::Duration;

use super::{
    super::{
        diagnostic::quoted,
        scalar::{self, ScalarFault, fault, plain_number},
    },
    MAX_ALPHA, MAX_LIMIT, MAX_TOLERANCE, MAX_WEIGHT,
};

/// Longest name of a namespace, in bytes.
const MAX_NAMESPACE_BYTES: usize = 63;

/// A tolerance as it is written; what its unit may be depends on the metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Written {
    Ratio(f64),
    Time(Duration),
    Number(f64),
}

pub(super) fn tolerance(text: &str) -> Result<Written, ScalarFault<Written>> {
    let trimmed = text.trim();
    let written = if let Some(percent) = trimmed.strip_suffix('%') {
        plain_number(percent.trim_end()).map(|percent| Written::Ratio(percent / 100.0))
    } else if let Some(number) = plain_number(trimmed) {
        Some(Written::Number(number))
    } else {
        scalar::duration(trimmed).ok().map(Written::Time)
    };
    let wrong = || {
        fault(
            format!("{} is no tolerance", quoted(text)),
            "write a share of the other side's values, as in 5%, or an amount, as in 20ms",
        )
    };
    match written.ok_or_else(wrong)? {
        Written::Ratio(n) | Written::Number(n) if n < 0.0 => Err(wrong()),
        Written::Ratio(0.0) | Written::Number(0.0) | Written::Time(Duration::ZERO) => Err(fault(
            "a tolerance of 0 would ask for a version that is better, since no two are exactly alike",
            "write how much worse is still good, as in 5%",
        )),
        Written::Ratio(share) if share > MAX_TOLERANCE => Err(fault(
            format!("a tolerance of {} lets everything pass", quoted(text)),
            format!("write at most {}%", MAX_TOLERANCE * 100.0),
        )
        .beyond(Written::Ratio(share))),
        written => Ok(written),
    }
}

/// `0.1%` or `0.001`, from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, ScalarFault<f64>> {
    let trimmed = text.trim();
    let value = match trimmed.strip_suffix('%') {
        Some(percent) => plain_number(percent.trim_end()).map(|percent| percent / 100.0),
        None => plain_number(trimmed),
    };
    value.filter(|share| (0.0..=1.0).contains(share)).map(|share| share + 0.0).ok_or_else(|| {
        fault(format!("{} is no share", quoted(text)), "write a percentage up to 100, as in 0.1%, or 0.001")
    })
}

/// A relative standard deviation: above 0, below 1.
pub(super) fn variation(text: &str) -> Result<f64, ScalarFault<f64>> {
    let wrong = |_| {
        fault(
            format!("{} is no variation from run to run", quoted(text)),
            "write a percentage above 0 and below 100, as in 3%",
        )
    };
    let value = share(text).map_err(wrong)?;
    if value > 0.0 && value < 1.0 { Ok(value) } else { Err(wrong(fault("", ""))) }
}

/// `p99`, `P99.9` or `0.99`: above 0, below 1.
pub(super) fn quantile(text: &str) -> Result<f64, ScalarFault<f64>> {
    let trimmed = text.trim();
    let value = match trimmed.strip_prefix(['p', 'P']) {
        Some(percent) => plain_number(percent).map(|percent| percent / 100.0),
        None => plain_number(trimmed),
    };
    value.filter(|value| *value > 0.0 && *value < 1.0).ok_or_else(|| {
        fault(format!("{} is no quantile", quoted(text)), "write one between p0 and p100, as in p99")
    })
}

pub(super) fn alpha(text: &str) -> Result<f64, ScalarFault<f64>> {
    let wrong = || {
        fault(
            format!("{} is no alpha", quoted(text)),
            format!(
                "write the share of good releases that may be stopped by mistake, above 0 and at most {MAX_ALPHA}, as in 0.05"
            ),
        )
    };
    match share(text).ok().filter(|alpha| *alpha > 0.0) {
        Some(alpha) if alpha > MAX_ALPHA && alpha < 1.0 => Err(wrong().beyond(alpha)),
        Some(alpha) if alpha <= MAX_ALPHA => Ok(alpha),
        _ => Err(wrong()),
    }
}

pub(super) fn weight(text: &str) -> Result<f64, ScalarFault<f64>> {
    let wrong = || {
        fault(
            format!("{} is no weight", quoted(text)),
            format!("write a number above 0 and at most {MAX_WEIGHT}, as in 2"),
        )
    };
    match plain_number(text.trim()).filter(|weight| *weight > 0.0) {
        Some(weight) if weight > MAX_WEIGHT => Err(wrong().beyond(weight)),
        weight => weight.ok_or_else(wrong),
    }
}

pub(super) fn limit(text: &str) -> Result<u32, ScalarFault<u32>> {
    let trimmed = text.trim();
    let digits = !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit());
    let wrong = || {
        fault(
            format!("{} is no limit", quoted(text)),
            format!("write a whole number from 0 to {MAX_LIMIT}, as in 2"),
        )
    };
    match trimmed.parse().ok().filter(|_| digits) {
        Some(limit) if limit > MAX_LIMIT => Err(wrong().beyond(limit)),
        limit => limit.ok_or_else(wrong),
    }
}

/// A number of calls, above 0.
pub(super) fn calls(text: &str) -> Result<u64, ScalarFault<u64>> {
    let trimmed = text.trim();
    let digits = !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit());
    trimmed.parse().ok().filter(|calls| digits && *calls > 0).ok_or_else(|| {
        fault(format!("{} is no number of calls", quoted(text)), "write a whole number above 0, as in 20000")
    })
}

/// The name of a namespace (RFC 1123): a label of lower-case letters, digits and `-`.
pub(super) fn namespace(text: &str) -> Result<String, ScalarFault<String>> {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let sound =
        !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-');
    let wrong = || {
        fault(
            format!("{} is no namespace", quoted(text)),
            format!(
                "use at most {MAX_NAMESPACE_BYTES} lower-case letters, digits and -, as in namespace: shop"
            ),
        )
    };
    match sound.then(|| text.to_owned()) {
        Some(text) if text.len() > MAX_NAMESPACE_BYTES => Err(wrong().beyond(text)),
        text => text.ok_or_else(wrong),
    }
}

/// A bound of an expected range.
pub(super) fn bound(text: &str) -> Result<f64, ScalarFault<f64>> {
    plain_number(text.trim()).map(|value| value + 0.0).ok_or_else(|| {
        fault(format!("{} is not a number", quoted(text)), "write a plain number, as in 0.1 or 250")
    })
}

/// `true` or `false`.
pub(super) fn truth(text: &str) -> Result<bool, ScalarFault<bool>> {
    match text.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(fault(format!("{} is neither true nor false", quoted(text)), "write true or false")),
    }
}

/// An expression of RFC 9535.
pub(super) fn json_path(text: &str) -> Result<String, ScalarFault<String>> {
    match serde_json_path::JsonPath::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(fault(
            format!("{} is no path into JSON: {error}", quoted(text)),
            "write it as RFC 9535 has it, as in $.values[*]",
        )),
    }
}
