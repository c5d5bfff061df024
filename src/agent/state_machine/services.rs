//! Services: their variations run elsewhere, or are started here ([`super::started`]); their calls are led here.
//!
//! A service that a release brought stays: what the release ended with is what serves until the next one, which has to begin with it.
//! Where its strategy wants it (`at_rollback: retire`), one that came with the release goes with its rollback: it is let go once it is
//! drained, or the deadline for that has passed. Only the manager or the strategy rolls a release back so: what an agent gives back by
//! itself (what is to take over doesn't answer, the proxy refuses its shares, an operator wants it) serves on from the stable variation,
//! since the manager may yet go on with the release. What was led before stays, and so does what may have been: an agent that lost its memory
//! can't tell, and a call too many to the stable variation is better than one that goes nowhere.
//!
//! Stages that begin together share their services out by one table, from the first of them on: nobody is ever served by the new share of one and
//! the old one of another. The state machine walks through them all the same, for each is reported; only the last is waited for and judged.
//! What becomes of the release becomes of all its services, by one table as well.
//!
//! While a release is in hand all variations are in the table, also those without a share, so that it is known when the last call
//! of one has ended; afterwards only the one that serves is.

use std::{collections::BTreeMap, ops::RangeInclusive};

use call_metrics::InFlight;
use language::{
    Action, AtRollback, Base, Service, Stage,
    offer::{Offer, OfferStage},
};
use traffic::{BUCKETS, desired::Target};

use super::{StateMachine, managed_service::LedService};
use crate::runtime::VersionId;

/// What names the content of a variation: nobody here knows more of it than where it is.
fn version_of(targets: &[Target]) -> String {
    targets.iter().map(Target::to_string).collect::<Vec<_>>().join(" ")
}

impl StateMachine {
    /// The services of the offer in hand are led from now on, as they were or by their stable variations.
    ///
    /// # Errors
    ///
    /// What keeps the offer from being begun, for people.
    pub(super) fn begin_services(&mut self) -> Result<(), String> {
        let Some(Offer { id, services, stages, .. }) = &self.offer else { return Ok(()) };
        let plan = self.state.work.as_ref().and_then(|work| work.plan());
        let all_started = plan.map(|plan| plan.started.clone()).unwrap_or_default();
        let started_of = |service: &Service| all_started.get(service.name()).cloned().unwrap_or_default();
        for service in services {
            service.check().map_err(|error| error.to_string())?;
            if let Some(led) = self.state.services.get(service.name())
                && !is_undo(id, stages)
                && service.base == Base::Serving
            {
                check_stable(led, service, &started_of(service))?;
            }
        }
        for service in services {
            let name = service.name().to_owned();
            if is_undo(id, stages) && !self.has_begun(id, service) {
                // What is to be rolled back never came into force here, or something later did: it is left out.
                continue;
            }
            let (known, started) = (self.state.services.remove(&name), started_of(service));
            let came_with = self.came_with(known.as_ref(), service, id);
            let goes_on = known.clone().filter(|led| led.is_of(service, &started));
            let mut led = goes_on.unwrap_or_else(|| LedService::new(service.clone(), id));
            if is_undo(id, stages) {
                // What gets no call any more isn't started for that.
                let shares: BTreeMap<&str, u16> =
                    service.variations.iter().map(|one| one.name.as_str()).zip(led.shares()).collect();
                led.started.retain(|name, _| shares.get(name.as_str()).is_some_and(|share| *share > 0));
            }
            led.started.extend(started);
            led.service = service.clone();
            led.offer.clone_from(id);
            led.stage = None;
            led.is_tried = true;
            led.asks_for_health = asks_for_health(stages);
            led.came_with = came_with;
            led.before = known.map(Box::new);
            self.state.services.insert(name, led);
        }
        Ok(())
    }

    /// Whether anything of a release that is rolled back by this offer may be in force for a service. Of one that isn't known here
    /// that is read back: who knew of it may have lost its memory.
    pub(super) fn has_begun(&self, offer: &str, service: &Service) -> bool {
        match self.state.services.get(service.name()) {
            Some(led) => led.service.variations == service.variations && is_of_one_release(&led.offer, offer),
            None => self.world.read_back.contains(service.name()),
        }
    }

    /// The offer with which a service came that is to go with its rollback; `None`: it stays. `known`: what was led before this offer.
    fn came_with(&self, known: Option<&LedService>, service: &Service, offer: &str) -> Option<String> {
        let name = service.name();
        let is_in_force = || self.world.read_back.contains(name) && !self.state.withdrawn.contains(name);
        match known {
            _ if service.at_rollback == AtRollback::Keep => None,
            Some(led) => led.came_with.clone().filter(|came| release_of(came) == release_of(offer)),
            None if is_in_force() => None,
            None => Some(offer.to_owned()),
        }
    }

