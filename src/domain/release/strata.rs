//! What children measured, kept apart by stratum: only calls that were shared out between the versions in the same way are
//! counted together.
//!
//! A stratum of a stage is the split under which the calls were made, and an interval of the stage where a child tells
//! several apart, or the class of children that were about as fast before the release. Where all calls of a user go to one
//! version, it is a group of users instead, by a hash, over the whole stage: between groups it shows what such calls are
//! worth (`analysis::clusters`). A manager merges its children's numbers within a stratum, never across, and tells its
//! parent the strata; so a tree comes to the very numbers that one manager over all agents would have.
//!
//! Invariants:
//! - merging is exact, and neither the order of children nor how they are spread over managers matters: all times have one
//!   form before they meet ([`Values`]), with a clock that is known from their child's own report;
//! - a stratum is what was ordered, never what came out: whoever selects by what came out compares selected calls;
//! - calls that depend on each other never meet those that don't, and nobody is told of them who would take them for such;
//! - the groups of one split are told all or none, and are kept exactly all or none;
//! - what is not known of both versions is not known: nothing counts as 0.
//!
//! Deliberately not here: the judgement (`analysis`), and who is asked (`judging`).

use std::collections::BTreeMap;

use super::summary::{Reported, Stratum, Summary, Times};
use analysis::{
    Assignment, Clock, Counts, Histogram, Values, bounds,
    clusters::MAX_EXACT_IN_GROUPS,
    grid,
    values::{MAX_CALLS, MAX_DISTINCT},
};

/// Most strata without a group in one summary.
pub const MAX_STRATA: usize = 64;

/// Most text of the strata without a group that are told to a parent, in bytes: half of what a result may have.
pub const MAX_STRATA_BYTES: usize = 512 * 1024;

/// Most splits whose groups are told to a parent.
pub const MAX_GROUPED_SPLITS: usize = 4;

/// Most text of the strata of groups that are told to a parent, in bytes: with the others they leave room in a result.
pub const MAX_GROUPED_BYTES: usize = 384 * 1024;

/// What tells one stratum of a stage from the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Percentage, as in [`Stratum`].
    pub split: u8,
    pub interval: u32,
    pub assignment: Assignment,
    pub group: Option<u8>,
    /// Of children whose speed before the release is known; these have no intervals, for calls of one class and split can be
    /// ranked together whenever they were made, and each look appends what is new.
    pub class: Option<u8>,
}

/// What whoever is told of strata understands of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Understood {
    /// Groups of users, and that calls may depend on each other at all.
    pub groups: bool,
}

/// The numbers of a stratum, of the base version and of the new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sides {
    /// Calls and errors, of all who count them of both.
    pub counts: Option<[Counts; 2]>,
    /// Times of successful calls, of all who know them of both.
    pub times: Option<[Values; 2]>,
}

/// The strata of one stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strata(BTreeMap<Key, Sides>);

impl Key {
    /// Of what is reported of a stage that gives the new version `split` percent of the calls, without a class.
    pub fn of(stratum: &Stratum, summary: &Summary, split: u8) -> Self {
        let said = stratum.assignment.unwrap_or(summary.assignment);
        // Whoever tells groups apart does so because calls depend on each other.
        let is_unsaid = stratum.group.is_some() && !said.is_sticky();
        Self {
            split: stratum.split.unwrap_or(split),
            interval: stratum.interval,
            assignment: if is_unsaid { Assignment::User } else { said },
            group: stratum.group,
            class: None,
        }
    }

    /// What the groups of one split have in common; of what is no group, itself.
    pub(super) fn family(self) -> Self {
        Self { group: None, ..self }
    }
}

