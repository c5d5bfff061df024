//! What keeps a child out of a release.

use std::collections::BTreeMap;

use geo::MultiPolygon;

use super::Candidate;
use crate::{
    model::{Cordon, Exclusion},
    strategy::{Function, Partial, Strategy, TargetArea},
};

/// Why a child takes no part. The numbers are places in the strategy, so that reasons can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It lies outside of the target's area.
    Outside,
    /// No area of it is known.
    NoArea,
    Cordoned,
    /// It has not this label of the target, in their order.
    Label(u16),
    /// It lacks a runtime of this function (0 for the base version's, 1 for the new one's).
    Runtime(u16, u8),
}

impl Why {
    /// As it is counted and stored.
    pub const fn exclusion(self) -> Exclusion {
        match self {
            Self::Outside => Exclusion::Outside,
            Self::NoArea => Exclusion::NoArea,
            Self::Cordoned => Exclusion::Cordoned,
            Self::Label(_) => Exclusion::Label,
            Self::Runtime(..) => Exclusion::Runtime,
        }
    }

    /// For people.
    pub fn text(self, strategy: &Strategy) -> String {
        match self {
            Self::Outside => "outside the area".to_owned(),
            Self::NoArea => "no area known".to_owned(),
            Self::Cordoned => "cordoned".to_owned(),
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

    pub fn has(self, function: usize) -> bool {
        u32::try_from(function).is_ok_and(|at| self.0.checked_shr(at).unwrap_or(0) & 1 == 1)
    }
}

/// A strategy's conditions on children, except for the area.
pub(super) struct Rules<'s> {
    strategy: &'s Strategy,
    labels: Option<&'s BTreeMap<String, String>>,
    partial: Partial,
}

impl<'s> Rules<'s> {
    pub fn new(strategy: &'s Strategy) -> Self {
        let target = strategy.target.as_ref();
        Self {
            strategy,
            labels: target.map(|target| &target.labels),
            partial: target.map(|target| target.partial).unwrap_or_default(),
        }
    }

    pub fn area(&self) -> Option<MultiPolygon> {
        self.strategy.target.as_ref()?.area.as_ref().map(TargetArea::polygons)
    }

    /// What it runs, if it lies right.
    pub fn part(&self, child: &Candidate<'_>) -> Result<Part, Why> {
        if child.cordon != Cordon::Open {
            return Err(Why::Cordoned);
        }
        for (at, (key, value)) in self.labels.into_iter().flatten().enumerate() {
            if label(child, key) != Some(value) {
                return Err(Why::Label(at as u16));
            }
        }
        let lacks = |function: &Function| -> Option<u8> {
            let runs = |env| child.capabilities.is_none_or(|capabilities| capabilities.runs(env));
            [&function.base.env, &function.new.env].into_iter().position(|env| !runs(env)).map(|at| at as u8)
        };
        let mut part = Part::ALL;
        let mut first = None;
        for (at, function) in self.strategy.functions.iter().enumerate() {
            if let Some(version) = lacks(function) {
                part.0 &= !(1 << at);
                first.get_or_insert(Why::Runtime(at as u16, version));
            }
        }
        let runs_any = (0..self.strategy.functions.len()).any(|at| part.has(at));
        match first {
            Some(why) if self.partial == Partial::Refuse || !runs_any => Err(why),
            _ => Ok(part),
        }
    }
}

/// A child's label: what operators say wins over what it says itself.
fn label<'a>(child: &Candidate<'a>, key: &str) -> Option<&'a String> {
    let reported = || child.capabilities.and_then(|capabilities| capabilities.labels.get(key));
    child.labels.and_then(|labels| labels.get(key)).or_else(reported)
}
