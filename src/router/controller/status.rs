use std::sync::Arc;

use traffic::{desired::Number, health::Effective, observed::ObservedConfig};

use super::{Stand, StateMachine};

/// Where a router stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    pub phase: Phase,
    pub wanted: Option<Number>,
    /// The newest state that it was seen to have, or said to have had, whoever told it that.
    pub newest: Option<Number>,
    /// What is to be in force.
    pub effective: Option<Arc<Effective>>,
    /// What it was seen to do last, and when that was on the clock of whoever leads it, in milliseconds.
    pub seen: Option<Arc<ObservedConfig>>,
    pub seen_ms: Option<u64>,
    /// It could be read when that was tried last.
    pub is_reached: bool,
    /// What stands in the way, in one line.
    pub trouble: Option<String>,
    /// It didn't take what it was told last, which is tried again.
    pub is_refused: bool,
    /// How often a drift was repaired within the last hour.
    pub repairs: usize,
    pub draining: Vec<Draining>,
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Nothing is wanted yet.
    #[default]
    Idle,
    /// Names of targets have no address yet, or the router was not read yet.
    Waiting,
    /// It is being told, or is to show that it does it.
    Telling,
    /// It was, when it was read last: whether it could be read since says [`Status::is_reached`].
    InForce,
    /// It differs, and is left alone until somebody says otherwise.
    Paused,
    /// It differs, and may.
    Accepted,
    /// Somebody else leads it.
    Superseded,
}

/// A variation that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draining {
    pub service: String,
    pub variation: String,
    /// It has no share any more, since then.
    pub since_ms: Option<u64>,
    pub left: Option<u64>,
}

impl StateMachine {
    #[must_use]
    pub fn status(&self) -> Status {
        let draining = self.drains.iter().map(|((service, variation), drain)| Draining {
            service: service.clone(),
            variation: variation.clone(),
            since_ms: drain.since_ms,
            left: drain.left,
        });
        Status {
            phase: self.phase(),
            wanted: self.wanted.as_ref().map(|wanted| wanted.number),
            newest: self.newest,
            effective: self.effective.clone(),
            seen: self.seen.clone(),
            seen_ms: self.seen_ms,
            is_reached: self.is_reached,
            trouble: self.trouble.clone(),
            is_refused: self.is_refused,
            repairs: self.repairs.len(),
            draining: draining.collect(),
        }
    }

    fn phase(&self) -> Phase {
        if self.wanted.is_none() {
            return Phase::Idle;
        }
        if self.superseded_by().is_some() {
            return Phase::Superseded;
        }
        match self.stand {
            Stand::InForce => Phase::InForce,
            Stand::Held { is_accepted: true, .. } => Phase::Accepted,
            Stand::Held { is_accepted: false, .. } => Phase::Paused,
            Stand::Telling if self.effective.is_none() => Phase::Waiting,
            Stand::Telling => Phase::Telling,
        }
    }
}
