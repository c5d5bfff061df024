//! Calls counted from what a router says that it has counted since it began: the difference of two answers is what came between.
//!
//! Such an answer says when calls ended, and not when they were given out. So what is between two answers is in a split if that was in force
//! all the time from the first question to the second answer; else it is in none. Calls that go on over a change of shares for longer than
//! an interval are in the split in which they end.

use std::{collections::BTreeMap, ops::Sub};

use call_metrics::Tally;

/// What a router says of its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counters {
    /// What it has counted since it began, or was started anew.
    Counted {
        of: BTreeMap<CounterKey, Counts>,
        /// What isn't among these had no call; else nothing is known of it.
        is_whole: bool,
        /// Differs once it began anew; the same for ever where it doesn't say.
        life: u64,
    },
    /// It counts none, for this reason.
    Not(String),
}

/// Whose calls are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterKey {
    pub service: String,
    pub variation: String,
    /// Calls that a header asked this variation for.
    pub by_header: bool,
}

/// Calls that have ended, each in exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub succeeded: u64,
    /// Answers with a status from 400 to 499.
    pub client_errors: u64,
    /// Answers with a status from 500 on, whoever gave them.
    pub errors: u64,
    pub callers_gone: u64,
    pub upgraded: u64,
}

impl Counts {
    /// Notes so many calls that ended with this status, as routers count them: 499 is that of a caller who left.
    pub fn note(&mut self, status: u16, calls: u64) {
        let sum = match status {
            101 => &mut self.upgraded,
            499 => &mut self.callers_gone,
            500.. => &mut self.errors,
            400.. => &mut self.client_errors,
            _ => &mut self.succeeded,
        };
        *sum = sum.saturating_add(calls);
    }

    fn each(&self) -> [u64; 5] {
        [self.succeeded, self.client_errors, self.errors, self.callers_gone, self.upgraded]
    }

    fn calls(&self) -> u64 {
        self.each().into_iter().fold(0, u64::saturating_add)
    }

    /// Whether there is less of something than there was, which is so where a router began anew.
    fn is_less_than(&self, before: &Self) -> bool {
        self.each().into_iter().zip(before.each()).any(|(now, before)| now < before)
    }

    fn tally(&self) -> Tally {
        Tally {
            calls: self.calls(),
            succeeded: self.succeeded,
            client_errors: self.client_errors,
            errors: self.errors,
            callers_gone: self.callers_gone,
            upgraded: self.upgraded,
            ..Tally::default()
        }
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            succeeded: self.succeeded - before.succeeded,
            client_errors: self.client_errors - before.client_errors,
            errors: self.errors - before.errors,
            callers_gone: self.callers_gone - before.callers_gone,
            upgraded: self.upgraded - before.upgraded,
        }
    }
}

/// The last answer.
#[derive(Debug, Default)]
pub(super) struct LastAnswer {
    of: Option<BTreeMap<CounterKey, Counts>>,
    life: u64,
    /// The number of each service's split that was in force when it was asked.
    pub asked_in: BTreeMap<String, u64>,
}

/// What came between two answers.
pub(super) enum Between {
    /// There was no answer before this one.
    First,
    /// The router began anew; so many calls are in neither.
    BeganAnew {
        calls: u64,
    },
    Counted(Vec<(CounterKey, Tally)>),
}

impl LastAnswer {
    /// What came since the last answer. It is this one from now on.
    pub fn next(&mut self, now: BTreeMap<CounterKey, Counts>, is_whole: bool, life: u64) -> Between {
        let is_another_life = std::mem::replace(&mut self.life, life) != life;
        let Some(before) = self.of.take() else {
            self.of = Some(now);
            return Between::First;
        };
        let found = Self::between(&before, &now, is_whole, is_another_life);
        self.of = Some(now);
        found
    }

    fn between(
        before: &BTreeMap<CounterKey, Counts>,
        now: &BTreeMap<CounterKey, Counts>,
        is_whole: bool,
        is_another_life: bool,
    ) -> Between {
        let mut both = now.iter().filter_map(|(key, now)| Some((now, before.get(key)?)));
        if is_another_life || both.any(|(now, before)| now.is_less_than(before)) {
            let calls = now.values().map(Counts::calls).fold(0, u64::saturating_add);
            return Between::BeganAnew { calls };
        }
        let more = now.iter().filter_map(|(key, now)| {
            let before = before.get(key).copied().or(is_whole.then(Counts::default))?;
            let more = *now - before;
            (more != Counts::default()).then(|| (key.clone(), more.tally()))
        });
        Between::Counted(more.collect())
    }
}
