//! What changes of a release's life touch, and whom its end is told.

use super::Touched;
use crate::{
    audit::{self, Actor},
    effect::Entry,
    end_notification::ended,
    json_columns::Times,
    principals::Principal,
};
use ab_releases::{Kind, Recorded, Uuid, tenant_of};
use domain::release::{
    lifecycle::{Adoption, Change, Submission},
    state::{End, State},
};
use model::{Now, ReleaseKey};
use store::rows::{PrecedentRow, RegisteredRow, ServiceReleaseRow, WallMs};

impl Touched {
    pub(super) fn note_lifecycle(&mut self, state: &State, change: &Change, actor: &Actor, now: Now) {
        match change {
            Change::Started { release, .. } => {
                self.started.insert(*release);
                self.again(state, *release);
                self.releases.extend(state.find(*release).into_iter().flat_map(|r| &r.overtakes.overtook));
                self.touch_whole(*release);
            }
            Change::Ended { release, end, .. } => {
                self.touch_whole(*release);
                self.runs_of(state, *release);
                if *end == End::Done {
                    self.precede(state, *release, Some(now.wall_ms), now);
                    self.adopt(state, *release, actor, now);
                }
            }
            // To resume is to accept verdicts.
            Change::Resumed { release, .. } => {
                self.touch_whole(*release);
                self.runs_of(state, *release);
            }
            Change::Aborted { release, .. } => {
                self.touch_whole(*release);
                self.precede(state, *release, None, now);
            }
            Change::Paused { release, .. }
            | Change::Retried { release, .. }
            | Change::RoutersBack { release, .. } => self.touch_whole(*release),
            Change::Submitted { release, submitted, .. } => {
                self.releases.insert(*release);
                self.record_service(*release, submitted, actor, now);
            }
            Change::Replanned { release, .. }
            | Change::FaultNoted { release, .. }
            | Change::ActedOn { release } => {
                self.releases.insert(*release);
            }
            Change::Removed { release, id } => {
                self.removed.insert(*release, id.clone());
            }
        }
    }

    pub(super) fn lifecycle_effects(&mut self, state: &State, change: &Change, webhooks: &[String]) {
        match change {
            Change::Ended { release, .. } => {
                let Some(release) = state.find(*release) else { return };
                for url in webhooks {
                    match ended(url, release) {
                        Ok(webhook) => self.effect(&Entry::Webhook(webhook)),
                        Err(error) => self.unwritable = Some(error),
                    }
                }
            }
            Change::Started { .. }
            | Change::Resumed { .. }
            | Change::Aborted { .. }
            | Change::Paused { .. }
            | Change::Retried { .. }
            | Change::ActedOn { .. }
            | Change::RoutersBack { .. }
            | Change::Submitted { .. }
            | Change::Replanned { .. }
            | Change::FaultNoted { .. }
            | Change::Removed { .. } => {}
        }
    }

    /// Writes down what of a release of a service can't change any more.
    fn record_service(&mut self, key: ReleaseKey, submitted: &Submission, actor: &Actor, now: Now) {
        let tenant = tenant_of(submitted.id.as_str());
        let Some(recorded) = Recorded::of(&submitted.strategy, &submitted.text, tenant) else { return };
        let Some(form) = self.json(&recorded) else { return };
        let by = match actor {
            Actor::Operator(name) => Some(name.clone()),
            Actor::Child | Actor::Timer | Actor::Analysis | Actor::Parent | Actor::Redis => None,
        };
        let row = ServiceReleaseRow {
            release_key: key.0,
            id: Uuid::of(Kind::Release, &[tenant, submitted.id.as_str()]).to_string(),
            tenant: tenant.to_owned(),
            tenant_id: Uuid::of(Kind::Tenant, &[tenant]).to_string(),
            environment_id: Uuid::of(Kind::Environment, &[tenant, &recorded.environment]).to_string(),
            environment: recorded.environment,
            actor_id: by.as_deref().map(|by| Uuid::of(Kind::User, &[tenant, by]).to_string()),
            actor: by,
            form,
        };
        self.named.note(Principal::acting(tenant, actor), now.wall_ms);
        self.service_releases.insert(key, row);
    }

    /// Registers what a release that has ended well adopts, in the commit of its end.
    fn adopt(&mut self, state: &State, key: ReleaseKey, actor: &Actor, now: Now) {
        let Some(release) = state.find(key) else { return };
        let Some(Adoption { kind, name, id, detail }) = release.adopts.as_deref() else { return };
        match audit::registered(kind, name, false, None) {
            Ok(event) => self.event(actor, event),
            Err(error) => self.unwritable = Some(error),
        }
        let tenant = tenant_of(release.id.as_str());
        self.named.note(Principal::acting(tenant, actor), now.wall_ms);
        self.register(RegisteredRow {
            tenant: tenant.to_owned(),
            kind: kind.clone(),
            name: name.clone(),
            id: id.clone(),
            detail: detail.clone(),
            at_ms: now.wall_ms,
            actor: None,
            removed_ms: None,
        });
    }

    /// The row of the release is written, and all of its members may have moved.
    pub(super) fn touch_whole(&mut self, release: ReleaseKey) {
        self.releases.insert(release);
        self.whole.insert(release);
    }

    /// A release that is planned once more has rows of those who had a part in it before.
    fn again(&mut self, state: &State, key: ReleaseKey) {
        let Some(release) = state.find(key) else { return };
        let had = release.assignments.iter().filter(|(_, part)| part.attempt > 1 || part.outcome.is_some());
        self.assignments.extend(had.map(|(child, _)| (key, *child)));
    }

    fn runs_of(&mut self, state: &State, key: ReleaseKey) {
        let runs = state.find(key).into_iter().flat_map(|found| found.runs.iter());
        self.runs.extend(runs.map(|run| (key, run.block)));
    }

    /// Keeps when the stages of a release were; without an end it is nothing to be compared with.
    fn precede(&mut self, state: &State, key: ReleaseKey, ended_ms: Option<WallMs>, now: Now) {
        let Some(release) = state.find(key).filter(|release| release.participants() > 0) else { return };
        for (at, subject) in release.strategy.subject_keys().enumerate() {
            let Some(times) = self.json(&Times(release.times_of(at, now.wall_ms))) else { return };
            let function = release.strategy.history_key(subject);
            let row = PrecedentRow {
                function: function.clone(),
                release_key: key.0,
                id: release.id.to_string(),
                ended_ms,
                times,
            };
            self.precedents.insert((function, key), row);
        }
    }
}
