//! The judgement of one metric, look by look.
//!
//! ```mermaid
//! stateDiagram-v2
//!   [*] --> Open: new
//!   Open --> Open: a look that decides nothing
//!   Open --> Fail: a boundary is crossed
//!   Open --> Pass: the last look, every upper bound below the tolerance; or one before it, where that is paid for
//!   Open --> Inconclusive: the last look, neither shown
//!   Open --> NoData: the last look, a side without data
//! ```

use serde::{Deserialize, Serialize};

use super::{
    alpha_spending,
    data::{self, LEAST_DIFFERENT, Sample, Stratum, are_different},
    decision::{Decision, Finding, Obstacle, Occasion},
    dependence::{LEAST_EFFECTIVE_POINTS, batch_means_p, dependence},
    design::{Design, DesignFault, Deviation, End, Question, Sampling, Tolerance},
    dispersion::SplitDispersion,
    effects::ChildEffects,
    evidence::Verdict,
    exact::Distributions,
    explain,
    extension::Extension,
    hypothesis::{Hypothesis, HypothesisKind, Inflation, SLOPE},
    interval_merging::{Group, LEAST_SIDE, baseline_median, next_group},
    previous::{BetweenRuns, between_runs},
    rank::Map,
    silence::silence,
    split::{SplitEvidence, Splits},
    spread::Step,
    sums::Tails,
    zeros::{OnlyZeros, are_zero, has_zeros, is_mostly_zero},
};

/// Values on both sides together by which a metric is seen to be mostly zero or not, and where none of them is 0: no fewer can be
/// ranked anyway, and of a metric that is 0 half of the time so many without a 0 come once in 1,000.
const ENOUGH_TO_TELL_ZEROS: u64 = 20;
const ENOUGH_WITHOUT_ZEROS: u64 = 2 * LEAST_SIDE;

/// The state of one metric's judgement. Store it before acting on what a look found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    pub(super) design: Design,
    /// Empty until there are enough data to tell how the metric is to be judged.
    pub(super) hypotheses: Vec<Hypothesis>,
    /// Steps to which baseline and canary are rounded, from so many strata.
    pub(super) steps: [Step; 2],
    seen: usize,
    /// Calls of both sides by ordered share, for the comparison with the split.
    pub(super) splits: Splits,
    /// How children differ, where that is known.
    #[serde(default, skip_serializing_if = "ChildEffects::is_empty")]
    pub(super) children: ChildEffects,
    /// How their splits differ from what was ordered, where that is known.
    #[serde(default, skip_serializing_if = "SplitDispersion::is_empty")]
    pub(super) dispersion: SplitDispersion,
    /// Looks that counted, and the interval up to which the last of them went.
    pub(super) looks: u64,
    intervals: u64,
    pub(super) spent: f64,
    pub(super) verdict: Option<Verdict>,
    /// It passed before its last look.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) early: bool,
    /// It goes on after an end that decided nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) extension: Option<Extension>,
}

impl Judgement {
    pub fn new(design: Design) -> Result<Self, DesignFault> {
        design.check()?;
        Ok(Self {
            design,
            hypotheses: Vec::new(),
            steps: [Step::default(), Step::default()],
            seen: 0,
            splits: Splits::default(),
            children: ChildEffects::default(),
            dispersion: SplitDispersion::default(),
            looks: 0,
            intervals: 0,
            spent: 0.0,
            verdict: None,
            early: false,
            extension: None,
        })
    }

    pub fn design(&self) -> &Design {
        &self.design
    }

    /// The verdict that stands, once there is one.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// What is known of how children differ, before a look at what they measured.
    pub fn set_children(&mut self, children: ChildEffects) {
        self.children = children;
    }

    /// What is known of how children shared out their calls, before a look at what they measured.
    pub fn set_dispersion(&mut self, dispersion: SplitDispersion) {
        self.dispersion = dispersion;
    }

    /// Looks at all strata so far, `elapsed_ms` after the analysis began. The verdict, once found, stands.
    pub fn look(&mut self, strata: &[Stratum], elapsed_ms: u64, occasion: Occasion) -> Finding {
        let decision = self.decide(strata, elapsed_ms, occasion);
        self.explain(strata, &decision)
    }

