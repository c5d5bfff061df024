//! Pages of routers and services say what the API says.

use serde_json::{Value, json};

use super::read::{Browser, rows, text_of};
use crate::http::tenants::Shared;

/// A service that a router leads, with these shares in hundredths of a percent.
fn led(service: &str, first: u16, seen: u16) -> Value {
    let variation = |name: &str, wanted: u16, seen: u16| json!({"name": name, "wanted": wanted, "seen": seen, "targets": {"healthy": 1, "total": 1}});
    json!([{
        "name": service, "epoch": 1, "generation": 1, "seen_ago_ms": 5,
        "variations": [variation("A", first, seen), variation("B", 10_000 - first, 10_000 - seen)],
        "led": {"ports": [{"port": 8080, "protocol": "HTTP"}], "variations": [
            {"name": "A", "targets": ["127.0.0.1:9101"]}, {"name": "B", "targets": ["127.0.0.1:9111"]}]},
    }])
}

fn percent(share: &Value) -> String {
    share.as_f64().map_or_else(|| "–".to_owned(), |share| format!("{share:.2} %"))
}

#[tokio::test]
async fn routers_and_services_are_shown_as_the_api_has_them_and_to_their_tenant_alone() {
    let shared = Shared::start().await;
    let one = shared.router_of("acme", "nginx", &led("checkout", 9_000, 8_750)).await;
    let two = shared.router_of("acme", "haproxy", &led("checkout", 7_525, 7_525)).await;
    let other = shared.router_of("umbra", "nginx", &led("secret", 5_000, 5_000)).await;
    let ann = Browser::of(&shared, "ann").await;

    let (_, text) = ann.get("/ui/routers").await;
    let shown = rows(&text);
    assert_eq!(shown.len(), 2);
    for router in shared.get("ann", "/api/v1/routers").await.ok().json()["items"].as_array().unwrap() {
        let row = &shown[router["id"].as_str().unwrap()];
        assert_eq!(row["kind"], router["kind"].as_str().unwrap());
        assert!(row["phase"].starts_with("in force since "), "{row:?}");
        assert_eq!(row["services"], "checkout");
    }
    assert_eq!(rows(&ann.get("/ui/routers?phase=idle").await.1).len(), 0);
    assert_eq!(rows(&ann.get("/ui/routers?service=checkout").await.1).len(), 2);

    let detail = shared.get("ann", "/api/v1/services/checkout").await.ok().json();
    let (_, text) = ann.get("/ui/services/checkout").await;
    let shown = rows(&text);
    for led in detail["by_router"].as_array().unwrap() {
        let (router, of_router) = (
            led["router"].as_str().unwrap(),
            rows(&ann.get(&format!("/ui/routers/{}", led["router"].as_str().unwrap())).await.1),
        );
        for variation in led["variations"].as_array().unwrap() {
            let key = format!("{router}/checkout/{}", variation["name"].as_str().unwrap());
            for row in [&shown[&key], &of_router[&key]] {
                for name in ["wanted", "seen", "measured"] {
                    assert_eq!(row[name], percent(&variation[name]), "{key} {name}");
                }
                assert_eq!(row["targets"], "1 of 1");
            }
        }
    }
    // Over both routers: where they differ, from the lowest to the highest.
    let all = rows(&ann.get("/ui/services").await.1);
    assert_eq!(all["checkout/A"]["wanted"], "75.25 to 90.00 %");
    assert_eq!(all["checkout/B"]["seen"], "12.50 to 24.75 %");
    assert_eq!(all["checkout/A"], shown["checkout/A"]);
    assert!(!all.contains_key("secret/A"));

    shared.post("ann", &format!("/api/v1/routers/{one}/repair"), &json!({})).await.ok();
    let (_, text) = ann.get(&format!("/ui/routers/{one}")).await;
    assert!(text_of(&text).contains("repair: open"), "{text}");
    for path in
        [format!("/ui/routers/{other}"), "/ui/services/secret".to_owned(), "/ui/routers/none".to_owned()]
    {
        assert_eq!(ann.get(&path).await.0, 404, "{path}");
    }
    assert_ne!(one, two);
    shared.world.stop().await;
}
