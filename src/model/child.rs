//! What a child is, where it stands in a release, and how that ended for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::name_variants;

/// What a child says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChildKind {
    #[default]
    Agent,
    /// Another release manager, with children of its own.
    Rm,
}

name_variants!(ChildKind {
    Agent => "agent",
    Rm => "rm",
});

impl ChildKind {
    /// Whether children of its own stand behind it: it is handed whole strategies, and plans for them.
    pub const fn is_manager(self) -> bool {
        match self {
            Self::Agent => false,
            Self::Rm => true,
        }
    }

    /// Whether it forgets its id when it is restarted, and comes back as a stranger.
    pub const fn forgets_its_id(self) -> bool {
        match self {
            Self::Agent => true,
            Self::Rm => false,
        }
    }
}

/// How an agent can be led through a release. Managers are handed whole strategies whatever they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leads {
    /// One stage, or one roll-out, an offer: as deployed agents are.
    #[default]
    Stepwise,
    /// The whole strategy in one offer. It walks through the stages by itself, changes shares in place and asks for the end of
    /// each.
    Whole,
}

name_variants!(Leads {
    Stepwise => "stepwise",
    Whole => "whole",
});

impl Leads {
    /// Whether it takes one stage an offer, as everybody does who says nothing.
    pub const fn is_stepwise(&self) -> bool {
        matches!(self, Self::Stepwise)
    }
}

/// Names, in the answer to a poll and among a child's capabilities, that questions are understood.
pub const FEATURE_QUESTIONS: &str = "questions";

/// The name of the feature: times of calls are reported value by value.
pub const FEATURE_VALUES: &str = "values";

/// The name of the feature: calls that all go to one version by user are reported as such, by groups of users.
pub const FEATURE_GROUPS: &str = "groups";

/// The name of the feature: a stage is reported while it goes on.
pub const FEATURE_INTERIM: &str = "interim";

/// A manager that tells apart, where its parent asks for it, what children measured by how fast they were before the release.
pub const FEATURE_CLASSES: &str = "classes";

/// A manager that reads how calls of a function are routed and repeated, and what its agents may spend of alpha.
pub const FEATURE_TRAFFIC: &str = "traffic";

/// What a router does is told, and asked, over `POST /traffic`.
pub const FEATURE_ROUTERS: &str = "routers";

/// The name of the feature: a manager is told, over `POST /placements`, what it is to run of its parent's workflows.
pub const FEATURE_PLACEMENTS: &str = "placements";

/// An agent that is told, beside that a stage may end, which variation of a service is to serve alone in the end.
pub const FEATURE_WINNER: &str = "winner";

/// An agent that is told, beside that a stage may end, which share of calls a stage of a service has from now on.
pub const FEATURE_SHARES: &str = "shares";

/// An agent that reads, of a service, `tls: pass`, `proxy_protocol` and `drain`. Others pass them over.
pub const FEATURE_FLOWS: &str = "flows";

/// Who reads, of a variation of a service, what is to be started for it. Others want targets there.
pub const FEATURE_RUNS: &str = "runs";

/// An agent that shares out the calls of several services together, by stages that begin with the next one. Others wait in each of them.
pub const FEATURE_TOGETHER: &str = "together";

/// A manager that reads strategies of services.
pub const FEATURE_SERVICES: &str = "services";

/// A manager that reads by which labels the agents of a function are chosen.
pub const FEATURE_AGENTS: &str = "agents";

/// What a child can run, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// `None`: not reported, which counts as every runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtimes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Of a manager: for each key the values that its children have, those of managers below among them. `None`: it
    /// doesn't say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels_below: Option<Box<BTreeMap<String, BTreeSet<String>>>>,
    /// What it understands beyond the plain protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Of an agent: how much of a strategy it takes at once.
    #[serde(skip_serializing_if = "Leads::is_stepwise")]
    pub leads: Leads,
    /// The kinds of routers that it leads, for releases of services. Who names none leads none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<String>,
    /// Of a manager: where people reach its own page, see [`crate::public_url`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<Box<str>>,
    /// Of an agent on whose machine functions of workflows may be placed: what that has. Of a manager: what the nodes below it have
    /// together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Box<NodeCapabilities>>,
}

/// What a machine has on which functions of workflows may be placed, as its agent says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeCapabilities {
    /// Processors, cores of each, and their clock in MHz. 0: not said.
    pub cpus: u32,
    pub cores: u32,
    pub mhz: u32,
    /// Memory that functions may have, in MiB. `None`: not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// It runs functions in a trusted execution environment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tee: bool,
    /// It has a trusted platform module.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tpm: bool,
    /// Classes of the resources that it provides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Where it takes events from other nodes: `http://10.0.0.5:7380`. Empty: nowhere.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub events: String,
}

impl Capabilities {
    /// Whether it names a feature.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|has| has == feature)
    }

    /// Whether who says so takes a whole strategy in one offer, where it is an agent.
    pub fn leads_itself(&self) -> bool {
        self.leads == Leads::Whole
    }

    /// Whether functions that need `runtime` can run here.
    pub fn runs(&self, runtime: &str) -> bool {
        self.runtimes.as_ref().is_none_or(|known| known.iter().any(|r| r == runtime))
    }
}

/// Whether an operator keeps releases away from a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cordon {
    #[default]
    Open,
    /// No release that starts from now on; what it was given already goes on.
    Cordoned,
    /// Cordoned, and what it has not begun is taken back.
    Drained,
}

