//! Numbers of a part of a stage.

use super::Reported;
use analysis::{Assignment, Values};

/// A stratum as it is reported and kept. f1 is the base version, f2 the new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stratum {
    /// Percentage of the calls that the new version was to get; `None`: that of the stage.
    pub split: Option<u8>,
    pub interval: u32,
    /// How it was chosen which version a call goes to; `None`: as the summary says, and by user where there is a group.
    pub assignment: Option<Assignment>,
    /// To which group of users all of these belong, over the whole stage.
    pub group: Option<u8>,
    /// Of children that were about as fast before the release ([`analysis::speed_classes`]); only managers tell it.
    pub class: Option<u8>,
    pub f1_calls: Option<u64>,
    pub f2_calls: Option<u64>,
    pub f1_errors: Option<u64>,
    pub f2_errors: Option<u64>,
    pub f1_histogram: Option<Box<Reported>>,
    pub f2_histogram: Option<Box<Reported>>,
    pub f1_values: Option<Box<Values>>,
    pub f2_values: Option<Box<Values>>,
}

impl Stratum {
    pub(in crate::release) fn forget_times(&mut self) {
        (self.f1_histogram, self.f2_histogram, self.f1_values, self.f2_values) = (None, None, None, None);
    }
}
