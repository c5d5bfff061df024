//! Who has their turn when a wave opens, and what proves a release: nothing that is dead.

use std::{collections::BTreeMap, time::Duration};

use domain::{
    children::Profile,
    plan::Liveness,
    release::{
        change::Change,
        command::{Command, Refusal},
        lifecycle,
        liveness_check::ManagerReports,
        manager::Agents,
        members,
        parent::{ParentOffer, led as led_by},
        rollout,
        state::ReleaseState,
        summary::Summary,
    },
};
use language::{check_from_parent, render::ROLLOUT_STAGE, render_full};
use model::{Exclusion, FEATURE_QUESTIONS, Outcome, StageStatus};

use super::world::{WAIT, World, canary, manager, strategy_text, submission, summary};

use StageStatus::{Completed, Failure, SuccessWaiting};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.5],[13.3,52.4]]]}"#;

fn led(rollout: &str) -> String {
    let stages = [["One", WAIT, "a", "rollout", "rollback"]];
    strategy_text("7", &format!("rollout: {{{rollout}}}\n"), &["a"], &stages)
}

fn fleet(world: &mut World, children: usize) -> Vec<String> {
    (0..children).map(|child| world.child(&format!("area {child}"))).collect()
}

/// Time passes, and those who are there go on calling.
fn live(world: &mut World, children: &[String], time: Duration) {
    for _ in 0..time.as_secs() / 20 {
        world.pass(20 * SECOND);
        for child in children {
            let key = world.state.children.key(child).unwrap();
            // A poll would lose what an agent has in hand; any call does.
            world.calls.note(key, world.now.served_ms);
        }
    }
}

/// Those to whom the release is offered.
fn offered<'a>(world: &mut World, children: &'a [String]) -> Vec<&'a str> {
    children.iter().filter(|child| !world.poll(child).is_empty()).map(String::as_str).collect()
}

fn succeed(world: &mut World, child: &str) {
    world.get_ready(child, "One");
    assert_eq!(world.may_end(child, "7", "One"), Ok(true), "{child}");
    world.report(child, "7", summary("One", Completed)).unwrap();
    world.take(child);
    world.report(child, "7.rollout", summary(ROLLOUT_STAGE, Completed)).unwrap();
}

fn fail(world: &mut World, child: &str) {
    world.take(child);
    world.report(child, "7", summary("One", Failure)).unwrap();
}

