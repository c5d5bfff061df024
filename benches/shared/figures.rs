/// The median of some numbers; not a number where there is none.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The median of what rounds that followed each other come to.
pub fn paired(ours: &[f64], theirs: &[f64], of: impl Fn(f64, f64) -> f64) -> f64 {
    let pairs: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| of(*ours, *theirs)).collect();
    median(&pairs)
}
