//! Other shares for a stage, while its release goes on.

use std::{collections::BTreeMap, sync::Arc};

use domain::release::{
    advance,
    command::{Command, Refusal, Reply},
    lifecycle, members,
    operation::Effect,
    parent::{ParentOffer, led},
    rollout, stages,
};
use model::{ChildStatus, FEATURE_SHARES, FEATURE_TOGETHER, StageStatus};

use super::{
    winner::router,
    world::{World, canary, checkout, submission, summary, traffic_stage},
};

use StageStatus::{Completed, Failure, InProgress, SuccessWaiting};

/// One stage that nothing judges, and that lasts until somebody says otherwise.
fn lasting(rollout: &str, variations: &[&str], shares: &str) -> String {
    let service = checkout(variations);
    format!(
        "id: s\nname: checkout\n{service}rollout: {{{rollout}}}\nstages:\n  - name: canary\n    type: Traffic\n    shares: \
         {{{shares}}}\n    end_conditions: [{{name: minDuration, threshold: 1h}}]\n    end_action: {{onSuccess: rollout, onFailure: \
         rollback}}\n"
    )
}

fn tenth() -> String {
    lasting("approval: before_rollout", &["A", "B"], "A: 90, B: 10")
}

/// Two stages that calls judge.
fn judged(rollout: &str) -> String {
    let service = checkout(&["A", "B"]);
    let little = traffic_stage("little", "A: 90, B: 10", "half");
    let half = traffic_stage("half", "A: 50, B: 50", "rollout");
    format!("id: s\nname: checkout\n{service}rollout: {{{rollout}}}\nstages:\n{little}{half}")
}

/// Two routers in the first stage that can be told of shares.
fn in_the_first_stage(text: &str) -> (World, [String; 2]) {
    let mut world = World::new();
    let routers = [(); 2].map(|()| router(&mut world, &[FEATURE_SHARES, FEATURE_TOGETHER]));
    world.submit(text);
    for router in &routers {
        world.take(router);
    }
    (world, routers)
}

fn chooses(stage: &str, new: u16) -> Command {
    let (release, shares) = ("s".to_owned(), told([(stage, new)]));
    Command::Rollout(rollout::Command::ChooseShares { release, shares })
}

fn choose(world: &mut World, stage: &str, new: u16) -> Result<(), Refusal> {
    world.carry_out("s", &[chooses(stage, new)])
}

/// Why it is refused; nothing is left behind by that.
fn refused(world: &mut World, stage: &str, new: u16) -> String {
    let before = (world.release("s").facts.clone(), Arc::clone(&world.release("s").strategy));
    let why = choose(world, stage, new).unwrap_err().to_string();
    let after = world.release("s");
    assert_eq!((&after.facts, &after.strategy), (&before.0, &before.1));
    why
}

/// Whether a stage may end, and which shares are told.
fn asks(world: &mut World, child: &str, stage: &str) -> (bool, BTreeMap<String, u16>) {
    let (child, offer, stage) = (child.to_owned(), "s".to_owned(), stage.to_owned());
    let asks = members::Command::EndStage { child, offer, stage, failures: None };
    match world.command(&Command::Members(asks)).unwrap() {
        Reply::EndStage { end, shares, .. } => (end, shares),
        other => panic!("{other:?}"),
    }
}

fn told<const N: usize>(shares: [(&str, u16); N]) -> BTreeMap<String, u16> {
    shares.map(|(stage, share)| (stage.to_owned(), share)).into()
}

fn shares(world: &World) -> &[u16] {
    &world.release("s").strategy.stages[0].shares
}

