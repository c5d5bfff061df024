//! What is served beside releases: versions that operators added, and those that are kept for a while.

use super::{Function, Now, StateMachine, state::Adding};
use crate::runtime::VersionId;

impl StateMachine {
    /// Versions that operators added serve as soon as they run.
    pub(super) fn serve_added(&mut self) {
        let Some(running) = &self.world.running else { return };
        let ready = self.state.adding.iter().filter(|(_, adding)| running.contains(&adding.version));
        let ready: Vec<(String, Adding)> =
            ready.map(|(name, adding)| (name.clone(), adding.clone())).collect();
        for (name, Adding { version, routing }) in ready {
            self.state.adding.remove(&name);
            self.inform(format!("{name} is served by the version that was added"));
            let keep = self.settings.keep_base_ms;
            match self.state.functions.get_mut(&name) {
                Some(function) => {
                    let is_other = function.stable != version;
                    function.replace(version, keep);
                    function.routing = routing;
                    if is_other {
                        self.tell_serving(&name, "an operator of the agent has another version served");
                    }
                }
                None => drop(self.state.functions.insert(name, Function::serving(version, routing))),
            }
            self.dirty();
        }
    }

    /// Versions that were replaced long ago run no longer.
    pub(super) fn end_keeping(&mut self, now: Now) {
        let since = std::mem::take(&mut self.kept_since);
        let mut is_over = false;
        for (name, function) in &mut self.state.functions {
            let Some(kept) = &function.kept else { continue };
            let from = since.get(name).copied().unwrap_or(now.ms);
            if now.ms.saturating_sub(from) >= kept.for_ms {
                function.kept = None;
                is_over = true;
            } else {
                self.kept_since.insert(name.clone(), from);
            }
        }
        self.is_dirty |= is_over;
    }
}

impl Function {
    /// Another version serves; the one before is kept for so long.
    pub(super) fn replace(&mut self, version: VersionId, keep_ms: u64) {
        if self.stable != version {
            let before = std::mem::replace(&mut self.stable, version);
            self.kept = Some(super::Kept { version: before, for_ms: keep_ms });
        }
    }
}
