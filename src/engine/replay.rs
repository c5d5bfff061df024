//! What a release was for each child from its start on, folded from the audit trail.
//!
//! The trail has each child's steps, and what concerned all at once as one event; the release keeps these facts, in order. Both are folded
//! into parts that begin as they were planned, by the rules of the release itself ([`Assignment::apply`], [`Assignment::fold`]). What comes out in
//! the end is compared with what is stored: where it differs (an entry can't be read, or something happened meanwhile), a last step says what is
//! true, and is counted. The trail has no order between what several did in one commit, so that an operator's command and a report that were
//! committed together may be folded the other way round; that is put right in the same way.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    archived_calls::failed,
    archived_releases::Past,
    audit::step,
    blocking::{self, giving_way},
    error::EngineError,
    handle::Engine,
    json_columns,
};
use domain::release::{
    assignment::{Assignment, Dated, ReleaseEvent, Step},
    state::{Release, Snapshot},
};
use model::{ChildKey, MapState};
use store::{
    AuditFilter, MAX_PAGE, StoreError,
    rows::{AssignmentRow, AuditRow},
};

/// Patience with the engine, which tells which children are still known.
const PATIENCE: Duration = Duration::from_secs(10);

/// Children of a release whose past is told; of larger ones it is not.
pub const MAX_CHILDREN: usize = 200_000;

/// Changes of state that are told; what comes after them is left out.
pub const MAX_CHANGES: usize = 2_000_000;

/// Entries of the trail that are read, a page at a time: what comes after is left out.
const MAX_ENTRIES: usize = 1_000_000;

/// Children who came to one state together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Since the start of the release, in milliseconds of wall time; never less than in the group before.
    pub ms: u64,
    pub state: MapState,
    pub numbers: Vec<u32>,
}

/// The past of a release.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replay {
    /// In milliseconds since 1970; 0 for one that has not started.
    pub started_ms: i64,
    pub groups: Vec<Group>,
    /// There was more than is told.
    pub is_cut: bool,
    /// Children whose last state does not follow from the trail, and was taken from what is stored.
    pub corrected: u32,
}

impl Engine {
    /// The past of a release, or `None` if there is no such release. `turn` is held while anything works for it, also where nobody waits for
    /// the answer any more.
    pub async fn replay<T: Send + 'static>(&self, id: &str, turn: T) -> Result<Option<Replay>, EngineError> {
        let Some(past) = self.past(id).await? else { return Ok(None) };
        if past.members_count() > MAX_CHILDREN {
            return Ok(Some(Replay { is_cut: true, ..Replay::default() }));
        }
        let key = past.key();
        let rows = past.rows(None, u32::MAX).await?;
        // On a snapshot: ids are looked up in it, and nothing else.
        let state = self.snapshot(PATIENCE).await?;
        let known = Arc::clone(&state);
        let begin = move || {
            let begun = begin(&past, &rows, &known);
            begun.map(|folding| (turn, folding))
        };
        let (mut turn, mut folding) = blocking::run(begin).await?.map_err(|e| failed(self, &e))?;
        let (mut after, mut read) = (None, 0);
        loop {
            let filter =
                AuditFilter { after, release_key: Some(key), limit: MAX_PAGE, ..AuditFilter::default() };
            let page = self.reader().audit(&filter).await.map_err(|e| failed(self, &e))?;
            let is_last = page.len() < MAX_PAGE as usize;
            after = page.last().map(|row| (row.seq, row.idx)).or(after);
            read += page.len();
            let is_cut = read >= MAX_ENTRIES && !is_last;
            let known = Arc::clone(&state);
            let fold = move || {
                folding.page(&known, &page);
                (turn, folding)
            };
            (turn, folding) = blocking::run(fold).await?;
            if is_last || is_cut {
                let end = move || {
                    let _turn = turn;
                    folding.end(is_cut)
                };
                return blocking::run(end).await.map(Some);
            }
        }
    }
}

/// Before anything has happened.
fn begin(past: &Past, rows: &[AssignmentRow], state: &Snapshot) -> Result<Folding, StoreError> {
    let mut first = past.planned();
    let mut last = first.clone();
    for row in giving_way(rows.iter()) {
        last.assignment(row)?;
    }
    let facts = std::mem::take(&mut first.release.facts);
    Ok(Folding::new(first.finish(state), facts, last.finish(state)))
}

/// The parts as far as they are folded.
struct Folding {
    release: Release,
    facts: std::vec::IntoIter<Dated>,
    folded: u16,
    parts: BTreeMap<ChildKey, (Assignment, Option<MapState>)>,
    last: Release,
    told: usize,
    replay: Replay,
    has_started: bool,
    now: u64,
}

impl Folding {
    fn new(release: Release, facts: Vec<Dated>, last: Release) -> Self {
        let started_ms = release.started.map_or(0, |started| started.wall_ms);
        Self {
            release,
            facts: facts.into_iter(),
            folded: 0,
            parts: BTreeMap::new(),
            last,
            told: 0,
            replay: Replay { started_ms, ..Replay::default() },
            has_started: false,
            now: 0,
        }
    }

    /// Folds the next entries of the trail.
    fn page(&mut self, state: &Snapshot, entries: &[AuditRow]) {
        for row in giving_way(entries.iter()) {
            let since = row.at_ms.saturating_sub(self.replay.started_ms);
            self.now = self.now.max(u64::try_from(since).unwrap_or(0));
            // What can't be read is missed, and put right in the end.
            for event in json_columns::events(row).unwrap_or_default() {
                self.event(state, &event);
            }
        }
    }

