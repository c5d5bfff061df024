//! Folding a change of a child in. Infallible: whether a change is right was decided before it was made.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{
    Books, Change, Child, Children, GHOST_AFTER, Profile, REPLACED_FOR, Replaced,
    absence::{Absence, Absences},
    places,
    recheck::Recheck,
};
use model::{ChildKey, Now, TENANT_LABEL, address::for_limits};

impl Books {
    /// Folds one change in. `absences`: the silence that shows a child to be gone.
    pub fn apply(&mut self, children: &mut Children, change: &Change, absences: Absences) {
        match change {
            Change::Arrived { child, record, .. } => {
                self.arrive(children, *child, record, absences.of_child(record));
            }
            Change::CalledAgain { child } => self.hear_again(children, *child),
            Change::Moved { child, area } => self.move_child(children, *child, area.as_ref()),
            Change::CalledFrom { child, address } => self.call_from(children, *child, *address),
            Change::Proven { child } => self.prove(children, *child),
            Change::Replaced { child, by, now } => self.replace_child(children, *child, *by, *now),
            Change::Back { child } => self.take_back_in(children, *child),
            Change::Reported { child, agents, profile } => {
                self.report(children, *child, *agents, profile.as_deref());
            }
            Change::Paced { child, now } => {
                if let Some(child) = children.table.get_mut(*child) {
                    child.pace.spend(*now);
                }
            }
            Change::SaysOtherwise { child, now, .. } => {
                if let Some(child) = children.table.get_mut(*child) {
                    child.pace.tell_conflict(*now);
                }
            }
            Change::Labelled { child, key, value } => {
                label_child(children, *child, key, value.as_deref());
                self.look_whether_it_stays(children, *child);
            }
            Change::Cordoned { child, cordon } => {
                if let Some(child) = children.table.get_mut(*child) {
                    child.cordon = *cordon;
                }
                self.look_whether_it_stays(children, *child);
            }
            Change::Forgotten { child, .. } => self.forget(children, *child),
            Change::Seen { looked, again, kept, gone } => {
                for recheck in looked {
                    self.rechecks.remove(recheck);
                }
                self.rechecks.extend(again);
                for entry in gone {
                    self.expiring.remove(*entry);
                }
                self.expiring.extend(kept.iter().copied());
            }
        }
    }

    fn arrive(&mut self, children: &mut Children, key: ChildKey, record: &Child, absence: Absence) {
        self.hold(children, key, record.clone());
        if self.is_newcomer(key, record) {
            self.rechecks.insert(Recheck::first(key, record.born.served_ms, absence));
        }
    }

    /// Takes a child in; from the store also those that are no newcomers any more.
    pub fn hold(&mut self, children: &mut Children, key: ChildKey, record: Child) {
        let born = record.born.served_ms;
        if !record.called_again || record.unproven {
            self.expiring.insert((born + ms(GHOST_AFTER) + 1, key));
        }
        if let Some(replaced) = &record.replaced {
            self.expiring.insert((replaced.at + ms(REPLACED_FOR), key));
            // No release is planned for it.
        } else {
            children.areas.insert(key, record.area.as_deref(), record.counted_agents());
        }
        if let Some(place) = places::place(&record) {
            self.places.insert(place, key);
        }
        self.count_unproven(&record, 1);
        let before = children.table.get(key).and_then(|child| child.tenant().map(str::to_owned));
        children.tenants.remove(before.as_deref(), key);
        children.tenants.insert(record.tenant(), key);
        children.table.insert(key, record);
    }

    fn hear_again(&mut self, children: &mut Children, key: ChildKey) {
        let Some(child) = children.table.get_mut(key) else { return };
        child.called_again = true;
        // It can't become a ghost any more, so nobody has to look whether it has.
        if !child.unproven {
            self.expiring.remove((child.born.served_ms + ms(GHOST_AFTER) + 1, key));
        }
    }

