//! Who gets which share of calls by a release of a service, as its page has it.

use serde_json::{Value, json};

use super::read::{fields, page, rows, text_of};
use crate::{
    http::traffic::{led, release, report, router, tell},
    world::World,
};

fn section(html: &str) -> &str {
    html.split_once("<section id=\"traffic\"").unwrap().1.split("</section>").next().unwrap()
}

fn percent(share: &Value) -> String {
    share.as_f64().map_or_else(|| "–".to_owned(), |share| format!("{share:.2} %"))
}

#[tokio::test]
async fn shares_are_shown_as_wanted_seen_and_measured_by_router_with_their_history() {
    let world = World::start().await;
    let (one, two) = (router(&world, "edge-1").await, router(&world, "edge-2").await);
    world.submit(&release("r1", "\"127.0.0.1:9101\"", "")).await.ok();
    assert!(!page(&world, "/ui/releases/r1").await.contains("<section id=\"traffic\""));
    let with = |shares: [u16; 2], seen: u16, offer: &str| {
        let mut service = led(shares);
        service["offer"] = json!(offer);
        service["variations"][1]["seen"] = json!(seen);
        service["variations"][0]["seen"] = json!(10_000 - seen);
        service
    };
    tell(&world, &report(&one, &[with([9000, 1000], 1000, "r1")])).await.ok();
    tell(&world, &report(&two, &[with([9000, 1000], 875, "r1")])).await.ok();
    tell(&world, &report(&one, &[with([7500, 2500], 2500, "r1.2")])).await.ok();

    let api = world.get("/api/v1/releases/r1/traffic").await.ok().json();
    let html = page(&world, "/ui/releases/r1").await;
    let section = section(&html);
    let shown = rows(section);
    let mut seen = Vec::new();
    for led in api["services"][0]["routers"].as_array().unwrap() {
        let router = led["router"].as_str().unwrap();
        for variation in led["variations"].as_array().unwrap() {
            let row = &shown[&format!("{router}/checkout/{}", variation["name"].as_str().unwrap())];
            for name in ["wanted", "seen", "measured"] {
                assert_eq!(row[name], percent(&variation[name]), "{router} {name}");
            }
            for name in ["calls", "errors"] {
                assert_eq!(row[name], variation[name].to_string(), "{router} {name}");
            }
            assert_eq!(
                row["targets"],
                format!("{} of {}", variation["healthy_targets"], variation["total_targets"])
            );
            seen.push(row["seen"].clone());
        }
        assert!(section.contains(&format!("<a href=\"/ui/routers/{router}\">")), "{section}");
    }
    // What is wanted, and what the second router was seen to do, differ.
    seen.sort();
    assert_eq!(seen, ["25.00 %", "75.00 %", "8.75 %", "91.25 %"]);
    assert!(section.contains("<a href=\"/ui/services/checkout\">"), "{section}");

    let history = section.split("<ol class=\"trail\">").nth(1).unwrap();
    let entries: Vec<String> = history.split("<li>").skip(1).map(text_of).collect();
    let told = api["history"].as_array().unwrap();
    assert_eq!((entries.len(), told.len()), (3, 3));
    for (entry, told) in entries.iter().zip(told) {
        let router = told["router"].as_str().unwrap();
        assert!(entry.contains(&format!("{router} checkout")), "{entry}");
        assert!(entry.ends_with(&format!(", by {}", told["by"].as_str().unwrap())), "{entry}");
    }
    assert!(
        entries[0].contains("A 90.00 %, B 10.00 % → A 75.00 %, B 25.00 %, seen: A 75.00 %, B 25.00 %"),
        "{entries:?}"
    );
    assert!(entries[2].contains("nothing → A 90.00 %, B 10.00 %"), "{entries:?}");
    // The trail names the router too, and leads to it.
    let trail = html.split_once("<section id=\"trail\"").unwrap().1;
    assert!(trail.contains(&format!("<a href=\"/ui/routers/{one}\">")), "{trail}");
    assert!(fields(&html).contains_key("functions"));
    world.stop().await;
}
