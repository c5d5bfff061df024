//! Work that gives way to others is the same work.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use engine::blocking::{self, BYTES, ITEMS, giving_way, write_json};
use tokio::time::timeout;

use crate::deadline::DEADLINE;

#[test]
fn items_come_as_they_are_however_many() {
    for count in [0, 1, ITEMS, 10 * ITEMS + 1] {
        assert!(giving_way(0..count).eq(0..count));
    }
}

#[tokio::test]
async fn json_is_what_it_is_without_giving_way() {
    let long: Vec<String> = (0..BYTES).map(|at| format!("\"{at}\" \\ ü")).collect();
    let expected = serde_json::to_vec(&long).unwrap();
    assert_eq!(write_json(move || long).await.unwrap(), expected);
}

#[tokio::test]
async fn a_long_work_leaves_their_turns_to_as_many_as_come_after_it() {
    let is_over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_over);
    let goes_on = move |(): &()| !seen.load(Ordering::Relaxed);
    let long = tokio::spawn(blocking::run(move || giving_way(iter::repeat(())).take_while(goes_on).count()));
    for number in 0..100 {
        let short = timeout(DEADLINE, blocking::run(move || number)).await;
        assert_eq!(short.unwrap().unwrap(), number);
    }
    is_over.store(true, Ordering::Relaxed);
    timeout(DEADLINE, long).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn who_breaks_off_leaves_its_turn_to_others() {
    for number in 0..10 {
        let broken =
            blocking::run(|| assert!(giving_way(0..ITEMS).next().is_none(), "this work breaks off")).await;
        assert!(broken.is_err());
        assert_eq!(timeout(DEADLINE, blocking::run(move || number)).await.unwrap().unwrap(), number);
    }
}
