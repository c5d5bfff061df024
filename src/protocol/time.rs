//! Times as the API shows them: RFC 3339 in UTC.

use jiff::Timestamp;

use model::Now;

/// An instant from milliseconds since 1970.
pub fn rfc3339(wall_ms: i64) -> String {
    Timestamp::from_millisecond(wall_ms).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

/// The wall time of an instant of serving time in this life.
pub fn of_served(served_ms: u64, now: Now) -> String {
    let ago = now.served_ms.saturating_sub(served_ms);
    rfc3339(now.wall_ms.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX)))
}
