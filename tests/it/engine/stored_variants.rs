//! Each variant of what is kept as JSON has the name that it had. A variant without a case here does not compile.

use domain::release::{
    analysis::RunStatus,
    assignment::{FunctionSet, ReleaseEvent, Shows, Step, StepIndex},
    change::Change,
    ending::Cause,
    gate::Gate,
    lifecycle::Adoption,
    manager::Agents,
    members::Change as OfMember,
    offer::Unit,
    pause::PausedBy,
    state::{End, ReleaseState, State},
};
use engine::{
    audit,
    json_columns::{self, AssignmentDetail, ChildDetail, ReleaseDetail},
};
use model::{ChildKey, ChildStatus, Cordon, Exclusion, Outcome, ReleaseKey, StageStatus};
use serde::{Serialize, de::DeserializeOwned};
use store::rows::AnalysisRunRow;

use super::json_columns::release_detail;

/// Cases by the variant that each is of.
struct Cases<T, C> {
    cases: Vec<(&'static str, C)>,
    variant: fn(&T) -> &'static str,
}

impl<T, C> Cases<T, C> {
    /// Compares what each case comes to with the variant beside which it stands.
    fn hold(&self, value: impl Fn(&C) -> T) {
        for (variant, case) in &self.cases {
            assert_eq!((self.variant)(&value(case)), *variant);
        }
    }
}

/// One or more cases for each variant of an enum: the compiler names those that have none.
macro_rules! cases {
    ($enum:ty { $($variant:pat => [$($case:expr),+ $(,)?]),+ $(,)? }) => {{
        fn variant(value: &$enum) -> &'static str {
            match value {
                $($variant => stringify!($variant)),+
            }
        }
        Cases { cases: vec![$($((stringify!($variant), $case)),+),+], variant }
    }};
}

/// Reads a text of a column, and sees to it that it is written again as it was.
fn read<T: Serialize + DeserializeOwned>(text: &str) -> T {
    let value = serde_json::from_str(text).unwrap();
    assert_eq!(json_columns::json(&value).unwrap(), text);
    value
}

fn release(state: &str, more: &str) -> ReleaseDetail {
    read(&release_detail(state, more))
}

const OVER: &str = r#"{"state":"Over","end":"Aborted","unconfirmed":0}"#;
const RUNNING: &str = r#"{"state":"Running"}"#;

