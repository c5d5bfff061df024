//! Sessions: the calls of one user, which all go to one version and are alike. A child that serves them tells groups of users
//! apart, by a hash.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rand::{RngExt, rngs::StdRng};

use super::{
    calls::standard_normal,
    times::{TimesTold, stratum_of_both},
    timing::CallClock,
};
use analysis::{
    Values,
    clusters::{MAX_EXACT_IN_GROUPS, MAX_GROUPS},
    values::MAX_DISTINCT,
};
use protocol::{HistogramForm, StratumForm};

/// Most calls of a session.
pub const MAX_SESSION_CALLS: u32 = 100_000;

/// Standard deviation of the logarithm of the factor that the times of a session share.
const SESSION_SIGMA: f64 = 0.5;

/// The sessions of a stage, one after the other.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// Calls of each.
    calls: u32,
    clock: CallClock,
    current: Session,
    /// What was counted of the base version and of the new one, group by group.
    groups: Vec<[Counted; 2]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Session {
    calls_left: u32,
    is_new: bool,
    factor: f64,
    group: usize,
}

#[derive(Debug, Clone, Default)]
struct Counted {
    calls: u64,
    errors: u64,
    /// Times of the successful calls; `None`: there were none.
    values: Option<Values>,
}

impl Sessions {
    /// `None`: each call is a session of its own, and there is nothing to be told of it.
    pub fn new(calls: u32, clock: CallClock) -> Option<Self> {
        let groups = (0..MAX_GROUPS).map(|_| <[Counted; 2]>::default()).collect();
        (calls > 1).then(|| Self { calls, clock, current: Session::default(), groups })
    }

    /// Which version the next call goes to, and by how much longer than others it takes.
    pub fn turn(&mut self, new_share: f64, rng: &mut StdRng) -> (bool, f64) {
        if self.current.calls_left == 0 {
            let mut hasher = DefaultHasher::new();
            rng.random::<u64>().hash(&mut hasher);
            self.current = Session {
                calls_left: self.calls,
                is_new: rng.random::<f64>() < new_share,
                factor: (SESSION_SIGMA * standard_normal(rng)).exp(),
                group: (hasher.finish() % u64::from(MAX_GROUPS)) as usize,
            };
        }
        self.current.calls_left -= 1;
        (self.current.is_new, self.current.factor)
    }

    /// Counts that call and the time it took; `None`: it failed.
    pub fn count(&mut self, ms: Option<f64>) {
        let Session { is_new, group, .. } = self.current;
        let counted = &mut self.groups[group][usize::from(is_new)];
        counted.calls += 1;
        let Some(ms) = ms else {
            counted.errors += 1;
            return;
        };
        if counted.values.is_none() {
            counted.values = Values::new(self.clock.told()).ok();
        }
        if let Some(values) = &mut counted.values {
            // What is longer than all that is counted is none of the calls that are simulated.
            let _ = values.record(self.clock.read(ms), 1);
        }
    }

    /// Those groups that had calls, as they are reported.
    pub fn strata(&self, exactly: bool) -> Vec<StratumForm> {
        let values = self.groups.iter().flatten().filter_map(|counted| counted.values.as_ref());
        let distinct: usize = values.map(|values| values.exact().map_or(MAX_DISTINCT, <[_]>::len)).sum();
        let is_much = distinct > MAX_EXACT_IN_GROUPS;
        let told = |(group, sides): (u8, &[Counted; 2])| {
            let [base, new] = sides.each_ref().map(|side| side.times(exactly, is_much));
            let counted = sides.each_ref().map(|side| [side.calls, side.errors]);
            let is_there = sides.iter().any(|side| side.calls > 0);
            is_there.then(|| StratumForm { group: Some(group), ..stratum_of_both(counted, [base, new]) })
        };
        (0..).zip(&self.groups).filter_map(told).collect()
    }
}

impl Counted {
    /// In the one form that the manager reads; `is_much`: in buckets, whatever it is.
    fn times(&self, exactly: bool, is_much: bool) -> TimesTold {
        let Some(values) = &self.values else { return (None, None) };
        match exactly {
            true if is_much => (Some(Box::new(values.clone().in_buckets())), None),
            true => (Some(Box::new(values.clone())), None),
            false => (None, Some(HistogramForm::Sketch(values.to_histogram()))),
        }
    }
}
