//! The losses of changes of shares, and that the count sees losses.

use rustix::process::{Pid, Signal, kill_process};

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
