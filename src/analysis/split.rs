//! Did the canary get the share of the calls that was ordered? One check over all that was measured, which may be
//! repeated at every look.
//!
//! Where the calls were not shared out as ordered, something else than chance decided which version got which call, and
//! the sides differ in more than the version. The evidence against "as ordered" is a ratio of likelihoods: of n calls
//! with k on the canary, ordered with share p, against a share drawn from a beta distribution around p,
//!
//! E = B(κp + k, κ(1 − p) + n − k) / (B(κp, κ(1 − p)) pᵏ (1 − p)ⁿ⁻ᵏ).
//!
//! Under what was ordered E is a martingale in the calls, as is the product over several ordered shares, so it ever
//! exceeds 1/level with probability `level` at most, however often it is looked at (Ville 1939; for counts Lindon and
//! Malek 2022). It is asked of all strata together: whoever selects those that are off, and asks these alone, finds some
//! in every large fleet. Whether children are off in opposite directions is asked in `dispersion`.

use serde::{Deserialize, Serialize};

use super::dispersion::SplitsBetween;

/// How close to the ordered share the alternative expects the true one, in calls: shares that are off by some percent of
/// all calls, which some thousand calls tell apart from chance.
const KAPPA: f64 = 1_000.0;

/// The part of a metric's alpha with which a split that is as ordered is taken for another one, on top of it: 0.001 for
/// all metrics of a release with an alpha of 0.05 together. That of single children has as much.
const PART_OF_ALPHA: f64 = 0.02;

/// Larger evidence is shown as this: JSON has no infinity.
const MOST_EVIDENCE: f64 = 1e300;

/// Calls of both sides by ordered share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Splits(Vec<Split>);

/// The calls of all strata for which one share was ordered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Of the canary, between 0 and 1.
    pub share: f64,
    pub baseline: u64,
    pub canary: u64,
    /// The same by group of users, where all calls of a user go to one version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(u8, [u64; 2])>,
}

/// What the checks of the split found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SplitEvidence {
    /// How many times more probable the calls are under another split than under the ordered one, at most 1e300.
    pub e_value: f64,
    /// From here on the split is not the one that was ordered.
    pub threshold: f64,
    /// What was ordered, and the calls there were.
    pub splits: Vec<Split>,
    /// Whether each child shared out its calls as ordered, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<SplitsBetween>,
    /// Children that are off by themselves, if whoever handed in the data knows: to be looked at, not judged by. In a large
    /// fleet some are off by chance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildSplit>,
}

/// How the calls of one child were shared out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildSplit {
    pub child: String,
    pub split: Split,
    /// Standard deviations from what was ordered.
    pub z: f64,
}

impl SplitEvidence {
    /// Whether single children shared out their calls otherwise than ordered, though all calls together were shared out as ordered.
    pub fn is_of_children(&self) -> bool {
        let between = self.between.is_some_and(|between| between.e_value >= self.threshold);
        between && self.e_value < self.threshold
    }
}

impl Split {
    /// Without calls.
    pub fn new(share: f64) -> Self {
        Self { share, baseline: 0, canary: 0, groups: Vec::new() }
    }

    /// Adds calls, of a group of users if all calls of a user go to one version.
    pub fn note(&mut self, group: Option<u8>, calls: [u64; 2]) {
        self.baseline = self.baseline.saturating_add(calls[0]);
        self.canary = self.canary.saturating_add(calls[1]);
        let Some(group) = group else { return };
        match self.groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, [m, n])) => (*m, *n) = (m.saturating_add(calls[0]), n.saturating_add(calls[1])),
            None => self.groups.push((group, calls)),
        }
    }

    /// ln E.
    fn ln_evidence(&self) -> f64 {
        let worth = self.worth();
        let (m, n) = (self.baseline as f64 * worth, self.canary as f64 * worth);
        let (a, b) = (KAPPA * self.share, KAPPA * (1.0 - self.share));
        let ln_beta = |a: f64, b: f64| libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
        ln_beta(a + n, b + m) - ln_beta(a, b) - n * self.share.ln() - m * (-self.share).ln_1p()
    }

    /// As how many independent calls one counts: 1, or, where all calls of a user go to one version, less by as much as the
    /// canary's part varies more between groups than that of independent calls (the design effect, Kish 1965).
    fn worth(&self) -> f64 {
        let (all, canary) = ((self.baseline + self.canary) as f64, self.canary as f64);
        let count = self.groups.len() as f64;
        let expected = canary * (1.0 - canary / all);
        if count < 2.0 || expected <= 0.0 {
            return 1.0;
        }
        let off = |(_, [m, n]): &(u8, [u64; 2])| (*n as f64 - (m + n) as f64 * canary / all).powi(2);
        let between = self.groups.iter().map(off).sum::<f64>() * count / (count - 1.0);
        (expected / between).min(1.0)
    }

    /// Standard deviations by which the canary's calls are off.
    pub fn z(&self) -> f64 {
        let calls = self.baseline as f64 + self.canary as f64;
        let deviation = (calls * self.share * (1.0 - self.share) / self.worth()).sqrt();
        if deviation > 0.0 { (self.canary as f64 - calls * self.share) / deviation } else { 0.0 }
    }
}

impl Splits {
    /// Adds calls that were to be shared out so, of a group of users if all calls of a user go to one version.
    pub fn note(&mut self, share: f64, group: Option<u8>, calls: [u64; 2]) {
        let is_same = |split: &Split| {
            split.share.to_bits() == share.to_bits() && split.groups.is_empty() == group.is_none()
        };
        let at = self.0.iter().position(is_same).unwrap_or_else(|| {
            self.0.push(Split::new(share));
            self.0.len() - 1
        });
        self.0[at].note(group, calls);
    }

    fn ln_evidence(&self) -> f64 {
        self.0.iter().map(Split::ln_evidence).sum()
    }

    /// Of those that are not as ordered, all taken together, the one that is off most.
    pub fn mismatch(&self, alpha: f64) -> Option<Split> {
        let is_off = self.ln_evidence() >= threshold(alpha).ln();
        let most = self.0.iter().max_by(|a, b| a.ln_evidence().total_cmp(&b.ln_evidence()));
        most.cloned().filter(|_| is_off)
    }

    /// What is to be shown of the check, for a metric with this alpha; `None` where nothing was ordered.
    pub fn evidence(&self, alpha: f64) -> Option<SplitEvidence> {
        let e_value = self.ln_evidence().exp().min(MOST_EVIDENCE);
        let threshold = threshold(alpha);
        let of = |splits| SplitEvidence { e_value, threshold, splits, between: None, children: Vec::new() };
        (!self.0.is_empty()).then(|| of(self.0.clone()))
    }
}

pub(crate) fn threshold(alpha: f64) -> f64 {
    1.0 / (PART_OF_ALPHA * alpha)
}
