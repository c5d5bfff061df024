//! Where a canary stands, by what its release and its routers tell.

use ab_releases::{Course, Recorded};
use canary_releases::{Details, Life, Live, Told, Translated, crd, show, status};
use domain::{
    release::{
        assignment::StageSet,
        ending::{Cause, Ending},
        pause::{Pause, PausedBy},
        previous_run::Timed,
        state::{End, ReleaseState},
    },
    traffic::Sum,
};
use protocol::canary_releases::{CanaryRelease, CanaryStatus};
use serde_json::{Value, json};

use crate::{
    canary, checkout_2, shop,
    strategy::{checked, translated},
    with,
};

use End::{Aborted, Done, DoneWithFailures, NoParticipants, RolledBack, Untested};
use ReleaseState::{Planned, Running};

/// Instants in milliseconds since 1970.
const SUBMITTED: i64 = 1_000;
const BEGAN: i64 = 2_000;
const TOLD: i64 = 3_000;
const PAUSED: i64 = 4_000;
const ENDED: i64 = 5_000;

/// A canary that is to get a tenth of the calls, at some point of its life.
struct Case {
    state: ReleaseState,
    has_begun: bool,
    is_open: bool,
    is_back: bool,
    ending: Option<Ending>,
    live: Option<Live>,
}

impl Case {
    /// One that has begun, and gets what it is to get.
    fn begun(state: ReleaseState) -> Self {
        let live = Some(gets(1_000));
        Self { state, has_begun: true, is_open: false, is_back: false, ending: None, live }
    }

    fn not_begun(state: ReleaseState) -> Self {
        let live = Some(Live { routers: 1, ..Live::default() });
        Self { has_begun: false, live, ..Self::begun(state) }
    }

    /// One that is over.
    fn over(end: End, unconfirmed: u32) -> Self {
        let ending = Some(Ending::new(Cause::Operator, "too slow"));
        Self { live: None, ending, ..Self::begun(ReleaseState::Over { end, unconfirmed }) }
    }

