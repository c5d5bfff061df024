//! What is right below a manager: the kind `tree`. Where the path goes on, the manager asks the next one.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    children::place,
    kind::{LOOK_PATIENCE, PATIENCE, QuestionKind, ToAnswer, ask},
    path::next_hop,
};
use crate::{Engine, EngineError, blocking::giving_way, view::Children};
use domain::{
    children::Child,
    release::{
        assignment::Assignment,
        command::LastSeen,
        parent::offered,
        state::{Release, Snapshot},
    },
};
use model::{ChildKey, Cordon, MapState, Now, TenantName};
use protocol::{
    api::{TreeLevel, TreeNode, TreeSum},
    question::MAX_ANSWER_ENTRIES,
    time::of_served,
};

/// The kind `tree`.
#[derive(Debug)]
pub struct TreeOf;

/// A child that has not called for so long is silent, in milliseconds: as the metrics have it.
const SILENT_MS: u64 = 60_000;

/// Parts in a release that is over, read at once.
const PAST_PAGE: u32 = 50_000;

/// A page of a level.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeWanted {
    /// The managers that lead there from the one that is asked.
    pub path: Vec<String>,
    /// As whoever asks calls it; `None`: the fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Only children of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// At most [`MAX_ANSWER_ENTRIES`] of a manager below.
    pub limit: u32,
}

impl QuestionKind for TreeOf {
    const NAME: &'static str = "tree";
    type Body = TreeWanted;
    type Answer = TreeLevel;

    async fn answer(asked: ToAnswer, mut wanted: TreeWanted) -> Result<TreeLevel, String> {
        if !wanted.path.is_empty() {
            return below_within(&asked.engine, wanted, asked.left_below()).await;
        }
        wanted.limit = wanted.limit.clamp(1, MAX_ANSWER_ENTRIES as u32);
        if let Some(said) = wanted.release.take() {
            // Known here by the id that the parent has for it; the latest attempt is what it has in mind.
            let view = asked.engine.view();
            let ids: Vec<String> =
                offered::all_ids(&said).filter(|id| view.releases.key_of(id).is_some()).collect();
            let latest = ids.into_iter().next_back();
            wanted.release = Some(latest.ok_or("it is not known here: it was not taken over yet")?);
        }
        let found = level(&asked.engine, wanted).await.map_err(|error| error.to_string())?;
        found.ok_or_else(|| "the release is not known here".to_owned())
    }
}

/// A level below a manager below this one.
pub async fn ask_below(engine: &Engine, wanted: TreeWanted) -> Result<TreeLevel, String> {
    below_within(engine, wanted, PATIENCE).await
}

async fn below_within(engine: &Engine, wanted: TreeWanted, time: Duration) -> Result<TreeLevel, String> {
    let (key, path) = next_hop(engine, &wanted.path)?;
    let said = ask::<TreeOf>(engine, key, &TreeWanted { path, ..wanted }, time).await;
    said.map_err(|why| why.to_string())
}

/// This manager's own level, from what is known here. `None`: there is no such release.
pub async fn level(engine: &Engine, wanted: TreeWanted) -> Result<Option<TreeLevel>, EngineError> {
    let seen = Arc::clone(&engine.view().children);
    let now = engine.clock().now();
    let look = Looked { seen: Arc::clone(&seen), now };
    let asked = wanted.clone();
    let take = move |state: &Snapshot| match &asked.release {
        None => Some(of_fleet(state, &look, &asked)),
        Some(id) => state.release_by_id(id).map(|release| of_release(state, &look, &asked, release)),
    };
    if let Some(found) = engine.read_apart(LOOK_PATIENCE, take).await? {
        return Ok(Some(found));
    }
    past(engine, Looked { seen, now }, wanted).await
}

/// A level of a release that has left memory, a bounded number of parts at a time.
async fn past(engine: &Engine, look: Looked, wanted: TreeWanted) -> Result<Option<TreeLevel>, EngineError> {
    let id = wanted.release.clone().unwrap_or_default();
    let Some(past) = engine.past(&id).await? else { return Ok(None) };
    let (mut whole, mut after) = (Level::new(&wanted), None);
    loop {
        let page = past.page(after, PAST_PAGE).await?;
        let (asked, known) = (wanted.clone(), look.clone());
        let take = move |state: &Snapshot| {
            whole.parts(state, &known, &asked, &page.release);
            whole
        };
        whole = engine.read_apart(LOOK_PATIENCE, take).await?;
        after = page.next;
        if after.is_none() {
            return Ok(Some(whole.finish()));
        }
    }
}

/// Whether nothing was heard of a child for so long that people are told.
pub fn is_silent<S: LastSeen + ?Sized>(seen: &S, key: ChildKey, now: Now) -> bool {
    seen.last_call(key).is_none_or(|at| now.served_ms.saturating_sub(at) >= SILENT_MS)
}

