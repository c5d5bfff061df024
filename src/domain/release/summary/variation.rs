//! Numbers of one of more than two variations of a service.

use super::Reported;

/// What was counted of a variation in a stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Variation {
    pub name: String,
    pub calls: u64,
    pub errors: u64,
    /// Of the successful calls.
    pub histogram: Option<Box<Reported>>,
    /// Its calls apart.
    pub strata: Vec<VariationStratum>,
}

/// What was counted of a variation during one interval, or of one group of users over the whole stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VariationStratum {
    pub interval: u32,
    pub group: Option<u8>,
    pub calls: u64,
    pub errors: u64,
}
