//! What several looks cost in power.

use crate::{
    alpha_spending::{SpentBounds, spent},
    anytime_test::ln_mixture,
    design::{End, Spending},
    dist::{normal_sf, normal_z},
    early_pass,
};

/// With more looks than this nothing changes any more.
const MOST_LOOKS: u64 = 60;

/// Where no end is known, the first look is taken to come after this share of the data.
const FIRST_LOOK: f64 = 0.1;

const HALVINGS: u32 = 40;

/// The one-sided level at which a single look at all data has the power of all looks together, where that is
/// [`super::POWER`]. Looks are taken to come at even distances.
pub fn level(end: End, alpha: f64) -> f64 {
    match end {
        End::Once => alpha,
        End::After { duration_ms, interval_ms, spending } => {
            let looks = duration_ms.div_ceil(interval_ms.max(1)).clamp(1, MOST_LOOKS);
            if looks == 1 { alpha } else { of_looks(looks, spending, alpha) }
        }
        End::Open { .. } => open(alpha),
    }
}

/// The same of a pass, for which looks before the last spend this part of alpha.
pub fn level_of_pass(end: End, alpha: f64, early: f64) -> f64 {
    match end {
        End::After { duration_ms, interval_ms, .. } if early > 0.0 => {
            match duration_ms.div_ceil(interval_ms.max(1)).clamp(1, MOST_LOOKS) {
                1 => alpha,
                looks => spread_over(looks, alpha, |t| early_pass::spent(early, alpha, t)),
            }
        }
        End::Once | End::After { .. } | End::Open { .. } => alpha,
    }
}

fn of_looks(looks: u64, spending: Spending, alpha: f64) -> f64 {
    spread_over(looks, alpha, |t| spent(spending, alpha, t))
}

fn spread_over(looks: u64, alpha: f64, spent: impl Fn(f64) -> f64) -> f64 {
    let mut bounds = SpentBounds::default();
    for look in 1..=looks {
        let t = look as f64 / looks as f64;
        bounds.look(t, spent(t), 1.0);
    }
    let target = super::POWER;
    let (mut low, mut high) = (0.0, 12.0);
    for _ in 0..HALVINGS {
        let drift = 0.5 * (low + high);
        if bounds.crossed(drift) >= target { high = drift } else { low = drift }
    }
    // One look with the drift d has power Φ(d − z).
    normal_sf(high - normal_z(1.0 - target)).min(alpha)
}

/// The boundary at the end, of a mixture made for the first look.
fn open(alpha: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..HALVINGS {
        let s = 0.5 * (low + high);
        if ln_mixture(s, 1.0, FIRST_LOOK) >= -alpha.ln() { high = s } else { low = s }
    }
    normal_sf(high)
}
