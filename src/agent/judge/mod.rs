//! The new version is stopped as soon as it is proven that it breaks a condition of its stage, whether or not anybody can be asked.
//!
//! The conditions of a stage are limits. A limit of a share of calls (an error rate; a quantile, which is a limit of how many
//! calls may take longer) is broken when the evidence for that, which may be looked at whenever one likes (`analysis::beyond`),
//! is beyond what a version that keeps it ever shows, but with probability alpha. A limit of the longest or shortest call is
//! broken by one call, for the stage can't end well any more; that needs no alpha.
//!
//! Evidence is gathered over the whole stage, and over windows. A version that was good for an hour has so many good calls that
//! it could fail for minutes before the whole shows it; a window knows nothing of them. A window begins each minute and lasts
//! one, another begins each two minutes and lasts two, and so for all powers of two: so whatever goes on for some time, there
//! is a window of a quarter of that time at least with nothing else in it, and few windows are kept at once. The k-th window
//! gets 6/(π²k²) of what all have (the sum over all k is 1), which after a day costs it four more failed calls where 2 % may
//! fail.
//!
//! **Alpha** is that of all looks at all windows and conditions of the stage together: each condition gets the same part,
//! half of it for the whole stage and half for the windows. Of a service each variation beside the stable one that gets calls is held
//! to all conditions, with the same part of alpha each, and a breach names it.
//!
//! It is held where calls are independent of each other given what they are; a burst of errors that one cause brings about is
//! evidence, as limits are meant.
//!
//! Deliberately not here: comparison with the base version, which whoever leads the release makes; what follows a breach.

mod limit;
mod windows;

use std::time::Duration;

use language::{OF_WHOLE, Stage};
use serde::{Deserialize, Serialize};

use self::{limit::Limit, windows::Windows};
use crate::measure::StageCounts;

/// An agent's alpha where the manager says nothing of it: a thousand agents have a thousandth together.
pub const UNTOLD_ALPHA: f64 = 1e-6;

/// Judges the new version in one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judge {
    limits: Vec<Limit>,
    /// Alpha of each limit, over all looks at the whole stage.
    whole: f64,
    /// The same over all windows.
    in_windows: f64,
    windows: Windows,
}

/// A condition is broken, and can't hold at the end, or so it must be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// Its index in the stage.
    pub condition: usize,
    /// A sentence with the numbers.
    pub text: String,
}

impl Judge {
    /// `alpha`: the probability with which a version that keeps all conditions may ever be stopped in this stage; what is no
    /// probability is taken for [`UNTOLD_ALPHA`].
    #[must_use]
    pub fn new(stage: &Stage, alpha: f64) -> Self {
        let tried = stage.tried();
        let of = |version: usize| {
            let conditions = stage.conditions.iter().enumerate();
            conditions.flat_map(move |condition| Limit::of(version, condition))
        };
        let limits: Vec<Limit> = tried.iter().copied().flat_map(of).collect();
        let alpha = if alpha > 0.0 && alpha < 1.0 { alpha } else { UNTOLD_ALPHA } / tried.len() as f64;
        let whole = stage.alpha_of_a_limit(alpha).unwrap_or(alpha);
        Self { limits, whole, in_windows: whole / OF_WHOLE * (1.0 - OF_WHOLE), windows: Windows::default() }
    }

    /// Looks at all that was counted until now. `elapsed`: how long the stage has lasted.
    pub fn look(&mut self, counts: &StageCounts, elapsed: Duration) -> Option<Breach> {
        let certain = self.limits.iter().find_map(|limit| limit.broken_by_one(counts));
        let now: Vec<_> = self.limits.iter().map(|limit| limit.counted(counts)).collect();
        let mut at_each = self.limits.iter().zip(&now);
        let in_whole = || at_each.find_map(|(limit, now)| limit.broken(*now, self.whole, None, counts));
        let in_windows = || {
            self.windows.look(&now, elapsed, |at, counted, part, since| {
                self.limits.get(at)?.broken(counted, self.in_windows * part, Some(since), counts)
            })
        };
        let found = certain.or_else(in_whole).or_else(in_windows);
        self.windows.go_on(&now, elapsed);
        found
    }
}
