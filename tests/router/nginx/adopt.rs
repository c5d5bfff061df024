//! What nginx serves by its operator's own configuration.

use super::real::RealNginx;
use crate::{
    conformance::{Real as _, done},
    world::{
        backend::Backend,
        place::free_port,
        wants::{service, wanted},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_the_operators_is_adopted_from_what_nginx_prints() {
    let port = free_port();
    let backend = Backend::start("A").await;
    let site = format!(
        "upstream shop {{ server {0}; }}\nserver {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://shop; }} }}\n",
        backend.target
    );
    let real = RealNginx::start_with(1, &site).await;
    let router = real.open();
    let before = real.of_others();
    let lines = router.adopt("shop").await.unwrap();
    for line in [
        &format!("    ports: [{{port: {port}, protocol: HTTP}}]"),
        &format!("      - {{name: stable, targets: [\"{}\"]}}", backend.target),
        "  - name: shop",
    ] {
        assert!(lines.lines().any(|one| one == line), "{lines}");
    }
    assert!(lines.contains("is included already"), "{lines}");
    assert_eq!(real.of_others(), before);
    assert!(router.adopt("nobody").await.unwrap_err().to_string().contains("no service \"nobody\""));
    // What is led isn't adopted again.
    let led = service("checkout", free_port(), &Backend::start_all(["A", "B"]).await, &[10_000, 0]);
    done(&router, &wanted(1, &[&led])).await;
    assert!(router.adopt("checkout").await.unwrap_err().to_string().contains("is led already"));
    real.spoil(true);
    assert!(router.adopt("shop").await.unwrap_err().to_string().contains("this_is_no_directive"));
}
