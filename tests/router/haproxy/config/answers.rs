//! Answers of the runtime socket as a real one gave them, and others.

use proptest::prelude::*;
use router::haproxy::config::{
    Info, Maps, ProcessReport, entries_of, info_of, maps_of, obeyed, seen, under_way, version_of,
};
use traffic::{
    desired::Number,
    observed::{Difference, differences},
};

use super::{model::Model, number, shop, wanted};

#[test]
fn a_process_says_which_it_is_and_which_maps_it_has() {
    let info =
        "Name: HAProxy\nVersion: 2.6.12-1+deb12u3\nPid: 9495\nUptime: 0d 0h00m01s\nStopping: 1\nJobs: 4\n";
    assert_eq!(info_of(info), Ok(Info { pid: 9495, is_stopping: true }));
    assert!(info_of("Pid: 9495\n").is_err());
    let maps = "# id (file) description\n-1 () pattern for acl 'x'\n4 (/a/b.table) pattern loaded from file '/a/b.table' \
                used by map at file 'o.cfg' line 12. curr_ver=0 next_ver=0 entry_cnt=0\n";
    assert_eq!(maps_of(maps), Ok(vec!["/a/b.table"]));
    assert!(maps_of("Unknown command").is_err());
}

#[test]
fn entries_have_values_of_any_kind_and_are_put_in_order() {
    let entries = entries_of("0x55aa102f9970 2 B\n0x55aa102f9a50 1 with spaces\n\n").unwrap();
    assert_eq!(entries, [("1".to_owned(), "with spaces".to_owned()), ("2".to_owned(), "B".to_owned())]);
    assert!(entries_of("Unknown map identifier. Please use #<id> or <file>.\n").is_err());
    assert_eq!(entries_of("\n"), Ok(Vec::new()));
}

#[test]
fn a_command_was_obeyed_where_nothing_is_said() {
    assert_eq!(obeyed("\n"), Ok(()));
    assert!(obeyed("entry not found.\n").is_err());
    assert_eq!(version_of("New version created: 4294967295\n"), Ok(u32::MAX));
    assert!(version_of("Permission denied\n").is_err());
}

#[test]
fn calls_in_flight_include_served_and_queued() {
    let answer = "# pxname,svname,qcur,qmax,scur,smax,stot\nchoirmaster:shop:B,BACKEND,2,9,5,9,40\n";
    assert_eq!(under_way(answer, "shop", "B"), Ok(7));
    assert_eq!(under_way("No such proxy.\n", "shop", "B"), Ok(0));
    assert!(under_way("Permission denied\n", "shop", "B").is_err());
}

#[test]
fn a_target_that_was_given_another_address_is_seen_there() {
    let wanted = wanted(1, &[shop()]);
    let model = Model::of(&wanted);
    let moved = model.servers().replace(" 127.0.0.1 ", " 192.0.2.1 ").replace(" 9111", " 9112");
    let seen = seen(ProcessReport { maps: &model.maps, servers: &moved, load: &model.load() }).unwrap();
    let differ = differences(&wanted, &seen);
    assert!(differ.iter().all(|one| matches!(one, Difference::Targets { .. })), "{differ:?}");
    let told: Vec<String> = seen.services["shop"]
        .variations
        .iter()
        .flat_map(|one| one.targets.iter().map(|one| one.target.to_string()))
        .collect();
    assert_eq!(told, ["192.0.2.1:9101", "[::1]:9102", "192.0.2.99:9112"]);
}

#[test]
fn health_is_what_a_check_found_and_nothing_before_it_did() {
    let wanted = wanted(1, &[shop()]);
    let model = Model::of(&wanted);
    let health = |state: &str| {
        let servers = model.servers().replace(" 2 0 3 6 ", state);
        let seen = seen(ProcessReport { maps: &model.maps, servers: &servers, load: &model.load() }).unwrap();
        seen.services["shop"].variations[1].targets[0].is_healthy
    };
    // Operational state, administrative state, result of the check, state of the check.
    assert_eq!(health(" 2 0 3 6 "), Some(true));
    assert_eq!(health(" 0 0 2 6 "), Some(false));
    assert_eq!(health(" 2 0 0 6 "), None, "nothing has looked yet");
    assert_eq!(health(" 2 0 0 0 "), None, "nothing looks");
    assert_eq!(health(" 0 1 0 0 "), Some(false), "an operator took it away");
    assert_eq!(health(" 0 32 0 0 "), Some(false), "its name leads nowhere");
}

#[test]
fn what_is_marked_as_ours_and_unknown_is_left_over() {
    let wanted = wanted(1, &[shop()]);
    let model = Model::of(&wanted);
    let load = model.load() + "theirs,BACKEND,0,0,0,0\nchoirmaster:ghost:A,BACKEND,0,0,0,0\n";
    let servers = model.servers() + "99 choirmaster:ghost:A 1 127.0.0.1:9 127.0.0.1 2 0 0 0 - 9\n";
    let said = ProcessReport { maps: &model.maps, servers: &servers, load: &load };
    assert_eq!(seen(said).unwrap().left_over, ["choirmaster:ghost:A"]);
    let none = seen(ProcessReport { maps: &Maps::new(), servers: &servers, load: &load }).unwrap();
    assert_eq!((none.number, none.services.len()), (None, 0));
}

#[test]
fn numbers_are_read_as_they_are_written() {
    assert_eq!(number(42).to_string().parse(), Ok(number(42)));
    for text in ["", "3", "3.", ".3", "3.x", "-1.2", "3.4.5", "99999999999999999999.1"] {
        assert_eq!(text.parse::<Number>(), Err(()), "{text:?}");
    }
}

proptest! {
    #[test]
    fn answers_that_make_no_sense_are_refused_or_read_and_end_nothing(text in "[ -~\n]{0,400}", lines in "(1\n# be_id be_name srv_name\n)?[0-9a-z:, \n]{0,200}") {
        for text in [&text, &lines] {
            let _ = info_of(text);
            let _ = maps_of(text);
            let _ = entries_of(text);
            let _ = version_of(text);
            let _ = under_way(text, "shop", "B");
            let _ = seen(ProcessReport { maps: &Maps::new(), servers: text, load: text });
        }
    }
}
