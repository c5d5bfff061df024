//! What a crash of the machine takes with it.

use router::{Router as _, nginx::Nginx};
use traffic::observed::{Difference, differences};

use super::real::RealNginx;
use crate::{
    conformance::{Real as _, done},
    world::{
        backend::Backend,
        caller::Caller,
        place::free_port,
        wants::{service, wanted},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_that_went_with_the_memory_are_made_anew_before_nginx_starts() {
    let mut real = RealNginx::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B", "C"]).await;
    let port = free_port();
    let wanted = wanted(1, &[&service("checkout", port, &backends, &[0, 10_000, 0])]);
    done(&router, &wanted).await;
    real.kill().await;
    std::fs::remove_dir_all(real.buckets()).unwrap();
    real.start_again().await;
    // Everybody gets the stable variation, and that is seen.
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "A");
    let differ = differences(&wanted, &router.read().await.unwrap());
    assert!(differ.iter().any(|one| matches!(one, Difference::Number { seen: None, .. })), "{differ:?}");
    assert!(differ.iter().any(|one| matches!(one, Difference::Shares { .. })), "{differ:?}");
    real.kill().await;
    drop(router);
    let router = Nginx::new(real.settings());
    router.restore().await.unwrap();
    real.start_again().await;
    assert_eq!(differences(&wanted, &router.read().await.unwrap()), []);
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let real = RealNginx::start().await;
    std::fs::create_dir(real.buckets()).unwrap();
    std::fs::set_permissions(real.buckets(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = service("checkout", free_port(), &backends, &[5_000, 5_000]);
    let error = real.open().apply(&wanted(1, &[&spec])).await.unwrap_err();
    assert!(error.to_string().contains("nobody else may write to"), "{error}");
}
