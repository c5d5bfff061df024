//! How many of a child's agents are heard of.

/// How many agents a child stands for, by whether they are heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Liveness {
    pub live: u32,
    /// They have nothing in hand, and were not heard of for too long.
    pub silent: u32,
}

impl Liveness {
    pub const fn all(self) -> u32 {
        self.live.saturating_add(self.silent)
    }
}
