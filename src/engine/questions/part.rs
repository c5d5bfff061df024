//! How the part of a release below a manager stands: the kind `part`.
//!
//! It says who holds it and why, down to the last level, and how many agents are where in its stages. A manager knows the
//! release by the id that its parent has for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::kind::{QuestionKind, ToAnswer, Unanswered, ask_all};
use crate::{
    Engine,
    json_columns::{self, AgentsForm},
};
use domain::release::{
    manager::Agents,
    parent::offered,
    pause::Pause,
    state::{Release, ReleaseState, Snapshot},
    waits,
};
use model::ChildKey;
use protocol::question::MAX_ANSWER_ENTRIES;

/// The kind `part`.
#[derive(Debug)]
pub struct PartOf;

/// Which release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartWanted {
    /// As whoever asks calls it.
    pub release: String,
}

/// How a part stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PartStatus {
    /// As shown: `Running`.
    pub state: String,
    /// Why it is paused, taken back, or ended badly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `None` once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    #[serde(with = "AgentsForm")]
    pub agents: Agents,
    /// Stage → status → agents whose current stage that is, on every level.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, BTreeMap<String, u32>>,
    /// The parts below this one, at most [`MAX_ANSWER_ENTRIES`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<PartBelow>,
}

/// The part of a manager below.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PartBelow {
    /// The ids of the managers that lead there, with a `/` between: `middle/lowest`.
    pub path: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    #[serde(with = "AgentsForm")]
    pub agents: Agents,
    /// It was not heard, and why; then the rest says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unheard: Option<String>,
}

impl QuestionKind for PartOf {
    const NAME: &'static str = "part";
    type Body = PartWanted;
    type Answer = PartStatus;

    async fn answer(asked: ToAnswer, wanted: PartWanted) -> Result<PartStatus, String> {
        let now = asked.engine.clock().now();
        // Before the look: what is known by now is in it, unless it has left memory.
        let view = asked.engine.view();
        let ids = offered::all_ids(&wanted.release).filter(|id| view.releases.key_of(id).is_some()).collect();
        match asked.look(move |state| PartFound::at(state, ids, now)).await? {
            PartFound::Open { part, id, managers } => {
                let body = |child: &(ChildKey, String)| (child.0, PartWanted { release: id.clone() });
                let answers = asked.ask_below::<Self>(managers.iter().map(body).collect()).await;
                Ok(with_below(*part, &managers, answers))
            }
            PartFound::Over { ids } => show_over(&asked.engine, ids).await,
        }
    }
}

enum PartFound {
    Open {
        part: Box<PartStatus>,
        /// As it is called here.
        id: String,
        managers: Vec<(ChildKey, String)>,
    },
    /// Known by these ids, and not in memory.
    Over { ids: Vec<String> },
}

impl PartFound {
    /// `ids`: those by which the release is known here.
    fn at(state: &Snapshot, ids: Vec<String>, now: model::Now) -> Self {
        // The latest attempt is what the parent has in mind.
        let open = ids.iter().rev().find_map(|id| state.release_by_id(id));
        let Some(release) = open.filter(|release| release.parent.is_some()) else {
            return Self::Over { ids };
        };
        Self::Open {
            part: Box::new(show_own(state, release, now)),
            id: release.id.to_string(),
            managers: managers(state, release),
        }
    }
}

/// The managers below that take part, and their ids.
pub fn managers(state: &Snapshot, release: &Release) -> Vec<(ChildKey, String)> {
    let id = |child: &ChildKey| Some((*child, state.children.get(*child)?.id.to_string()));
    release.managers.keys().filter_map(id).collect()
}

fn show_own(state: &Snapshot, release: &Release, now: model::Now) -> PartStatus {
    let mut stages: BTreeMap<String, BTreeMap<String, u32>> = BTreeMap::new();
    for assignment in release.assignments.values().filter(|assignment| !assignment.is_whole()) {
        let stage = assignment.slot.stage_index().and_then(|stage| release.strategy.stages.get(stage));
        let Some(stage) = stage else { continue };
        let status = assignment.stage_status.name().to_owned();
        *stages.entry(stage.name.clone()).or_default().entry(status).or_default() += 1;
    }
    PartStatus {
        state: release.state.name().to_owned(),
        reason: reason(&release.state).or_else(|| release.ending.as_ref().map(|ending| ending.text.clone())),
        waits_for: waits::release(state, release, now),
        agents: release.agents(),
        stages,
        below: Vec::new(),
    }
}

