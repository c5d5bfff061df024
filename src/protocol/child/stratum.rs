//! What was counted apart: under one split, during one interval, in one group of users.

use serde::{Deserialize, Serialize};

use super::{
    counts::{HistogramForm, check_side},
    limits::MAX_GROUPS,
};
use crate::{WireError, number};
use analysis::speed_classes::MAX_CLASSES;

/// What was counted under one split during one interval of a stage. f1 is the base version, f2 the new one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Stratum")]
pub struct StratumForm {
    /// Percentage of the calls that the new version was to get; absent: as the stage orders.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub split: Option<u8>,
    /// Which part of the stage, from 0.
    #[serde(default, deserialize_with = "number::count")]
    pub interval: u32,
    /// How it was chosen which version a call goes to; absent: as the summary says, and by user where there is a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<analysis::Assignment>,
    /// To which group of users, by a hash, all of these belong: below [`MAX_GROUPS`], and over the whole stage. Only to who
    /// knows the feature `groups`.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Only managers, to who asked for `classes`: a stratum of children that were about as fast before the release, from 0.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub class: Option<u8>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub f1_calls: Option<u64>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub f2_calls: Option<u64>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub f1_errors: Option<u64>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub f2_errors: Option<u64>,
    /// Of the successful calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_histogram: Option<HistogramForm>,
    /// Of the successful calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_histogram: Option<HistogramForm>,
    /// Of the successful calls, told more exactly; the histogram doesn't count then. Only to who knows the feature `values`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_values: Option<Box<analysis::Values>>,
    /// Of the successful calls of the new version, told more exactly, as `f1_values` tells those of the base version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_values: Option<Box<analysis::Values>>,
}

impl StratumForm {
    pub(super) fn validate(&self, at: &str) -> Result<(), WireError> {
        if let Some(percent) = self.split.filter(|percent| *percent > 100) {
            let text = format!("`{at}.split` is {percent}: a percentage is from 0 to 100");
            return Err(WireError::new(&text));
        }
        self.group.map_or(Ok(()), |group| self.check_group(at, group))?;
        if let Some(class) = self.class.filter(|class| *class >= MAX_CLASSES) {
            let text = format!("`{at}.class` is {class}: classes are from 0 to {}", MAX_CLASSES - 1);
            return Err(WireError::new(&text));
        }
        check_side(at, "f1", self.f1_calls, self.f1_errors, self.f1_histogram.as_ref())?;
        check_side(at, "f2", self.f2_calls, self.f2_errors, self.f2_histogram.as_ref())
    }

    fn check_group(&self, at: &str, group: u8) -> Result<(), WireError> {
        let text = if group >= MAX_GROUPS {
            format!("`{at}.group` is {group}: groups of users are numbered from 0 to {}", MAX_GROUPS - 1)
        } else if self.assignment == Some(analysis::Assignment::Call) {
            format!(
                "`{at}.group` is {group}, and `assignment` is call: a group is one of users all of whose calls go to one \
                 version, so it is user or child"
            )
        } else if self.interval != 0 {
            let interval = self.interval;
            format!(
                "`{at}.interval` is {interval}: a group counts over the whole stage, so it is 0 or left out"
            )
        } else {
            return Ok(());
        };
        Err(WireError::new(&text))
    }
}
