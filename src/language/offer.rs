use crate::{Diagnostic, Function, Interim, Stage};
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub id: String,
    pub functions: Vec<Function>,
    pub stages: Vec<OfferStage>,
    pub alpha: Option<f64>,
}
#[derive(Debug, Clone, PartialEq)]
pub struct OfferStage {
    pub stage: Stage,
    pub interim: Option<Interim>,
}
pub fn read(_: &str) -> Result<Offer, Vec<Diagnostic>> {
    Err(Vec::new())
}
