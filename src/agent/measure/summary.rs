//! What the manager is told of a stage.

use analysis::{
    Assignment, Values,
    clusters::{MAX_EXACT_IN_GROUPS, MAX_GROUPS},
    values::MAX_DISTINCT,
};
use language::Stage;
use model::StageStatus;
use protocol::{HistogramForm, StageSummary, StratumForm, VariationForm, VariationStratumForm};

use super::{
    Parts, StageCounts,
    side::{Side, Sides, summary_of},
};

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
        match parts.groups {
            Some(groups) if reads.groups => {
                let strata = of_groups(&groups.0, reads.values);
                StageSummary { assignment: Some(Assignment::User), strata, ..whole }
            }
            // Whoever reads no groups would take the calls of one user for independent ones: it is told how many there were,
            // and how the new version did by itself.
            Some(_) => StageSummary { f1_errors: None, f1_histogram: None, f1_values: None, ..whole },
            None => {
                let is_cut = parts.intervals.keys().any(|interval| *interval > 0);
                let of_interval = |(interval, sides): (&u32, &Sides)| {
                    let times = first_two(sides).map(|side| told(side.values(), reads.values));
                    StratumForm { interval: *interval, ..stratum(sides, times) }
                };
                let strata = parts.intervals.iter().filter(|_| is_cut).map(of_interval).collect();
                StageSummary { strata, ..whole }
            }
        }
    }
}

impl StageCounts {
    /// Each of more than two variations. Their parts have no times: those of eight would be more than a report holds.
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

/// Groups keep their values exactly while there are few in all, and else all of them in buckets: what is too much in a part is
/// too much in the whole.
fn of_groups(groups: &std::collections::BTreeMap<u8, Sides>, exactly: bool) -> Vec<StratumForm> {
    let values: Vec<(u8, &Sides, [Option<Values>; 2])> = groups
        .iter()
        .filter(|(group, _)| **group < MAX_GROUPS)
        .map(|(group, sides)| (*group, sides, first_two(sides).map(Side::values)))
        .collect();
    let distinct = |values: &Values| values.exact().map_or(MAX_DISTINCT, <[_]>::len);
    let all: usize = values.iter().flat_map(|(.., sides)| sides).flatten().map(distinct).sum();
    let is_much = all > MAX_EXACT_IN_GROUPS;
    let bucketed = |values: Values| if is_much { values.in_buckets() } else { values };
    let of_group = |(group, sides, values): (u8, &Sides, [Option<Values>; 2])| {
        let times = values.map(|values| told(values.map(bucketed), exactly));
        StratumForm { group: Some(group), ..stratum(sides, times) }
    };
    values.into_iter().map(of_group).collect()
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
