//! One child: what it says of itself, and what operators and other children say of it.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use super::{open::OpenReleases, pace::Pace, registration::Registration, serves::Serves};
use model::{Capabilities, ChildKey, ChildKind, Cordon, Leads, Now, TENANT_LABEL};

/// What a child says of itself beyond the plain protocol, and what operators say of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    pub name: Option<String>,
    pub kind: ChildKind,
    pub capabilities: Capabilities,
}

impl Profile {
    /// Whether it is that of an agent which takes a whole strategy in one offer.
    pub fn leads_itself(&self) -> bool {
        !self.kind.is_manager() && self.capabilities.leads == Leads::Whole
    }
}

/// Who has taken the place of a child, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    pub by: ChildKey,
    /// In serving time, in milliseconds.
    pub at: u64,
}

/// A registered child.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// What it says of itself, which this derefs to; shared with readers.
    pub registration: Arc<Registration>,
    pub born: Now,
    pub called_again: bool,
    /// Whether it brought its id along and has not taken part in anything: anybody can make up ids.
    pub unproven: bool,
    /// Another id has taken its place, and it has not called since.
    pub replaced: Option<Box<Replaced>>,
    pub cordon: Cordon,
    pub pace: Pace,
    /// Labels that operators gave; they win over those that the child reports.
    pub labels: Option<Box<BTreeMap<String, String>>>,
    /// What serves its functions, as far as results of it prove that; only of agents that take whole strategies.
    pub serves: Option<Box<Serves>>,
    /// The releases in memory in which it has an assignment, in order of submission.
    pub open: OpenReleases,
}

impl Deref for Child {
    type Target = Registration;

    fn deref(&self) -> &Registration {
        &self.registration
    }
}

impl Child {
    /// A child that has called once, and of which nobody has said anything yet.
    pub fn new(registration: Registration, born: Now) -> Self {
        Self {
            registration: Arc::new(registration),
            born,
            called_again: false,
            unproven: false,
            replaced: None,
            cordon: Cordon::Open,
            pace: Pace::default(),
            labels: None,
            serves: None,
            open: OpenReleases::default(),
        }
    }

    /// To be changed. Readers go on seeing what it was.
    pub(super) fn registration_mut(&mut self) -> &mut Registration {
        Arc::make_mut(&mut self.registration)
    }

    /// How many agents it stands for. One that says nothing of its kind but has children is a manager of the plain
    /// protocol.
    pub fn counted_agents(&self) -> u32 {
        if self.replaced.is_some() {
            return 0;
        }
        match self.kind() {
            ChildKind::Agent if self.profile.is_some() => 1,
            ChildKind::Agent => self.agents.max(1),
            ChildKind::Rm => self.agents,
        }
    }

    /// The tenant whose child it is, as an operator said.
    pub fn tenant(&self) -> Option<&str> {
        self.labels.as_ref()?.get(TENANT_LABEL).map(String::as_str)
    }

    /// Whether it said that it is a node, which runs parts of workflows.
    pub fn is_node(&self) -> bool {
        self.profile.as_ref().is_some_and(|profile| profile.capabilities.node.is_some())
    }

    /// Whether functions that need `runtime` can run here.
    pub fn runs(&self, runtime: &str) -> bool {
        self.profile.as_ref().is_none_or(|profile| profile.capabilities.runs(runtime))
    }
}
