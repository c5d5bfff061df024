//! The forms of what is kept as JSON: what was written is written again byte for byte, and what a later build wrote is refused.

use std::path::Path;

use analysis::{Clock, Histogram, Values};
use choirmaster::{app, app::Options};
use domain::release::{
    analysis::Run,
    assignment::{Assignment, Whole},
    manager::{Agents, Planned},
    summary::{StoredSummary, Summary},
};
use engine::json_columns::{self, AssignmentDetail, ChildDetail, ReleaseDetail};
use model::StageStatus;
use serde::{Serialize, de::DeserializeOwned};
use store::{
    StoreError,
    rows::{AnalysisRunRow, PrecedentRow, StageResultRow},
};

use crate::{
    store::rows::summary,
    world::{World, strategy},
};

/// Reads texts of a column and writes them again.
fn written_again<T: Serialize + DeserializeOwned>(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| json_columns::json(&serde_json::from_str::<T>(text).unwrap()).unwrap()).collect()
}

#[test]
fn every_field_of_a_release_has_the_name_that_it_had() {
    let texts = [
        r#"{"state":{"state":"AwaitingApproval","what":"wave 2","since":7},"revision":{"number":1,"commit":2},"acted":3,"clock":{"paused_ms":3,"paused_since":4},"facts":[{"fact":"stage_skipped","stage":1,"then":{"stage":2},"at":9},{"fact":"opened","level":3,"at":10},{"fact":"untested_rolled_out","at":11}],"submitted":{"wall_ms":1,"served_ms":2},"deferred":true,"overtakes":{"overtook":[4],"overtaken_by":[5]},"started":{"wall_ms":5,"served_ms":6},"started_at":6,"ended":null,"ending":{"cause":"disowned","text":"t","child":"c","stage":"s","numbers":"n","by":"b","note":"o"},"first_fault":8,"attempt":2,"participants":3,"excluded":[["no_area",1],["owes",2]],"counts":{"no":1,"todo":2,"doing":3,"done":4,"failed":5,"succeeded":6,"outcome_failed":7,"timed_out":8,"unreachable":9,"lost":10,"undone":11,"untested":12,"excluded":13,"undoing":14,"undo_overdue":15,"awaited":16},"stand":{"waves":2,"opened":3,"level":4,"reached":{"gate":{"wave":1},"at":5,"approved":true},"waived":true},"accepted":{"failed":1,"timed_out":2,"unreachable":3,"untested":4},"times":[{"stage":1,"number":2,"began_ms":3,"ended_ms":4},{"stage":null,"number":0,"began_ms":3}],"upstream":{"offer":"o","reported":1,"undos":["u"],"held":true,"said":{"stage":1,"status":"Completed","agents":{"participants":1,"succeeded":2,"failed":3,"timed_out":4,"unreachable":5,"untested":6,"unconfirmed":7},"recounts":8}},"left_out":9,"managers":[[3,{"agents":2,"quotas":[[0,1]]}]],"agents":{"participants":1,"succeeded":0,"failed":0,"timed_out":0,"unreachable":0,"unconfirmed":0}}"#.to_owned(),
    ];
    assert_eq!(written_again::<ReleaseDetail>(&texts), texts);
    let texts = [
        r#"{"named":1,"piece":{"stage":2},"fetched":true,"idle":{"since":3,"told":true},"wave":1,"admitted":true,"passed":4,"joined":5,"since":6,"stage_since":7,"polls":8,"lacks":9,"tainted":10,"rolled_out":11,"undo":{"number":1,"functions":2,"fetched":true,"since":3,"asked":4,"polls":5,"overdue":true},"excluded":"nobody_below","successor":12,"displaced":true,"predecessor":13,"facts":14,"late":[15]}"#.to_owned(),
        r#"{"named":1,"piece":"whole","fetched":false,"since":0,"stage_since":0,"facts":0}"#.to_owned(),
    ];
    assert_eq!(written_again::<AssignmentDetail>(&texts), texts);
    let texts = [
        r#"{"address":"10.0.0.1","unproven":true,"replaced":{"by":1,"at":2},"called_again":true,"born_served_ms":3,"cordon":"drained","plain":true,"capabilities":{"runtimes":["nodejs"],"labels":{"a":"b"},"labels_below":{"c":["d"]},"features":["values"]},"labels":{"e":"f"}}"#.to_owned(),
    ];
    assert_eq!(written_again::<ChildDetail>(&texts), texts);
}

