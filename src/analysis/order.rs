//! Sorting numbers: as whole numbers that have the same order, which are compared in one step.

/// In the order of [`f64::total_cmp`].
pub fn sorted(values: Vec<f64>) -> Vec<f64> {
    // Both conversions happen in place.
    let mut keys: Vec<u64> = values.into_iter().map(key).collect();
    keys.sort_unstable();
    keys.into_iter().map(from_key).collect()
}

/// Where the lowest value stands, the next one, and so on.
pub fn places_in_order(values: &[f64]) -> Vec<usize> {
    let mut keys: Vec<(u64, usize)> = values.iter().map(|value| key(*value)).zip(0..).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, at)| at).collect()
}

const SIGN: u64 = 1 << 63;

/// A whole number with the order of the float: negative ones turned over, the others above them.
fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn from_key(key: u64) -> f64 {
    f64::from_bits(if key & SIGN == 0 { !key } else { key & !SIGN })
}
