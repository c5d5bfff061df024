use std::{env, time::Duration};

/// How much of a load is made at once: one part of twenty, so that a long run goes on where it was interrupted.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Which part; its seed, too.
    pub part: u64,
    pub longest_stage: Duration,
}

/// How many parts the whole has.
const PARTS: u64 = 20;

/// The shortest stage of a release.
pub const SHORTEST_STAGE: Duration = Duration::from_millis(100);

impl Scale {
    /// What `tests/long` says, or else the first part with short stages.
    pub fn find() -> Self {
        let part = env::var("CHOIRMASTER_LOSS_PART").map(|part| part.parse().unwrap());
        Self {
            part: part.as_ref().copied().unwrap_or(1),
            longest_stage: if part.is_ok() { Duration::from_secs(2) } else { 2 * SHORTEST_STAGE },
        }
    }

    /// A part of a count.
    pub fn part_of(whole: u64) -> u64 {
        whole / PARTS
    }
}