/// Where a child stands in a release.
///
/// ```mermaid
/// stateDiagram-v2
///     [*] --> Todo: assigned
///     Todo --> Doing: downloaded
///     Todo --> No: taken out before it began
///     Todo --> Failed: never fetched
///     Doing --> Done
///     Doing --> Failed
///     Done --> Doing: untested, and rolled out when the others had passed (a new attempt)
///     Done --> Todo: untested, and retried (a new attempt)
///     Failed --> Todo: retry (a new attempt)
///     Failed --> Doing: it was not lost after all (a new attempt)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum ChildStatus {
    No = 0,
    Todo = 1,
    Doing = 2,
    Done = 3,
    Failed = 4,
}

// In the order of the numbers: these are indices into `ALL`.
name_variants!(ChildStatus {
    No => "No",
    Todo => "Todo",
    Doing => "Doing",
    Done => "Done",
    Failed => "Failed",
});

impl ChildStatus {
    /// Whether the attempt has ended.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::No | Self::Done | Self::Failed)
    }

    /// The status of a stored number.
    pub fn from_number(number: i16) -> Option<Self> {
        usize::try_from(number).ok().and_then(|index| Self::ALL.get(index).copied())
    }
}

impl fmt::Display for ChildStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How an attempt ended for a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    /// It reported so, or the manager judged so.
    Failed,
    /// It began and was not heard of in time.
    TimedOut,
    /// It was offered and never fetched.
    Unreachable,
    /// Its result never came, and it does something else now.
    Lost,
    /// It confirmed that it runs the base version again.
    Undone,
    /// A stage of it got no calls, or fewer than its minimum, for as long as `no_calls` allows. It runs the base version,
    /// unless it was rolled out when the others had passed. Neither a failure nor a success.
    Untested,
    Excluded(Exclusion),
}

/// One table, by which outcomes are named, listed and read back: none can be left out.
macro_rules! name_outcomes {
    ($($outcome:ident $(($why:ident))? => $name:literal,)*) => {
        impl Outcome {
            /// All names, in the order of the enum.
            pub const NAMES: &[&str] = &[$($name),*];

            /// As stored, counted and shown.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$outcome $(($why))? => { $(let _ = $why;)? $name })*
                }
            }

            /// Whose name this is. A name says nothing of why a child takes no part: that is `exclusion`, without which
            /// nobody is excluded.
            pub fn named(name: &str, exclusion: Option<Exclusion>) -> Option<Self> {
                Some(match name {
                    $($name => { $(let $why: Exclusion = exclusion?;)? Self::$outcome $(($why))? })*
                    _ => return None,
                })
            }
        }
    };
}

name_outcomes! {
    Succeeded => "succeeded",
    Failed => "failed",
    TimedOut => "timed_out",
    Unreachable => "unreachable",
    Lost => "lost",
    Undone => "undone",
    Untested => "untested",
    Excluded(why) => "excluded",
}

impl Outcome {
    /// Whether a release with such a child ended with failures.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Failed | Self::TimedOut | Self::Unreachable | Self::Lost => true,
            Self::Succeeded | Self::Undone | Self::Untested | Self::Excluded(_) => false,
        }
    }
}

/// Why a child takes no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// The release was taken back before the child began.
    NotReached,
    /// It is a manager, and somebody there aborted its part: no failure of an agent.
    AbortedBelow,
    /// The child was drained before it began.
    Drained,
    Cordoned,
    /// It lacks a runtime that a function needs.
    Runtime,
    /// It leads no router that a service asks for.
    Router,
    /// It has not the labels by which a function chooses its agents.
    Agent,
    /// It lies outside of the target's area.
    Outside,
    /// The target has an area, and the child's is not known.
    NoArea,
    /// It has not all labels of the target.
    Label,
    /// It was forgotten.
    Forgotten,
    /// An operator took it out.
    Skipped,
    /// It is a manager, and said that none of its agents can take part.
    NobodyBelow,
    /// It has not proven that it is back from an earlier release of the function.
    Owes,
    /// It serves another version of a function than the base version of the release.
    OtherBase,
    /// It stands in for a child that vanished: it only takes back what that one left behind.
    Successor,
    /// The same machine goes on in the release under another id.
    Replaced,
    /// It is a manager, and the release is one of agents and of routers.
    Below,
    /// The release is one of agents and of routers, and of the other kind there was nobody.
    Alone,
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReached => "not reached: the release was taken back before it began",
            Self::AbortedBelow => "its part was aborted below it",
            Self::Drained => "drained before it began",
            Self::Cordoned => "cordoned",
            Self::Runtime => "lacks a runtime that a function needs",
            Self::Router => "leads no router that a service asks for",
            Self::Agent => "is not among the agents that a function asks for",
            Self::Outside => "outside the target's area",
            Self::NoArea => "its area is not known",
            Self::Label => "has not all labels of the target",
            Self::Forgotten => "forgotten",
            Self::Skipped => "skipped by an operator",
            Self::NobodyBelow => "none of its agents can take part",
            Self::Owes => "has not proven that it is back from an earlier release",
            Self::OtherBase => "serves another version of a function than the base version",
            Self::Successor => "successor of a child that vanished",
            Self::Replaced => "goes on under another id",
            Self::Below => "a manager; a release of functions and services is submitted to it by itself",
            Self::Alone => "takes no part alone: there are no agents, or no routers, for this release",
        })
    }
}
