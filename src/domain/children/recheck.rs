//! When children are looked at again, because whose place they are in shows only with time.
//!
//! A newcomer is looked at at some ages: whom it replaces is silent for at least as long as it is there. A child that owes
//! a roll-back is looked at for as long as it owes: whoever stands in its place now may be known by then. What one look
//! finds may leave more to be found at the next.
//!
//! Kept in memory. After a start it follows from who is there.

use super::absence::Absence;
use model::ChildKey;

/// The ages, as multiples of the silence that shows an idle child to be gone (the setting `absence`). Ascending.
const AGES: [f64; 6] = [1.05, 2.0, 4.0, 7.5, 12.05, 30.0];

/// A debt older than this is looked at no more, in milliseconds of serving time; its heir may still come and call.
const LONGEST_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// A look that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recheck {
    /// Serving time in milliseconds.
    pub due_ms: u64,
    pub child: ChildKey,
    /// When what it is for began, a newcomer's life or a debt: ages count from there.
    begun_ms: u64,
}

impl Recheck {
    /// The first look at what begins now.
    pub(crate) fn first(child: ChildKey, begun_ms: u64, absence: Absence) -> Self {
        Self { due_ms: begun_ms + age_ms(AGES[0], absence), child, begun_ms }
    }

    /// The first that is still to come, of what began then; `None`: all are over.
    pub(super) fn pending(child: ChildKey, begun_ms: u64, now_ms: u64, absence: Absence) -> Option<Self> {
        let mut all = AGES.iter().map(|age| begun_ms + age_ms(*age, absence));
        all.find(|due| *due > now_ms).map(|due_ms| Self { due_ms, child, begun_ms })
    }

    /// The one after this. `found`: this one found something, so there may be more.
    pub(crate) fn next(self, found: bool, owes: bool, now_ms: u64, absence: Absence) -> Option<Self> {
        if found {
            let due_ms = now_ms + absence.idle_ms() / 10;
            return Some(Self { due_ms, ..self });
        }
        let age = now_ms.saturating_sub(self.begun_ms).max(1);
        // Ever more rarely: a debt may last for ever.
        let once_more = || (owes && age < LONGEST_MS).then_some(Self { due_ms: now_ms + age, ..self });
        Self::pending(self.child, self.begun_ms, now_ms, absence).or_else(once_more)
    }

    /// No look that is due by a serving time is above this.
    pub(super) const fn end_of(now_ms: u64) -> Self {
        Self { due_ms: now_ms, child: ChildKey(u32::MAX), begun_ms: u64::MAX }
    }
}

fn age_ms(age: f64, absence: Absence) -> u64 {
    absence.idle.mul_f64(age).as_millis() as u64
}
