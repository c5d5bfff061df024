//! What was lost: calls that a router says have ended, less the lines that came.

use std::collections::BTreeMap;

/// Numbers of processes that lines may name before those that the router doesn't know are let go.
const MOST_PROCESSES: usize = 1_000;

/// The process of a router that counts as one.
const ALL: u32 = 0;

/// What is known of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// So many calls have no line; and of those of which that was said before, so many have one after all.
    Told { lost: u64, late: u64 },
    /// The router doesn't count them.
    Untold,
    /// It counts them, and from something else than the time before.
    NotMeasured,
}

/// Lines that had come at an instant.
#[derive(Debug, Clone, Default)]
pub struct Received {
    by_process: BTreeMap<u32, u64>,
    /// Of these, the ones of questions of ours.
    questions: u64,
}

/// What was known at one instant.
#[derive(Debug)]
pub struct Snapshot {
    /// Calls that have ended, by process.
    ended: BTreeMap<u32, u64>,
    /// Lines that had come just before, by process: all of them are of calls that had ended.
    received_before: BTreeMap<u32, u64>,
    /// Lines that had come just after, by process: some may be of calls that ended meanwhile. The question itself is none that has ended,
    /// so its line isn't among them.
    received: BTreeMap<u32, u64>,
}

impl Snapshot {
    /// By what had come just before the question and just after its answer.
    pub fn new(ended: BTreeMap<u32, u64>, before: Received, after: Received) -> Self {
        let mut received = after.by_process;
        if let Some(lines) = received.get_mut(&ALL) {
            *lines = lines.saturating_sub(after.questions - before.questions);
        }
        Self { ended, received_before: before.by_process, received }
    }
}

fn lines_of(received: &BTreeMap<u32, u64>, process: u32) -> u64 {
    received.get(&process).copied().unwrap_or_default()
}

#[derive(Debug, Default)]
pub struct Losses {
    /// Lines that came.
    received: Received,
    /// How far it was settled, by process.
    settled: BTreeMap<u32, Settled>,
    /// Processes were looked at before: one that is new began since then, and counts from 0.
    has_looked: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Settled {
    /// What the process counted when it was seen first, and the lines that had come by then. Those of calls that it had counted already
    /// and that came later are added as they are found out.
    ended_before: u64,
    received_before: u64,
    /// The last that it counted.
    ended: u64,
    /// Calls that were said to be lost, and have no line so far.
    lost: u64,
}

impl Settled {
    /// Calls of the process that had no line then, at least; none where it wasn't there.
    fn missing(&self, process: u32, look: &Snapshot) -> Option<u64> {
        self.without_line(process, look, &look.received)
    }

    /// The same at most: lines that were still on their way are among them.
    fn missing_at_most(&self, process: u32, look: &Snapshot) -> Option<u64> {
        self.without_line(process, look, &look.received_before)
    }

    /// Lines that came, beyond the calls that ended since it was seen first: they are of calls before that.
    fn beyond(&self, process: u32, look: &Snapshot) -> Option<u64> {
        let ended = look.ended.get(&process)?.saturating_sub(self.ended_before);
        let came = lines_of(&look.received_before, process).saturating_sub(self.received_before);
        Some(came.saturating_sub(ended))
    }

    fn without_line(&self, process: u32, look: &Snapshot, received: &BTreeMap<u32, u64>) -> Option<u64> {
        let ended = look.ended.get(&process)?.saturating_sub(self.ended_before);
        Some(ended.saturating_sub(lines_of(received, process).saturating_sub(self.received_before)))
    }

    /// What was lost since it was settled last, and how many lines came of calls that were said to be lost.
    fn settle(&mut self, process: u32, looks: &[Snapshot]) -> (u64, u64) {
        self.received_before += looks.iter().filter_map(|look| self.beyond(process, look)).max().unwrap_or(0);
        let at_most = looks.iter().filter_map(|look| self.missing_at_most(process, look)).min();
        let late = self.lost.saturating_sub(at_most.unwrap_or(self.lost));
        self.lost -= late;
        let missing = looks.iter().filter_map(|look| self.missing(process, look)).min().unwrap_or_default();
        let lost = missing.saturating_sub(self.lost);
        self.lost += lost;
        (lost, late)
    }
}

impl Losses {
    /// A line came that is among what a process counts.
    pub fn came(&mut self, process: Option<u32>) {
        let process = process.unwrap_or(ALL);
        let by_process = &mut self.received.by_process;
        if let Some(lines) = by_process.get_mut(&process) {
            *lines += 1;
        } else if by_process.len() < MOST_PROCESSES {
            by_process.insert(process, 1);
        }
    }

    /// The line of a question came.
    pub fn question_came(&mut self) {
        self.came(None);
        self.received.questions += 1;
    }

    pub fn received(&self) -> Received {
        self.received.clone()
    }

    /// Whether no call is without a line that wasn't so when this was settled last.
    pub fn are_all_there(&self, look: &Snapshot) -> bool {
        let is_there = |process: &u32| match self.settled.get(process) {
            Some(settled) => settled.missing(*process, look) <= Some(settled.lost),
            None => !self.has_looked || Settled::default().missing(*process, look) == Some(0),
        };
        look.ended.keys().all(is_there)
    }

    /// What was lost since this was asked last, by looks at totals and lines one after the other.
    pub fn settle(&mut self, looks: &[Snapshot]) -> Verdict {
        let Some(last) = looks.last() else { return Verdict::NotMeasured };
        let (mut lost, mut late, mut began_anew) = (0, 0, false);
        for (&process, &ended) in &last.ended {
            let received_before = lines_of(&last.received_before, process);
            let from_here = Settled { ended_before: ended, received_before, ended, lost: 0 };
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
            let (lost_of_it, late_of_it) = settled.settle(process, looks);
            lost += lost_of_it;
            late += late_of_it;
        }
        self.has_looked = true;
        self.forget(&last.ended);
        if began_anew { Verdict::NotMeasured } else { Verdict::Told { lost, late } }
    }

    /// Processes that are gone. Lines of theirs that are still on their way begin their number anew, and harm nobody.
    fn forget(&mut self, there: &BTreeMap<u32, u64>) {
        self.settled.retain(|process, _| there.contains_key(process));
        if self.received.by_process.len() >= MOST_PROCESSES {
            self.received.by_process.retain(|process, _| there.contains_key(process));
        }
    }
}
