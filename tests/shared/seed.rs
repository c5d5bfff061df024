//! The seed of all tests that draw at random.

/// The number in the environment variable `CHOIRMASTER_TEST_SEED`: the one in `.cargo/config.toml`, unless whoever runs the tests gives
/// another. A test that fails says it, so that the same can be drawn again.
pub fn seed() -> u64 {
    let text = std::env::var("CHOIRMASTER_TEST_SEED").unwrap_or_else(|_| "0".to_owned());
    text.parse().unwrap_or_else(|_| panic!("CHOIRMASTER_TEST_SEED must be a number, not {text:?}"))
}
