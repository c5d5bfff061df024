//! What the task removes beside its commands.

use engine::tried_alone::{PRUNE_EVERY, PRUNE_SLICE, prune_again};

#[test]
fn more_audit_rows_can_be_removed_than_are_written() {
    // With every commit one, and commits as fast as the fastest store makes them.
    let removed_in_a_minute = u64::from(PRUNE_SLICE) * (60 / prune_again(PRUNE_SLICE.into()).as_secs());
    assert!(removed_in_a_minute >= 60 * 2_000);
    assert_eq!(prune_again(u64::from(PRUNE_SLICE) - 1), PRUNE_EVERY);
}
