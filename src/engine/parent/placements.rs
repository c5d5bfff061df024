//! Parts of the parent's workflows that are placed here. To the parent this manager is a node: it is told the whole of what is to run,
//! and says the whole of what runs. Each part is a workflow of its own here, named like its instance at the parent, and the nodes below
//! run it.
//!
//! Nothing that takes time keeps the next call waiting, or the parent would take this manager for lost.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::json;
use tokio::{
    pin, select,
    task::JoinSet,
    time::{Instant, interval_at, sleep},
};

use super::{CallTrouble, PATIENCE, ParentCaller};
use crate::{By, Engine, EngineError, audit::Actor};
use domain::{
    release::{
        command::{Command, LastSeen, Refusal},
        state::Snapshot,
    },
    workflows::{self, Above, NewWorkflow, Part, Phase, Secret, Target, Workflow},
};
use language::functions::{self, NamedFolder};
use model::{ChildKey, FEATURE_PLACEMENTS, Now};
use placement::FunctionTypes;
use protocol::{
    measurements::{SAMPLES_EVERY, SamplesPace},
    placements::{
        InstancePhase, InstanceReport, PlacedInstance, PlacedPart, PlacedState, PlacedTarget,
        PlacementsAnswer, PlacementsRequest,
    },
};

/// The keep-alive of a parent that hasn't said its own yet.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// What changes within so long is told with one call.
const TOGETHER: Duration = Duration::from_millis(20);

/// The pause after a call that failed, and between two looks whether the parent places anything.
const AGAIN: Duration = Duration::from_millis(500);

/// What could not be begun is tried again after so long.
const ONCE_MORE: Duration = Duration::from_secs(15);

/// Runs until it is dropped.
pub(super) async fn run(caller: Arc<ParentCaller>) {
    let mut placements = Placements {
        caller,
        told: None,
        state: None,
        keep_alive: KEEP_ALIVE,
        pace: SamplesPace::default(),
        tasks: JoinSet::new(),
        starting: BTreeSet::new(),
        failed: BTreeMap::new(),
        failing: BTreeMap::new(),
    };
    let mut has_failed = false;
    loop {
        match placements.turn().await {
            Ok(()) => has_failed = false,
            Err(error) => {
                if !has_failed {
                    tracing::info!(%error, "what runs here of the parent's workflows isn't told; tried again");
                }
                has_failed = true;
                sleep(AGAIN.min(placements.keep_alive / 4)).await;
            }
        }
    }
}

struct Placements {
    caller: Arc<ParentCaller>,
    /// What the parent told last; none: nothing yet in this life.
    told: Option<Vec<PlacedInstance>>,
    /// By what the parent calls that.
    state: Option<String>,
    keep_alive: Duration,
    pace: SamplesPace,
    tasks: JoinSet<(String, Result<(), String>)>,
    /// Instances that a task begins.
    starting: BTreeSet<String>,
    /// Those that could not be begun: why, and when that was.
    failed: BTreeMap<String, (String, Instant)>,
    /// Parts that don't run here, and since when: the parent is told once no other node below has taken them over.
    failing: BTreeMap<String, Instant>,
}

/// A part of the parent's that is here.
struct Here {
    above: Arc<Above>,
    is_stopping: bool,
}

