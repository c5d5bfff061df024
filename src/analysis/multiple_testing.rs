//! alpha belongs to the release; its metrics share it (Bonferroni, with weights).

/// Of each metric, in their order, for `alpha` in all. A weight that is no positive number (a dry run has none) gets
/// nothing.
pub fn shares(alpha: f64, weights: &[f64]) -> Vec<f64> {
    let counted = |w: f64| if w.is_finite() && w > 0.0 { w } else { 0.0 };
    let all: f64 = weights.iter().map(|w| counted(*w)).sum();
    weights.iter().map(|w| if all > 0.0 { alpha * counted(*w) / all } else { 0.0 }).collect()
}
