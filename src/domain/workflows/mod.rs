//! Workflows that are kept running: which instance of which part is to run on which node, and what nodes say that runs.
//!
//! ```text
//! start  ─▶ Started + Placed, one for each part that a node may run; the others wait
//! stop   ─▶ Stopping + Left, one for each instance ─▶ report without them ─▶ Gone ─▶ Removed, with the last
//! report ─▶ Seen, where an instance is in another phase than before; Gone, where one that is to end runs no more
//! move   ─▶ Moving ─▶ report: the next one runs ─▶ TookOver ─▶ report without the old one ─▶ Gone
//!           of a source: Moving ─▶ the next one is ready ─▶ Left ─▶ report without the old one ─▶ Gone + TookOver
//! look   ─▶ Placed for parts that wait; Left + Placed for those of a node that is silent, or that can't run them; Moving for those of a
//!           node that is drained; Dropped for a next one that doesn't come
//! ```
//!
//! A node is told the whole of what it is to run, again and again, and says the whole of what runs there. So nothing is lost with a call
//! that fails, and whatever runs at a node that isn't to is ended by it: that is how of two instances, one of them on a node that was
//! silent, one survives.
//!
//! To its parent a manager is a node, which has what its nodes have together. What the parent places on it is a workflow of one part, and
//! placed on the nodes here as any other ([`Above`]).
//!
//! Invariants, which `tests/domain/workflows.rs` asserts:
//! - an instance is placed only on a node that may run it at that moment;
//! - a part has at most one instance that is to run, and gets none while the workflow stops. During a move a second one is to run beside
//!   it, on another node, which of a source only gets ready;
//! - an instance that is to run no more is held until its node says that it doesn't run, was silent for long, or is gone for good: until
//!   then the workflow is there;
//! - the same report twice changes nothing the second time, and a report touches the parts of its node alone;
//! - an instance leaves a node that was never silent, isn't drained and runs it only because somebody moves it.

mod apply;
mod change;
mod command;
mod decide;
mod look;
mod nodes;
mod placing;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

pub use self::{
    apply::apply,
    change::{Change, LeftWhy},
    command::{Command, NewWorkflow, Told},
    decide::decide,
    look::{Attention, attention, is_held, is_out},
    nodes::{NodeAreas, Nodes, events_url, node_of, silent_ms},
};
use model::{ChildKey, Now, pages::Pages, tenant};
use placement::{Function, FunctionTypes, Requirements, Resource};

/// Most workflows.
pub const MAX_WORKFLOWS: usize = 10_000;

/// Most functions and resources of all workflows together.
pub const MAX_PARTS: usize = 200_000;

/// Parts, and nodes, on a page.
const ON_A_PAGE: usize = 15;

/// How workflows are placed, and when their parts are moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub strategy: placement::Strategy,
    /// A node that is silent for so long is out, and what runs there is placed elsewhere.
    pub keep_alive: Duration,
    /// Where more nodes than these, in percent, fall silent at once, nothing is moved away from them for [`Self::hold`].
    pub max_vanished: u64,
    pub hold: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            strategy: placement::Strategy::default(),
            keep_alive: Duration::from_secs(2),
            max_vanished: 50,
            hold: Duration::from_secs(30),
        }
    }
}

/// The number of a workflow; no other has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowKey(pub u32);

/// The number of a part of a workflow; no other has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartKey(pub u32);

/// A workflow that is to run, or that is stopping.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    pub key: WorkflowKey,
    /// With its tenant, as ids of releases are.
    pub id: String,
    pub definition: Arc<placement::Workflow>,
    /// The definition as it was posted, and which runtime was to run which type of functions then.
    pub text: Arc<str>,
    pub types: Arc<FunctionTypes>,
    /// The digest of the archive that has its functions.
    pub archive: Option<[u8; 32]>,
    /// Of which the keys are made by which events are signed.
    pub secret: Secret,
    /// The number of its first part: resources come first, then functions, each in their order.
    pub first: PartKey,
    pub since: Now,
    pub by: String,
    pub is_stopping: bool,
    /// How one of several nodes is chosen for its parts; none: as the configuration says.
    pub strategy: Option<placement::Strategy>,
    /// Of a part that the parent has placed here, which is all of the workflow.
    pub above: Option<Arc<Above>>,
}

