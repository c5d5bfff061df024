//! What values of the domain are called in the trail alone.

use serde::Serialize;

use domain::children::{Arrival, Forgetting, Variant};

#[derive(Serialize)]
#[serde(remote = "Arrival", rename_all = "snake_case")]
pub(super) enum ArrivalForm {
    Registered,
    Adopted,
}

#[derive(Serialize)]
#[serde(remote = "Forgetting", rename_all = "snake_case")]
pub(super) enum ForgettingForm {
    Ghost,
    Replaced,
    ByOperator,
}

#[derive(Serialize)]
#[serde(remote = "Variant", rename_all = "snake_case")]
pub(super) enum VariantForm {
    Base,
    New,
    Unknown,
}
