//! Where the analyses of a release stand: which run of which block is under way, what its looks have found, and what
//! a verdict does.
//!
//! A block is run once for each wave (that of a stage), for each step of the release (that of `rollout` with a duration),
//! or once as long as the release takes. Each run has its part of alpha.
//!
//! ```mermaid
//! stateDiagram-v2
//!     [*] --> Open: the first child has begun the stage, or the wave opened
//!     Open --> Passed: verdict pass, or one that the block lets pass
//!     Open --> Paused: an error, or nothing that decides
//!     Open --> Failed: verdict fail
//!     Paused --> Accepted: resume
//!     Open --> Passed: the release is over, and nothing was found against it
//! ```
//!
//! Invariants:
//! - a gate whose run is open, paused or failed stays closed;
//! - a look counts once: it says after how many it came, and one that comes late or twice is refused;
//! - what a look spends of alpha is stored with it, before a verdict acts.
//!
//! Not here: fetching (`judging`), statistics (`analysis`).

mod apply;
mod change;
mod command;
mod decide;

pub(super) use apply::apply;
pub use change::Change;
pub use command::Command;
pub(super) use decide::decide;

use serde::{Deserialize, Serialize};

use super::{
    assignment::ReleaseMs,
    change::Change as StateChange,
    ending::{Cause, Ending},
    gate::Gate,
    lifecycle::{self, roll_back},
    members,
    pause::{Pause, PausedBy},
    state::{End as ReleaseEnd, Release, ReleaseState, State},
    strata::Key,
};
use ::analysis::{
    Design, Deviation, EARLY_PART, EXTENSION_RESERVE, End, Evidence, Judgement, Question, RunVariation,
    Sampling, Spending, Stratum, Tolerance, Verdict,
};
use language::{
    OnLimit, Order,
    analysis::{
        self as spec, Analysis, ChildMetric, Comparison, Metric, MetricSource, Reference, Rule, Unclear,
    },
};
use model::{Now, ReleaseKey};

/// How long a verdict may be late before the release is paused for want of it, in milliseconds of the release's
/// clock: 15 minutes, and the analysis's duration once more, for answers that are asked for again.
const OVERDUE_AFTER_MS: u64 = 15 * 60 * 1_000;

/// How the reason of a release begins that an analysis holds.
pub(super) const REASON: &str = "analysis of ";

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Open,
    Passed,
    /// The release was paused for it; to resume is to accept its verdict.
    Paused,
    /// The release is taken back for it.
    Failed,
    /// It was no pass, and the release goes on nevertheless.
    Accepted,
}

impl Standing {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Passed => "passed",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Accepted => "accepted",
        }
    }
}

/// What is known of one metric in a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metered {
    /// Of a comparison, once it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// What was measured for it, interval by interval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strata: Vec<Stratum>,
    /// Of what children reported: which part of it each of the strata is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MeasuredPart>,
    /// They are apart by the classes of children, where these are known; no look of an earlier build came before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_classed: bool,
    /// What a `PREVIOUS` is compared with, from its first look on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<Previous>,
    /// Up to which instant there are values, in milliseconds since 1970: of the canary, and of what it is compared with.
    pub until_ms: [Option<i64>; 2],
    /// Looks with a value, without one, and those whose value was outside of the expected range; of a comparison, that
    /// crossed the boundary. Of a condition it is children that are counted.
    pub measured: u32,
    pub empty: u32,
    pub outside: u32,
    /// Looks in a row without an answer.
    pub errors: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What the last look found, in words.
    pub sentence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Box<Evidence>>,
}

/// Which part of what children report a stratum is: what came of it in one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MeasuredPart {
    /// Index in the strategy.
    pub stage: u8,
    #[serde(flatten)]
    pub key: Key,
}

/// The same stage of an earlier release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    pub release: String,
    /// When it was, in milliseconds since 1970.
    pub began_ms: i64,
    pub ended_ms: i64,
}

/// One run of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its place in [`language::Strategy::analyses`].
    pub block: u8,
    /// Which one, from 0, and of how many that share its alpha.
    pub number: u32,
    pub of: u32,
    pub began: ReleaseMs,
    /// So many, and how long after the initial delay the last one came.
    pub looks: u64,
    pub looked_ms: u64,
    /// In the order of the strategy.
    pub metrics: Vec<Metered>,
    pub standing: Standing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The verdict in words.
    #[serde(default)]
    pub why: String,
    /// It goes on after an end that decided nothing, or is to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended: Option<Extended>,
}

