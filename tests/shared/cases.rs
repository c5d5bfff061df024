//! How much is tried of what is drawn at random.

use proptest::test_runner::Config;

/// Of what `tests/run --all` tries, `tests/run` tries one in so many: it draws the same each time, so the others show little that is new.
const ONE_IN: u64 = 4;

/// Whether this is `tests/run --all`, which draws anew in every run.
pub fn is_all() -> bool {
    std::env::var_os("CHOIRMASTER_TEST_ALL").is_some()
}

/// As many as the property thinks enough, or a part of them; or `PROPTEST_CASES`, for whoever wants a quick look or a long one.
pub fn cases(enough: u32) -> Config {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default(),
        None => Config::with_cases(some(enough.into()) as u32),
    }
}

/// So many, or a part of them.
pub fn some(all: u64) -> u64 {
    if is_all() { all } else { all.div_ceil(ONE_IN) }
}
