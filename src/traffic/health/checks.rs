use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Health, Probe, Verdict};
use crate::desired::DesiredConfig;

/// By how much of its interval a check may come earlier or later, so that checks that began together don't stay together.
pub const JITTER: f64 = 0.1;

/// Which checks are due, and what they found so far. Times are in milliseconds, of a clock that never jumps, from any start; chance
/// is a number from 0 to before 1, each as likely.
#[derive(Debug, Default)]
pub struct Checks {
    probes: BTreeMap<Arc<Probe>, Progress>,
    /// Those that are not being carried out, by when they are.
    due: BTreeSet<(u64, Arc<Probe>)>,
}

#[derive(Debug, Default)]
struct Progress {
    verdict: Verdict,
    /// What the last check found, and how many before it found the same without a break.
    was_good: bool,
    in_a_row: u32,
    began_ms: u64,
    /// None while the check is carried out.
    due_ms: Option<u64>,
}

impl Checks {
    /// Looks at the targets of this wanted state from now on. What is known of those that stay is kept; new ones are due within a
    /// tenth of their interval.
    pub fn follow(&mut self, wanted: &DesiredConfig, now_ms: u64, mut chance: impl FnMut() -> f64) {
        let mut left = std::mem::take(&mut self.probes);
        self.due.clear();
        let variations = wanted.services().iter().flat_map(|service| &service.variations);
        for variation in variations {
            let Some(how) = &variation.health else { continue };
            for target in &variation.targets {
                let probe = Probe { target: target.clone(), how: how.clone() };
                if self.probes.contains_key(&probe) {
                    continue;
                }
                let (probe, progress) = left.remove_entry(&probe).unwrap_or_else(|| {
                    let first_ms = now_ms + part(how.interval.as_millis() as u64, JITTER * chance());
                    (Arc::new(probe), Progress { due_ms: Some(first_ms), ..Progress::default() })
                });
                self.due.extend(progress.due_ms.map(|due_ms| (due_ms, Arc::clone(&probe))));
                self.probes.insert(probe, progress);
            }
        }
    }

    /// When the next check is due, of those that are not being carried out.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Up to so many checks that are due now, those that are due longest first. Each is being carried out until it was
    /// [`answered`](Self::answered).
    pub fn take_due(&mut self, now_ms: u64, at_most: usize) -> Vec<Arc<Probe>> {
        let mut taken = Vec::new();
        while taken.len() < at_most
            && let Some((due_ms, _)) = self.due.first()
            && *due_ms <= now_ms
            && let Some((_, probe)) = self.due.pop_first()
        {
            if let Some(progress) = self.probes.get_mut(&probe) {
                progress.due_ms = None;
                progress.began_ms = now_ms;
            }
            taken.push(probe);
        }
        taken
    }

    /// Takes in what a check found. The next one is due an interval after the begin of this one, or at once. Gives the verdict if this
    /// changed it. What is found of a target that isn't looked at any more is nothing.
    pub fn answered(&mut self, probe: &Probe, is_good: bool, now_ms: u64, chance: f64) -> Option<Verdict> {
        let (probe, _) = self.probes.get_key_value(probe)?;
        let probe = Arc::clone(probe);
        let progress = self.probes.get_mut(&probe)?;
        if let Some(due_ms) = progress.due_ms.take() {
            self.due.remove(&(due_ms, Arc::clone(&probe)));
        }
        let interval_ms = probe.how.interval.as_millis() as u64;
        let pause_ms = part(interval_ms, 1.0 - JITTER + 2.0 * JITTER * chance);
        let due_ms = progress.began_ms.saturating_add(pause_ms).max(now_ms);
        progress.due_ms = Some(due_ms);
        self.due.insert((due_ms, Arc::clone(&probe)));

        let goes_on = progress.in_a_row > 0 && progress.was_good == is_good;
        progress.in_a_row = if goes_on { progress.in_a_row.saturating_add(1) } else { 1 };
        progress.was_good = is_good;
        let (enough, verdict) = if is_good {
            (probe.how.healthy_after, Verdict::Healthy)
        } else {
            (probe.how.unhealthy_after, Verdict::Unhealthy)
        };
        let is_news = progress.in_a_row >= enough && progress.verdict != verdict;
        is_news.then(|| {
            progress.verdict = verdict;
            verdict
        })
    }

    /// What is known now.
    #[must_use]
    pub fn health(&self) -> Health {
        self.probes.iter().map(|(probe, progress)| (Arc::clone(probe), progress.verdict)).collect()
    }

    /// Whether it is looked at a target in this way.
    #[must_use]
    pub fn has(&self, probe: &Probe) -> bool {
        self.probes.contains_key(probe)
    }

    /// How many targets are looked at, each way counted once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.probes.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty()
    }
}

/// So much of a whole number.
fn part(whole: u64, part: f64) -> u64 {
    (whole as f64 * part) as u64
}