/// How long a run goes on after an end that decided nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    pub for_ms: u64,
    /// Or until so many more calls were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// `None`: its end is still to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Begun>,
}

/// When a run went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// How long after the initial delay.
    pub elapsed_ms: u64,
    /// The calls of both versions that were measured by then, of the metric with most of them.
    pub calls: u64,
}

impl Run {
    /// Whether what waits for it goes on waiting.
    const fn holds(&self) -> bool {
        matches!(self.standing, Standing::Open | Standing::Paused | Standing::Failed)
    }

    /// Whether it ended undecided, and can go on.
    pub(super) fn may_go_on(&self) -> bool {
        let is_undecided = matches!(self.verdict, Some(Verdict::Inconclusive | Verdict::NoData));
        is_undecided && self.standing == Standing::Paused && self.metrics.iter().any(Metered::may_go_on)
    }

    fn begun(&self, at: ReleaseMs, delay: u64) -> Begun {
        let calls = self.metrics.iter().map(Metered::calls).max().unwrap_or(0);
        Begun { elapsed_ms: at.saturating_sub(self.began.saturating_add(delay)), calls }
    }

    /// Whether it is still to be looked at.
    const fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Open) && self.verdict.is_none()
    }
}

/// A look at the data of a run, made outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    pub release: ReleaseKey,
    pub block: u8,
    pub number: u32,
    /// So many looks came before it.
    pub after: u64,
    /// How long after the initial delay it came.
    pub elapsed_ms: u64,
    /// Everybody whose reports count had come to the gate behind it.
    pub is_gathered: bool,
    /// The new state of each metric.
    pub metrics: Vec<Metered>,
}

fn ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Metered {
    /// The calls, or values, of both versions that were measured.
    pub fn calls(&self) -> u64 {
        self.strata.iter().map(|stratum| stratum.baseline.count() + stratum.canary.count()).sum()
    }

    /// Whether it has passed before its end; its verdict is still to come.
    pub fn passes_early(&self) -> bool {
        self.verdict.is_none() && self.judgement.as_ref().is_some_and(Judgement::is_early_pass)
    }

    /// Is over before its end.
    fn end_early(&mut self, metric: &Metric) {
        self.verdict = Some(Verdict::Pass);
        // What providers said is what a later release may be compared with.
        if matches!(metric.source, MetricSource::Children(_)) {
            self.judgement = None;
            self.strata.clear();
            self.parts.clear();
        }
    }

    /// Whether it ended undecided, and can go on.
    fn may_go_on(&self) -> bool {
        let is_undecided = matches!(self.verdict, Some(Verdict::Inconclusive | Verdict::NoData));
        let judgement = self.judgement.as_ref();
        is_undecided && judgement.is_some_and(|judgement| judgement.may_extend().is_ok())
    }
}

impl Release {
    /// Whether a run is open and will have an end, after which it can go on.
    pub(super) fn may_be_extended(&self, run: &Run) -> bool {
        let keeps = |metric: usize| self.design(run, metric).is_ok_and(|design| design.reserve > 0.0);
        let began_so = |found: &Metered| found.judgement.as_ref().is_none_or(|of| of.design().reserve > 0.0);
        let metrics = run.metrics.iter().enumerate();
        run.is_open() && metrics.into_iter().any(|(at, found)| keeps(at) && began_so(found))
    }

    /// When a run ends, in milliseconds after the initial delay; `None`: with the release.
    pub fn end_of(&self, run: &Run) -> Option<u64> {
        let planned = ms(self.block(run.block)?.1.duration?);
        let extended = run.extended.and_then(|extended| Some((extended.begun?, extended.for_ms)));
        Some(extended.map_or(planned, |(begun, for_ms)| begun.elapsed_ms.saturating_add(for_ms)))
    }

    /// A block with its stage; no stage: the whole release.
    pub fn block(&self, block: u8) -> Option<(Option<usize>, &Analysis)> {
        self.strategy.analyses().nth(usize::from(block))
    }

    pub fn run(&self, block: u8) -> Option<&Run> {
        self.runs.iter().find(|run| run.block == block)
    }

