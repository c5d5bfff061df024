//! A decision in one sentence, for people.

use super::{
    clusters::LEAST_GROUPS,
    data::{Counts, LEAST_DIFFERENT},
    decision::{Decision, Obstacle},
    design::{Design, Deviation, End, Question, Sampling, Tolerance},
    evidence::{BelowFloor, Effect, Evidence, SideSummary, TestEvidence, Verdict},
    hypothesis::{Hypothesis, HypothesisKind},
    silence::Silence,
    split::Split,
    zeros::OnlyZeros,
};

/// One in a million: smaller probabilities are not told apart.
const LEAST_ODDS: f64 = 1e-6;

/// What a verdict on few children is about.
pub(super) fn few_children(evidence: &Evidence) -> Option<String> {
    let between = evidence.children.filter(|between| between.deviation.is_none())?;
    Some(match between.children {
        1 => " This holds for the one child that measured enough of both versions.".to_owned(),
        few => format!(
            " This holds for the {few} children that measured enough of both versions: they are too few to tell how \
             others differ."
        ),
    })
}

/// p95, p99.9.
pub(super) fn quantile_name(q: f64) -> String {
    format!("p{}", (q * 1e6).round() / 1e4)
}

/// What a sentence is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sentence<'a> {
    pub design: &'a Design,
    pub decision: &'a Decision,
    pub evidence: &'a Evidence,
    /// One of each test of the evidence.
    pub hypotheses: &'a [Hypothesis],
    /// What is compared is how long calls took, in milliseconds.
    pub is_times: bool,
}

