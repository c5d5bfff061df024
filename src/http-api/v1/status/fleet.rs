//! Children and routers that somebody has to look at: those that the last look over all of them has named, as they are now.

use super::items::{About, Item, Items, Severity};
use crate::{
    scope::{ANOTHERS, Scope},
    v1::time::{of_served, rfc3339},
};
use domain::{
    children::Child,
    release::{command::LastSeen as _, state::Snapshot, waits::Span},
    traffic::{Router, RouterConcern},
};
use engine::{
    fleet_check::is_missing,
    view::{Children, FleetPart, Named},
};
use model::{ChildKey, Cordon, Now};

/// What it takes to look at them.
pub struct FleetInputs<'a> {
    pub state: &'a Snapshot,
    pub seen: &'a Children,
    pub scope: &'a Scope,
    pub now: Now,
}

impl FleetInputs<'_> {
    /// Those of a look that are so still.
    pub fn look(&self, found: &FleetPart, items: &mut Items) {
        self.each(&found.routers, items, |key, child| {
            let router = self.state.traffic.get(key)?;
            Some(item_of_router(child, router, router.concern()?))
        });
        self.each(&found.missed, items, |key, child| {
            let is_missed =
                child.cordon == Cordon::Open && is_missing(self.state, self.seen, key, child, self.now);
            is_missed.then(|| self.item_of_child(key, child))
        });
    }

    fn each(&self, named: &Named, items: &mut Items, item: impl Fn(ChildKey, &Child) -> Option<Item>) {
        for key in &named.keys {
            // It may be another's by now.
            let child = self.state.children.get(*key).filter(|child| self.scope.sees_child(child));
            if let Some(item) = child.and_then(|child| item(*key, child)) {
                items.push(item);
            }
        }
        items.unnamed(named.count.saturating_sub(named.keys.len() as u32));
    }

    fn item_of_child(&self, key: ChildKey, child: &Child) -> Item {
        let is_manager = child.kind().is_manager();
        let last_call = self.seen.last_call(key).unwrap_or_default();
        let silent = Span(self.now.served_ms.saturating_sub(last_call));
        let waits = child.open.iter().find_map(|release| self.state.release(*release));
        let below = is_manager.then(|| match child.agents {
            1 => "; 1 agent is below it".to_owned(),
            more => format!("; {more} agents are below it"),
        });
        let part = waits.map(|release| match self.scope.name(release.id.as_str()) {
            ANOTHERS => format!("; it has a part in {ANOTHERS} release"),
            id => format!("; it has a part in release {id}"),
        });
        let (below, part) = (below.unwrap_or_default(), part.unwrap_or_default());
        let text = format!("nothing was heard of it for {silent}{below}{part}");
        let severity = if is_manager || waits.is_some() { Severity::Critical } else { Severity::Action };
        let item = Item::new((severity, About::Child), text, help("children show", child));
        item.of(child.id.as_str(), name(child)).since(Some(of_served(last_call, self.now)))
    }
}

fn item_of_router(child: &Child, router: &Router, concern: RouterConcern) -> Item {
    let with = |text: &str| match &router.trouble {
        Some(trouble) => format!("{text}: {trouble}"),
        None => text.to_owned(),
    };
    let (severity, text, verb) = match concern {
        RouterConcern::Unreached => (Severity::Critical, with("it can't be read"), "show"),
        RouterConcern::Superseded => (Severity::Critical, with("somebody else leads it"), "show"),
        RouterConcern::Hindered => (Severity::Critical, with("it is not as wanted"), "show"),
        RouterConcern::LeftAlone => (Severity::Action, with("it differs from what is wanted"), "repair"),
        RouterConcern::Accepted => {
            (Severity::Warning, with("it differs from what is wanted, and may"), "show")
        }
        RouterConcern::Repaired => {
            let times =
                if router.repairs == 1 { "once".to_owned() } else { format!("{} times", router.repairs) };
            let text = format!("it was changed and put right {times} within an hour");
            (Severity::Warning, text, "show")
        }
        RouterConcern::NoTakeover => {
            let why = router.takeover_trouble.as_deref().unwrap_or_default();
            (Severity::Warning, format!("it can't take over calls: {why}"), "show")
        }
    };
    let item = Item::new((severity, About::Router), text, help(&format!("router {verb}"), child));
    item.of(child.id.as_str(), name(child)).since(Some(rfc3339(router.since.wall_ms)))
}

fn name(child: &Child) -> Option<&str> {
    child.profile.as_ref()?.name.as_deref()
}

fn help(command: &str, child: &Child) -> String {
    format!("choirmaster {command} {}", child.id.as_str())
}
