use std::{cell::Cell, collections::HashSet, rc::Rc, sync::Arc};

use traffic::{Recent, Variation};

use super::{LiveService, LiveTable, Version};
use crate::{
    count::{Counts, VersionCounts},
    pool::{Connections, Pools},
    shadow::{Sender, Shadow},
};
use call_metrics::Key;

/// A thread's view of the table in force.
#[derive(Debug)]
pub(crate) struct Local {
    table: Arc<LiveTable>,
    services: Vec<LocalService>,
}

/// A thread's view of a service.
#[derive(Debug)]
pub(crate) struct LocalService {
    shared: Arc<LiveService>,
    served: Vec<Rc<Served>>,
    shadow: Option<Rc<Shadow>>,
}

/// A version as it serves under the shares of one table: what a call holds from its choice to its end.
#[derive(Debug)]
pub(crate) struct Served {
    pub variation: Variation,
    pub version: Rc<LocalVersion>,
    /// What is counted of the calls that the table gives to it.
    pub split: Rc<VersionCounts>,
    /// What is counted of the calls that a header asked it for.
    pub by_header: Rc<VersionCounts>,
    /// `X-Choirmaster-Version` with its line end.
    pub field: Box<[u8]>,
}

/// What a thread keeps of a version, whatever table names it.
#[derive(Debug)]
pub(crate) struct LocalVersion {
    shared: Arc<Version>,
    /// A target each.
    connections: Box<[Rc<Connections>]>,
    next_target: Cell<usize>,
    recent: Cell<Recent>,
}

impl Local {
    pub(crate) fn new(table: Arc<LiveTable>, before: Option<&Self>, pools: &Pools) -> Self {
        let services = table.services().iter().enumerate().map(|(at, service)| {
            let same_place = before.and_then(|before| before.services.get(at));
            let was = same_place
                .filter(|was| was.shared.name() == service.name())
                .or_else(|| before?.services.iter().find(|was| was.shared.name() == service.name()));
            LocalService::new(service, was, pools)
        });
        let services = services.collect();
        Self { table, services }
    }

    /// Cuts copies of calls to versions that the next table has no copies for.
    pub(crate) fn cut_shadows(&self, next: &Self, counts: &Counts) {
        let kept: HashSet<_> = next.senders().map(Rc::as_ptr).collect();
        self.senders()
            .filter(|sender| !kept.contains(&Rc::as_ptr(sender)))
            .for_each(|sender| sender.cut(counts));
    }

    fn senders(&self) -> impl Iterator<Item = &Rc<Sender>> {
        self.services.iter().filter_map(|service| Some(service.shadow.as_ref()?.sender()))
    }

    pub(crate) fn table(&self) -> &Arc<LiveTable> {
        &self.table
    }

    pub(crate) fn service(&self, index: usize) -> &LocalService {
        &self.services[index]
    }
}

impl LocalService {
    fn new(shared: &Arc<LiveService>, was: Option<&Self>, pools: &Pools) -> Self {
        let serve = |(at, version): (usize, &Arc<Version>)| {
            let variation = Variation(at as u8);
            let known = was.and_then(|was| {
                was.served.iter().find(|served| Arc::ptr_eq(&served.version.shared, version))
            });
            if let (Some(known), Some(was)) = (known, was)
                && known.variation == variation
                && was.shared.split() == shared.split()
                && was.shared.shares() == shared.shares()
            {
                return Rc::clone(known);
            }
            let local = known.map_or_else(
                || Rc::new(LocalVersion::new(version, pools)),
                |known| Rc::clone(&known.version),
            );
            Rc::new(Served::new(shared, variation, local))
        };
        let served: Vec<_> = shared.versions().iter().enumerate().map(serve).collect();
        let shadow = shared.shadow().map(|rule| {
            let served = &served[rule.variation.index()];
            let version = &served.version.shared;
            let known = was.and_then(|was| Some(was.shadow.as_ref()?.sender()));
            let known = known.filter(|sender| sender.sends_to(version));
            let sender = known.map_or_else(|| Sender::new(version), Rc::clone);
            Rc::new(Shadow::new(rule.share, &served.split, sender))
        });
        Self { shared: Arc::clone(shared), served, shadow }
    }

    /// Where calls are copied to that the stable version answers.
    pub(crate) fn shadow(&self) -> Option<&Rc<Shadow>> {
        self.shadow.as_ref()
    }

    pub(crate) fn shared(&self) -> &Arc<LiveService> {
        &self.shared
    }

    pub(crate) fn served(&self, variation: Variation) -> &Rc<Served> {
        &self.served[variation.index()]
    }
}

impl Served {
    fn new(service: &LiveService, variation: Variation, version: Rc<LocalVersion>) -> Self {
        let shared = version.shared();
        let counted = |by_header| {
            VersionCounts::new(Key {
                service: service.name().to_owned(),
                split: service.split().to_owned(),
                shares: Arc::clone(service.shares()),
                variation: shared.name().to_owned(),
                version: shared.digest().to_owned(),
                by_header,
            })
        };
        let field = format!("X-Choirmaster-Version: {}\r\n", shared.name()).into_bytes().into();
        let (split, by_header) = (counted(false), counted(true));
        Self { variation, version, split, by_header, field }
    }

    /// Where a call is counted.
    pub(crate) fn counted(&self, by_header: bool) -> &Rc<VersionCounts> {
        if by_header { &self.by_header } else { &self.split }
    }
}

impl LocalVersion {
    pub(crate) fn new(shared: &Arc<Version>, pools: &Pools) -> Self {
        let connections = shared.targets().iter().map(|target| pools.of(target, shared.digest())).collect();
        let shared = Arc::clone(shared);
        Self { shared, connections, next_target: Cell::new(0), recent: Cell::default() }
    }

    pub(crate) fn shared(&self) -> &Version {
        &self.shared
    }

    /// Those of this thread to a target of it.
    pub(crate) fn connections(&self, target: usize) -> &Connections {
        &self.connections[target]
    }

    /// All targets, beginning with the one whose turn it is.
    pub(crate) fn targets_in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.next_target.get(), self.connections.len());
        self.next_target.set((first + 1) % count);
        (0..count).map(move |next| (first + next) % count)
    }

    /// Whether the next call is to go past it; see [`Recent`].
    pub(crate) fn is_passed_over(&self) -> bool {
        let mut recent = self.recent.get();
        let passed = recent.passes_over();
        self.recent.set(recent);
        passed
    }

    pub(crate) fn note(&self, was_repeated: bool) {
        let mut recent = self.recent.get();
        recent.note(was_repeated);
        self.recent.set(recent);
    }
}
