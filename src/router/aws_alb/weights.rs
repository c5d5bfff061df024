//! Shares as the weights that a rule may give its target groups.

/// Of one target group.
pub const MAX_WEIGHT: u16 = 999;

/// Of one rule.
pub const MAX_GROUPS: usize = 5;

const WHOLE: u32 = traffic::BUCKETS as u32;

/// Weights by which each share is less than 0.01 points off, and exact where that can be had. Shares, in units of 0.01 %, come to
/// [`traffic::BUCKETS`]; who has none has no weight. None: weights of at most [`MAX_WEIGHT`] can't say it.
#[must_use]
pub fn weights(hundredths: &[u16]) -> Option<Vec<u16>> {
    let divisor = hundredths.iter().copied().map(u32::from).fold(WHOLE, greatest_common_divisor);
    let longest = hundredths.len() as u32 * u32::from(MAX_WEIGHT);
    std::iter::once(WHOLE / divisor)
        .chain(1..=longest)
        .filter_map(|total| {
            let weights = of_total(hundredths, total)?;
            let off = off_by(hundredths, &weights);
            (off < 1.0).then_some((off, weights))
        })
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, weights)| weights)
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The nearest ones that come to about this.
fn of_total(hundredths: &[u16], total: u32) -> Option<Vec<u16>> {
    let weight = |share: &u16| {
        let weight = u16::try_from((u32::from(*share) * total + WHOLE / 2) / WHOLE).ok()?;
        (weight <= MAX_WEIGHT && (weight > 0 || *share == 0)).then_some(weight)
    };
    hundredths.iter().map(weight).collect()
}

/// By how many hundredths of a percent the share that is most off is off.
fn off_by(hundredths: &[u16], weights: &[u16]) -> f64 {
    let sum: f64 = weights.iter().copied().map(f64::from).sum();
    let off = hundredths
        .iter()
        .zip(weights)
        .map(|(share, weight)| (f64::from(*weight) * f64::from(WHOLE) / sum - f64::from(*share)).abs());
    off.fold(0.0, f64::max)
}

/// What weights come to, in units of 0.01 %: rounded, so that all of them come to [`traffic::BUCKETS`]. Weights of nobody: no shares.
#[must_use]
pub fn hundredths(weights: &[u16]) -> Vec<u16> {
    let sum: u32 = weights.iter().copied().map(u32::from).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let parts = weights.iter().map(|weight| u32::from(*weight) * WHOLE);
    let mut shares: Vec<u16> = parts.clone().map(|part| (part / sum) as u16).collect();
    let left = WHOLE - shares.iter().copied().map(u32::from).sum::<u32>();
    let mut order: Vec<(u32, usize)> = parts.map(|part| part % sum).zip(0..).collect();
    order.sort_by_key(|&(rest, at)| (std::cmp::Reverse(rest), at));
    for &(_, at) in order.iter().take(left as usize) {
        shares[at] += 1;
    }
    shares
}
