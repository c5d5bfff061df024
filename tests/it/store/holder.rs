//! Which holders of a lease are certainly gone.

use store::lease_holder::{LeaseHolder, UNKNOWN};

#[test]
fn a_running_process_is_not_dead_and_one_of_an_earlier_start_is() {
    let me = LeaseHolder::this_process();
    assert!(!me.proves_dead(&me.to_string()));
    let earlier = LeaseHolder { started: "1".to_owned(), ..me.clone() };
    assert!(me.proves_dead(&earlier.to_string()));
}

#[test]
fn nothing_is_proven_about_other_hosts_boots_namespaces_and_unreadable_texts() {
    let me = LeaseHolder::this_process();
    let gone = LeaseHolder { started: "1".to_owned(), ..me.clone() };
    for other in [
        LeaseHolder { host: "elsewhere".to_owned(), ..gone.clone() },
        LeaseHolder { boot: "another".to_owned(), ..gone.clone() },
        LeaseHolder { namespace: "pid:[1]".to_owned(), ..gone.clone() },
        LeaseHolder { started: UNKNOWN.to_owned(), ..gone.clone() },
    ] {
        assert!(!me.proves_dead(&other.to_string()), "{other}");
    }
    assert!(!me.proves_dead(""));
    assert!(!me.proves_dead("host=a pid=x started=1 namespace=b boot=c"));
}
