//! Measurements against the range that is expected.

use analysis::Verdict;
use domain::release::analysis::Metered;

/// The range in which each measurement must lie, and how many may lie outside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub failure_limit: u32,
}

impl Range {
    fn fault(&self, value: f64) -> Option<String> {
        match (self.min, self.max) {
            (Some(min), _) if value < min => Some(format!("{value} is below {min}")),
            (_, Some(max)) if value > max => Some(format!("{value} is above {max}")),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("from {min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, Some(max)) => format!("at most {max}"),
            (None, None) => "anything".to_owned(),
        }
    }

    /// Takes one measurement in, all of whose values must be good. One without a value is none; at the end it passes nothing,
    /// whatever was measured until then.
    pub fn measure(&self, found: &mut Metered, values: &[f64], is_last: bool) {
        found.errors = 0;
        let fault = values.iter().find_map(|value| self.fault(*value));
        match (values.last(), fault) {
            (None, _) => {
                found.empty += 1;
                "there was no value".clone_into(&mut found.sentence);
            }
            (Some(_), Some(fault)) => {
                found.measured += 1;
                found.outside += 1;
                found.sentence = self.tally(&fault, found);
            }
            (Some(value), None) => {
                found.measured += 1;
                found.sentence = self.tally(&format!("{value} is {}", self.text()), found);
            }
        }
        self.decide(found, values.is_empty(), is_last);
    }

    /// A look at which no value could be there yet.
    pub fn go_on(&self, found: &mut Metered, is_last: bool) {
        found.errors = 0;
        self.decide(found, false, is_last);
    }

    fn decide(&self, found: &mut Metered, is_silent: bool, is_last: bool) {
        found.verdict = self.verdict(found, is_last);
        if is_silent && found.verdict == Some(Verdict::Pass) {
            found.verdict = Some(Verdict::NoData);
        }
        if found.verdict == Some(Verdict::NoData) {
            let last = if is_silent && found.measured > 0 { ", the last one among them" } else { "" };
            found.sentence =
                format!("{} of {} looks had no value{last}", found.empty, found.empty + found.measured);
        }
    }

    fn verdict(&self, found: &Metered, is_last: bool) -> Option<Verdict> {
        if found.outside > self.failure_limit {
            return Some(Verdict::Fail);
        }
        let enough = found.measured > 0 && found.empty <= found.measured;
        is_last.then_some(if enough { Verdict::Pass } else { Verdict::NoData })
    }

    /// `0.31 is above 0.05; 2 of 3 measurements were outside, 1 is borne`.
    fn tally(&self, what: &str, found: &Metered) -> String {
        let Metered { outside, measured, .. } = *found;
        let were = if outside == 1 { "was" } else { "were" };
        format!(
            "{what}; {outside} of {measured} measurements {were} outside, {} are borne",
            self.failure_limit
        )
    }
}
