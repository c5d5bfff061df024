//! Stages and releases that are judged: what waits for a verdict, and what a verdict does.

use std::time::Duration;

use ::analysis::{Design, End, Judgement, Occasion, Sample, Spending, Stratum, Verdict};
use domain::release::{
    analysis,
    analysis::{InterimAnalysis, Metered, RunStatus},
    command::{Command, Reply},
};
use model::StageStatus;

use proptest::prelude::*;

use super::{
    in_place::{kept, own_agent},
    world::{World, canary, summary},
};

const MINUTE: Duration = Duration::from_mins(1);

/// The canary with an analysis of its stage, and with these keys of `rollout`.
fn judged(rollout: &str, keys: &str) -> String {
    let metric = "{name: load, provider: it, query: q, expected: {max: 10}}";
    let block =
        format!("    analysis: {{duration: 10m, interval: 5m, {keys}metrics: [{metric}]}}\n    end_action:");
    canary("7", "a").replace("    end_action:", &block).replace("functions:", &format!("{rollout}functions:"))
}

/// One child that is ready to end its stage.
fn ready(text: &str) -> (World, String) {
    let mut world = World::new();
    let child = world.child("area");
    world.submit(text);
    world.get_ready(&child, "Canary");
    (world, child)
}

/// What is told of a look at the first block.
fn look(world: &World, verdict: Option<Verdict>) -> InterimAnalysis {
    let release = world.release("7");
    let run = &release.runs[0];
    let metric = Metered { verdict, sentence: "seen".to_owned(), ..Metered::default() };
    // Beside it the conditions of the stage are judged, which hold.
    let (_, analysis) = release.block(0).unwrap();
    let held = Metered { verdict: verdict.map(|_| Verdict::Pass), ..metric.clone() };
    let held = vec![held; analysis.metrics.len() - 1];
    InterimAnalysis {
        release: release.key,
        block: 0,
        number: run.number,
        after: run.looks,
        elapsed_ms: release.at(world.now) - run.began,
        is_gathered: true,
        metrics: [vec![metric], held].concat(),
    }
}

fn take_in(world: &mut World, look: InterimAnalysis) -> Reply {
    world.command(&Command::Analysis(analysis::Command::Looked(Box::new(look)))).unwrap()
}

fn tell(world: &mut World, verdict: Option<Verdict>) {
    let look = look(world, verdict);
    assert_eq!(take_in(world, look), Reply::Looked { counts: true });
}

fn standing(world: &World) -> RunStatus {
    world.release("7").runs[0].standing
}

/// The child calls on, and time goes by.
fn wait(world: &mut World, child: &str, minutes: u32) {
    for _ in 0..minutes {
        world.pass(MINUTE);
        world.report(child, "7", summary("Canary", StageStatus::SuccessWaiting)).unwrap();
    }
}

#[test]
fn a_child_that_is_ready_goes_on_testing_until_the_verdict_is_a_pass() {
    let (mut world, child) = ready(&judged("", ""));
    insta::assert_snapshot!(world.waits("7"), @"0 of 1 child has ended, 1 at work; every child is ready for the roll-out: the verdict of the analysis is awaited");
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(false));
    let run = &world.release("7").runs[0];
    assert_eq!(world.release("7").look_due(run), Some(run.began + 5 * 60_000));
    wait(&mut world, &child, 5);
    tell(&mut world, None);
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(false));
    wait(&mut world, &child, 5);
    tell(&mut world, Some(Verdict::Pass));
    assert_eq!(standing(&world), RunStatus::Passed);
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(true));
}

#[test]
fn a_look_counts_once() {
    let (mut world, _) = ready(&judged("", ""));
    let first = look(&world, None);
    assert_eq!(take_in(&mut world, first.clone()), Reply::Looked { counts: true });
    assert_eq!(take_in(&mut world, first), Reply::Looked { counts: false });
    assert_eq!(world.release("7").runs[0].looks, 1);
    world.pause("7");
    let late = look(&world, Some(Verdict::Fail));
    assert_eq!(take_in(&mut world, late), Reply::Looked { counts: false });
    assert_eq!(world.release("7").runs[0].looks, 1);
}