impl Strata {
    /// Of what children reported of a stage that gives the new version `split` percent of the calls, whatever their class.
    pub fn of<'a>(summaries: impl IntoIterator<Item = &'a Summary>, split: u8) -> Self {
        Self::classed(summaries.into_iter().map(|summary| (summary, None)), split).without_classes()
    }

    /// Of what children reported of a stage that gives the new version `split` percent of the calls, by each child's class.
    pub fn classed<'a>(summaries: impl IntoIterator<Item = (&'a Summary, Option<u8>)>, split: u8) -> Self {
        let mut strata = Self::default();
        for (summary, class) in summaries {
            let is_manager = summary.agents.is_some();
            let lone = (summary.strata.is_empty() && !is_manager).then(|| lone(summary));
            for stratum in summary.strata.iter().chain(lone.as_ref()) {
                let sides = Sides::of(stratum, summary);
                if sides == Sides::default() {
                    continue;
                }
                let key = Key::of(stratum, summary, split);
                // A manager has said already which of its children are of which class.
                let class = if is_manager { stratum.class } else { class };
                let key = match class.filter(|_| !key.assignment.is_sticky()) {
                    Some(class) => Key { interval: 0, class: Some(class), ..key },
                    None => key,
                };
                strata.0.entry(key).or_default().merge(&sides);
            }
        }
        strata.bound();
        strata
    }

    /// Adds what others measured of the same stage.
    pub fn merge(&mut self, other: &Self) {
        for (key, sides) in &other.0 {
            self.0.entry(*key).or_default().merge(sides);
        }
        self.bound();
    }

    /// The groups of a split keep their values exactly while there are few in all, else all of them in buckets. What is too
    /// many in a part is too many in the whole, so neither the order of merging nor how the parts were cut matters.
    fn bound(&mut self) {
        let mut values: BTreeMap<Key, usize> = BTreeMap::new();
        for (key, sides) in self.0.iter().filter(|(key, _)| key.group.is_some()) {
            *values.entry(key.family()).or_default() += sides.distinct();
        }
        for (key, sides) in self.0.iter_mut().filter(|(key, _)| key.group.is_some()) {
            if values.get(&key.family()).is_some_and(|values| *values > MAX_EXACT_IN_GROUPS) {
                sides.keep_in_buckets();
            }
        }
    }

    /// Whether there are calls that depend on each other.
    pub fn are_sticky(&self) -> bool {
        self.0.keys().any(|key| key.assignment.is_sticky())
    }

    /// Adds what was measured in one of them.
    pub fn add(&mut self, key: Key, sides: &Sides) {
        self.0.entry(key).or_default().merge(sides);
    }

    /// All classes as one.
    #[must_use]
    pub fn without_classes(self) -> Self {
        let mut strata = Self::default();
        for (key, sides) in self.0 {
            strata.0.entry(Key { class: None, ..key }).or_default().merge(&sides);
        }
        strata
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Sides)> {
        self.0.iter()
    }

    /// All of them together: for whoever is compared with nobody but itself.
    pub fn total(&self) -> Sides {
        let mut total = Sides::default();
        self.0.values().for_each(|sides| total.merge(sides));
        total
    }

    /// As they are told to a parent: at most [`MAX_STRATA`] and [`MAX_STRATA_BYTES`], those with the fewest calls left out.
    /// Groups beside them: those of at most [`MAX_GROUPED_SPLITS`] splits and [`MAX_GROUPED_BYTES`]. Who doesn't understand
    /// groups is told nothing of calls that depend on each other. `bytes`: how much text a stratum is, which whoever writes it
    /// knows.
    pub fn told(self, parent: Understood, bytes: impl Fn(&Stratum) -> usize) -> Vec<Stratum> {
        let all = self.0.into_iter().filter(|(key, _)| parent.groups || !key.assignment.is_sticky());
        let (grouped, others): (Vec<_>, Vec<_>) = all.partition(|(key, _)| key.group.is_some());
        let mut told = fullest(others, &bytes);
        told.extend(whole_families(grouped, &bytes));
        told.sort_by_key(|(key, _)| *key);
        told.into_iter().map(|(_, stratum)| stratum).collect()
    }
}

fn fullest(mut all: Vec<(Key, Sides)>, text_bytes: impl Fn(&Stratum) -> usize) -> Vec<(Key, Stratum)> {
    all.sort_by_key(|(key, sides)| (std::cmp::Reverse(sides.calls()), *key));
    let mut bytes = 0_usize;
    let strata = all.into_iter().take(MAX_STRATA).map(|(key, sides)| (key, sides.told(key)));
    let fits = |(_, stratum): &(Key, Stratum)| {
        bytes = bytes.saturating_add(text_bytes(stratum));
        bytes <= MAX_STRATA_BYTES
    };
    strata.take_while(fits).collect()
}

/// Some of the groups of a split would be other users than all of them.
fn whole_families(grouped: Vec<(Key, Sides)>, text_bytes: impl Fn(&Stratum) -> usize) -> Vec<(Key, Stratum)> {
    let mut families: BTreeMap<Key, Vec<(Key, Sides)>> = BTreeMap::new();
    for (key, sides) in grouped {
        families.entry(key.family()).or_default().push((key, sides));
    }
    let mut families: Vec<_> = families.into_iter().collect();
    let calls = |groups: &[(Key, Sides)]| -> u64 { groups.iter().map(|(_, sides)| sides.calls()).sum() };
    families.sort_by_key(|(family, groups)| (std::cmp::Reverse(calls(groups)), *family));
    let (mut told, mut left) = (Vec::new(), MAX_GROUPED_BYTES);
    for (_, groups) in families.into_iter().take(MAX_GROUPED_SPLITS) {
        let mut groups: Vec<_> = groups.into_iter().map(|(key, sides)| (key, sides.told(key))).collect();
        let bytes = |groups: &[(Key, Stratum)]| groups.iter().map(|(_, of)| text_bytes(of)).sum::<usize>();
        if bytes(&groups) > left {
            // Calls and errors are told even where there is no room for times.
            for (_, stratum) in &mut groups {
                stratum.forget_times();
            }
        }
        if let Some(rest) = left.checked_sub(bytes(&groups)) {
            left = rest;
            told.extend(groups);
        }
    }
    told
}

