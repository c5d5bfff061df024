//! A line that nginx logged of a call.

use traffic::Failure;

use crate::log_line::{Line, NOTHING, Outcome, group, moment};

/// A call of HTTP, of these fields; none where one makes no sense.
pub fn read_line<'l>(fields: &[&'l str; 16]) -> Option<Line<'l>> {
    let [service, variation, bucket, rule, chosen, status, answered, connect, header, time, rest @ ..] =
        *fields;
    let [received, sent, done, addresses, method, length] = rest;
    let status: u16 = status.parse().ok()?;
    let tries = tries(addresses).count();
    let is_connected = tries > 0 && number(last(connect)).is_some();
    let is_answered = is_connected && number(last(header)).is_some() && last(answered).parse::<u16>().is_ok();
    let outcome = match status {
        _ if tries == 0 => Outcome::CallerGone,
        CALLER_GONE => Outcome::CallerGone,
        // It names the upstream where it tried none of its servers.
        _ if !is_connected && !self::tries(addresses).any(is_address) => Outcome::NoTarget,
        _ if !is_connected => Outcome::Failed(Failure::Refused),
        GATEWAY_TIMEOUT if !is_answered => Outcome::Failed(Failure::TimedOut),
        _ if !is_answered => Outcome::Failed(Failure::Died),
        UPGRADED => Outcome::Upgraded,
        // Where the variation breaks off, nginx has done what it could, too. Without a length that isn't seen.
        100..=599 if done == "OK" && has_all(status, method, (last(received), length))? => {
            let took = self::tries(time).filter_map(number).fold(0, u32::saturating_add);
            Outcome::Answered { status, took_ms: took }
        }
        100..=599 if done == "OK" => Outcome::BrokenOff,
        // Who leaves takes less than has come; where the variation breaks off, all that came was passed on before.
        100..=599 if sent.parse::<u64>().ok()? >= last(received).parse::<u64>().ok()? => Outcome::BrokenOff,
        100..=599 => Outcome::CallerGone,
        _ => return None,
    };
    Some(Line {
        service,
        variation: Some(variation).filter(|name| !NOTHING.contains(name)),
        group: group(bucket).ok()?,
        by_header: !NOTHING.contains(&rule),
        chosen_ms: moment(chosen).ok()?,
        outcome,
        sent_again: u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX),
        bytes: None,
        process: None,
    })
}

/// A session of TCP, of these fields.
pub fn read_stream_line<'l>(fields: &[&'l str; 10]) -> Option<Line<'l>> {
    let [service, variation, bucket, ended, status, time, up, down, addresses, process] = *fields;
    let (took_ms, tries) = (number(time)?, tries(addresses).count());
    let outcome = match status.parse::<u16>().ok()? {
        // Also where the variation broke it: nginx doesn't tell.
        200 => Outcome::Passed { took_ms },
        // It names the upstream where it tried none of its servers.
        BAD_GATEWAY if !self::tries(addresses).any(is_address) => Outcome::NoTarget,
        BAD_GATEWAY => Outcome::Failed(Failure::Refused),
        // What came was none of its protocol, or nginx itself had no room for it.
        400..=599 => Outcome::CallerGone,
        _ => return None,
    };
    Some(Line {
        service,
        variation: Some(variation).filter(|name| !NOTHING.contains(name)),
        group: group(bucket).ok()?,
        by_header: false,
        chosen_ms: moment(ended).ok()?.map(|ended| ended.saturating_sub(took_ms.into())),
        outcome,
        sent_again: u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX),
        bytes: Some((up.parse().ok()?, down.parse().ok()?)),
        process: Some(process.parse().ok()?),
    })
}

/// Whether an answer has as many bytes as it says that it has.
fn has_all(status: u16, method: &str, (received, length): (&str, &str)) -> Option<bool> {
    let has_none = method == "HEAD" || matches!(status, 204 | 304);
    if has_none || NOTHING.contains(&length) {
        return Some(true);
    }
    Some(received.parse::<u64>().ok()? >= length.parse::<u64>().ok()?)
}

/// nginx writes this where the caller left before there was an answer.
const CALLER_GONE: u16 = 499;
const BAD_GATEWAY: u16 = 502;
const GATEWAY_TIMEOUT: u16 = 504;
const UPGRADED: u16 = 101;

/// What nginx writes of each attempt, in their order.
fn tries(field: &str) -> impl Iterator<Item = &str> {
    attempts(field).filter(|one| !NOTHING.contains(one))
}

/// Also those behind a redirect within nginx, which a variation may ask for.
fn attempts(field: &str) -> impl Iterator<Item = &str> {
    field.split(", ").flat_map(|one| one.split(" : "))
}

/// Whether it is that of a server, and not the name of an upstream.
fn is_address(tried: &str) -> bool {
    tried.contains(':')
}

/// What it writes of the last one.
fn last(field: &str) -> &str {
    attempts(field).last().unwrap_or_default()
}

/// Seconds with three decimals, in milliseconds.
fn number(seconds: &str) -> Option<u32> {
    let (seconds, decimals) = seconds.split_once('.')?;
    let is_number = decimals.len() == 3 && decimals.bytes().all(|byte| byte.is_ascii_digit());
    let ms: u32 = decimals.parse().ok().filter(|_| is_number)?;
    Some(seconds.parse::<u32>().ok()?.saturating_mul(1_000).saturating_add(ms))
}
