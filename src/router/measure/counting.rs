//! What is counted of an interval that isn't closed.

use std::{collections::HashMap, sync::Arc};

use crate::log_line::{Line, Outcome};
use call_metrics::{Key, Recorder, Tally};
use traffic::GROUPS;

use super::STEP_US;

#[derive(Debug, Default)]
pub struct Counting {
    /// By the address of the key, which lives as long as it stands here.
    of: HashMap<usize, Counted>,
}

#[derive(Debug)]
struct Counted {
    key: Arc<Key>,
    tally: Tally,
    times: Recorder,
    client_error_times: Recorder,
    times_of_groups: Vec<Recorder>,
}

impl Counting {
    pub fn note(&mut self, key: &Arc<Key>, line: &Line<'_>) {
        let counted = self.of.entry(Arc::as_ptr(key).addr()).or_insert_with(|| Counted {
            key: Arc::clone(key),
            tally: Tally::default(),
            times: Recorder::default(),
            client_error_times: Recorder::default(),
            times_of_groups: Vec::new(),
        });
        counted.note(line);
    }

    /// All that was counted since this was asked last.
    pub fn take(&mut self) -> Vec<(Arc<Key>, Tally)> {
        let all = std::mem::take(&mut self.of).into_values();
        all.map(Counted::finish).collect()
    }
}

impl Counted {
    fn note(&mut self, line: &Line<'_>) {
        let tally = &mut self.tally;
        tally.calls += 1;
        tally.sent_again += u64::from(line.sent_again);
        if let Some((up, down)) = line.bytes {
            tally.bytes_up += up;
            tally.bytes_down += down;
        }
        let us = |ms: u32| ms.saturating_mul(STEP_US);
        let served = match line.outcome {
            Outcome::Answered { status: 500.., .. } => {
                tally.errors += 1;
                None
            }
            Outcome::Answered { status: 400..500, took_ms } => {
                tally.client_errors += 1;
                self.client_error_times.record(us(took_ms));
                tally.seconds.note(us(took_ms));
                Some(us(took_ms))
            }
            Outcome::Answered { status: ..400, took_ms } | Outcome::Passed { took_ms } => {
                tally.succeeded += 1;
                self.times.record(us(took_ms));
                tally.seconds.note(us(took_ms));
                Some(us(took_ms))
            }
            Outcome::Failed(failure) => {
                tally.failed[failure as usize] += 1;
                None
            }
            Outcome::NoTarget => {
                tally.no_target += 1;
                return;
            }
            Outcome::BrokenOff => {
                tally.broken_off += 1;
                None
            }
            Outcome::CallerGone => {
                tally.callers_gone += 1;
                return;
            }
            Outcome::Upgraded => {
                tally.upgraded += 1;
                return;
            }
        };
        if let Some(group) = line.group {
            self.note_in_group(group, served);
        }
    }

    /// `served`: how many microseconds it took; none where the variation failed it.
    fn note_in_group(&mut self, group: u8, served: Option<u32>) {
        let group = usize::from(group % GROUPS);
        let groups = self.tally.groups.get_or_insert_default();
        groups.calls[group] += 1;
        match served {
            None => groups.failures[group] += 1,
            Some(us) => {
                if self.times_of_groups.is_empty() {
                    self.times_of_groups.resize_with(usize::from(GROUPS), Recorder::default);
                }
                self.times_of_groups[group].record(us);
            }
        }
    }

    fn finish(mut self) -> (Arc<Key>, Tally) {
        let take = |recorder: &mut Recorder| recorder.take().with_step(STEP_US);
        self.tally.times = take(&mut self.times);
        self.tally.client_error_times = take(&mut self.client_error_times);
        if let Some(groups) = &mut self.tally.groups {
            groups.times = self.times_of_groups.iter_mut().map(take).collect();
        }
        (self.key, self.tally)
    }
}