    /// What a decision on these strata rests on: the second half of [`Judgement::look`].
    pub fn explain(&self, strata: &[Stratum], decision: &Decision) -> Finding {
        let evidence = explain::evidence(self, strata, decision);
        Finding { counted: decision.counted, verdict: decision.verdict, evidence }
    }

    /// Goes on after a fail, as if the boundary had not been crossed: whoever demands that it is crossed more than once
    /// makes a fail rarer and never easier, for what was spent stays spent.
    pub fn bear_crossing(&mut self) {
        self.verdict = None;
        for hypothesis in &mut self.hypotheses {
            hypothesis.crossed = false;
        }
    }

    /// [`Judgement::look`] without its evidence, which costs more than the decision.
    pub fn decide(&mut self, strata: &[Stratum], elapsed_ms: u64, occasion: Occasion) -> Decision {
        let moment = self.moment(elapsed_ms, occasion);
        let visible = strata.iter().take_while(|s| s.interval < moment.intervals).count();
        let strata = &strata[..visible];
        let mut decision = Decision {
            counted: false,
            verdict: self.verdict,
            obstacle: None,
            zeros: None,
            inflations: Vec::new(),
            groups: Vec::new(),
            visible,
        };
        if let Err(fault) = data::check(strata, self.seen, &self.design) {
            decision.obstacle = Some(Obstacle::Fault(fault));
            decision.verdict = decision.verdict.or(Some(Verdict::Error));
            if moment.last {
                self.verdict = decision.verdict;
            }
            return decision;
        }
        decision.zeros = OnlyZeros::of(&self.design, strata);
        if self.verdict.is_some() || !moment.counts {
            // It only shows: nothing of it is kept.
            let mut copy = self.clone();
            decision.groups = copy.take(strata, moment.last);
            decision.inflations = copy.inflations(strata).unwrap_or_default();
            decision.obstacle = copy.obstacle(strata, decision.zeros);
            return decision;
        }
        decision.groups = self.take(strata, moment.last);
        self.intervals = match &self.extension {
            None => moment.intervals.min(self.design.looks().unwrap_or(u64::MAX)),
            // Its last look may be followed by more.
            Some(_) if moment.intervals == u64::MAX => self.intervals,
            Some(_) => moment.intervals,
        };
        decision.counted = true;
        decision.obstacle = self.obstacle(strata, decision.zeros);
        match self.inflations(strata) {
            Ok(inflations) => decision.inflations = inflations,
            Err(obstacle) => decision.obstacle = decision.obstacle.or(Some(obstacle)),
        }
        // Whoever else counts looks doesn't know that there was nothing to judge by.
        self.looks += 1;
        if decision.obstacle.is_none() {
            self.spend(&moment, &decision.inflations);
        }
        self.verdict = self.conclude(&decision, moment.last);
        if let (Some(Obstacle::FewEffectivePoints(points)), true) = (&decision.obstacle, moment.last)
            && let Some(p) = self.far_worse(strata)
        {
            self.verdict = Some(Verdict::Fail);
            decision.obstacle = Some(Obstacle::FarWorse { points: *points, p });
        }
        if self.verdict == Some(Verdict::Pass)
            && self.design.sampling == Sampling::Series
            && let Some(silence) = silence(strata, self.design.run_variation.is_some())
        {
            self.verdict = moment.last.then_some(Verdict::NoData);
            decision.obstacle = Some(Obstacle::Silent(silence));
        }
        self.early = self.verdict == Some(Verdict::Pass) && !moment.last && !self.is_extended();
        decision.verdict = self.verdict;
        decision
    }

    fn moment(&self, elapsed_ms: u64, occasion: Occasion) -> Moment {
        let last = occasion == Occasion::Last;
        let (intervals, end) = match self.design.end {
            End::Once => (u64::MAX, true),
            End::After { interval_ms, duration_ms, .. } => {
                (elapsed_ms / interval_ms.max(1), elapsed_ms >= duration_ms)
            }
            End::Open { interval_ms } => (elapsed_ms / interval_ms.max(1), false),
        };
        // What goes on has an end of its own.
        let last = last || (end && !self.is_extended());
        let gone = match self.design.end {
            End::After { interval_ms, duration_ms, .. } if !last => {
                (intervals * interval_ms) as f64 / duration_ms.max(1) as f64
            }
            End::Once | End::After { .. } | End::Open { .. } => 1.0,
        };
        let intervals = if last { u64::MAX } else { intervals };
        Moment { intervals, last, gone, counts: last || intervals > self.intervals }
    }

