//! What keeps a child out of a release.

use std::collections::BTreeMap;

use geo::MultiPolygon;

use super::{Candidate, Fleet, Needs};
use language::{Action, Group, Partial, Strategy, Subject, Target, TargetArea};
use model::{ChildKey, Cordon, Exclusion, FEATURE_AGENTS, FEATURE_SERVICES, TENANT_LABEL};

/// Why a child takes no part. The numbers are places in the strategy, so that reasons can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It lies outside of the target's area.
    Outside,
    /// No area of it is known.
    NoArea,
    Cordoned,
    /// A manager of whose agents none can take part.
    NobodyBelow,
    /// It has not this label of the target, in their order.
    Label(u16),
    /// It lacks a runtime of this function (0 for the base version's, 1 for the new one's).
    Runtime(u16, u8),
    /// It leads no router for this subject, which is a service.
    Router(u16),
    /// It is not among the agents that this subject, a function, asks for.
    Agent(u16),
    /// It has not proven that it is back from an earlier release of one of the functions.
    Owes,
    /// It serves another version of this function than the base version: who goes back would bring a version there that was not
    /// there before.
    OtherBase(u16),
    /// Nobody of the other group of a hybrid takes part, which is this one.
    Alone(Group),
}

impl Why {
    /// As it is counted and stored.
    pub const fn exclusion(self) -> Exclusion {
        match self {
            Self::Outside => Exclusion::Outside,
            Self::NoArea => Exclusion::NoArea,
            Self::Cordoned => Exclusion::Cordoned,
            Self::NobodyBelow => Exclusion::NobodyBelow,
            Self::Label(_) => Exclusion::Label,
            Self::Runtime(..) => Exclusion::Runtime,
            Self::Router(_) => Exclusion::Router,
            Self::Agent(_) => Exclusion::Agent,
            Self::Owes => Exclusion::Owes,
            Self::OtherBase(_) => Exclusion::OtherBase,
            Self::Alone(_) => Exclusion::Alone,
        }
    }

    /// For people.
    pub fn text(self, strategy: &Strategy) -> String {
        match self {
            Self::Outside => "outside the area".to_owned(),
            Self::NoArea => "no area known".to_owned(),
            Self::Cordoned => "cordoned".to_owned(),
            Self::NobodyBelow => "nobody below can take part".to_owned(),
            Self::Owes => "has not proven that it is back from an earlier release".to_owned(),
            Self::OtherBase(function) => {
                let function = strategy.functions.get(usize::from(function));
                function.map_or_else(String::new, |f| {
                    format!("serves another version of {} than its base version {}", f.name, f.base.path)
                })
            }
            Self::Alone(group) => {
                format!("takes no part alone: there are no {} for this release", group.name())
            }
            Self::Label(at) => {
                let label = strategy.target.iter().flat_map(|target| &target.labels).nth(usize::from(at));
                label.map_or_else(String::new, |(key, value)| format!("label {key} is not {value}"))
            }
            Self::Router(subject) => {
                let service = match strategy.subject(usize::from(subject)) {
                    Some(Subject::Service(service)) => Some(service),
                    Some(Subject::Function(_)) | None => None,
                };
                service.map_or_else(String::new, |service| format!("leads no router of {}", service.name()))
            }
            Self::Agent(function) => {
                let function = strategy.functions.get(usize::from(function));
                function.map_or_else(String::new, |f| format!("is not among the agents of {}", f.name))
            }
            Self::Runtime(function, version) => {
                let function = strategy.functions.get(usize::from(function));
                let env = function.map(|f| if version == 0 { &f.base.env } else { &f.new.env });
                env.map_or_else(String::new, |env| format!("lacks runtime {env}"))
            }
        }
    }
}

/// The functions that a child runs and the services whose calls it leads, as a set of indices of subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part(pub u64);

impl Part {
    pub const ALL: Self = Self(u64::MAX);

    /// Whose part of a hybrid it is.
    pub fn group(self, strategy: &Strategy) -> Group {
        let is_agents = self.0 & strategy.subjects_of(Group::Agents) != 0;
        if is_agents { Group::Agents } else { Group::Routers }
    }

    /// The subjects of a hybrid that are the other group's, as a set of indices; of another strategy none.
    pub fn of_others(self, strategy: &Strategy) -> u64 {
        if strategy.is_hybrid() { strategy.subjects_of(self.group(strategy).other()) } else { 0 }
    }

    /// The subjects of a strategy that it has nothing to do with, as a set of indices.
    pub fn lacks(self, strategy: &Strategy) -> u64 {
        let all = u64::MAX.checked_shr(64 - strategy.subjects_count().min(64) as u32).unwrap_or(0);
        !self.0 & all
    }

    /// The same without what is the other group's of a hybrid.
    pub fn lacks_of_its_own(self, strategy: &Strategy) -> u64 {
        let lacks = self.lacks(strategy);
        if strategy.is_hybrid() { lacks & strategy.subjects_of(self.group(strategy)) } else { lacks }
    }

