//! What an agent starts as a variation of a service: a folder of the archive that comes with the release, as a version of a function has
//! one, and what it may use of the machine.
//!
//! Where it listens is its runtime's choice, and may be another place after a restart, so no strategy says it. Only forms that listen at
//! `$HOST:$PORT` can be a variation: others listen at a socket, which is no target of a service.
//!
//! Quantities are written as Kubernetes writes them (`resource.Quantity`), without exponents. What no runtime can hold exactly is refused.

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Relative, `/`-separated, never leaves its folder.
    pub path: String,
    /// One of [`Run::FORMS`].
    pub env: String,
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub limits: Resources,
}

impl Run {
    /// The forms that listen at a port.
    pub const FORMS: [&str; 2] = ["program", "image"];
}

/// The most of a machine that something may use; `None`: what the agent's settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Hundredths of a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

impl Resources {
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A quantity of processors, in hundredths; `None`: it is none that can be held.
    #[must_use]
    pub fn read_cpu(text: &str) -> Option<u32> {
        let thousandths = thousandths(text).filter(|all| all % 10 == 0)?;
        u32::try_from(Some(thousandths / 10).filter(|all| CPU.contains(all))?).ok()
    }

    /// A quantity of memory, in bytes; `None`: it is none that can be held.
    #[must_use]
    pub fn read_memory(text: &str) -> Option<u64> {
        let thousandths = thousandths(text).filter(|all| all % 1_000 == 0)?;
        u64::try_from(Some(thousandths / 1_000).filter(|all| MEMORY.contains(all))?).ok()
    }

    /// Its entries as Kubernetes writes them, by their names.
    #[must_use]
    pub fn quantities(self) -> Vec<(&'static str, String)> {
        let cpu = self.cpu.map(|hundredths| ("cpu", format!("{}m", u64::from(hundredths) * 10)));
        let memory = self.memory.map(|bytes| {
            let whole = bytes % MIB == 0;
            ("memory", if whole { format!("{}Mi", bytes / MIB) } else { bytes.to_string() })
        });
        cpu.into_iter().chain(memory).collect()
    }
}

const MIB: u64 = 1024 * 1024;

/// Hundredths of a processor: from a hundredth to a thousand processors.
const CPU: std::ops::RangeInclusive<u128> = 1..=100_000;

/// Bytes of memory: less keeps no process, and no machine has more.
const MEMORY: std::ops::RangeInclusive<u128> = 1024 * 1024..=64 * 1024 * 1024 * 1024 * 1024;

/// What a quantity of processors has to be, for people.
pub const CPU_RULE: &str = "write whole hundredths of a processor, from 10m to 1000, as in 500m or 1.5";

/// What a quantity of memory has to be, for people.
pub const MEMORY_RULE: &str = "write whole bytes from 1Mi to 64Ti, as in 128Mi or 1G";

/// Suffixes, and how many thousandths each stands for.
const SUFFIXES: [(&str, u128); 10] = [
    ("", 1_000),
    ("m", 1),
    ("k", 1_000_000),
    ("M", 1_000_000_000),
    ("G", 1_000_000_000_000),
    ("T", 1_000_000_000_000_000),
    ("Ki", 1_000 << 10),
    ("Mi", 1_000 << 20),
    ("Gi", 1_000 << 30),
    ("Ti", 1_000 << 40),
];

/// The most digits before or behind the point.
const MAX_DIGITS: usize = 15;

/// A quantity in thousandths, exactly.
fn thousandths(text: &str) -> Option<u128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (_, unit) = SUFFIXES.iter().find(|(name, _)| *name == suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |part: &str| part.len() <= MAX_DIGITS && part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || number.ends_with('.') || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let scaled = format!("{whole}{fraction}").parse::<u128>().ok()?.checked_mul(*unit)?;
    let scale = 10_u128.pow(fraction.len() as u32);
    (scaled % scale == 0).then(|| scaled / scale)
}