    /// Takes in what is complete.
    fn take(&mut self, strata: &[Stratum], last: bool) -> Vec<Vec<Group>> {
        for stratum in &strata[self.seen.min(strata.len())..] {
            if let Some(share) = stratum.canary_share {
                self.splits.note(share, stratum.group, stratum.calls());
            }
            if self.design.sampling == Sampling::Calls {
                for (step, sample) in self.steps.iter_mut().zip([&stratum.baseline, &stratum.canary]) {
                    match sample {
                        _ if step.is_fine() => {}
                        Sample::Values(values) => step.see_all(values),
                        Sample::Measured(values) => step.see_measured(values),
                        Sample::Histogram(_) | Sample::Counts(_) => {}
                    }
                }
            }
        }
        self.seen = self.seen.max(strata.len());
        if self.hypotheses.is_empty() {
            let values: u64 = strata.iter().map(|s| s.baseline.count() + s.canary.count()).sum();
            let enough = if has_zeros(strata) { ENOUGH_TO_TELL_ZEROS } else { ENOUGH_WITHOUT_ZEROS };
            if values < enough && !last {
                return Vec::new();
            }
            self.hypotheses = hypotheses(&self.design, is_mostly_zero(strata));
        }
        let once = self.design.end == End::Once;
        let advance = |hypothesis: &mut Hypothesis| hypothesis.advance(strata, &self.steps, last, once);
        self.hypotheses.iter_mut().map(advance).collect()
    }

    /// Whether few effective points show at the last look that the canary is worse, and with which probability under the null. Half of
    /// the alpha that is left is for stretches of time that aren't quite independent.
    fn far_worse(&self, strata: &[Stratum]) -> Option<f64> {
        if self.design.question != Question::Location {
            return None;
        }
        let level = 0.5 * (self.design.planned_alpha() - self.spent) / self.hypotheses.len() as f64;
        let points: Vec<_> = strata.iter().map(points_of).collect();
        let p = |hypothesis: &Hypothesis| {
            let sign = if hypothesis.high { 1.0 } else { -1.0 };
            let map = hypothesis.map();
            batch_means_p(&points, |baseline, canary| sign * (canary - map.of(baseline)))
        };
        self.hypotheses.iter().filter_map(p).filter(|p| *p <= level).reduce(f64::min)
    }

    fn obstacle(&self, strata: &[Stratum], zeros: Option<OnlyZeros>) -> Option<Obstacle> {
        let empty = |side: fn(&Stratum) -> &Sample| strata.iter().all(|s| side(s).count() == 0);
        let (baseline, canary) = (empty(|s| &s.baseline), empty(|s| &s.canary));
        if baseline || canary {
            return Some(Obstacle::NoData { baseline, canary });
        }
        let calls = |of: &dyn Fn(&&Stratum) -> bool| -> u64 {
            strata.iter().filter(of).flat_map(Stratum::calls).fold(0, u64::saturating_add)
        };
        let sticky = calls(&|stratum| stratum.assignment.is_sticky() && stratum.group.is_none());
        if sticky > 0 {
            return Some(Obstacle::Sticky { calls: sticky, of: calls(&|_| true) });
        }
        if let Some(zeros) = zeros.filter(|zeros| self.design.floor().is_none() && !zeros.are_enough()) {
            return Some(Obstacle::OnlyZeros(zeros));
        }
        let ranks = |hypothesis: &Hypothesis| {
            matches!(hypothesis.kind, HypothesisKind::Rank | HypothesisKind::Tail { .. })
        };
        let is_ranked = self.hypotheses.iter().any(ranks) && !are_zero(strata);
        if is_ranked && !are_different(strata, LEAST_DIFFERENT) {
            return Some(Obstacle::FewDifferent);
        }
        let alpha = self.design.alpha;
        let dispersed =
            || self.dispersion.is_mismatch(alpha).then_some(Obstacle::Dispersion(self.dispersion));
        self.splits.mismatch(alpha).map(Obstacle::Split).or_else(dispersed)
    }