    /// What a block judges, in words.
    pub fn block_name(&self, block: u8) -> String {
        let stage = self.block(block).and_then(|(stage, _)| self.strategy.stages.get(stage?));
        stage.map_or_else(|| "the release".to_owned(), |stage| format!("stage {}", stage.name))
    }

    fn is_global(&self) -> bool {
        self.strategy.rollout.as_ref().is_some_and(|rollout| rollout.order == Order::GlobalIncremental)
    }

    /// Whether a gate waits for a verdict.
    pub(super) fn awaits_verdict(&self, gate: Gate) -> bool {
        self.runs.iter().filter(|run| run.holds()).any(|run| match (self.block(run.block), gate) {
            (Some((Some(stage), _)), Gate::Level(level)) => self.gates.levels.after_stage(stage) == level,
            (Some((None, analysis)), gate) => {
                analysis.duration.is_some() && self.is_global() == matches!(gate, Gate::Level(_))
            }
            _ => false,
        })
    }

    /// Whether it can't end well yet: the last of its steps is being judged.
    pub(super) fn awaits_last_verdict(&self) -> bool {
        self.runs.iter().any(|run| {
            let whole = self.block(run.block).filter(|(stage, _)| stage.is_none());
            run.standing == Standing::Open && whole.is_some_and(|(_, analysis)| analysis.duration.is_some())
        })
    }

    /// Whether everybody whose reports a run counts has come to the gate behind it.
    pub fn is_gathered(&self, run: &Run) -> bool {
        let Some((stage, _)) = self.block(run.block) else { return false };
        let level = match stage {
            Some(stage) => Some(self.gates.levels.after_stage(stage)),
            None if self.is_global() => Some(self.gates.stand.level),
            None => None,
        };
        let reached = self.gates.stand.reached.map(|reached| reached.gate);
        let is_there = level.is_some_and(|level| reached == Some(Gate::Level(level)));
        is_there || self.counts.awaited_now == 0
    }

    /// When a run is to be looked at next.
    pub fn look_due(&self, run: &Run) -> Option<ReleaseMs> {
        self.look_due_after(run, run.looked_ms)
    }

    /// The same, where a look so long after the initial delay found nothing new, which nobody took note of.
    pub fn look_due_after(&self, run: &Run, looked_ms: u64) -> Option<ReleaseMs> {
        let (_, analysis) = self.block(run.block).filter(|_| run.is_open())?;
        let (interval, duration) = (ms(analysis.interval).max(1), self.end_of(run));
        let begun = run.began.saturating_add(ms(analysis.initial_delay));
        let looked_ms = looked_ms.max(run.looked_ms);
        let next = (looked_ms / interval + 1).saturating_mul(interval);
        let end = duration.filter(|end| looked_ms < *end);
        let of = |metric: &Metric| match metric.source {
            MetricSource::Query(_) => Some(end.map_or(next, |end| next.min(end))),
            // In the background nobody is waited for.
            MetricSource::Children(_) if duration.is_none() => Some(next),
            MetricSource::Children(_) => {
                let last = Some(end.unwrap_or(next)).filter(|_| self.is_gathered(run));
                // Nor is anybody for a look at what has come so far.
                let between = end.filter(|end| metric.is_judged_on_the_way() && next < *end).map(|_| next);
                [last, between].into_iter().flatten().min()
            }
        };
        let open = analysis.metrics.iter().zip(&run.metrics).filter(|(_, found)| found.verdict.is_none());
        open.filter_map(|(metric, _)| of(metric)).min().map(|due| begun.saturating_add(due))
    }

    /// When the first of the verdicts is so late that nobody can be making it; `MAX`: never.
    pub(super) fn verdict_overdue(&self) -> ReleaseMs {
        self.runs.iter().filter_map(|run| self.overdue(run)).min().unwrap_or(ReleaseMs::MAX)
    }

    fn overdue(&self, run: &Run) -> Option<ReleaseMs> {
        let (_, analysis) = self.block(run.block).filter(|_| run.is_open())?;
        let duration = ms(analysis.duration?);
        let until = self.end_of(run).unwrap_or(duration);
        let end = run.began.saturating_add(ms(analysis.initial_delay)).saturating_add(until);
        let by_children = |metric: &Metric| matches!(metric.source, MetricSource::Children(_));
        let from = match self.gates.stand.reached {
            Some(reached) => end.max(reached.at),
            // Until they have come, each of them has a deadline of its own.
            None if analysis.metrics.iter().any(by_children) => return None,
            None => end,
        };
        Some(from.saturating_add(duration).saturating_add(OVERDUE_AFTER_MS))
    }

