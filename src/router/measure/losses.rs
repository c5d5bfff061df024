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

    /// What was lost since this was asked last, by looks at totals and lines one after the other.
    pub fn settle(&mut self, looks: &[(BTreeMap<u32, u64>, BTreeMap<u32, u64>)]) -> Verdict {
        let Some((last, _)) = looks.last() else { return Verdict::NotMeasured };
        let (mut lost, mut began_anew) = (0, false);
        for (&process, &ended) in last {
            let is_known = self.settled.contains_key(&process);
            let lines = |received: &BTreeMap<u32, u64>| received.get(&process).copied().unwrap_or_default();
            if !is_known && !self.has_looked {
                // What it did before anybody listened isn't lost.
                let received_before = looks.last().map(|(_, received)| lines(received)).unwrap_or_default();
                let first = Settled { ended_before: ended, received_before, ended, lost: 0 };
                self.settled.insert(process, first);
                continue;
            }
            let settled = self.settled.entry(process).or_default();
            if ended < settled.ended {
                began_anew = true;
                let received_before = looks.last().map(|(_, received)| lines(received)).unwrap_or_default();
                *settled = Settled { ended_before: ended, received_before, ended, lost: 0 };
                continue;
            }
            settled.ended = ended;
            let missing = |(ended, received): &(BTreeMap<u32, u64>, BTreeMap<u32, u64>)| {
                let ended = ended.get(&process)?.saturating_sub(settled.ended_before);
                Some(ended.saturating_sub(lines(received).saturating_sub(settled.received_before)))
            };
            let missing = looks.iter().filter_map(missing).min().unwrap_or_default();
            lost += missing.saturating_sub(settled.lost);
            settled.lost = settled.lost.max(missing);
        }
        self.has_looked = true;
        self.forget(last);
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
