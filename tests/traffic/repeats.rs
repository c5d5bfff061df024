use traffic::{Failure, Recent, Retry, may_repeat};

#[test]
fn what_may_have_been_carried_out_is_repeated_only_where_that_is_declared_or_harmless() {
    for failure in Failure::ALL {
        assert!(may_repeat(Retry::default_for(b"GET"), failure));
        assert_eq!(may_repeat(Retry::default_for(b"POST"), failure), failure == Failure::Refused);
        assert!(!may_repeat(Retry::Never, failure));
    }
}

#[test]
fn a_new_version_that_fails_more_than_half_of_its_calls_gets_one_in_twenty() {
    let mut recent = Recent::default();
    for _ in 0..10 {
        assert!(!recent.passes_over());
        recent.note(true);
    }
    assert!(!recent.passes_over(), "half isn't more than half");
    recent.note(true);
    let got = (0..200).filter(|_| !recent.passes_over()).count();
    assert_eq!(got, 10);
    for _ in 0..20 {
        recent.note(false);
    }
    assert!(!recent.passes_over());
}
