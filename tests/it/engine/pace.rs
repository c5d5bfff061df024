//! How children are spread over time.

use engine::pace::delay_ms;
use model::ChildKey;

#[test]
fn delays_are_spread_evenly_and_no_longer_than_the_jitter() {
    let jitter = 1_000;
    let mut tenths = [0_u32; 11];
    for child in 0..10_000 {
        let delay = delay_ms(ChildKey(child), jitter);
        assert!(delay <= jitter);
        tenths[delay as usize / 100] += 1;
    }
    assert!(tenths[..10].iter().all(|count| (900..1_100).contains(count)), "{tenths:?}");
}