impl Sentence<'_> {
    pub fn text(&self) -> String {
        let (verdict, text) = (self.decision.verdict, self.found());
        match (verdict, &self.decision.obstacle) {
            (Some(verdict @ (Verdict::Pass | Verdict::Fail)), Some(obstacle)) if !obstacle.decides() => {
                format!("{}: that stands, though by now {text}.", verdict.name())
            }
            _ => format!("{}: {text}.", verdict.map_or("It goes on", Verdict::name)),
        }
    }

    fn found(&self) -> String {
        if let Some(obstacle) = &self.decision.obstacle {
            return self.hindered(obstacle);
        }
        let verdict = self.decision.verdict;
        if let (Some(floor), Some(Verdict::Pass)) = (&self.evidence.below_floor, verdict) {
            return self.below(floor);
        }
        if let Some(zeros) = &self.decision.zeros {
            return self.only_zeros(zeros);
        }
        let Some(effect) = &self.evidence.effect else { return self.without_estimate() };
        match verdict {
            Some(Verdict::Fail) => self.failed(effect),
            Some(Verdict::Pass) => format!(
                "{}{}; {} is allowed{}",
                self.compared(effect),
                self.in_brackets(effect),
                self.allowed(),
                self.early()
            ),
            Some(Verdict::Inconclusive) => self.undecided(effect),
            Some(Verdict::NoData | Verdict::Error) | None => format!(
                "{} so far{}{}; {} is allowed",
                self.compared(effect),
                self.in_brackets(effect),
                self.look(),
                self.allowed()
            ),
        }
    }

    fn failed(&self, effect: &Effect) -> String {
        let crossed = || self.hypotheses.iter().zip(&self.evidence.tests).filter(|(_, test)| test.crossed);
        let (compared, allowed, look) = (self.compared(effect), self.allowed(), self.look());
        let is_estimated = |(hypothesis, _): &(&Hypothesis, _)| {
            hypothesis.kind != HypothesisKind::NonZero && self.is_beyond(effect, hypothesis.high)
        };
        if let Some((_, test)) = crossed().find(is_estimated) {
            let (counted, chance) = (self.counted(), self.by_chance(test));
            return format!("{compared}{counted}{look}; {allowed} is allowed{chance}");
        }
        if let Some((hypothesis, test)) = crossed().find(|(h, _)| h.kind == HypothesisKind::NonZero) {
            let often = if hypothesis.high { "more" } else { "less" };
            let (rare, chance) = (self.how_often(hypothesis), self.by_chance(test));
            return format!("{rare}{look}; {allowed} {often} often is allowed{chance}");
        }
        let is_high = crossed().next().is_none_or(|(hypothesis, _)| hypothesis.high);
        format!(
            "at an earlier look {} was {} by more than the allowed {allowed} and chance; by now {compared}{}{look}",
            self.subject(),
            if is_high { "higher" } else { "lower" },
            self.counted()
        )
    }

    fn undecided(&self, effect: &Effect) -> String {
        let (things, allowed) = (self.things(), self.allowed());
        let allow_more = "allow more (tolerance)";
        if let Some(error) = effect.error.filter(|error| *error >= tolerance_size(self.design)) {
            return format!(
                "the clock or the buckets of these data are too coarse: a difference can't be known better than to {}, and \
                 {allowed} is allowed; measure in finer steps, or {allow_more}",
                self.amount(error, effect.relative)
            );
        }
        let (span, counted) = (self.span(effect), self.counted());
        if let Some((whose, rate, floor)) = self.near_floor() {
            let more = self.settled_by_more().unwrap_or_else(|| format!("measure more {things}"));
            return format!(
                "{span}{counted}, by more than the allowed {allowed}; but up to a rate of {} nothing fails (floor), and it isn't \
                 certain that {whose}, {}, is above that; {more}, or allow more (floor)",
                percent(floor),
                percent(rate)
            );
        }
        let more = match self.settled_by_more() {
            Some(more) => more,
            None if self.design.run_variation.is_some() => format!(
                "more {things} hardly help, for one version varies by as much from run to run: compare with a baseline beside \
                 it, or {allow_more}"
            ),
            None => format!(
                "how many more {things} would settle it can't be told: measure for longer, or {allow_more}"
            ),
        };
        let is_between = |hypothesis: &Hypothesis| {
            let edge = self.edge(effect, hypothesis.high);
            effect.low.is_none_or(|low| low <= edge) && effect.high.is_none_or(|high| edge <= high)
        };
        if self.hypotheses.iter().any(is_between) {
            return format!("{span}{counted}; the allowed {allowed} lies in between; {more}");
        }
        match self.hypotheses.iter().find(|hypothesis| hypothesis.kind == HypothesisKind::NonZero) {
            Some(rare) => format!(
                "{}: whether that is within the allowed {allowed} isn't certain; measure for longer, or {allow_more}",
                self.how_often(rare)
            ),
            None => {
                format!("{span}{counted}; {allowed} is allowed, and it isn't certain that this holds; {more}")
            }
        }
    }

    /// How many more calls or points would settle it, where that can be told.
    fn settled_by_more(&self) -> Option<String> {
        let more = self.evidence.more_calls?;
        let (count, things, command) = (thousands(more), self.things(), self.command(more));
        Some(format!("about {count} more {things} would most likely settle it{command}"))
    }

    /// Where all that keeps a rate from failing is its floor: whose rate that is, the rate and the floor.
    fn near_floor(&self) -> Option<(&'static str, f64, f64)> {
        let floor = self.design.floor()?;
        let (hypothesis, _) =
            self.hypotheses.iter().zip(&self.evidence.tests).find(|(_, test)| test.waits_for_floor())?;
        let (whose, side) = if hypothesis.high {
            ("the canary's", &self.evidence.canary)
        } else {
            ("the baseline's", &self.evidence.baseline)
        };
        Some((whose, side.rate?, floor))
    }

    /// "3.2 % of the canary's calls aren't 0, and 1.1 % of the baseline's".
    fn how_often(&self, hypothesis: &Hypothesis) -> String {
        let rates = hypothesis.rates();
        let share = |counts: Counts| percent(counts.events as f64 / counts.calls.max(1) as f64);
        format!(
            "{} of the canary's {} aren't 0, and {} of the baseline's",
            share(rates.canary),
            self.things(),
            share(rates.baseline)
        )
    }

    /// Whether the estimate lies beyond what is allowed on that side.
    fn is_beyond(&self, effect: &Effect, high: bool) -> bool {
        let edge = self.edge(effect, high);
        if high { effect.estimate > edge } else { effect.estimate < edge }
    }

    /// What is allowed on that side, on the scale of the estimate.
    fn edge(&self, effect: &Effect, high: bool) -> f64 {
        let size = if high { tolerance_size(self.design) } else { -tolerance_size(self.design) };
        if effect.relative { 1.0 + size } else { size }
    }

    /// A pass by the floor: how the versions compare may be all but unknown, and doesn't matter.
    fn below(&self, floor: &BelowFloor) -> String {
        format!(
            "the canary's rate is at most {} ({}), and up to {} is always allowed{}",
            percent(floor.at_most),
            self.events(),
            percent(floor.floor),
            self.early()
        )
    }

    fn only_zeros(&self, zeros: &OnlyZeros) -> String {
        let (things, floor) = (self.things(), percent(zeros.floor));
        let is_rate = matches!(self.design.question, Question::Rate { .. });
        let count = |side: &SideSummary| thousands(side.count);
        let facts = if is_rate {
            format!("neither version had an event ({})", self.events())
        } else {
            let (canary, baseline) = (count(&self.evidence.canary), count(&self.evidence.baseline));
            format!("all {things} are 0, {canary} of the canary and {baseline} of the baseline")
        };
        let is_at_most = |share: String| {
            if is_rate {
                format!("the canary's rate is at most {share}")
            } else {
                format!("at most {share} of the canary's are anything else")
            }
        };
        let shows = is_at_most(floor.clone());
        let alike = if is_rate { " without one (both together)" } else { " zeros (both together)" };
        let remedy = if is_rate {
            "allow more (floor)"
        } else {
            "say what is allowed: `expected: {max: 0}` as a THRESHOLD, or a tolerance that is an amount"
        };
        match (zeros.more, self.decision.verdict) {
            (Some(0), Some(Verdict::Pass)) => format!(
                "{facts}, so {}; up to {floor} is allowed{}",
                is_at_most(percent(zeros.at_most)),
                self.early()
            ),
            (Some(0), _) => format!("{facts}{}; if that stays so, it passes at the end", self.look()),
            (Some(more), None) => {
                format!("{facts}{}; {} more{alike} will show that {shows}", self.look(), thousands(more))
            }
            (Some(more), Some(_)) => format!(
                "{facts}; {} more{alike} would show that {shows}{}; or {remedy}",
                thousands(more),
                self.command(more)
            ),
            (None, _) if self.design.deviation == Deviation::Low => format!(
                "{facts}, and lower is worse: see that it is measured, or say what is allowed by `expected: {{min: …}}` as a THRESHOLD"
            ),
            (None, _) => format!(
                "{facts}, and all calls of one user or child go to one version, so it isn't known what they are worth; {remedy}"
            ),
        }
    }

    /// "3 of 5,000 calls, the baseline 2 of 5,000".
    fn events(&self) -> String {
        let of = |side: &SideSummary| (thousands(side.events.unwrap_or_default()), thousands(side.count));
        let ((events, calls), (others, of)) = (of(&self.evidence.canary), of(&self.evidence.baseline));
        format!("{events} of {calls} calls, the baseline {others} of {of}")
    }

    /// The counts of a rate.
    fn counted(&self) -> String {
        match self.design.question {
            Question::Rate { .. } => format!(" ({})", self.events()),
            Question::Location | Question::Quantile(_) => String::new(),
        }
    }

    /// Where it can't be said how large the difference is.
    fn without_estimate(&self) -> String {
        let (allowed, counted) = (self.allowed(), self.counted());
        match self.decision.verdict {
            None => format!("there are too few {} to compare yet{counted}", self.things()),
            Some(Verdict::Pass) => format!(
                "the canary isn't worse by more than the allowed {allowed}; by how much it differs can't be said{counted}{}",
                self.early()
            ),
            Some(Verdict::Fail) => {
                let chance =
                    self.evidence.tests.iter().find(|test| test.crossed).map(|test| self.by_chance(test));
                format!(
                    "the canary is worse than the baseline by more than the allowed {allowed}{counted}{}{}",
                    self.look(),
                    chance.unwrap_or_default()
                )
            }
            Some(Verdict::Inconclusive | Verdict::NoData | Verdict::Error) => format!(
                "there are too few {} to tell how the canary compares{counted}; measure for longer, or at more children",
                self.things()
            ),
        }
    }

    /// "; if it were only 5 %, chance would show this 6 times in 1,000".
    fn by_chance(&self, test: &TestEvidence) -> String {
        format!("; if it were only {}, chance would show this {}", self.allowed(), odds(test.p))
    }

    fn hindered(&self, obstacle: &Obstacle) -> String {
        let see = match self.design.sampling {
            Sampling::Series => "see what the query gives for it",
            Sampling::Calls => "see that it gets calls",
        };
        match obstacle {
            Obstacle::Fault(fault) => fault.to_string(),
            Obstacle::NoData { baseline: true, canary: true } => {
                format!("neither side measured anything; {see}")
            }
            Obstacle::NoData { baseline: true, .. } => format!("the baseline measured nothing; {see}"),
            Obstacle::NoData { .. } => format!("the canary measured nothing; {see}"),
            Obstacle::Split(Split { share, baseline, canary, .. }) => format!(
                "the canary had {} of {} calls, which isn't the {} that was ordered, so the sides differ in more than the \
                 version; see what routes the calls",
                thousands(*canary),
                thousands(baseline + canary),
                percent(*share)
            ),
            Obstacle::Dispersion(between) => format!(
                "all calls together were shared out as ordered, but over {} children the splits of single ones differ from that by \
                 more than chance explains, so the sides differ in more than the version; see what routes the calls",
                between.children
            ),
            Obstacle::FewEffectivePoints(points) => format!(
                "the points of a series depend on each other and are worth {} independent ones on a side; it takes \
                 20: measure for longer, or average over less time in the query",
                points.floor()
            ),
            Obstacle::FarWorse { points, p } => format!(
                "the canary is worse by far more than the allowed {}: the points of both series depend on each other and are worth \
                 {} independent ones on a side; if it were only that, chance would show this {}",
                self.allowed(),
                points.floor(),
                odds(*p)
            ),
            Obstacle::Sticky { calls, of } => format!(
                "all calls of one user or child go to one version, so they are no independent calls, and {} of {} did not \
                 come in groups of users by which it could be told what they are worth; have them reported in groups",
                thousands(*calls),
                thousands(*of)
            ),
            Obstacle::FewGroups(groups) => format!(
                "all calls of one user or child go to one version, and {groups} of the groups of users that they came in had \
                 calls of the version with fewer users: it takes {LEAST_GROUPS} of each to tell what such calls are worth; measure for \
                 longer, until more users call"
            ),
            Obstacle::Silent(silence) => self.silent(silence),
            Obstacle::FewDifferent => format!(
                "there are fewer than {LEAST_DIFFERENT} different values on both sides together, which a coarse clock would \
                 show of different versions too; measure in finer steps, count one of the values as a rate, or ask for a \
                 THRESHOLD"
            ),
            Obstacle::OnlyZeros(zeros) => self.only_zeros(zeros),
            Obstacle::UnknownRunVariation => {
                "how much one version varies from run to run isn't known; it takes 5 earlier runs, or runVariation".to_owned()
            }
        }
    }

    fn silent(&self, silence: &Silence) -> String {
        let Silence { is_canary, spoke, of, last, is_over } = silence;
        let interval_ms = match self.design.end {
            End::After { interval_ms, .. } | End::Open { interval_ms } => interval_ms,
            End::Once => 0,
        };
        let side = if *is_canary { "the canary" } else { "the baseline" };
        let since = number(((last + 1) * interval_ms) as f64 / 1e3);
        let since = if *is_over { format!(" and none after {since} s") } else { String::new() };
        format!(
            "{side} has values in {spoke} of {of} intervals{since}; by these it would pass: see why the others have none"
        )
    }

    fn subject(&self) -> String {
        match self.design.question {
            Question::Location if self.hypotheses.iter().any(|h| h.kind == HypothesisKind::Rest) => {
                "where it isn't 0, the canary".to_owned()
            }
            Question::Location => "the canary".to_owned(),
            Question::Quantile(q) => format!("the canary's {}", quantile_name(q)),
            Question::Rate { .. } => "the canary's rate".to_owned(),
        }
    }

    /// What was counted.
    fn things(&self) -> &'static str {
        match (self.design.sampling, self.design.question) {
            (Sampling::Series, _) => "points",
            (Sampling::Calls, Question::Rate { .. }) => "calls",
            (Sampling::Calls, _) if self.is_times => "calls",
            (Sampling::Calls, _) => "values",
        }
    }

    /// Whether it is a time that calls took, and not a quantile of it.
    fn took(&self) -> bool {
        self.is_times && self.design.question == Question::Location
    }

    fn allowed(&self) -> String {
        match self.design.tolerance {
            Tolerance::Ratio(ratio) => percent(ratio),
            Tolerance::Shift(shift) => self.amount(shift, false),
        }
    }

    fn amount(&self, value: f64, relative: bool) -> String {
        match (relative, self.is_times) {
            (true, _) => percent(value),
            (false, true) => format!("{} ms", number(value)),
            (false, false) => number(value),
        }
    }

    /// "longer", "lower".
    fn way(&self, amount: f64) -> &'static str {
        match (self.took(), amount < 0.0) {
            (true, true) => "less",
            (true, false) => "longer",
            (false, true) => "lower",
            (false, false) => "higher",
        }
    }

    /// "the canary took 20.3 % longer than the baseline".
    fn compared(&self, effect: &Effect) -> String {
        let amount = if effect.relative { effect.estimate - 1.0 } else { effect.estimate };
        let as_much = if self.took() { "as long as" } else { "as high as" };
        self.beside_the_baseline(&match amount.abs() {
            size if size < 1e-9 => as_much.to_owned(),
            _ if effect.relative && amount >= 1.0 => format!("{} times {as_much}", number(effect.estimate)),
            size => format!("{} {} than", self.amount(size, effect.relative), self.way(amount)),
        })
    }

    /// "the canary took between 4.8 % and 6.7 % longer than the baseline".
    fn span(&self, effect: &Effect) -> String {
        self.beside_the_baseline(&format!("{} than", self.between(effect)))
    }

    fn beside_the_baseline(&self, how: &str) -> String {
        let verb = if self.took() { "took" } else { "is" };
        let other =
            if self.design.question == Question::Location { "the baseline" } else { "the baseline's" };
        format!("{} {verb} {how} {other}", self.subject())
    }

    /// "between 0.6 % less and 3.8 % longer".
    fn between(&self, effect: &Effect) -> String {
        let amount = |value: f64| if effect.relative { value - 1.0 } else { value };
        let end = |value: f64| format!("{} {}", self.amount(value.abs(), effect.relative), self.way(value));
        match (effect.low.map(amount), effect.high.map(amount)) {
            (Some(low), Some(high)) if (low < 0.0) == (high < 0.0) => {
                let (near, far) = if low < 0.0 { (high, low) } else { (low, high) };
                format!("between {} and {}", self.amount(near.abs(), effect.relative), end(far))
            }
            (Some(low), Some(high)) => format!("between {} and {}", end(low), end(high)),
            (Some(low), None) => format!("somewhere from {} upwards", end(low)),
            (None, Some(high)) => format!("somewhere from {} downwards", end(high)),
            (None, None) => format!("by an unknown amount {} or {}", self.way(-1.0), self.way(1.0)),
        }
    }

    /// " (with a confidence of 90 % between 0.6 % less and 3.8 % longer)".
    fn in_brackets(&self, effect: &Effect) -> String {
        if effect.low.is_none() && effect.high.is_none() {
            return String::new();
        }
        format!(" (with {} confidence {})", percent(effect.confidence), self.between(effect))
    }

    /// What lets it go on for so many more, where that is possible.
    fn command(&self, more: u64) -> String {
        if self.design.reserve <= 0.0 {
            return String::new();
        }
        format!(": `choirmaster release extend-analysis ID --calls {more}`")
    }

    /// "; passed early, at look 3 of 20".
    fn early(&self) -> String {
        if self.evidence.early { format!("; passed early{}", self.look()) } else { String::new() }
    }

    fn look(&self) -> String {
        match (self.evidence.looks, self.evidence.planned_looks) {
            (0, _) | (_, Some(1)) => String::new(),
            (k, Some(of)) => format!(", at look {k} of {of}"),
            (k, None) => format!(", at look {k}"),
        }
    }
}

pub(super) fn tolerance_size(design: &Design) -> f64 {
    match design.tolerance {
        Tolerance::Ratio(tolerance) | Tolerance::Shift(tolerance) => tolerance,
    }
}

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// Three digits.
fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    let digits = (2.0 - size.log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// "240,000".
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "6 times in 1,000": never said to be rarer than it is.
fn odds(p: f64) -> String {
    if p < LEAST_ODDS {
        return "less than once in a million".to_owned();
    }
    let mut of = 10_u64;
    while p * (of as f64) < 1.0 {
        of *= 10;
    }
    match (p * of as f64).ceil() {
        1.0 => format!("once in {}", thousands(of)),
        times => format!("{times} times in {}", thousands(of)),
    }
}