#[test]
fn what_a_verdict_does_is_as_the_strategy_says() {
    for (rollout, keys, verdict, state, stands) in [
        ("", "", Verdict::Fail, "RollingBack", RunStatus::Failed),
        ("rollout: {on_failure: pause}\n", "", Verdict::Fail, "Paused", RunStatus::Paused),
        ("rollout: {on_failure: continue}\n", "", Verdict::Fail, "Running", RunStatus::Accepted),
        ("", "", Verdict::Inconclusive, "Paused", RunStatus::Paused),
        ("", "inconclusive: fail, ", Verdict::Inconclusive, "RollingBack", RunStatus::Failed),
        ("", "inconclusive: pass, ", Verdict::Inconclusive, "Running", RunStatus::Passed),
        ("", "", Verdict::NoData, "Paused", RunStatus::Paused),
        ("", "noData: fail, ", Verdict::NoData, "RollingBack", RunStatus::Failed),
        ("", "noData: pass, inconclusive: pass, ", Verdict::Error, "Paused", RunStatus::Paused),
        ("", "dryRun: true, ", Verdict::Fail, "Running", RunStatus::Passed),
    ] {
        let (mut world, _) = ready(&judged(rollout, keys));
        tell(&mut world, Some(verdict));
        assert_eq!((world.state_of("7"), standing(&world)), (state, stands), "{rollout} {keys} {verdict:?}");
    }
}

#[test]
fn whoever_resumes_accepts_the_verdict_and_the_gate_opens() {
    let (mut world, child) = ready(&judged("", ""));
    tell(&mut world, Some(Verdict::Inconclusive));
    insta::assert_snapshot!(world.waits("7"), @"is paused (analysis of stage Canary: inconclusive: load: seen): resume or abort it");
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(false));
    world.resume("7");
    assert_eq!(standing(&world), RunStatus::Accepted);
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(true));
}

#[test]
fn a_pause_stops_the_clock_of_an_analysis() {
    let (mut world, _) = ready(&judged("", ""));
    let due = world.release("7").look_due(&world.release("7").runs[0]).unwrap();
    world.pause("7");
    world.pass(60 * MINUTE);
    world.resume("7");
    let release = world.release("7");
    assert_eq!(release.look_due(&release.runs[0]), Some(due));
    assert!(release.at(world.now) < due);
}

#[test]
fn a_verdict_that_never_comes_pauses_the_release() {
    let (mut world, child) = ready(&judged("", ""));
    // Ten minutes, ten more for answers that are asked for again, and fifteen.
    wait(&mut world, &child, 34);
    assert_eq!(world.state_of("7"), "Running");
    world.pass(MINUTE);
    assert_eq!(world.state_of("7"), "Paused");
    insta::assert_snapshot!(world.waits("7"), @"is paused (analysis of stage Canary: error: it was not judged in time): resume or abort it");
}

/// Of an analysis of what children report: one look at each interval, and one at the end, when all have come.
fn is_looked_at_at_each_interval_and_at_the_end_when_all_have_come(question: &str) {
    let text = judged("", "").replace(
        "provider: it, query: q, expected: {max: 10}",
        &format!("provider: children, metric: responseTime, {question}"),
    );
    let mut world = World::new();
    let (one, two) = (world.child("area 1"), world.child("area 2"));
    world.submit(&text);
    world.get_ready(&one, "Canary");
    let began = world.release("7").runs[0].began;
    let due = |world: &World, looked_ms: u64| {
        let release = world.release("7");
        release.look_due_after(&release.runs[0], looked_ms).map(|due| due - began)
    };
    assert_eq!((due(&world, 0), due(&world, 5 * 60_000)), (Some(5 * 60_000), None));
    world.get_ready(&two, "Canary");
    assert_eq!((due(&world, 0), due(&world, 5 * 60_000)), (Some(5 * 60_000), Some(10 * 60_000)));
}

#[test]
fn child_report_range_is_checked_each_interval_and_at_end() {
    is_looked_at_at_each_interval_and_at_the_end_when_all_have_come("expected: {max: 10}");
}

#[test]
fn child_comparison_is_checked_each_interval_and_at_end() {
    is_looked_at_at_each_interval_and_at_the_end_when_all_have_come("strategy: CANARY_BASELINE");
}

