//! The runtime below an own agent: versions start slowly, may never be healthy, die and come back. It outlives the agent.

use std::collections::BTreeMap;

use agent::runtime::{Phase, Running, VersionId};
use proxy::live::Target;

use super::super::dice::Dice;

const START_MS: (u64, u64) = (50, 3_000);
/// Where content has to be unpacked, or a language is slow.
const LONG_START_MS: (u64, u64) = (5_000, 25_000);
const LONG_START_CHANCE: f64 = 0.1;

/// How a version does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    Good,
    /// It never becomes healthy.
    NeverHealthy,
    /// Every call of it fails.
    Bad,
    /// Some calls fail, more than any condition allows.
    Flaky,
    /// It is good for so long after its start, in milliseconds, and bad from then on.
    Turns(u64),
}

#[derive(Debug)]
struct Standing {
    target: Target,
    began: u64,
    /// When it answers for the first time.
    ready_at: u64,
    /// Its process died, and is started again then.
    back_at: u64,
    was_healthy: bool,
}

#[derive(Debug, Default)]
pub struct Runtime {
    versions: BTreeMap<VersionId, Standing>,
    conducts: BTreeMap<VersionId, Conduct>,
    /// Those that somebody else runs, and since when they are known.
    elsewhere: BTreeMap<String, (Conduct, u64)>,
    ports: u16,
}

impl Runtime {
    /// How a version does wherever it is started here; the first to ask decides.
    pub fn conduct(&mut self, version: &VersionId, draw: impl FnOnce() -> Conduct) {
        self.conducts.entry(version.clone()).or_insert_with(draw);
    }

    /// How a version does that somebody else runs.
    pub fn note_elsewhere(&mut self, version: &str, at: u64, draw: impl FnOnce() -> Conduct) {
        if !self.elsewhere.contains_key(version) {
            self.elsewhere.insert(version.to_owned(), (draw(), at));
        }
    }

    /// Starts a version that isn't there. Gives when that is answered.
    pub fn begin(&mut self, version: &VersionId, at: u64, dice: &mut Dice) -> u64 {
        if let Some(standing) = self.versions.get(version) {
            return standing.ready_at.max(standing.back_at);
        }
        let (least, most) = if dice.chance(LONG_START_CHANCE) { LONG_START_MS } else { START_MS };
        let ready_at = at + dice.between(least, most);
        self.ports += 1;
        let target = format!("127.0.0.1:{}", 10_000 + self.ports).parse().unwrap();
        let standing = Standing { target, began: at, ready_at, back_at: 0, was_healthy: false };
        self.versions.insert(version.clone(), standing);
        ready_at
    }

    /// The answer to a start. Of one that failed nothing is left.
    pub fn started(&mut self, version: &VersionId) -> Result<Target, String> {
        let Some(standing) = self.versions.get_mut(version) else {
            return Err("it was stopped meanwhile".to_owned());
        };
        if !standing.was_healthy && self.conducts.get(version) == Some(&Conduct::NeverHealthy) {
            self.versions.remove(version);
            return Err("it was never healthy".to_owned());
        }
        standing.was_healthy = true;
        Ok(standing.target.clone())
    }

    /// Where a version will listen that nobody has waited for.
    pub fn target(&self, version: &VersionId) -> Option<Target> {
        Some(self.versions.get(version)?.target.clone())
    }

    pub fn stop(&mut self, version: &VersionId) {
        self.versions.remove(version);
    }

    pub fn list(&self, at: u64) -> Vec<Running> {
        let running = |(version, standing): (&VersionId, &Standing)| Running {
            version: version.clone(),
            runner: "nodejs".to_owned(),
            target: standing.target.clone(),
            phase: if standing.back_at > at { Phase::Pauses } else { Phase::Runs },
            pid: Some(1),
            restarts: 0,
            last_exit: None,
        };
        self.versions.iter().map(running).collect()
    }

    pub fn versions(&self) -> impl Iterator<Item = &VersionId> {
        self.versions.keys()
    }

    /// A version dies, and is back after a while.
    pub fn crash(&mut self, which: usize, back_at: u64) -> Option<VersionId> {
        let at = which.checked_rem(self.versions.len())?;
        let (version, standing) = self.versions.iter_mut().nth(at)?;
        standing.back_at = back_at;
        Some(version.clone())
    }

    /// Whether it was healthy since it was started.
    pub fn was_healthy(&self, version: &str) -> bool {
        self.standing(version).is_some_and(|standing| standing.was_healthy)
    }

    /// Whether it is there and its process has died; or somebody else runs it so that nobody is answered, and operators had it
    /// released without a test.
    pub fn is_dead(&self, version: &str, at: u64) -> bool {
        if let Some((conduct, _)) = self.elsewhere.get(version) {
            return *conduct == Conduct::NeverHealthy;
        }
        self.standing(version).is_some_and(|standing| standing.back_at > at)
    }

    /// Whether something that answers listens there.
    pub fn answers(&self, version: &str, targets: &[Target], at: u64) -> bool {
        if let Some((conduct, _)) = self.elsewhere.get(version) {
            return *conduct != Conduct::NeverHealthy;
        }
        self.standing(version).is_some_and(|standing| {
            standing.ready_at <= at && standing.back_at <= at && targets.contains(&standing.target)
        })
    }

    /// Whether a call that reaches it fails.
    pub fn fails(&self, version: &str, at: u64, dice: &mut Dice) -> bool {
        let here = || {
            let (id, conduct) = self.conducts.iter().find(|(id, _)| id.as_str() == version)?;
            Some((conduct, self.versions.get(id).map_or(at, |standing| standing.began)))
        };
        let elsewhere = self.elsewhere.get(version).map(|(conduct, since)| (conduct, *since));
        let Some((conduct, began)) = elsewhere.or_else(here) else { return false };
        match conduct {
            Conduct::Good | Conduct::NeverHealthy => false,
            Conduct::Bad => true,
            Conduct::Flaky => dice.chance(0.5),
            Conduct::Turns(after_ms) => at.saturating_sub(began) > *after_ms,
        }
    }

    fn standing(&self, version: &str) -> Option<&Standing> {
        self.versions.iter().find(|(id, _)| id.as_str() == version).map(|(_, standing)| standing)
    }
}
