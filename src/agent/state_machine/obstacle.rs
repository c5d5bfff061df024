//! What a person has to look at before a release goes on: it is no failure of the new version, so nothing is taken back for it. The
//! manager is told at once, in a report of how the stage goes, and pauses the release; the stage goes on meanwhile, for a stage of a
//! release that is led in place ends by the manager's signal alone. Without a manager to be reached it waits for that, too. Who resumes
//! the release has seen it: it is told once a stage.

use protocol::{StageSummary, child::Why};

use super::{Act, Now, State, StateMachine, Testing, stages::ALPHA};

/// What is told the manager as its cause.
const CAUSE: &str = "obstacle";

impl Testing {
    /// What the manager is to be told of yet.
    pub(super) fn untold(&self) -> Option<&str> {
        self.obstacle.as_deref().filter(|_| !self.told)
    }

    /// A summary that says it.
    pub(super) fn with_obstacle(&self, summary: StageSummary) -> StageSummary {
        let why = |text: &str| Why { cause: CAUSE.to_owned(), text: text.to_owned(), ..Why::default() };
        let why = self.untold().map(|text| why(text).fitted());
        StageSummary { why, ..summary }
    }
}

impl StateMachine {
    /// Whether the calls of the stage in hand are shared out as they should be.
    pub(super) fn look_at_split(&mut self, now: Now) {
        let alpha = self.offer.as_ref().and_then(|offer| offer.alpha).unwrap_or(ALPHA);
        let tells_in_flight = self.settings.abilities.empties_within_ms.is_none();
        let Some(testing) = self.testing().filter(|testing| testing.obstacle.is_none()) else { return };
        let led = self.state.services.get(testing.counts.service());
        let is_sticky = led.is_some_and(|led| led.service.sticky.is_some());
        if is_sticky && !testing.counts.knows_users() {
            // Users were drawn, and some of them before this stage: the number of their calls says nothing of how.
            return;
        }
        let mismatch = testing.counts.mismatch(alpha, testing.elapsed_ms, tells_in_flight);
        if let Some(mismatch) = mismatch {
            let text = format!("{}: {mismatch}", testing.counts.service());
            self.meet(&text, now);
        }
    }

    /// Something that a person has to look at. The first of a stage counts.
    pub(super) fn meet(&mut self, obstacle: &str, now: Now) {
        let Some(testing) = self.testing_mut().filter(|testing| testing.obstacle.is_none()) else { return };
        testing.obstacle = Some(obstacle.to_owned());
        self.world.met_ms = now.ms;
        self.warn(format!("the release is to be paused: {obstacle}"));
        self.dirty();
    }

    /// A report that was sent then was answered: it told what was met before.
    pub(super) fn told_at(&mut self, act: &Act, sent_ms: u64) {
        let met_ms = self.world.met_ms;
        let Some(run) = self.state.work.as_ref().map(|work| work.run) else { return };
        let Some(testing) = self.testing_mut() else { return };
        let is_it = *act == Act::Report { run, stage: testing.stage };
        if is_it && testing.untold().is_some() && sent_ms > met_ms {
            testing.told = true;
            self.dirty();
        }
    }
}

impl State {
    /// What stands in the way of the release in hand, if anything does.
    #[must_use]
    pub fn obstacle(&self) -> Option<&str> {
        self.work.as_ref()?.walk()?.testing.as_ref()?.obstacle.as_deref()
    }
}
