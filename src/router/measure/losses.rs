//! What was lost: calls that a router says have ended, less the lines that came.

use std::collections::BTreeMap;

/// Numbers of processes that lines may name before those that the router doesn't know are let go.
const MOST_PROCESSES: usize = 1_000;

/// The process of a router that counts as one.
const ALL: u32 = 0;

/// What is known of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// So many calls have no line.
    Told { lost: u64 },
    /// The router doesn't count them.
    Untold,
    /// It counts them, and from something else than the time before.
    NotMeasured,
}

/// What was known at one instant.
#[derive(Debug)]
pub struct Look {
    /// Calls that have ended, by process.
    pub ended: BTreeMap<u32, u64>,
    /// Lines that had come just after, by process.
    pub received: BTreeMap<u32, u64>,
}

impl Look {
    fn lines(&self, process: u32) -> u64 {
        self.received.get(&process).copied().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub struct Losses {
    /// Lines that came, by process.
    received: BTreeMap<u32, u64>,
    /// How far it was settled, by process.
    settled: BTreeMap<u32, Settled>,
    /// Processes were looked at before: one that is new began since then, and counts from 0.
    has_looked: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Settled {
    /// What the process counted, and the lines that had come, when it was seen first.
    ended_before: u64,
    received_before: u64,
    /// The last that it counted.
    ended: u64,
    lost: u64,
}

impl Settled {
    /// Calls of the process that had no line then; none where it wasn't there.
    fn missing(&self, process: u32, look: &Look) -> Option<u64> {
        let ended = look.ended.get(&process)?.saturating_sub(self.ended_before);
        Some(ended.saturating_sub(look.lines(process).saturating_sub(self.received_before)))
    }
}

impl Losses {
    /// A line came that is among what a process counts.
    pub fn came(&mut self, process: Option<u32>) {
        let process = process.unwrap_or(ALL);
        if let Some(lines) = self.received.get_mut(&process) {
            *lines += 1;
        } else if self.received.len() < MOST_PROCESSES {
            self.received.insert(process, 1);
        }
    }

    pub fn received(&self) -> BTreeMap<u32, u64> {
        self.received.clone()
    }

    /// Whether no call is without a line that wasn't so when this was settled last.
    pub fn are_all_there(&self, look: &Look) -> bool {
        let is_there = |process: &u32| match self.settled.get(process) {
            Some(settled) => settled.missing(*process, look) <= Some(settled.lost),
            None => !self.has_looked || Settled::default().missing(*process, look) == Some(0),
        };
        look.ended.keys().all(is_there)
    }

    /// What was lost since this was asked last, by looks at totals and lines one after the other.
    pub fn settle(&mut self, looks: &[Look]) -> Verdict {
        let Some(last) = looks.last() else { return Verdict::NotMeasured };
        let (mut lost, mut began_anew) = (0, false);
        for (&process, &ended) in &last.ended {
            let from_here =
                Settled { ended_before: ended, received_before: last.lines(process), ended, lost: 0 };
            if !self.has_looked && !self.settled.contains_key(&process) {
                // What it did before anybody listened isn't lost.
                self.settled.insert(process, from_here);
                continue;
            }
            let settled = self.settled.entry(process).or_default();
            if ended < settled.ended {
                began_anew = true;
                *settled = from_here;
                continue;
            }
            settled.ended = ended;
            let missing =
                looks.iter().filter_map(|look| settled.missing(process, look)).min().unwrap_or_default();
            lost += missing.saturating_sub(settled.lost);
            settled.lost = settled.lost.max(missing);
        }
        self.has_looked = true;
        self.forget(&last.ended);
        if began_anew { Verdict::NotMeasured } else { Verdict::Told { lost } }
    }

    /// Processes that are gone. Lines of theirs that are still on their way begin their number anew, and harm nobody.
    fn forget(&mut self, there: &BTreeMap<u32, u64>) {
        self.settled.retain(|process, _| there.contains_key(process));
        if self.received.len() >= MOST_PROCESSES {
            self.received.retain(|process, _| there.contains_key(process));
        }
    }
}