#[test]
fn each_wave_has_a_run_of_its_own_and_a_part_of_alpha() {
    let text = judged("rollout: {order: waves, waves: [1, 100%]}\n", "")
        .replace("expected: {max: 10}", "strategy: CANARY_BASELINE");
    let text = text.replace("query: q", "query: 'x{v=\"{{ .Variant.Name }}\"}'");
    let mut world = World::new();
    let (one, two) = (world.child("area 1"), world.child("area 2"));
    world.submit(&text);
    let first = if world.poll(&one).is_empty() { &two } else { &one };
    world.get_ready(first, "Canary");
    let run = &world.release("7").runs[0];
    assert_eq!((run.number, run.of), (0, 2));
    let design = world.release("7").design(run, 0).unwrap();
    assert!((design.alpha - 0.025).abs() < 1e-12, "{}", design.alpha);
}

/// The canary with a comparison beside its conditions, and with these keys of its analysis.
fn compared(keys: &str) -> String {
    let range = "provider: it, query: q, expected: {max: 10}";
    judged("", keys).replace(range, "provider: children, metric: responseTime, strategy: CANARY_BASELINE")
}

/// A judgement as it is after a look at so many calls of two equal versions.
fn judgement(world: &World, calls: usize, occasion: Occasion) -> Metered {
    let release = world.release("7");
    let end = End::After { duration_ms: 600_000, interval_ms: 300_000, spending: Spending::default() };
    let design = Design { end, ..release.design(&release.runs[0], 0).unwrap() };
    let values = || Sample::Values((0..calls).map(|at| 10.0 + 20.0 * at as f64 / calls as f64).collect());
    let strata = vec![Stratum::new("Canary", 0, values(), values())];
    let mut judgement = Judgement::new(design).unwrap();
    let found = judgement.look(&strata, 300_000, occasion);
    let verdict = found.verdict.filter(|_| !judgement.is_early_pass());
    let sentence = found.evidence.sentence;
    Metered { judgement: Some(judgement), strata, verdict, sentence, ..Metered::default() }
}

fn tell_of(world: &mut World, metric: Metered, is_gathered: bool) {
    let verdict = metric.verdict.or(metric.passes_early().then_some(Verdict::Pass));
    let mut look = look(world, verdict);
    (look.metrics[0], look.is_gathered) = (metric, is_gathered);
    assert_eq!(take_in(world, look), Reply::Looked { counts: true });
}

#[test]
fn a_stage_that_has_passed_is_over_once_everybody_has_come_to_its_end() {
    let mut world = World::new();
    let (one, two) = (world.child("area 1"), world.child("area 2"));
    world.submit(&compared("earlyPass: true, "));
    world.get_ready(&one, "Canary");
    let passing = judgement(&world, 20_000, Occasion::Look);
    assert!(passing.passes_early(), "{}", passing.sentence);
    // Another child is still testing: what could be gained?
    for is_gathered in [false, true] {
        tell_of(&mut world, passing.clone(), is_gathered);
        assert_eq!((standing(&world), world.may_end(&one, "7", "Canary")), (RunStatus::Open, Ok(false)));
    }
    world.get_ready(&two, "Canary");
    assert_eq!(standing(&world), RunStatus::Open, "a look has to see what it reported");
    tell_of(&mut world, passing, true);
    assert_eq!((standing(&world), world.may_end(&one, "7", "Canary")), (RunStatus::Passed, Ok(true)));
    let run = &world.release("7").runs[0];
    assert_eq!((run.verdict, run.metrics[0].verdict), (Some(Verdict::Pass), Some(Verdict::Pass)));
    assert!(run.metrics[0].strata.is_empty() && run.metrics[0].judgement.is_none(), "nothing is kept");
    assert!(run.why.contains("passed early, at look 1 of 2"), "{}", run.why);
}

#[test]
fn a_stage_whose_strategy_does_not_say_so_is_not_over_before_its_end() {
    let (mut world, child) = ready(&compared(""));
    let found = judgement(&world, 20_000, Occasion::Look);
    assert!(!found.passes_early(), "{}", found.sentence);
    tell_of(&mut world, found, true);
    assert_eq!((standing(&world), world.may_end(&child, "7", "Canary")), (RunStatus::Open, Ok(false)));
}

