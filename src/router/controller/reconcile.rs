//! From what is wanted to what is to be in force, and telling it.

use std::{collections::BTreeSet, sync::Arc};

use traffic::{
    desired::{DesiredConfig, Name, Service, Target},
    health::{Effective, effective, turns},
};

use super::{RouterEvent, Stand, StateMachine, Told, Trouble, TroubleKind};
use crate::names::{Resolved, resolve};

/// Pauses before a state is told again: the first, and the longest.
const TELL_AGAIN_MS: u64 = 500;
const TELL_AGAIN_AT_LAST_MS: u64 = 60_000;

/// The pause between a reload that the health of targets caused and the next one by which a variation gets its share back: each leaves
/// processes behind for as long as their connections last.
pub const RELOAD_PAUSE_MS: u64 = 30_000;

impl StateMachine {
    pub(super) fn want(&mut self, wanted: DesiredConfig, now_ms: u64) {
        if let Some(before) = &self.wanted {
            if *before == wanted {
                return;
            }
            if wanted.number <= before.number {
                let fact = RouterEvent::Ignored { asked: wanted.number, newest: before.number };
                return self.say(fact);
            }
        }
        self.wanted = Some(wanted);
        self.is_refused = false;
        self.telling.went_well();
        self.trouble = None;
        self.reloaded_ms = None;
        self.tell_again(now_ms);
        self.keep_from_draining();
        self.resolve_again(now_ms);
        self.say_superseded();
    }

    /// What was told was taken, or was not.
    pub(super) fn applied(&mut self, told: Arc<Effective>, applied: Result<(), Trouble>, now_ms: u64) {
        match applied {
            Ok(()) => {
                let is_it = self.effective.as_ref().is_some_and(|to_be| to_be.wanted == told.wanted);
                // What changed meanwhile is told after this.
                self.told = is_it.then_some(Told { effective: told, at_ms: now_ms });
                self.is_refused = false;
                self.telling.went_well();
            }
            Err(Trouble { kind: TroubleKind::Older(newest), .. }) => self.note_newest(newest),
            Err(Trouble { kind: kind @ (TroubleKind::Passes | TroubleKind::Refused), text }) => {
                self.is_refused = kind == TroubleKind::Refused;
                self.tell_later(now_ms);
                self.troubled(text);
            }
        }
        self.look_ms = now_ms;
    }

    pub(super) fn tell_later(&mut self, now_ms: u64) {
        self.told = None;
        self.telling.failed(now_ms, TELL_AGAIN_MS, TELL_AGAIN_AT_LAST_MS);
    }

    /// Somebody told it this.
    pub(super) fn note_newest(&mut self, newest: traffic::desired::Number) {
        if self.newest.is_none_or(|before| before < newest) {
            self.newest = Some(newest);
            self.say_superseded();
        }
    }

    fn say_superseded(&mut self) {
        if let (Some(by), Some(wanted)) = (self.superseded_by(), &self.wanted) {
            let wanted = wanted.number;
            self.say(RouterEvent::Superseded { by, wanted });
        }
    }

    /// Names lead elsewhere, or something else is wanted.
    pub(super) fn resolve_again(&mut self, now_ms: u64) {
        let Some(wanted) = &self.wanted else { return };
        let resolved = resolve(wanted, &self.answers, self.seen.as_deref());
        match &resolved {
            Ok(new) => {
                let before = self.resolved.as_ref().and_then(|before| before.as_ref().ok());
                let mut facts = before.map_or_else(Vec::new, |before| leaving(&before.wanted, &new.wanted));
                let known: &[_] = before.map_or(&[], |before| &before.stale);
                let stale = new.stale.iter().filter(|one| !known.contains(one)).cloned();
                facts.extend(stale.map(|stale| RouterEvent::Stale { stale: Box::new(stale) }));
                self.facts.append(&mut facts);
            }
            Err(unresolved) => self.troubled(unresolved.to_string()),
        }
        if resolved.is_err() {
            // What was resolved before belongs to something else that was wanted, or to names that are gone.
            self.effective = None;
        }
        self.resolved = Some(resolved);
        self.weigh(now_ms);
    }

