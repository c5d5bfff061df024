//! Folding a change of a run in.

use std::sync::Arc;

use super::{
    change::Change,
    run::{Extended, Metered, Run, RunStatus, ms},
    verdict::weight,
};
use crate::release::{
    assignment::StepIndex,
    state::{Release, State},
};
use ::analysis::Verdict;
use language::analysis::Rule;
use model::Now;

/// Folds one change in.
pub(in crate::release) fn apply(state: &mut State, change: &Change) {
    state.with_release(change.release(), |release| {
        match change {
            Change::Began { block, number, of, now, .. } => release.begin_run(*block, (*number, *of), *now),
            Change::Extended { block, extended, now, .. } => release.extend_run(*block, *extended, *now),
            Change::Looked { run, .. } => release.put_run((**run).clone()),
            Change::VerdictGiven { block, verdict, why, standing, .. } => {
                release.give_verdict(*block, *verdict, why, *standing);
            }
        }
        release.next_deadline = release.next_deadline.min(release.verdict_overdue());
    });
}

impl Release {
    fn begin_run(&mut self, block: u8, (number, of): (u32, u32), now: Now) {
        let metrics = self.block(block).map_or(0, |(_, analysis)| analysis.metrics.len());
        let run = Run {
            block,
            number,
            of,
            began: self.at(now),
            looks: 0,
            looked_ms: 0,
            metrics: vec![Metered::default(); metrics],
            standing: RunStatus::Open,
            verdict: None,
            why: String::new(),
            extended: None,
        };
        self.keep_failure(block);
        self.put_run(run);
    }

    /// A run takes the place of one that had failed in an earlier wave: its stage stays failed.
    fn keep_failure(&mut self, block: u8) {
        let Some((Some(stage), analysis)) = self.block(block) else { return };
        if self.run(block).is_some_and(|run| run.has_failed(analysis)) {
            self.failed = self.failed.with(StepIndex::stage(stage).0);
        }
    }

    fn give_verdict(&mut self, block: u8, verdict: Verdict, why: &str, standing: RunStatus) {
        if let Some(run) = Arc::make_mut(&mut self.runs).iter_mut().find(|run| run.block == block) {
            run.verdict = Some(verdict);
            why.clone_into(&mut run.why);
            run.standing = standing;
        }
        // What waited for it soaks on.
        self.next_deadline = self.next_deadline.min(self.gate_due());
    }

    /// What was looked at as long as the release took has found nothing against it.
    pub(in crate::release) fn end_analyses(&mut self) {
        let Self { runs, strategy, .. } = self;
        for run in Arc::make_mut(runs).iter_mut().filter(|run| run.is_open()) {
            let block = strategy.analyses().nth(usize::from(run.block));
            let Some((_, analysis)) = block.filter(|(_, analysis)| analysis.duration.is_none()) else {
                continue;
            };
            let judged = analysis.metrics.iter().zip(&run.metrics).filter(|(metric, _)| !metric.dry_run);
            let (mut verdict, mut why) = (Verdict::Pass, Vec::new());
            for (metric, found) in judged {
                let of = match metric.rule {
                    Rule::Compare(_) => Verdict::Inconclusive,
                    Rule::Threshold { .. } | Rule::Condition(_) if found.measured == 0 => Verdict::NoData,
                    Rule::Threshold { .. } | Rule::Condition(_) => Verdict::Pass,
                };
                if weight(of, analysis).0 > weight(verdict, analysis).0 {
                    verdict = of;
                }
                why.push(format!("{}: {}", metric.name, found.sentence));
            }
            run.verdict = Some(verdict);
            run.why = format!("the release is over; {}", why.join("; "));
            run.standing = RunStatus::Passed;
        }
    }

    /// A run that ended undecided goes on; of one that is open it is noted that it will.
    fn extend_run(&mut self, block: u8, extended: Extended, now: Now) {
        let at = self.at(now);
        let delay = self.block(block).map_or(0, |(_, analysis)| ms(analysis.initial_delay));
        let Some(run) = Arc::make_mut(&mut self.runs).iter_mut().find(|run| run.block == block) else {
            return;
        };
        if run.verdict.is_none() {
            // What goes on already goes on for longer, from now on.
            let goes_on = run.extended.is_some_and(|extended| extended.begun.is_some());
            let begun = goes_on.then(|| run.begun(at, delay));
            run.extended = Some(Extended { begun, ..extended });
            return;
        }
        let begun = Some(run.begun(at, delay));
        (run.standing, run.verdict, run.why) = (RunStatus::Open, None, String::new());
        run.extended = Some(Extended { begun, ..extended });
        for found in run.metrics.iter_mut().filter(|found| found.may_go_on()) {
            found.verdict = None;
            if let Some(judgement) = &mut found.judgement {
                // That it can was asked just now.
                let _ = judgement.extend();
            }
        }
    }

    fn put_run(&mut self, run: Run) {
        let runs = Arc::make_mut(&mut self.runs);
        match runs.iter_mut().find(|before| before.block == run.block) {
            Some(before) => *before = run,
            None => runs.push(run),
        }
    }

    /// Whoever lets it go on accepts the verdicts that it was paused for.
    pub(in crate::release) fn accept_verdicts(&mut self) {
        for run in Arc::make_mut(&mut self.runs).iter_mut().filter(|run| run.standing == RunStatus::Paused) {
            run.standing = RunStatus::Accepted;
        }
    }
}