    /// Whether it has to be read back what is in force before the offer in hand is begun: it rolls back what isn't led here, and nothing
    /// of that may be in force; or what it brings is to go with its rollback, and may be led by a table that is forgotten.
    pub(super) fn waits_for_read_back(&self) -> bool {
        let Some(Offer { id, services, stages, .. }) = &self.offer else { return false };
        let (is_undo, is_unread) = (is_undo(id, stages), self.world.in_force.is_none());
        let is_unknown = |service: &&Service| !self.state.services.contains_key(service.name());
        services.iter().filter(is_unknown).any(|service| {
            let is_withdrawn = self.state.withdrawn.contains(service.name());
            let is_to_go = service.at_rollback == AtRollback::Retire;
            if is_undo { is_unread || is_withdrawn } else { is_unread && is_to_go && !is_withdrawn }
        })
    }

    /// What a stage that begins gives the variations of a service. One that is passed over on the way to a chosen winner moves nobody:
    /// its shares may be those of another.
    pub(super) fn shares_in(&self, name: &str, stage: &Stage) -> Vec<u16> {
        let work = self.state.work.as_ref().filter(|work| work.winner.is_some());
        let is_passed_over = work.is_some_and(|work| work.skipped.contains(&stage.name));
        let led = self.state.services.get(name).filter(|_| is_passed_over);
        led.map_or_else(|| stage.shares.clone(), LedService::shares)
    }

    /// Shares a service's calls out as a stage says.
    pub(super) fn share_service(&mut self, name: &str, shares: &[u16], split: &str, salt: &str) {
        let Some(offer) = &self.offer else { return };
        let led = self.state.services.get_mut(name).filter(|led| led.offer == offer.id);
        let Some(led) = led else { return };
        led.share_out(shares);
        led.is_decided = is_undo(&offer.id, &offer.stages);
        split.clone_into(&mut led.split);
        led.salt = match led.service.salt {
            language::Salt::Release => salt.to_owned(),
            language::Salt::Service => name.to_owned(),
        };
    }

    /// Shares out what begins together with a stage that begins, by the same table. `split`: what these shares are called until their own
    /// stages begin.
    pub(super) fn share_those_behind(&mut self, stage: usize, split: &str) {
        let Some(offer) = &self.offer else { return };
        let last = *together(offer, stage).end();
        let behind = offer.stages.iter().take(last + 1).skip(stage + 1).filter_map(|of| {
            let name = offer.services.get(of.stage.subject)?.name();
            Some((name.to_owned(), self.shares_in(name, &of.stage)))
        });
        let (behind, salt) = (behind.collect::<Vec<_>>(), offer.salt.clone());
        for (name, shares) in behind {
            self.share_service(&name, &shares, split, &salt);
        }
    }

    /// Takes in which shares the manager chose for stages of the offer in hand. The stage that is tested takes them in place, with those that
    /// have begun together with it: it goes on, with what it has counted, and the calls move that the change moves. One that has failed and
    /// keeps its shares keeps these.
    pub(super) fn take_shares(&mut self, told: BTreeMap<String, u16>) {
        let Some(work) = &mut self.state.work else { return };
        let before = work.shares.clone();
        work.shares.extend(told);
        if work.shares == before {
            return;
        }
        let chosen = work.shares.clone();
        self.share_as_chosen();
        self.dirty();
        let (Some(offer), Some(testing)) = (&self.offer, self.testing()) else { return };
        if testing.kept.is_some() {
            return;
        }
        let (id, salt, tested) = (offer.id.clone(), offer.salt.clone(), testing.stage);
        let changed = together(offer, tested).filter_map(|at| {
            let stage = &offer.stages.get(at)?.stage;
            let name = offer.services.get(stage.subject)?.name().to_owned();
            (chosen.get(&stage.name) != before.get(&stage.name)).then(|| (at, name, stage.clone()))
        });
        for (at, name, stage) in changed.collect::<Vec<_>>() {
            // What these shares are called stays: nothing begins by them.
            let split = self.state.services.get(&name).map(|led| led.split.clone()).unwrap_or_default();
            let shares = self.shares_in(&name, &stage);
            self.share_service(&name, &shares, &split, &salt);
            if let Some(testing) = self.testing_mut().filter(|_| at == tested) {
                testing.counts.go_on_in(&stage);
            }
            self.inform(format!(
                "stage {} of {id}: {} % of {name} from now on",
                stage.name, stage.new_traffic
            ));
        }
    }