    /// What is to be shown of how calls were shared out.
    pub(super) fn split_evidence(&self) -> Option<SplitEvidence> {
        let found = self.splits.evidence(self.design.alpha)?;
        Some(SplitEvidence { between: self.dispersion.evidence(), ..found })
    }

    /// What inflates the variance of each hypothesis.
    fn inflations(&self, strata: &[Stratum]) -> Result<Vec<Inflation>, Obstacle> {
        let runs = match &self.design.run_variation {
            None => None,
            Some(variation) => Some(between_runs(variation).ok_or(Obstacle::UnknownRunVariation)?),
        };
        let series = match self.design.sampling {
            Sampling::Calls => 1.0,
            Sampling::Series => series_inflation(strata)?,
        };
        let of = |hypothesis: &Hypothesis| {
            let mut inflation = hypothesis.between_groups().map_err(Obstacle::FewGroups)?;
            inflation.factor += series - 1.0;
            for more in [runs, self.children.beyond_calls()].into_iter().flatten() {
                inflation.factor += self.between_runs_factor(hypothesis, strata, more);
                inflation.freedom = inflation.freedom.min(more.freedom);
            }
            Ok(inflation)
        };
        self.hypotheses.iter().map(of).collect()
    }

    /// The variance between runs or children, on the scale of the statistic and in units of its variance: the slope of the statistic
    /// against the logarithm of the ratio tells how far a run's variation moves it.
    fn between_runs_factor(&self, hypothesis: &Hypothesis, strata: &[Stratum], runs: BetweenRuns) -> f64 {
        let sums = hypothesis.sums();
        if sums.variance() <= 0.0 {
            return 0.0;
        }
        let slope = match hypothesis.kind {
            HypothesisKind::Rate | HypothesisKind::NonZero => sums.v,
            HypothesisKind::Rank | HypothesisKind::Rest | HypothesisKind::Tail { .. } => {
                self.slope(hypothesis, strata)
            }
        };
        runs.variance * slope * slope / sums.variance()
    }

    fn slope(&self, hypothesis: &Hypothesis, strata: &[Stratum]) -> f64 {
        let groups = self.groups(hypothesis, strata);
        let map = hypothesis.map();
        let (maps, width) = match self.design.tolerance {
            Tolerance::Ratio(_) => {
                let at = |x: f64| Map::scale(map.scale * x.exp());
                ([at(-SLOPE), at(SLOPE)], 2.0 * SLOPE)
            }
            Tolerance::Shift(_) => {
                // A relative variation of the baseline's typical value.
                let typical = baseline_median(&groups).abs();
                let by = SLOPE * typical;
                ([Map::shift(map.shift - by), Map::shift(map.shift + by)], 2.0 * SLOPE)
            }
        };
        let at = |map: Map| {
            let mut trial = hypothesis.blank();
            for group in &groups {
                trial.take(group, map, &mut Distributions::none());
            }
            trial.sums().s
        };
        (at(maps[0]) - at(maps[1])) / width
    }

