//! What was counted of each of more than two variations.

use serde::{Deserialize, Serialize};

use super::{
    counts::{HistogramForm, check_side},
    limits::{MAX_GROUPED_STRATA, MAX_GROUPS, MAX_STRATA, MAX_VARIATION_NAME_BYTES},
};
use crate::{
    WireError, number,
    read::{at_most, within},
};

/// What was counted of a variation of a service in one stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Variation")]
pub struct VariationForm {
    /// As the strategy calls it: at most [`MAX_VARIATION_NAME_BYTES`].
    pub name: String,
    #[serde(default, deserialize_with = "number::count")]
    pub calls: u64,
    #[serde(default, deserialize_with = "number::count")]
    pub errors: u64,
    /// Of the successful calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<HistogramForm>,
    /// Its calls apart by interval, at most [`MAX_STRATA`], or by group of users, at most [`MAX_GROUPED_STRATA`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strata: Vec<VariationStratumForm>,
}

/// What was counted of a variation during one interval of a stage, or of one group of users over the whole of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "VariationStratum")]
pub struct VariationStratumForm {
    /// Which part of the stage, from 0.
    #[serde(default, deserialize_with = "number::count")]
    pub interval: u32,
    /// Below [`MAX_GROUPS`].
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    #[serde(default, deserialize_with = "number::count")]
    pub calls: u64,
    #[serde(default, deserialize_with = "number::count")]
    pub errors: u64,
}

impl VariationForm {
    pub(super) fn validate(&self, at: &str) -> Result<(), WireError> {
        within(&format!("{at}.name"), &self.name, MAX_VARIATION_NAME_BYTES)?;
        if self.name.is_empty() {
            return Err(WireError::new(&format!("`{at}.name` is empty")));
        }
        check_side(at, &self.name, Some(self.calls), Some(self.errors), self.histogram.as_ref())?;
        at_most(&format!("{at}.strata"), self.strata.len(), MAX_STRATA + MAX_GROUPED_STRATA)?;
        for stratum in &self.strata {
            if stratum.group.is_some_and(|group| group >= MAX_GROUPS) || stratum.errors > stratum.calls {
                let text = format!(
                    "`{at}.strata` have groups below {MAX_GROUPS}, and no more errors than calls: {stratum:?}"
                );
                return Err(WireError::new(&text));
            }
        }
        Ok(())
    }
}