#[test]
fn what_ends_undecided_goes_on_by_itself_once_and_then_what_the_strategy_says_follows() {
    for (then, state, stands) in [
        ("", "Paused", RunStatus::Paused),
        (", then: fail", "RollingBack", RunStatus::Failed),
        (", then: pass", "Running", RunStatus::Passed),
    ] {
        let keys = format!("inconclusive: {{extend: 7m, calls: 5000{then}}}, ");
        let (mut world, child) = ready(&compared(&keys));
        wait(&mut world, &child, 10);
        let undecided = judgement(&world, 8, Occasion::Last);
        assert_eq!(undecided.verdict, Some(Verdict::Inconclusive), "{}", undecided.sentence);
        tell_of(&mut world, undecided, true);
        let release = world.release("7");
        let run = &release.runs[0];
        assert_eq!((world.state_of("7"), run.standing, run.verdict), ("Running", RunStatus::Open, None));
        let extended = run.extended.unwrap();
        assert_eq!((extended.for_ms, extended.calls), (7 * 60_000, Some(5_000)));
        assert_eq!(extended.begun.map(|begun| begun.calls), Some(16));
        assert_eq!(release.end_of(run), Some(release.at(world.now) - run.began + 7 * 60_000));
        assert!(run.metrics[0].judgement.as_ref().unwrap().is_extended());
        wait(&mut world, &child, 7);
        let mut still = world.release("7").runs[0].metrics[0].clone();
        still.verdict = Some(Verdict::Inconclusive);
        tell_of(&mut world, still, true);
        assert_eq!((world.state_of("7"), standing(&world)), (state, stands), "{then}");
    }
}

#[test]
fn analysis_without_data_is_not_extended_automatically() {
    for (keys, state) in [("", "Paused"), ("noData: fail, ", "RollingBack")] {
        let (mut world, _) = ready(&compared(&format!("inconclusive: {{extend: 7m}}, {keys}")));
        let nothing = judgement(&world, 0, Occasion::Last);
        assert_eq!(nothing.verdict, Some(Verdict::NoData));
        tell_of(&mut world, nothing, true);
        assert_eq!(world.state_of("7"), state, "{keys}");
        assert_eq!(world.release("7").runs[0].extended, None);
    }
}

#[test]
fn what_somebody_extended_does_not_go_on_by_itself_after_that() {
    let (mut world, child) = ready(&compared("inconclusive: {extend: 7m}, "));
    let extend =
        Command::Analysis(analysis::Command::Extend { release: "7".to_owned(), for_ms: 60_000, calls: None });
    world.command(&extend).unwrap();
    wait(&mut world, &child, 10);
    let undecided = judgement(&world, 8, Occasion::Last);
    tell_of(&mut world, undecided, true);
    assert_eq!(world.release("7").runs[0].extended.map(|extended| extended.for_ms), Some(60_000));
    let mut still = world.release("7").runs[0].metrics[0].clone();
    still.verdict = Some(Verdict::Inconclusive);
    tell_of(&mut world, still, true);
    assert_eq!(world.state_of("7"), "Paused");
}

/// An agent that keeps the shares of what fails waits for people, who were asked for more data only.
#[test]
fn whoever_extends_an_analysis_decides_nothing_of_a_stage_that_has_failed() {
    let mut world = World::new();
    let agents = ["area 1", "area 2"].map(|area| own_agent(&mut world, area));
    world.submit(&compared("").replace("functions:", "rollout: {on_failure: pause}\nfunctions:"));
    for agent in &agents {
        world.get_ready(agent, "Canary");
    }
    let undecided = judgement(&world, 8, Occasion::Last);
    tell_of(&mut world, undecided, true);
    assert_eq!((world.state_of("7"), standing(&world)), ("Paused", RunStatus::Paused));
    world.report(&agents[1], "7", kept("Canary", StageStatus::SuccessWaiting)).unwrap();
    let extend =
        Command::Analysis(analysis::Command::Extend { release: "7".to_owned(), for_ms: 60_000, calls: None });
    world.command(&extend).unwrap();
    assert_eq!((world.state_of("7"), standing(&world)), ("Paused", RunStatus::Open));
    world.resume("7");
    assert_eq!((world.state_of("7"), standing(&world)), ("Running", RunStatus::Open));
}

proptest! {
    #[test]
    fn what_was_measured_comes_back_from_the_store_bit_for_bit(
        values in proptest::collection::vec(any::<f64>().prop_filter("finite", |value| value.is_finite()), 0..50),
    ) {
        let stratum = Stratum::new("Canary", 0, Sample::Values(values.clone()), Sample::Values(Vec::new()));
        let back: Stratum = serde_json::from_str(&serde_json::to_string(&stratum).unwrap()).unwrap();
        let Sample::Values(back) = &back.baseline else { panic!() };
        prop_assert!(back.iter().map(|value| value.to_bits()).eq(values.iter().map(|value| value.to_bits())));
    }
}
