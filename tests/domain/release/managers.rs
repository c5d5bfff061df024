//! What a child that is a manager is handed, how its agents are counted, and what it is told when a release is taken back.

use domain::release::{
    change::Change,
    command::{Command, Form, Reply},
    lifecycle,
    manager::Agents,
    members, next_action,
    pause::Pause,
    state::ReleaseState,
    summary::Summary,
};
use language::{check_from_parent, render_full};
use model::{FEATURE_CLASSES, FEATURE_INTERIM, StageStatus};
use proptest::prelude::*;

use super::world::{AB, WAIT, World, canary, manager, strategy_text, summary, two_functions, two_stage};

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.5],[13.3,52.4]]]}"#;

fn of_agents(stage: &str, status: StageStatus, agents: Agents) -> Summary {
    Summary { agents: Some(agents), ..summary(stage, status) }
}

fn counts(participants: u32, succeeded: u32, failed: u32) -> Agents {
    Agents { participants, succeeded, failed, ..Agents::default() }
}

/// Polls and fetches; answers the offer's id and the text.
fn take(world: &mut World, manager: &str) -> (String, String) {
    let id = world.poll(manager);
    assert!(!id.is_empty(), "{manager} is offered nothing");
    let offer = world.fetch(manager, &id).unwrap();
    assert_eq!(offer.form, Form::Full);
    let text = render_full::whole(&offer.strategy);
    let again = check_from_parent(text.as_bytes());
    assert_eq!(again.strategy.as_ref(), Some(&*offer.strategy), "{text}\n{:#?}", again.diagnostics);
    (id, text)
}

/// The lines from `rollout:` on.
fn led(text: &str) -> &str {
    &text[text.find("rollout:\n").unwrap()..]
}

/// Whether a stage may end, and whether the release is taken back.
fn asks(world: &mut World, child: &str, offer: &str, stage: &str) -> (bool, bool) {
    let (child, offer, stage) = (child.to_owned(), offer.to_owned(), stage.to_owned());
    match world
        .command(&Command::Members(members::Command::EndStage { child, offer, stage, failures: None }))
        .unwrap()
    {
        Reply::EndStage { end, rollback, .. } => (end, rollback),
        other => panic!("{other:?}"),
    }
}

/// An agent goes through a canary and the roll-out.
fn rolls_out(world: &mut World, agent: &str) {
    let (offer, _) = world.take(agent);
    world.report(agent, &offer, summary("Canary", StageStatus::Completed)).unwrap();
    let (offer, _) = world.take(agent);
    world.report(agent, &offer, summary("choirmaster rollout", StageStatus::Completed)).unwrap();
}

