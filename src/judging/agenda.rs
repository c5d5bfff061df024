//! Which looks are due, and everything of the state that they need.

use std::{sync::Arc, time::Duration};

use crate::{
    analysis::Design,
    model::{ChildKey, Now, ReleaseKey},
    release::{
        analysis::Run,
        assignment::Slot,
        state::{Release, ReleaseState, State},
    },
    strategy::{
        Strategy,
        analysis::{Rule, Source},
    },
};

/// A look that is due.
#[derive(Debug)]
pub(super) struct Due {
    pub release: ReleaseKey,
    pub id: String,
    pub strategy: Arc<Strategy>,
    /// `None`: the whole release.
    pub stage: Option<usize>,
    pub run: Run,
    pub now: Now,
    /// When the release began, in milliseconds since 1970.
    pub started_ms: i64,
    /// Since the initial delay was over.
    pub elapsed_ms: u64,
    /// The duration is over.
    pub is_last: bool,
    /// Everybody whose reports count has come: who they are, and under which slot they reported; no slot: all.
    pub gathered: Option<(Vec<ChildKey>, Option<Slot>)>,
    /// How each comparison is to be made, if that can be said; `None`: it is no comparison.
    pub designs: Vec<Option<Result<Design, String>>>,
}

/// What is to be done, and how long nothing else is.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    pub due: Vec<Due>,
    pub next: Option<Duration>,
}

impl Agenda {
    /// At most `room` looks, and none of blocks that are `busy`.
    pub fn of(state: &State, busy: &[(ReleaseKey, u8)], room: usize, now: Now) -> Self {
        let mut agenda = Self::default();
        let is_led = |release: &&Release| {
            matches!(release.state, ReleaseState::Running | ReleaseState::AwaitingApproval { .. })
        };
        for release in state.releases.values().filter(is_led) {
            let at = release.at(now);
            for run in release.runs.iter().filter(|run| !busy.contains(&(release.key, run.block))) {
                let Some(due) = release.look_due(run) else { continue };
                if due > at {
                    let wait = Duration::from_millis(due - at);
                    agenda.next = Some(agenda.next.map_or(wait, |next| next.min(wait)));
                } else if agenda.due.len() < room {
                    agenda.due.extend(look(release, run, now));
                }
            }
        }
        agenda
    }
}

fn look(release: &Release, run: &Run, now: Now) -> Option<Due> {
    let (stage, analysis) = release.block(run.block)?;
    let begun = run.began.saturating_add(analysis.initial_delay.as_millis() as u64);
    let elapsed_ms = release.at(now).saturating_sub(begun);
    let is_last = analysis.duration.is_some_and(|duration| u128::from(elapsed_ms) >= duration.as_millis());
    let asks_children = analysis.metrics.iter().any(|metric| matches!(metric.source, Source::Children(_)));
    // In the background nobody is waited for.
    let is_open = analysis.duration.is_none();
    let is_complete = is_open || is_last && release.is_gathered(run);
    let gathered = (asks_children && is_complete).then(|| {
        let counts =
            |wave: u32| is_open || stage.is_none() && release.turns.waves() == 1 || wave == run.number;
        let members = release.assignments.iter().filter(|(_, assignment)| counts(assignment.wave));
        (members.map(|(child, _)| *child).collect(), stage.map(Slot::stage))
    });
    let designs = analysis
        .metrics
        .iter()
        .enumerate()
        .map(|(at, metric)| matches!(metric.rule, Rule::Compare(_)).then(|| release.design(run, at)));
    Some(Due {
        release: release.key,
        id: release.id.to_string(),
        strategy: Arc::clone(&release.strategy),
        stage,
        run: run.clone(),
        now,
        started_ms: release.started.map_or(now.wall_ms, |started| started.wall_ms),
        elapsed_ms,
        is_last,
        gathered,
        designs: designs.collect(),
    })
}
