//! What is registered once a release has ended well: it goes with the release, and is there once.

use std::sync::Arc;

use domain::release::{
    command::{Command, Refusal, Reply},
    lifecycle::{self, Adoption},
};
use model::StageStatus;

use super::{
    untested::{minutes_until_told, without_calls},
    world::{World, canary, submission, summary},
};

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.5],[13.3,52.4]]]}"#;

/// Submits a release that adopts this version.
fn submit(world: &mut World, id: &str, version: u32) -> Result<Reply, Refusal> {
    let text = canary(id, "a");
    let mut command = submission(language::check(&text).strategy.unwrap(), &text);
    if let Command::Lifecycle(lifecycle::Command::Submit { submission, .. }) = &mut command {
        let [kind, name, id] = ["release", "shop", "i"].map(str::to_owned);
        submission.adopts = Some(Arc::new(Adoption { kind, name, id, detail: format!("{version}") }));
    }
    world.command(&command)
}

fn adopts(world: &World, release: &str) -> Option<String> {
    world.release(release).adopts.as_ref().map(|adoption| adoption.detail.clone())
}

#[test]
fn a_release_that_is_planned_once_more_adopts_what_it_was_submitted_with() {
    let mut world = World::new();
    submit(&mut world, "7", 2).unwrap();
    assert_eq!(world.ended(), ["NoParticipants, 0 unconfirmed"]);
    assert!(matches!(submit(&mut world, "7", 2), Ok(Reply::Submitted { created: false, .. })));
    assert!(matches!(submit(&mut world, "7", 3), Err(Refusal::IdTaken(_))), "it would adopt something else");
    let child = world.child(AREA);
    world.plan_again("7");
    assert_eq!(adopts(&world, "7").as_deref(), Some("2"));
    world.succeed(&child, "Canary");
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(adopts(&world, "7").as_deref(), Some("2"));
}

#[test]
fn a_release_that_failed_adopts_once_a_retry_has_succeeded() {
    let mut world = World::new();
    let child = world.child(AREA);
    submit(&mut world, "7", 2).unwrap();
    world.take(&child);
    world.report(&child, "7", summary("Canary", StageStatus::Failure)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    world.retry("7").unwrap();
    world.succeed(&child, "Canary");
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(adopts(&world, "7").as_deref(), Some("2"));
}

#[test]
fn what_some_were_left_untested_in_is_adopted_once_they_have_it_too() {
    let mut world = World::new();
    let (idle, other) = (world.child("north"), world.child("south"));
    submit(&mut world, "7", 2).unwrap();
    world.succeed(&other, "Canary");
    world.take(&idle);
    minutes_until_told(&mut world, &idle, "7", "Canary");
    world.report(&idle, "7", without_calls("Canary", StageStatus::Failure)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    world.retry("7").unwrap();
    world.succeed(&idle, "Canary");
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(adopts(&world, "7").as_deref(), Some("2"));
}

#[test]
fn the_second_of_two_that_register_the_same_is_refused_until_the_first_is_over() {
    let mut world = World::new();
    submit(&mut world, "7", 2).unwrap();
    assert_eq!(world.ended(), ["NoParticipants, 0 unconfirmed"]);
    let child = world.child(AREA);
    submit(&mut world, "8", 3).unwrap();
    let again = lifecycle::Command::PlanAgain { release: "7".to_owned() };
    assert!(
        matches!(world.command(&Command::Lifecycle(again)), Err(Refusal::SameAdoption(other)) if other.as_str() == "8")
    );
    assert!(matches!(submit(&mut world, "9", 4), Err(Refusal::SameAdoption(_))));
    world.succeed(&child, "Canary");
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    submit(&mut world, "9", 4).unwrap();
}
