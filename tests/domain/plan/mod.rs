//! The planner against known answers and against a slow, obvious checker.

mod delegated;
mod geometry;
mod membership;
mod order;
mod properties;
mod reasons;
mod stops;
mod user_hashing;

use std::collections::BTreeMap;

use domain::plan::{AreaIndex, Candidate, Fleet, Plan, plan};
use language::Strategy;
use model::{Capabilities, ChildKey, Cordon};

use crate::{areas::rectangle, load::load, reference::REFERENCE};

/// A child as a test writes it down.
#[derive(Debug, Clone)]
pub struct Child {
    pub id: String,
    pub area: Option<String>,
    pub agents: u32,
    pub cordon: Cordon,
    pub capabilities: Option<Capabilities>,
    pub labels: BTreeMap<String, String>,
    pub is_busy: bool,
}

impl Child {
    pub fn at(id: &str, area: &str) -> Self {
        Self { area: Some(area.to_owned()), ..Self::nowhere(id) }
    }

    pub fn nowhere(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            area: None,
            agents: 1,
            cordon: Cordon::Open,
            capabilities: None,
            labels: BTreeMap::new(),
            is_busy: false,
        }
    }
}

#[derive(Debug, Default)]
pub struct Children {
    pub list: Vec<Child>,
    pub areas: AreaIndex,
}

impl Children {
    pub fn new(list: Vec<Child>) -> Self {
        let mut areas = AreaIndex::default();
        for (key, child) in list.iter().enumerate() {
            areas.insert(ChildKey(key as u32), child.area.as_deref(), child.agents);
        }
        Self { list, areas }
    }
}

impl Fleet for Children {
    fn areas(&self) -> &AreaIndex {
        &self.areas
    }

    fn candidate(&self, child: ChildKey) -> Option<Candidate<'_>> {
        let child = self.list.get(child.0 as usize)?;
        Some(Candidate {
            id: &child.id,
            cordon: child.cordon,
            capabilities: child.capabilities.as_ref(),
            labels: Some(&child.labels),
            area: child.area.as_deref(),
            is_busy: child.is_busy,
            is_manager: false,
        })
    }
}

/// The reference with a block in front.
pub fn strategy(block: &str) -> Strategy {
    load(&format!("{block}\n{REFERENCE}"))
}

/// Who takes part, by id.
pub fn members(plan: &Plan, children: &Children) -> Vec<String> {
    plan.members.iter().map(|key| children.list[key.0 as usize].id.clone()).collect()
}

/// Each reason with its number of children.
pub fn reasons(plan: &Plan, strategy: &Strategy) -> Vec<(String, u32)> {
    plan.excluded.iter().map(|(why, tally)| (why.text(strategy), tally.children)).collect()
}

pub fn planned(strategy: &Strategy, list: Vec<Child>) -> (Plan, Children) {
    let children = Children::new(list);
    (plan(strategy, &children), children)
}
