//! What follows from a list, without any socket.

use std::io;

use proptest::prelude::*;
use proxy::{
    Kind, Listen,
    listens::{Difference, ListenFault, ListenFaultClass, differ},
};
use rustix::io::Errno;
use serde_json::json;

const KINDS: [Kind; 5] = [Kind::Plain, Kind::Tls, Kind::Tcp, Kind::PassThrough, Kind::Udp];

/// Each at most once; so few different ones that two lists have many in common.
fn listens() -> impl Strategy<Value = Vec<Listen>> {
    let one = (0..KINDS.len(), 1..5_u16)
        .prop_map(|(kind, port)| Listen { kind: KINDS[kind], address: ([127, 0, 0, 1], port).into() });
    prop::collection::vec(one, 0..16).prop_map(|all| {
        let mut once = Vec::new();
        for listen in all {
            if !once.contains(&listen) {
                once.push(listen);
            }
        }
        once
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::cases::cases(256) })]

    #[test]
    fn what_is_opened_and_closed_leads_to_the_list_and_touches_nothing_that_stays(
        now in listens(),
        wanted in listens(),
    ) {
        let Difference { open, close } = differ(&now, &wanted);
        prop_assert!(open.iter().all(|listen| !now.contains(listen)));
        prop_assert!(close.iter().all(|listen| now.contains(listen) && !wanted.contains(listen)));
        let stays: Vec<Listen> = now.iter().copied().filter(|listen| !close.contains(listen)).collect();
        let then = [stays, open.clone()].concat();
        prop_assert_eq!(then.len(), wanted.len());
        prop_assert!(wanted.iter().all(|listen| then.contains(listen)));
        let in_order: Vec<Listen> = wanted.iter().copied().filter(|listen| open.contains(listen)).collect();
        prop_assert_eq!(&open, &in_order);
        prop_assert_eq!(differ(&then, &wanted), Difference { open: Vec::new(), close: Vec::new() });
        // The way back.
        prop_assert_eq!(differ(&wanted, &now).close.len(), open.len());
    }
}

#[test]
fn what_the_system_says_of_an_address_is_told_by_what_can_be_done_about_it() {
    use ListenFaultClass::{Conflict, Forbidden, Invalid, NoRoom};
    let listen = Listen { kind: Kind::Tcp, address: ([127, 0, 0, 1], 81).into() };
    for (errno, class) in [
        (Errno::ACCESS, Forbidden),
        (Errno::PERM, Forbidden),
        (Errno::ADDRNOTAVAIL, Forbidden),
        (Errno::ADDRINUSE, Conflict),
        (Errno::MFILE, NoRoom),
        (Errno::NOBUFS, NoRoom),
        (Errno::INVAL, Invalid),
        (Errno::AFNOSUPPORT, Invalid),
    ] {
        let error = io::Error::from_raw_os_error(errno.raw_os_error());
        let fault = ListenFault::of_system(listen, &error);
        assert_eq!(fault.class, class, "{error}");
        assert!(
            fault.why.contains("tcp://127.0.0.1:81") && fault.why.contains(&error.to_string()),
            "{fault}"
        );
    }
}

#[test]
fn what_a_later_program_says_of_a_list_is_to_be_asked_again() {
    for (class, known) in [("conflict", ListenFaultClass::Conflict), ("of_later", ListenFaultClass::Busy)] {
        let fault: ListenFault = serde_json::from_value(json!({"class": class, "why": "it is so"})).unwrap();
        assert_eq!((fault.class, fault.why.as_str()), (known, "it is so"));
    }
}
