//! The losses of changes of shares, and that the count sees losses.

use super::real::RealNginx;
use crate::{conformance::Real as _, loss, world::wants::wanted};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_cut_or_doubled_by_changes_of_shares() {
    loss::no_call_is_lost_cut_or_doubled_by_changes_of_shares::<RealNginx>().await;
}

/// Loading a configuration anew closes connections of callers who are about to call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_at_each_change_loses_calls_and_that_is_counted() {
    let router = tokio::sync::OnceCell::new();
    loss::the_count_sees_losses::<RealNginx>(async |real, number, spec| {
        let router = router.get_or_init(async || real.open()).await;
        router.apply(&wanted(u64::from(number) + 1, &[spec])).await.unwrap();
        router.reload().await.unwrap();
    })
    .await;
}