    fn with<T>(&self, look: impl FnOnce(&Life<'_>) -> T) -> T {
        self.of(&checkout_2(10), &shop(), look)
    }

    /// The same of another canary.
    fn of<T>(&self, canary: &Value, release: &Value, look: impl FnOnce(&Life<'_>) -> T) -> T {
        let Translated { text, .. } = translated(canary, release);
        let strategy = checked(&text);
        let recorded = Recorded::of(&strategy, &text, "~").unwrap();
        let first = Timed { stage: Some(0), number: 0, began_ms: BEGAN, ended_ms: None };
        let times: Vec<Timed> = self.has_begun.then_some(first).into_iter().collect();
        let course = Course {
            state: &self.state,
            deferred: false,
            facts: &[],
            times: &times,
            ended: self.state.is_over().then_some(ENDED),
            is_back: self.is_back,
            failed: StageSet::EMPTY,
        };
        let life = Life {
            strategy: &strategy,
            course,
            recorded: &recorded,
            is_open: self.is_open,
            ending: self.ending.as_ref(),
            submitted: SUBMITTED,
            live: self.live.as_ref(),
        };
        look(&life)
    }

    fn status(&self) -> CanaryStatus {
        self.with(status)
    }

    /// Phase and weight, and of each condition its status and its reason.
    fn in_short(&self) -> String {
        let CanaryStatus { phase, weight, conditions, .. } = self.status();
        let each = conditions.iter().map(|one| format!("{} {}", one.status, one.reason));
        std::iter::once(format!("{phase} {weight}")).chain(each).collect::<Vec<_>>().join(", ")
    }

    /// What a condition says, and since when.
    fn says(&self, kind: &str) -> (String, String) {
        let found = self.status().conditions.into_iter().find(|one| one.kind == kind).unwrap();
        (found.message, found.last_transition_time)
    }
}

fn sum(name: &str, share: u16) -> Sum {
    let shares = (share, share);
    Sum {
        variation: name.to_owned(),
        routers: 1,
        wanted: shares,
        seen: Some(shares),
        targets: 2,
        ..Sum::default()
    }
}

/// A router that gives the canary so much, in units of 0.01 %.
fn gets(share: u16) -> Live {
    let sums = vec![sum("stable", 10_000 - share), sum("canary", share)];
    Live { routers: 1, parts: vec![Told { routers: 1, sums }], told: Some(TOLD), ..Live::default() }
}

/// The same, and another router tells that it leads none of its calls.
fn and_another(mut live: Live) -> Live {
    live.routers += 1;
    live.parts.iter_mut().for_each(|told| told.routers += 1);
    live
}

/// A router whose offer has ended: it tells of the variation that serves alone.
fn serves_stable() -> Live {
    let mut live = gets(0);
    live.parts[0].sums.truncate(1);
    live
}

/// The same with something else about the canary.
fn gets_with(share: u16, change: impl FnOnce(&mut Sum)) -> Live {
    let mut live = gets(share);
    change(&mut live.parts[0].sums[1]);
    live
}

fn paused(by: PausedBy) -> ReleaseState {
    ReleaseState::Paused(Pause::new(by, "somebody has to look"))
}

fn rolling_back(end: End) -> ReleaseState {
    ReleaseState::RollingBack { reason: "too slow".to_owned(), end }
}

/// Each with what is said of it in short.
fn cases() -> Vec<(&'static str, Case, &'static str)> {
    let approval = ReleaseState::AwaitingApproval { what: "the roll-out".to_owned(), since: 0 };
    let silent = || Some(Ending::new(Cause::NoAnswer, "edge-1: it answered no more"));
    let failed = || Some(Ending::new(Cause::Children, "edge-1 failed"));
    let alone = |live: Live, case: Case| Case { live: Some(live), ..case };
    vec![
        (
            "it waits for its turn",
            Case::not_begun(Planned),
            "Pending 0, True Waiting, False NotBegun, Unknown NotBegun, False NotAsked, False NotAsked",
        ),
        (
            "its router has something else in hand",
            alone(
                Live { routers: 1, busy: vec!["basket-1".to_owned()], ..Live::default() },
                Case::not_begun(Running),
            ),
            "Starting 0, True Waiting, False NotBegun, Unknown NotBegun, False NotAsked, False NotAsked",
        ),
        (
            "its router has yet to begin",
            Case::not_begun(Running),
            "Starting 0, True Submitted, False NotBegun, Unknown NotBegun, False NotAsked, False NotAsked",
        ),
        (
            "its router tells nothing",
            alone(Live { routers: 1, ..Live::default() }, Case::begun(Running)),
            "Canary 10, True Submitted, Unknown NotReported, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "its router has yet to read back what it does",
            alone(
                gets_with(1_000, |canary| (canary.seen, canary.unproven) = (None, 1)),
                Case::begun(Running),
            ),
            "Canary 10, True Submitted, False Shifting, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "its router still gives it nothing",
            alone(gets(0), Case::begun(Running)),
            "Canary 10, True Submitted, False Shifting, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "its router gives it what it is to get",
            Case::begun(Running),
            "Canary 10, True Submitted, True InForce, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "its router is on its way to another share",
            alone(gets_with(1_000, |canary| canary.unproven = 1), Case::begun(Running)),
            "Canary 10, True Submitted, False Shifting, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "another program takes some of the calls past its router",
            alone(gets_with(1_000, |canary| (canary.shared, canary.unproven) = (1, 1)), Case::begun(Running)),
            "Canary 10, True Submitted, False PortShared, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "one of two routers tells",
            alone(Live { routers: 2, ..gets(1_000) }, Case::begun(Running)),
            "Canary 10, True Submitted, Unknown NotReported, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "a router can't be read",
            alone(Live { unread: vec!["edge-1".to_owned()], ..gets(1_000) }, Case::begun(Running)),
            "Canary 10, True Submitted, Unknown Unreachable, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "all its targets are healthy",
            alone(gets_with(1_000, |canary| canary.healthy = Some(2)), Case::begun(Running)),
            "Canary 10, True Submitted, True InForce, True TargetsHealthy, False NotAsked, False NotAsked",
        ),
        (
            "a target is not",
            alone(gets_with(1_000, |canary| canary.healthy = Some(1)), Case::begun(Running)),
            "Canary 10, True Submitted, True InForce, False TargetsUnhealthy, False NotAsked, False NotAsked",
        ),
        (
            "an operator holds it",
            Case::begun(paused(PausedBy::Operator)),
            "Held 10, True Submitted, True InForce, Unknown NotJudged, False NotAsked, False NotAsked",
        ),
        (
            "its router met something",
            Case::begun(paused(PausedBy::Agent)),
            "Held 10, True Submitted, True InForce, False Obstacle, False NotAsked, False NotAsked",
        ),
        (
            "it failed at its router",
            Case {
                is_back: true,
                ending: failed(),
                ..alone(serves_stable(), Case::begun(paused(PausedBy::Limit)))
            },
            "Held 0, True Submitted, True InForce, False Failed, False NotAsked, False NotAsked",
        ),
        (
            "nobody has decided for a year",
            Case::begun(approval),
            "Held 10, True Submitted, True InForce, Unknown NotJudged, False AwaitingApproval, False NotAsked",
        ),
        (
            "it is adopted before its router has begun",
            Case { is_open: true, ..Case::not_begun(Running) },
            "Adopting 100, True Submitted, False NotBegun, Unknown NotBegun, False Adopting, False NotAsked",
        ),
        (
            "it is adopted, and its router has yet to do it",
            Case { is_open: true, ..Case::begun(Running) },
            "Adopting 100, True Submitted, False Shifting, Unknown NotJudged, False Adopting, False NotAsked",
        ),
        (
            "it is asked once more",
            Case { is_open: true, ..alone(gets(10_000), Case::begun(Running)) },
            "Adopting 100, True Submitted, True InForce, Unknown NotJudged, False Adopting, False NotAsked",
        ),
        (
            "it is held on its way",
            Case { is_open: true, ..Case::begun(paused(PausedBy::Operator)) },
            "Held 10, True Submitted, True InForce, Unknown NotJudged, False Held, False NotAsked",
        ),
        (
            "it was asked once more, and was silent",
            Case {
                is_open: true,
                is_back: true,
                ending: silent(),
                ..alone(serves_stable(), Case::begun(paused(PausedBy::Limit)))
            },
            "Held 0, True Submitted, True InForce, False Failed, False NoAnswer, False NotAsked",
        ),
        (
            "it was silent, and its router has let the service go",
            Case {
                is_open: true,
                is_back: true,
                ending: silent(),
                ..alone(
                    and_another(Live { parts: vec![Told::default()], ..Live::default() }),
                    Case::begun(paused(PausedBy::Limit)),
                )
            },
            "Held 0, True Submitted, True InForce, False Failed, False NoAnswer, False NotAsked",
        ),
        (
            "it was silent, and its router has yet to prove what it does since",
            Case {
                is_open: true,
                is_back: true,
                ending: silent(),
                ..alone(
                    {
                        let mut live = serves_stable();
                        live.parts[0].sums[0].unproven = 1;
                        live
                    },
                    Case::begun(paused(PausedBy::Limit)),
                )
            },
            "Held 0, True Submitted, False Shifting, False Failed, False NoAnswer, False NotAsked",
        ),
        (
            "it was silent, and that is accepted",
            Case { is_open: true, is_back: true, ending: silent(), ..Case::over(DoneWithFailures, 0) },
            "Failed 0, True Submitted, True Ended, Unknown Ended, False NoAnswer, False NotAsked",
        ),
        (
            "one of its routers failed",
            Case { is_open: true, ending: failed(), ..Case::over(DoneWithFailures, 0) },
            "Failed 100, True Submitted, False Failed, Unknown Ended, False Failed, False NotAsked",
        ),
        (
            "it got no calls",
            Case::over(Untested, 0),
            "Failed 0, True Submitted, True Ended, Unknown Ended, False Untested, False NotAsked",
        ),
        (
            "it is adopted",
            Case { is_open: true, ending: None, ..Case::over(Done, 0) },
            "Adopted 100, True Submitted, True Ended, Unknown Ended, True Adopted, False Adopted",
        ),
        (
            "it was silent once, and is deprecated",
            Case { is_open: true, ..Case::over(Aborted, 0) },
            "Deprecated 0, True Submitted, True Ended, Unknown Ended, False Deprecated, True Deprecated",
        ),
        (
            "it is deprecated, and its router has yet to do it",
            Case::begun(rolling_back(Aborted)),
            "Deprecating 0, True Submitted, False Shifting, Unknown RollingBack, False Deprecated, False Deprecating",
        ),
        (
            "its router gives it nothing any more",
            alone(gets(0), Case::begun(rolling_back(Aborted))),
            "Deprecating 0, True Submitted, True InForce, Unknown RollingBack, False Deprecated, False Deprecating",
        ),
        (
            "one of its two routers is back, and the other one has yet to do it",
            alone(and_another(gets(1_000)), Case::begun(rolling_back(Aborted))),
            "Deprecating 0, True Submitted, False Shifting, Unknown RollingBack, False Deprecated, False Deprecating",
        ),
        (
            "it is deprecated before anybody has begun it",
            alone(Live::default(), Case { has_begun: false, ..Case::begun(rolling_back(Aborted)) }),
            "Deprecating 0, True Submitted, True InForce, Unknown RollingBack, False Deprecated, False Deprecating",
        ),
        (
            "it is deprecated",
            Case::over(Aborted, 0),
            "Deprecated 0, True Submitted, True Ended, Unknown Ended, False Deprecated, True Deprecated",
        ),
        (
            "a router has not proven it",
            alone(gets(1_000), Case::over(Aborted, 1)),
            "DeprecatedUnproven 0, True Submitted, Unknown Unproven, Unknown Ended, False Deprecated, False Unproven",
        ),
        (
            "it goes back by itself",
            Case::begun(rolling_back(RolledBack)),
            "RollingBack 0, True Submitted, False Shifting, Unknown RollingBack, False RolledBack, False RollingBack",
        ),
        (
            "it went back by itself",
            Case::over(RolledBack, 0),
            "RolledBack 0, True Submitted, True Ended, Unknown Ended, False RolledBack, True RolledBack",
        ),
        (
            "it went back by itself, and a router has not proven it",
            Case::over(RolledBack, 1),
            "RolledBackUnproven 0, True Submitted, Unknown Unproven, Unknown Ended, False RolledBack, False Unproven",
        ),
        (
            "no router fits",
            Case { has_begun: false, ..Case::over(NoParticipants, 0) },
            "NoParticipants 0, False NoParticipants, Unknown NoParticipants, Unknown Ended, False NoParticipants, False NotAsked",
        ),
    ]
}

#[test]
fn phase_and_conditions_follow_from_what_is_known() {
    for (what, case, expected) in cases() {
        assert_eq!(case.in_short(), expected, "{what}");
    }
}

#[test]
fn each_condition_is_there_once_with_a_sentence_and_a_time() {
    for (what, case, _) in cases() {
        let CanaryStatus { conditions, .. } = case.status();
        let kinds: Vec<&str> = conditions.iter().map(|one| one.kind.as_str()).collect();
        assert_eq!(kinds, ["Accepted", "WeightInForce", "Healthy", "Adopted", "Deprecated"], "{what}");
        for one in conditions {
            assert!(one.message.contains(' ') && !one.message.contains('\n'), "{what}: {one:?}");
            assert!(one.reason.chars().all(char::is_alphabetic), "{what}: {one:?}");
            // What is not so yet has been so since it was submitted.
            if ["Adopted", "Deprecated"].contains(&one.kind.as_str()) {
                let since = if one.status == "True" { ENDED } else { SUBMITTED };
                assert_eq!(one.last_transition_time, at(since), "{what}: {one:?}");
            }
        }
    }
}

fn at(ms: i64) -> String {
    assert_eq!(ms % 1_000, 0);
    format!("1970-01-01T00:00:0{}Z", ms / 1_000)
}

#[test]
fn sentences_and_times_are_those_of_what_happened() {
    let two = |lowest: u16, highest: u16| {
        and_another(gets_with(0, |canary| {
            (canary.routers, canary.seen, canary.unproven) = (2, Some((lowest, highest)), 1);
        }))
    };
    let called = gets_with(1_000, |canary| (canary.calls, canary.errors) = (120, 3));
    let alone = |live: Live| Case { live: Some(live), ..Case::begun(Running) };
    for (case, kind, message, since) in [
        (Case::begun(Running), "WeightInForce", "the canary gets 10 % of the calls at 1 router", TOLD),
        (
            alone(two(0, 1_250)),
            "WeightInForce",
            "the canary is to get 10 % of the calls, and gets 0 to 12.5 %",
            TOLD,
        ),
        (
            alone(and_another(gets(1_000))),
            "WeightInForce",
            "the canary is to get 10 % of the calls, and gets 0 to 10 %",
            TOLD,
        ),
        (
            alone(gets_with(1_000, |canary| canary.unproven = 1)),
            "WeightInForce",
            "the canary is to get 10 % of the calls, and a router has yet to prove that it does",
            TOLD,
        ),
        (alone(called), "Healthy", "nothing judges it; 3 of its 120 calls failed", BEGAN),
        (
            alone(gets_with(1_000, |canary| canary.healthy = Some(1))),
            "Healthy",
            "1 of 2 targets of the canary are healthy",
            TOLD,
        ),
        (
            Case {
                live: Some(Live { paused: Some(PAUSED), ..gets(1_000) }),
                ..Case::begun(paused(PausedBy::Agent))
            },
            "Healthy",
            "somebody has to look",
            PAUSED,
        ),
        (Case::over(Done, 0), "WeightInForce", "the canary gets 100 % of the calls", ENDED),
        (Case::over(Done, 0), "Adopted", "version 2 of shop serves alone", ENDED),
        (
            Case::over(Aborted, 0),
            "Deprecated",
            "all calls go to the version that served before: too slow",
            ENDED,
        ),
        (
            Case::over(Aborted, 2),
            "Deprecated",
            "2 routers have not proven that the version that served before has all calls",
            SUBMITTED,
        ),
        (
            Case {
                ending: Some(Ending::new(Cause::NoAnswer, "edge-1: silent")),
                ..Case::over(DoneWithFailures, 0)
            },
            "Adopted",
            "the canary gave its calls back, and release shop stays as it was: edge-1: silent",
            SUBMITTED,
        ),
        (
            Case::over(NoParticipants, 0),
            "Accepted",
            "no router takes part in it: `choirmaster release show checkout-2` says why not",
            ENDED,
        ),
    ] {
        assert_eq!(case.says(kind), (message.to_owned(), at(since)));
    }
}

#[test]
fn what_was_seen_is_nothing_where_routers_tell_of_others_alone() {
    let seen = |live: Live| {
        let seen = Case { live: Some(live), ..Case::begun(Running) }.status().seen;
        seen.map(|seen| (seen.lowest, seen.highest))
    };
    assert_eq!(seen(gets(1_000)), Some((10.0, 10.0)));
    assert_eq!(seen(serves_stable()), Some((0.0, 0.0)));
    assert_eq!(seen(and_another(gets(1_000))), Some((0.0, 10.0)));
    assert_eq!(
        seen(Live { routers: 2, ..gets(1_000) }),
        Some((10.0, 10.0)),
        "of the other one nothing is known"
    );
    assert_eq!(seen(Live { routers: 1, ..Live::default() }), None);
}

/// A canary as it is shown.
fn shown(case: &Case) -> CanaryRelease {
    let adopted = translated(&checkout_2(10), &shop()).adopted;
    let details = Details { adopted: Some(&adopted), uid: "u", by: Some("ann") };
    case.with(|life| show(details, life))
}

#[test]
fn what_was_submitted_is_shown_again() {
    let asked = canary(&checkout_2(10)).spec;
    let found = shown(&Case::begun(Running));
    // As the definitions have it, so that it can be applied.
    let api_version = format!("{}/{}", crd::GROUP, crd::VERSION);
    assert_eq!((&*found.api_version, &*found.kind), (&*api_version, "CanaryRelease"));
    assert_eq!((&*found.metadata.name, &*found.metadata.uid), ("checkout-2", "u"));
    assert_eq!(found.metadata.creation_timestamp, at(SUBMITTED));
    assert_eq!(found.metadata.created_by.as_deref(), Some("ann"));
    assert_eq!(found.spec, asked);
    let form = serde_json::to_value(&found).unwrap();
    let first = &form["status"]["conditions"][0];
    assert_eq!((&first["type"], &first["lastTransitionTime"]), (&json!("Accepted"), &json!(at(SUBMITTED))));
    assert_eq!(form["status"]["seen"], json!({"lowest": 10.0, "highest": 10.0}));
}

#[test]
fn the_transition_is_what_somebody_wanted_last() {
    let open = |state: ReleaseState| Case { is_open: true, ..Case::begun(state) };
    for (case, transition) in [
        (Case::begun(Running), ""),
        (Case::begun(paused(PausedBy::Operator)), ""),
        (open(Running), "Adopted"),
        (open(paused(PausedBy::Limit)), "Adopted"),
        (open(rolling_back(Aborted)), "Deprecated"),
        (Case::begun(rolling_back(RolledBack)), ""),
        (Case::over(Done, 0), "Adopted"),
        (Case::over(Aborted, 0), "Deprecated"),
        (Case::over(RolledBack, 0), ""),
    ] {
        assert_eq!(shown(&case).spec.transition, transition, "{:?}", case.state);
    }
}

#[test]
fn what_is_not_known_any_more_is_left_out() {
    let details = Details { adopted: None, uid: "u", by: None };
    let spec = Case::over(Done, 0).with(|life| show(details, life)).spec;
    assert_eq!((spec.config, &*spec.path, spec.version), (Value::String(String::new()), "/", 2));
}

/// A release with two services, of which one has two ports.
pub fn two_services() -> Value {
    let ports = json!([{"port": 8080, "protocol": "HTTP"}, {"port": 8443, "protocol": "HTTPS"}]);
    let pay =
        json!({"name": "pay", "path": "/", "ports": [{"port": 8090, "protocol": "TCP"}], "drain": "1h"});
    let mut of = with(with(shop(), "/spec/services/0/ports", ports), "/spec/services/1", pay);
    for at in 0..2 {
        of = with(of, &format!("/spec/versions/{at}/targets/pay"), json!([format!("127.0.0.1:92{at}1")]));
    }
    of
}

/// A canary of both, which gets so much of each port.
pub fn both_2([plain, tls, pay]: [i32; 3]) -> Value {
    let port = |port: u16, protocol: &str, weight: i32| json!({"port": port, "protocol": protocol, "config": {"weight": weight}});
    let ports = json!([port(8080, "HTTP", plain), port(8443, "HTTPS", tls)]);
    let services = json!([
        {"service": "checkout", "ports": ports},
        {"service": "pay", "ports": [port(8090, "TCP", pay)]},
    ]);
    with(checkout_2(plain), "/spec/services", services)
}

/// What its router gives the canary of each part.
fn gives(shares: [u16; 3]) -> Live {
    let parts = shares.map(|share| gets(share).parts.remove(0));
    Live { parts: parts.into(), ..gets(0) }
}

#[test]
fn of_several_parts_each_is_told_and_all_have_to_do_what_is_wanted() {
    let of = |case: &Case| case.of(&both_2([10, 30, 10]), &two_services(), status);
    let begun = |live: Live| Case { live: Some(live), ..Case::begun(Running) };
    let in_force = |case: &Case| {
        let found = of(case).conditions.swap_remove(1);
        (found.reason, found.message)
    };
    let found = of(&begun(gives([1_000, 3_000, 1_000])));
    let parts = found.parts.iter().map(|part| (part.name.as_str(), part.ports.clone(), part.weight));
    assert_eq!(
        parts.collect::<Vec<_>>(),
        [("checkout.8080", vec![8080], 10.0), ("checkout.8443", vec![8443], 30.0), ("pay", vec![8090], 10.0)]
    );
    assert_eq!((found.weight, found.parts[1].seen.map(|seen| seen.lowest)), (10.0, Some(30.0)));
    let (reason, message) = in_force(&begun(gives([1_000, 3_000, 1_000])));
    assert_eq!(
        (&*reason, &*message),
        ("InForce", "the canary gets 10 % of checkout.8080, 30 % of checkout.8443, 10 % of pay at 1 router")
    );
    let (reason, message) = in_force(&begun(gives([1_000, 3_000, 0])));
    assert_eq!((&*reason, &*message), ("Shifting", "the canary is to get 10 % of pay, and gets 0 %"));
    // Who tells of some alone hasn't told enough.
    let mut silent = gives([1_000, 3_000, 1_000]);
    silent.parts[2] = Told::default();
    assert_eq!(in_force(&begun(silent)).0, "NotReported");
    // What follows is for all of them.
    let adopting = Case { is_open: true, ..begun(gives([10_000, 10_000, 3_000])) };
    assert_eq!(in_force(&adopting).1, "the canary is to get 100 % of pay, and gets 30 %");
    let back = Case { live: Some(gives([0, 0, 0])), ..Case::begun(rolling_back(Aborted)) };
    assert_eq!(in_force(&back).1, "the canary gets 0 % of the calls at 1 router");
    assert!(of(&back).parts.iter().all(|part| part.weight == 0.0));
    // Calls and targets are those of all.
    let mut called = gives([1_000, 3_000, 1_000]);
    for told in &mut called.parts {
        (told.sums[1].calls, told.sums[1].errors, told.sums[1].healthy) = (100, 1, Some(2));
    }
    let healthy = |live: &Live| of(&begun(live.clone())).conditions.swap_remove(2);
    assert_eq!(
        healthy(&called).message,
        "6 of 6 targets of the canary are healthy; 3 of its 300 calls failed"
    );
    called.parts[1].sums[1].healthy = None;
    assert_eq!(healthy(&called).reason, "NotJudged", "nobody looks at some of them");
    called.parts[2].sums[1].healthy = Some(1);
    assert_eq!(healthy(&called).reason, "TargetsUnhealthy");
    // Of one part nothing is said twice.
    assert!(Case::begun(Running).status().parts.is_empty());
}

#[test]
fn what_was_submitted_of_several_is_shown_again() {
    let (asked, of) = (both_2([10, 30, 0]), two_services());
    let adopted = translated(&asked, &of).adopted;
    let details = Details { adopted: Some(&adopted), uid: "u", by: None };
    let found = Case::begun(Running).of(&asked, &of, |life| show(details, life));
    assert_eq!(found.spec, canary(&asked).spec);
    // Who doesn't know the release any more knows its parts.
    let details = Details { adopted: None, uid: "u", by: None };
    let found = Case::begun(Running).of(&asked, &of, |life| show(details, life));
    let names: Vec<&str> = found.spec.services.iter().map(|one| one.service.as_str()).collect();
    assert_eq!(names, ["checkout.8080", "checkout.8443", "pay"]);
}
