//! An analysis goes on after an end that decided nothing, because somebody says so.

use super::operate::{find, held, wrong};
use crate::release::{
    analysis::{Extended, Standing},
    change::Change,
    command::{Decision, Refusal, Reply},
    state::{Release, ReleaseState, State},
};
use model::Now;

pub(super) fn decide(
    state: &State,
    id: &str,
    for_ms: u64,
    calls: Option<u64>,
    now: Now,
) -> Result<Decision, Refusal> {
    let release = find(state, id)?;
    if release.upstream.is_some() {
        return Err(held(release, "the analysis, which is judged where the release was planned".to_owned()));
    }
    let is_open = matches!(
        release.state,
        ReleaseState::Running | ReleaseState::AwaitingApproval { .. } | ReleaseState::Paused { .. }
    );
    let block = is_open.then(|| block(release)).flatten();
    let Some((block, standing)) = block else {
        return Err(wrong(
            release,
            "no analysis of it is open, or ended undecided with a part of its alpha kept",
        ));
    };
    let extended = Extended { for_ms, calls, begun: None };
    let mut changes = vec![Change::AnalysisExtended { release: release.key, block, extended, now }];
    if standing == Standing::Paused && matches!(release.state, ReleaseState::Paused { .. }) {
        changes.push(Change::ReleaseResumed { release: release.key, now });
    }
    Ok(Decision::new(changes, Reply::Done))
}

/// The one that ended undecided, or else one that is open and will end.
fn block(release: &Release) -> Option<(u8, Standing)> {
    let undecided = release.runs.iter().find(|run| run.may_go_on());
    let open = || release.runs.iter().find(|run| release.may_be_extended(run));
    undecided.or_else(open).map(|run| (run.block, run.standing))
}
