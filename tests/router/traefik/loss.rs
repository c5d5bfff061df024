//! The losses of changes of shares.

use super::RealTraefik;
use crate::loss;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_cut_or_doubled_by_changes_of_shares() {
    loss::no_call_is_lost_cut_or_doubled_by_changes_of_shares::<RealTraefik>().await;
}
