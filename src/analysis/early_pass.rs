//! A pass before the last look, paid for out of the same alpha.
//!
//! The bound of the difference is taken at every look that counts, and each is paid for: of alpha, on the side of a pass, a
//! part ([`Design::early`](super::Design)) is spent over the looks on the way and the rest at the last (Lan and `DeMets`
//! 1983; the bounds together are the repeated confidence limits of Jennison and Turnbull 1989). So "worse by the tolerance or
//! more" is rejected at any look at all with alpha at most, and that nobody stops for a fail meanwhile is not relied on.
//!
//! A metric passes at a look at which all of its hypotheses cross: what crossed before and does no longer is not counted. Each
//! of them has the whole of alpha, for all must cross (intersection-union, Berger 1982). A rate may be safe in two ways, below
//! the tolerance and below its floor, which share alpha, look by look.
//!
//! A mixture that holds without an end (`mixture`) was simulated beside it. At a tenth of alpha it passes as many and half as late
//! again, for it keeps its promise for ever, and a release has an end: `SIMULATION.md` has the numbers.

use serde::{Deserialize, Serialize};

use super::{alpha_spending::SpentBounds, dist::normal_sf, rate::Independent};

/// The part of alpha, on the side of a pass, that an early pass is given where one is wanted. Simulated with 10 and 60 looks, it
/// costs less than one of a hundred passes at the end; equal versions with as many data as let 94 % pass take two thirds of the
/// time in the mean, with twice the data 43 %, with four times 25 %.
pub const EARLY_PART: f64 = 0.3;

/// Looks of a hypothesis at whether it can be rejected that the canary is worse.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Passing {
    bounds: SpentBounds,
    /// It was rejected at the last look that had something new.
    crosses: bool,
    /// The same of "its rate is the floor or more".
    #[serde(default, skip_serializing_if = "SpentBounds::is_empty")]
    bounds_of_floor: SpentBounds,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_below_floor: bool,
}

impl Passing {
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    pub const fn is_safe(&self) -> bool {
        self.crosses || self.is_below_floor
    }

    /// What a probability had to be at the last look to pass.
    pub fn level(&self) -> Option<f64> {
        level(&self.bounds)
    }

    /// The same of "its rate is the floor or more".
    pub fn level_of_floor(&self) -> Option<f64> {
        level(&self.bounds_of_floor)
    }

    /// A look after which `spent` of alpha is gone. `p` is the probability of what was found, or less, of a canary that is worse
    /// by the tolerance.
    pub(super) fn look(
        &mut self,
        information: f64,
        p: f64,
        spent: f64,
        floor: Option<(f64, Independent)>,
        is_last: bool,
    ) {
        let spent = if floor.is_some() { 0.5 * spent } else { spent };
        if is_last || self.bounds.worthwhile(information) {
            self.crosses = self.bounds.look(information, spent, p);
        }
        if let Some((floor, counts)) = floor {
            let information = counts.information(floor);
            if is_last || self.bounds_of_floor.worthwhile(information) {
                let p = counts.lower(floor);
                self.is_below_floor = self.bounds_of_floor.look(information, spent, p) && information > 0.0;
            }
        }
    }
}

fn level(bounds: &SpentBounds) -> Option<f64> {
    let z = bounds.last().map(|_| bounds.clone().boundary()).filter(|z| z.is_finite());
    z.map(normal_sf)
}

/// Alpha spent on passing when the share `t` of the duration has gone by: evenly over the looks before the last.
pub fn spent(part: f64, alpha: f64, t: f64) -> f64 {
    if t < 1.0 { alpha * part * t.max(0.0) } else { alpha }
}
