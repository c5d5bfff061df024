//! How fast the offers of a release are handed out at polls: to so many at once, and not to all in the same moment.
//!
//! - *Places* (`max_in_progress`): the engine gives one to whoever asks while there is one; a poll that waits is woken
//!   when one becomes free.
//! - *Jitter* (`limits.offer_jitter`): when many children may begin at once, each is shown its offer after a delay of
//!   its own, which follows from its number, so that it is the same whoever asks and after a restart. Undos are never
//!   delayed, nor is what a child is offered because of its own result. Off unless configured: agents that poll every
//!   3 s come spread over 3 s anyway, so it only pays where downloads take longer than that in all.
//!
//! Invariant: no delay is longer than a part of the time that the child has to fetch the offer. Deliberately not here:
//! a download by a child that knows its offer already is never refused.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::{Notify, futures::Notified};

use domain::release::{
    assignment::ReleaseEvent,
    settings::Settings,
    state::{Release, Snapshot},
};
use model::ChildKey;

/// No delay is longer than this part of the time to fetch an offer.
const LONGEST_DELAY: u64 = 4;

/// How fast the offers of one release are handed out.
#[derive(Debug, Default)]
pub struct Pace {
    /// Whether places are limited.
    is_limited: bool,
    places: AtomicU32,
    freed: Notify,
    jitter_ms: u64,
    /// Serving time at which many were last allowed to begin.
    since: AtomicU64,
}

impl Pace {
    pub(super) fn of(release: &Release, settings: &Settings) -> Self {
        let longest = settings.shortest_offer_ms(&release.strategy) / LONGEST_DELAY;
        let pace = Self {
            is_limited: release.gates.levels.at_once.is_some(),
            jitter_ms: (settings.offer_jitter.as_millis() as u64).min(longest),
            ..Self::default()
        };
        pace.renew(release);
        pace
    }

    /// As the release stands now.
    pub(super) fn renew(&self, release: &Release) {
        self.since.store(began_ms(release), Ordering::Relaxed);
        if !self.is_limited {
            return;
        }
        let at_once = release.gates.levels.at_once;
        let places =
            at_once.map_or(0, |most| release.places(most)).saturating_sub(release.counts.in_progress);
        let before = self.places.swap(places, Ordering::AcqRel);
        for _ in before..places {
            self.freed.notify_one();
        }
    }

    /// Whether one more child may be shown its offer.
    pub fn has_place(&self) -> bool {
        !self.is_limited || self.places.load(Ordering::Acquire) > 0
    }

    /// Ends when a place becomes free. Made and enabled before [`Self::has_place`] is asked, it misses none.
    pub fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// For how long, in milliseconds, nothing is to be shown to a child; `None`: its time has come. `is_admitted`: it has
    /// one of the places already, and keeps others from it.
    pub fn early_ms(&self, child: ChildKey, is_admitted: bool, served_ms: u64) -> Option<u64> {
        if self.jitter_ms == 0 || (self.is_limited && is_admitted) {
            return None;
        }
        let due = self.since.load(Ordering::Relaxed) + delay_ms(child, self.jitter_ms);
        due.checked_sub(served_ms).filter(|left| *left > 0)
    }
}

/// From 0 to `jitter_ms`, spread evenly over children, also over those with neighbouring numbers (Fibonacci hashing).
pub fn delay_ms(child: ChildKey, jitter_ms: u64) -> u64 {
    const GOLDEN: u32 = 0x9e37_79b9;
    let spread = u64::from(child.0.wrapping_mul(GOLDEN));
    (spread * (jitter_ms + 1)) >> u32::BITS
}

/// When many were last allowed to begin, in serving time.
fn began_ms(release: &Release) -> u64 {
    let for_many = |fact: &ReleaseEvent| {
        matches!(
            fact,
            ReleaseEvent::Resumed { .. }
                | ReleaseEvent::FailuresAccepted { .. }
                | ReleaseEvent::Opened { .. }
                | ReleaseEvent::StageSkipped { .. }
                | ReleaseEvent::UntestedRolledOut
                | ReleaseEvent::RoutersBack
                | ReleaseEvent::Retried
        )
    };
    let fact = release.facts.iter().rev().find(|dated| for_many(&dated.fact)).map_or(0, |dated| dated.at);
    // The clock of the release stood still during pauses, of which all but the present one are before the last fact.
    release.started_at.max(release.gates.stand.opened).max(fact) + release.clock.paused_ms
}

/// The releases whose places are counted.
pub(super) fn limited(state: &Snapshot) -> impl Iterator<Item = &Release> {
    state.releases.values().filter(|release| release.gates.levels.at_once.is_some())
}