fn reason(world: &World, release: &str) -> String {
    match &world.release(release).state {
        ReleaseState::Paused(Pause { reason, .. }) | ReleaseState::RollingBack { reason, .. } => {
            reason.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_manager_gets_the_whole_graph_and_its_stages_wait_where_a_barrier_stands() {
    let mut world = World::new();
    let manager = world.manager(AREA, 4);
    let stages = [
        ["First", AB, "a", "Second", "Careful"],
        ["Second", WAIT, "b", "rollout", "rollback"],
        ["Careful", WAIT, "a", "rollout", "rollback"],
    ];
    world.submit(&strategy_text("free", "", &["a", "b"], &stages));
    let (_, free) = take(&mut world, &manager);
    assert!(free.contains("onFailure: \"Careful\"") && free.contains("name: \"b\""), "{free}");
    assert!(!free.contains("from_above") && !free.contains("rollout:\n"), "{free}");

    let mut world = World::new();
    let manager = world.manager(AREA, 4);
    let block = "rollout: {approval: {stages: [Second]}, soak: 0s, max_failed: 50%, on_failure: pause}\n";
    world.submit(&strategy_text(
        "led",
        block,
        &["a"],
        &[["First", AB, "a", "Second", "rollback"], ["Second", WAIT, "a", "rollout", "rollback"]],
    ));
    let (_, text) = take(&mut world, &manager);
    let kinds: Vec<&str> = text.lines().filter(|line| line.starts_with("    type:")).collect();
    assert_eq!(kinds, ["    type: WaitForSignal", "    type: A/B"]);
    insta::assert_snapshot!(led(&text), @r"
    rollout:
      order: parallel
      max_failed: 2
      max_timed_out: 0
      max_unreachable: 4
      on_failure: continue
      late_joiners: exclude
    from_above: {}
    ");
}

#[test]
fn manager_is_asked_for_interim_reports_and_classes_it_supports() {
    let block = "    analysis: {duration: 40m, interval: 10s, metrics: [{name: times, provider: children, \
                 metric: responseTime, strategy: CANARY_BASELINE}]}\n    end_action:";
    let text = canary("w", "a").replacen("    end_action:", block, 1) + "rollout: {order: parallel}\n";
    for (features, told) in [
        (vec![], "from_above: {}\n"),
        (vec![FEATURE_CLASSES.to_owned()], "from_above: {classes: true}\n"),
        (
            vec![FEATURE_INTERIM.to_owned()],
            "from_above: {interim: [{stage: \"Canary\", every: 10s, cut: 1m20s}]}\n",
        ),
    ] {
        let mut world = World::new();
        let mut profile = manager();
        profile.capabilities.features = features;
        let (id, _) = world.poll_with("", AREA, Some(profile.clone()), 10);
        world.poll_with(&id, AREA, Some(profile), 10);
        world.submit(&text);
        let (_, handed) = take(&mut world, &id);
        assert!(handed.ends_with(told), "{handed}");
        assert!(!handed.contains("analysis"), "it is judged here alone: {handed}");
    }
}

#[test]
fn the_agents_of_a_manager_have_their_turns_in_several_waves_of_one_release() {
    let mut world = World::new();
    let agents = [world.child(AREA), world.child(AREA)];
    let manager = world.manager(AREA, 10);
    world.submit(&(canary("w", "a") + "rollout: {order: waves, waves: [1, 50%, 100%], max_failed: 25%}\n"));
    rolls_out(&mut world, &agents[0]);
    let (offer, text) = take(&mut world, &manager);
    assert_eq!(offer, "w");
    insta::assert_snapshot!(led(&text), @r"
    rollout:
      order: waves
      waves: [4, 100%]
      max_failed: 3
      max_timed_out: 0
      max_unreachable: 12
      on_failure: rollback
      late_joiners: exclude
    from_above: {waves: 1}
    ");
    rolls_out(&mut world, &agents[1]);
    assert_eq!(world.poll(&manager), "", "it leads four of its agents");
    world.report(&manager, "w", of_agents("Canary", StageStatus::Completed, counts(10, 3, 1))).unwrap();
    let (offer, text) = take(&mut world, &manager);
    assert_eq!(offer, "w.r2");
    assert!(text.ends_with("from_above: {waves: 2, continues: \"w\"}\n"), "{text}");
    assert_eq!(world.release("w").agents(), counts(12, 5, 1));

    // It has taken everything back, what came with the first wave, too.
    let last = of_agents("Canary", StageStatus::Failure, Agents { unconfirmed: 2, ..counts(10, 0, 4) });
    world.report(&manager, "w.r2", last).unwrap();
    assert_eq!(world.poll(&manager), "", "nothing is owed");
    insta::assert_snapshot!(reason(&world, "w"), @"child-5 failed in stage Canary with fns/a_new (errors 0.0 %, median 8.0 ms): 4 failed, max_failed is 25% (3)");
    for agent in &agents {
        let (offer, form) = world.take(agent);
        assert_eq!(form, Form::Undo { function: 0 });
        world.report(agent, &offer, summary("choirmaster undo", StageStatus::Completed)).unwrap();
    }
    assert_eq!(world.ended(), ["RolledBack, 2 unconfirmed"]);
}

/// Who has fewer in the middle can't fill its part, and that is another story.
#[test]
fn a_manager_that_has_more_agents_in_the_middle_changes_no_wave() {
    for said in [100_000, 11] {
        let mut world = World::new();
        let agents = [world.child(AREA), world.child(AREA)];
        let manager = world.manager(AREA, 10);
        world.submit(
            &(canary("w", "a") + "rollout: {order: waves, waves: [1, 50%, 100%], max_failed: 25%}\n"),
        );
        world.poll_with(&manager, AREA, Some(super::world::manager()), said);
        rolls_out(&mut world, &agents[0]);
        let (_, text) = take(&mut world, &manager);
        assert!(led(&text).contains("waves: [4, 100%]"), "{said}: {text}");
        assert_eq!(world.release("w").agents().participants, 12, "{said}");
    }
}

#[test]
fn agents_below_count_one_by_one_and_say_so_before_their_manager_is_done() {
    let mut world = World::new();
    let managers = [world.manager(AREA, 50), world.manager(AREA, 50)];
    let block = "rollout: {order: global_incremental, max_failed: 3, on_failure: pause}\n";
    world.submit(&(canary("c", "a") + block));
    for (manager, failed) in managers.iter().zip([2, 2]) {
        let (offer, _) = take(&mut world, manager);
        let waits = of_agents("Canary", StageStatus::SuccessWaiting, counts(50, 0, failed));
        world.report(manager, &offer, waits).unwrap();
    }
    assert_eq!(world.state_of("c"), "Paused");
    insta::assert_snapshot!(reason(&world, "c"), @"child-3 reported of its 50 agents 2 failed in stage Canary with fns/a_new (errors 0.0 %, median 8.0 ms): 4 failed, max_failed is 3");
}

#[test]
fn a_manager_that_is_silent_counts_with_all_it_was_planned_with() {
    let mut world = World::new();
    let manager = world.manager(AREA, 7);
    world.submit(&(canary("s", "a") + "rollout: {on_failure: continue}\n"));
    take(&mut world, &manager);
    world.pass(std::time::Duration::from_hours(30));
    let release = world.release("s");
    assert_eq!(release.agents(), Agents { participants: 7, timed_out: 7, ..Agents::default() });
}

#[test]
fn manager_learns_of_rollback_from_either_stage_answer_or_offer() {
    for offer_is_fetched_first in [true, false] {
        let mut world = World::new();
        let manager = world.manager(AREA, 3);
        world.submit(&(two_functions("b", "a", "b") + "rollout: {}\n"));
        let (offer, _) = take(&mut world, &manager);
        assert_eq!(asks(&mut world, &manager, &offer, "One"), (false, false));
        world.abort("b");
        assert_eq!(asks(&mut world, &manager, &offer, "One"), (true, true));
        let undo = world.poll(&manager);
        assert_eq!(undo, "b.undo");
        if offer_is_fetched_first {
            let fetched = world.fetch(&manager, &undo).unwrap();
            assert_eq!(fetched.form, Form::UndoOf { function: 0 });
            let text = render_full::undo(&fetched.strategy, 0);
            let said = check_from_parent(text.as_bytes()).strategy.unwrap().from_parent.unwrap();
            assert_eq!(said.undoes.as_deref(), Some("b"));
        }
        let late = of_agents("One", StageStatus::Failure, counts(3, 0, 0));
        assert!(world.report(&manager, &offer, late).is_err(), "it came too late to count");
        if offer_is_fetched_first {
            let done = Agents { unconfirmed: 1, ..Agents::default() };
            let done = of_agents("choirmaster undo", StageStatus::Completed, done);
            world.report(&manager, &undo, done).unwrap();
            assert_eq!(world.ended(), ["Aborted, 1 unconfirmed"]);
        } else {
            assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
        }
        assert_eq!(world.poll(&manager), "", "both functions are back");
        assert_eq!(
            (world.runs(&manager, "a"), world.runs(&manager, "b")),
            ("base of b".into(), "base of b".into())
        );
    }
}

#[test]
fn places_are_divided_by_agents_and_managers_take_none_of_ones_own() {
    let mut world = World::new();
    let agents: Vec<String> = (0..20).map(|_| world.child(AREA)).collect();
    let managers = [world.manager(AREA, 79), world.manager(AREA, 1)];
    world.submit(&(canary("p", "a") + "rollout: {max_in_progress: 10}\n"));
    for (manager, places) in managers.iter().zip([7, 1]) {
        let (_, text) = take(&mut world, manager);
        assert!(text.contains(&format!("max_in_progress: {places}\n")), "{text}");
    }
    let shown = agents.iter().filter(|agent| !world.poll(agent).is_empty()).count();
    assert_eq!(shown, 2);
}

#[test]
fn a_stage_reports_lead_a_manager_from_stage_to_stage() {
    let mut world = World::new();
    let manager = world.manager(AREA, 3);
    world.submit(&(two_stage("t", "a") + "rollout: {order: global_incremental}\n"));
    let (offer, _) = take(&mut world, &manager);
    world.report(&manager, &offer, summary("First", StageStatus::SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &manager, &offer, "First"), (true, false));
    world.report(&manager, &offer, summary("First", StageStatus::Completed)).unwrap();
    assert_eq!(asks(&mut world, &manager, &offer, "Second"), (false, false));
    world.report(&manager, &offer, summary("Second", StageStatus::SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &manager, &offer, "Second"), (true, false));
    let all = of_agents("Second", StageStatus::Completed, counts(3, 3, 0));
    world.report(&manager, &offer, all).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(world.runs(&manager, "a"), "new of t");
}

proptest! {
    #![proptest_config(crate::cases::cases(64))]

    #[test]
    fn what_is_said_of_agents_is_the_sum_over_the_children(
        below in proptest::collection::vec((0_u32..50, 0_u32..50, 0_u32..50, 0_u8..4), 1..6),
        own in 0_usize..4,
    ) {
        let mut world = World::new();
        let agents: Vec<String> = (0..own).map(|_| world.child(AREA)).collect();
        let managers: Vec<String> = below.iter().map(|(planned, ..)| world.manager(AREA, *planned)).collect();
        world.submit(&(canary("x", "a") + "rollout: {on_failure: continue}\n"));
        for (manager, (planned, succeeded, failed, status)) in managers.iter().zip(&below) {
            let (offer, _) = take(&mut world, manager);
            let status = match status {
                0 => continue,
                1 => StageStatus::SuccessWaiting,
                2 => StageStatus::Completed,
                _ => StageStatus::Failure,
            };
            let said = of_agents("Canary", status, counts(*planned, *succeeded, *failed));
            world.report(manager, &offer, said).unwrap();
        }
        for agent in &agents {
            rolls_out(&mut world, agent);
        }
        let release = world.release("x");
        let heard = below.iter().filter(|(.., status)| *status > 0);
        let succeeded: u32 = heard.clone().map(|(_, succeeded, ..)| *succeeded).sum();
        let failed: u32 = heard
            .map(|(_, _, failed, status)| if *status == 3 { (*failed).max(1) } else { *failed })
            .sum();
        let planned: u32 = below.iter().map(|(planned, ..)| *planned).sum();
        prop_assert_eq!(release.agents(), counts(planned + own as u32, succeeded + own as u32, failed));
        let again: Agents = release.assignments.values().fold(Agents::default(), |mut sum, part| {
            sum.add(part.agents());
            sum
        });
        prop_assert_eq!(again, release.counts.agents);
        let is_counted = |change: &Change| matches!(change, Change::Lifecycle(lifecycle::Change::Aborted { .. }));
        prop_assert!(!world.changes.iter().any(is_counted));
    }
}

#[test]
fn an_undo_reaches_a_manager_although_another_release_that_it_has_in_hand_is_paused() {
    let mut world = World::new();
    let managers = [world.manager(AREA, 4), world.manager(AREA, 4)];
    world.submit(&(canary("one", "a") + "rollout: {order: parallel}\n"));
    for manager in &managers {
        assert_eq!(take(&mut world, manager).0, "one");
    }
    let done = of_agents("Canary", StageStatus::Completed, counts(4, 4, 0));
    world.report(&managers[0], "one", done).unwrap();
    world.submit(&canary("two", "b"));
    assert_eq!(take(&mut world, &managers[0]).0, "two");
    world.pause("two");
    world.abort("one");

    assert_eq!(world.poll(&managers[0]), "one.undo");
    let key = world.state.children.key(&managers[0]).unwrap();
    assert_eq!(next_action::held(&world.state, key), ["two"], "it goes on holding what is paused");
    assert!(matches!(world.fetch(&managers[0], "one.undo").unwrap().form, Form::UndoOf { .. }));
    assert_eq!(world.poll(&managers[0]), "");
    let undone = summary("choirmaster undo", StageStatus::Completed);
    world.report(&managers[0], "one.undo", undone).unwrap();
    assert_eq!(next_action::held(&world.state, key), ["two"]);
}