    /// How the comparison of a metric is made in a run, or why it can't be.
    pub fn design(&self, run: &Run, metric: usize) -> Result<Design, String> {
        let (stage, analysis) = self.block(run.block).ok_or("there is no such block")?;
        let metric = analysis.metrics.get(metric).ok_or("there is no such metric")?;
        let Rule::Compare(compare) = &metric.rule else { return Err("it is no comparison".to_owned()) };
        let share = alpha_of(&self.strategy, stage, metric);
        if run.number >= run.of {
            return Err("no alpha is left for those who joined after the release was planned".to_owned());
        }
        let design = design(metric, compare, analysis, share / f64::from(run.of.max(1)));
        design.check().map(|()| design).map_err(|fault| fault.to_string())
    }
}

/// The reason of an analysis without its evidence, which is said once of the release and not once of each child.
pub(super) fn brief(reason: &str) -> &str {
    const VERDICTS: [Verdict; 5] =
        [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive, Verdict::NoData, Verdict::Error];
    if !reason.starts_with(REASON) {
        return reason;
    }
    let end = |verdict: Verdict| {
        let verdict = format!(": {}", name(verdict));
        reason.find(&format!("{verdict}: ")).map(|at| at + verdict.len())
    };
    VERDICTS.into_iter().filter_map(end).min().map_or(reason, |end| &reason[..end])
}

/// The share of a metric in the release's alpha, over all runs. What has no consequence is judged as if it were alone.
pub(super) fn alpha_of(strategy: &language::Strategy, stage: Option<usize>, metric: &Metric) -> f64 {
    let shares = strategy.alpha_shares();
    let is_own = |share: &&spec::AlphaShare<'_>| share.stage == stage && std::ptr::eq(share.metric, metric);
    shares.iter().find(is_own).map_or_else(|| strategy.alpha(), |share| share.alpha)
}

pub(super) fn design(metric: &Metric, compare: &Comparison, analysis: &Analysis, alpha: f64) -> Design {
    let by_children = matches!(metric.source, MetricSource::Children(_));
    let interval_ms = ms(analysis.interval_of(metric));
    let question = match (&metric.source, compare.quantile) {
        (MetricSource::Children(ChildMetric::ErrorRate), _) => Question::Rate { floor: compare.floor },
        (_, Some(quantile)) => Question::Quantile(quantile),
        (_, None) => Question::Location,
    };
    Design {
        question,
        deviation: match compare.deviation {
            spec::Deviation::High => Deviation::High,
            spec::Deviation::Low => Deviation::Low,
            spec::Deviation::Either => Deviation::Either,
        },
        tolerance: match compare.tolerance {
            spec::Tolerance::Ratio(ratio) => Tolerance::Ratio(ratio),
            spec::Tolerance::Shift(shift) => Tolerance::Shift(shift),
        },
        alpha,
        end: match analysis.duration {
            // What children report is judged once, when all have reported.
            Some(_) if by_children => End::Once,
            Some(duration) => {
                End::After { duration_ms: ms(duration), interval_ms, spending: Spending::default() }
            }
            None => End::Open { interval_ms },
        },
        // Calls are assigned at random; what a query gives are points of a series.
        sampling: if by_children { Sampling::Calls } else { Sampling::Series },
        run_variation: match compare.with {
            Reference::Previous { run_variation } => {
                Some(run_variation.map_or(RunVariation::Unknown, RunVariation::Given))
            }
            Reference::Baseline | Reference::Primary => None,
        },
        // What varies from run to run doesn't do so less if this one is looked at for longer.
        reserve: match compare.with {
            Reference::Baseline | Reference::Primary if may_be_extended(analysis) => EXTENSION_RESERVE,
            _ => 0.0,
        },
        early: if analysis.early_pass { EARLY_PART } else { 0.0 },
    }
}

/// Whether a run of it may go on after an end that decided nothing.
fn may_be_extended(analysis: &Analysis) -> bool {
    analysis.duration.is_some() && (analysis.extend.is_some() || analysis.inconclusive == Unclear::Pause)
}

