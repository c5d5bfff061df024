//! When a run is looked at, when it ends, and what waits for it.

use super::run::{Metered, Run, RunStatus, ms};
use crate::release::{clock::ReleaseMs, gate::Gate, state::Release};
use language::analysis::{Analysis, Metric, MetricSource};

/// How long a verdict may be late before the release is paused for want of it, in milliseconds of the release's
/// clock: 15 minutes, and the analysis's duration once more, for answers that are asked for again.
const OVERDUE_AFTER_MS: u64 = 15 * 60 * 1_000;

impl Release {
    /// Whether a run is open and will have an end, after which it can go on.
    pub(in crate::release) fn may_be_extended(&self, run: &Run) -> bool {
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

    pub(in crate::release) fn is_global(&self) -> bool {
        self.strategy.rollout.as_ref().is_some_and(|rollout| rollout.order.has_barriers())
    }

    /// Whether a gate waits for a verdict.
    pub(in crate::release) fn awaits_verdict(&self, gate: Gate) -> bool {
        self.runs.iter().filter(|run| run.holds()).any(|run| match (self.block(run.block), gate) {
            (Some((Some(stage), _)), Gate::Level(level)) => self.gates.levels.after_stage(stage) == level,
            (Some((None, analysis)), gate) => {
                analysis.duration.is_some() && self.is_global() == matches!(gate, Gate::Level(_))
            }
            (Some((Some(_), _)), Gate::Wave(_)) | (None, _) => false,
        })
    }

    /// Whether it can't end well yet: the last of its steps is being judged.
    pub(in crate::release) fn awaits_last_verdict(&self) -> bool {
        self.runs.iter().any(|run| {
            let whole = self.block(run.block).filter(|(stage, _)| stage.is_none());
            run.standing == RunStatus::Open && whole.is_some_and(|(_, analysis)| analysis.duration.is_some())
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

    /// When a run is to be looked at next, if a look so long after the initial delay found nothing new, which nobody took note of.
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
    pub(in crate::release) fn verdict_overdue(&self) -> ReleaseMs {
        self.runs.iter().filter_map(|run| self.overdue(run)).min().unwrap_or(ReleaseMs::MAX)
    }

    pub(in crate::release) fn overdue(&self, run: &Run) -> Option<ReleaseMs> {
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
}
