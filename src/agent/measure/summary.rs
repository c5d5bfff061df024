//! What the manager is told of a stage.

use analysis::{
    Assignment, Values,
    clusters::{MAX_EXACT_IN_GROUPS, MAX_GROUPS},
    values::MAX_DISTINCT,
};
use language::Stage;
use model::StageStatus;
use protocol::{
    HistogramForm, StageSummary, StratumForm, VariationForm, VariationStratumForm,
    child::{MAX_GROUPED_STRATA, MAX_STRATA},
};

use super::{
    MAX_PARTS, Parts, StageCounts,
    side::{Groups, Side, Sides, summary_of},
};

/// Most shares whose groups of users are told. Those of others are in the numbers of the stage alone.
const MAX_GROUPED_SHARES: usize = MAX_GROUPED_STRATA / MAX_GROUPS as usize;

/// What a manager reads beside the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads {
    /// Times value by value.
    pub values: bool,
    /// Groups of users.
    pub groups: bool,
}

/// Times in the one form that the manager reads.
type Told = (Option<Box<Values>>, Option<HistogramForm>);

impl StageCounts {
    /// What a manager that reads so much is told: all that there was until now, whatever it was told before.
    #[must_use]
    pub fn summary(&self, stage: &Stage, status: StageStatus, reads: Reads) -> StageSummary {
        let (base, new) = (self.base(), self.new_version());
        let parts = self.parts();
        let tell = |side: &Side| told(side.values(), reads.values);
        let (f1_values, f1_histogram) = tell(base);
        let (f2_values, f2_histogram) = tell(new);
        let mut both = base.times.clone();
        both.merge(&new.times);
        let whole = StageSummary {
            stage_name: Some(stage.name.clone()),
            proxy_times: summary_of(&both),
            f1_times: base.summary(),
            f2_times: new.summary(),
            f1_err_rate: base.error_rate(),
            f2_err_rate: new.error_rate(),
            f1_calls: Some(base.calls),
            f2_calls: Some(new.calls),
            f1_errors: Some(base.errors),
            f2_errors: Some(new.errors),
            f1_histogram,
            f2_histogram,
            f1_values,
            f2_values,
            variations: self.variations(&parts),
            ..StageSummary::without_calls(status)
        };
        let is_grouped = parts.each().any(|(_, parts)| parts.groups.is_some());
        if !is_grouped {
            return StageSummary { strata: of_intervals(&parts, reads.values), ..whole };
        }
        if reads.groups {
            let strata = of_groups(&parts, reads.values);
            return StageSummary { assignment: Some(Assignment::User), strata, ..whole };
        }
        // Whoever reads no groups would take the calls of one user for independent ones: it is told how many there were,
        // and how the new version did by itself.
        StageSummary { f1_errors: None, f1_histogram: None, f1_values: None, ..whole }
    }
}

impl StageCounts {
    /// Each of more than two variations, whose shares are no percentage. Their parts have no times: those of eight would be more than a
    /// report holds.
    fn variations(&self, parts: &Parts) -> Vec<VariationForm> {
        if self.names.len() <= 2 {
            return Vec::new();
        }
        let of_part = |which: usize, interval: u32, group: Option<u8>, sides: &Sides| {
            let Side { calls, errors, .. } = *sides.of(which);
            (calls > 0).then_some(VariationStratumForm { interval, group, calls, errors })
        };
        let of = |(which, name): (usize, &String)| {
            let side = self.of(which);
            let strata = if let Some(groups) = &parts.groups {
                let each = groups.0.iter();
                each.filter_map(|(group, sides)| of_part(which, 0, Some(*group), sides)).collect()
            } else {
                let cut = parts.intervals.iter().filter(|(interval, _)| **interval > 0);
                cut.filter_map(|(interval, sides)| of_part(which, *interval, None, sides)).collect()
            };
            VariationForm {
                name: name.clone(),
                calls: side.calls,
                errors: side.errors,
                histogram: told(side.values(), false).1,
                strata,
            }
        };
        self.names.iter().enumerate().map(of).collect()
    }
}

/// The stable version and the first one beside it.
fn first_two(sides: &Sides) -> [&Side; 2] {
    [sides.of(0), sides.of(1)]
}

fn told(values: Option<Values>, exactly: bool) -> Told {
    match values {
        Some(values) if exactly => (Some(Box::new(values)), None),
        Some(values) => (None, Some(HistogramForm::Sketch(values.to_histogram()))),
        None => (None, None),
    }
}

/// Nothing is cut where nobody told the manager's time and one share was in force.
fn of_intervals(parts: &Parts, exactly: bool) -> Vec<StratumForm> {
    let each = || {
        parts.each().flat_map(|(split, parts)| {
            parts.intervals.iter().map(move |(interval, sides)| (split, *interval, sides))
        })
    };
    let first = each().next().map(|(split, ..)| split);
    let is_cut = each().any(|(split, interval, _)| interval > 0 || Some(split) != first);
    let of_interval = |(at, (split, interval, sides)): (usize, (Option<u8>, u32, &Sides))| {
        let tell = |side: &Side| told(side.values().filter(|_| at < MAX_PARTS), exactly);
        StratumForm { split, interval, ..stratum(sides, first_two(sides).map(tell)) }
    };
    // Those after the last one are of shares that came when there was no room any more, in their order: what was told stays.
    each().filter(|_| is_cut).enumerate().take(MAX_STRATA).map(of_interval).collect()
}

/// Under which share, which group, and what was measured of its two sides.
type GroupOfShare<'p> = (Option<u8>, u8, &'p Sides, [Option<Values>; 2]);

/// Groups keep their values exactly while there are few in all. Else those of the first share have all of theirs in buckets, for what is
/// too much in a part is too much in the whole, and those of the others have none: a report has no room for more.
fn of_groups(parts: &Parts, exactly: bool) -> Vec<StratumForm> {
    let shares = parts.each().filter_map(|(split, parts)| Some((split, parts.groups.as_ref()?)));
    let shares: Vec<(Option<u8>, &Groups)> = shares.take(MAX_GROUPED_SHARES).collect();
    let first = shares.first().map(|(split, _)| *split);
    let groups = shares.into_iter().flat_map(|(split, groups)| {
        let known = groups.0.iter().filter(|(group, _)| **group < MAX_GROUPS);
        known.map(move |(group, sides)| (split, *group, sides, first_two(sides).map(Side::values)))
    });
    let groups: Vec<GroupOfShare<'_>> = groups.collect();
    let distinct = |values: &Values| values.exact().map_or(MAX_DISTINCT, <[_]>::len);
    let all: usize = groups.iter().flat_map(|(.., sides)| sides).flatten().map(distinct).sum();
    let is_much = all > MAX_EXACT_IN_GROUPS;
    let of_group = |(split, group, sides, values): GroupOfShare<'_>| {
        let kept = |values: Values| {
            if is_much { (Some(split) == first).then(|| values.in_buckets()) } else { Some(values) }
        };
        let times = values.map(|values| told(values.and_then(kept), exactly));
        StratumForm { split, group: Some(group), ..stratum(sides, times) }
    };
    groups.into_iter().map(of_group).collect()
}

fn stratum(sides: &Sides, [(f1_values, f1_histogram), (f2_values, f2_histogram)]: [Told; 2]) -> StratumForm {
    let [base, new] = first_two(sides);
    StratumForm {
        f1_calls: Some(base.calls),
        f2_calls: Some(new.calls),
        f1_errors: Some(base.errors),
        f2_errors: Some(new.errors),
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
        ..StratumForm::default()
    }
}
