//! What nginx prints of its configuration, and refuses to.

use super::real::RealNginx;
use crate::conformance::Real as _;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_adopted_from_a_configuration_that_nginx_refuses() {
    let real = RealNginx::start().await;
    let router = real.open();
    real.serve_besides("shop", crate::world::place::free_port(), "127.0.0.1:9101");
    router.adopt("shop").await.unwrap();
    real.spoil(true);
    assert!(router.adopt("shop").await.unwrap_err().to_string().contains("this_is_no_directive"));
}
