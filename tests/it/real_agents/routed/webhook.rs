//! A router behind a webhook, which keeps in a file what it is told.

use super::{super::routers::all_to, world_of};

/// Judged by nobody: a tenth, a half, all.
const STAGES: &str = "rollout: {approval: {stages: [half, all]}}
stages:
  - name: little
    type: Traffic
    shares: {A: 90, B: 10}
    end_conditions: [{name: minDuration, threshold: 100ms}]
    end_action: {onSuccess: half}
  - name: half
    type: Traffic
    shares: {A: 50, B: 50}
    end_conditions: [{name: minDuration, threshold: 100ms}]
    end_action: {onSuccess: all}
  - name: all
    type: Traffic
    shares: {A: 0, B: 100}
    end_conditions: [{name: minDuration, threshold: 100ms}]
    end_action: {onSuccess: rollout}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_release_behind_a_webhook_survives_deaths_of_the_webhook_and_of_the_agent() {
    let mut world = world_of(&["custom"], "300ms").await;
    world.submit("as-it-is", &all_to("A")).await;
    world.site.manager.ended("as-it-is").await;
    world.seen(Some(10_000), None).await;
    world.submit("checkout-1", STAGES).await;
    world.seen(Some(9_000), Some(1_000)).await;

    world.places[0].is_away(true).await;
    world.nodes[0].kill();
    world.nodes[0].come_back();
    let status = world.nodes[0]
        .until("the webhook is away", |status| {
            status.router.as_ref().is_some_and(|router| router.trouble.is_some())
        })
        .await;
    let trouble = status.router.unwrap().trouble.unwrap();
    assert!(trouble.starts_with("the webhook can't be reached: "), "{trouble}");
    assert!(!trouble.contains("whsec_"), "{trouble}");
    let shown = world.nodes[0].run(&["agent", "status"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("router custom: "), "{text}");

    world.places[0].is_away(false).await;
    world.site.manager.approve("checkout-1").await;
    world.seen(Some(5_000), Some(5_000)).await;
    world.site.manager.approve("checkout-1").await;
    let ended = world.site.manager.ended("checkout-1").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.seen(None, Some(10_000)).await;
}