    pub fn has(self, function: usize) -> bool {
        u32::try_from(function).is_ok_and(|at| self.0.checked_shr(at).unwrap_or(0) & 1 == 1)
    }
}

/// What a subject needs of a child.
#[derive(Clone, Copy)]
enum Need<'s> {
    /// The runtimes of both versions of a function, and these labels.
    Agent { runtimes: [&'s str; 2], labels: Option<&'s BTreeMap<String, String>> },
    /// A router with these labels.
    Router(&'s BTreeMap<String, String>),
}

impl Need<'_> {
    /// Why a child can't meet it; `at` is the subject's index.
    fn lacks(self, child: &Candidate<'_>, at: usize) -> Option<Why> {
        match self {
            Self::Agent { runtimes, labels } => {
                let labels = labels.filter(|labels| !labels.is_empty());
                let is_meant = |labels: &BTreeMap<String, String>| {
                    // A manager that can't read them would refuse the strategy.
                    let reads = !child.is_manager
                        || child.capabilities.is_some_and(|capabilities| capabilities.has(FEATURE_AGENTS));
                    reads && labels.iter().all(|(key, value)| may_have(child, key, value))
                };
                if !labels.is_none_or(is_meant) {
                    return Some(Why::Agent(at as u16));
                }
                let runs = |env| child.capabilities.is_none_or(|capabilities| capabilities.runs(env));
                let version = runtimes.iter().position(|env| !runs(env))?;
                Some(Why::Runtime(at as u16, version as u8))
            }
            Self::Router(labels) => {
                let leads = child.capabilities.is_some_and(|capabilities| {
                    let below = child.is_manager && capabilities.has(FEATURE_SERVICES);
                    below || !capabilities.routers.is_empty()
                });
                let is_meant = labels.iter().all(|(key, value)| may_have(child, key, value));
                (!leads || !is_meant).then_some(Why::Router(at as u16))
            }
        }
    }
}

/// A strategy's conditions on children.
pub(super) struct Rules<'s> {
    /// Keys of subjects; empty: whoever asks doesn't say them.
    keys: Vec<&'s str>,
    /// The base versions of functions, whose keys are the first; empty: they are not known.
    bases: Vec<u64>,
    /// Of each subject.
    needs: Vec<Need<'s>>,
    target: Option<&'s Target>,
    /// Where the stages are known, too.
    strategy: Option<&'s Strategy>,
    /// The tenant to whom no child of others is there.
    tenant: Option<&'s str>,
}

impl<'s> Rules<'s> {
    pub fn new(strategy: &'s Strategy) -> Self {
        let needs = strategy.subjects().map(|subject| match subject {
            Subject::Function(function) => Need::Agent {
                runtimes: [&function.base.env, &function.new.env],
                labels: Some(&function.agents),
            },
            Subject::Service(service) => Need::Router(&service.routers),
        });
        let (keys, target) = (strategy.subject_keys().collect(), strategy.target.as_ref());
        let (bases, tenant) = (strategy.bases(), strategy.tenant());
        Self { keys, bases, needs: needs.collect(), target, strategy: Some(strategy), tenant }
    }

    pub fn of(needs: &'s Needs) -> Self {
        let agents = needs.runtimes.iter().enumerate().map(|(at, envs)| Need::Agent {
            runtimes: envs.each_ref().map(String::as_str),
            labels: needs.agents.get(at),
        });
        let keys = needs.functions.iter().map(String::as_str).collect();
        let all = agents.chain(needs.routers.iter().map(Need::Router)).collect();
        Self {
            keys,
            bases: needs.bases.clone(),
            needs: all,
            target: needs.target.as_ref(),
            strategy: None,
            tenant: None,
        }
    }

    /// Whether all children are there for who plans.
    pub const fn sees_all(&self) -> bool {
        self.tenant.is_none()
    }

    /// Whether a child is there at all for who plans. To a tenant those of others are not: not even as left out.
    pub fn sees(&self, child: &Candidate<'_>) -> bool {
        let label = || child.labels?.get(TENANT_LABEL);
        self.tenant.is_none_or(|tenant| label().is_some_and(|own| own == tenant))
    }

    /// What it runs, if it lies right and owes nothing.
    pub fn judge(&self, fleet: &impl Fleet, child: ChildKey, candidate: &Candidate<'_>) -> Result<Part, Why> {
        let part = self.part(candidate)?;
        let owes = |function: &&str| fleet.owes(child, function);
        if candidate.is_busy && self.keys.iter().any(owes) {
            return Err(Why::Owes);
        }
        match self.other_base(fleet, child, candidate, part) {
            Some(function) => Err(Why::OtherBase(function)),
            None => Ok(part),
        }
    }

