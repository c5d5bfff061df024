//! Where the analyses of a release stand: which run of which block is under way, what its looks have found, and what
//! a verdict does.
//!
//! A block is run once for each wave (that of a stage), for each step of the release (that of `rollout` with a duration),
//! or once as long as the release takes. Each run has its part of alpha.
//!
//! ```mermaid
//! stateDiagram-v2
//!     [*] --> Open: the first child has begun the stage, or the wave opened
//!     Open --> Passed: verdict pass, or one that the block lets pass
//!     Open --> Paused: an error, or nothing that decides
//!     Open --> Failed: verdict fail
//!     Paused --> Accepted: resume
//!     Open --> Passed: the release is over, and nothing was found against it
//! ```
//!
//! Invariants:
//! - a gate whose run is open, paused or failed stays closed;
//! - a look counts once: it says after how many it came, and one that comes late or twice is refused;
//! - what a look spends of alpha is stored with it, before a verdict acts.
//!
//! Not here: fetching (`judging`), statistics (`analysis`).

mod apply;
mod change;
mod command;
mod decide;
mod design;
mod due;
mod run;
mod settle;
mod verdict;

pub(super) use apply::apply;
pub use change::Change;
pub use command::Command;
pub(super) use decide::decide;
pub use design::while_running;
pub(super) use design::{alpha_of, design};
pub use run::{Begun, Extended, InterimAnalysis, MeasuredPart, Metered, Previous, Run, RunStatus};
pub(super) use settle::{begin, judge};
pub(super) use verdict::brief;
pub use verdict::{is_passed_early, name};
