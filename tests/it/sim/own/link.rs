//! What an own agent says to its manager, and what it makes of the answers: as the product's link does, without HTTP.

use std::collections::BTreeMap;

use ::agent::{
    measure::Reads,
    runtime::VersionId,
    state_machine::{Act, Errand, Event, Fetched, PollResponse, Trouble, TroubleKind, VersionNote},
};
use domain::{
    children::{self, Poll, Profile},
    release::{
        command::{Command, Refusal, Reply},
        members,
    },
};
use engine::json_columns;
use language::offer;
use model::{
    Capabilities, ChildId, ChildKind, FEATURE_INTERIM, FEATURE_SHARES, FEATURE_VALUES, FEATURE_WINNER, Leads,
};
use protocol::{EndStageAnswer, FollowUp, ManagerTime, ResultRequest, StageSummary};

use super::{Handed, Own};
use crate::sim::{
    call::{Patience, Request, Response},
    plans,
};

/// How long its calls wait.
const WAIT_MS: u64 = 30_000;

/// What is told of a call that broke off, or whose answer can't be read.
const NO_ANSWER: &str = "no answer";

const FORBIDDEN: u16 = 403;

/// What is said to the manager for an act; `None`: it is nothing of the manager's.
pub(super) fn request(own: &Own, act: &Act, errand: &Errand) -> Option<Request> {
    let id = || own.id().unwrap_or_default().to_owned();
    let patient = |command, skipped: &[String], shares: &BTreeMap<String, u16>| {
        let (skipped, shares) = (skipped.to_vec(), shares.clone());
        let time_limit = Patience { wait_ms: WAIT_MS, held: Vec::new(), skipped, shares };
        Request::Patient(Box::new(command), time_limit)
    };
    match (act, errand) {
        (Act::Poll, _) => {
            let poll = Command::Children(children::Command::Poll(poll(own)));
            Some(patient(poll, &[], &BTreeMap::new()))
        }
        (Act::EndStage { offer, stage, skipped, shares }, _) => {
            let (child, offer, stage) = (id(), offer.clone(), stage.clone());
            let command =
                Command::Members(members::Command::EndStage { child, offer, stage, failures: None });
            Some(patient(command, skipped, shares))
        }
        (Act::Fetch { offer, .. }, _) => {
            let command = members::Command::Fetch { child: id(), offer: offer.clone() };
            Some(Request::Heart(Box::new(Command::Members(command))))
        }
        (Act::Send(_) | Act::Report { .. }, Errand::Result { offer, summary, next }) => {
            Some(result(id(), offer, summary, next))
        }
        _ => None,
    }
}

fn poll(own: &Own) -> Poll {
    let features =
        [FEATURE_INTERIM, FEATURE_VALUES, FEATURE_WINNER, FEATURE_SHARES].map(str::to_owned).into();
    let routers = own.is_router.then(|| "embedded".to_owned()).into_iter().collect();
    let runtimes = own.is_router.then(Vec::new);
    let capabilities =
        Capabilities { leads: Leads::Whole, features, routers, runtimes, ..Capabilities::default() };
    Poll {
        child: own.id().map(|id| ChildId::parse(id).unwrap()),
        fresh: ChildId::parse("unset").unwrap(),
        area: Some(own.area.clone()),
        address: Some(own.address),
        agents: 0,
        profile: Some(Profile { name: None, kind: ChildKind::Agent, capabilities }),
        tenant: None,
    }
}

/// It goes over the wire and is read as the edge reads it: what would be refused there is a fault of the agent's.
fn result(id: String, offer: &str, summary: &StageSummary, next: &str) -> Request {
    let request = ResultRequest {
        id: id.into(),
        release_id: offer.into(),
        stage_summaries: vec![summary.clone()],
        next_stage: Some(next.into()),
    };
    let body = serde_json::to_vec(&request).unwrap();
    let request = ResultRequest::parse(&body).unwrap_or_else(|error| panic!("{error}: {request:?}"));
    let says_next = request.says_next(0).map(str::to_owned);
    let summary = request.stage_summaries[0].clone();
    let report = json_columns::received(http_api::tried_alone::summary(summary, says_next)).unwrap();
    Request::Heart(Box::new(Command::Members(members::Command::Result {
        child: request.id.into_owned(),
        offer: request.release_id.into_owned(),
        reports: vec![report],
    })))
}