    /// The groups that a hypothesis is judged on.
    pub(super) fn groups(&self, hypothesis: &Hypothesis, strata: &[Stratum]) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut from = 0;
        let rule = hypothesis.rule();
        while let Some(range) = next_group(strata, from, rule, true) {
            from = range.end;
            groups.push(Group::of(&strata[range], rule, &self.steps));
        }
        groups
    }

    fn spend(&mut self, moment: &Moment, inflations: &[Inflation]) {
        if self.is_extended() {
            return self.look_extended(inflations);
        }
        let (mut share, floor) = (1.0, self.design.floor());
        for (hypothesis, inflation) in self.hypotheses.iter_mut().zip(inflations) {
            match self.design.end {
                End::Open { .. } => drop(hypothesis.look_anytime(*inflation, floor)),
                End::Once => drop(hypothesis.look(*inflation, hypothesis.alpha, true, floor)),
                End::After { spending, .. } => {
                    let spent = alpha_spending::spent(spending, hypothesis.alpha, moment.gone);
                    share = spent / hypothesis.alpha;
                    hypothesis.look(*inflation, spent, moment.last, floor);
                }
            }
        }
        self.spent = self.design.planned_alpha() * share;
        self.look_for_pass(inflations, moment.gone, moment.last);
    }

    fn conclude(&self, decision: &Decision, last: bool) -> Option<Verdict> {
        match &decision.obstacle {
            Some(Obstacle::NoData { .. }) => return last.then_some(Verdict::NoData),
            Some(_) => return last.then_some(Verdict::Inconclusive),
            None => {}
        }
        if self.hypotheses.iter().any(|hypothesis| hypothesis.crossed) {
            return Some(Verdict::Fail);
        }
        let may_pass = last || self.is_extended() || self.design.passes_early();
        if may_pass && self.design.floor().is_none() && decision.zeros.is_some_and(|zeros| zeros.are_enough())
        {
            return Some(Verdict::Pass);
        }
        if self.is_extended() {
            // It may be looked at whenever one likes, for a pass as well.
            let open = last.then_some(Verdict::Inconclusive);
            return self.is_safe_extended(&decision.inflations).then_some(Verdict::Pass).or(open);
        }
        if self.design.passes_early() {
            let open = last.then_some(Verdict::Inconclusive);
            let safe = self.hypotheses.iter().all(|hypothesis| hypothesis.passing.is_safe());
            return (safe && !self.hypotheses.is_empty()).then_some(Verdict::Pass).or(open);
        }
        if !last {
            return None;
        }
        let safe = |(hypothesis, inflation): (&Hypothesis, &Inflation)| self.is_safe(hypothesis, *inflation);
        let all = self.hypotheses.iter().zip(&decision.inflations).all(safe);
        Some(if all && !self.hypotheses.is_empty() { Verdict::Pass } else { Verdict::Inconclusive })
    }

    /// The bound is taken once, at the end: "worse by the tolerance or more" is rejected at alpha.
    fn is_safe(&self, hypothesis: &Hypothesis, inflation: Inflation) -> bool {
        let Tails { lower, .. } = hypothesis.for_pass().tails(inflation);
        let Some(floor) = self.design.floor() else { return lower <= self.design.planned_alpha() };
        // Two ways to be safe share alpha: below the tolerance, or below the floor (Clopper and Pearson 1934).
        let half = 0.5 * self.design.planned_alpha();
        lower <= half || (hypothesis.high && hypothesis.against_floor().lower(floor) <= half)
    }
}

/// Where a look stands.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// Intervals that are complete.
    intervals: u64,
    last: bool,
    /// The share of the duration that is gone at the end of them.
    gone: f64,
    counts: bool,
}

/// Which null hypotheses a metric is judged by; their parts of alpha add up to the metric's.
fn hypotheses(design: &Design, mostly_zero: bool) -> Vec<Hypothesis> {
    let relative = matches!(design.tolerance, Tolerance::Ratio(_));
    let kinds: &[HypothesisKind] = match design.question {
        Question::Location if mostly_zero && relative && design.sampling == Sampling::Calls => {
            &[HypothesisKind::NonZero, HypothesisKind::Rest]
        }
        Question::Location => &[HypothesisKind::Rank],
        Question::Quantile(q) => &[HypothesisKind::Tail { q }],
        Question::Rate { .. } => &[HypothesisKind::Rate],
    };
    let directions: &[bool] = match design.deviation {
        Deviation::High => &[true],
        Deviation::Low => &[false],
        Deviation::Either => &[true, false],
    };
    let alpha = design.planned_alpha() / (kinds.len() * directions.len()) as f64;
    let of = |high: &bool| {
        let high = *high;
        kinds.iter().map(move |kind| Hypothesis::new(*kind, high, design.tolerance, alpha))
    };
    directions.iter().flat_map(of).collect()
}

/// How much more the difference of two series varies than that of independent values.
fn series_inflation(strata: &[Stratum]) -> Result<f64, Obstacle> {
    let found = dependence(&strata.iter().map(points_of).collect::<Vec<_>>());
    if found.effective < LEAST_EFFECTIVE_POINTS {
        return Err(Obstacle::FewEffectivePoints(found.effective));
    }
    Ok(found.factor)
}

/// Of baseline and canary.
fn points_of(stratum: &Stratum) -> (&[f64], &[f64]) {
    fn points(sample: &Sample) -> &[f64] {
        if let Sample::Values(values) = sample { values } else { &[] }
    }
    (points(&stratum.baseline), points(&stratum.canary))
}