/// When children called, and what time it is.
#[derive(Debug, Clone)]
struct Looked {
    seen: Arc<Children>,
    now: Now,
}

impl Looked {
    fn is_silent(&self, key: ChildKey) -> bool {
        is_silent(&*self.seen, key, self.now)
    }
}

/// A level that is put together.
#[derive(Debug)]
struct Level {
    after: Option<ChildKey>,
    limit: usize,
    sum: TreeSum,
    items: Vec<(ChildKey, TreeNode)>,
    has_more: bool,
}

impl Level {
    fn new(wanted: &TreeWanted) -> Self {
        let limit = wanted.limit as usize;
        let after = wanted.after.map(ChildKey);
        Self { after, limit, sum: TreeSum::default(), items: Vec::new(), has_more: false }
    }

    /// One of the level, in order of number; the node is made only if it is to be shown.
    fn push(&mut self, key: ChildKey, sum: TreeSum, node: impl FnOnce() -> TreeNode) {
        self.sum = self.sum.and(sum);
        if self.after.is_some_and(|after| key <= after) {
            return;
        }
        if self.items.len() < self.limit {
            self.items.push((key, node()));
        } else {
            self.has_more = true;
        }
    }

    /// Those who have a part in a release.
    fn parts(&mut self, state: &Snapshot, look: &Looked, wanted: &TreeWanted, release: &Release) {
        for (key, part) in giving_way(release.assignments.iter()) {
            let child = state.children.get(*key);
            let is_wanted =
                wanted.tenant.as_deref().is_none_or(|own| child.and_then(Child::tenant) == Some(own));
            if is_wanted {
                let sum = of_part(part, look.is_silent(*key));
                self.push(*key, sum, || node(state, look, (*key, child), part.map_state(), sum));
            }
        }
    }

    fn finish(self) -> TreeLevel {
        let next = self.items.last().filter(|_| self.has_more).map(|(key, _)| key.0.to_string());
        TreeLevel { sum: self.sum, items: self.items.into_iter().map(|(_, node)| node).collect(), next }
    }
}

fn of_fleet(state: &Snapshot, look: &Looked, wanted: &TreeWanted) -> TreeLevel {
    let mut level = Level::new(wanted);
    let children: Box<dyn Iterator<Item = (ChildKey, &Child)>> = match wanted.tenant.as_deref() {
        Some(own) => Box::new(state.children.after_of(own, None)),
        None => Box::new(state.children.iter()),
    };
    // An id whose place another has taken is nobody.
    for (key, child) in giving_way(children).filter(|(_, child)| child.replaced.is_none()) {
        let is_silent = look.is_silent(key);
        let shown = MapState::of_fleet(child.cordon, is_silent);
        let agents = if child.kind().is_manager() { child.agents } else { 1 };
        let sum = TreeSum {
            agents,
            held: if child.cordon == Cordon::Open { 0 } else { agents },
            silent: if is_silent { agents } else { 0 },
            ..TreeSum::default()
        };
        level.push(key, sum, || node(state, look, (key, Some(child)), shown, sum));
    }
    level.finish()
}

fn of_release(state: &Snapshot, look: &Looked, wanted: &TreeWanted, release: &Release) -> TreeLevel {
    let mut level = Level::new(wanted);
    level.parts(state, look, wanted, release);
    level.finish()
}

fn of_part(part: &Assignment, is_silent: bool) -> TreeSum {
    let agents = part.agents();
    let failed = agents.failed.saturating_add(agents.timed_out).saturating_add(agents.unreachable);
    let ended = agents.succeeded.saturating_add(failed).saturating_add(agents.untested);
    let is_held = part.map_state() == MapState::Held;
    TreeSum {
        agents: agents.participants,
        done: agents.succeeded,
        failed,
        held: if is_held { agents.participants.saturating_sub(ended) } else { 0 },
        silent: if is_silent { agents.participants } else { 0 },
    }
}

fn node(
    state: &Snapshot,
    look: &Looked,
    (key, child): (ChildKey, Option<&Child>),
    shown: MapState,
    sum: TreeSum,
) -> TreeNode {
    let manager = child.and_then(|child| child.profile.as_ref()).filter(|profile| profile.kind.is_manager());
    TreeNode {
        id: child.map_or_else(|| format!("forgotten child {}", key.0), |child| child.id.to_string()),
        name: child.and_then(|child| child.profile.as_ref()?.name.clone()),
        place: place(state, key),
        kind: child.map_or("agent", |child| child.kind().name()).to_owned(),
        state: shown.name().to_owned(),
        last_call: look.seen.last_call(key).map(|at| of_served(at, look.now)),
        sum,
        public_url: manager.and_then(|profile| profile.capabilities.public_url.as_deref()).map(str::to_owned),
    }
}

/// As a question names a tenant.
pub fn named(tenant: Option<&TenantName>) -> Option<String> {
    tenant.map(|tenant| tenant.as_str().to_owned())
}
