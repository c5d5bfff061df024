//! What was read back, and what that means.

use std::sync::Arc;

use traffic::observed::{Difference, ObservedConfig, differences};

use super::{Differences, DriftAction, RouterEvent, Stand, StateMachine, Trouble, TroubleKind, UNREADABLE};

/// So often is a drift repaired within [`REPAIRS_WITHIN_MS`], then it is left alone.
pub const REPAIRS: usize = 3;
pub const REPAIRS_WITHIN_MS: u64 = 3_600_000;

/// Pauses before a router that can't be read is read again: the first, and the longest.
const READ_AGAIN_MS: u64 = 200;
const READ_AGAIN_AT_LAST_MS: u64 = 5_000;

/// While it is waited that the router does what it was told, it is looked at after these pauses: the first, and the longest.
const LOOK_SOON_MS: u64 = 20;
const LOOK_SOON_AT_LAST_MS: u64 = 500;

/// What is done about a router that does something else than it was seen to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDrift {
    /// Tell it again; too often, and it is left alone.
    #[default]
    Repair,
    /// Leave it alone until somebody says otherwise.
    Pause,
    /// Leave it alone: whoever changed it has the right to. One that runs by none of ours any more, or by an older state, was not
    /// changed but has lost what it was told: that is repaired.
    Accept,
}

impl StateMachine {
    pub(super) fn was_read(&mut self, read: Result<ObservedConfig, Trouble>, now_ms: u64) {
        self.look += 1;
        let seen = match read {
            Ok(seen) => Arc::new(seen),
            Err(trouble) => return self.was_not_read(trouble, now_ms),
        };
        self.reading.went_well();
        self.seen_ms = Some(now_ms);
        self.look_ms = now_ms + self.settings.look_every_ms;
        if !std::mem::replace(&mut self.is_reached, true) {
            self.trouble = None;
            self.telling.went_well();
            self.say(RouterEvent::Back);
        }
        if let Some(number) = seen.number {
            self.note_newest(number);
        }
        self.judge(&seen, now_ms);
        self.note_drains(&seen, now_ms);
        if self.seen.as_ref() != Some(&seen) {
            self.seen = Some(seen);
            self.weigh_what_was_seen(now_ms);
        }
    }

    fn was_not_read(&mut self, trouble: Trouble, now_ms: u64) {
        self.look_ms = self.reading.failed(now_ms, READ_AGAIN_MS, READ_AGAIN_AT_LAST_MS);
        if let TroubleKind::Older(newest) = trouble.kind {
            self.note_newest(newest);
        }
        if self.reading.failures() >= UNREADABLE && std::mem::replace(&mut self.is_reached, false) {
            self.trouble = Some(trouble.text.clone());
            self.say(RouterEvent::Away { text: trouble.text });
            self.weigh(now_ms);
        }
    }

    /// Compares what was read with what was told.
    fn judge(&mut self, seen: &ObservedConfig, now_ms: u64) {
        if self.superseded_by().is_some() {
            return;
        }
        let Some(told) = self.told.clone() else { return };
        let found = differences(&told.effective.wanted, seen);
        match (&self.stand, found.is_empty()) {
            (Stand::Telling, true) => {
                self.stand = Stand::InForce;
                self.trouble = None;
                let number = told.effective.wanted.number;
                self.say(RouterEvent::InForce { number, departures: told.effective.departures.clone() });
            }
            (Stand::Telling, false) => {
                let waited_ms = now_ms.saturating_sub(told.at_ms);
                if waited_ms < self.settings.obey_ms {
                    self.look_ms = now_ms + waited_ms.clamp(LOOK_SOON_MS, LOOK_SOON_AT_LAST_MS);
                    return;
                }
                self.tell_later(now_ms);
                let text = format!("it took what it was told and does something else: {}", first(&found));
                self.troubled(text);
            }
            (Stand::InForce, true) => {}
            (Stand::Held { .. }, true) => {
                self.stand = Stand::InForce;
                self.trouble = None;
                self.say(RouterEvent::DriftOver { number: told.effective.wanted.number });
                // Targets may have gone or come while it was left alone.
                self.weigh(now_ms);
            }
            (Stand::Held { differences, .. }, false) if *differences == found => {}
            (Stand::InForce | Stand::Held { is_accepted: true, .. }, false) => self.drifted(found, now_ms),
            (Stand::Held { is_accepted: false, .. }, false) => self.hold(found, DriftAction::Paused),
        }
    }

    /// It did what it was told, and does something else now.
    fn drifted(&mut self, found: Vec<Difference>, now_ms: u64) {
        let since_ms = now_ms.saturating_sub(REPAIRS_WITHIN_MS);
        self.repairs.retain(|at| *at > since_ms || since_ms == 0);
        let is_lost = found.iter().any(|one| matches!(one, Difference::Number { .. }));
        let then = match self.settings.on_drift {
            OnDrift::Pause => DriftAction::Paused,
            OnDrift::Accept if !is_lost => DriftAction::Accepted,
            OnDrift::Repair | OnDrift::Accept if self.repairs.len() >= REPAIRS => {
                DriftAction::PausedAfterRepairs
            }
            OnDrift::Repair | OnDrift::Accept => DriftAction::Repaired,
        };
        if then == DriftAction::Repaired {
            self.repairs.push_back(now_ms);
            self.say(RouterEvent::Drift { differences: Differences::from(&*found), then });
            self.tell_again(now_ms);
        } else {
            self.hold(found, then);
        }
    }

    fn hold(&mut self, found: Vec<Difference>, then: DriftAction) {
        let is_accepted = then == DriftAction::Accepted;
        self.trouble = (!is_accepted).then(|| format!("it is left alone, and differs: {}", first(&found)));
        self.say(RouterEvent::Drift { differences: Differences::from(&*found), then });
        self.stand = Stand::Held { is_accepted, differences: found };
    }

    /// Somebody has it repaired.
    pub(super) fn repair(&mut self, now_ms: u64) {
        self.repairs.clear();
        self.telling.went_well();
        self.trouble = None;
        self.tell_again(now_ms);
    }
}

/// The first of some differences, and how many more there are.
fn first(found: &[Difference]) -> String {
    let Some(first) = found.first() else { return String::new() };
    let more = found.len() - 1;
    if more == 0 { first.to_string() } else { format!("{first}, and {more} more") }
}
