//! What the engine knows: children, releases, and where each child stands in each release that is not over.
//!
//! Only `apply` (in [`super::apply`]) changes it. Everything here can be rebuilt from the store's rows.

mod agents;
mod counts;
mod overtakes;
mod release;
mod revision;
mod standing;

use std::sync::Arc;

use std::{
    collections::{BTreeMap, HashMap},
    ops::{Deref, DerefMut},
};

pub use counts::{Bad, Counts};
pub use overtakes::Overtakes;
pub use release::{Release, Sweep};
pub use revision::Revision;
pub use standing::{End, ReleaseState};

pub use super::clock::ReleaseClock;

/// Whoever reads a release from a store makes one; nothing of it is stored.
pub use crate::plan::KeptCover;

use super::{assignment::Assignment, releases::Releases, schedule::Schedule, settings::Settings};
use crate::{
    children::{Books, Child, Children, Deployment},
    traffic::{Router, Traffic},
    workflows::{Part, Workflow, Workflows},
};
use model::{ChildKey, Now, ReleaseId, ReleaseKey};

/// What is remembered of every release, over or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseRecord {
    pub key: ReleaseKey,
    pub digest: [u8; 32],
}

/// What readers see of the state: the children, and where each stands in the releases that are not over.
///
/// A clone is a snapshot. It costs next to nothing and shares everything with the state, which copies what it changes
/// for as long as somebody holds the snapshot.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub settings: Settings,
    pub children: Children,
    /// Those that are not over, and those with undos that are not confirmed.
    pub releases: Releases,
    /// Routers, and the services that they lead.
    pub traffic: Traffic,
    /// Functions that are kept running, on which machines of children.
    pub workflows: Workflows,
    pub next_release: u32,
    /// Commands so far.
    pub decided: u64,
}

impl Snapshot {
    pub fn release(&self, key: ReleaseKey) -> Option<&Release> {
        self.releases.get(&key)
    }

    /// A release in memory, by id. Looks through those that are.
    pub fn release_by_id(&self, id: &str) -> Option<&Release> {
        self.releases.values().find(|release| release.id.as_str() == id)
    }

    pub fn assignment(&self, release: ReleaseKey, child: ChildKey) -> Option<&Assignment> {
        self.releases.get(&release)?.assignments.get(&child)
    }
}

/// Everything: what readers see, to which it derefs, and the books of the one who decides. Only `apply` changes it.
#[derive(Debug, Default)]
pub struct State {
    pub(in crate::release) shared: Snapshot,
    /// What is kept of the children for whoever decides.
    pub(in crate::release) books: Books,
    /// Every release ever.
    pub known: HashMap<ReleaseId, ReleaseRecord>,
    /// Releases that left memory and were not taken note of yet.
    pub(in crate::release) closed: BTreeMap<ReleaseKey, Release>,
    /// How many commands there were when a release left memory last.
    pub(in crate::release) last_left: u64,
    /// The number of the commit that what is decided now is stored by; 0 where nothing is.
    pub commit: u64,
    /// When what of `releases` is to be looked at.
    pub(in crate::release) schedule: Schedule,
}

impl Deref for State {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.shared
    }
}

impl DerefMut for State {
    fn deref_mut(&mut self) -> &mut Snapshot {
        &mut self.shared
    }
}

impl State {
    pub fn new(settings: Settings) -> Self {
        Self { shared: Snapshot { settings, ..Snapshot::default() }, ..Self::default() }
    }

    /// What readers see, as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.clone()
    }

    /// The serving time at which a tick has something to look at: the next deadline of a release whose clock runs, the
    /// start of one, or the next child that may be a ghost or another's successor. It may have passed.
    pub fn next_due(&self, now: Now) -> Option<u64> {
        self.books.next_due().into_iter().chain(self.schedule.next(now)).min()
    }

    /// A release that is in memory, or left it just now.
    pub fn find(&self, key: ReleaseKey) -> Option<&Release> {
        self.releases.get(&key).or_else(|| self.closed.get(&key))
    }

    /// A release in memory, by id.
    pub fn release_by_id(&self, id: &str) -> Option<&Release> {
        self.releases.get(&self.known.get(id)?.key)
    }

    /// Whether any child runs what this release left it with.
    pub fn is_deployed(&self, release: ReleaseKey) -> bool {
        self.books.are_deployed_of(release)
    }

    /// What `child` runs of `function`, as far as is known.
    pub fn deployment(&self, child: ChildKey, function: &str) -> Option<Deployment> {
        self.books.deployment(child, function)
    }

    /// Takes in what the store says of a deployment.
    pub fn hold_deployment(
        &mut self,
        child: ChildKey,
        function: &str,
        deployment: Deployment,
        content: Option<u64>,
    ) {
        self.books.deploy(child, function, deployment);
        self.shared.children.serve(child, function, content);
    }

    /// Takes in a workflow as it was stored, with its parts in the order of their numbers.
    pub fn hold_workflow(&mut self, workflow: Workflow, parts: Vec<Arc<Part>>) {
        self.shared.workflows.hold(Arc::new(workflow), parts);
    }

    /// Takes in what the store says of a router.
    pub fn hold_router(&mut self, child: ChildKey, router: Router) {
        self.shared.traffic.hold(child, router.into());
    }

    /// Takes a child in; from the store also those that are no newcomers any more.
    pub fn hold_child(&mut self, key: ChildKey, record: Child) {
        self.books.hold(&mut self.shared.children, key, record);
    }

    /// Notes which children are to be looked at again, of all who are there; after a start.
    pub fn recheck_all(&mut self, served_ms: u64) {
        let Snapshot { releases, children, settings, .. } = &self.shared;
        let parts = releases.values().flat_map(|release| release.assignments.iter());
        let debtors = parts.filter(|(_, part)| part.owes_overdue()).map(|(child, _)| *child);
        self.books.recheck_all(children, debtors, settings.absence, served_ms);
    }
}
