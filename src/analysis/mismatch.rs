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
//! Where all calls of a user go to one variation, users are drawn, and not calls: one user of a thousand calls is no proof of anything.
//! Such calls come by groups, into which users fall by a hash of their own. Two things then keep users of many calls from being taken for
//! a wrong split; both are approximations, held to their level by simulation (`tests/analysis/mismatch.rs`):
//!
//! - counts are taken for as many independent calls as they are worth (the design effect, Kish 1965): Σc²/Σc for users of c calls each,
//!   of which the spread of all calls over the groups is an estimate, and that of the calls of each variation another; the greater
//!   counts. The first needs no call of the variation, so it holds for small shares, which one user in a hundred is drawn for;
//! - the evidence is what is left of it without the groups that speak most for it, however many are left out ([`LEFT_OUT`]): a split
//!   that is wrong is so in all groups, a user is in one.
//!
//! What is known to be missing from the counts, as calls that haven't ended, speaks for what was wanted ([`SharedOut::mismatch_but_for`]).
//!
//! A call of a variation whose wanted share is 0 is proof.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{clusters::MAX_GROUPS, split::threshold};

/// How close other shares are to the wanted ones, in calls.
const KAPPAS: [f64; 4] = [1e2, 1e3, 1e4, 1e5];

/// So many groups are left out, where users are drawn.
const LEFT_OUT: [usize; 4] = [1, 2, 4, 8];

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
        self.mismatch_but_for(alpha, &[])
    }

    /// The same, where so many calls of each variation may be missing from the counts.
    #[must_use]
    pub fn mismatch_but_for(&self, alpha: f64, missing: &[u64]) -> Option<Mismatch> {
        let evidence: f64 = self.0.iter().map(|shared| shared.with(missing).ln_evidence()).sum();
        if evidence < threshold(alpha).ln() {
            return None;
        }
        let most = self.0.iter().max_by(|a, b| a.ln_evidence().total_cmp(&b.ln_evidence()))?;
        let Shared { wanted, calls, .. } = most.clone();
        Some(Mismatch { wanted, calls, e_value: evidence.exp().min(MOST_EVIDENCE) })
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

    /// With as many of the missing calls as bring the variations that have too few as close to what was wanted as they can.
    fn with(&self, missing: &[u64]) -> Self {
        let mut filled = self.clone();
        let per_share = |(share, calls): (&u16, &u64)| *calls as f64 / f64::from((*share).max(1));
        let most = self.wanted.iter().zip(&self.calls).map(per_share).fold(0.0, f64::max);
        let shares = self.wanted.iter().zip(missing);
        for (calls, (share, missing)) in filled.calls.iter_mut().zip(shares) {
            let lacks = (most * f64::from(*share)).ceil() as u64;
            *calls += lacks.saturating_sub(*calls).min(*missing);
        }
        filled
    }

    /// Of users, the least that is left of it without the groups that speak most for it.
    fn ln_evidence(&self) -> f64 {
        let all = self.ln_evidence_of(usize::from(MAX_GROUPS));
        if self.groups.len() < 2 || all <= 0.0 {
            return all;
        }
        let total: u64 = self.calls.iter().sum();
        let share = |at: usize| f64::from(self.wanted[at].max(1)) / WHOLE;
        // How much a group has of the direction in which all together are off.
        let speaks = |(_, of): &(u8, Vec<u64>)| -> f64 {
            let in_group: u64 = of.iter().sum();
            let one = |(at, calls): (usize, &u64)| {
                let off = self.calls[at] as f64 - total as f64 * share(at);
                off * (*calls as f64 - in_group as f64 * share(at)) / share(at)
            };
            of.iter().enumerate().map(one).sum()
        };
        let mut order: Vec<&(u8, Vec<u64>)> = self.groups.iter().collect();
        order.sort_by(|a, b| speaks(b).total_cmp(&speaks(a)));
        let without = |left_out: usize| {
            let mut rest = self.clone();
            for (group, of) in order.iter().take(left_out) {
                rest.groups.retain(|(one, _)| one != group);
                rest.calls.iter_mut().zip(of).for_each(|(sum, calls)| *sum = sum.saturating_sub(*calls));
            }
            rest.ln_evidence_of(usize::from(MAX_GROUPS) - left_out)
        };
        LEFT_OUT.into_iter().map(without).fold(all, f64::min)
    }

    /// Of users who can be in so many groups.
    fn ln_evidence_of(&self, groups: usize) -> f64 {
        let is_proof = self.wanted.iter().zip(&self.calls).any(|(share, calls)| *share == 0 && *calls > 0);
        if is_proof {
            return f64::INFINITY;
        }
        let worth = self.worth(groups);
        let counted = self.wanted.iter().zip(&self.calls).filter(|(share, _)| **share > 0);
        let counted: Vec<(f64, f64)> =
            counted.map(|(share, calls)| (f64::from(*share) / WHOLE, *calls as f64 * worth)).collect();
        ln_mean_exp(&KAPPAS.map(|kappa| ln_evidence(&counted, kappa)))
    }

    /// As how many independent calls one counts: 1, or less by as much as all calls, or those of the variation that varies most, vary
    /// more between groups than independent ones would.
    fn worth(&self, in_all: usize) -> f64 {
        let all: u64 = self.calls.iter().sum();
        let groups = self.groups.len() as f64;
        if self.groups.is_empty() || all == 0 {
            return 1.0;
        }
        let worth = self.worth_of_users(in_all);
        if groups < 2.0 {
            return worth;
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
        self.calls.iter().enumerate().map(worth_of).fold(worth, f64::min)
    }

    /// The same by how much the numbers of all calls in the groups differ, of which there are so many also where some had none.
    fn worth_of_users(&self, in_all: usize) -> f64 {
        let groups = in_all.max(2) as f64;
        let of_group = |(_, of): &(u8, Vec<u64>)| of.iter().sum::<u64>() as f64;
        let all: f64 = self.groups.iter().map(of_group).sum();
        let mean = all / groups;
        let empty = groups - self.groups.len() as f64;
        let there: f64 = self.groups.iter().map(|group| (of_group(group) - mean).powi(2)).sum();
        let spread = (there + empty.max(0.0) * mean.powi(2)) * groups / (groups - 1.0);
        if spread > 0.0 { (all / spread).min(1.0) } else { 1.0 }
    }
}

/// The logarithm of the mean of exponentials.
pub(crate) fn ln_mean_exp(all: &[f64]) -> f64 {
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + (all.iter().map(|ln| (ln - most).exp()).sum::<f64>() / all.len() as f64).ln()
}

/// Of shares above 0, each with its calls.
pub(crate) fn ln_evidence(counted: &[(f64, f64)], kappa: f64) -> f64 {
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
