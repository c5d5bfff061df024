//! Looks of a judgement at whether it passes before its end: the rules of [`super::early_pass`] over its hypotheses.

use super::{
    early_pass::spent,
    evidence::Verdict,
    hypothesis::{Hypothesis, Inflation},
    judge::Judgement,
};

impl Judgement {
    /// Whether it passed before its last look, and may go on.
    pub fn is_early_pass(&self) -> bool {
        self.verdict == Some(Verdict::Pass) && self.early
    }

    /// Goes on after an early pass, because something else is still to be waited for. A later look may fail, or no longer pass.
    pub fn go_on(&mut self) {
        if self.is_early_pass() {
            self.verdict = None;
            self.early = false;
        }
    }

    /// A look at whether it passes, when the share `gone` of the duration has gone by.
    pub(super) fn look_for_pass(&mut self, inflations: &[Inflation], gone: f64, is_last: bool) {
        if !self.design.passes_early() {
            return;
        }
        let floor = self.design.floor();
        let spent = spent(self.design.early, self.design.planned_alpha(), gone);
        for (hypothesis, inflation) in self.hypotheses.iter_mut().zip(inflations) {
            hypothesis.look_for_pass(*inflation, spent, floor, is_last);
        }
    }

    /// The level at which the last look was for a pass; alpha as planned where it is taken once, at the end.
    pub(super) fn pass_level(&self) -> f64 {
        let planned = self.design.planned_alpha();
        let levels = self.hypotheses.iter().filter_map(|hypothesis| hypothesis.passing.level());
        levels.fold(planned, f64::min)
    }
}

impl Hypothesis {
    fn look_for_pass(&mut self, inflation: Inflation, spent: f64, floor: Option<f64>, is_last: bool) {
        let judged = self.for_pass();
        let information = judged.information(inflation);
        let p = judged.tails(inflation).lower;
        let floor = floor.filter(|_| self.high).map(|floor| (floor, self.against_floor()));
        self.passing.look(information, p, spent, floor, is_last);
    }
}
