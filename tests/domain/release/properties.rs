//! Arbitrary sequences of commands against the small model.

use std::time::Duration;

use domain::children;
use domain::release::{
    command::{Command, Refusal},
    lifecycle, members,
    offer::{OfferKind, OfferName},
    rollout, stages,
    state::ReleaseState,
};
use language::render;
use model::{Cordon, Now, StageStatus};
use proptest::prelude::*;

use super::{
    model::Model,
    reports::received,
    world::{World, canary, forked, numbered, strategy_text, submission, two_functions, two_stage},
};

const CHILDREN: usize = 4;

/// What somebody does. Numbers pick among what is there.
#[derive(Debug, Clone)]
enum Deed {
    Arrive(usize),
    Poll(usize),
    Take(usize),
    FetchAgain(usize),
    Report {
        child: usize,
        status: StageStatus,
        stage: usize,
        number: u8,
    },
    ReportCurrent {
        child: usize,
        status: StageStatus,
    },
    /// Two summaries in one call, or one without a stage; about the offer before the last if `earlier`.
    ReportMore {
        child: usize,
        status: [StageStatus; 2],
        stage: [usize; 2],
        earlier: bool,
    },
    AskEnd {
        child: usize,
        stage: usize,
    },
    Submit(usize),
    Pause(usize),
    Resume(usize),
    Approve(usize),
    Promote(usize),
    PromoteToGate(usize),
    Extend(usize),
    SkipChild(usize, usize),
    RetryChild(usize, usize),
    Abort(usize),
    Retry(usize),
    PlanAgain(usize),
    EndStage(usize, usize),
    SkipStage(usize, usize),
    Forget(usize),
    Cordon(usize, Cordon),
    Label(usize, bool),
    Pass(u64),
    Repeat,
}

fn texts() -> Vec<String> {
    let superseding = strategy_text(
        "r5",
        "on_conflict: supersede\n",
        &["a"],
        &[["Canary", "WaitForSignal", "a", "rollback", "rollback"]],
    );
    vec![
        canary("r0", "a"),
        two_stage("r1", "a"),
        forked("r2", "b"),
        two_functions("r3", "a", "b"),
        canary("r4", "c"),
        superseding,
        led("r6", "order: global_incremental, soak: 1m, max_failed: 1, approval: before_rollout"),
        led(
            "r7",
            "order: waves, waves: [1, 50%, 100%], soak: 1m, on_failure: pause, approval: before_each_wave",
        ),
        led("r8", "order: location_sequential, start_at: [0, 0], on_failure: continue"),
        led(
            "r9",
            "order: global_incremental, max_in_progress: 1, late_joiners: include, on_failure: continue",
        ),
        aimed("order: global_incremental, late_joiners: include, on_failure: continue"),
        aimed("order: waves, waves: [1, 100%], on_failure: continue"),
        // Five minutes, and somewhat more than a day, after the world begins.
        canary("r12", "a").replacen("stages:", "rollout: {start: \"2023-11-14T22:18:20Z\"}\nstages:", 1),
        canary("r13", "a").replacen("stages:", "rollout: {start: \"2023-11-15T23:00:00Z\"}\nstages:", 1),
    ]
}

/// Two stages of a function of their own, which no operator cuts, with the manager in charge.
fn led(id: &str, rollout: &str) -> String {
    let stages =
        [["Small", "A/B", "c", "Large", "rollback"], ["Large", "WaitForSignal", "c", "rollout", "rollback"]];
    strategy_text(id, &format!("rollout: {{{rollout}}}\n"), &["c"], &stages)
}

/// The same for those that have a label.
fn aimed(rollout: &str) -> String {
    let text = led(if rollout.contains("waves") { "r11" } else { "r10" }, rollout);
    text.replacen("rollout:", "target: {labels: {tier: edge}}\nrollout:", 1)
}

