//! How many targets of the variations that are tried have to be healthy: `healthy_targets:` of a stage.
//!
//! It is held here, by whoever leads the calls, and nowhere else: the checks are made beside the router, so that nothing has to be told
//! for it; it is looked at whenever calls are counted, five times a second, and not when a report happens to come; and it holds while
//! the manager is away. The manager gets what follows: a stage that has failed, of which `on_failure` says what becomes of the release,
//! or something that a person has to look at, for which it pauses.
//!
//! | of each variation beside the stable one that gets calls | |
//! |---|---|
//! | too few are healthy, also if all that are not known yet turn out to be | the stage has failed, at once |
//! | as many as it takes are | the stage may end |
//! | neither, or nobody looks | the stage goes on; nothing known is never taken for healthy, and after half a minute it is an obstacle |

use std::collections::BTreeMap;

use model::duration::show_millis;

use super::{Now, StateMachine, stages::Outcome};

/// Parts of 0.01 % that all are.
const WHOLE: u64 = 10_000;

/// For how long targets may be unknown after a stage has all else that it needs.
const UNKNOWN_MS: u64 = 30_000;

/// What the checks of a variation's targets have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetsSeen {
    pub healthy: u32,
    pub unhealthy: u32,
    /// Not looked at often enough yet.
    pub unknown: u32,
}

/// What is known of a stage's targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StageHealth {
    Enough,
    /// Why.
    TooFew(String),
    Unknown(String),
}

impl TargetsSeen {
    fn total(self) -> u64 {
        u64::from(self.healthy) + u64::from(self.unhealthy) + u64::from(self.unknown)
    }

    /// `least`: units of 0.01 %.
    fn judge(self, least: u16) -> Option<bool> {
        let needed = u64::from(least) * self.total();
        let is_enough = |healthy: u64| self.total() > 0 && healthy * WHOLE >= needed;
        if is_enough(u64::from(self.healthy)) {
            return Some(true);
        }
        let may_be = is_enough(u64::from(self.healthy) + u64::from(self.unknown));
        (!may_be && self.total() > 0).then_some(false)
    }
}

impl StateMachine {
    /// Takes in what is known now of the targets of variations, each by both names; those that nobody looks at are left out.
    pub fn note_targets(&mut self, targets: BTreeMap<(String, String), TargetsSeen>) {
        self.world.of_targets = targets;
    }

    /// What is known of the targets that are tried in the stage in hand; enough where it doesn't ask.
    pub(super) fn stage_health(&self) -> StageHealth {
        let stage = self.testing().and_then(|testing| Some((testing, self.offer.as_ref()?)));
        let Some((testing, offer)) = stage else { return StageHealth::Enough };
        let Some(stage) = offer.stages.get(testing.stage).map(|of| &of.stage) else {
            return StageHealth::Enough;
        };
        let Some(least) = stage.healthy_targets.filter(|least| *least > 0 && stage.new_traffic > 0) else {
            return StageHealth::Enough;
        };
        let (service, percent) = (testing.counts.service(), f64::from(least) / 100.0);
        let mut found = StageHealth::Enough;
        for which in stage.tried() {
            let Some(name) = testing.counts.names().get(which) else { continue };
            let seen = self.world.of_targets.get(&(service.to_owned(), name.clone())).copied();
            let TargetsSeen { healthy, unknown, .. } = seen.unwrap_or_default();
            let total = seen.unwrap_or_default().total();
            let of = format!("of {total} targets of {name} of {service} {healthy} are healthy");
            match seen.and_then(|seen| seen.judge(least)) {
                Some(true) => {}
                Some(false) => {
                    return StageHealth::TooFew(format!("{of}, demanded are {percent} %"));
                }
                None if seen.is_none() => {
                    let why = format!("nobody looks whether targets of {name} of {service} are there");
                    found = StageHealth::Unknown(format!("{why}, demanded are {percent} %"));
                }
                None => {
                    let why = format!("{of} and {unknown} unknown, demanded are {percent} %");
                    found = StageHealth::Unknown(why);
                }
            }
        }
        found
    }

    /// Ends a stage of which too few targets are healthy.
    pub(super) fn look_at_health(&mut self, now: Now) {
        if !self.is_in_force() {
            return;
        }
        if let StageHealth::TooFew(why) = self.stage_health() {
            self.end_stage(Outcome::Unhealthy(why), now);
        }
    }

    /// A stage that has all else that it needs: whether its targets are healthy as well.
    pub(super) fn has_health(&mut self, now: Now) -> bool {
        let StageHealth::Unknown(why) = self.stage_health() else { return true };
        let since_ms = *self.world.unknown_since_ms.get_or_insert(now.ms);
        if now.ms.saturating_sub(since_ms) >= UNKNOWN_MS {
            self.meet(&format!("for {} now: {why}", show_millis(UNKNOWN_MS)), now);
        }
        false
    }
}
