//! Every way in which a stage changes for all who are in it, or would come to it.

use crate::release::offer::Unit;
use model::{Now, ReleaseKey};

/// One change of a stage. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Ended {
        release: ReleaseKey,
        stage: u8,
        now: Now,
    },
    /// Nobody begins this stage any more. Those before it go on with `then`, as if it had succeeded.
    Skipped {
        release: ReleaseKey,
        stage: u8,
        then: Unit,
        now: Now,
    },
    /// Those that were left untested get the new version too: the others have passed.
    UntestedRolledOut {
        release: ReleaseKey,
        now: Now,
    },
    /// A stage, or a step of the whole release (no stage), began or ended on the wall's clock.
    Timed {
        release: ReleaseKey,
        stage: Option<u8>,
        /// The wave, or the step.
        number: u32,
        ended: bool,
        now: Now,
    },
}

impl Change {
    /// The release it belongs to.
    pub const fn release(&self) -> ReleaseKey {
        match self {
            Self::Ended { release, .. }
            | Self::Skipped { release, .. }
            | Self::UntestedRolledOut { release, .. }
            | Self::Timed { release, .. } => *release,
        }
    }
}