fn deed() -> impl Strategy<Value = Deed> {
    let status = prop_oneof![
        Just(StageStatus::SuccessWaiting),
        Just(StageStatus::Completed),
        Just(StageStatus::Failure),
        Just(StageStatus::Error),
    ];
    let child = 0..CHILDREN;
    let child_labelled = child.clone();
    let release = 0..14_usize;
    let time = prop_oneof![Just(1), Just(3), Just(30), Just(61), Just(300), Just(901), Just(90_000)];
    let cordon = prop_oneof![Just(Cordon::Open), Just(Cordon::Cordoned), Just(Cordon::Drained)];
    prop_oneof![
        2 => child.clone().prop_map(Deed::Arrive),
        6 => child.clone().prop_map(Deed::Poll),
        12 => child.clone().prop_map(Deed::Take),
        2 => child.clone().prop_map(Deed::FetchAgain),
        4 => (child.clone(), status.clone(), 0..6_usize, 0..3_u8)
            .prop_map(|(child, status, stage, number)| Deed::Report { child, status, stage, number }),
        16 => (child.clone(), status.clone()).prop_map(|(child, status)| Deed::ReportCurrent { child, status }),
        4 => (child.clone(), [status.clone(), status.clone()], [0..7_usize, 0..7_usize], any::<bool>())
            .prop_map(|(child, status, stage, earlier)| Deed::ReportMore { child, status, stage, earlier }),
        4 => (child.clone(), 0..6_usize).prop_map(|(child, stage)| Deed::AskEnd { child, stage }),
        4 => release.clone().prop_map(Deed::Submit),
        1 => release.clone().prop_map(Deed::Pause),
        2 => release.clone().prop_map(Deed::Resume),
        3 => release.clone().prop_map(Deed::Approve),
        1 => (7..9_usize).prop_map(Deed::Promote),
        1 => (7..9_usize).prop_map(Deed::PromoteToGate),
        2 => release.clone().prop_map(Deed::Extend),
        1 => (release.clone(), child.clone()).prop_map(|(release, child)| Deed::SkipChild(release, child)),
        1 => (release.clone(), child.clone()).prop_map(|(release, child)| Deed::RetryChild(release, child)),
        1 => release.clone().prop_map(Deed::Abort),
        2 => release.clone().prop_map(Deed::Retry),
        1 => release.clone().prop_map(Deed::PlanAgain),
        1 => (release.clone(), 0..6_usize).prop_map(|(release, stage)| Deed::EndStage(release, stage)),
        2 => (release, 0..5_usize).prop_map(|(release, stage)| Deed::SkipStage(release, stage)),
        1 => child.clone().prop_map(Deed::Forget),
        1 => (child, cordon).prop_map(|(child, cordon)| Deed::Cordon(child, cordon)),
        3 => (child_labelled, any::<bool>()).prop_map(|(child, edge)| Deed::Label(child, edge)),
        3 => time.prop_map(Deed::Pass),
        3 => Just(Deed::Repeat),
    ]
}

const STAGES: [&str; 6] = ["Canary", "First", "Second", "Bold", render::ROLLOUT_STAGE, render::UNDO_STAGE];

/// Carries deeds out.
struct Run {
    world: World,
    model: Model,
    ids: Vec<String>,
    /// The offer each child fetched last.
    offers: Vec<String>,
    /// And the one before.
    earlier: Vec<String>,
    last: Option<Last>,
}

/// A child's call, which may be made once more.
struct Last {
    command: Command,
    /// When it was refused as nothing that the child may say.
    refused: Option<Now>,
}

impl Run {
    fn new() -> Self {
        Self {
            world: World::new(),
            model: Model::default(),
            ids: vec![String::new(); CHILDREN],
            offers: vec![String::new(); CHILDREN],
            earlier: vec![String::new(); CHILDREN],
            last: None,
        }
    }

    fn area(child: usize) -> String {
        // Two of the children share an area.
        format!("area-{}", child.min(CHILDREN - 2))
    }

    fn command(&mut self, command: Command) {
        let answer = self.world.command(&command);
        self.model.check(&self.world);
        let is_taken = matches!(answer, Ok(_) | Err(Refusal::Late { .. }));
        let refused = (!is_taken).then_some(self.world.now);
        let by_child = matches!(
            command,
            Command::Members(
                members::Command::Fetch { .. }
                    | members::Command::Result { .. }
                    | members::Command::EndStage { .. }
            )
        );
        self.last = by_child.then_some(Last { command, refused });
    }

    fn poll(&mut self, child: usize, id: &str) -> String {
        let (id, offer) = self.world.poll_as(id, &Self::area(child), None);
        self.model.check(&self.world);
        self.ids[child] = id;
        self.last = None;
        offer
    }

