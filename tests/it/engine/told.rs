//! What is told in words that others keep: events of the audit trail, what is owed to the parent, what managers below are asked.
//! Everything has the name that it had.

use std::collections::BTreeMap;

use domain::{
    children::{
        Arrival, Change as OfChild, Child, Forgetting, Variant,
        registration::{Live, Registration},
    },
    plan::Needs,
    release::{
        change::Change,
        ending::{Cause, Ending},
        lifecycle::{Change as OfLife, Membership},
        manager::Agents,
        members::Change as OfMember,
        pause::Pause,
        speed_classes::Begun,
        state::{End, State},
    },
};
use engine::{
    audit,
    effect::{Entry, ParentStageResult, TAKING, ToParent},
    json_columns,
    questions::eligible::EligibleWanted,
};
use language::{Partial, Target, TargetArea};
use model::{ChildId, ChildKey, Cordon, Exclusion, Now, ReleaseId, ReleaseKey, StageStatus};
use store::rows::OutboxRow;

const NOW: Now = Now { wall_ms: 1, served_ms: 2 };
const CHILD: ChildKey = ChildKey(3);
const RELEASE: ReleaseKey = ReleaseKey(4);

/// The event of a change in a state that knows neither the child nor the release.
fn event(change: Change, note: Option<&str>) -> String {
    let mut events = audit::events(&State::default(), &[change], note).unwrap();
    assert_eq!(events.len(), 1);
    events.remove(0).1.text
}

fn child(name: &str) -> Child {
    let id = ChildId::parse(name).unwrap();
    let (area, address, profile) = (None, None, None);
    let registration =
        Registration { id, key: CHILD, area, address, agents: 1, profile, live: Live::default() };
    Child::new(registration, NOW)
}