/// How alpha is spent on what children report, where it is looked at while it runs.
pub fn while_running(analysis: &Analysis, metric: &Metric) -> End {
    let interval_ms = ms(analysis.interval_of(metric)).max(1);
    match analysis.duration {
        Some(duration) => {
            End::After { duration_ms: ms(duration), interval_ms, spending: Spending::default() }
        }
        None => End::Open { interval_ms },
    }
}

/// The runs that begin now.
pub(super) fn begin(release: &Release, changes: &[&StateChange], now: Now) -> Vec<StateChange> {
    if release.strategy.rollout.is_none() || !is_led(release) {
        return Vec::new();
    }
    let mut begun = Vec::new();
    for (block, (stage, analysis)) in release.strategy.analyses().enumerate() {
        let block = block as u8;
        let waves = release.gates.stand.waves;
        let (number, of) = match stage {
            None if analysis.duration.is_none() => (0, 1),
            None if release.is_global() => {
                (u32::from(release.gates.front()), u32::from(release.gates.levels.rollout()) + 1)
            }
            _ => (waves.saturating_sub(1), release.turns.waves()),
        };
        let last = release.run(block);
        if last.is_some_and(|run| run.number >= number) {
            continue;
        }
        let is_due = match stage {
            Some(stage) => changes.iter().any(|change| enters(release, change, stage)),
            None => release.counts.awaited > 0,
        };
        if is_due {
            // Those who join later don't make the parts of alpha smaller that were spent already.
            let of = last.map_or(of, |run| run.of);
            begun.push(StateChange::Analysis(Change::Began { release: release.key, block, number, of, now }));
        }
    }
    begun
}

/// Whether with this change a child is in a stage.
fn enters(release: &Release, change: &StateChange, stage: usize) -> bool {
    let StateChange::Members(members::Change::Stepped { release: of, child, .. }) = change else {
        return false;
    };
    let found = release.assignments.get(child).filter(|_| *of == release.key);
    found.is_some_and(|found| {
        found.fetched && !found.status.is_over() && found.slot.stage_index() == Some(stage)
    })
}

const fn is_led(release: &Release) -> bool {
    matches!(release.state, ReleaseState::Running | ReleaseState::AwaitingApproval { .. })
}

/// That of an error, see [`weight`]: worse than what pauses, for it decides at once, and no failure.
const WEIGHT_OF_ERROR: u8 = 3;

/// How bad a metric's verdict is, and whether it decides without waiting for the others.
const fn weight(verdict: Verdict, analysis: &Analysis) -> (u8, bool) {
    const fn unclear(unclear: Unclear) -> u8 {
        match unclear {
            Unclear::Pass => 1,
            Unclear::Pause => 2,
            Unclear::Fail => 4,
        }
    }
    match verdict {
        Verdict::Pass => (0, false),
        Verdict::Inconclusive => (unclear(analysis.inconclusive), false),
        Verdict::NoData => (unclear(analysis.no_data), false),
        Verdict::Error => (WEIGHT_OF_ERROR, true),
        Verdict::Fail => (5, true),
    }
}

/// Whether everything with a consequence has passed, some of it before its end.
pub fn is_passed_early(analysis: &Analysis, found: &[Metered]) -> bool {
    let judged = || analysis.metrics.iter().zip(found).filter(|(metric, _)| !metric.dry_run);
    analysis.early_pass
        && judged().all(|(_, found)| found.passes_early() || found.verdict == Some(Verdict::Pass))
        && judged().any(|(_, found)| found.passes_early())
}

/// The verdict of a block: that of its worst metric, as soon as it decides. `is_over`: whatever has no verdict gets none.
fn combined(analysis: &Analysis, found: &[Metered], is_over: bool) -> Option<(Verdict, String)> {
    let metrics = || analysis.metrics.iter().zip(found);
    let judged = metrics().filter(|(metric, _)| !metric.dry_run);
    let judged = judged.filter_map(|(metric, found)| Some((metric, found, found.verdict?)));
    // Of several that are as bad it is the first.
    let worst = judged.rev().max_by_key(|(_, _, verdict)| weight(*verdict, analysis).0);
    let all = is_over || found.iter().all(|found| found.verdict.is_some());
    match worst {
        Some((metric, found, verdict))
            if weight(verdict, analysis).1 || (all && verdict != Verdict::Pass) =>
        {
            Some((verdict, format!("{}: {}", metric.name, found.sentence)))
        }
        Some(_) if all => {
            let each = metrics().filter(|(metric, _)| !metric.dry_run);
            let each: Vec<String> =
                each.map(|(metric, found)| format!("{}: {}", metric.name, found.sentence)).collect();
            Some((Verdict::Pass, each.join("; ")))
        }
        None if all => Some((Verdict::Pass, "its metrics are all without consequence".to_owned())),
        _ => None,
    }
}

