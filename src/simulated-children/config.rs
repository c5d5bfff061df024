//! What a fleet is told to be.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{
    area::BoundingBox,
    calls::{Behaviour, Latency, MAX_CALLS_PER_SECOND, Traffic},
    client::CALL_TIMEOUT,
    error::FleetError,
    limits::{MAX_AGENTS, MAX_PACE, MIN_PACE},
    sessions::MAX_SESSION_CALLS,
    timing::{CallClock, MAX_CLOCK_STEP, MIN_CLOCK_STEP},
};
use model::duration;

/// Longest wait asked for: the answer has to come before [`CALL_TIMEOUT`], which is not scaled by the pace either.
const MAX_REAL_WAIT: Duration = CALL_TIMEOUT.saturating_sub(Duration::from_secs(5));

/// Which children are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FleetKind {
    /// As the agents that are deployed.
    #[default]
    Deployed,
    /// With what newer children add to the protocol.
    Modern,
    /// As modern ones, and with the whole strategy in hand: they change shares in place.
    Own,
}

/// A simulated fleet. All durations but `run_for` and `until_idle` are on the children's own clocks, see `pace`.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetConfig {
    /// The manager: `http://HOST:PORT`.
    pub url: String,
    pub agents: usize,
    pub kind: FleetKind,
    /// Everything that is random follows from it.
    pub seed: u64,
    /// Between two polls.
    pub poll: Duration,
    /// Real seconds in a second of a child's clock: at 0.1 everything a child does by itself (its intervals, its
    /// minimum durations, its calls a second) is ten times as fast. What the manager does is not.
    pub pace: f64,
    /// To set up the versions of an offer.
    pub setup: Duration,
    /// To act on the end of a stage.
    pub cleanup: Duration,
    pub traffic: Traffic,
    /// Where the children's areas lie.
    pub spread: BoundingBox,
    pub faults: Faults,
    /// How long a modern child lets the manager wait with an answer; zero: it asks again and again.
    pub wait: Duration,
    /// By which modern children time calls.
    pub clock: CallClock,
    /// Calls of a session at modern children: all of one go to one version, and share a factor of their times. 1: each call goes
    /// by itself.
    pub session_calls: u32,
    /// What modern children report.
    pub runtimes: Vec<String>,
    /// What modern children report.
    pub labels: BTreeMap<String, String>,
    /// Ends the run after this (real) time.
    pub run_for: Option<Duration>,
    /// Ends the run when no child has run an offer for this (real) time, once at least one had.
    pub until_idle: Option<Duration>,
}

/// What goes wrong with the children themselves. Shares are from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// Chance that a child dies instead of making a call; it comes back after `restart_after`.
    pub crash: f64,
    pub restart_after: Duration,
    /// Share of the children that lose the answer to their first poll, and so leave a ghost id.
    pub lose_first_answer: f64,
    /// Chance that a deployed agent with stages left exits after a roll-back; else it walks on.
    pub exit_after_rollback: f64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            crash: 0.0,
            restart_after: Duration::from_secs(10),
            lose_first_answer: 0.0,
            exit_after_rollback: 0.5,
        }
    }
}

impl Default for FleetConfig {
    fn default() -> Self {
        let healthy = Behaviour { latency: Latency::LogNormal { median_ms: 8.0, sigma: 0.3 }, errors: 0.0 };
        Self {
            url: "http://127.0.0.1:9991".into(),
            agents: 20,
            kind: FleetKind::Deployed,
            seed: 7,
            poll: Duration::from_secs(3),
            pace: 1.0,
            setup: Duration::from_secs(1),
            cleanup: Duration::from_secs(1),
            traffic: Traffic {
                // So many that 5 % of what is called while a canary lasts are never none.
                calls_per_second: 200.0,
                base: healthy,
                new: healthy,
                bad: Behaviour { errors: 0.5, ..healthy },
                bad_path: Some("broken".to_owned()),
            },
            spread: BoundingBox { west: 13.3, south: 52.4, east: 13.6, north: 52.6 },
            faults: Faults::default(),
            wait: Duration::from_secs(30),
            clock: CallClock::MICROSECONDS,
            session_calls: 1,
            runtimes: Vec::new(),
            labels: BTreeMap::new(),
            run_for: None,
            until_idle: None,
        }
    }
}

impl FleetConfig {
    /// The real time that an amount of a child's time takes.
    pub(super) fn real(&self, of_child: Duration) -> Duration {
        of_child.mul_f64(self.pace)
    }

    /// The child's time that passes in an amount of real time.
    pub(super) fn of_child(&self, real: Duration) -> Duration {
        real.div_f64(self.pace)
    }

    /// A path, with the wait that a modern child asks for.
    pub(super) fn waiting(&self, path: &str) -> String {
        self.waiting_at_most(path, Duration::MAX)
    }

    /// The same, but no longer than an amount of real time.
    pub(super) fn waiting_at_most(&self, path: &str, longest: Duration) -> String {
        let wait = self.real(self.wait).min(MAX_REAL_WAIT).min(longest).as_millis() as u64;
        if wait == 0 { path.to_owned() } else { format!("{path}?wait={}", duration::show_millis(wait)) }
    }

    /// Checks everything but the address, which is parsed where it is used.
    pub fn validate(&self) -> Result<(), FleetError> {
        if !(1..=MAX_AGENTS).contains(&self.agents) {
            return Err(FleetError::Agents(self.agents));
        }
        if !(MIN_PACE..=MAX_PACE).contains(&self.pace) {
            return Err(FleetError::Pace);
        }
        if !(0.0..=MAX_CALLS_PER_SECOND).contains(&self.traffic.calls_per_second) {
            return Err(FleetError::CallsPerSecond);
        }
        for (name, share) in [
            ("crash", self.faults.crash),
            ("lose-first-answer", self.faults.lose_first_answer),
            ("exit-after-rollback", self.faults.exit_after_rollback),
            ("errors", self.traffic.base.errors),
            ("new-errors", self.traffic.new.errors),
            ("bad-errors", self.traffic.bad.errors),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(FleetError::Share(name));
            }
        }
        if !(MIN_CLOCK_STEP..=MAX_CLOCK_STEP).contains(&self.clock.step) {
            return Err(FleetError::Clock);
        }
        if !(1..=MAX_SESSION_CALLS).contains(&self.session_calls) {
            return Err(FleetError::SessionCalls);
        }
        if self.spread.is_valid() { Ok(()) } else { Err(FleetError::Spread) }
    }
}
