//! Sorting numbers: as whole numbers that have the same order, which are compared in one step.

/// Sorts as [`f64::total_cmp`] does.
pub fn sort(values: &mut [f64]) {
    let mut keys: Vec<u64> = values.iter().map(|value| key(*value)).collect();
    keys.sort_unstable();
    for (value, key) in values.iter_mut().zip(keys) {
        *value = from_key(key);
    }
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