impl Placements {
    /// One call. It is broken off when what it said is no longer so, and when something was measured below.
    async fn turn(&mut self) -> Result<(), CallTrouble> {
        let Some(id) = self.id() else {
            if self.caller.parent.lacks(FEATURE_PLACEMENTS) {
                end_all(&self.caller.engine).await?;
            }
            sleep(AGAIN).await;
            return Ok(());
        };
        self.follow(&id).await?;
        let changed = self.caller.engine.view().children.placements_changed();
        let notified = changed.notified();
        pin!(notified);
        // What changes from here on is either read or told of.
        notified.as_mut().enable();
        let instances = self.reports().await?;
        let (state, caller) = (self.state.clone(), Arc::clone(&self.caller));
        let measurements = &caller.engine.view().measurements;
        let now = Instant::now();
        let samples = self.pace.due(now.into_std(), || measurements.upward());
        let request = PlacementsRequest { id, state, instances, health: None, samples };
        let call = caller.parent.placements(&request, self.keep_alive / 2);
        pin!(call);
        let mut look = interval_at(now + SAMPLES_EVERY, SAMPLES_EVERY);
        loop {
            select! {
                answer = &mut call => {
                    let PlacementsAnswer { state, keep_alive_ms, measure: _, instances } = answer?;
                    measurements.passed(&request.samples);
                    if let Some(instances) = instances {
                        self.failed.retain(|id, _| instances.iter().any(|one| one.id == *id));
                        self.told = Some(instances);
                    }
                    self.state = Some(state);
                    self.keep_alive = Duration::from_millis(keep_alive_ms.max(1));
                    return Ok(());
                }
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    self.note(ended);
                    return Ok(());
                }
                // One that has samples is answered at once.
                _ = look.tick(), if request.samples.is_empty() => {
                    if !measurements.is_passed() {
                        return Ok(());
                    }
                }
                () = &mut notified => {
                    sleep(TOGETHER).await;
                    notified.set(changed.notified());
                    notified.as_mut().enable();
                    if self.reports().await? != request.instances {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// What the parent calls this manager, if it places anything.
    fn id(&self) -> Option<String> {
        self.caller.id().clone().filter(|_| self.caller.parent.knows(FEATURE_PLACEMENTS))
    }

    fn note(&mut self, ended: Result<(String, Result<(), String>), tokio::task::JoinError>) {
        let Ok((instance, begun)) = ended else {
            // Which one it was isn't known: all are begun again that aren't here.
            self.starting.clear();
            return;
        };
        self.starting.remove(&instance);
        if let Err(why) = begun {
            tracing::warn!(instance, "a part of the parent's workflows can't be begun here: {why}");
            self.failed.insert(instance, (why, Instant::now()));
        }
    }

    /// What runs here of the parent's.
    async fn reports(&mut self) -> Result<Vec<InstanceReport>, CallTrouble> {
        let engine = &self.caller.engine;
        let (seen, now) = (Arc::clone(&engine.view().children), engine.clock().now());
        let read = move |state: &Snapshot| reports(state, &*seen, now);
        let mut all = engine.read(PATIENCE, read).await?;
        let fails = |one: &&InstanceReport| one.phase == InstancePhase::Failed;
        let failing: BTreeSet<String> = all.iter().filter(fails).map(|one| one.id.clone()).collect();
        self.failing.retain(|id, _| failing.contains(id));
        for id in failing {
            self.failing.entry(id).or_insert_with(Instant::now);
        }
        let is_new = |id: &str| self.failing.get(id).is_some_and(|since| since.elapsed() < self.keep_alive);
        for one in all.iter_mut().filter(|one| is_new(&one.id)) {
            (one.phase, one.why) = (InstancePhase::Starting, None);
        }
        let here: HashSet<String> = all.iter().map(|one| one.id.clone()).collect();
        for id in &self.starting {
            if !here.contains(id) {
                let (id, phase) = (id.clone(), InstancePhase::Starting);
                all.push(InstanceReport { id, phase, why: None, url: None });
            }
        }
        for (id, (why, _)) in &self.failed {
            if !here.contains(id) {
                let (id, phase) = (id.clone(), InstancePhase::Failed);
                all.push(InstanceReport { id, phase, why: Some(why.clone()), url: None });
            }
        }
        Ok(all)
    }

    /// Begins, changes and ends parts, so that what is here is what the parent told.
    async fn follow(&mut self, id: &str) -> Result<(), CallTrouble> {
        let Some(told) = &self.told else { return Ok(()) };
        let engine = &self.caller.engine;
        let here = engine.read(PATIENCE, here).await?;
        let by_id: BTreeMap<&str, &PlacedInstance> = told.iter().map(|one| (&*one.id, one)).collect();
        let mut commands = Vec::new();
        for (instance, Here { above, is_stopping }) in &here {
            let wanted = by_id.get(&**instance);
            if let Some(wanted) = wanted {
                let mut is_to_be = above_of(wanted);
                if wanted.state == PlacedState::End {
                    // What only got ready doesn't begin in order to end.
                    is_to_be.prepares = above.prepares;
                }
                if is_to_be != **above {
                    let above = Arc::new(is_to_be);
                    commands.push(workflows::Command::SetAbove { id: instance.clone(), above });
                }
            }
            if !is_stopping && wanted.is_none_or(|one| one.state == PlacedState::End) {
                commands.push(workflows::Command::Stop { id: instance.clone() });
            }
        }
        carry_out(engine, commands).await?;
        for one in told.iter().filter(|one| one.state != PlacedState::End) {
            let waits = self.failed.get(&one.id).is_some_and(|(_, at)| at.elapsed() < ONCE_MORE);
            if here.contains_key(&one.id) || waits || !self.starting.insert(one.id.clone()) {
                continue;
            }
            let (caller, id, one) = (Arc::clone(&self.caller), id.to_owned(), one.clone());
            self.tasks.spawn(async move {
                let begun = begin(&caller, &id, &one).await;
                (one.id, begun)
            });
        }
        Ok(())
    }
}

/// Together, so that they share commits: the parent waits for the next call. Those of one part stay in their order.
async fn carry_out(engine: &Engine, commands: Vec<workflows::Command>) -> Result<(), EngineError> {
    let calls = commands.into_iter().map(|command| {
        let by = By { actor: Actor::Parent, note: None };
        engine.call(Command::Workflows(command), by, PATIENCE)
    });
    for answer in join_all(calls).await {
        match answer {
            // It has just ended.
            Ok(_) | Err(EngineError::Refused(Refusal::UnknownWorkflow(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends all that was placed here by a parent that this manager doesn't have any more.
///
/// # Errors
///
/// The engine is gone, or too busy.
pub async fn end_all(engine: &Engine) -> Result<(), EngineError> {
    let here = engine.read(PATIENCE, here).await?;
    let ends = here.into_iter().filter(|(_, here)| !here.is_stopping);
    let ends: Vec<workflows::Command> = ends.map(|(id, _)| workflows::Command::Stop { id }).collect();
    if !ends.is_empty() {
        tracing::warn!(
            parts = ends.len(),
            "what a parent had placed here is ended: this manager has no parent that places anything"
        );
    }
    carry_out(engine, ends).await
}

/// Parts of the parent's that are here, by what it calls their instances.
fn here(state: &Snapshot) -> BTreeMap<String, Here> {
    let of_parent = |workflow: &Arc<Workflow>| {
        let above = Arc::clone(workflow.above.as_ref()?);
        Some((workflow.id.clone(), Here { above, is_stopping: workflow.is_stopping }))
    };
    state.workflows.iter().filter_map(of_parent).collect()
}

fn above_of(one: &PlacedInstance) -> Above {
    let target = |(output, target): (&String, &PlacedTarget)| {
        let PlacedTarget { part, url, key } = target.clone();
        (output.clone(), Target { part, url, key })
    };
    Above {
        name: one.name.clone(),
        key: one.key.clone(),
        prepares: one.state == PlacedState::Prepare,
        is_source: one.source,
        outputs: one.outputs.iter().map(target).collect(),
    }
}

fn reports(state: &Snapshot, seen: &dyn LastSeen, now: Now) -> Vec<InstanceReport> {
    let held = OnceCell::new();
    let is_held = || *held.get_or_init(|| workflows::is_held(state, seen, now));
    let is_lost = |node: ChildKey| workflows::is_out(state, seen, now, node) && !is_held();
    let report = |workflow: &Arc<Workflow>| {
        workflow.above.as_ref()?;
        let (key, ..) = workflow.parts().next()?;
        let part = state.workflows.part(key)?;
        let (phase, why) = phase(&is_lost, workflow, part);
        let at = part.instance.as_ref().or(part.next.as_ref());
        let url = at.and_then(|instance| workflows::events_url(state, instance));
        Some(InstanceReport { id: workflow.id.clone(), phase, why, url: url.filter(|url| !url.is_empty()) })
    };
    state.workflows.iter().filter_map(report).collect()
}

/// How far a part is, as the parent is told; and why it failed.
fn phase(
    is_lost: &dyn Fn(ChildKey) -> bool,
    workflow: &Workflow,
    part: &Part,
) -> (InstancePhase, Option<String>) {
    if workflow.is_stopping {
        return (InstancePhase::Running, None);
    }
    let failed = |why: &str| (InstancePhase::Failed, Some(why.to_owned()));
    match &part.instance {
        Some(instance) if is_lost(instance.node) => {
            failed("its node says nothing, and no other one below may run it")
        }
        Some(instance) => match &instance.phase {
            Phase::Placed | Phase::Starting => (InstancePhase::Starting, None),
            Phase::Ready => (InstancePhase::Ready, None),
            Phase::Running => (InstancePhase::Running, None),
            Phase::Failed(why) => failed(why),
        },
        None if part.next.is_some() || !part.leaving.is_empty() => (InstancePhase::Starting, None),
        None => failed("no node below may run it"),
    }
}

/// Has a part of the parent's placed here.
async fn begin(caller: &ParentCaller, id: &str, one: &PlacedInstance) -> Result<(), String> {
    let (text, folder) = definition(id, one);
    let read = placement::Workflow::read(text.as_bytes(), &FunctionTypes::default());
    let (definition, _) = read.map_err(|faults| {
        let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
        all.join("; ")
    })?;
    let archive = match folder {
        None => None,
        Some(folder) => {
            let zip = caller.download(id, &one.id, &one.id).await.map_err(|error| error.to_string())?;
            let limits = caller.settings.archive_limits.clone();
            let packed =
                tokio::task::spawn_blocking(move || functions::folders_from_upload(&zip, &[folder], &limits));
            let packed = packed.await.map_err(|_| "unpacking broke off".to_owned())?;
            Some(packed.map_err(|error| error.to_string())?)
        }
    };
    let new = NewWorkflow {
        id: one.id.clone(),
        definition: Arc::new(definition),
        text: text.into(),
        types: Arc::default(),
        archive: archive.as_ref().map(|archive| archive.digest),
        secret: Secret(rand::random()),
        strategy: None,
        logical: vec![one.part.clone().into()],
        above: Some(Arc::new(above_of(one))),
        by: Actor::Parent.name(),
    };
    let bytes = archive.map(|archive| archive.bytes).unwrap_or_default();
    let by = By { actor: Actor::Parent, note: None };
    match caller.engine.start_workflow(Box::new(new), bytes, rand::random(), by, PATIENCE).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// A workflow of one part, and the folder of its function.
fn definition(id: &str, one: &PlacedInstance) -> (String, Option<NamedFolder>) {
    const NAME: &str = "part";
    /// What names this manager's own id is met by each of its nodes.
    const NODES: &str = "node_id_match_any";
    let required = |all: &BTreeMap<String, String>| {
        let mut all = all.clone();
        let is_this = |ids: &String| ids.split(',').any(|one| one.trim().eq_ignore_ascii_case(id));
        if all.get(NODES).is_some_and(is_this) {
            all.remove(NODES);
        }
        all
    };
    match &one.what {
        PlacedPart::Function { runtime, folder, annotations } => {
            let text = json!({"functions": [{
                "name": NAME,
                "class_specification":
                    {"id": NAME, "function_type": runtime, "version": "1", "code": folder, "outputs": []},
                "annotations": required(annotations),
            }]});
            (text.to_string(), Some((NAME.to_owned(), folder.clone())))
        }
        PlacedPart::Resource { class, configuration } => {
            let text = json!({"functions": [], "resources": [{
                "name": NAME, "class_type": class, "configurations": required(configuration),
            }]});
            (text.to_string(), None)
        }
    }
}
