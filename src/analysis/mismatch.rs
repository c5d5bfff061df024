//! Are calls shared out among a service's variations as was wanted (sample ratio mismatch)? A test that may be asked whenever one
//! likes, for any number of variations.
//!
//! Of calls that are shared out as wanted, with shares pᵢ, the counts kᵢ among the first n are multinomial. The evidence
//! against that is a ratio of likelihoods, with the shares under the alternative drawn from a Dirichlet distribution around the wanted
//! ones:
//!
//! E(κ) = Γ(κ) / Γ(κ + n) · ∏ᵢ Γ(κpᵢ + kᵢ) / (Γ(κpᵢ) pᵢ^kᵢ)
//!
//! (Lindon and Malek 2022, "Anytime-Valid Inference for Multinomial Count Data", of which that of two variations is the one in `split`).
//! Each is a martingale in the calls as long as they are shared out as wanted, and so is their mean over several κ, which are how close
//! to the wanted shares others are expected: some see a split that is wrong by much at once, others one that is wrong by little. The
//! product over several wanted splits is one, too. So it ever exceeds 1/level with probability `level` at most, however often it is asked
//! (Ville 1939).
//!
//! Where all calls of a user go to one variation, calls aren't independent. Then counts are taken for as many as their spread
//! over groups of users says that they are worth (the design effect, Kish 1965): an approximation, held to its level by simulation.
//!
//! A call of a variation whose wanted share is 0 is proof.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::split::threshold;

/// How close other shares are to the wanted ones, in calls.
const KAPPAS: [f64; 4] = [1e2, 1e3, 1e4, 1e5];

/// Units of 0.01 % that all shares are together.
const WHOLE: f64 = 10_000.0;

/// Larger evidence is shown as this: JSON has no infinity.
const MOST_EVIDENCE: f64 = 1e300;

/// Calls of a service as they were shared out, by what was wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharedOut(Vec<Shared>);

/// The calls for which one split was wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// Units of 0.01 %, a variation each.
    pub wanted: Vec<u16>,
    /// Calls of each variation.
    pub calls: Vec<u64>,
    /// The same by group of users, where all calls of a user go to one variation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(u8, Vec<u64>)>,
}

/// Calls aren't shared out as was wanted. Shown, it is a sentence with both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mismatch {
    /// Units of 0.01 %, a variation each.
    pub wanted: Vec<u16>,
    /// Calls of each variation.
    pub calls: Vec<u64>,
    /// How many times more probable all calls are under other splits than under the wanted ones, at most 1e300.
    pub e_value: f64,
}

impl SharedOut {
    /// Adds calls of a complete interval, of a group of users if all calls of a user go to one variation. Those that asked for a
    /// variation are no part of a split. `wanted`: units of 0.01 %; `calls`: of each variation, in the same order. Numbers of
    /// variations that differ are none of a split, and are left out.
    pub fn note(&mut self, wanted: &[u16], group: Option<u8>, calls: &[u64]) {
        if wanted.len() != calls.len() || calls.iter().all(|calls| *calls == 0) {
            return;
        }
        let is_same =
            |shared: &Shared| shared.wanted == wanted && shared.groups.is_empty() == group.is_none();
        let at = self.0.iter().position(is_same).unwrap_or_else(|| {
            let none = vec![0; wanted.len()];
            self.0.push(Shared { wanted: wanted.to_vec(), calls: none, groups: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].note(group, calls);
    }

    /// What was counted, by what was wanted.
    #[must_use]
    pub fn all(&self) -> &[Shared] {
        &self.0
    }

    /// How many times more probable all calls are under other splits than under the wanted ones, at most 1e300.
    #[must_use]
    pub fn e_value(&self) -> f64 {
        self.ln_evidence().exp().min(MOST_EVIDENCE)
    }

    /// The split that is off most, if the calls of all together are not shared out as wanted. `alpha`: that of the release, of which
    /// this test has the part that `split` has.
    #[must_use]
    pub fn mismatch(&self, alpha: f64) -> Option<Mismatch> {
        if self.ln_evidence() < threshold(alpha).ln() {
            return None;
        }
        let most = self.0.iter().max_by(|a, b| a.ln_evidence().total_cmp(&b.ln_evidence()))?;
        let Shared { wanted, calls, .. } = most.clone();
        Some(Mismatch { wanted, calls, e_value: self.e_value() })
    }

    fn ln_evidence(&self) -> f64 {
        self.0.iter().map(Shared::ln_evidence).sum()
    }
}

impl Shared {
    fn note(&mut self, group: Option<u8>, more: &[u64]) {
        add(&mut self.calls, more);
        let Some(group) = group else { return };
        match self.groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, calls)) => add(calls, more),
            None => self.groups.push((group, more.to_vec())),
        }
    }

