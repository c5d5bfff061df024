//! What the manager is told of a stage.

use analysis::{
    Assignment, Values,
    clusters::{MAX_EXACT_IN_GROUPS, MAX_GROUPS},
    values::MAX_DISTINCT,
};
use language::Stage;
use model::StageStatus;
use wire::{HistogramForm, StageSummary, StratumForm};

use super::{Sides, StageCounts, side::summary_of};

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
        let [base, new] = &self.whole;
        let parts = self.parts();
        let tell = |side: &super::Side| told(side.values(), reads.values);
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
                    let times = sides.each_ref().map(|side| told(side.values(), reads.values));
                    StratumForm { interval: *interval, ..stratum(sides, times) }
                };
                let strata = parts.intervals.iter().filter(|_| is_cut).map(of_interval).collect();
                StageSummary { strata, ..whole }
            }
        }
    }
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
        .map(|(group, sides)| (*group, sides, sides.each_ref().map(super::Side::values)))
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

fn stratum(
    [base, new]: &Sides,
    [(f1_values, f1_histogram), (f2_values, f2_histogram)]: [Told; 2],
) -> StratumForm {
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
