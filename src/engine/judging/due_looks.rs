//! Which looks are due, and everything of the state that they need.

use std::{collections::HashMap, ops::Bound, sync::Arc, time::Duration};

use tokio::time::Instant;

use analysis::Design;
use domain::release::{
    analysis::Run,
    assignment::StepIndex,
    state::{Release, Snapshot},
};
use language::{Strategy, analysis::Rule};
use model::{ChildKey, Now, ReleaseKey};

/// A look that is due.
#[derive(Debug, Clone)]
pub(super) struct DueLook {
    pub release: ReleaseKey,
    pub id: String,
    pub strategy: Arc<Strategy>,
    /// `None`: the whole release.
    pub stage: Option<usize>,
    /// The stages whose shares changed while they went on.
    pub moved: Vec<u8>,
    pub run: Run,
    pub now: Now,
    /// When the release began, in milliseconds since 1970.
    pub started_ms: i64,
    /// Since the initial delay was over.
    pub elapsed_ms: u64,
    /// The duration is over.
    pub is_last: bool,
    /// Whose reports count.
    pub whose: Whose,
    /// Everybody whose reports count has come; nobody is waited for in the background.
    pub is_gathered: bool,
    /// Everybody has come to the gate behind it, though the duration need not be over.
    pub has_gathered: bool,
    /// How each comparison is to be made, if that can be said; `None`: it is no comparison.
    pub designs: Vec<Option<Result<Design, String>>>,
}

impl DueLook {
    /// The same look as if it were the last: everybody has come, and everything else has passed.
    pub fn at_an_early_end(&self) -> Self {
        Self { is_last: true, is_gathered: true, ..self.clone() }
    }

    /// Whether as many calls were measured as a run goes on for after an end that decided nothing.
    pub fn is_enough(&self, calls: u64) -> bool {
        let extended = self.run.extended.and_then(|extended| Some((extended.begun?, extended.calls?)));
        extended.is_some_and(|(begun, more)| calls >= begun.calls.saturating_add(more))
    }
}

/// The children whose reports count, and which of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whose {
    /// `None`: of all waves.
    wave: Option<u32>,
    /// `None`: of every stage.
    pub slot: Option<StepIndex>,
}

impl Whose {
    /// Some of them, in order of key, from the first one after `after` on; and whom to go on after, if there may be more.
    /// No more than `most` children are looked at, whether or not they count.
    pub fn some(
        self,
        release: &Release,
        after: Option<ChildKey>,
        most: usize,
    ) -> (Vec<ChildKey>, Option<ChildKey>) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut found, mut last, mut looked_at) = (Vec::new(), None, 0);
        for (child, assignment) in release.assignments.range((from, Bound::Unbounded)).take(most) {
            (last, looked_at) = (Some(*child), looked_at + 1);
            if self.wave.is_none_or(|wave| wave == assignment.wave) {
                found.push(*child);
            }
        }
        (found, last.filter(|_| looked_at == most))
    }
}

/// Of a run: how long after the initial delay it was looked at without anything new, and when it may be again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    pub number: u32,
    pub looked_ms: u64,
    pub until: Instant,
}

/// Which runs rest.
pub(super) type Resting = HashMap<(ReleaseKey, u8), Rest>;

/// What is to be done, and how long nothing else is.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    pub due: Vec<DueLook>,
    pub next: Option<Duration>,
}

impl Agenda {
    /// At most `room` looks, and none of blocks that are `busy` or rest.
    pub fn of(
        state: &Snapshot,
        busy: &[(ReleaseKey, u8)],
        resting: &Resting,
        room: usize,
        now: Now,
        instant: Instant,
    ) -> Self {
        let mut agenda = Self::default();
        for release in state.releases.values().filter(|release| release.state.is_going()) {
            let at = release.at(now);
            for run in release.runs.iter().filter(|run| !busy.contains(&(release.key, run.block))) {
                let rest = resting.get(&(release.key, run.block)).filter(|rest| rest.number == run.number);
                let looked_ms = rest.map_or(0, |rest| rest.looked_ms);
                let Some(due) = release.look_due_after(run, looked_ms) else { continue };
                let rests = rest.map_or(Duration::ZERO, |rest| rest.until.saturating_duration_since(instant));
                let wait = Duration::from_millis(due.saturating_sub(at)).max(rests);
                if !wait.is_zero() {
                    agenda.next = Some(agenda.next.map_or(wait, |next| next.min(wait)));
                } else if agenda.due.len() < room {
                    agenda.due.extend(look(release, run, now));
                }
            }
        }
        agenda
    }
}

fn look(release: &Release, run: &Run, now: Now) -> Option<DueLook> {
    let (stage, analysis) = release.block(run.block)?;
    let begun = run.began.saturating_add(analysis.initial_delay.as_millis() as u64);
    let elapsed_ms = release.at(now).saturating_sub(begun);
    let is_last = release.end_of(run).is_some_and(|end| elapsed_ms >= end);
    let is_open = analysis.duration.is_none();
    let is_of_all = is_open || stage.is_none() && release.turns.waves() == 1;
    let whose = Whose { wave: (!is_of_all).then_some(run.number), slot: stage.map(StepIndex::stage) };
    let designs = analysis
        .metrics
        .iter()
        .enumerate()
        .map(|(at, metric)| matches!(metric.rule, Rule::Compare(_)).then(|| release.design(run, at)));
    Some(DueLook {
        release: release.key,
        id: release.id.to_string(),
        strategy: Arc::clone(&release.strategy),
        stage,
        moved: release.facts.iter().filter_map(|dated| dated.fact.shares()).map(|(stage, _)| stage).collect(),
        run: run.clone(),
        now,
        started_ms: release.started.map_or(now.wall_ms, |started| started.wall_ms),
        elapsed_ms,
        is_last,
        whose,
        is_gathered: is_open || is_last && release.is_gathered(run),
        has_gathered: release.is_gathered(run),
        designs: designs.collect(),
    })
}
