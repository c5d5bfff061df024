//! A strategy is written on the page: its faults, its plan, and its submission, without scripts.

use super::{Browser, Form};
use crate::{
    http::tenants::Shared,
    world::{World, strategy},
};

async fn form(browser: &Browser) -> Form {
    let page = browser.get("/ui/strategies/new").await.ok().text();
    let (_, rest) = page.split_once("name=\"proof\" value=\"").unwrap();
    let proof = rest.split('"').next().unwrap().to_owned();
    Form { path: "/ui/strategies/new".to_owned(), fields: vec![("proof".to_owned(), proof)] }
}

#[tokio::test]
async fn a_strategy_with_a_fault_is_mended_planned_on_a_map_and_submitted() {
    let shared = Shared::start().await;
    let world: &World = &shared.world;
    for _ in 0..3 {
        world.child().await;
    }
    let root = Browser::signed_in(world, Shared::secret("root")).await;
    let form = form(&root).await;
    let led = "rollout: {order: waves, waves: [1, 100%]}\n";
    let right = format!("{}{led}", strategy("a"));
    let wrong = right.replace("WaitForSignal", "WaitForSignals");
    let line = wrong.lines().position(|line| line.contains("WaitForSignals")).unwrap() + 1;
    let draft = form.with("note", "for all").with("act", "check");
    for act in ["check", "submit"] {
        let answer = root.submit(&draft.clone().with("strategy", &wrong).with("act", act)).await;
        let page = answer.text();
        assert_eq!(answer.status, 422, "{page}");
        assert!(page.contains(&format!("line {line}, column")) && page.contains("WaitForSignals"), "{page}");
        assert!(page.contains("for all") && !page.contains("id=\"plan\""), "{page}");
    }
    assert_eq!(shared.get("root", "/api/v1/releases/a").await.status, 404);
    // Mended, as browsers send the ends of lines.
    let mended = draft.with("strategy", &right.replace('\n', "\r\n"));
    let page = root.submit(&mended).await.ok().text();
    assert!(page.contains("3 agents take part (3 children), waves."), "{page}");
    assert!(
        page.contains("<svg class=\"map\"") && page.contains("3 children: 3 waiting, waves 1 to 2"),
        "{page}"
    );
    assert_eq!(shared.get("root", "/api/v1/releases/a").await.status, 404, "planned alone");
    // Without its proof nothing is submitted.
    let unproven = mended.clone().without("proof").with("proof", "").with("act", "submit");
    assert_eq!(root.submit(&unproven).await.status, 403);
    let answer = root.submit(&mended.with("act", "submit")).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/ui/releases/a"), "{}", answer.text());
    let trail = shared.get("root", "/api/v1/audit?release=a").await.ok().json();
    assert!(trail.to_string().contains("for all"), "{trail}");
    shared.world.stop().await;
}
