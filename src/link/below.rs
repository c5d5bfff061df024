//! What is below this manager, as its parent sees it: an area, a number of agents, runtimes.

use std::{collections::BTreeSet, sync::Arc};

use super::area::{self, Reported};
use crate::{
    model::{Capabilities, ChildKey},
    release::state::State,
};

/// Most runtimes that are reported one by one; with more of them nothing is said, which means all.
const MAX_RUNTIMES: usize = 64;

/// What is known of the children together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Below {
    area: Reported,
    agents: u32,
    /// `None`: a child doesn't say what it runs.
    runtimes: Option<BTreeSet<String>>,
}

/// Children that were looked at.
#[derive(Debug, Default)]
pub struct Look {
    areas: Vec<Arc<str>>,
    agents: u32,
    runtimes: BTreeSet<String>,
    some_say_nothing: bool,
}

impl Look {
    /// Looks at up to `count` children after one, and answers the last one if there may be more.
    pub fn at(state: &State, after: Option<ChildKey>, count: usize) -> (Self, Option<ChildKey>) {
        let (mut look, mut last, mut looked) = (Self::default(), None, 0);
        for (key, child) in state.children.after(after).take(count) {
            (last, looked) = (Some(key), looked + 1);
            look.areas.extend(child.area.clone());
            look.agents = look.agents.saturating_add(child.counted_agents());
            match child.profile.as_ref().and_then(|profile| profile.capabilities.runtimes.as_ref()) {
                Some(runtimes) => look.runtimes.extend(runtimes.iter().cloned()),
                None => look.some_say_nothing = true,
            }
        }
        (look, last.filter(|_| looked == count))
    }

    pub fn add(&mut self, other: Self) {
        self.areas.extend(other.areas);
        self.agents = self.agents.saturating_add(other.agents);
        self.runtimes.extend(other.runtimes);
        self.some_say_nothing |= other.some_say_nothing;
    }

    /// Puts together what was seen. With many children this takes a while.
    /// `service_area`: the manager's own, which stands in while no child has one.
    pub fn finish(self, service_area: Option<&str>) -> Below {
        let own = service_area.filter(|_| self.areas.is_empty()).map(Arc::from);
        let areas = own.map_or(self.areas, |own| vec![own]);
        let says_all = !self.some_say_nothing && self.runtimes.len() <= MAX_RUNTIMES;
        Below {
            area: area::reported(&areas),
            agents: self.agents,
            runtimes: says_all.then_some(self.runtimes),
        }
    }
}

impl Below {
    /// GeoJSON that contains the areas of all children; only a parent that is more than the plain system understands
    /// several polygons.
    pub fn area(&self, is_understood: bool) -> Option<&str> {
        let area = if is_understood { &self.area.close } else { &self.area.polygon };
        area.as_deref()
    }

    pub fn agents(&self) -> u32 {
        self.agents
    }

    pub fn capabilities(&self) -> Option<Capabilities> {
        let runtimes = self.runtimes.as_ref()?.iter().cloned().collect();
        Some(Capabilities { runtimes: Some(runtimes), ..Capabilities::default() })
    }
}
