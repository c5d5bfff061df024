//! What was measured on a node, on its way up.

use std::time::Duration;

use protocol::measurements::{MAX_SAMPLES, Measured, SAMPLES_EVERY, Sample, Samples, SamplesPace};
use tokio::time::Instant;

fn samples(count: usize) -> Samples {
    let one = Sample { at_ms: 1, what: Measured::Reset { collector: "c".to_owned() } };
    Samples { run: 1, first: 0, all: vec![one; count] }
}

#[test]
fn samples_are_told_once_in_a_while_and_at_once_where_more_wait_than_a_call_may_have() {
    let begin = Instant::now().into_std();
    let mut pace = SamplesPace::default();
    let mut due =
        |at: Duration, waiting: usize| pace.due(begin + at, || samples(waiting.min(MAX_SAMPLES))).all.len();
    let moment = Duration::from_millis(1);
    // Nobody waits for a call that had none.
    assert_eq!(due(Duration::ZERO, 0), 0);
    assert_eq!(due(moment, 3), 3);
    assert_eq!(due(SAMPLES_EVERY, 4), 0);
    assert_eq!(due(SAMPLES_EVERY + moment, 2 * MAX_SAMPLES), MAX_SAMPLES);
    assert_eq!(due(SAMPLES_EVERY + moment, MAX_SAMPLES), MAX_SAMPLES);
    assert_eq!(due(SAMPLES_EVERY + moment, 1), 1);
    assert_eq!(due(SAMPLES_EVERY + moment, 1), 0);
}
