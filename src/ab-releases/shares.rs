//! Percentages of this interface, and the units of 0.01 % in which shares are kept.

/// 100 %.
pub const WHOLE: u16 = 10_000;

/// A percentage from 0 to 100 with at most two decimals.
#[must_use]
pub fn hundredths(percent: f64) -> Option<u16> {
    let scaled = percent * 100.0;
    let nearest = scaled.round();
    let is_one = (0.0..=f64::from(WHOLE)).contains(&scaled) && (scaled - nearest).abs() < 1e-6;
    is_one.then_some(nearest as u16)
}

#[must_use]
pub fn percent(hundredths: u16) -> f64 {
    f64::from(hundredths) / 100.0
}

/// Shares `whole` by these weights, so that it is all given away: what is left over goes to whom rounding took most from.
pub fn apportion(whole: u16, weights: &[u16]) -> Vec<u16> {
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    if sum == 0 {
        return weights.iter().enumerate().map(|(at, _)| if at == 0 { whole } else { 0 }).collect();
    }
    let exact = |weight: &u16| u64::from(whole) * u64::from(*weight);
    let mut shares: Vec<u16> = weights.iter().map(|weight| (exact(weight) / sum) as u16).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(exact(&weights[*at]) % sum), *at));
    let left = whole - shares.iter().sum::<u16>();
    for at in order.into_iter().take(usize::from(left)) {
        shares[at] += 1;
    }
    shares
}
