//! What a plan costs, in steps.

use model::steps;

use crate::world::World;

/// What is said of a submission and what it is answered with come of one plan.
#[tokio::test]
async fn a_submission_is_planned_once_before_it_is_answered() {
    const CHILDREN: u64 = 40;
    let world = World::start().await;
    for _ in 0..CHILDREN {
        world.child().await;
    }
    // Everything happens on this thread.
    let before = steps::taken();
    world.submit_to("/release?dry_run=true", &crate::world::strategy("a")).await.ok();
    let cost = steps::taken() - before;
    assert!((CHILDREN..2 * CHILDREN).contains(&cost), "{cost} steps for {CHILDREN} children");
    world.stop().await;
}
