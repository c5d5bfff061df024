//! Two variations of a service in the places of the base version and the new one.

use std::collections::BTreeMap;

use super::{Stratum, Summary, Times, Variation};
use language::analysis::Pair;

/// What stands for no successful call.
const NO_CALL: Times = Times { median: -1.0, minimum: -1.0, maximum: -1.0 };

impl Summary {
    /// The same report where what was counted of two of more than two variations stands as that of the base version and the new one.
    /// `None`: it tells nothing of one of them.
    ///
    /// Times are told of the whole stage, and not of its intervals: so are calls here, that both are of the same. Groups of users have
    /// their calls apart, and no times.
    #[must_use]
    pub fn of_pair(&self, pair: &Pair) -> Option<Self> {
        let told = |name: &Option<String>, usual: usize| match name {
            Some(name) => self.variations.iter().find(|one| one.name == *name),
            None => self.variations.get(usual),
        };
        let (base, new) = (told(&pair.baseline, 0)?, told(&pair.canary, 1)?);
        Some(Self {
            f1_times_summary: times(base),
            f2_times_summary: times(new),
            f1_err_rate: error_rate(base),
            f2_err_rate: error_rate(new),
            f1_calls: Some(base.calls),
            f2_calls: Some(new.calls),
            f1_errors: Some(base.errors),
            f2_errors: Some(new.errors),
            f1_histogram: base.histogram.clone(),
            f2_histogram: new.histogram.clone(),
            f1_values: None,
            f2_values: None,
            strata: strata(base, new),
            variations: Vec::new(),
            // What a manager says of how its children differ is of the first two.
            effects: None,
            ..self.clone()
        })
    }
}

fn times(of: &Variation) -> Times {
    let quantile = |q: f64| of.histogram.as_ref().and_then(|times| times.quantile(q));
    let times = || Some(Times { median: quantile(0.5)?, minimum: quantile(0.0)?, maximum: quantile(1.0)? });
    times().filter(|_| of.calls > of.errors).unwrap_or(NO_CALL)
}

fn error_rate(of: &Variation) -> f64 {
    if of.calls == 0 { 0.0 } else { of.errors as f64 / of.calls as f64 }
}

fn strata(base: &Variation, new: &Variation) -> Vec<Stratum> {
    let whole = Stratum {
        f1_histogram: base.histogram.clone(),
        f2_histogram: new.histogram.clone(),
        ..Stratum::default()
    };
    let mut groups: BTreeMap<u8, [(u64, u64); 2]> = BTreeMap::new();
    for (side, of) in [base, new].into_iter().enumerate() {
        for stratum in &of.strata {
            let Some(group) = stratum.group else { continue };
            let (calls, errors) = &mut groups.entry(group).or_default()[side];
            *calls = calls.saturating_add(stratum.calls);
            *errors = errors.saturating_add(stratum.errors);
        }
    }
    if groups.is_empty() {
        let calls = |of: &Variation| (of.calls, of.errors);
        return vec![counted(whole, [calls(base), calls(new)])];
    }
    let of_group = |(group, both)| counted(Stratum { group: Some(group), ..Stratum::default() }, both);
    groups.into_iter().map(of_group).chain([whole]).collect()
}

fn counted(stratum: Stratum, [base, new]: [(u64, u64); 2]) -> Stratum {
    Stratum {
        f1_calls: Some(base.0),
        f2_calls: Some(new.0),
        f1_errors: Some(base.1),
        f2_errors: Some(new.1),
        ..stratum
    }
}