fn reason(world: &World) -> String {
    match &world.release("7").state {
        ReleaseState::Paused(pause) if pause.by.is_limit() => pause.reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dead_child_is_no_wave_and_comes_last() {
    let mut world = World::new();
    let children = fleet(&mut world, 4);
    live(&mut world, &children[1..], 2 * MINUTE);
    world.submit(&led("order: waves, waves: [1, 2, 100%]"));
    assert_eq!(world.release("7").left_out, 1);
    insta::assert_snapshot!(world.waits("7"), @"0 of 4 children have ended, 4 have yet to begin; wave 1 of 3; 1 silent agent comes last");
    assert_eq!(offered(&mut world, &children[1..]), [children[1].as_str()]);
    succeed(&mut world, &children[1]);
    succeed(&mut world, &children[2]);
    // It calls again, and still has its turn with the last.
    assert_eq!(offered(&mut world, &children), [children[0].as_str(), &children[3]]);
}

#[test]
fn a_wave_that_nobody_can_fill_is_passed_over() {
    let mut world = World::new();
    let children = fleet(&mut world, 4);
    live(&mut world, &children[3..], 2 * MINUTE);
    world.submit(&led("order: waves, waves: [1, 2, 100%]"));
    assert_eq!(world.release("7").turns.waves(), 2, "one that lives, and the others");
    succeed(&mut world, &children[3]);
    assert_eq!(offered(&mut world, &children[..3]).len(), 3);
}

#[test]
fn one_child_is_offered_even_if_all_are_silent() {
    let mut world = World::new();
    let children = fleet(&mut world, 3);
    world.pass(2 * MINUTE);
    world.submit(&led("order: waves, waves: [1, 100%]"));
    assert_eq!(offered(&mut world, &children), [children[0].as_str()]);
}

#[test]
fn silence_is_judged_when_the_wave_opens() {
    let mut world = World::new();
    let children = fleet(&mut world, 4);
    world.submit(&led("order: waves, waves: [1, 2, 100%]"));
    assert_eq!(world.release("7").left_out, 0);
    // The second is gone before its turn; who was planned after it takes its place.
    let others = [children[0].clone(), children[2].clone(), children[3].clone()];
    live(&mut world, &others, 2 * MINUTE);
    succeed(&mut world, &children[0]);
    assert_eq!(world.release("7").left_out, 1);
    assert_eq!(offered(&mut world, &others[1..]), [children[2].as_str()]);
    succeed(&mut world, &children[2]);
    assert_eq!(offered(&mut world, &[children[1].clone(), children[3].clone()]).len(), 2);
}

#[test]
fn who_has_something_in_hand_is_not_silent() {
    let mut world = World::new();
    let children = fleet(&mut world, 2);
    world.submit(&canary("other", "b"));
    world.take(&children[0]);
    live(&mut world, &children[1..], 3 * MINUTE);
    world.submit(&led("order: waves, waves: [1, 100%]"));
    assert_eq!(world.release("7").left_out, 0);
    assert_eq!(world.assignment("7", &children[0]).wave, 0);
}

#[test]
fn locations_that_are_silent_come_last_and_together() {
    let mut world = World::new();
    let children = fleet(&mut world, 4);
    live(&mut world, &children[2..], 2 * MINUTE);
    world.submit(&led("order: location_sequential, start_at: [0, 0]"));
    for child in &children[2..] {
        assert_eq!(offered(&mut world, &children[2..]), [child.as_str()]);
        succeed(&mut world, child);
    }
    assert_eq!(offered(&mut world, &children[..2]).len(), 2);
}

#[test]
fn a_wave_that_proves_nothing_pauses_whatever_on_failure_says() {
    for on_failure in ["rollback", "pause", "continue"] {
        let mut world = World::new();
        let children = fleet(&mut world, 3);
        world.submit(&led(&format!("order: waves, waves: [1, 100%], on_failure: {on_failure}")));
        // It never comes for its offer.
        live(&mut world, &children[1..], 16 * MINUTE);
        assert_eq!(world.assignment("7", &children[0]).outcome, Some(Outcome::Unreachable));
        assert_eq!(reason(&world), "unproven: 0 agents have succeeded so far, 1 must before wave 2 of 2");
        assert_eq!(offered(&mut world, &children[1..]), [""; 0]);
        // To resume is to go on all the same.
        world.resume("7");
        assert_eq!(offered(&mut world, &children[1..]).len(), 2, "{on_failure}");
    }
}

#[test]
fn so_many_must_succeed_as_the_strategy_says_or_as_have_had_their_turn() {
    for (rollout, opens) in
        [("min_succeeded: 2", true), ("min_succeeded: 3", false), ("min_succeeded: 34%", true)]
    {
        let mut world = World::new();
        let children = fleet(&mut world, 5);
        world.submit(&led(&format!("order: waves, waves: [1, 3, 100%], max_failed: 2, {rollout}")));
        // One of one is enough.
        succeed(&mut world, &children[0]);
        succeed(&mut world, &children[1]);
        fail(&mut world, &children[2]);
        assert_eq!(offered(&mut world, &children[3..]).len(), if opens { 2 } else { 0 }, "{rollout}");
        if !opens {
            assert_eq!(reason(&world), "unproven: 2 agents have succeeded so far, 3 must before wave 3 of 3");
        }
    }
}

#[test]
fn going_on_with_one_wave_is_no_proof_for_the_next() {
    let mut world = World::new();
    let children = fleet(&mut world, 4);
    world.submit(&led("order: waves, waves: [1, 2, 100%], max_failed: 4"));
    fail(&mut world, &children[0]);
    world.resume("7");
    fail(&mut world, &children[1]);
    assert_eq!(reason(&world), "unproven: 0 agents have succeeded so far, 1 must before wave 3 of 3");
}

#[test]
fn before_the_roll_out_it_is_judged_where_all_move_together() {
    let mut world = World::new();
    let children = fleet(&mut world, 3);
    world.submit(&led("order: global_incremental, min_succeeded: 2"));
    world.get_ready(&children[0], "One");
    live(&mut world, &children[..1], 16 * MINUTE);
    assert_eq!(reason(&world), "unproven: 1 agent has succeeded so far, 2 must before the roll-out");
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(false));
    world.resume("7");
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(true));
}

#[test]
fn in_parallel_nobody_rolls_out_before_enough_have_passed_and_then_nobody_waits() {
    let mut world = World::new();
    let children = fleet(&mut world, 4);
    world.submit(&led("order: parallel, min_succeeded: 2"));
    world.get_ready(&children[0], "One");
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(false));
    world.get_ready(&children[1], "One");
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(true));
    world.get_ready(&children[2], "One");
    assert_eq!(world.may_end(&children[2], "7", "One"), Ok(true));
}

#[test]
fn in_parallel_too_few_that_pass_are_held_and_it_is_said_why() {
    let mut world = World::new();
    let children = fleet(&mut world, 3);
    world.submit(&led("order: parallel, min_succeeded: 100%, max_failed: 1"));
    world.get_ready(&children[0], "One");
    world.get_ready(&children[1], "One");
    fail(&mut world, &children[2]);
    assert_eq!(reason(&world), "unproven: 2 agents have succeeded so far, 3 must before the roll-out");
}