#[test]
fn a_share_goes_up_and_down_and_whoever_asks_is_told_and_the_stage_stays() {
    let (mut world, routers) = in_the_first_stage(&tenth());
    assert_eq!(asks(&mut world, &routers[0], "canary"), (false, told([])));
    for new in [3_000, 2_000, 0, 10_000, 1] {
        let seen = world.release("s").tag();
        choose(&mut world, "canary", new).unwrap();
        assert_eq!(shares(&world), [10_000 - new, new]);
        assert_ne!(world.release("s").tag(), seen, "whoever decides on it hears of it");
        for router in &routers {
            assert_eq!(asks(&mut world, router, "canary"), (false, told([("canary", new)])));
        }
        choose(&mut world, "canary", new).unwrap();
        assert_eq!((&world.changes[..], world.release("s").facts.len()), (&[][..], 1));
    }
    assert_eq!(world.release("s").strategy.stages[0].new_traffic, 1, "0 is only what has no calls");
    for router in &routers {
        let part = world.assignment("s", router);
        assert_eq!((part.slot.stage_index(), part.stage_status, part.attempt), (Some(0), InProgress, 1));
    }
    // What a store has of it leads to the same.
    let release = world.release("s");
    let submitted = language::check(&tenth()).strategy.unwrap();
    assert_eq!(rollout::shared(submitted, &release.facts), *release.strategy);
}

