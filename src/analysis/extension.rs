//! A judgement that goes on after it ended undecided, paid for out of the same alpha.
//!
//! A part of alpha, the reserve of a design, is kept from the start and spent by no planned look. After an end that decided nothing
//! it is spent on a test that may be looked at whenever one likes, over all data from the first on (Robbins 1970; Howard,
//! Ramdas, `McAuliffe` and Sekhon 2021): the probability that it ever crosses under the null hypothesis is that part of
//! alpha at most, whenever and why ever somebody went on, after a near miss too, and however often. Added to what the
//! planned looks spend that is alpha (Bonferroni's inequality). The same holds for a pass, by the same test the other way
//! round.

use serde::{Deserialize, Serialize};

use super::{
    anytime_test::ln_mixture,
    evidence::Verdict,
    hypothesis::{Hypothesis, Inflation},
    judge::Judgement,
    rate::{ln_above, ln_below},
};

/// The part of alpha that a release keeps for an extension where its analysis may end undecided. It costs 4 % more calls for
/// the same power at the planned end.
pub const EXTENSION_RESERVE: f64 = 0.1;

/// The mixture is made for this part of the variance that there was at the end: about that which makes a boundary
/// at level 0.005 lowest for two to five times as many data.
const MADE_FOR: f64 = 1.0 / 8.0;

/// What goes on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Extension {
    /// Of each hypothesis, the variance for which its mixture is made: fixed by how many data there were at the planned end.
    rho: Vec<f64>,
}

/// Why a judgement can't go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoExtension {
    #[error("it is decided")]
    Decided,
    #[error("nothing of its alpha was kept for more looks")]
    NothingKept,
}

impl Judgement {
    /// Whether it can go on after an end that decided nothing.
    pub fn may_extend(&self) -> Result<(), NoExtension> {
        if !matches!(self.verdict, None | Some(Verdict::Inconclusive | Verdict::NoData)) {
            return Err(NoExtension::Decided);
        }
        if self.design.reserve <= 0.0 {
            return Err(NoExtension::NothingKept);
        }
        Ok(())
    }

    /// Goes on after an end that decided nothing: looks at each interval until the next [`super::Occasion::Last`].
    pub fn extend(&mut self) -> Result<(), NoExtension> {
        self.may_extend()?;
        self.verdict = None;
        self.extension.get_or_insert_default();
        Ok(())
    }

    pub const fn is_extended(&self) -> bool {
        self.extension.is_some()
    }

    /// A look of the extension. Each hypothesis that is crossed stays so.
    pub(super) fn look_extended(&mut self, inflations: &[Inflation]) {
        let Some(extension) = &mut self.extension else { return };
        let (reserve, floor) = (self.design.reserve, self.design.floor());
        let count = self.hypotheses.len();
        extension.rho.resize(count, 0.0);
        for ((hypothesis, inflation), rho) in
            self.hypotheses.iter_mut().zip(inflations).zip(&mut extension.rho)
        {
            let proxy = hypothesis.sums().proxy;
            if *rho <= 0.0 {
                *rho = proxy * MADE_FOR;
            }
            if *rho > 0.0 {
                let level = reserve * hypothesis.whole_alpha(reserve);
                let is_beyond = hypothesis.ln_worse(*inflation, *rho) >= -level.ln();
                // How children or runs differ is known from so few of them that no number of calls makes up for it.
                let is_known = inflation.freedom.is_infinite() || hypothesis.tails(*inflation).upper <= level;
                let is_above =
                    floor.is_none_or(|floor| ln_above(hypothesis.against_floor(), floor) >= -level.ln());
                hypothesis.crossed |= is_beyond && is_known && is_above;
            }
        }
        self.spent = self.design.alpha;
    }

    /// Whether "worse by the tolerance or more" is rejected by what the extension has seen.
    pub(super) fn is_safe_extended(&self, inflations: &[Inflation]) -> bool {
        let Some(extension) = &self.extension else { return false };
        let all = self.hypotheses.iter().zip(inflations).zip(&extension.rho);
        let mut safe = all.map(|((hypothesis, inflation), rho)| {
            let hypothesis = hypothesis.for_pass();
            let level = self.design.reserve * self.design.alpha;
            if inflation.freedom.is_finite() && hypothesis.tails(*inflation).lower > 0.5 * level {
                return false;
            }
            let Some(floor) = self.design.floor() else {
                return *rho > 0.0 && hypothesis.ln_better(*inflation, *rho) >= -level.ln();
            };
            // Two ways to be safe share it, as at the planned end.
            let least = -(0.5 * level).ln();
            let (events, calls) = hypothesis.against_floor().rounded_up();
            let below = hypothesis.high && ln_below(events, calls, floor) >= least;
            below || (*rho > 0.0 && hypothesis.ln_better(*inflation, *rho) >= least)
        });
        !self.hypotheses.is_empty() && safe.by_ref().all(|safe| safe)
    }

    /// How improbable it is ever to see as much in the extension, of one hypothesis; and at what that crosses.
    pub(super) fn extended_p(&self, at: usize, inflation: Inflation) -> Option<(f64, f64)> {
        let (rho, hypothesis) = (*self.extension.as_ref()?.rho.get(at)?, self.hypotheses.get(at)?);
        let p = if rho > 0.0 { (-hypothesis.ln_worse(inflation, rho)).exp().min(1.0) } else { 1.0 };
        Some((p, self.design.reserve * hypothesis.whole_alpha(self.design.reserve)))
    }

    /// The standard score that an extension demands of `times` as many data as there were, at the split there was; that of one
    /// more look at the whole of alpha where nothing is kept.
    pub(super) fn demanded(&self, hypothesis: &Hypothesis, times: f64) -> f64 {
        let (alpha, reserve) = (self.design.alpha, self.design.reserve);
        if reserve <= 0.0 {
            return super::dist::normal_z(alpha);
        }
        let sums = hypothesis.sums();
        let wider = (sums.proxy / sums.variance().max(f64::MIN_POSITIVE)).max(1.0);
        let part = MADE_FOR / times;
        let ln = -(reserve * alpha).ln() - std::f64::consts::LN_2 - 0.5 * (part / (1.0 + part)).ln();
        (2.0 * (1.0 + part) * ln * wider).sqrt()
    }
}

impl Hypothesis {
    /// Its part of alpha with what is kept of it; its planned looks spend the rest.
    fn whole_alpha(&self, reserve: f64) -> f64 {
        self.alpha / (1.0 - reserve)
    }

    /// ln of the evidence for "worse by more than the tolerance".
    fn ln_worse(&self, inflation: Inflation, rho: f64) -> f64 {
        self.ln_beyond(inflation, rho, if self.high { 1.0 } else { -1.0 })
    }

    /// ln of the evidence against "worse by the tolerance or more".
    fn ln_better(&self, inflation: Inflation, rho: f64) -> f64 {
        self.ln_beyond(inflation, rho, if self.high { -1.0 } else { 1.0 })
    }

    fn ln_beyond(&self, inflation: Inflation, rho: f64, way: f64) -> f64 {
        let sums = self.sums();
        // What makes the variance larger makes the statistic worth less.
        ln_mixture(way * sums.s / inflation.factor.max(1.0).sqrt(), sums.proxy, rho)
    }
}
