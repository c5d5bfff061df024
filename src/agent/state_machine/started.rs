//! Variations of services that a runtime of this agent starts, in the place of targets that somebody else runs.
//!
//! The rule: such a variation is a version like those of functions. It is fetched with the offer, started before the offer is begun, and
//! where it listens is the variation's only target. A service has its versions by the names of its variations ([`LedService::started`]); what
//! is to run follows from that ([`LedService::versions`]), and so does what may be stopped.
//!
//! Invariants, each against what would go wrong without it:
//!
//! 1. *Where it listens is never kept in the service*, but asked each time what is known of it ([`LedService::placed`]). A runtime chooses
//!    the port, and after the machine was started anew it chooses another one, without any release: the table follows by itself.
//! 2. *A version is noted on disk before it is started.* An agent that was killed in between finds it by its digest, running or not, and
//!    waits for it as if it had started it now.
//! 3. *Its digest has the key of the service in it*, which no function can be called. So the same content runs once for a function, and once
//!    for each service that has it: neither drains or stops the other's. Within a service the same content is one version, also where it was
//!    the canary of one release and is the stable variation of the next one: what was adopted is never started anew.
//! 4. *What doesn't run gets no call.* Until it is there, its share is that of the stable variation (or of the one that serves); a service
//!    whose stable variation never ran is in no table, and the table of before is left in force until that was tried.
//! 5. *It is stopped once no table in force names it and nobody holds it*, under any of the names that it had as a variation, or the
//!    deadline for that has passed: the agent's, or that of its service (`drain`), whichever is later.
//! 6. *What rolls a release back starts nothing but the stable variation*, and that only where something of the release may be in force:
//!    a canary that can't be started must not keep its own rollback from being begun.
//! 7. *What can't be held to its limits isn't run.* A limit that the agent's settings have holds as far as it can; one that a release
//!    asks for holds, or the release ends with an error that says so.
//!
//! Not here: which content it is, and that its folder lies in the archive (`drive/effects.rs`), how it is run (`runtime/`).

use std::collections::{BTreeMap, BTreeSet};

use language::{Service, offer::Offer};
use proxy::live;
use traffic::desired::Variation;

use super::{LedService, Started, StateMachine, VariationNote, VersionNote, services::is_undo};
use crate::runtime::VersionId;

impl VersionNote {
    /// Of a variation that is to be started; `None`: it has targets.
    #[must_use]
    pub fn of_variation(service: &Service, variation: &Variation) -> Option<Self> {
        let run = service.runs.get(variation.name.as_str())?;
        let note = VariationNote {
            service: service.name().to_owned(),
            names: BTreeSet::from([variation.name.to_string()]),
            limits: run.limits,
            check: variation.health.as_ref().and_then(|health| health.path.as_deref()).map(str::to_owned),
            is_http: service.protocol().is_http() && !service.passes_tls(),
            drain_ms: service.drain.map(|drain| drain.as_millis() as u64),
        };
        let function = format!("{}-{}", service.name(), variation.name);
        Some(Self { function, runner: run.env.clone(), variation: Some(Box::new(note)) })
    }
}

impl LedService {
    /// Whether it is led by these variations of this content.
    pub(super) fn is_of(&self, service: &Service, started: &BTreeMap<String, VersionId>) -> bool {
        let has = |(name, version): (&String, &VersionId)| self.started.get(name) == Some(version);
        self.service.variations == service.variations && started.iter().all(has)
    }

    /// Versions that are to run for it: all while a release is in hand, and what served before that; then what serves.
    pub(super) fn versions(&self) -> Vec<&VersionId> {
        let alone = self.serving().filter(|_| !self.is_tried);
        let alone = alone.and_then(|at| self.service.variations.get(at)).map(|one| one.name.as_str());
        let own = self.started.iter().filter(|(name, _)| alone.is_none_or(|alone| alone == name.as_str()));
        let before = self.before.iter().flat_map(|before| before.versions());
        own.map(|(_, version)| version).chain(before).collect()
    }

    /// The same with targets for what was started, as far as it is known where that listens. `None`: what serves isn't there.
    pub(super) fn placed(&self, targets: &BTreeMap<VersionId, live::Target>) -> Option<Self> {
        let mut placed = self.clone();
        if self.started.is_empty() {
            return Some(placed);
        }
        let (alone, mut shares) = (self.serving().filter(|_| !self.is_tried), self.shares());
        let main = alone.unwrap_or(0);
        let address = |variation: &Variation| {
            let target = targets.get(self.started.get(variation.name.as_str())?)?;
            // A socket is no target of a service: it was refused when it was started.
            target.to_string().parse::<traffic::desired::Target>().ok()
        };
        let found: Vec<_> = self.service.variations.iter().map(address).collect();
        let of_main = match found.get(main)? {
            Some(target) => vec![target.clone()],
            None => self.service.variations.get(main)?.targets.clone(),
        };
        if of_main.is_empty() {
            return None;
        }
        for (at, (variation, found)) in placed.service.variations.iter_mut().zip(found).enumerate() {
            let is_started =
                self.started.contains_key(variation.name.as_str()) || variation.targets.is_empty();
            if let Some(target) = found.filter(|_| at == main || alone.is_none()) {
                variation.targets = vec![target];
            } else if is_started {
                variation.targets.clone_from(&of_main);
                let share = shares.get_mut(at).map(std::mem::take).unwrap_or_default();
                if let Some(main) = shares.get_mut(main) {
                    *main = main.saturating_add(share);
                }
            }
        }
        if shares != self.shares() {
            placed.share_out(&shares);
        }
        Some(placed)
    }
}

impl StateMachine {
    /// Services as they are led: variations that were started have the targets at which they listen.
    pub fn services(&self) -> impl Iterator<Item = LedService> {
        self.state.services.values().filter_map(|led| led.placed(&self.world.targets))
    }

    /// Which of the variations that an offer brings have to run before it is begun.
    pub(super) fn to_be_started(&self, mut all: Started) -> Started {
        let Some(Offer { id, services, stages, .. }) = &self.offer else { return all };
        for service in services.iter().filter(|_| is_undo(id, stages)) {
            // Of one that isn't known here something may be in force nevertheless.
            let is_known = self.state.services.contains_key(service.name());
            let is_led = !is_known || self.has_begun(id, service);
            let stable = service.variations.first().map(|one| one.name.as_str());
            if let Some(started) = all.get_mut(service.name()) {
                started.retain(|name, _| is_led && stable == Some(name.as_str()));
            }
        }
        all.retain(|_, started| !started.is_empty());
        all
    }

    /// Notes what came with an offer. What a version was called before, it may be held by still.
    pub(super) fn note_versions(&mut self, notes: BTreeMap<VersionId, VersionNote>) {
        for (version, mut note) in notes {
            let before = self.state.versions.get(&version).and_then(|known| known.variation.as_deref());
            if let (Some(now), Some(before)) = (note.variation.as_deref_mut(), before) {
                now.names.extend(before.names.iter().cloned());
            }
            self.state.failed.remove(&version);
            self.state.versions.insert(version, note);
        }
    }

    /// How long a version that is wanted no more may have calls, in milliseconds.
    pub(super) fn drain_ms(&self, version: &VersionId) -> u64 {
        let note = self.state.versions.get(version).and_then(|note| note.variation.as_deref());
        self.settings.drain_ms.max(note.and_then(|note| note.drain_ms).unwrap_or(0))
    }
}
