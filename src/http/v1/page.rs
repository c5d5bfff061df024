//! Pages of lists.

use std::str::FromStr;

use crate::http::problem::Problem;

/// Items of a page, unless asked otherwise.
pub const DEFAULT_LIMIT: u32 = 100;

/// Most items of a page.
pub const MAX_LIMIT: u32 = crate::store::MAX_PAGE;

/// Children or assignments that one question to the engine looks at: some hundred microseconds, during which
/// everybody else waits.
pub const SCAN_SLICE: usize = 10_000;

/// The size of a page.
pub fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    match asked {
        None => Ok(DEFAULT_LIMIT),
        Some(limit @ 1..=MAX_LIMIT) => Ok(limit),
        Some(other) => Err(Problem::bad_request(format!("`limit` is 1 to {MAX_LIMIT}, not {other}"))),
    }
}

/// Where a page starts, as the page before said.
pub fn after<T: FromStr>(asked: Option<&str>) -> Result<Option<T>, Problem> {
    let read = |text: &str| text.parse().map_err(|_| bad_after());
    asked.filter(|text| !text.is_empty()).map(read).transpose()
}

pub fn bad_after() -> Problem {
    Problem::bad_request("`after` must be what `next` of the page before said")
}
