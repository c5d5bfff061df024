//! The English of what a release is compared by.

use super::count;

pub const MEAN: &str = "Mean";
pub const MEDIAN: &str = "Median";
pub const P95: &str = "95th percentile";
pub const P99: &str = "99th percentile";
pub const RATE: &str = "Share of calls";
pub const VALUES: &str = "Values";
pub const COUNTED: &str = "Counted";
pub const ESTIMATE: &str = "Estimate";
pub const LOWER: &str = "Lower end";
pub const UPPER: &str = "Upper end";
pub const AT_LEAST: &str = "At least";
pub const AT_MOST: &str = "At most";
pub const FLOOR: &str = "Nothing fails up to";
pub const BEARS_AT_LEAST: &str = "at least";
pub const BEARS_AT_MOST: &str = "at most";

pub fn bears(word: &str, value: &str) -> String {
    format!("; the strategy bears {word} {value}")
}

pub fn quantiles(name: &str, calls: &str, [p50, p95, p99]: [&str; 3]) -> String {
    format!("{name}: {calls}, median {p50}, 95th percentile {p95}, 99th {p99}")
}

pub fn values(number: u64) -> String {
    count(number, "value", "values")
}

pub fn calls(number: u64) -> String {
    count(number, "call", "calls")
}