#[test]
fn unversioned_json_is_version_one_and_newer_version_is_refused() {
    let first = r#"{"named":1,"piece":"whole","fetched":false,"since":0,"stage_since":0,"facts":0}"#;
    let with = |version: &str| first.replacen('{', &format!("{{\"version\":{version},"), 1);
    assert_eq!(written_again::<AssignmentDetail>(&[with("1")]), [first]);
    for (version, said) in [
        ("2", "its form has version 2, and this program knows those up to 1: use a newer one"),
        ("0", "its form has version 0, and this program knows those up to 1: use a newer one"),
    ] {
        let error = serde_json::from_str::<AssignmentDetail>(&with(version)).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn that_an_agent_has_the_whole_strategy_is_said_and_of_others_nothing() {
    let text = r#"{"named":1,"piece":"whole","fetched":true,"in_place":true,"admitted":true,"since":3,"stage_since":2,"facts":1}"#;
    assert_eq!(written_again::<AssignmentDetail>(&[text.to_owned()]), [text]);
    assert!(serde_json::from_str::<AssignmentDetail>(text).unwrap().in_place);
    let before = text.replace(r#""in_place":true,"#, "");
    assert!(!serde_json::from_str::<AssignmentDetail>(&before).unwrap().in_place);

    let child = r#"{"called_again":true,"born_served_ms":5,"cordon":"open","plain":false,"capabilities":{"leads":"whole"},"labels":{}}"#;
    assert_eq!(written_again::<ChildDetail>(&[child.to_owned()]), [child]);
}

/// With the version as another field.
fn with_version(text: &str, version: u32) -> String {
    text.replacen('{', &format!("{{\"version\":{version},"), 1)
}

pub(super) fn report(summary: String) -> StageResultRow {
    let (release_key, child_key, attempt, stage, status, at_ms, digest) = (1, 2, 1, 0, 4, 5, 6);
    StageResultRow { release_key, child_key, attempt, stage, status, at_ms, digest, summary }
}

#[test]
fn newer_stored_reports_runs_and_times_are_refused_by_name() {
    let refused = |read: Result<(), StoreError>, place: &str| {
        let error = read.unwrap_err().to_string();
        assert!(error.contains(place) && error.contains("its form has version 2"), "{error}");
    };
    let kept = summary(&[1.0; 11], None, None);
    let first = report(with_version(&kept, 1));
    assert_eq!(json_columns::summary(&first).unwrap(), json_columns::summary(&report(kept.clone())).unwrap());
    let newer = report(with_version(&kept, 2));
    refused(json_columns::summary(&newer).map(drop), "table stage_results, key (1, 2, 1, 0), column summary");
    refused(json_columns::shown_summary(&newer).map(drop), "table stage_results");

    let run = |detail: String| AnalysisRunRow { release_key: 1, block: 3, detail };
    refused(
        json_columns::run(&run(r#"{"version":2}"#.to_owned())).map(drop),
        "table analysis_runs, key (1, 3)",
    );
    let times = |times: &str| PrecedentRow {
        function: "f".to_owned(),
        release_key: 1,
        id: "one".to_owned(),
        ended_ms: None,
        times: times.to_owned(),
    };
    refused(json_columns::times(&times(r#"{"version":2,"times":[]}"#)).map(drop), "table precedents");
    assert_eq!(json_columns::times(&times("[]")).unwrap(), []);
}

#[test]
fn a_name_that_is_called_version_is_no_version() {
    let text = r#"{"named":{"version":7}}"#.to_owned();
    assert_eq!(json_columns::shown_summary(&report(text)).unwrap()["named"]["version"], 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_a_newer_form_is_not_opened_and_says_which_row_has_it() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("newer")).await.ok();
    world.sql("UPDATE releases SET detail = json_set(detail, '$.version', 7)").await;
    let url = world.store();
    world.manager.stop().await.unwrap();
    let options = Options::local(url, Path::new(env!("CARGO_MANIFEST_DIR")).to_owned());
    let error = app::start(options).await.expect_err("it is newer");
    let error = format!("{error:#}");
    assert!(
        error.contains("bad row in table releases, key 0, column detail: its form has version 7"),
        "{error}"
    );
}

/// Everything that is kept of a run, with all that may be absent.
pub(super) const RUN: &str = r#"{"block":1,"number":2,"of":3,"began":4,"looks":5,"looked_ms":6,"metrics":[{"judgement":{"design":{"question":"location","deviation":"HIGH","tolerance":{"ratio":1.5},"alpha":0.05,"end":"once","sampling":"calls","runVariation":null},"hypotheses":[],"steps":[{"divisor":0.0,"largest":0.0,"distinct":[],"fine":false},{"divisor":0.0,"largest":0.0,"distinct":[],"fine":false}],"seen":0,"splits":[],"looks":0,"intervals":0,"spent":0.0,"verdict":null},"strata":[{"stage":"s","interval":0,"baseline":{"counts":{"calls":1,"events":2}},"canary":{"counts":{"calls":3,"events":4}}}],"parts":[{"stage":1,"split":2,"interval":3,"assignment":"user","group":4,"class":5},{"stage":6,"split":7,"interval":0}],"previous":{"release":"r","began_ms":1,"ended_ms":2},"until_ms":[3,null],"measured":4,"empty":5,"outside":6,"errors":7,"verdict":"noData","sentence":"s","evidence":{"sentence":"e","baseline":{"count":1},"canary":{"count":2},"tests":[],"looks":3,"alpha":0.05,"alphaSpent":0.01}},{"until_ms":[null,null],"measured":0,"empty":0,"outside":0,"errors":0,"sentence":""}],"standing":"paused","verdict":"inconclusive","why":"w","extended":{"for_ms":8,"calls":9,"begun":{"elapsed_ms":10,"calls":11}}}"#;

pub(super) fn analysis_run(detail: &str) -> AnalysisRunRow {
    AnalysisRunRow { release_key: 1, block: 3, detail: detail.to_owned() }
}

#[test]
fn every_field_of_a_run_has_the_name_that_it_had() {
    let bare = |standing: &str| {
        format!(
            r#"{{"block":0,"number":0,"of":1,"began":0,"looks":0,"looked_ms":0,"metrics":[],"standing":"{standing}","why":""}}"#
        )
    };
    let extended = bare("open").replace(r#""why":"""#, r#""why":"","extended":{"for_ms":8}"#);
    let standings = ["open", "passed", "paused", "failed", "accepted"].map(bare);
    for text in [RUN.to_owned(), extended].iter().chain(&standings) {
        assert_eq!(written_run(&json_columns::run(&analysis_run(text)).unwrap()), *text);
    }
}

/// A release of which hardly anything is known.
pub(super) fn release_detail(state: &str, more: &str) -> String {
    format!(
        r#"{{"state":{state},"revision":{{"number":2,"commit":3}},"acted":1,"clock":{{"paused_ms":0,"paused_since":null}},"facts":[],"submitted":{{"wall_ms":1,"served_ms":2}},"started":null,"started_at":0,"ended":null,{more}"attempt":1,"participants":1,"excluded":[],"counts":{{"no":0,"todo":0,"doing":0,"done":0,"failed":0,"succeeded":0,"outcome_failed":0,"timed_out":0,"unreachable":0,"lost":0,"undone":0,"untested":0,"excluded":0,"undoing":0,"undo_overdue":0,"awaited":0}},"stand":{{"waves":1,"opened":0,"level":0,"reached":null}},"accepted":{{"failed":0,"timed_out":0,"unreachable":0,"untested":0}}}}"#
    )
}

#[test]
fn whoever_paused_a_release_and_whatever_ended_it_has_the_name_that_it_had() {
    let paused = |by_limit: bool, by: &str| {
        let state = format!(r#"{{"state":"Paused","reason":"r","by_limit":{by_limit}{by}}}"#);
        release_detail(&state, "")
    };
    let named = [
        (false, "operator"),
        (false, "above"),
        (true, "above"),
        (true, "limit"),
        (true, "unproven"),
        (false, "analysis"),
    ];
    let texts = named.map(|(by_limit, by)| paused(by_limit, &format!(r#","by":"{by}""#)));
    assert_eq!(written_again::<ReleaseDetail>(&texts), texts);
    let causes = ["operator", "superseded", "limit", "approval", "analysis", "above", "disowned", "children"];
    let texts = causes.map(|cause| {
        let ending = format!(r#""ending":{{"cause":"{cause}","text":"t"}},"#);
        release_detail(r#"{"state":"Over","end":"Aborted","unconfirmed":0}"#, &ending)
    });
    assert_eq!(written_again::<ReleaseDetail>(&texts), texts);
}

#[test]
fn stored_fields_of_whole_strategy_child_keep_their_names() {
    let text = |manager: &str| {
        format!(
            r#"{{"named":1,"piece":"whole","fetched":true,"manager":{manager},"since":0,"stage_since":0,"facts":0}}"#
        )
    };
    let agents = r#"{"participants":1,"succeeded":2,"failed":3,"timed_out":4,"unreachable":5,"untested":6,"unconfirmed":7}"#;
    let none = r#"{"participants":0,"succeeded":0,"failed":0,"timed_out":0,"unreachable":0,"unconfirmed":0}"#;
    let texts = [
        text(&format!(
            r#"{{"agents":2,"quotas":[[0,1],[2,2]],"reported":{agents},"continues":3,"retries":true,"recounts":4}}"#
        )),
        text(&format!(r#"{{"agents":2,"reported":{none}}}"#)),
    ];
    assert_eq!(written_again::<AssignmentDetail>(&texts), texts);
}

/// What is stored of a child that has the whole strategy in hand, and what is read of that.
fn stored_whole(whole: &Whole) -> (String, Whole) {
    let bare = r#"{"named":1,"piece":"whole","fetched":false,"since":0,"stage_since":0,"facts":0}"#;
    let detail = AssignmentDetail {
        manager: Some(whole.clone()),
        ..serde_json::from_str::<AssignmentDetail>(bare).unwrap()
    };
    let text = json_columns::json(&detail).unwrap();
    let read = serde_json::from_str::<AssignmentDetail>(&text).unwrap().manager.unwrap();
    (text, read)
}

#[test]
fn stored_wholly_managed_child_omits_separately_stored_fields() {
    let mut part = Assignment::new_whole(Planned { agents: 3, quotas: vec![(0, 1), (2, 3)] }, 0);
    let fresh = r#""manager":{"agents":3,"quotas":[[0,1],[2,3]],"reported":{"participants":0,"succeeded":0,"failed":0,"timed_out":0,"unreachable":0,"unconfirmed":0}},"#;
    assert!(stored_whole(part.whole().unwrap()).0.contains(fresh));
    part.change_rare(|rare| rare.joined = Some(2));
    assert!(stored_whole(part.whole().unwrap()).0.contains(fresh));
    let whole = part.whole_mut().unwrap();
    *whole = Whole {
        reported: Agents { participants: 3, failed: 1, ..Agents::default() },
        continues: Some(1),
        retries: true,
        recounts: 2,
        ..whole.clone()
    };
    let (stored, read) = stored_whole(whole);
    assert!(stored.contains(r#""continues":1,"retries":true,"recounts":2},"#), "{stored}");
    assert_eq!(Whole { rare: whole.rare.clone(), ..read }, *whole);
}

#[test]
fn every_field_of_a_report_has_the_name_that_it_had() {
    let times = r#"{"median":1.5,"minimum":1.0,"maximum":-1.0}"#;
    let bounds = r#"{"bounds_ms":[1.0,2.5],"counts":[1,2,3]}"#;
    let values = json_columns::json(&Values::of([1.0, 2.5], Clock::default()).unwrap()).unwrap();
    let sketch = json_columns::json(&Histogram::new(1.02).unwrap()).unwrap();
    let calls = r#""f1_calls":1,"f2_calls":2,"f1_errors":3,"f2_errors":4"#;
    let told = format!(
        r#"{calls},"f1_histogram":{bounds},"f2_histogram":{sketch},"f1_values":{values},"f2_values":{values}"#
    );
    let agents = r#"{"participants":1,"succeeded":2,"failed":3,"timed_out":4,"unreachable":5,"untested":6,"unconfirmed":7}"#;
    let why = r#"{"cause":"limit","text":"t","child":"c","stage":"s","numbers":"n","by":"b","note":"o"}"#;
    let bare = format!(
        r#"{{"status":"Completed","proxy_times":{times},"f1_times_summary":{times},"f2_times_summary":{times},"f1_err_rate":0.25,"f2_err_rate":0.5"#
    );
    let strata = format!(
        r#"[{{"split":10,"interval":1,"assignment":"child","group":2,"class":3,{told}}},{{"interval":0}}]"#
    );
    let texts = [
        format!(
            r#"{bare},{told},"assignment":"user","strata":{strata},"agents":{agents},"why":{why},"recount":3}}"#
        ),
        format!("{bare}}}"),
    ];
    for text in texts {
        let summary = json_columns::summary(&report(text.clone())).unwrap();
        let (report, says_next) = (json_columns::received(summary).unwrap(), Some("n".to_owned()));
        assert_eq!(report.text, text);
        let next = format!(r#"{},"next_stage":"n"}}"#, text.strip_suffix('}').unwrap());
        let kept = StoredSummary { report, says_next };
        assert_eq!(json_columns::kept(&kept, StageStatus::Completed).unwrap(), (next, kept.report.digest));
        assert!(json_columns::summary(&report_again(&kept)).is_ok());
    }
}

fn report_again(kept: &StoredSummary) -> StageResultRow {
    report(json_columns::kept(kept, StageStatus::Completed).unwrap().0)
}

/// Repeats of a report are known by it across builds.
#[test]
fn the_digest_of_a_report_is_that_of_its_text_and_of_nothing_beside_it() {
    let text = r#"{"status":"InProgress","proxy_times":{"median":1.5,"minimum":1.0,"maximum":-1.0},"f1_times_summary":{"median":1.5,"minimum":1.0,"maximum":-1.0},"f2_times_summary":{"median":1.5,"minimum":1.0,"maximum":-1.0},"f1_err_rate":0.25,"f2_err_rate":0.5}"#;
    let summary = json_columns::summary(&report(text.to_owned())).unwrap();
    let named =
        Summary { stage_name: Some("Canary".to_owned()), says_next: Some("n".to_owned()), ..summary.clone() };
    for summary in [summary, named] {
        let report = json_columns::received(summary).unwrap();
        assert_eq!((report.text.as_str(), report.digest), (text, 0xabc9_63ad_bb42_95e2));
        // A child that was ready to end the stage stays so.
        let kept = StoredSummary { report, says_next: None };
        let (ready, digest) = json_columns::kept(&kept, StageStatus::SuccessWaiting).unwrap();
        assert_eq!((ready, digest), (text.replace("InProgress", "SuccessWaiting"), 0x25fd_8a13_67c4_ef6a));
    }
}

#[test]
fn a_histogram_that_is_too_wide_is_refused() {
    let kept = summary(&[1.0; 11], None, None);
    let with = |more: &str| report(format!("{},{more}}}", kept.strip_suffix('}').unwrap()));
    let wide =
        r#""f1_histogram":{"mapping":{"gamma":1.001},"positiveValues":{"binCounts":{"-4608":1,"10684":1}}}"#;
    let refused = json_columns::summary(&with(wide)).unwrap_err().to_string();
    assert!(refused.contains("more than 4096 buckets of one sign"), "{refused}");
}

fn written_run(run: &Run) -> String {
    json_columns::run_text(run).unwrap()
}