#[test]
fn every_event_of_a_child_is_told_in_the_words_that_it_had() {
    for (arrival, how) in [(Arrival::Registered, "registered"), (Arrival::Adopted, "adopted")] {
        let change = OfChild::Arrived { child: CHILD, arrival, record: Box::new(child("c1")) };
        assert_eq!(
            event(Change::Children(change), None),
            format!(r#"{{"event":"child_arrived","child":"?","how":"{how}"}}"#)
        );
    }
    for (why, words) in [
        (Forgetting::Ghost, "ghost"),
        (Forgetting::Replaced, "replaced"),
        (Forgetting::ByOperator, "by_operator"),
    ] {
        let change = OfChild::Forgotten { child: CHILD, id: ChildId::parse("c1").unwrap(), why };
        assert_eq!(
            event(Change::Children(change), Some("n")),
            format!(r#"{{"event":"child_forgotten","child":"c1","why":"{words}","note":"n"}}"#)
        );
    }
    for (cordon, words) in
        [(Cordon::Open, "open"), (Cordon::Cordoned, "cordoned"), (Cordon::Drained, "drained")]
    {
        assert_eq!(
            event(Change::Children(OfChild::Cordoned { child: CHILD, cordon }), None),
            format!(r#"{{"event":"child_cordoned","child":"?","cordon":"{words}"}}"#)
        );
    }
    for (variant, words) in [(Variant::Base, "base"), (Variant::New, "new"), (Variant::Unknown, "unknown")] {
        let change = OfMember::Deployed { child: CHILD, release: RELEASE, function: 0, variant };
        assert_eq!(
            event(Change::Members(change), None),
            format!(r#"{{"event":"deployed","release":"?","child":"?","function":"?","variant":"{words}"}}"#)
        );
    }
    let labelled = OfChild::Labelled { child: CHILD, key: "k".to_owned(), value: None };
    assert_eq!(
        event(Change::Children(labelled), None),
        r#"{"event":"child_labelled","child":"?","key":"k","value":null}"#
    );
    let reported = OfChild::Reported { child: CHILD, agents: 2, profile: None };
    assert_eq!(
        event(Change::Children(reported), None),
        r#"{"event":"child_reported","child":"?","agents":2}"#
    );
}

#[test]
fn every_event_of_a_release_is_told_in_the_words_that_it_had() {
    let of = |change: OfLife| event(Change::Lifecycle(change), None);
    let excluded = [
        (Exclusion::NotReached, "not_reached"),
        (Exclusion::AbortedBelow, "aborted_below"),
        (Exclusion::Drained, "drained"),
        (Exclusion::Cordoned, "cordoned"),
        (Exclusion::Runtime, "runtime"),
        (Exclusion::Outside, "outside"),
        (Exclusion::NoArea, "no_area"),
        (Exclusion::Label, "label"),
        (Exclusion::Forgotten, "forgotten"),
        (Exclusion::Skipped, "skipped"),
        (Exclusion::NobodyBelow, "nobody_below"),
        (Exclusion::Owes, "owes"),
        (Exclusion::OtherBase, "other_base"),
        (Exclusion::Successor, "successor"),
        (Exclusion::Replaced, "replaced"),
    ];
    let membership = Membership {
        members: [CHILD].into(),
        excluded: excluded.iter().zip(1..).map(|((why, _), count)| (*why, count)).collect(),
        waves: Vec::new(),
        managers: BTreeMap::new(),
        in_place: Vec::new(),
        lacks: Vec::new(),
        left_out: 0,
    };
    let pairs: Vec<String> =
        excluded.iter().zip(1..).map(|((_, words), count)| format!(r#"["{words}",{count}]"#)).collect();
    assert_eq!(
        of(OfLife::Started { release: RELEASE, membership, now: NOW }),
        format!(
            r#"{{"event":"release_started","release":"?","participants":1,"excluded":[{}]}}"#,
            pairs.join(",")
        )
    );
    for (end, words) in [
        (End::Done, "Done"),
        (End::DoneWithFailures, "DoneWithFailures"),
        (End::RolledBack, "RolledBack"),
        (End::Aborted, "Aborted"),
        (End::NoParticipants, "NoParticipants"),
        (End::Untested, "Untested"),
    ] {
        assert_eq!(
            of(OfLife::Ended { release: RELEASE, end, unconfirmed: 2, now: NOW }),
            format!(r#"{{"event":"release_ended","release":"?","end":"{words}","unconfirmed":2}}"#)
        );
    }
    let pause = Pause::by_parent(true);
    assert_eq!(
        of(OfLife::Paused { release: RELEASE, pause, now: NOW }),
        r#"{"event":"release_paused","release":"?","reason":"the manager above paused it","by_limit":true}"#
    );
}

/// With all that may be absent, and without.
fn owed() -> [(ParentStageResult, &'static str); 2] {
    let why = Ending { child: Some("c".to_owned()), ..Ending::new(Cause::Parent, "t") };
    let full = ParentStageResult {
        offer: "o".to_owned(),
        release: Some(ReleaseId::parse("r").unwrap()),
        release_key: 1,
        stage: Some("s".to_owned()),
        slot: 2,
        status: StageStatus::Failure,
        next: Some("n".to_owned()),
        split: 3,
        begun: Some(Begun { function: "f".to_owned(), at_ms: -4 }),
        agents: Agents { participants: 5, ..Agents::default() },
        why: Some(Box::new(why)),
        recount: Some(6),
    };
    [(full, FULL), (ParentStageResult::undone("o".to_owned(), 2), BARE)]
}

const FULL: &str = r#"{"offer":"o","release":"r","release_key":1,"stage":"s","slot":2,"status":"Failure","next":"n","split":3,"begun":{"function":"f","at_ms":-4},"agents":{"participants":5,"succeeded":0,"failed":0,"timed_out":0,"unreachable":0,"unconfirmed":0},"why":{"cause":"above","text":"t","child":"c"},"recount":6}"#;
const BARE: &str = r#"{"offer":"o","release":null,"release_key":0,"stage":"choirmaster undo","slot":0,"status":"Completed","split":0,"agents":{"participants":0,"succeeded":0,"failed":0,"timed_out":0,"unreachable":0,"unconfirmed":2}}"#;

#[test]
fn outbox_results_for_parent_keep_their_field_names() {
    for (owed, text) in owed() {
        assert_eq!(Entry::from(owed.clone()).payload().unwrap(), text);
        assert_eq!(serde_json::from_str::<ParentStageResult>(text).unwrap(), owed);
    }
}

#[test]
fn managers_below_are_asked_in_the_words_that_they_know() {
    let target = Target {
        area: Some(TargetArea(vec![vec![vec![[1.0, 2.0]]]])),
        labels: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        partial: Partial::Allow,
    };
    let runtimes = vec![["a".to_owned(), "b".to_owned()]];
    let full = Needs {
        target: Some(target),
        runtimes: runtimes.clone(),
        agents: vec![BTreeMap::from([("tier".to_owned(), "edge".to_owned())])],
        routers: Vec::new(),
        functions: vec!["f".to_owned()],
        bases: vec![u64::MAX],
    };
    let bare = Needs {
        target: None,
        runtimes,
        agents: Vec::new(),
        routers: Vec::new(),
        functions: Vec::new(),
        bases: Vec::new(),
    };
    let told = [
        (
            full,
            r#"{"needs":{"target":{"area":[[[[1.0,2.0]]]],"labels":{"k":"v"},"partial":"allow"},"runtimes":[["a","b"]],"agents":[{"tier":"edge"}],"functions":["f"],"bases":[18446744073709551615]},"silent_after_ms":7}"#,
        ),
        (bare, r#"{"needs":{"runtimes":[["a","b"]]},"silent_after_ms":7}"#),
    ];
    for (needs, text) in told {
        let wanted: EligibleWanted = serde_json::from_str(text).unwrap();
        assert_eq!(wanted.needs, needs);
        assert_eq!(json_columns::json(&wanted).unwrap(), text);
    }
}

#[test]
fn taken_offer_is_stored_as_text_and_newer_form_refused() {
    let row = |payload: &str| OutboxRow {
        id: 1,
        kind: TAKING.to_owned(),
        at_ms: 2,
        payload: payload.to_owned(),
        served_ms: None,
    };
    let taking = Entry::Parent(ToParent::Taking("o".to_owned()));
    assert_eq!(taking.payload().unwrap(), "o");
    assert_eq!(Entry::read(&row("o")).unwrap(), taking);
    let error = Entry::read(&row(r#"{"version":2,"offer":"o"}"#)).unwrap_err().to_string();
    assert!(error.contains("column payload: its form is newer than this program"), "{error}");
}
