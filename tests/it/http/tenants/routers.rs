//! Routers and services that several have to do with.

use serde_json::{Value, json};

use super::Shared;

/// A service of this name that a router leads.
fn led(service: &str) -> Value {
    let variation = |name: &str, share: u16| json!({"name": name, "wanted": share, "seen": share, "targets": {"healthy": 1, "total": 1}});
    json!([{
        "name": service, "epoch": 1, "generation": 1, "seen_ago_ms": 5,
        "variations": [variation("A", 9_000), variation("B", 1_000)],
        "led": {"ports": [{"port": 8080, "protocol": "HTTP"}], "variations": [
            {"name": "A", "targets": ["127.0.0.1:9101"]}, {"name": "B", "targets": ["127.0.0.1:9111"]}]},
    }])
}

#[tokio::test]
async fn a_tenant_sees_its_own_routers_and_what_they_lead() {
    let shared = Shared::start().await;
    let own = shared.router_of("acme", "nginx", &led("checkout")).await;
    let other = shared.router_of("umbra", "nginx", &led("checkout")).await;
    shared.router_of("umbra", "nginx", &led("secret")).await;
    assert_eq!(shared.ids("ann", "/api/v1/routers").await, [own.as_str()]);
    assert_eq!(shared.ids("root", "/api/v1/routers").await.len(), 3);
    assert_eq!(shared.ids("ann", "/api/v1/routers?service=secret").await, [""; 0]);
    let services = shared.get("ann", "/api/v1/services").await.ok().json();
    let services = services["items"].as_array().unwrap();
    assert_eq!(services.len(), 1, "{services:#?}");
    assert_eq!((&services[0]["name"], &services[0]["routers"]), (&json!("checkout"), &json!(1)));
    let shown = shared.get("ann", "/api/v1/services/checkout").await.ok();
    assert!(shown.text().contains(&own) && !shown.text().contains(&other), "{}", shown.text());
    for (path, status) in [
        (format!("/api/v1/routers/{own}"), 200),
        (format!("/api/v1/routers/{own}/routes"), 200),
        (format!("/api/v1/routers/{other}"), 404),
        (format!("/api/v1/routers/{other}/routes"), 404),
        (format!("/api/v1/routers/{other}/orders/1"), 404),
        ("/api/v1/services/secret".to_owned(), 404),
    ] {
        assert_eq!(shared.get("ann", &path).await.status, status, "{path}");
    }
    let order = shared.post("ann", &format!("/api/v1/routers/{own}/repair"), &json!({})).await.ok().json();
    assert_eq!(order["what"], "repair");
    let shown = shared.get("ann", &format!("/api/v1/routers/{own}/orders/{}", order["number"])).await.ok();
    assert_eq!(shown.json(), order);
    for order in ["repair", "reload", "check"] {
        let refused = shared.post("ann", &format!("/api/v1/routers/{other}/{order}"), &json!({})).await;
        assert_eq!(refused.status, 404, "{order}");
    }
    shared.world.stop().await;
}
