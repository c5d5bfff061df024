//! When a stage of a release was, as it is kept for later releases.

/// Most times of one release; later waves of a release with many are not timed.
pub const MAX_TIMES: usize = 256;

/// When a stage, or a step of the whole release, was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// `None`: a step of the whole release.
    pub stage: Option<u8>,
    /// The wave; of the whole release the step, from 0.
    pub number: u32,
    /// In milliseconds since 1970, like the end.
    pub began_ms: i64,
    pub ended_ms: Option<i64>,
}

/// The same as it is kept for later releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Time {
    /// By its name, for later strategies may have others before it; `None`: a step of the whole release.
    pub stage: Option<String>,
    pub number: u32,
    pub began_ms: i64,
    pub ended_ms: i64,
}
