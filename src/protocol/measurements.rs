//! What a node says of its machine, and what was measured there: by functions, and of functions.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{
    WireError,
    read::{at_most, within},
};
use model::MAX_OFFER_ID_LEN;

/// Most samples of a call.
pub const MAX_SAMPLES: usize = 1_000;

/// Between two calls that tell samples, unless more wait than a call may have.
pub const SAMPLES_EVERY: Duration = Duration::from_secs(1);

/// Largest number of a sample.
const MAX_NUMBER: u64 = 1 << 53;

/// How a machine is. What isn't known there is -1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeHealth {
    /// Percent of all processors together.
    pub cpu_usage: i64,
    /// In KiB, as all that is said of memory.
    pub mem_free: i64,
    pub mem_used: i64,
    pub mem_total: i64,
    pub mem_available: i64,
    /// Of the agent itself, in percent of one processor.
    pub proc_cpu_usage: i64,
    pub proc_memory: i64,
    pub proc_vmemory: i64,
    /// Hundredths: 150 are one and a half processes that run or wait, as an average over so many minutes.
    pub load_avg_1: i64,
    pub load_avg_5: i64,
    pub load_avg_15: i64,
    /// Of all network interfaces but the loopback, since the machine was started.
    pub tot_rx_bytes: i64,
    pub tot_rx_pkts: i64,
    pub tot_rx_errs: i64,
    pub tot_tx_bytes: i64,
    pub tot_tx_pkts: i64,
    pub tot_tx_errs: i64,
    /// In bytes, of the file system that the agent has its folder on.
    pub disk_tot_space: i64,
    pub disk_free_space: i64,
}

impl Default for NodeHealth {
    fn default() -> Self {
        Self {
            cpu_usage: -1,
            mem_free: -1,
            mem_used: -1,
            mem_total: -1,
            mem_available: -1,
            proc_cpu_usage: -1,
            proc_memory: -1,
            proc_vmemory: -1,
            load_avg_1: -1,
            load_avg_5: -1,
            load_avg_15: -1,
            tot_rx_bytes: -1,
            tot_rx_pkts: -1,
            tot_rx_errs: -1,
            tot_tx_bytes: -1,
            tot_tx_pkts: -1,
            tot_tx_errs: -1,
            disk_tot_space: -1,
            disk_free_space: -1,
        }
    }
}

/// What was measured on a node, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Another one after each start of the program.
    pub run: u64,
    /// The number of the first; each has one more than the one before. What was told twice counts once.
    pub first: u64,
    /// At most [`MAX_SAMPLES`].
    pub all: Vec<Sample>,
}

impl Samples {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number that the next one will have.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.first.saturating_add(self.all.len() as u64)
    }
}

/// When calls tell samples: one in [`SAMPLES_EVERY`], and one after the other while more wait than a call may have.
#[derive(Debug, Default)]
pub struct SamplesPace {
    /// When all that waited were told last.
    told: Option<Instant>,
}

impl SamplesPace {
    /// The samples of a call that is made now: those that come next of all that wait, or none yet.
    pub fn due(&mut self, now: Instant, next: impl FnOnce() -> Samples) -> Samples {
        if self.told.is_some_and(|told| now.duration_since(told) < SAMPLES_EVERY) {
            return Samples::default();
        }
        let samples = next();
        if (1..MAX_SAMPLES).contains(&samples.all.len()) {
            self.told = Some(now);
        }
        samples
    }
}

/// Something that was measured on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When it was measured, in milliseconds since 1970.
    pub at_ms: i64,
    #[serde(flatten)]
    pub what: Measured,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// How long something took that a function began and ended. `collector`: the instance of `metrics-collector` that was told so.
    /// `logical`: the logical id of the function.
    Function { collector: String, logical: String, ms: u64 },
    /// How long something took that functions of a workflow began and ended.
    Workflow { collector: String, ms: u64 },
    /// What a collector was told before counts no more.
    Reset { collector: String },
    /// How long an instance had an event in hand.
    Execution { instance: String, micros: u64 },
    /// How long an event was on its way to an instance.
    Transfer { instance: String, micros: u64 },
}

impl Measured {
    /// The collector, or the instance that it is about.
    #[must_use]
    pub fn instance(&self) -> &str {
        match self {
            Self::Function { collector, .. }
            | Self::Workflow { collector, .. }
            | Self::Reset { collector } => collector,
            Self::Execution { instance, .. } | Self::Transfer { instance, .. } => instance,
        }
    }
}

pub(crate) fn check(samples: &Samples) -> Result<(), WireError> {
    let Samples { first, all: samples, .. } = samples;
    at_most("samples.all", samples.len(), MAX_SAMPLES)?;
    if *first > MAX_NUMBER {
        return Err(WireError::new("`samples.first` is too large"));
    }
    for sample in samples {
        within("samples.all.instance", sample.what.instance(), MAX_OFFER_ID_LEN)?;
        if let Measured::Function { logical, .. } = &sample.what {
            within("samples.all.function.logical", logical, MAX_OFFER_ID_LEN)?;
        }
    }
    Ok(())
}