/// What a verdict that has not acted yet does.
pub(super) fn judge(state: &State, release: &Release, now: Now) -> Vec<StateChange> {
    if release.runs.is_empty() || !is_led(release) {
        return Vec::new();
    }
    let decided = release.runs.iter().find(|run| run.standing == Standing::Open && run.verdict.is_some());
    if let Some(run) = decided
        && let (Some((_, analysis)), Some(verdict)) = (release.block(run.block), run.verdict)
    {
        return act(state, release, run, verdict, weight(verdict, analysis).0, now);
    }
    let at = release.at(now);
    let is_late = |run: &&Run| release.overdue(run).is_some_and(|overdue| overdue <= at);
    let Some(run) = release.runs.iter().find(is_late) else { return Vec::new() };
    let late = Run { why: "it was not judged in time".to_owned(), ..run.clone() };
    act(state, release, &late, Verdict::Error, WEIGHT_OF_ERROR, now)
}

/// How a run goes on instead of ending with this verdict: as somebody has said already, or else, once, as the strategy does.
fn extension(analysis: &Analysis, run: &Run, verdict: Verdict) -> Option<Extended> {
    if !matches!(verdict, Verdict::Inconclusive | Verdict::NoData) {
        return None;
    }
    if let Some(said) = run.extended {
        let goes_on = said.begun.is_none() && run.metrics.iter().any(Metered::may_go_on);
        return goes_on.then_some(said);
    }
    let extend = analysis.extend?;
    let judged = analysis.metrics.iter().zip(&run.metrics).filter(|(metric, _)| !metric.dry_run);
    let mut undecided = judged.filter(|(_, found)| found.verdict == Some(Verdict::Inconclusive));
    let is_failed = verdict == Verdict::NoData && analysis.no_data == Unclear::Fail;
    let goes_on = !is_failed && undecided.any(|(_, found)| found.may_go_on());
    goes_on.then(|| Extended { for_ms: ms(extend.duration), calls: extend.calls, begun: None })
}

fn act(
    state: &State,
    release: &Release,
    run: &Run,
    verdict: Verdict,
    weight: u8,
    now: Now,
) -> Vec<StateChange> {
    if let Some(extended) = release.block(run.block).and_then(|(_, block)| extension(block, run, verdict)) {
        let (release, block) = (release.key, run.block);
        return vec![StateChange::Analysis(Change::Extended { release, block, extended, now })];
    }
    let on_failure = release.strategy.rollout.as_ref().map(|rollout| rollout.on_failure).unwrap_or_default();
    let standing = match (weight, on_failure) {
        (0 | 1, _) => Standing::Passed,
        (4.., OnLimit::Rollback) => Standing::Failed,
        (4.., OnLimit::Continue) => Standing::Accepted,
        _ => Standing::Paused,
    };
    let reason = format!("{REASON}{}: {}: {}", release.block_name(run.block), name(verdict), run.why);
    let mut changes = vec![StateChange::Analysis(Change::VerdictGiven {
        release: release.key,
        block: run.block,
        verdict,
        why: run.why.clone(),
        standing,
        now,
    })];
    match standing {
        Standing::Failed => {
            let stage = release.block(run.block).and_then(|(stage, _)| release.strategy.stages.get(stage?));
            let stage = stage.map(|stage| stage.name.clone());
            let ending = Ending { stage, ..Ending::new(Cause::Analysis, reason) };
            changes.extend(roll_back(state, release, ending, ReleaseEnd::RolledBack, now));
        }
        Standing::Paused => {
            let pause = Pause::new(PausedBy::Analysis, reason);
            changes.push(StateChange::Lifecycle(lifecycle::Change::Paused {
                release: release.key,
                pause,
                now,
            }));
        }
        Standing::Open | Standing::Passed | Standing::Accepted => {}
    }
    changes
}

/// A verdict as it is shown.
pub const fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Inconclusive => "inconclusive",
        Verdict::NoData => "no data",
        Verdict::Error => "error",
    }
}
