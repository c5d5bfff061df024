//! What `HAProxy` serves by its operator's own configuration.

use traffic::HashFunction;

use super::RealHaproxy;
use crate::{
    conformance::{Real as _, done},
    world::{
        backend::Backend,
        place::free_port,
        wants::{service, wanted},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_the_operators_is_adopted_from_its_configuration() {
    let real = RealHaproxy::start().await;
    let router = real.open();
    let port = free_port();
    let operators = real.of_others().into_keys().next().unwrap();
    let text = std::fs::read_to_string(&operators).unwrap();
    let own = format!(
        "{text}\nfrontend www\n  mode http\n  bind 127.0.0.1:{port}\n  default_backend web\nbackend web\n  mode http\n  server one 127.0.0.1:9101\n"
    );
    std::fs::write(&operators, &own).unwrap();
    let lines = router.adopt("www").await.unwrap();
    for line in [
        &format!("    ports: [{{port: {port}, protocol: HTTP}}]"),
        "      - {name: stable, targets: [\"127.0.0.1:9101\"]}",
        "  - name: www",
    ] {
        assert!(lines.lines().any(|one| one == line), "{lines}");
    }
    assert!(lines.contains("as the last -f"), "{lines}");
    assert_eq!(std::fs::read_to_string(&operators).unwrap(), own, "nothing is changed");
    assert!(router.adopt("nobody").await.unwrap_err().to_string().contains("no service \"nobody\""));
    // What is led isn't adopted again.
    let mut led = service("checkout", free_port(), &Backend::start_all(["A", "B"]).await, &[10_000, 0]);
    led.hash = HashFunction::Xxh32;
    done(&router, &wanted(1, &[&led])).await;
    assert!(router.adopt("checkout").await.unwrap_err().to_string().contains("is led already"));
}
