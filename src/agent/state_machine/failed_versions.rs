//! Versions that failed: before such a version is ended, what it wrote is kept for people (`drive/failed_logs.rs`).
//!
//! Each is noted when its stage has failed, or when it could not be started, and forgotten once it is ended, or belongs to an offer
//! again. So an agent that was killed in between keeps its log all the same.

use super::{FailedVersion, StateMachine, Work};
use crate::runtime::VersionId;

impl StateMachine {
    /// The versions that are tried in a stage of the offer in hand have failed there.
    pub(super) fn note_failed(&mut self, stage: usize, why: &str) {
        let tried = self.tried_in(stage);
        for (version, name) in tried {
            self.note_failed_version(version, stage, name, why);
        }
    }

    /// A version of the offer in hand could not be started.
    pub(super) fn note_unstarted(&mut self, version: &VersionId, why: &str) {
        let name = self.state.versions.get(version).map_or_else(String::new, |note| note.function.clone());
        self.note_failed_version(version.clone(), 0, name, why);
    }

    fn note_failed_version(&mut self, version: VersionId, stage: usize, name: String, why: &str) {
        let Some(offer) = self.state.work.as_ref().map(|work| work.offer.clone()) else { return };
        // What isn't noted is never ended, and would be in here for ever.
        if !self.state.versions.contains_key(&version) {
            return;
        }
        let stage = self.stage_name(stage).unwrap_or_default().to_owned();
        let failed = FailedVersion { offer, stage, name, why: why.to_owned() };
        self.state.failed.insert(version, failed);
        self.dirty();
    }

    /// What runtimes of this agent run of the versions that are tried in a stage, each with what people call it.
    fn tried_in(&self, stage: usize) -> Vec<(VersionId, String)> {
        let plan = self.state.work.as_ref().and_then(Work::plan);
        let (Some(offer), Some(plan)) = (&self.offer, plan) else { return Vec::new() };
        let Some(stage) = offer.stages.get(stage).map(|of| &of.stage) else { return Vec::new() };
        let function = offer.functions.get(stage.subject).zip(plan.versions.get(stage.subject));
        if let Some((function, [_, new])) = function {
            return vec![(new.clone(), function.new.path.clone())];
        }
        let Some(service) = offer.services.get(stage.subject) else { return Vec::new() };
        let Some(started) = plan.started.get(service.name()) else { return Vec::new() };
        let tried = stage.tried().into_iter();
        let names = tried.filter_map(|at| Some(service.variations.get(at)?.name.to_string()));
        names.filter_map(|name| Some((started.get(&name)?.clone(), name))).collect()
    }
}