    /// What was seen may tell what names lead to, and who has calls.
    pub(super) fn weigh_what_was_seen(&mut self, now_ms: u64) {
        let leans_on_it = |resolved: &Resolved| !resolved.stale.is_empty();
        if self.resolved.as_ref().is_some_and(|resolved| resolved.as_ref().map_or(true, leans_on_it)) {
            self.resolve_again(now_ms);
        } else {
            self.weigh(now_ms);
        }
    }

    /// What is known of targets changed, or what is wanted.
    pub(super) fn weigh(&mut self, now_ms: u64) {
        let Some(Ok(resolved)) = self.resolved.as_ref().filter(|_| self.may_tell()) else { return };
        let to_be = effective(&resolved.wanted, &self.health, self.seen.as_deref(), self.settings.grain);
        let to_be = self.hold_reloads(to_be, now_ms);
        let before = self.effective.replace(Arc::new(to_be));
        let Some(to_be) = self.effective.clone() else { return };
        let old = before.as_ref().map_or(&[][..], |before| &before.departures);
        let turned = turns(old, &to_be.departures).into_iter().map(|turn| RouterEvent::Turn { turn });
        self.facts.extend(turned);
        let is_told = self.told.as_ref().is_some_and(|told| told.effective.wanted == to_be.wanted);
        if !is_told && !matches!(self.stand, Stand::Held { .. }) {
            self.stand = Stand::Telling;
            self.told = None;
        }
    }

    /// The same without what is to wait for [`RELOAD_PAUSE_MS`].
    fn hold_reloads(&mut self, to_be: Effective, now_ms: u64) -> Effective {
        self.held_until_ms = None;
        let before = self.effective.clone();
        let Some(before) = before.filter(|before| before.wanted.number == to_be.wanted.number) else {
            return to_be;
        };
        let mut turned: BTreeSet<Name> = BTreeSet::new();
        let mut takes_away = false;
        for new in to_be.wanted.services() {
            let old = before.wanted.service(new.name.as_str());
            let Some(old) = old.filter(|old| self.is_turned(old, new)) else { continue };
            let (had, has) = (old.table.hundredths(), new.table.hundredths());
            takes_away |= had.iter().zip(&has).skip(1).any(|(had, has)| *had > 0 && *has == 0);
            turned.insert(new.name.clone());
        }
        if turned.is_empty() {
            return to_be;
        }
        let until_ms = self.reloaded_ms.map_or(0, |at_ms| at_ms + RELOAD_PAUSE_MS);
        if takes_away || now_ms >= until_ms {
            self.reloaded_ms = Some(now_ms);
            return to_be;
        }
        self.held_until_ms = Some(until_ms);
        to_be.keeping(&before, &turned)
    }

    /// Whether targets of a service turned so that its shares change, which takes a reload. Of one wanted state nothing else changes these.
    fn is_turned(&self, old: &Service, new: &Service) -> bool {
        let takes_reload = self.settings.reloads_for.contains(&new.protocol());
        takes_reload && old.table != new.table && old.variations == new.variations
    }
}

/// Targets of variations that were there before, and are not any more.
fn leaving(before: &DesiredConfig, after: &DesiredConfig) -> Vec<RouterEvent> {
    let mut facts = Vec::new();
    for service in after.services() {
        let Some(old) = before.service(service.name.as_str()).filter(|old| *old != service) else { continue };
        for variation in &service.variations {
            let there: BTreeSet<&Target> = variation.targets.iter().collect();
            let were = old.variations.iter().filter(|old| old.name == variation.name);
            let left = were.flat_map(|old| &old.targets).filter(|target| !there.contains(target));
            facts.extend(left.map(|target| RouterEvent::Leaving {
                service: service.name.clone(),
                variation: variation.name.clone(),
                target: target.clone(),
            }));
        }
    }
    facts
}