    /// The offer's stage that runs now, as the child knows it from the offer.
    fn current_stage(&self, child: usize) -> Option<String> {
        let (id, name) = OfferName::candidates(&self.offers[child])
            .find(|(id, _)| self.world.state.known.contains_key(*id))?;
        if let OfferKind::Undo(_) = name.kind {
            return Some(render::UNDO_STAGE.to_owned());
        }
        if let OfferKind::Rollout(_) = name.kind {
            return Some(render::ROLLOUT_STAGE.to_owned());
        }
        let release = self.world.state.release_by_id(id)?;
        let key = self.world.state.children.key(&self.ids[child])?;
        let index = release.assignments.get(&key)?.slot.stage_index()?;
        Some(release.strategy.stages[index].name.clone())
    }

    fn report(&mut self, child: usize, stage: &str, status: StageStatus, number: u8) {
        let (id, offer) = (self.ids[child].clone(), self.offers[child].clone());
        let reports = vec![received(numbered(stage, status, f64::from(number) + 5.0))];
        self.command(Command::Members(members::Command::Result { child: id, offer, reports }));
    }

    fn carry_all_out(&mut self, deeds: &[Deed]) {
        for child in 0..CHILDREN {
            self.poll(child, "");
        }
        for deed in deeds {
            self.carry_out(deed);
        }
        self.let_all_end();
    }

    fn carry_out(&mut self, deed: &Deed) {
        let release = |index: usize| format!("r{index}");
        match deed {
            Deed::Arrive(child) => {
                self.poll(*child, "");
            }
            Deed::Poll(child) => {
                let id = self.ids[*child].clone();
                self.poll(*child, &id);
            }
            Deed::Take(child) => {
                let id = self.ids[*child].clone();
                let offer = self.poll(*child, &id);
                if !offer.is_empty() {
                    self.earlier[*child] = std::mem::replace(&mut self.offers[*child], offer.clone());
                    let id = self.ids[*child].clone();
                    self.command(Command::Members(members::Command::Fetch { child: id, offer }));
                }
            }
            Deed::FetchAgain(child) => {
                let (child, offer) = (self.ids[*child].clone(), self.offers[*child].clone());
                self.command(Command::Members(members::Command::Fetch { child, offer }));
            }
            Deed::Report { child, status, stage, number } => {
                self.report(*child, STAGES[*stage], *status, *number);
            }
            Deed::ReportCurrent { child, status } => {
                let stage = self.current_stage(*child).unwrap_or_default();
                self.report(*child, &stage, *status, 0);
            }
            Deed::ReportMore { child, status, stage, earlier } => {
                let offers = if *earlier { &self.earlier } else { &self.offers };
                let (id, offer) = (self.ids[*child].clone(), offers[*child].clone());
                let named = |at: usize| STAGES.get(stage[at]).copied().unwrap_or_default();
                let mut reports = vec![received(numbered(named(0), status[0], 5.0))];
                if named(1) != named(0) {
                    reports.push(received(numbered(named(1), status[1], 6.0)));
                }
                self.command(Command::Members(members::Command::Result { child: id, offer, reports }));
            }
            Deed::AskEnd { child, stage } => {
                let (id, offer) = (self.ids[*child].clone(), self.offers[*child].clone());
                self.command(Command::Members(members::Command::EndStage {
                    child: id,
                    offer,
                    stage: STAGES[*stage].to_owned(),
                    failures: None,
                }));
            }
            Deed::Submit(index) => {
                let text = texts().swap_remove(*index);
                self.command(submission(language::check(&text).strategy.unwrap(), &text));
            }
            Deed::Pause(index) => {
                self.command(Command::Lifecycle(lifecycle::Command::Pause {
                    release: release(*index),
                    reason: String::new(),
                }));
            }
            Deed::Resume(index) => {
                self.command(Command::Lifecycle(lifecycle::Command::Resume { release: release(*index) }));
            }
            Deed::Approve(index) => {
                self.command(Command::Rollout(rollout::Command::Approve { release: release(*index) }));
            }
            Deed::Promote(index) => {
                self.command(Command::Rollout(rollout::Command::Promote { release: release(*index) }));
            }
            Deed::PromoteToGate(index) => {
                let release = release(*index);
                self.command(Command::Rollout(rollout::Command::PromoteToGate { release }));
            }
            Deed::Extend(index) => {
                self.command(Command::Rollout(rollout::Command::Extend { release: release(*index) }));
            }
            Deed::SkipChild(index, child) => {
                self.command(Command::Members(members::Command::Skip {
                    release: release(*index),
                    child: self.ids[*child].clone(),
                }));
            }
            Deed::RetryChild(index, child) => {
                self.command(Command::Members(members::Command::Retry {
                    release: release(*index),
                    child: self.ids[*child].clone(),
                }));
            }
            Deed::Abort(index) => {
                self.command(Command::Lifecycle(lifecycle::Command::Abort {
                    release: release(*index),
                    note: None,
                    by: None,
                }));
            }
            Deed::Retry(index) => {
                self.command(Command::Lifecycle(lifecycle::Command::Retry { release: release(*index) }));
            }
            Deed::PlanAgain(index) => {
                self.command(Command::Lifecycle(lifecycle::Command::PlanAgain { release: release(*index) }));
            }
            Deed::EndStage(index, stage) => {
                let stage = STAGES[*stage].to_owned();
                self.command(Command::Stages(stages::Command::End { release: release(*index), stage }));
            }
            Deed::SkipStage(index, stage) => {
                // Of those that are led, the first alone: a cut of the last is a barrier that opens early on purpose.
                let stage = STAGES.get(*stage).filter(|_| *stage < 4).copied().unwrap_or("Small").to_owned();
                self.command(Command::Stages(stages::Command::Skip { release: release(*index), stage }));
            }
            Deed::Forget(child) => {
                self.command(Command::Children(children::Command::Forget {
                    child: self.ids[*child].clone(),
                    even_if_it_owes: true,
                }));
            }
            Deed::Cordon(child, cordon) => {
                self.command(Command::Children(children::Command::Cordon {
                    child: self.ids[*child].clone(),
                    cordon: *cordon,
                }));
            }
            Deed::Label(child, edge) => {
                let (child, key) = (self.ids[*child].clone(), "tier".to_owned());
                self.command(Command::Children(children::Command::Label {
                    child,
                    key,
                    value: edge.then(|| "edge".to_owned()),
                }));
            }
            Deed::Pass(seconds) => {
                self.world.pass(Duration::from_secs(*seconds));
                self.model.check(&self.world);
            }
            Deed::Repeat => self.repeat(),
        }
    }

