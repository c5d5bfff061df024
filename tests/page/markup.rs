//! Whatever a child or a developer chooses is shown as the text that it is.

use http_api::auth::{OperatorToken, Settings};
use serde_json::{Value, json};

use crate::{
    browser::{Page, browse},
    clean::{at, open},
    faults,
    maps::says,
    services::{router, told},
    states::of_function,
    tree::measured,
    world::{AREA, STAGE, World, summary},
};

/// Markup, a text from right to left that nobody ends, and many emoji.
fn evil(what: &str) -> String {
    format!(
        "<img src=x onerror=document.title='{what}'></bdi><script>alert(1)</script>&lt;\u{202e}שלום{}",
        "🎼".repeat(16)
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What became markup, what turns the direction of texts around it, and what runs over the edge of the window.
const WRONG: &str = "(() => { const turns = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); \
    while (walk.nextNode()) { const { data, parentElement: on } = walk.currentNode; \
        const isAlone = getComputedStyle(on).display !== 'inline' && on.childElementCount === 0; \
        if (data.includes('\\u202e') && !isAlone && !on.closest('bdi, textarea, code, output')) turns.push(on.outerHTML.slice(0, 200)); } \
    return [document.querySelectorAll('body img, body script, body b').length, \
        document.querySelectorAll('body bdi bdi').length, document.title.includes('TAKEN'), turns, \
        document.documentElement.scrollWidth > document.documentElement.clientWidth]; })()";

/// Nothing of that.
fn right() -> Value {
    json!([0, 0, false, [], false])
}

async fn is_text(page: &Page, texts: &[String]) {
    for text in texts {
        let place = format!("document.querySelector('main').textContent.includes({})", json!(text));
        page.holds(&place).await;
    }
    let wide = faults::wide(page).await;
    assert_eq!(page.evaluate(WRONG).await.unwrap(), right(), "{} {wide:#?}", page.address().await);
}

/// A release whose texts are all of that kind: its name, its stage's and its function's.
async fn submitted(world: &World) -> Vec<String> {
    let texts = ["TAKEN-name", "TAKEN-stage", "TAKEN-function"].map(evil);
    let places = ["name: Canary of the sieve, 5 percent", "name: Canary 5 Percent", "name: resize"];
    let mut strategy = of_function("evil~-._1", "resize", "");
    for (place, text) in places.into_iter().zip(&texts) {
        let changed = strategy.replace(place, &format!("name: {}", quoted(text)));
        assert_ne!(changed, strategy, "{place}");
        strategy = changed;
    }
    // `func_name: resize` of the stage has ended like the name of the function, and so is another now, too.
    world.submit(&strategy).await.ok();
    texts.to_vec()
}

#[tokio::test]
async fn what_people_and_children_choose_is_shown_as_text() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(AREA).unwrap();
    let child = json!({"id": "", "geographic_area": area, "number_of_children": 0});
    let child = world.post("/poll", &child).await.ok().json()["id"].as_str().unwrap().to_owned();
    world.poll(&child).await;
    let shown = submitted(&world).await;
    let (by, note) = ("</bdi><img src=x onerror=document.title='TAKEN'>\u{202e}🎼", evil("TAKEN-note"));
    world.post("/api/v1/releases/evil~-._1/pause", &json!({"by": by, "note": note})).await.ok();
    browse(async |page| {
        for width in [1280, 320] {
            page.size(width, 800).await;
            open(page, &world, "/releases").await;
            is_text(page, &[shown[0].clone()]).await;
            open(page, &world, "/releases/evil~-._1").await;
            is_text(page, &[shown.as_slice(), std::slice::from_ref(&note)].concat()).await;
        }
        page.size(1280, 800).await;
        page.back().await;
        page.reload().await;
        is_text(page, &shown[..1]).await;
        // What is asked for comes back in the page, too.
        let query = "name=%3Cimg%20src%3Dx%3E%22%3E%3Cscript%3E&function=%22%3E%3Cimg%20src%3Dx%3E";
        open(page, &world, &format!("/releases?{query}")).await;
        is_text(page, &[]).await;
        let unknown = "/releases/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E";
        page.go(&at(&world, unknown)).await;
        is_text(page, &[]).await;
        page.go(&at(&world, "/sign-in?next=%22%3E%3Cimg%20src%3Dx%3E&out=%3Cimg%3E")).await;
        is_text(page, &[]).await;
        // Only that the unknown release isn't there.
        let reports = page.take_reports().await;
        assert!(reports.iter().all(|report| report.contains("status of 40")), "{reports:?}");
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn on_pages_of_children_of_maps_of_the_tree_and_of_plans_too() {
    const NAME: &str = "<img src=x onerror=document.title='TAKEN-child'></bdi>\u{202e}🎼";
    let world = World::start().await;
    let area: Value = serde_json::from_str(AREA).unwrap();
    let mut child = json!({"id": "", "kind": "agent", "name": NAME, "geographic_area": area, "number_of_children": 0,
        "capabilities": {"labels": {"tier": NAME}}});
    child["id"] = world.post("/poll", &child).await.ok().json()["id"].clone();
    world.post("/poll", &child).await.ok();
    let id = child["id"].as_str().unwrap();
    let shown = submitted(&world).await;
    let name = NAME.to_owned();
    browse(async |page| {
        for (path, texts) in [
            ("/children", vec![name.clone()]),
            (&format!("/children/{id}"), vec![name.clone()]),
            ("/releases/evil~-._1/children", vec![name.clone(), shown[1].clone()]),
            ("/releases/evil~-._1/map", Vec::new()),
            // Found on the map, by who is a child of the fleet and of a release.
            (&format!("/map?child={id}"), vec![name.clone()]),
            (&format!("/releases/evil~-._1/map?child={id}"), vec![name.clone()]),
            ("/tree", vec![name.clone()]),
        ] {
            page.go(&at(&world, path)).await;
            is_text(page, &texts).await;
        }
        // Tapped on the map.
        page.go(&at(&world, &format!("/releases/evil~-._1/map?child={id}"))).await;
        says(page, "1 waiting").await;
        page.until("who was tapped", async || {
            page.click("application", STAGE_OF_MAP).await;
            let noted = page.evaluate("document.querySelector('.map-note bdi')?.textContent ?? ''").await?;
            Ok((noted == NAME).then_some(()))
        })
        .await;
        is_text(page, std::slice::from_ref(&name)).await;
        page.go(&at(&world, "/strategies/new")).await;
        page.fill("Strategy", &format!("id: r\nname: {}\ntype: {}\n", quoted(NAME), quoted(NAME))).await;
        page.leave_by(async || page.click("button", "Check and plan").await).await;
        page.find("heading", "New release").await;
        is_text(page, &[]).await;
        let reports = page.take_reports().await;
        assert!(reports.iter().all(|report| report.contains("status of 422")), "{reports:?}");
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn the_name_of_whoever_is_signed_in_is_shown_as_text() {
    let name = evil("TAKEN-operator");
    let world = World::with(|options| {
        options.auth = Settings {
            operators: vec![OperatorToken::new(name.clone(), "a-secret-of-hers")],
            operator_required: true,
            ..Settings::default()
        };
    })
    .await;
    browse(async |page| {
        page.go(&at(&world, "/releases")).await;
        page.fill("Token", "a-secret-of-hers").await;
        page.leave_by(async || page.click("button", "Sign in").await).await;
        let whole =
            format!("document.querySelector('.who bdi').textContent === {}", json!(evil("TAKEN-operator")));
        page.holds(&whole).await;
        assert_eq!(page.evaluate(WRONG).await.unwrap(), right());
    })
    .await;
    world.stop().await;
}

/// What the map is called.
const STAGE_OF_MAP: &str = "Map. Arrows move it, plus and minus zoom. The table below has the same facts.";

/// A short text of that kind, for what has little room.
const SHORT: &str = "<img src=x></bdi>\u{202e}";

#[tokio::test]
async fn metric_names_and_plan_text_are_escaped() {
    let world = World::start().await;
    let children = [world.child().await, world.child().await];
    let name = evil("TAKEN-metric");
    let metric = format!(
        "{{name: {}, provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}}",
        quoted(&name)
    );
    let block =
        format!("    analysis: {{duration: 20s, interval: 1s, metrics: [{metric}]}}\n    end_action:");
    let text = of_function("judged", "resize", "").replace("    end_action:", &block);
    let text =
        text.replace("Percentage: 95", "Percentage: 50").replace("Percentage: 5\n", "Percentage: 50\n");
    browse(async |page| {
        page.go(&at(&world, "/strategies/new")).await;
        page.fill("Strategy", &text).await;
        page.leave_by(async || page.click("button", "Check and plan").await).await;
        page.find("heading", "What it would do").await;
        is_text(page, std::slice::from_ref(&name)).await;
        page.leave_by(async || page.click("button", "Submit").await).await;
        for (child, seed) in children.iter().zip(1..) {
            world.poll(child).await;
            world.fetch(child, "judged").await.ok();
            measured(&world, child, "judged", 1.5, seed).await;
        }
        let is_judged = |shown: &Value| shown["analyses"][0]["verdict"] == "fail";
        world.until("/api/v1/releases/judged", is_judged).await;
        open(page, &world, "/releases/judged").await;
        page.reads("New to base, as a ratio").await;
        is_text(page, std::slice::from_ref(&name)).await;
        open(page, &world, "/releases/judged/children").await;
        is_text(page, &[]).await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn failure_texts_from_managers_below_are_escaped() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(AREA).unwrap();
    let mut manager = json!({"id": "", "geographic_area": area, "number_of_children": 2, "kind": "rm", "rm_ids": ["a"], "name": SHORT});
    manager["id"] = world.post("/poll", &manager).await.ok().json()["id"].clone();
    world.post("/poll", &manager).await.ok();
    let careful = "rollout: {order: parallel, max_failed: 0, on_failure: rollback}";
    world.submit(&of_function("r", "resize", careful)).await.ok();
    let id = manager["id"].as_str().unwrap();
    world.fetch(id, "r").await.ok();
    let mut summary = summary(STAGE, 5);
    let texts = ["cause", "text", "child", "stage", "version", "numbers", "by", "note"];
    for what in texts {
        summary["why"][what] = json!(evil(&format!("TAKEN-{what}")));
    }
    for (what, number) in [("participants", 2), ("failed", 1)] {
        summary[what] = json!(number);
    }
    let body = json!({"id": id, "release_id": "r", "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
    browse(async |page| {
        for path in [
            "/releases/r",
            "/releases",
            "/releases/r/children",
            "/tree?release=r",
            &format!("/children/{id}"),
        ] {
            open(page, &world, path).await;
            is_text(page, &[]).await;
        }
        // All of it stands somewhere, or this would show little.
        open(page, &world, "/releases/r").await;
        is_text(page, &["text", "by", "note"].map(|what| evil(&format!("TAKEN-{what}")))).await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn so_is_what_routers_tell_and_answer() {
    let world = World::start().await;
    let id = router(&world, SHORT).await;
    let (trouble, left_over) = (evil("TAKEN-trouble"), evil("TAKEN-left"));
    let answer = evil("TAKEN-answer") + "\n" + &"🎼".repeat(64);
    let path = format!("/api/v1/routers/{id}/check");
    let mut report = told(&id, 0, 1);
    world.post("/traffic", &report).await.ok();
    let order = world.post(&path, &json!({"by": SHORT, "config": evil("TAKEN-config")})).await.ok().json();
    report["router"] =
        json!({"kind": "nginx", "version": SHORT, "phase": "paused", "reached": true, "trouble": trouble});
    report["drifts"] = json!([{"number": 1, "service": "checkout", "wanted": evil("TAKEN-wanted"),
        "seen": evil("TAKEN-seen"), "then": "accepted"}]);
    report["answers"] =
        json!([{"number": order["number"], "ok": false, "text": answer, "left_over": [left_over]}]);
    report["services"][0]["led"]["variations"][0]["targets"] = json!([format!("{SHORT}:1")]);
    let refused = world.post("/traffic", &report).await;
    // A target is an address, or nothing is taken of all of it.
    if refused.status != 200 {
        report["services"][0]["led"]["variations"][0]["targets"] = json!(["127.0.0.1:9101"]);
        world.post("/traffic", &report).await.ok();
    }
    // What goes into addresses and into files of routers has no markup at all.
    for what in ["kind", "name", "variation"] {
        let mut other = report.clone();
        let service = &mut other["services"][0];
        if what == "name" {
            service["name"] = json!(SHORT);
        } else if what == "variation" {
            service["variations"][0]["name"] = json!(SHORT);
            service["led"]["variations"][0]["name"] = json!(SHORT);
        } else {
            other["router"]["kind"] = json!(SHORT);
        }
        assert_eq!(world.post("/traffic", &other).await.status, 400, "{what}");
    }
    browse(async |page| {
        for (path, texts) in [
            ("/routers", vec![trouble.clone(), SHORT.to_owned()]),
            (
                &format!("/routers/{id}"),
                vec![trouble, answer, left_over, evil("TAKEN-config"), SHORT.to_owned()],
            ),
            ("/services", Vec::new()),
            ("/services/checkout", Vec::new()),
            (&format!("/children/{id}"), vec![SHORT.to_owned()]),
        ] {
            for width in [1280, 320] {
                page.size(width, 800).await;
                open(page, &world, path).await;
                is_text(page, &texts).await;
            }
        }
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn sixty_four_emoji_and_names_from_right_to_left_fit_wherever_they_are_allowed() {
    let world = World::start().await;
    let refused = world.submit(&of_function("wide", &"🎼".repeat(64), "")).await;
    assert!(refused.text().contains("name is longer than 200 bytes"), "{}", refused.text());
    let (most, long, half) = ("🎼".repeat(64), "🎼".repeat(50), "🎼".repeat(32));
    let hebrew = "שלום ".repeat(12);
    let area: Value = serde_json::from_str(AREA).unwrap();
    let mut child = json!({"id": "", "kind": "agent", "name": half, "geographic_area": area, "number_of_children": 0,
        "capabilities": {"labels": {half.clone(): half}, "runtimes": ["nodejs", half]}});
    child["id"] = world.post("/poll", &child).await.ok().json()["id"].clone();
    world.post("/poll", &child).await.ok();
    let id = child["id"].as_str().unwrap();
    let mut strategy = of_function("wide", &long, "");
    for (place, text) in
        [("name: Canary of the sieve, 5 percent", &hebrew), ("name: Canary 5 Percent", &long)]
    {
        strategy = strategy.replace(place, &format!("name: {}", quoted(text)));
    }
    world.submit(&strategy).await.ok();
    world.fetch(id, "wide").await.ok();
    world.report(id, "wide", &long, 2).await.ok();
    let note = json!({"by": half, "note": most});
    world.post("/api/v1/releases/wide/pause", &note).await.ok();
    let name = hebrew.trim_end().to_owned();
    browse(async |page| {
        for (path, texts) in [
            ("/releases", vec![name.clone(), long.clone()]),
            ("/releases/wide", vec![name.clone(), long.clone(), most]),
            ("/releases/wide/children", vec![half.clone(), long.clone()]),
            (&format!("/children/{id}"), vec![half.clone()]),
            ("/children", vec![half.clone()]),
            ("/tree", vec![half.clone()]),
            (&format!("/map?child={id}"), vec![half.clone()]),
        ] {
            for width in [1280, 320] {
                page.size(width, 800).await;
                open(page, &world, path).await;
                is_text(page, &texts).await;
            }
        }
    })
    .await;
    world.stop().await;
}

/// What a tenant is called is part of ids and addresses.
#[tokio::test]
async fn a_tenant_has_no_name_with_markup() {
    let world = World::start().await;
    for name in [SHORT, "a<b>", "שלום", "🎼"] {
        assert_eq!(world.post("/api/v1/tenants", &json!({"name": name})).await.status, 400, "{name}");
    }
    world.stop().await;
}