    /// Which of the functions that it runs has another version serving there than the release begins with, as far as that is known
    /// and stays so until the release begins.
    fn other_base(
        &self,
        fleet: &impl Fleet,
        child: ChildKey,
        candidate: &Candidate<'_>,
        part: Part,
    ) -> Option<u16> {
        let is_other = |(at, (function, base)): &(usize, (&&str, &u64))| {
            fleet.serves(child, function).is_some_and(|serves| serves != **base)
                && part.has(*at)
                && !(candidate.is_busy && fleet.is_changing(child, function))
        };
        self.keys.iter().zip(&self.bases).enumerate().find(is_other).map(|(at, _)| at as u16)
    }

    /// In which group of a hybrid a child is. A manager is with the routers if an operator gave it the labels that these are chosen by, or if
    /// nobody below it runs any of the functions, and with the agents else: it doesn't say which of its children has which label.
    fn group(&self, strategy: &Strategy, child: &Candidate<'_>) -> Group {
        let is_function = |(at, _): &(usize, &Need<'_>)| strategy.group_of(*at) == Group::Agents;
        if child.is_manager {
            let mut functions = self.needs.iter().enumerate().filter(is_function);
            let runs_any = functions.any(|(at, need)| need.lacks(child, at).is_none());
            let has = |(key, value): (&String, &String)| {
                child.labels.and_then(|labels| labels.get(key)).is_some_and(|given| given == value)
            };
            let is_named = self.needs.iter().any(|need| match need {
                Need::Router(labels) => !labels.is_empty() && labels.iter().all(has),
                Need::Agent { .. } => false,
            });
            return if runs_any && !is_named { Group::Agents } else { Group::Routers };
        }
        let Some(capabilities) = child.capabilities.filter(|capabilities| !capabilities.routers.is_empty())
        else {
            return Group::Agents;
        };
        let lacks = |(at, need): (usize, &Need<'_>)| need.lacks(child, at).is_some();
        let of_routers = |need: &Need<'_>| match need {
            Need::Router(labels) => !labels.is_empty(),
            Need::Agent { .. } => false,
        };
        let needs = || self.needs.iter().enumerate();
        let is_named = needs().any(|(at, need)| of_routers(need) && !lacks((at, need)));
        // Who says nothing of runtimes and leads a router is one.
        let runs = capabilities.runtimes.is_some() && !needs().filter(is_function).any(lacks);
        if is_named || !runs { Group::Routers } else { Group::Agents }
    }

    pub fn area(&self) -> Option<MultiPolygon> {
        self.target?.area.as_ref().map(TargetArea::polygons)
    }

    /// Whether a child that runs this part has nothing to do: each stage tests what it doesn't run, and nothing is rolled
    /// out after them.
    fn passes_over_all(&self, part: Part) -> bool {
        self.strategy.is_some_and(|strategy| {
            let first = if strategy.is_hybrid() { strategy.first_stage_of(part.group(strategy)) } else { 0 };
            strategy.without(part.lacks(strategy), Action::Stage(first)) == Action::Rollback
        })
    }

    /// What it runs, if it lies right.
    pub fn part(&self, child: &Candidate<'_>) -> Result<Part, Why> {
        if child.cordon != Cordon::Open {
            return Err(Why::Cordoned);
        }
        let hybrid = self.strategy.filter(|strategy| strategy.is_hybrid());
        let anybody = Target::default();
        // Whether it lies in the area is judged for all children together.
        let Target { area: _, labels, partial } = self.target.unwrap_or(&anybody);
        for (at, (key, value)) in labels.iter().enumerate() {
            if !may_have(child, key, value) {
                return Err(Why::Label(at as u16));
            }
        }
        let mut part = Part::ALL;
        if let Some(strategy) = hybrid {
            part.0 &= strategy.subjects_of(self.group(strategy, child));
        }
        let own = part;
        let mut first = None;
        for (at, need) in self.needs.iter().enumerate().filter(|(at, _)| own.has(*at)) {
            if let Some(why) = need.lacks(child, at) {
                part.0 &= !(1 << at);
                first.get_or_insert(why);
            }
        }
        let runs_any = (0..self.needs.len()).any(|at| part.has(at)) && !self.passes_over_all(part);
        match first {
            Some(why) if *partial == Partial::Refuse || !runs_any => Err(why),
            _ => Ok(part),
        }
    }
}

/// Whether a child has a label; what operators say wins over what it says itself. A manager has those of its children,
/// and any that it doesn't say that they lack.
fn may_have(child: &Candidate<'_>, key: &str, value: &String) -> bool {
    if let Some(given) = child.labels.and_then(|labels| labels.get(key)) {
        return given == value;
    }
    // Whose a child is it doesn't say itself, and a manager doesn't say it of itself by who is below it.
    if key == TENANT_LABEL {
        return false;
    }
    let reported = child.capabilities.and_then(|capabilities| capabilities.labels.get(key));
    if reported == Some(value) {
        return true;
    }
    let below = child.capabilities.and_then(|capabilities| capabilities.labels_below.as_deref());
    child.is_manager && below.is_none_or(|below| below.get(key).is_some_and(|values| values.contains(value)))
}
