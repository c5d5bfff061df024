//! When the stages of a release were, as later releases are told.

use std::time::Duration;

use domain::release::previous_run::Time;
use language::render::ROLLOUT_STAGE;
use model::StageStatus;

use super::world::{World, canary, summary};

const MINUTE: Duration = Duration::from_mins(1);

/// A child that is ready ends its stage well.
fn complete(world: &mut World, child: &str, offer: &str) {
    assert_eq!(world.may_end(child, offer, "Canary"), Ok(true));
    world.report(child, offer, summary("Canary", StageStatus::Completed)).unwrap();
}

#[test]
fn stage_time_runs_from_first_start_to_first_success() {
    let mut world = World::new();
    let (one, two) = (world.child("area 1"), world.child("area 2"));
    world.submit(&canary("7", "a"));
    let started = world.now.wall_ms;
    world.pass(MINUTE);
    let began = world.now.wall_ms;
    let offer = world.get_ready(&one, "Canary");
    world.pass(MINUTE);
    world.get_ready(&two, "Canary");
    let time = |stage: Option<&str>, began_ms: i64, ended_ms: i64| Time {
        stage: stage.map(str::to_owned),
        number: 0,
        began_ms,
        ended_ms,
    };
    // As long as it goes on it ends now.
    let now = world.now.wall_ms;
    let release = time(None, started, now);
    assert_eq!(world.release("7").times_of(0, now), [release, time(Some("Canary"), began, now)]);
    complete(&mut world, &one, &offer);
    let ended = world.now.wall_ms;
    world.pass(MINUTE);
    let now = world.now.wall_ms;
    let release = time(None, started, now);
    assert_eq!(world.release("7").times_of(0, now), [release, time(Some("Canary"), began, ended)]);
}

#[test]
fn each_wave_is_timed_by_itself() {
    let text = canary("7", "a")
        .replace("functions:", "rollout: {order: waves, waves: [1, 100%], soak: 10m}\nfunctions:");
    let mut world = World::new();
    let (one, two) = (world.child("area 1"), world.child("area 2"));
    world.submit(&text);
    let (first, second) = if world.poll(&one).is_empty() { (two, one) } else { (one, two) };
    let offer = world.get_ready(&first, "Canary");
    complete(&mut world, &first, &offer);
    let (rollout, _) = world.take(&first);
    world.may_end(&first, &rollout, ROLLOUT_STAGE).unwrap();
    let numbers = |world: &World| -> Vec<(Option<String>, u32)> {
        let times = world.release("7").times_of(0, world.now.wall_ms);
        times.into_iter().map(|time| (time.stage, time.number)).collect()
    };
    assert_eq!(numbers(&world), [(None, 0), (Some("Canary".to_owned()), 0)]);
    world.report(&first, &rollout, summary(ROLLOUT_STAGE, StageStatus::Completed)).unwrap();
    for _ in 0..11 {
        world.pass(MINUTE);
    }
    world.get_ready(&second, "Canary");
    assert_eq!(
        numbers(&world),
        [(None, 0), (Some("Canary".to_owned()), 0), (None, 1), (Some("Canary".to_owned()), 1)]
    );
    let times = world.release("7").times_of(0, world.now.wall_ms);
    assert_eq!(times[0].ended_ms, times[2].began_ms);
}