    /// `is_cut`: there was more in the trail.
    fn end(mut self, is_cut: bool) -> Replay {
        // Of what is older than the trail is kept, nothing is told.
        let is_missing = self.release.started.is_some() && !self.has_started;
        self.replay.is_cut |= is_missing || is_cut;
        self.correct();
        self.replay
    }

    fn event(&mut self, state: &Snapshot, event: &Value) {
        let name = event.get("event").and_then(Value::as_str).unwrap_or_default();
        let child = || state.children.key(event.get("child")?.as_str()?);
        match name {
            "release_started" => self.start(),
            "child_joined" => {
                if let Some(child) = child() {
                    self.join(child);
                }
            }
            "child" => {
                if let (Some(child), Some(step)) = (child(), step::read(event)) {
                    self.step(child, &step);
                }
            }
            _ if self.has_started => self.fact(name, event),
            _ => {}
        }
    }

    fn start(&mut self) {
        let planned = self.release.assignments.clone();
        let again = std::mem::replace(&mut self.has_started, true);
        for (key, part) in giving_way(planned.iter()) {
            // It was planned once more: who had a part has another attempt.
            if let Some((before, _)) = self.parts.get_mut(key).filter(|_| again) {
                before.apply(&Step::Retried, &self.release.strategy, 0);
            } else {
                self.parts.insert(*key, (Assignment { facts: self.folded, ..part.clone() }, None));
            }
            self.tell(*key);
        }
    }

    fn join(&mut self, child: ChildKey) {
        let Some(last) = self.last.assignments.get(&child) else { return };
        let lacks = last.lacks_in(&self.release.strategy);
        let part = self.release.fresh_part(child, last.is_in_place(), lacks, 0);
        self.parts.insert(child, (Assignment { facts: self.folded, ..part }, None));
        self.tell(child);
    }

    fn step(&mut self, child: ChildKey, step: &Step) {
        if let Step::StandsInFor { .. } = step {
            let stand_in = || (Assignment::stand_in(0, self.folded), None);
            self.parts.entry(child).or_insert_with(stand_in);
        }
        if let Some((part, _)) = self.parts.get_mut(&child) {
            part.apply(step, &self.release.strategy, 0);
            self.tell(child);
        }
    }

    /// Folds the next fact into every part, if it is the one of which the event tells.
    fn fact(&mut self, name: &str, event: &Value) {
        let Some(next) = self.facts.as_slice().first().copied() else { return };
        let opens_level = || {
            let gate = event.get("gate").and_then(Value::as_str);
            gate.is_some_and(|gate| gate.starts_with("everything"))
        };
        let is_told = match next.fact {
            ReleaseEvent::Resumed { .. } => name == "release_resumed",
            ReleaseEvent::FailuresAccepted { .. } => name == "failures_accepted",
            ReleaseEvent::Opened { .. } => name == "gate_opened" && opens_level(),
            ReleaseEvent::StageEnded { .. } => name == "stage_ended",
            ReleaseEvent::UntestedRolledOut => name == "untested_rolled_out",
            ReleaseEvent::StageSkipped { .. } => name == "stage_skipped",
            ReleaseEvent::WinnerChosen { .. } => name == "winner_chosen",
            ReleaseEvent::SharesChosen { .. } => name == "shares_chosen",
            ReleaseEvent::Aborted => matches!(name, "release_aborted" | "release_rolled_back"),
            ReleaseEvent::RoutersBack => name == "routers_back",
            ReleaseEvent::Retried => name == "release_retried",
        };
        if !is_told {
            return;
        }
        self.facts.next();
        self.folded += 1;
        let strategy = Arc::clone(&self.release.strategy);
        for (part, _) in giving_way(self.parts.values_mut()) {
            part.fold(&next, &strategy, &self.release.gates.levels);
        }
        let keys: Vec<ChildKey> = self.parts.keys().copied().collect();
        for key in keys {
            self.tell(key);
        }
    }

    /// Takes note of a child's state, if it is another.
    fn tell(&mut self, child: ChildKey) {
        let Some((part, told)) = self.parts.get_mut(&child) else { return };
        let state = part.map_state();
        if *told != Some(state) {
            *told = Some(state);
            self.note(child, state);
        }
    }

    fn note(&mut self, child: ChildKey, state: MapState) {
        if self.told >= MAX_CHANGES {
            self.replay.is_cut = true;
            return;
        }
        self.told += 1;
        match self.replay.groups.last_mut() {
            // A child that is in it already has not been anything else since.
            Some(group) if group.ms == self.now && group.state == state => group.numbers.push(child.0),
            _ => self.replay.groups.push(Group { ms: self.now, state, numbers: vec![child.0] }),
        }
    }

    /// Says in the end what is true, wherever that does not follow.
    fn correct(&mut self) {
        let last = std::mem::take(&mut self.last.assignments);
        for (key, part) in giving_way(last.iter()) {
            let state = part.map_state();
            let told = self.parts.get(key).and_then(|(_, told)| *told);
            // One that has not started has told of nobody, and nobody has begun.
            if self.release.started.is_some() && told != Some(state) {
                self.replay.corrected += 1;
                self.note(*key, state);
            }
        }
    }
}