    /// A duplicate of the last call changes nothing more.
    fn repeat(&mut self) {
        let Some(Last { command, refused }) = &self.last else { return };
        // What was refused in time says something else to a release that has given its child up meanwhile.
        let is_late_now = refused.is_some_and(|then| then != self.world.now);
        if is_late_now || self.was_replaced(command) {
            return;
        }
        let before = self.world.state.releases.clone();
        let _ = self.world.command(command);
        assert_eq!(before, self.world.state.releases, "a duplicate of {command:?}");
        self.model.check(&self.world);
    }

    /// Whether another has taken the caller's place since: then any call of it, also one made again, is a sign of life.
    fn was_replaced(&self, command: &Command) -> bool {
        let Command::Members(
            members::Command::Fetch { child, .. }
            | members::Command::Result { child, .. }
            | members::Command::EndStage { child, .. },
        ) = command
        else {
            return false;
        };
        let state = &self.world.state;
        state.children.key(child).is_some_and(|key| {
            let mut parts = state.releases.values().filter_map(|release| release.assignments.get(&key));
            parts.any(|assignment| assignment.rare().successor.is_some())
        })
    }

    /// With everybody silent, time alone brings every release to its end.
    fn let_all_end(&mut self) {
        for _ in 0..400 {
            let all = self.world.state.releases.values();
            let all: Vec<String> = all.map(|release| release.id.as_str().to_owned()).collect();
            for release in all {
                self.command(Command::Lifecycle(lifecycle::Command::Resume { release }));
            }
            // To go on after a pause by hand may show that a limit was passed meanwhile.
            if self.world.state.releases.values().any(|r| matches!(r.state, ReleaseState::Paused { .. })) {
                continue;
            }
            let Some(due) = self.world.state.next_due(self.world.now) else { break };
            let wait = due.saturating_sub(self.world.now.served_ms) + 1;
            self.world.pass(Duration::from_millis(wait));
            self.model.check(&self.world);
        }
        for release in self.world.state.releases.values() {
            assert!(
                release.state.is_over(),
                "{} never ends at {:?}: {release:#?}",
                release.id,
                self.world.now
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_commands_breaks_an_invariant(deeds in prop::collection::vec(deed(), 1..120)) {
        Run::new().carry_all_out(&deeds);
    }

    #[test]
    fn no_text_makes_the_heart_panic(child in ".{0,40}", offer in "[a-z0-9.]{0,40}|.{0,40}", stage in ".{0,40}") {
        let mut world = World::new();
        world.child("area");
        world.submit(&canary("r0", "a"));
        for child in [child, "child-1".to_owned()] {
            let fetch = Command::Members(members::Command::Fetch { child: child.clone(), offer: offer.clone() });
            let _ = world.command(&fetch);
            let _ = world.may_end(&child, &offer, &stage);
            let _ = world.report(&child, &offer, numbered(&stage, StageStatus::Completed, 1.0));
        }
    }

    #[test]
    fn the_name_of_an_offer_is_read_as_it_was_written(
        attempt in 1_u16..=999, kind in 0..4, number in 1_u16..=255, release in "[a-zA-Z0-9~_-]{1,10}"
    ) {
        let kind = match kind {
            0 => OfferKind::First,
            1 => OfferKind::Stage(number as u8),
            2 => OfferKind::Rollout(number as u8 - 1),
            _ => OfferKind::Undo(number),
        };
        let attempt = if matches!(kind, OfferKind::Undo(_)) { 1 } else { attempt };
        let name = OfferName { attempt, kind };
        prop_assume!(!matches!(kind, OfferKind::Stage(255)));
        let id = name.id(&release);
        prop_assert_eq!(OfferName::parse_suffix(&id[release.len()..]), Some(name));
        prop_assert!(OfferName::candidates(&id).any(|(found, read)| found == release && read == name));
    }
}

#[test]
fn one_that_stood_in_for_a_child_that_was_not_gone_owes_nothing_for_it() {
    let mut run = Run::new();
    for child in 0..CHILDREN {
        run.poll(child, "");
    }
    let deeds = [
        Deed::Submit(9),
        Deed::Take(2),
        Deed::ReportCurrent { child: 3, status: StageStatus::SuccessWaiting },
        Deed::Pass(901),
        Deed::Pass(1),
        Deed::Take(2),
    ];
    for deed in &deeds {
        run.carry_out(deed);
    }
    run.let_all_end();
}

/// Sequences that broke an invariant once.
#[test]
fn sequences_that_went_wrong_once_do_not_again() {
    use Deed::{Arrive, Forget, Pass, PlanAgain, Poll, ReportCurrent, Submit, Take};
    let fails = |child| ReportCurrent { child, status: StageStatus::Error };
    let ready = |child| ReportCurrent { child, status: StageStatus::SuccessWaiting };
    let told: [&[Deed]; 5] = [
        // Whose place is taken is forgotten when the release is about to begin: what the other owes is due all the same.
        &[Pass(61), Poll(2), Submit(0), Take(2), Submit(9), Take(3), fails(3), Forget(2)],
        &[Submit(0), Submit(6), Poll(0), Take(3), Take(2), fails(2), Take(2), Forget(2), Pass(90_000)],
        &[Submit(4), Take(2), Pass(901), Submit(0), Take(3), Forget(2), Pass(90_000)],
        // Nobody took part, somebody is replaced, and it is planned once more.
        &[Pass(90_000), Submit(13), Arrive(1), Arrive(1), Forget(0), Submit(0), PlanAgain(13)],
        &[Submit(13), Submit(0), ready(2), Poll(0), Take(0), Pass(1), Take(1)],
    ];
    for deeds in told {
        Run::new().carry_all_out(deeds);
    }
}

#[test]
fn a_child_that_falls_silent_while_its_undo_rests_holds_up_no_release() {
    let error = Deed::ReportCurrent { child: 0, status: StageStatus::Error };
    let deeds = [Deed::Submit(8), Deed::Take(0), Deed::Poll(0), Deed::Take(0), Deed::Retry(8), error];
    Run::new().carry_all_out(&deeds);
}
