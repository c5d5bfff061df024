//! A line that `HAProxy` logged of a call.

use traffic::Failure;

use super::MARK;
use crate::log_line::{Line, NOTHING, Outcome, group, moment};

/// Of these fields; none where one makes no sense.
pub fn read_line<'l>(fields: &[&'l str; 15]) -> Option<Line<'l>> {
    let [service, backend, bucket, rule, chosen, status, queue, connect, header, data, state, rest @ ..] =
        *fields;
    let [retries, up, down, process] = rest;
    let variation = backend.strip_prefix(MARK)?.strip_prefix(service)?;
    let status = if NOTHING.contains(&status) { None } else { Some(status.parse::<i32>().ok()?) };
    let mut took_ms = 0_u32;
    for part in [queue, connect, header, data] {
        // One that didn't come so far is -1.
        let ms: i64 = part.parse().ok()?;
        took_ms = took_ms.saturating_add(u32::try_from(ms.max(0)).unwrap_or(u32::MAX));
    }
    let is_queued = !queue.starts_with('-');
    let outcome = outcome_of(state, status, took_ms, is_queued)?;
    let bytes = (up.parse().ok()?, down.parse().ok()?);
    Some(Line {
        service,
        variation: variation.strip_prefix(':'),
        group: group(bucket).ok()?,
        by_header: !NOTHING.contains(&rule),
        chosen_ms: moment(chosen).ok()?,
        outcome,
        sent_again: retries.trim_start_matches('+').parse().ok()?,
        bytes: status.is_none().then_some(bytes),
        process: Some(process.parse().ok()?),
    })
}

/// What the two letters say in which a stream ended: who ended it, and in which state. `is_queued`: some server was to have it.
fn outcome_of(state: &str, status: Option<i32>, took_ms: u32, is_queued: bool) -> Option<Outcome> {
    let mut letters = state.chars();
    let (who, when) = (letters.next()?, letters.next()?);
    Some(match (who, when) {
        ('-', _) => match status {
            None => Outcome::Passed { took_ms },
            Some(101) => Outcome::Upgraded,
            Some(status) => {
                let status = u16::try_from(status).ok().filter(|status| (100..=599).contains(status))?;
                Outcome::Answered { status, took_ms }
            }
        },
        // The caller, or its time was up; or an operator ended it.
        ('C' | 'c' | 'K' | 'U', _) | ('P' | 'R' | 'I' | 'L', 'R' | '-') => Outcome::CallerGone,
        (_, 'C') if !is_queued => Outcome::NoTarget,
        // There was no place, or no connection.
        (_, 'Q' | 'C') => Outcome::Failed(Failure::Refused),
        ('s', 'H') => Outcome::Failed(Failure::TimedOut),
        ('P', 'H') => Outcome::Failed(Failure::Nonsense),
        (_, 'H') => Outcome::Failed(Failure::Died),
        ('S' | 's' | 'P' | 'R' | 'I' | 'D' | 'L', _) => Outcome::BrokenOff,
        _ => return None,
    })
}
