use std::time::Duration;
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Judge {}
pub struct Breach { pub condition: usize, pub text: String }
impl Judge {
    pub fn new(_: &language::Stage, _: f64) -> Self { Self {} }
    pub fn look(&mut self, _: &crate::measure::StageCounts, _: Duration) -> Option<Breach> { None }
}