#[test]
fn every_piece_that_a_child_may_have_has_the_name_that_it_had() {
    let pieces = cases!(Unit {
        Unit::Whole => [r#""whole""#],
        Unit::Stage(_) => [r#"{"stage":2}"#],
        Unit::Rollout(_) => [r#"{"rollout":1}"#],
    });
    pieces.hold(|piece| {
        let text =
            format!(r#"{{"named":1,"piece":{piece},"fetched":false,"since":0,"stage_since":0,"facts":0}}"#);
        read::<AssignmentDetail>(&text).piece
    });
}

#[test]
fn every_reason_to_take_no_part_has_the_name_that_it_had() {
    let reasons = cases!(Exclusion {
        Exclusion::NotReached => ["not_reached"],
        Exclusion::AbortedBelow => ["aborted_below"],
        Exclusion::Drained => ["drained"],
        Exclusion::Cordoned => ["cordoned"],
        Exclusion::Runtime => ["runtime"],
        Exclusion::Router => ["router"],
        Exclusion::Agent => ["agent"],
        Exclusion::Outside => ["outside"],
        Exclusion::NoArea => ["no_area"],
        Exclusion::Label => ["label"],
        Exclusion::Forgotten => ["forgotten"],
        Exclusion::Skipped => ["skipped"],
        Exclusion::NobodyBelow => ["nobody_below"],
        Exclusion::Owes => ["owes"],
        Exclusion::OtherBase => ["other_base"],
        Exclusion::Successor => ["successor"],
        Exclusion::Replaced => ["replaced"],
        Exclusion::Below => ["below"],
        Exclusion::Alone => ["alone"],
    });
    reasons.hold(|why| {
        let text = format!(
            r#"{{"named":1,"piece":"whole","fetched":false,"since":0,"stage_since":0,"excluded":"{why}","facts":0}}"#
        );
        read::<AssignmentDetail>(&text).excluded.unwrap()
    });
}

#[test]
fn every_fact_of_a_release_has_the_name_that_it_had() {
    let facts = cases!(ReleaseEvent {
        ReleaseEvent::Resumed { .. } => [r#""resumed","level":1"#],
        ReleaseEvent::Opened { .. } => [r#""opened","level":2"#],
        ReleaseEvent::FailuresAccepted { .. } => [r#""failures_accepted","level":2"#],
        ReleaseEvent::StageEnded { .. } => [r#""stage_ended","stage":3"#],
        ReleaseEvent::UntestedRolledOut => [r#""untested_rolled_out""#],
        ReleaseEvent::StageSkipped { .. } => [
            r#""stage_skipped","stage":1,"then":{"stage":2}"#,
            r#""stage_skipped","stage":1,"then":{"rollout":0}"#,
            r#""stage_skipped","stage":1,"then":"whole""#,
        ],
        ReleaseEvent::WinnerChosen { .. } => [r#""winner_chosen","variation":2"#],
        ReleaseEvent::SharesChosen { .. } => [r#""shares_chosen","stage":0,"new":3000"#],
        ReleaseEvent::Aborted => [r#""aborted""#],
        ReleaseEvent::RoutersBack => [r#""routers_back""#],
        ReleaseEvent::Retried => [r#""retried""#],
    });
    facts.hold(|fact| {
        let facts = format!(r#""facts":[{{"fact":{fact},"at":9}}]"#);
        let text = release_detail(RUNNING, "").replace(r#""facts":[]"#, &facts);
        let dated = read::<ReleaseDetail>(&text).facts[0];
        assert_eq!(dated.at, 9);
        dated.fact
    });
}

#[test]
fn every_state_and_every_end_of_a_release_has_the_name_that_it_had() {
    let states = cases!(ReleaseState {
        ReleaseState::Planned => [r#"{"state":"Planned"}"#],
        ReleaseState::Running => [RUNNING],
        ReleaseState::Paused(_) => [r#"{"state":"Paused","reason":"r","by_limit":false,"by":"operator"}"#],
        ReleaseState::AwaitingApproval { .. } => [r#"{"state":"AwaitingApproval","what":"w","since":7}"#],
        ReleaseState::RollingBack { .. } => [r#"{"state":"RollingBack","reason":"r","end":"RolledBack"}"#],
        ReleaseState::Over { .. } => [OVER],
    });
    states.hold(|state| release(state, "").state);
    let ends = cases!(End {
        End::Done => ["Done"],
        End::DoneWithFailures => ["DoneWithFailures"],
        End::RolledBack => ["RolledBack"],
        End::Aborted => ["Aborted"],
        End::NoParticipants => ["NoParticipants"],
        End::Untested => ["Untested"],
    });
    ends.hold(|end| match release(&OVER.replace("Aborted", end), "").state {
        ReleaseState::Over { end, .. } => end,
        other => panic!("{other:?}"),
    });
}

#[test]
fn whoever_may_pause_a_release_has_the_name_that_it_had() {
    let by = cases!(PausedBy {
        PausedBy::Operator => [(false, "operator")],
        PausedBy::Parent { .. } => [(false, "above"), (true, "above")],
        PausedBy::Limit => [(true, "limit")],
        PausedBy::Unproven => [(true, "unproven")],
        PausedBy::Analysis => [(false, "analysis")],
        PausedBy::Agent => [(false, "agent")],
    });
    by.hold(|(by_limit, by)| {
        let state = format!(r#"{{"state":"Paused","reason":"r","by_limit":{by_limit},"by":"{by}"}}"#);
        match release(&state, "").state {
            ReleaseState::Paused(pause) => pause.by,
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn every_cause_of_an_end_has_the_name_that_it_had() {
    let causes = cases!(Cause {
        Cause::Operator => ["operator"],
        Cause::Superseded => ["superseded"],
        Cause::Limit => ["limit"],
        Cause::Approval => ["approval"],
        Cause::Analysis => ["analysis"],
        Cause::Parent => ["above"],
        Cause::Disowned => ["disowned"],
        Cause::Children => ["children"],
        Cause::Health => ["health"],
        Cause::Unstarted => ["unstarted"],
        Cause::Kept => ["kept"],
        Cause::NoAnswer => ["no_answer"],
    });
    causes.hold(|cause| {
        let ending = format!(r#""ending":{{"cause":"{cause}","text":"t"}},"#);
        release(OVER, &ending).ending.unwrap().cause
    });
}

#[test]
fn stored_gates_and_reported_statuses_keep_their_names() {
    let gates = cases!(Gate { Gate::Wave(_) => [r#"{"wave":1}"#], Gate::Level(_) => [r#"{"level":2}"#] });
    gates.hold(|gate| {
        let reached = format!(r#""reached":{{"gate":{gate},"at":5,"approved":false}}"#);
        let text = release_detail(RUNNING, "").replace(r#""reached":null"#, &reached);
        read::<ReleaseDetail>(&text).stand.reached.unwrap().gate
    });
    let statuses = cases!(StageStatus {
        StageStatus::Pending => ["Pending"],
        StageStatus::InProgress => ["InProgress"],
        StageStatus::SuccessWaiting => ["SuccessWaiting"],
        StageStatus::ShouldEnd => ["ShouldEnd"],
        StageStatus::Completed => ["Completed"],
        StageStatus::Failure => ["Failure"],
        StageStatus::Error => ["Error"],
    });
    statuses.hold(|status| {
        let agents = r#"{"participants":0,"succeeded":0,"failed":0,"timed_out":0,"unreachable":0,"unconfirmed":0}"#;
        let said = format!(r#"{{"stage":1,"status":"{status}","agents":{agents},"recounts":0}}"#);
        let parent = format!(r#""accepted":{{"failed":0,"timed_out":0,"unreachable":0,"untested":0}},"upstream":{{"offer":"o","reported":0,"said":{said}}}}}"#);
        let text = release_detail(RUNNING, "");
        let (before, _) = text.split_once(r#""accepted""#).unwrap();
        read::<ReleaseDetail>(&format!("{before}{parent}")).parent.unwrap().said.unwrap().status
    });
}

#[test]
fn what_a_release_adopts_has_the_names_that_it_had_and_nothing_adopted_leaves_no_name() {
    let without = release_detail(RUNNING, "");
    assert_eq!(read::<ReleaseDetail>(&without).adopts, None);
    let adopts = r#","adopts":{"kind":"release","name":"shop","id":"i","detail":"{\"version\":2}"}}"#;
    let with = without.strip_suffix('}').unwrap().to_owned() + adopts;
    let [kind, name, id, detail] = ["release", "shop", "i", r#"{"version":2}"#].map(str::to_owned);
    let adopted = read::<ReleaseDetail>(&with).adopts.unwrap();
    assert_eq!(*adopted, Adoption { kind, name, id, detail });
}

#[test]
fn however_a_child_is_cordoned_it_has_the_name_that_it_had() {
    let cordons = cases!(Cordon {
        Cordon::Open => ["open"],
        Cordon::Cordoned => ["cordoned"],
        Cordon::Drained => ["drained"],
    });
    cordons.hold(|cordon| {
        let text = format!(
            r#"{{"called_again":false,"born_served_ms":0,"cordon":"{cordon}","plain":false,"capabilities":{{}},"labels":{{}}}}"#
        );
        read::<ChildDetail>(&text).cordon
    });
}

#[test]
fn however_an_analysis_stands_it_has_the_name_that_it_had() {
    let standings = cases!(RunStatus {
        RunStatus::Open => ["open"],
        RunStatus::Passed => ["passed"],
        RunStatus::Paused => ["paused"],
        RunStatus::Failed => ["failed"],
        RunStatus::Accepted => ["accepted"],
    });
    standings.hold(|standing| {
        let detail = format!(
            r#"{{"block":0,"number":0,"of":1,"began":0,"looks":0,"looked_ms":0,"metrics":[],"standing":"{standing}","why":""}}"#
        );
        let run = json_columns::run(&AnalysisRunRow { release_key: 1, block: 0, detail: detail.clone() }).unwrap();
        assert_eq!(json_columns::run_text(&run).unwrap(), detail);
        run.standing
    });
}

/// A step as the audit trail tells it, where neither the child nor the release is known.
fn told_step(step: &Step) -> String {
    let (release, child, step) = (ReleaseKey(4), ChildKey(3), step.clone());
    let change = OfMember::Stepped { release, child, step, at: 5, summary: None };
    let mut events = audit::events(&State::default(), &[Change::Members(change)], None).unwrap();
    let (_, event) = events.remove(0);
    event.text.strip_prefix(r#"{"event":"child","release":"?","child":"?","#).expect("a step").to_owned()
}

#[test]
fn every_step_of_a_child_is_told_in_the_words_that_it_had() {
    let (slot, functions, agents) = (StepIndex(3), FunctionSet(5), Agents { failed: 1, ..Agents::default() });
    let counted = r#""agents":{"participants":0,"succeeded":0,"failed":1,"timed_out":0,"unreachable":0,"unconfirmed":0}"#;
    let status = StageStatus::Completed;
    let reported = |shows, why| Step::Reported { slot, status, digest: 9, shows, why };
    let late = |slot| Step::Late { slot, status, shows: Shows::Nothing, digest: 9 };
    let told = |step: Step, words: &str| (step, words.to_owned());
    let steps = cases!(Step {
        Step::Offered => [told(Step::Offered, r#""offered""#)],
        Step::Admitted => [told(Step::Admitted, r#""admitted""#)],
        Step::Fetched => [told(Step::Fetched, r#""fetched""#)],
        Step::Waiting { .. } => [told(Step::Waiting { slot }, r#""waiting","slot":3"#)],
        Step::Kept { .. } => [told(Step::Kept { slot }, r#""kept","slot":3"#)],
        Step::KeptBelow { .. } => [told(Step::KeptBelow { slot, number: 2 }, r#""kept_below","slot":3,"number":2"#)],
        Step::Signalled => [told(Step::Signalled, r#""signalled""#)],
        Step::SignalledIdle => [told(Step::SignalledIdle, r#""signalled_idle""#)],
        Step::StageAgain { .. } => [
            told(Step::StageAgain { rests_until: None }, r#""stage_again""#),
            told(Step::StageAgain { rests_until: Some(7) }, r#""stage_again","rests_until":7"#),
        ],
        Step::Reported { .. } => [
            told(
                reported(Shows::New, None),
                r#""reported","slot":3,"status":"Completed","digest":9,"shows":"new","why":null"#,
            ),
            told(
                reported(Shows::Base, Some("w".to_owned())),
                r#""reported","slot":3,"status":"Completed","digest":9,"shows":"base","why":"w""#,
            ),
        ],
        Step::StageBegan { .. } => [told(Step::StageBegan { slot }, r#""stage_began","slot":3"#)],
        Step::Counted { .. } => [
            told(Step::Counted { agents, recount: None }, &format!(r#""counted",{counted}"#)),
            told(Step::Counted { agents, recount: Some(2) }, &format!(r#""counted",{counted},"recount":2"#)),
        ],
        Step::NextWave { .. } => [told(Step::NextWave { wave: 2 }, r#""next_wave","wave":2"#)],
        Step::NextOffer { .. } => [
            told(Step::NextOffer { piece: Unit::Whole }, r#""next_offer","piece":"whole""#),
            told(Step::NextOffer { piece: Unit::Stage(2) }, r#""next_offer","piece":{"stage":2}"#),
            told(Step::NextOffer { piece: Unit::Rollout(1) }, r#""next_offer","piece":{"rollout":1}"#),
        ],
        Step::Ended { .. } => [told(
            Step::Ended { status: ChildStatus::Done, outcome: Outcome::Succeeded },
            r#""ended","status":"Done","outcome":"succeeded""#,
        )],
        Step::Lacks { .. } => [
            told(Step::Lacks { functions, in_place: false }, r#""lacks","functions":5"#),
            told(Step::Lacks { functions, in_place: true }, r#""lacks","functions":5,"in_place":true"#),
        ],
        Step::Retried => [told(Step::Retried, r#""retried""#)],
        Step::PolledWhileBusy => [told(Step::PolledWhileBusy, r#""polled_while_busy""#)],
        Step::ReplacedBy { .. } => [told(
            Step::ReplacedBy { successor: ChildKey(7), at_work: true },
            r#""replaced_by","successor":7,"at_work":true"#,
        )],
        Step::StandsInFor { .. } => [told(
            Step::StandsInFor { predecessor: ChildKey(7), functions, wave: 1 },
            r#""stands_in_for","predecessor":7,"functions":5,"wave":1"#,
        )],
        Step::Reinstated => [told(Step::Reinstated, r#""reinstated""#)],
        Step::UndoOffered { .. } => [told(Step::UndoOffered { functions }, r#""undo_offered","functions":5"#)],
        Step::UndoFetched => [told(Step::UndoFetched, r#""undo_fetched""#)],
        Step::UndoFailed { .. } => [
            told(Step::UndoFailed { rests_until: None, why: None }, r#""undo_failed""#),
            told(
                Step::UndoFailed { rests_until: Some(7), why: Some("w".to_owned()) },
                r#""undo_failed","rests_until":7,"why":"w""#,
            ),
        ],
        Step::Replaced { .. } => [
            told(
                Step::Replaced { function: 1, is_base: true, why: None },
                r#""replaced","function":1,"is_base":true"#,
            ),
            told(
                Step::Replaced { function: 1, is_base: false, why: Some("w".to_owned()) },
                r#""replaced","function":1,"is_base":false,"why":"w""#,
            ),
        ],
        Step::Restored { .. } => [
            told(Step::Restored { function: 1, why: None }, r#""restored","function":1"#),
            told(
                Step::Restored { function: 1, why: Some("w".to_owned()) },
                r#""restored","function":1,"why":"w""#,
            ),
        ],
        Step::Rested => [told(Step::Rested, r#""rested""#)],
        Step::UndoConfirmed { .. } => [
            told(Step::UndoConfirmed { function: 1 }, r#""undo_confirmed","function":1"#),
        ],
        Step::UndoOverdue => [told(Step::UndoOverdue, r#""undo_overdue""#)],
        Step::UndoDropped => [told(Step::UndoDropped, r#""undo_dropped""#)],
        Step::Late { .. } => [
            told(late(None), r#""late","slot":null,"status":"Completed","shows":"nothing","digest":9"#),
            told(late(Some(slot)), r#""late","slot":3,"status":"Completed","shows":"nothing","digest":9"#),
        ],
    });
    steps.hold(|(step, words)| {
        assert_eq!(told_step(step), format!(r#""step":{words}}}"#));
        step.clone()
    });
}

#[test]
fn whatever_a_result_shows_of_the_versions_is_told_in_the_words_that_it_had() {
    let shown = cases!(Shows {
        Shows::Nothing => [(Shows::Nothing, "nothing")],
        Shows::Base => [(Shows::Base, "base")],
        Shows::New => [(Shows::New, "new")],
    });
    shown.hold(|(shows, word)| {
        let status = StageStatus::Failure;
        let told = told_step(&Step::Late { slot: None, status, shows: *shows, digest: 0 });
        let expected = r#""step":"late","slot":null,"status":"Failure","shows":"?","digest":0}"#;
        assert_eq!(told, expected.replace('?', word));
        *shows
    });
}