#[test]
fn release_without_participants_is_no_success_and_can_rerun() {
    let mut world = World::new();
    world.submit(&led("order: waves, waves: [1, 100%]"));
    assert_eq!(world.ended(), ["NoParticipants, 0 unconfirmed"]);
    let children = fleet(&mut world, 2);
    assert!(matches!(world.retry("7"), Err(Refusal::WrongState { .. })), "there was nobody to try it again");
    world.plan_again("7");
    assert_eq!(world.state_of("7"), "Running");
    assert_eq!(offered(&mut world, &children), [children[0].as_str()]);
    succeed(&mut world, &children[0]);
    succeed(&mut world, &children[1]);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn who_was_taken_out_did_not_take_part_and_has_another_attempt() {
    let mut world = World::new();
    let children = fleet(&mut world, 1);
    world.submit(&led("order: parallel"));
    let (release, child) = ("7".to_owned(), children[0].clone());
    world.command(&Command::Members(members::Command::Skip { release, child })).unwrap();
    assert_eq!(world.ended(), ["NoParticipants, 0 unconfirmed"]);
    world.plan_again("7");
    assert_eq!(world.poll(&children[0]), "7.r2");
}

/// A manager that answers questions.
fn answering(world: &mut World, agents: u32) -> String {
    let mut profile = manager();
    profile.capabilities.features = vec![FEATURE_QUESTIONS.to_owned()];
    let id = world.manager(AREA, agents);
    world.poll_as(&id, AREA, Some(Profile { ..profile }));
    id
}

/// Managers say how many agents live and how many are silent; who says nothing is not in the list.
fn tell(world: &mut World, said: &[(&str, u32, u32)]) {
    let release = world.release("7");
    let (key, until) = (release.key, release.asking.expect("they are asked"));
    let liveness_checks = said.iter().map(|(id, live, silent)| {
        (world.state.children.key(id).unwrap(), Liveness { live: *live, silent: *silent })
    });
    let told =
        ManagerReports { release: key, until, liveness_checks: liveness_checks.collect::<BTreeMap<_, _>>() };
    world.command(&Command::Rollout(rollout::Command::Turnout(Box::new(told)))).unwrap();
}

fn quotas(world: &World, manager: &str) -> Vec<(u32, u32)> {
    let key = world.state.children.key(manager).unwrap();
    world.release("7").managers.get(&key).unwrap().quotas.clone()
}

#[test]
fn a_manager_without_anybody_who_can_takes_no_part() {
    let mut world = World::new();
    let (empty, agent) = (answering(&mut world, 9), world.child("area 1"));
    world.submit(&led("order: waves, waves: [1, 100%]"));
    assert_eq!(world.state_of("7"), "Planned", "they are asked first");
    insta::assert_snapshot!(world.waits("7"), @"managers below are asked who can take part");
    tell(&mut world, &[(&empty, 0, 0)]);
    assert_eq!(world.release("7").excluded, [(Exclusion::NobodyBelow, 1)]);
    assert_eq!(world.poll(&empty), "");
    succeed(&mut world, &agent);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn quota_a_manager_cannot_fill_goes_to_another() {
    let mut world = World::new();
    let (small, other) = (answering(&mut world, 10), answering(&mut world, 10));
    world.submit(&led("order: waves, waves: [5, 100%]"));
    tell(&mut world, &[(&small, 2, 1), (&other, 10, 0)]);
    assert_eq!(world.release("7").agents_planned(), 13);
    assert_eq!(quotas(&world, &small), [(0, 2), (1, 3)], "who is silent comes last");
    assert_eq!(quotas(&world, &other), [(0, 3), (1, 10)]);
}

#[test]
fn unanswered_question_assumes_declared_agent_count() {
    let mut world = World::new();
    let (mute, other) = (answering(&mut world, 4), answering(&mut world, 6));
    world.submit(&led("order: waves, waves: [5, 100%]"));
    world.pass(SECOND);
    assert_eq!(world.state_of("7"), "Planned");
    world.pass(2 * SECOND);
    assert_eq!(world.state_of("7"), "Running");
    assert_eq!(quotas(&world, &mute), [(0, 4)]);
    assert_eq!(quotas(&world, &other), [(0, 1), (1, 6)]);
}

/// As long as the release says, and no shorter, an agent below a manager may be silent and still have its turn.
#[test]
fn managers_below_take_the_release_s_word_for_how_long_is_silent() {
    let mut root = World::new();
    let manager = answering(&mut root, 4);
    let block = led("order: waves, waves: [3, 100%], silent_after: 5m");
    root.submit(&block);
    tell(&mut root, &[(&manager, 4, 0)]);
    let text_for = |root: &mut World, manager: &str| {
        assert_eq!(root.poll(manager), "7");
        render_full::whole(&root.fetch(manager, "7").unwrap().strategy)
    };
    let text = text_for(&mut root, &manager);
    assert!(text.contains("  silent_after: 5m\n"), "{text}");
    let strategy = check_from_parent(text.as_bytes()).strategy.unwrap();

    let mut below = World::new();
    let agents = fleet(&mut below, 4);
    live(&mut below, &agents[2..], 2 * MINUTE);
    let Command::Lifecycle(lifecycle::Command::Submit { mut submission, dry_run }) =
        submission(led_by(strategy), &text)
    else {
        unreachable!()
    };
    submission.parent = Some(ParentOffer::new("7".to_owned()));
    below.command(&Command::Lifecycle(lifecycle::Command::Submit { submission, dry_run })).unwrap();
    assert_eq!(below.release("7").left_out, 0, "two minutes are not five");
    assert_eq!(offered(&mut below, &agents).len(), 3);

    // Who doesn't say that it answers questions would refuse a strategy with a key that it doesn't know.
    let mut root = World::new();
    let earlier = root.manager(AREA, 4);
    root.submit(&block);
    let text = text_for(&mut root, &earlier);
    assert!(!text.contains("silent_after"), "{text}");
}

fn of_agents(status: StageStatus, participants: u32, succeeded: u32) -> Summary {
    let agents = Agents { participants, succeeded, ..Agents::default() };
    Summary { agents: Some(agents), ..summary("One", status) }
}

#[test]
fn each_wave_asks_again_and_gives_to_others_what_can_not_be_filled() {
    let mut world = World::new();
    let (one, two) = (answering(&mut world, 10), answering(&mut world, 10));
    world.submit(&led("order: waves, waves: [2, 10, 100%]"));
    tell(&mut world, &[(&one, 10, 0), (&two, 10, 0)]);
    assert_eq!((quotas(&world, &one), quotas(&world, &two)), (vec![(0, 2), (1, 10)], vec![(2, 10)]));
    let offer = world.poll(&one);
    world.fetch(&one, &offer).unwrap();
    world.report(&one, &offer, of_agents(Completed, 10, 2)).unwrap();
    assert_eq!(world.release("7").gates.stand.waves, 1, "they are asked first");
    tell(&mut world, &[(&one, 4, 6), (&two, 10, 0)]);
    assert_eq!(world.release("7").gates.stand.waves, 2);
    assert_eq!(
        (quotas(&world, &one), quotas(&world, &two)),
        (vec![(0, 2), (1, 4), (2, 10)], vec![(1, 6), (2, 10)])
    );
    assert!(!world.poll(&two).is_empty(), "it has its turn in this wave now");
}

#[test]
fn a_wave_of_a_manager_without_success_does_not_open_the_next() {
    let mut world = World::new();
    let (one, agent) = (world.manager(AREA, 3), world.child("area 1"));
    world.submit(&led("order: waves, waves: [1, 100%]"));
    let offer = world.poll(&one);
    world.fetch(&one, &offer).unwrap();
    // An old manager, which can't be asked: nobody below it could take part.
    world.report(&one, &offer, of_agents(Completed, 0, 0)).unwrap();
    assert_eq!(reason(&world), "unproven: 0 agents have succeeded so far, 1 must before wave 2 of 2");
    assert_eq!(world.poll(&agent), "");
}

#[test]
fn a_barrier_counts_the_agents_of_managers_that_are_ready() {
    let mut world = World::new();
    let (one, two) = (world.manager(AREA, 3), world.manager(AREA, 3));
    world.submit(&led("order: global_incremental, min_succeeded: 4, max_failed: 3"));
    for (manager, failed) in [(&one, 2), (&two, 1)] {
        let offer = world.poll(manager);
        world.fetch(manager, &offer).unwrap();
        let agents = Agents { participants: 3, failed, ..Agents::default() };
        let ready = Summary { agents: Some(agents), ..summary("One", SuccessWaiting) };
        world.report(manager, &offer, ready).unwrap();
    }
    assert_eq!(reason(&world), "unproven: 3 agents have succeeded so far, 4 must before the roll-out");
}

#[test]
fn an_answer_that_is_late_or_of_another_asking_changes_nothing() {
    let mut world = World::new();
    let (one, _agent) = (answering(&mut world, 4), world.child("area 1"));
    world.submit(&led("order: waves, waves: [1, 100%]"));
    let release = world.release("7").key;
    let told = ManagerReports {
        release,
        until: 1,
        liveness_checks: BTreeMap::from([(world.state.children.key(&one).unwrap(), Liveness::default())]),
    };
    world.command(&Command::Rollout(rollout::Command::Turnout(Box::new(told)))).unwrap();
    assert_eq!(world.changes, Vec::<Change>::new());
    assert_eq!(world.state_of("7"), "Planned");
}