/// What the answer means to the core. `served_ms`: the manager's time.
pub(super) fn event(act: &Act, response: Response, took_ms: u64, time_ms: i64) -> Option<Event> {
    let answer = match response {
        Response::Heart(answer) => *answer,
        Response::Garbled(Some(FORBIDDEN)) => {
            let trouble = Trouble { kind: TroubleKind::Unauthorized, text: "not allowed".to_owned() };
            return Some(failed(act, trouble, took_ms));
        }
        Response::Garbled(Some(status)) => {
            return Some(failed(act, Trouble::refused(format!("status {status}")), took_ms));
        }
        Response::Functions | Response::Garbled(None) | Response::Lost => {
            return Some(failed(act, Trouble::passing(NO_ANSWER), took_ms));
        }
    };
    let answer = match answer {
        Ok(reply) => reply,
        Err(refusal) => return Some(refused(act, &refusal, took_ms)),
    };
    Some(match (act, answer) {
        (Act::Poll, Reply::Polled { child, offer, .. }) => {
            let reads = Reads { values: true, groups: false };
            let polled = PollResponse { id: child.as_str().to_owned(), offer, reads };
            Event::Polled { took_ms, answer: Ok(polled) }
        }
        (
            Act::EndStage { offer, stage, skipped, shares: known },
            Reply::EndStage { end, rollback, skip, winner, shares, accepted },
        ) => {
            let then = rollback.then_some(FollowUp::Rollback);
            Event::EndStage {
                offer: offer.clone(),
                stage: stage.clone(),
                skipped: skipped.clone(),
                shares: known.clone(),
                took_ms,
                answer: Ok(EndStageAnswer {
                    end_stage: end || rollback,
                    then,
                    skip,
                    winner,
                    shares,
                    accepted,
                }),
            }
        }
        (Act::Send(number), Reply::Stored) => Event::Sent { number: *number, answer: Ok(None) },
        (Act::Report { run, stage }, Reply::Stored) => Event::Reported {
            run: *run,
            stage: *stage,
            sent_ms: 0,
            answer: Ok(Some(ManagerTime { time_ms, time_error_ms: 1 })),
        },
        (Act::Fetch { .. }, Reply::Offer(_)) => return None,
        (act, reply) => panic!("{act:?} does not expect {reply:?}"),
    })
}

/// What the edge makes of a refusal.
fn refused(act: &Act, refusal: &Refusal, took_ms: u64) -> Event {
    let is_lost_state = matches!(refusal, Refusal::UnknownChild(_) | Refusal::NeverOffered { .. });
    match act {
        Act::EndStage { offer, stage, skipped, shares } if is_lost_state => Event::EndStage {
            offer: offer.clone(),
            stage: stage.clone(),
            skipped: skipped.clone(),
            shares: shares.clone(),
            took_ms,
            answer: Ok(EndStageAnswer {
                end_stage: true,
                then: Some(FollowUp::Rollback),
                ..EndStageAnswer::default()
            }),
        },
        act => {
            let trouble = match refusal {
                Refusal::Limit { .. } | Refusal::TooManyAdopted { .. } => {
                    Trouble::passing(refusal.to_string())
                }
                _ => Trouble::refused(refusal.to_string()),
            };
            failed(act, trouble, took_ms)
        }
    }
}

pub(super) fn failed(act: &Act, trouble: Trouble, took_ms: u64) -> Event {
    match act.clone() {
        Act::List => Event::Listed(Err(trouble)),
        Act::Look(_) => Event::Looked(Err(trouble)),
        Act::Join => Event::Joined(Err(trouble)),
        Act::Poll => Event::Polled { took_ms, answer: Err(trouble) },
        Act::EndStage { offer, stage, skipped, shares } => {
            Event::EndStage { offer, stage, skipped, shares, took_ms, answer: Err(trouble) }
        }
        Act::Send(number) => Event::Sent { number, answer: Err(trouble) },
        Act::Report { run, stage } => Event::Reported { run, stage, sent_ms: 0, answer: Err(trouble) },
        Act::Fetch { offer, run } => Event::Fetched { offer, run, fetched: Err(trouble) },
        Act::Start(version) => Event::Started { version, started: Err(trouble) },
        Act::Apply(generation) => Event::Applied { generation, applied: Err(trouble) },
        Act::Watch(generation) => Event::Outdated { generation, outdated: Err(trouble) },
        Act::Empty { service, variation } => Event::Emptied { service, variation, emptied: Err(trouble) },
        Act::Drain(version) => Event::Drained { version, drained: Err(trouble) },
        Act::Stop(version) => Event::Stopped { version, stopped: Err(trouble) },
        Act::Ask { service, variation } => Event::Asked { service, variation, asked: Err(trouble) },
        Act::Count(number) => Event::Counted { number, counted: Err(trouble) },
    }
}

/// An offer whose functions are there as well.
pub(super) fn fetched(handed: &Handed) -> Result<Fetched, Trouble> {
    let read = offer::read(&handed.text);
    let read = read.map_err(|faults| Trouble::refused(format!("{faults:?}\n{}", handed.text)))?;
    let (mut versions, mut notes) = (Vec::new(), BTreeMap::new());
    for function in &read.functions {
        let whole = handed.offer.strategy.functions.iter().find(|of| of.name == function.name);
        let both = [&function.base, &function.new].map(|version| {
            let whole = whole.map(|of| if version.path == of.new.path { &of.new } else { &of.base });
            let content = whole.and_then(|version| version.content);
            let id = id_of(content.unwrap_or_else(|| plans::first(&function.name)));
            let (function, runner) = (function.name.clone(), version.env.clone());
            notes.insert(id.clone(), VersionNote { function, runner, variation: None });
            id
        });
        versions.push(both);
    }
    let started = agent::state_machine::Started::new();
    Ok(Fetched { text: handed.text.clone(), versions: Ok(versions), started, notes })
}

/// By which a version is known. What was there before any release ends with four zeros.
fn id_of(content: u64) -> VersionId {
    format!("{content:016x}").parse().unwrap()
}
