//! How many cases a property tries.

use proptest::test_runner::Config;

/// As many as the property thinks enough; or `PROPTEST_CASES`, for whoever wants a quick look or a long one.
pub fn cases(enough: u32) -> Config {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default(),
        None => Config::with_cases(enough),
    }
}