/// What an agent says of a whole stage.
fn lone(summary: &Summary) -> Stratum {
    Stratum {
        f1_calls: summary.f1_calls,
        f2_calls: summary.f2_calls,
        f1_errors: summary.f1_errors,
        f2_errors: summary.f2_errors,
        f1_histogram: summary.f1_histogram.clone(),
        f2_histogram: summary.f2_histogram.clone(),
        f1_values: summary.f1_values.clone(),
        f2_values: summary.f2_values.clone(),
        ..Stratum::default()
    }
}

impl Sides {
    fn of(stratum: &Stratum, summary: &Summary) -> Self {
        let counts = |calls: Option<u64>, errors: Option<u64>| {
            let calls = calls.filter(|calls| *calls <= MAX_CALLS)?;
            Some(Counts { calls, events: errors.filter(|errors| *errors <= calls)? })
        };
        let base = counts(stratum.f1_calls, stratum.f1_errors);
        let new = counts(stratum.f2_calls, stratum.f2_errors);
        let [base_times, new_times] = [
            (&stratum.f1_values, &stratum.f1_histogram, summary.f1_times_summary, base),
            (&stratum.f2_values, &stratum.f2_histogram, summary.f2_times_summary, new),
        ]
        .map(|(values, histogram, times, calls)| {
            // Few groups have users of both versions: where it is known that no call of one succeeded, its times are known.
            let none = calls.is_some_and(|calls| calls.calls == calls.events) && stratum.group.is_some();
            let none = || none.then(|| Values::new(Clock::UNKNOWN).ok())?;
            let reported = || counted(histogram.as_deref()?, times);
            let values = values.as_deref().cloned().or_else(reported).or_else(none)?;
            if summary.agents.is_some() {
                return Some(values);
            }
            // What one child measured was measured by one clock; of many together it can't be told any more.
            let clock = grid::clock(&values);
            Some(values.with_clock(clock))
        });
        Self {
            counts: base.zip(new).map(|(base, new)| [base, new]),
            times: base_times.zip(new_times).map(|(base, new)| [base, new]),
        }
    }

    /// Adds what somebody else measured. What would be too much to be counted exactly is left out.
    fn merge(&mut self, other: &Self) {
        if let Some(more) = &other.counts {
            let sum = self.counts.get_or_insert_default();
            let fits = sum.iter().zip(more).all(|(sum, more)| sum.calls + more.calls <= MAX_CALLS);
            for (sum, more) in sum.iter_mut().zip(more).filter(|_| fits) {
                sum.calls += more.calls;
                sum.events += more.events;
            }
        }
        match (&mut self.times, &other.times) {
            (None, Some(more)) => self.times = Some(more.clone()),
            (Some([base, new]), Some([more_base, more_new])) => {
                // What is refused changes nothing, and one side goes with the other.
                let mut sum = base.clone();
                if sum.merge(more_base).and_then(|()| new.merge(more_new)).is_ok() {
                    *base = sum;
                }
            }
            (_, None) => {}
        }
    }

    fn calls(&self) -> u64 {
        let counted = self.counts.iter().flatten().map(|side| side.calls).sum();
        let timed = self.times.iter().flatten().map(Values::count).sum();
        u64::max(counted, timed)
    }

    /// Different values, as many as are kept where there are more.
    fn distinct(&self) -> usize {
        let of = |side: &Values| match side.exact() {
            Some(values) => values.len(),
            None => MAX_DISTINCT,
        };
        self.times.iter().flatten().map(of).sum()
    }

    fn keep_in_buckets(&mut self) {
        for side in self.times.iter_mut().flatten().filter(|side| !side.is_empty() && side.exact().is_some())
        {
            *side = side.clone().in_buckets();
        }
    }

    fn told(self, key: Key) -> Stratum {
        let [base, new] = self.counts.map_or([None, None], |sides| sides.map(Some));
        let [f1_values, f2_values] =
            self.times.map_or([None, None], |sides| sides.map(|side| Some(Box::new(side))));
        Stratum {
            split: Some(key.split),
            interval: key.interval,
            assignment: Some(key.assignment).filter(|assignment| assignment.is_sticky()),
            group: key.group,
            class: key.class,
            f1_calls: base.map(|side| side.calls),
            f2_calls: new.map(|side| side.calls),
            f1_errors: base.map(|side| side.events),
            f2_errors: new.map(|side| side.events),
            f1_values,
            f2_values,
            ..Stratum::default()
        }
    }
}

/// Reported times in the form in which they merge. `None`: their numbers are beyond what is counted.
pub fn counted(reported: &Reported, times: Times) -> Option<Values> {
    match reported {
        Reported::Sketch(sketch) => bounds::of_sketch(sketch),
        Reported::Bounds(kept) => {
            bounds::of_bounds(&kept.bounds_ms, &kept.counts, [times.minimum, times.maximum])
        }
    }
}

/// A reported histogram in buckets of one base. `None`: its numbers are beyond what is counted.
pub fn one_form(reported: &Reported, times: Times) -> Option<Histogram> {
    match reported {
        Reported::Sketch(sketch) => bounds::sketch_in_one_form(sketch),
        Reported::Bounds(kept) => {
            bounds::bounds_in_one_form(&kept.bounds_ms, &kept.counts, [times.minimum, times.maximum])
        }
    }
}
