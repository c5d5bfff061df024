//! When a commit waits for more commands.

use std::time::Duration;

use engine::tried_alone::{Gathering, LONGEST, Wait};

const COMMIT: Duration = Duration::from_millis(4);

#[test]
fn it_waits_for_those_who_were_answered_but_only_while_others_call() {
    let mut gathering = Gathering::default();
    assert_eq!(gathering.wait(5), None, "nobody was answered yet");
    gathering.committed(30, COMMIT);
    assert_eq!(gathering.wait(0), None);
    assert_eq!(gathering.wait(34), Some(Wait { until: 64, limit: COMMIT / 4 }));
    gathering.committed(30, Duration::from_secs(4));
    assert_eq!(gathering.wait(34).map(|wait| wait.limit), Some(LONGEST));
}

#[test]
fn waits_that_bring_nothing_become_rare_and_come_back_when_they_pay() {
    let mut gathering = Gathering::default();
    gathering.committed(30, COMMIT);
    let mut waits = 0;
    for _ in 0..10_000 {
        if gathering.wait(20).is_some() {
            waits += 1;
            gathering.waited(20, 1);
        }
    }
    assert!((10..100).contains(&waits), "{waits}");
    while gathering.wait(20).is_none() {}
    gathering.waited(20, 20);
    assert!(gathering.wait(20).is_some());
}
