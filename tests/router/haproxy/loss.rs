//! The losses of changes of shares, and that the count sees losses.

use rustix::process::{Pid, Signal, kill_process};

use traffic::desired::StickyTo;

use super::RealHaproxy;
use crate::{conformance::Real as _, loss, world::wants::wanted};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_cut_or_doubled_by_changes_of_shares() {
    loss::no_call_is_lost_cut_or_doubled_by_changes_of_shares::<RealHaproxy>().await;
}

/// The same callers find what a process that is killed takes with it: so none that are lost are overlooked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_a_killed_process_takes_with_it_are_counted_as_lost() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let outcome = loss::calls_while_shares_change(&real, (2_000, 20), async |number, spec| {
        let wanted = wanted(u64::from(number) + 1, &[spec]);
        if number == 10 {
            let worker = real.runtime().await.pid().await;
            kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::KILL).unwrap();
            return false;
        }
        // After that its master ends as well.
        router.apply(&wanted).await.is_ok_and(|applied| applied.was_reloaded)
    })
    .await;
    assert!(outcome.lost() > 0, "{}", outcome.sums);
}

/// What takes a reload loses none either: those who have a connection are told with the next answer that it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_cut_or_doubled_by_reloads() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let outcome = loss::calls_while_shares_change(&real, (10_000, 20), async |number, spec| {
        let mut spec = spec.clone();
        // Another salt is another structure.
        spec.salt = format!("release-{number}").parse().unwrap();
        spec.sticky = Some(StickyTo::Header("X-User".parse().unwrap()));
        router.apply(&wanted(u64::from(number) + 1, &[&spec])).await.unwrap().was_reloaded
    })
    .await;
    println!("{} reloads, {}, {} doubled", outcome.reloads, outcome.sums, outcome.doubled);
    assert_eq!((outcome.reloads, outcome.lost(), outcome.doubled), (20, 0, 0), "{}", outcome.sums);
}
