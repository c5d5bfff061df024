//! What keeps a child out of a release.

use geo::MultiPolygon;

use super::{Candidate, Fleet, Needs};
use language::{Action, Partial, Strategy, Target, TargetArea};
use model::{ChildKey, Cordon, Exclusion};

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
    /// It has not proven that it is back from an earlier release of one of the functions.
    Owes,
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
            Self::Owes => Exclusion::Owes,
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
            Self::Label(at) => {
                let label = strategy.target.iter().flat_map(|target| &target.labels).nth(usize::from(at));
                label.map_or_else(String::new, |(key, value)| format!("label {key} is not {value}"))
            }
            Self::Runtime(function, version) => {
                let function = strategy.functions.get(usize::from(function));
                let env = function.map(|f| if version == 0 { &f.base.env } else { &f.new.env });
                env.map_or_else(String::new, |env| format!("lacks runtime {env}"))
            }
        }
    }
}

/// The functions that a child runs, as a set of indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part(pub u64);

impl Part {
    pub const ALL: Self = Self(u64::MAX);

    /// The functions of a strategy that it does not run, as a set of indices.
    pub fn lacks(self, strategy: &Strategy) -> u64 {
        let all = u64::MAX.checked_shr(64 - strategy.functions.len().min(64) as u32).unwrap_or(0);
        !self.0 & all
    }

    pub fn has(self, function: usize) -> bool {
        u32::try_from(function).is_ok_and(|at| self.0.checked_shr(at).unwrap_or(0) & 1 == 1)
    }
}

/// A strategy's conditions on children.
pub(super) struct Rules<'s> {
    /// Names; empty: whoever asks doesn't say them.
    functions: Vec<&'s str>,
    /// For each function the runtimes of both versions.
    runtimes: Vec<[&'s str; 2]>,
    target: Option<&'s Target>,
    /// Where the stages are known, too.
    strategy: Option<&'s Strategy>,
}

impl<'s> Rules<'s> {
    pub fn new(strategy: &'s Strategy) -> Self {
        let runtimes = strategy.functions.iter().map(|f| [f.base.env.as_str(), f.new.env.as_str()]);
        let functions = strategy.functions.iter().map(|f| f.name.as_str()).collect();
        let target = strategy.target.as_ref();
        Self { functions, runtimes: runtimes.collect(), target, strategy: Some(strategy) }
    }

    pub fn of(needs: &'s Needs) -> Self {
        let runtimes = needs.runtimes.iter().map(|envs| envs.each_ref().map(String::as_str));
        let functions = needs.functions.iter().map(String::as_str).collect();
        Self { functions, runtimes: runtimes.collect(), target: needs.target.as_ref(), strategy: None }
    }

    /// What it runs, if it lies right and owes nothing.
    pub fn judge(&self, fleet: &impl Fleet, child: ChildKey, candidate: &Candidate<'_>) -> Result<Part, Why> {
        let part = self.part(candidate)?;
        let owes = |function: &&str| fleet.owes(child, function);
        if candidate.is_busy && self.functions.iter().any(owes) {
            return Err(Why::Owes);
        }
        Ok(part)
    }

    pub fn area(&self) -> Option<MultiPolygon> {
        self.target?.area.as_ref().map(TargetArea::polygons)
    }

    /// Whether a child that runs this part has nothing to do: each stage tests what it doesn't run, and nothing is rolled
    /// out after them.
    fn passes_over_all(&self, part: Part) -> bool {
        self.strategy.is_some_and(|strategy| {
            strategy.without(part.lacks(strategy), Action::Stage(0)) == Action::Rollback
        })
    }

    /// What it runs, if it lies right.
    pub fn part(&self, child: &Candidate<'_>) -> Result<Part, Why> {
        if child.cordon != Cordon::Open {
            return Err(Why::Cordoned);
        }
        let anybody = Target::default();
        // Whether it lies in the area is judged for all children together.
        let Target { area: _, labels, partial } = self.target.unwrap_or(&anybody);
        for (at, (key, value)) in labels.iter().enumerate() {
            if !may_have(child, key, value) {
                return Err(Why::Label(at as u16));
            }
        }
        let lacks = |runtimes: &[&str; 2]| -> Option<u8> {
            let runs = |env| child.capabilities.is_none_or(|capabilities| capabilities.runs(env));
            runtimes.iter().position(|env| !runs(env)).map(|at| at as u8)
        };
        let mut part = Part::ALL;
        let mut first = None;
        for (at, function) in self.runtimes.iter().enumerate() {
            if let Some(version) = lacks(function) {
                part.0 &= !(1 << at);
                first.get_or_insert(Why::Runtime(at as u16, version));
            }
        }
        let runs_any = (0..self.runtimes.len()).any(|at| part.has(at)) && !self.passes_over_all(part);
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
    let reported = child.capabilities.and_then(|capabilities| capabilities.labels.get(key));
    if reported == Some(value) {
        return true;
    }
    let below = child.capabilities.and_then(|capabilities| capabilities.labels_below.as_deref());
    child.is_manager && below.is_none_or(|below| below.get(key).is_some_and(|values| values.contains(value)))
}