    /// Has the stages of the offer in hand say what was chosen instead of what they said.
    pub(super) fn share_as_chosen(&mut self) {
        let (Some(offer), Some(work)) = (&mut self.offer, &self.state.work) else { return };
        for of in &mut offer.stages {
            let chosen = work.shares.get(&of.stage.name);
            if let Some(shared) = chosen.and_then(|new| of.stage.with_share(*new)) {
                of.stage = shared;
            }
        }
    }

    /// Gives all calls of the offer's services to those that have won, or back to the stable ones. They stay in the table until
    /// the release is over.
    pub(super) fn decide_services(&mut self, is_rollout: bool) {
        let chosen = self.state.work.as_ref().and_then(|work| work.winner.clone());
        for name in self.names_of_services() {
            if let Some(led) = self.state.services.get_mut(&name) {
                let winner = if is_rollout { led.winner(chosen.as_deref()) } else { 0 };
                led.give_all_to(winner);
                led.is_decided = true;
            }
        }
    }

    /// What the calls are shared out by from now on is called so in counts. So what follows a stage is another table, also where the
    /// stage gave the winner all calls already.
    pub(super) fn split_services(&mut self, split: &str) {
        for name in self.names_of_services() {
            if let Some(led) = self.state.services.get_mut(&name) {
                split.clone_into(&mut led.split);
            }
        }
    }

    /// The release is over: who serves alone is alone in the table, and what came with a release that was rolled back is in none.
    /// `is_rollback`: by the manager, or as its strategy says.
    pub(super) fn end_services(&mut self, is_rollback: bool) {
        for name in self.names_of_services() {
            let stage = self.offer.as_ref().and_then(|offer| {
                let is_of = |of: &&OfferStage| {
                    offer.services.get(of.stage.subject).is_some_and(|of| of.name() == name)
                };
                Some(offer.stages.iter().rev().find(is_of)?.stage.name.clone())
            });
            let is_to_go = |led: &LedService| led.came_with.is_some() && led.serving() == Some(0);
            if is_rollback && self.state.services.get(&name).is_some_and(is_to_go) {
                self.let_service_go(&name);
                self.inform(format!("{name} is led no more, as before the release that brought it"));
            } else if let Some(led) = self.state.services.get_mut(&name) {
                led.stage = stage;
                led.is_tried = false;
                led.is_decided = false;
                led.asks_for_health = false;
                led.before = None;
            }
        }
    }

    /// Leads a service no more. It may be in force until a table without it was read back.
    pub(super) fn let_service_go(&mut self, name: &str) -> Option<LedService> {
        let led = self.state.services.remove(name)?;
        self.state.withdrawn.insert(name.to_owned());
        self.dirty();
        Some(led)
    }

    /// Variations of the offer's services that have no share now, each by both names.
    pub(super) fn without_share(&self) -> Vec<(String, String)> {
        let led = self.names_of_services().into_iter().filter_map(|name| self.state.services.get(&name));
        let variations = led.flat_map(|led| {
            let each = led.service.variations.iter().zip(led.shares());
            each.filter(|(_, share)| *share == 0)
                .map(|(one, _)| (led.service.name().to_owned(), one.name.to_string()))
        });
        variations.collect()
    }

    /// Of calls in flight those of variations of the offer's services, other than the stable ones, that have no share any more.
    pub(super) fn left_in_flight(&self, in_flight: &[InFlight]) -> u64 {
        let left = in_flight.iter().filter(|of| {
            let led = self.state.services.get(&of.service).filter(|led| self.is_in_hand(led));
            led.is_some_and(|led| {
                let mut beside = led.service.variations.iter().zip(led.shares()).skip(1);
                beside.any(|(one, share)| share == 0 && one.name.as_str() == of.variation)
            })
        });
        left.map(|of| u64::from(of.calls)).sum()
    }

    /// Whether the offer in hand leads a service.
    fn is_in_hand(&self, led: &LedService) -> bool {
        self.offer.as_ref().is_some_and(|offer| led.offer == offer.id)
    }

    /// Variations of the offer's services, other than the stable ones, that have all calls, each by both names.
    pub(super) fn winners(&self) -> Vec<(String, String)> {
        let led = self.names_of_services().into_iter().filter_map(|name| self.state.services.get(&name));
        let winner = |led: &LedService| {
            let winner = led.service.variations.get(led.serving().filter(|serving| *serving > 0)?)?;
            Some((led.service.name().to_owned(), winner.name.to_string()))
        };
        led.filter_map(winner).collect()
    }

