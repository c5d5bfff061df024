//! What changes of analyses are called in the trail.

use super::event::{Event, metrics_found};
use domain::release::analysis::{Change, name};
use domain::release::state::Release;

pub(super) fn event<'a>(change: &'a Change, release: Option<&'a Release>, release_id: &'a str) -> Event<'a> {
    let of = |block: u8| release.map_or_else(String::new, |release| release.block_name(block));
    match change {
        Change::Began { block, .. } => Event::AnalysisBegan { release: release_id, of: of(*block) },
        Change::Looked { run, .. } => Event::Looked {
            release: release_id,
            of: of(run.block),
            look: run.looks,
            metrics: release.map_or_else(Vec::new, |release| metrics_found(release, run)),
        },
        Change::Extended { block, extended, .. } => Event::AnalysisExtended {
            release: release_id,
            of: of(*block),
            for_ms: extended.for_ms,
            calls: extended.calls,
        },
        Change::VerdictGiven { block, verdict, why, standing, .. } => Event::Verdict {
            release: release_id,
            of: of(*block),
            verdict: name(*verdict),
            why,
            then: *standing,
        },
    }
}