fn reason(state: &ReleaseState) -> Option<String> {
    match state {
        ReleaseState::Paused(Pause { reason, .. }) | ReleaseState::RollingBack { reason, .. } => {
            Some(reason.clone())
        }
        ReleaseState::AwaitingApproval { what, .. } => Some(what.clone()),
        ReleaseState::Planned | ReleaseState::Running | ReleaseState::Over { .. } => None,
    }
}

/// One that has left memory.
async fn show_over(engine: &Engine, ids: Vec<String>) -> Result<PartStatus, String> {
    for id in ids.iter().rev() {
        let row = engine.reader().release(id).await.map_err(|error| error.to_string())?;
        let Some(row) = row else { continue };
        let detail = json_columns::release_detail(row.release_key, &row.detail).map_err(|error| {
            engine.unreadable().note(&error);
            error.to_string()
        })?;
        if detail.parent.is_none() {
            continue;
        }
        let counts = detail.counts;
        let of_agents = Agents {
            participants: detail.participants,
            succeeded: counts.succeeded,
            failed: counts.outcome_failed,
            timed_out: counts.timed_out + counts.lost,
            unreachable: counts.unreachable,
            untested: counts.untested,
            ..Agents::default()
        };
        return Ok(PartStatus {
            state: detail.state.name().to_owned(),
            reason: detail.ending.map(|ending| ending.text),
            agents: detail.agents.unwrap_or(of_agents),
            ..PartStatus::default()
        });
    }
    Err("it is not known here: it was not taken over yet".to_owned())
}

/// Takes in what managers below said.
fn with_below(
    mut part: PartStatus,
    managers: &[(ChildKey, String)],
    answers: Vec<(ChildKey, Result<PartStatus, Unanswered>)>,
) -> PartStatus {
    let ids: BTreeMap<ChildKey, &String> = managers.iter().map(|(key, id)| (*key, id)).collect();
    for (child, said) in answers {
        let Some(id) = ids.get(&child) else { continue };
        for below in flat(id, said, &mut part.stages) {
            if part.below.len() < MAX_ANSWER_ENTRIES {
                part.below.push(below);
            }
        }
    }
    part
}

/// What a manager said, of itself and those below it; its stages are added to `stages`.
fn flat(
    id: &str,
    said: Result<PartStatus, Unanswered>,
    stages: &mut BTreeMap<String, BTreeMap<String, u32>>,
) -> Vec<PartBelow> {
    let part = match said {
        Ok(part) => part,
        Err(why) => {
            let unheard = Some(why.to_string());
            return vec![PartBelow { path: id.to_owned(), unheard, ..PartBelow::default() }];
        }
    };
    for (stage, statuses) in part.stages {
        let of_stage = stages.entry(stage).or_default();
        for (status, agents) in statuses {
            let sum = of_stage.entry(status).or_default();
            *sum = sum.saturating_add(agents);
        }
    }
    let own = PartBelow {
        path: id.to_owned(),
        state: part.state,
        reason: part.reason,
        waits_for: part.waits_for,
        agents: part.agents,
        unheard: None,
    };
    let deeper =
        part.below.into_iter().map(|below| PartBelow { path: format!("{id}/{}", below.path), ..below });
    std::iter::once(own).chain(deeper).take(MAX_ANSWER_ENTRIES).collect()
}

/// How the parts of a release stand below this manager, and how many agents are where in its stages there.
pub async fn of_release(
    engine: &Engine,
    release: &str,
    managers: Vec<(ChildKey, String)>,
    time: std::time::Duration,
) -> (Vec<PartBelow>, BTreeMap<String, BTreeMap<String, u32>>) {
    let body = |child: &(ChildKey, String)| (child.0, PartWanted { release: release.to_owned() });
    let answers = ask_all::<PartOf>(engine, managers.iter().map(body).collect(), time).await;
    let part = with_below(PartStatus::default(), &managers, answers);
    (part.below, part.stages)
}