    /// Those that the offer in hand leads.
    fn names_of_services(&self) -> Vec<String> {
        let Some(offer) = &self.offer else { return Vec::new() };
        let is_led = |name: &&str| self.state.services.get(*name).is_some_and(|led| led.offer == offer.id);
        offer.services.iter().map(Service::name).filter(is_led).map(str::to_owned).collect()
    }

    /// The proxy refused a table. Where none of the offer in hand was in force yet, its services are led as they were before, and
    /// those that were not led then are let go.
    pub(super) fn services_were_refused(&mut self) -> bool {
        let is_first = self.state.work.as_ref().is_some_and(|work| work.begun == 1);
        // What may be in force is rolled back until that is read back, however often it is refused.
        let is_rollback = self.offer.as_ref().is_some_and(|offer| is_undo(&offer.id, &offer.stages));
        if is_rollback || !is_first || self.testing().is_none_or(|testing| testing.elapsed_ms > 0) {
            return false;
        }
        let names = self.names_of_services();
        if !names.is_empty() {
            // Of functions beside them nothing is tried any more either.
            self.settle_roles(false);
        }
        for name in &names {
            let led = self.state.services.remove(name);
            match led.and_then(|led| led.before) {
                Some(before) => drop(self.state.services.insert(name.clone(), *before)),
                None => drop(self.state.withdrawn.insert(name.clone())),
            }
        }
        !names.is_empty()
    }

    pub(super) fn led(&self) -> impl Iterator<Item = LedService> {
        self.services().map(|led| led.bare())
    }
}

/// The places of the stages of an offer that begin together with one.
fn together(offer: &Offer, stage: usize) -> RangeInclusive<usize> {
    language::together(stage, |at| offer.stages.get(at).is_some_and(|of| of.stage.with_next))
}

/// Whether a stage asks how many targets of a service are healthy.
fn asks_for_health(stages: &[OfferStage]) -> bool {
    stages.iter().any(|of| of.stage.healthy_targets.is_some_and(|least| least > 0))
}

/// Whether an offer only gives everything back to the stable variations. A release may have such stages as well: it is called otherwise.
pub(super) fn is_undo(offer: &str, stages: &[OfferStage]) -> bool {
    let gives_back = |of: &OfferStage| {
        of.stage.shares.first() == Some(&BUCKETS) && of.stage.on_success == Action::Rollback
    };
    offer.contains(UNDO) && stages.iter().all(gives_back)
}

/// What stands behind the name of a release, in that of the offer to roll it back.
const UNDO: &str = ".undo";

/// Whether a service that came from one offer may be rolled back by another, which is called like its release with `.undo` behind.
fn is_of_one_release(offer: &str, undo: &str) -> bool {
    let Some((release, _)) = undo.rsplit_once(UNDO) else { return true };
    let rest = offer.strip_prefix(release);
    offer.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The release that an offer to an agent that leads services belongs to: what stands behind its name says that the offer rolls it back, or
/// which attempt it is.
fn release_of(offer: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((release, rest)) = offer.rsplit_once(UNDO)
        && (rest.is_empty() || rest.strip_prefix('.').is_some_and(is_number))
    {
        return release;
    }
    match offer.rsplit_once(".r") {
        Some((release, attempt)) if is_number(attempt) => release,
        _ => offer,
    }
}

/// A release begins with what serves now; one that goes on with the same variations is about the release that brought them.
fn check_stable(
    led: &LedService,
    service: &Service,
    started: &BTreeMap<String, VersionId>,
) -> Result<(), String> {
    if led.is_of(service, started) {
        return Ok(());
    }
    let serving = led.serving().and_then(|at| led.service.variations.get(at));
    let (Some(serving), Some(stable)) = (serving, service.variations.first()) else { return Ok(()) };
    let in_order = |targets: &[Target]| {
        let mut targets = targets.to_vec();
        targets.sort_unstable();
        targets
    };
    let (of_serving, of_stable) = (led.started.get(serving.name.as_str()), started.get(stable.name.as_str()));
    let is_same = match (of_serving, of_stable) {
        (None, None) => in_order(&serving.targets) == in_order(&stable.targets),
        (serving, stable) => serving == stable,
    };
    if is_same {
        return Ok(());
    }
    let place = |targets: &[Target], version: Option<&VersionId>| match version {
        Some(version) => format!("with the content {}", version.short()),
        None => format!("at {}", version_of(targets)),
    };
    Err(format!(
        "the stable variation of {} is {} {}, and what serves now is {} {}",
        service.name(),
        stable.name,
        place(&stable.targets, of_stable),
        serving.name,
        place(&serving.targets, of_serving)
    ))
}