    fn count_unproven(&mut self, record: &Child, more: isize) {
        let Some(address) = record.address.filter(|_| record.unproven).map(for_limits) else { return };
        let count = self.unproven.entry(address).or_default();
        *count = count.saturating_add_signed(more);
        if *count == 0 {
            self.unproven.remove(&address);
        }
    }

    /// Changes a child, and where it is found.
    fn change_child(&mut self, children: &mut Children, key: ChildKey, change: impl FnOnce(&mut Child)) {
        let Some(child) = children.table.get_mut(key) else { return };
        let before = places::place(child);
        change(child);
        let after = places::place(child);
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.places.remove(before, key);
        }
        if let Some(after) = after {
            self.places.insert(after, key);
        }
    }

    fn move_child(&mut self, children: &mut Children, key: ChildKey, area: Option<&Arc<str>>) {
        self.change_child(children, key, |child| child.registration_mut().area = area.cloned());
        children.areas.move_to(key, area.map(AsRef::as_ref));
    }

    fn call_from(&mut self, children: &mut Children, key: ChildKey, address: IpAddr) {
        if let Some(mut child) = children.table.get(key).filter(|child| child.unproven).cloned() {
            self.count_unproven(&child, -1);
            child.registration_mut().address = Some(address);
            self.count_unproven(&child, 1);
        }
        self.change_child(children, key, |child| child.registration_mut().address = Some(address));
    }

    fn prove(&mut self, children: &mut Children, key: ChildKey) {
        if let Some(child) = children.table.get(key).cloned() {
            self.count_unproven(&child, -1);
        }
        self.change_child(children, key, |child| child.unproven = false);
    }

    fn replace_child(&mut self, children: &mut Children, key: ChildKey, by: ChildKey, now: Now) {
        let at = now.served_ms;
        self.expiring.insert((at + ms(REPLACED_FOR), key));
        self.change_child(children, key, |child| child.replaced = Some(Box::new(Replaced { by, at })));
        children.areas.remove(key);
    }

    fn take_back_in(&mut self, children: &mut Children, key: ChildKey) {
        self.change_child(children, key, |child| child.replaced = None);
        if let Some(child) = children.table.get(key) {
            children.areas.insert(key, child.area.as_deref(), child.counted_agents());
        }
    }

    fn report(&mut self, children: &mut Children, key: ChildKey, agents: u32, profile: Option<&Profile>) {
        self.change_child(children, key, |child| {
            let registration = child.registration_mut();
            registration.agents = agents;
            registration.profile = profile.cloned().map(Box::new);
        });
        if let Some(child) = children.table.get(key) {
            children.areas.count(key, child.counted_agents());
        }
    }

    /// One that brought its id along stays while operators say something of it: what they said may have been all.
    fn look_whether_it_stays(&mut self, children: &mut Children, key: ChildKey) {
        if children.table.get(key).is_some_and(|child| child.unproven) {
            self.expiring.insert((0, key));
        }
    }

    fn forget(&mut self, children: &mut Children, key: ChildKey) {
        children.areas.remove(key);
        if let Some(child) = children.table.remove(key) {
            children.tenants.remove(child.tenant(), key);
            self.count_unproven(&child, -1);
            if let Some(place) = places::place(&child) {
                self.places.remove(place, key);
            }
        }
        self.deployments.forget(key);
    }
}

fn label_child(children: &mut Children, key: ChildKey, label: &str, value: Option<&str>) {
    if label == TENANT_LABEL {
        let before = children.table.get(key).and_then(|child| child.tenant().map(str::to_owned));
        children.tenants.remove(before.as_deref(), key);
        children.tenants.insert(value, key);
    }
    let Some(child) = children.table.get_mut(key) else { return };
    let labels = child.labels.get_or_insert_default();
    match value {
        Some(value) => labels.insert(label.to_owned(), value.to_owned()),
        None => labels.remove(label),
    };
    if labels.is_empty() {
        child.labels = None;
    }
}

const fn ms(time: Duration) -> u64 {
    time.as_millis() as u64
}