#[test]
fn who_fetches_the_offer_afterwards_has_it_in_the_text() {
    let text = lasting("order: parallel, late_joiners: include", &["A", "B"], "A: 90, B: 10");
    let (mut world, routers) = in_the_first_stage(&text);
    choose(&mut world, "canary", 3_000).unwrap();
    let late = router(&mut world, &[]);
    for router in [&late, &routers[0]] {
        let offer = if *router == late { world.poll(router) } else { "s".to_owned() };
        let offer = world.fetch(router, &offer).unwrap();
        assert_eq!(offer.strategy.stages[0].shares, [7_000, 3_000]);
        assert!(offer.text("s").contains(r#""B": 30"#), "{}", offer.text("s"));
    }
    // It has these by its text, and can't be told of others.
    assert_eq!(asks(&mut world, &late, "canary"), (false, told([])));
    let why = format!("{late} can't change shares during a stage (it doesn't name the feature \"shares\")");
    assert_eq!(
        refused(&mut world, "canary", 4_000),
        format!("the shares of stage \"canary\" of release s can't be changed: {why}")
    );
}

#[test]
fn a_release_that_doesnt_go_on_keeps_its_shares() {
    let (mut world, routers) = in_the_first_stage(&tenth());
    choose(&mut world, "canary", 2_000).unwrap();
    world.pause("s");
    assert!(refused(&mut world, "canary", 3_000).contains("resume it first"));
    // What was chosen before is told all the same.
    assert_eq!(asks(&mut world, &routers[0], "canary").1, told([("canary", 2_000)]));
    world.resume("s");
    choose(&mut world, "canary", 3_000).unwrap();
    world.abort("s");
    assert!(matches!(choose(&mut world, "canary", 4_000), Err(Refusal::WrongState { .. })));
    assert_eq!(asks(&mut world, &routers[0], "canary").1, told([]), "it goes back");
}

#[test]
fn what_awaits_an_approval_changes_its_shares_too() {
    let (mut world, routers) = in_the_first_stage(&tenth());
    for router in &routers {
        world.report(router, "s", summary("canary", SuccessWaiting)).unwrap();
    }
    assert_eq!(world.state_of("s"), "AwaitingApproval");
    choose(&mut world, "canary", 3_000).unwrap();
    assert_eq!(world.state_of("s"), "AwaitingApproval");
    assert_eq!(asks(&mut world, &routers[0], "canary"), (false, told([("canary", 3_000)])));
    world.approve("s").unwrap();
    assert_eq!(asks(&mut world, &routers[0], "canary"), (true, told([("canary", 3_000)])));
    for router in &routers {
        world.report(router, "s", summary("canary", Completed)).unwrap();
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn nobody_goes_back_to_a_stage_for_other_shares() {
    let (mut world, routers) = in_the_first_stage(&judged("order: parallel"));
    let [one, other] = &routers;
    let behind = |stage: &str| {
        format!("the shares of stage {stage:?} of release s can't be changed: {one} is at its end already")
    };
    world.report(one, "s", summary("little", SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, one, "little"), (true, told([])));
    assert_eq!(refused(&mut world, "little", 2_000), behind("little"), "it may end it");
    world.report(one, "s", summary("little", Completed)).unwrap();
    assert_eq!(refused(&mut world, "little", 2_000), behind("little"));
    // The next one is before both.
    choose(&mut world, "half", 6_000).unwrap();
    assert_eq!(asks(&mut world, one, "half"), (false, told([("half", 6_000)])));
    assert_eq!(asks(&mut world, other, "little"), (false, told([("half", 6_000)])));
    world.report(one, "s", summary("half", SuccessWaiting)).unwrap();
    world.report(one, "s", summary("half", Completed)).unwrap();
    assert_eq!(world.assignment("s", one).status, ChildStatus::Done);
    assert_eq!(refused(&mut world, "half", 7_000), behind("half"));
}

#[test]
fn who_has_failed_is_in_nobodys_way_and_hears_nothing() {
    let (mut world, routers) = in_the_first_stage(&judged("order: parallel, max_failed: 100%"));
    let [one, other] = &routers;
    world.report(one, "s", summary("little", Failure)).unwrap();
    assert_eq!(world.assignment("s", one).status, ChildStatus::Failed);
    choose(&mut world, "little", 2_000).unwrap();
    assert_eq!(asks(&mut world, other, "little"), (false, told([("little", 2_000)])));
    assert_eq!(asks(&mut world, one, "little").1, told([]));
}

#[test]
fn a_stage_that_is_passed_over_has_no_shares_any_more() {
    let (mut world, _) = in_the_first_stage(&tenth());
    let (release, stage) = ("s".to_owned(), "canary".to_owned());
    world.command(&Command::Stages(stages::Command::Skip { release, stage })).unwrap();
    assert!(refused(&mut world, "canary", 2_000).ends_with(": it was skipped"));
    choose(&mut world, "canary", 1_000).unwrap();
    assert_eq!(world.changes, [], "it has these");
}

#[test]
fn a_stage_that_something_judges_is_judged_by_what_it_was_planned_for() {
    let (mut world, _) = in_the_first_stage(&judged("order: parallel"));
    assert!(refused(&mut world, "little", 0).contains("can't change from 0 % or to 0 %"));
    choose(&mut world, "little", 1).unwrap();
    let metric = "{name: load, provider: it, query: q, expected: {max: 10}}";
    let block =
        format!("    analysis: {{duration: 10m, interval: 5m, metrics: [{metric}]}}\n    end_action:");
    let (mut world, _) = in_the_first_stage(&judged("order: parallel").replace("    end_action:", &block));
    assert!(refused(&mut world, "little", 2_000).contains("an analysis compares calls"));
}

#[test]
fn what_has_no_two_variations_or_no_such_stage_is_refused() {
    let (mut world, _) = in_the_first_stage(&tenth());
    assert!(matches!(choose(&mut world, "half", 3_000), Err(Refusal::UnknownStage { .. })));
    assert!(refused(&mut world, "canary", 10_001).contains("at most 100 %"));
    let three = lasting("order: parallel", &["A", "B", "C"], "A: 80, B: 10, C: 10");
    let (mut world, _) = in_the_first_stage(&three);
    assert!(refused(&mut world, "canary", 3_000).contains("with two variations"));
    let mut world = World::new();
    world.child("one");
    world.submit(&canary("s", "a"));
    assert!(refused(&mut world, "Canary", 3_000).contains("of a service"));
}

#[test]
fn however_often_shares_change_a_release_has_room_for_what_happens_to_it() {
    let (mut world, _) = in_the_first_stage(&tenth());
    // Without the second state, which is compared with all of this each time.
    for number in 0..=10_000_u16 {
        advance(&mut world.state, &world.calls, &chooses("canary", 1 + number % 2), world.now).1.unwrap();
    }
    assert_eq!(shares(&world), [9_999, 1]);
    assert_eq!(world.release("s").facts.len(), 1);
    let release = || "s".to_owned();
    let (skip, promote) = (
        stages::Command::Skip { release: release(), stage: "canary".to_owned() },
        rollout::Command::Promote { release: release() },
    );
    for command in [
        Command::Lifecycle(lifecycle::Command::Pause { release: release(), reason: String::new() }),
        Command::Lifecycle(lifecycle::Command::Resume { release: release() }),
        Command::Stages(skip),
        Command::Rollout(promote),
    ] {
        advance(&mut world.state, &world.calls, &command, world.now).1.unwrap();
    }
}

#[test]
fn of_a_release_from_above_the_parent_decides() {
    let mut world = World::new();
    let router = router(&mut world, &[FEATURE_SHARES]);
    let text = judged("order: parallel");
    let submitted = submission(led(language::check(&text).strategy.unwrap()), &text);
    let Command::Lifecycle(lifecycle::Command::Submit { mut submission, dry_run }) = submitted else {
        unreachable!()
    };
    submission.parent = Some(ParentOffer::new("s-above".to_owned()));
    world.command(&Command::Lifecycle(lifecycle::Command::Submit { submission, dry_run })).unwrap();
    world.take(&router);
    assert!(matches!(choose(&mut world, "little", 2_000), Err(Refusal::HeldByParent { .. })));
}

/// All who were to take part were taken out, and it is planned once more.
#[test]
fn a_release_that_is_planned_once_more_has_the_shares_that_were_chosen() {
    let mut world = World::new();
    let router = router(&mut world, &[FEATURE_SHARES]);
    world.submit(&tenth());
    choose(&mut world, "canary", 3_000).unwrap();
    let (release, child) = ("s".to_owned(), router.clone());
    world.command(&Command::Members(members::Command::Skip { release, child })).unwrap();
    assert_eq!(world.ended(), ["NoParticipants, 0 unconfirmed"]);
    world.plan_again("s");
    let again = world.poll(&router);
    assert_eq!(again, "s.r2");
    let offer = world.fetch(&router, &again).unwrap();
    assert_eq!(offer.strategy.stages[0].shares, [7_000, 3_000]);
    choose(&mut world, "canary", 4_000).unwrap();
    let release = world.release("s");
    let submitted = language::check(&tenth()).strategy.unwrap();
    assert_eq!(rollout::shared(submitted, &release.facts), *release.strategy);
    assert_eq!(usize::from(world.assignment("s", &router).facts), release.facts.len());
}

/// What adopts a canary: it goes on, its stage is passed over, and whatever is closed opens.
fn adopts() -> [Command; 3] {
    let release = || "s".to_owned();
    let skip = stages::Command::Skip { release: release(), stage: "canary".to_owned() };
    [
        Command::Lifecycle(lifecycle::Command::Resume { release: release() }),
        Command::Stages(skip),
        Command::Rollout(rollout::Command::Promote { release: release() }),
    ]
}

#[test]
fn what_is_done_one_after_the_other_comes_to_what_was_said_of_all_of_it() {
    let (mut world, _) = in_the_first_stage(&tenth());
    world.pause("s");
    let [_, rest @ ..] = adopts();
    let why = world.carry_out("s", &rest).unwrap_err();
    assert!(matches!(why, Refusal::WrongState { state: "Paused", .. }), "it has to go on before: {why}");
    let before = world.release("s").clone();
    assert_eq!(world.would("s", &adopts()), Ok(Effect::Something));
    assert_eq!(*world.release("s"), before, "nothing is done by asking");
    world.carry_out("s", &adopts()).unwrap();
    assert_eq!(world.would("s", &adopts()), Ok(Effect::Nothing), "it is so already");
    let abort =
        Command::Lifecycle(lifecycle::Command::Abort { release: "s".to_owned(), note: None, by: None });
    world.carry_out("s", &[abort]).unwrap();
    assert!(matches!(world.carry_out("s", &adopts()), Err(Refusal::WrongState { .. })));
}

/// What ends a release may be the first of several.
#[test]
fn what_ends_by_the_first_of_several_is_over_for_the_others() {
    let text = lasting("approval: before_rollout, on_failure: pause", &["A", "B"], "A: 90, B: 10");
    let (mut world, routers) = in_the_first_stage(&text);
    for router in &routers {
        world.report(router, "s", summary("canary", Failure)).unwrap();
    }
    assert_eq!(world.state_of("s"), "Paused");
    let why = world.carry_out("s", &adopts()).unwrap_err();
    assert!(matches!(why, Refusal::WrongState { state: "DoneWithFailures", .. }), "{why}");
}

/// Three services that are shared together until somebody says otherwise.
fn together() -> String {
    let service = |name: &str, port: u16| {
        checkout(&["A", "B"])
            .replace("services:\n", "")
            .replace("checkout", name)
            .replace("8080", &port.to_string())
    };
    let begun = |name: &str, next: &str| {
        format!(
            "  - name: {name}\n    type: Traffic\n    service: {name}\n    shares: {{A: 90, B: 10}}\n    with_next: true\n    end_action: \
             {{onSuccess: {next}, onFailure: rollback}}\n"
        )
    };
    format!(
        "id: s\nname: shop\nservices:\n{}{}{}rollout: {{order: parallel, approval: before_rollout, on_failure: pause}}\nstages:\n{}{}  - \
         name: last\n    type: Traffic\n    service: last\n    shares: {{A: 90, B: 10}}\n    end_conditions: [{{name: minDuration, threshold: 1h}}]\n    \
         end_action: {{onSuccess: rollout, onFailure: rollback}}\n",
        service("one", 8080),
        service("two", 8081),
        service("last", 8082),
        begun("one", "two"),
        begun("two", "last"),
    )
}

fn choose_all<const N: usize>(world: &mut World, shares: [(&str, u16); N]) -> Result<(), Refusal> {
    let (release, shares) = ("s".to_owned(), told(shares));
    world.carry_out("s", &[Command::Rollout(rollout::Command::ChooseShares { release, shares })])
}

/// Passes a stage, as whoever waits for nothing in it.
fn passes(world: &mut World, child: &str, stage: &str) {
    world.report(child, "s", summary(stage, SuccessWaiting)).unwrap();
    assert!(asks(world, child, stage).0, "{stage}");
    world.report(child, "s", summary(stage, Completed)).unwrap();
}

#[test]
fn what_begins_together_shares_until_the_last_of_it_ends() {
    let (mut world, routers) = in_the_first_stage(&together());
    let [one, other] = &routers;
    // Also of stages that are to come, and of those that are passed.
    choose_all(&mut world, [("one", 2_000), ("last", 3_000)]).unwrap();
    let said = told([("one", 2_000), ("last", 3_000)]);
    assert_eq!((asks(&mut world, one, "one").1, asks(&mut world, other, "one").1), (said.clone(), said));
    passes(&mut world, one, "one");
    passes(&mut world, one, "two");
    choose_all(&mut world, [("one", 4_000), ("two", 5_000)]).unwrap();
    let said = told([("one", 4_000), ("two", 5_000), ("last", 3_000)]);
    // Whoever is in another of these stages hears of all of them at once.
    assert_eq!((asks(&mut world, one, "last").1, asks(&mut world, other, "one").1), (said.clone(), said));
    assert_eq!(world.release("s").facts.len(), 3, "one for each stage");
    let shares: Vec<u16> = world.release("s").strategy.stages.iter().map(|stage| stage.shares[1]).collect();
    assert_eq!(shares, [4_000, 5_000, 3_000]);
    // The last of them may end at one: nobody goes back to any of them.
    passes(&mut world, other, "one");
    passes(&mut world, other, "two");
    for router in &routers {
        world.report(router, "s", summary("last", SuccessWaiting)).unwrap();
    }
    world.approve("s").unwrap();
    for stage in ["one", "two", "last"] {
        assert!(refused(&mut world, stage, 100).ends_with("is at its end already"), "{stage}");
    }
    for router in &routers {
        world.report(router, "s", summary("last", Completed)).unwrap();
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn shares_of_several_stages_are_chosen_all_or_none() {
    let (mut world, _) = in_the_first_stage(&together());
    let before = (world.release("s").facts.clone(), Arc::clone(&world.release("s").strategy));
    for (wrong, share) in [("nowhere", 1), ("two", 10_001)] {
        choose_all(&mut world, [("one", 2_000), (wrong, share)]).unwrap_err();
        let after = world.release("s");
        assert_eq!((&after.facts, &after.strategy), (&before.0, &before.1), "{wrong}");
    }
    choose_all(&mut world, [("one", 1_000), ("two", 1_000), ("last", 2_000)]).unwrap();
    assert_eq!(world.release("s").facts.len(), 1, "two of them have these already");
    choose_all(&mut world, []).unwrap();
    // The last one is passed over, as where all is adopted.
    let (release, stage) = ("s".to_owned(), "last".to_owned());
    world.command(&Command::Stages(stages::Command::Skip { release, stage })).unwrap();
    for stage in ["one", "two", "last"] {
        assert!(refused(&mut world, stage, 100).ends_with(": it was skipped"), "{stage}");
    }
}