/// What a part that the parent has placed here is to be, in a workflow of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Above {
    /// What nodes call it, and callers at their proxies.
    pub name: String,
    /// With which events to it are signed.
    pub key: String,
    /// It is only to get ready.
    pub prepares: bool,
    /// It begins by itself: there are never two of it that run.
    pub is_source: bool,
    /// By the name of an output: who gets what it puts out there.
    pub outputs: BTreeMap<String, Target>,
}

/// Who gets events, of a workflow of the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What it is called whichever node runs it: a UUID.
    pub part: String,
    /// Where its node takes events; none: it runs nowhere now.
    pub url: Option<String>,
    /// With which events to it are signed.
    pub key: String,
}

/// Random bytes that nobody is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A function or a resource of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub workflow: WorkflowKey,
    /// What it is called whichever node runs it: a UUID.
    pub logical: Box<str>,
    /// The instance that is to run; none: no node may run it now, or [`Self::next`] is about to.
    pub instance: Option<Instance>,
    /// The one that takes its place, once it can.
    pub next: Option<Instance>,
    /// Those that are to end, and of which it isn't known that they have.
    pub leaving: Vec<Instance>,
    /// How many instances it has had.
    pub placed: u32,
    /// When the last one was placed, or was to be begun once more, in serving time; and how many before it didn't run.
    pub tried_ms: u64,
    pub failures: u32,
}

/// A part on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Another one than of each other instance: a UUID.
    pub id: Box<str>,
    pub node: ChildKey,
    pub phase: Phase,
    /// Where its events are taken, if that isn't where its node takes them.
    pub url: Option<Box<str>>,
}

/// How far an instance is, as its node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The node hasn't said anything of it.
    Placed,
    Starting,
    /// It could run at once.
    Ready,
    Running,
    /// It can't be started, or doesn't run any more: why.
    Failed(Box<str>),
}

/// All workflows. A copy shares nearly everything with the original.
#[derive(Debug, Clone, Default)]
pub struct Workflows {
    by_id: BTreeMap<String, Arc<Workflow>>,
    ids: BTreeMap<WorkflowKey, String>,
    parts: Pages<Option<Arc<Part>>, ON_A_PAGE>,
    /// By node: parts that have an instance there, which is to run or to end.
    on_node: Pages<Option<Arc<BTreeSet<PartKey>>>, ON_A_PAGE>,
    parts_count: usize,
    waiting: usize,
    unsettled: usize,
    next: u32,
    next_part: u32,
    /// The node that was chosen last, and of what is loaded when that was, in serving time.
    last: Option<ChildKey>,
    last_at: u64,
}

impl Workflow {
    /// Its parts with what they require, in the order of their numbers.
    pub fn parts(&self) -> impl Iterator<Item = (PartKey, &str, &Requirements)> {
        let resources = self.definition.resources.iter().map(|one| (&*one.name, &one.requirements));
        let functions = self.definition.functions.iter().map(|one| (&*one.name, &one.requirements));
        let numbers = (self.first.0..).map(PartKey);
        numbers.zip(resources.chain(functions)).map(|(key, (name, requirements))| (key, name, requirements))
    }

    /// What a part of it requires.
    #[must_use]
    pub fn requirements(&self, part: PartKey) -> Option<&Requirements> {
        let at = part.0.checked_sub(self.first.0)? as usize;
        let resources = &self.definition.resources;
        match resources.get(at) {
            Some(resource) => Some(&resource.requirements),
            None => Some(&self.definition.functions.get(at - resources.len())?.requirements),
        }
    }

