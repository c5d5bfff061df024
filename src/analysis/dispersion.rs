//! Does each child share out its calls as was ordered? A check over all children of a fleet, which finds splits that differ from the
//! ordered one in both directions, so that their sum (`split`) is right: the sides then have unlike parts of fast and slow children.
//!
//! Of a child with n calls, k on the canary, ordered with share p, the evidence is a ratio of likelihoods, with the child's own
//! share drawn from a beta distribution around p:
//!
//! E(κ) = B(κp + k, κ(1 − p) + n − k) / (B(κp, κ(1 − p)) pᵏ (1 − p)ⁿ⁻ᵏ).
//!
//! As long as the child obeys, E and so (1 + E)/2, as which it counts, are martingales in its calls; so is the product over children,
//! whose calls don't depend on each other, and the mean of such products over several κ, which are how close to the ordered
//! share others are expected. The mean ever exceeds 1/level with probability `level` at most, however often it is looked at, however few
//! calls a child has and however many children there are (Ville 1939; Lindon and Malek 2022; mixtures: Robbins 1970). Logarithms of
//! products add up exactly, over any levels of a tree. It is asked of all children together: of those that are selected for
//! being off, some are so by chance.
//!
//! The half of 1 keeps a child that obeys from hiding one that doesn't: it takes away no more than a half, whatever its calls are.
//!
//! Where all calls of a user go to one version, a call counts as one over the calls of the child's largest group. No user then has
//! more than one call in all, so the mean of E is still 1 at most: for a user of w ≤ 1 calls and a share q of the child, that is
//! p^(1−w) q^w + (1−p)^(1−w) (1−q)^w ≤ 1 (Hölder). One user may call many children and get the same version from all of them, so
//! these are not multiplied: their mean is taken, which needs no independence (Vovk and Wang 2021).
//!
//! Deliberately not here: calls that depend on each other and came without groups. Nobody knows what they are worth.

use std::f64::consts::LN_2;

use serde::{Deserialize, Serialize};

use super::{
    mismatch::{self, ln_mean_exp},
    split::{Split, threshold},
};

/// How close to the ordered share those of children are expected, in calls: off by 16 %, by 5, 1.6, 0.5 or 0.16 % of all calls at a
/// share of 50 %.
const KAPPAS: [f64; 5] = [1e1, 1e2, 1e3, 1e4, 1e5];

/// Evidence of one child with users, and what is shown of all, is at most this.
const MOST_EVIDENCE: f64 = 1e300;
const MOST_OF_USERS: f64 = 1e30;

/// No child has more evidence than this, as a logarithm: 2⁴⁸ calls that should have been 0.01 % of all.
const MOST_LN_EVIDENCE: f64 = 1e16;

/// How far off splits matter, in the mean over calls and in standard deviations √(p(1 − p)) of a call. Levels of children whose logarithms
/// have a standard deviation s move the comparison by this times s/√(p(1 − p)) at most. A single child that is broken is less in
/// a fleet of a thousand, and is a part that matters in one of a dozen.
const MATERIAL: f64 = 0.03;

/// No fleet has more children.
const MOST_CHILDREN: f64 = 4_294_967_295.0;

/// Sums over children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 10]", into = "[f64; 10]")]
pub struct SplitDispersion {
    /// How many with calls of which it is known how they were to be shared out.
    pub children: f64,
    /// Σ ln (1 + E(κ))/2.
    ln_evidence: [f64; KAPPAS.len()],
    /// Those among them where all calls of a user go to one version, and the sum of their E.
    with_users: f64,
    of_users: f64,
    /// Σ of what their calls are off by: (k − np)²/(np(1 − p)) − 1, and their calls.
    off: f64,
    calls: f64,
}

/// What was found of how children share out their calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SplitsBetween {
    /// How many it is known of.
    pub children: u64,
    /// How many times more probable their calls are if each has a split of its own than under the ordered one, at most 1e300.
    pub e_value: f64,
}

impl From<[f64; 10]> for SplitDispersion {
    fn from([children, a, b, c, d, e, with_users, of_users, off, calls]: [f64; 10]) -> Self {
        Self { children, ln_evidence: [a, b, c, d, e], with_users, of_users, off, calls }
    }
}

impl From<SplitDispersion> for [f64; 10] {
    fn from(of: SplitDispersion) -> Self {
        let [a, b, c, d, e] = of.ln_evidence;
        [of.children, a, b, c, d, e, of.with_users, of.of_users, of.off, of.calls]
    }
}

impl SplitDispersion {
    /// Of the same children in several stages.
    pub fn of_stages(stages: impl IntoIterator<Item = Self>) -> Self {
        stages.into_iter().fold(Self::default(), |mut sum, stage| {
            let children = sum.children.max(stage.children);
            sum.add(&stage);
            Self { children, ..sum }
        })
    }