    fn ln_evidence(&self) -> f64 {
        let is_proof = self.wanted.iter().zip(&self.calls).any(|(share, calls)| *share == 0 && *calls > 0);
        if is_proof {
            return f64::INFINITY;
        }
        let worth = self.worth();
        let counted = self.wanted.iter().zip(&self.calls).filter(|(share, _)| **share > 0);
        let counted: Vec<(f64, f64)> =
            counted.map(|(share, calls)| (f64::from(*share) / WHOLE, *calls as f64 * worth)).collect();
        let each = KAPPAS.map(|kappa| ln_evidence(&counted, kappa));
        let most = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + (each.iter().map(|ln| (ln - most).exp()).sum::<f64>() / KAPPAS.len() as f64).ln()
    }

    /// As how many independent calls one counts: 1, or less by as much as the calls of the variation that varies most between groups do so
    /// more than independent ones would.
    fn worth(&self) -> f64 {
        let all: u64 = self.calls.iter().sum();
        let groups = self.groups.len() as f64;
        if groups < 2.0 || all == 0 {
            return 1.0;
        }
        let worth_of = |(at, calls): (usize, &u64)| {
            let share = *calls as f64 / all as f64;
            let expected = *calls as f64 * (1.0 - share);
            let off = |(_, of): &(u8, Vec<u64>)| {
                let in_group: u64 = of.iter().sum();
                (of[at] as f64 - in_group as f64 * share).powi(2)
            };
            let between = self.groups.iter().map(off).sum::<f64>() * groups / (groups - 1.0);
            if expected > 0.0 { (expected / between).min(1.0) } else { 1.0 }
        };
        self.calls.iter().enumerate().map(worth_of).fold(1.0, f64::min)
    }
}

/// Of shares above 0, each with its calls.
fn ln_evidence(counted: &[(f64, f64)], kappa: f64) -> f64 {
    let calls: f64 = counted.iter().map(|(_, calls)| calls).sum();
    let of = |&(share, calls): &(f64, f64)| {
        libm::lgamma(kappa * share + calls) - libm::lgamma(kappa * share) - calls * share.ln()
    };
    libm::lgamma(kappa) - libm::lgamma(kappa + calls) + counted.iter().map(of).sum::<f64>()
}

fn add(sums: &mut [u64], more: &[u64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u64 = self.calls.iter().sum();
        let wanted = self.wanted.iter().map(|share| f64::from(*share) / 100.0);
        let measured = self.calls.iter().map(|calls| 100.0 * *calls as f64 / all.max(1) as f64);
        f.write_str("the split is wrong: wanted ")?;
        list(f, wanted)?;
        f.write_str(" %, measured ")?;
        list(f, measured)?;
        write!(f, " % of {all} calls")
    }
}

/// To 0.01, as percentages are told.
fn list(f: &mut fmt::Formatter<'_>, numbers: impl Iterator<Item = f64>) -> fmt::Result {
    for (at, number) in numbers.enumerate() {
        if at > 0 {
            f.write_str(" : ")?;
        }
        write!(f, "{}", (number * 100.0).round() / 100.0)?;
    }
    Ok(())
}
