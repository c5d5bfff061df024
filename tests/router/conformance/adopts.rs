//! What a router serves by its operator's own configuration.

use super::{Real, done};
use crate::world::{
    backend::Backend,
    wants::{service, wanted},
};

pub async fn a_service_of_the_operators_is_adopted_from_its_configuration<R: Real>() {
    let real = R::start().await;
    let router = real.open();
    let port = real.port();
    let backend = Backend::start("A").await;
    real.serve_besides("shop", port, &backend.target.to_string());
    let before = real.of_others();
    let lines = router.adopt("shop").await.unwrap();
    for line in [
        // Some have it by a host.
        &format!("    ports: [{{port: {port}, protocol: HTTP"),
        &format!("      - {{name: stable, targets: [\"{}\"]}}", backend.target),
        "  - name: shop",
    ] {
        assert!(lines.lines().any(|one| one.starts_with(line)), "{lines}");
    }
    assert!(lines.contains(R::LED_BY), "{lines}");
    assert_eq!(real.of_others(), before, "nothing is changed");
    assert!(router.adopt("nobody").await.unwrap_err().to_string().contains("no service \"nobody\""));
    // What is led isn't adopted again.
    let mut led = service("checkout", real.port(), &Backend::start_all(["A", "B"]).await, &[10_000, 0]);
    led.hash = R::HASH;
    done(&router, &wanted(1, &[&led])).await;
    assert!(router.adopt("checkout").await.unwrap_err().to_string().contains("is led already"));
}