    pub fn is_empty(&self) -> bool {
        self.children <= 0.0
    }

    /// Adds a child, with its calls under each split that was ordered. Those of which nothing was ordered for one version, or that
    /// depend on each other and came without groups, aren't to be among them.
    pub fn note(&mut self, splits: &[Split]) {
        let called = |split: &&Split| split.baseline > 0 || split.canary > 0;
        let (users, calls): (Vec<&Split>, Vec<&Split>) =
            splits.iter().filter(called).partition(|split| !split.groups.is_empty());
        if users.is_empty() && calls.is_empty() {
            return;
        }
        self.children += 1.0;
        for split in users.iter().chain(&calls) {
            let (p, k) = (split.share, split.canary as f64);
            let n = k + split.baseline as f64;
            self.off += (k - n * p).powi(2) / (n * p * (1.0 - p)) - 1.0;
            self.calls += n;
        }
        for (sum, kappa) in self.ln_evidence.iter_mut().zip(KAPPAS) {
            let ln_evidence: f64 = calls.iter().map(|split| ln_evidence(split, kappa)).sum();
            *sum += ln_mean_exp(&[0.0, ln_evidence]);
        }
        if !users.is_empty() {
            let of_kappa = |kappa| users.iter().map(|split| ln_evidence(split, kappa)).sum();
            self.with_users += 1.0;
            self.of_users += ln_mean_exp(&KAPPAS.map(of_kappa)).exp().min(MOST_OF_USERS);
        }
    }

    /// Adds other children.
    pub fn add(&mut self, other: &Self) {
        self.children += other.children;
        self.ln_evidence.iter_mut().zip(other.ln_evidence).for_each(|(sum, more)| *sum += more);
        self.with_users += other.with_users;
        self.of_users += other.of_users;
        self.off += other.off;
        self.calls += other.calls;
    }

    /// What a manager tells, who speaks for no more than its agents: else it could hide what other children do.
    #[must_use]
    pub fn of_at_most(self, agents: u32) -> Self {
        let most = f64::from(agents);
        Self {
            children: self.children.min(most),
            ln_evidence: self.ln_evidence.map(|sum| sum.max(-LN_2 * most)),
            with_users: self.with_users.min(most),
            of_users: self.of_users.min(MOST_OF_USERS * most),
            ..self
        }
    }

    /// Whether these can be sums over children: finite, and each within what one child can add.
    pub fn is_possible(&self) -> bool {
        const ROUNDING: f64 = 1.0 + 1e-9;
        let Self { children, ln_evidence, with_users, of_users, off, calls } = *self;
        let range = -LN_2 * children * ROUNDING..=MOST_LN_EVIDENCE * children;
        (0.0..=MOST_CHILDREN).contains(&children)
            && ln_evidence.iter().all(|sum| range.contains(sum))
            && (0.0..=children).contains(&with_users)
            && (0.0..=MOST_OF_USERS * with_users * ROUNDING).contains(&of_users)
            && off.is_finite()
            && calls.is_finite()
            && calls >= 0.0
    }

    /// Of children whose calls don't depend on each other, and of those of users, each alone is evidence.
    fn ln_e_value(&self) -> f64 {
        let of_calls = ln_mean_exp(&self.ln_evidence);
        if self.with_users > 0.0 {
            ln_mean_exp(&[of_calls, (self.of_users / self.with_users).ln()])
        } else {
            of_calls
        }
    }

    /// Whether children's splits differ from what was ordered, for a metric with this alpha, of which the check has the part that
    /// the one of their sum has, and by so much that it matters.
    pub fn is_mismatch(&self, alpha: f64) -> bool {
        self.ln_e_value() >= threshold(alpha).ln() && self.off >= MATERIAL * MATERIAL * self.calls
    }

    /// What is to be shown of it; `None`: it isn't known of any child.
    pub fn evidence(&self) -> Option<SplitsBetween> {
        let e_value = self.ln_e_value().exp().min(MOST_EVIDENCE);
        (!self.is_empty()).then_some(SplitsBetween { children: self.children.round() as u64, e_value })
    }
}

/// ln E(κ) of one child and one split.
fn ln_evidence(split: &Split, kappa: f64) -> f64 {
    let largest = split.groups.iter().map(|(_, [m, n])| m.saturating_add(*n)).max();
    let worth = largest.map_or(1.0, |calls| 1.0 / calls.max(1) as f64);
    let side = |share: f64, calls: u64| (share, calls as f64 * worth);
    mismatch::ln_evidence(&[side(split.share, split.canary), side(1.0 - split.share, split.baseline)], kappa)
}
