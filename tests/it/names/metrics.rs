//! Metrics of a manager.

use crate::world::{World, strategy};

#[tokio::test]
async fn families_of_metrics_have_the_same_names_types_and_labels() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    let text = world.get("/metrics").await.ok().text();
    insta::assert_snapshot!(crate::metrics::names(&text));
    world.stop().await;
}