    /// Whether a part of it begins by itself: then there are never two that do.
    #[must_use]
    pub fn is_source(&self, part: PartKey) -> bool {
        if let Some(above) = &self.above {
            return above.is_source;
        }
        self.function(part).is_some_and(|function| function.is_source)
    }

    /// A part by its name.
    #[must_use]
    pub fn key_of(&self, name: &str) -> Option<PartKey> {
        let at = *self.definition.places.get(name)?;
        Some(PartKey(self.first.0 + at))
    }

    /// Parts that put something out to one.
    pub fn senders(&self, part: PartKey) -> impl Iterator<Item = PartKey> {
        let at = part.0.wrapping_sub(self.first.0) as usize;
        let senders = self.definition.senders.get(at).into_iter().flatten();
        senders.map(|sender| PartKey(self.first.0 + sender))
    }

    /// The resource that a part of it is; none: it is a function.
    #[must_use]
    pub fn resource(&self, part: PartKey) -> Option<&Resource> {
        self.definition.resources.get(part.0.checked_sub(self.first.0)? as usize)
    }

    /// The function that a part of it is; none: it is a resource.
    #[must_use]
    pub fn function(&self, part: PartKey) -> Option<&Function> {
        let at = part.0.checked_sub(self.first.0)? as usize;
        self.definition.functions.get(at.checked_sub(self.definition.resources.len())?)
    }

    /// What a part of it is called at nodes, and a function at their proxies.
    #[must_use]
    pub fn name_at_nodes(&self, part: &str) -> String {
        if let Some(above) = &self.above {
            return above.name.clone();
        }
        let own = tenant::split(&self.id).map_or(&*self.id, |(_, own)| own);
        format!("{own}.{part}")
    }

    /// How many parts it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.definition.resources.len() + self.definition.functions.len()
    }

    /// Never: it has a part at least.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Part {
    /// One that runs nowhere yet.
    #[must_use]
    pub fn new(workflow: WorkflowKey, logical: Box<str>) -> Self {
        let (instance, next, leaving) = (None, None, Vec::new());
        Self { workflow, logical, instance, next, leaving, placed: 0, tried_ms: 0, failures: 0 }
    }

    /// All of its instances.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.instance.iter().chain(&self.next).chain(&self.leaving)
    }

    /// Whether it has, or is about to have, an instance that is to run.
    fn is_placed(&self) -> bool {
        self.instance.is_some() || self.next.is_some()
    }

    /// Whether there is nothing to do about it but to look at its node.
    fn is_settled(&self) -> bool {
        let runs = self.instance.as_ref().is_some_and(|instance| instance.phase == Phase::Running);
        runs && self.next.is_none() && self.leaving.is_empty()
    }

    fn nodes(&self) -> BTreeSet<ChildKey> {
        self.instances().map(|instance| instance.node).collect()
    }
}

impl Workflows {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<Workflow>> {
        self.by_id.get(id)
    }

    #[must_use]
    pub fn by_key(&self, key: WorkflowKey) -> Option<&Arc<Workflow>> {
        self.get(self.ids.get(&key)?)
    }

    /// In the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Workflow>> {
        self.by_id.values()
    }

    #[must_use]
    pub fn part(&self, key: PartKey) -> Option<&Arc<Part>> {
        self.parts.get(key.0 as usize)?.as_ref()
    }

    /// How many parts are to run and can't.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many parts don't run, or have an instance that is to end or to take over.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Parts that have an instance on a node, whether it is to run or to end.
    pub fn on_node(&self, node: ChildKey) -> impl Iterator<Item = (PartKey, &Arc<Part>)> {
        let on_node = self.on_node.get(node.0 as usize).and_then(Option::as_ref);
        on_node.into_iter().flat_map(|parts| parts.iter()).filter_map(|key| Some((*key, self.part(*key)?)))
    }

    /// Nodes that have, or had, an instance of something.
    pub fn nodes(&self) -> impl Iterator<Item = ChildKey> {
        self.on_node.from(0).filter(|(_, parts)| parts.is_some()).map(|(at, _)| ChildKey(at as u32))
    }
}
