//! `POST /end_stage`.

use std::{collections::BTreeMap, time::Duration};

use axum::{body::Bytes, extract::State, http::StatusCode, response::Response};

use super::{
    body::ChildBody,
    caller::{JsonCall, check_token},
    refused::Refused,
    reply::{heard_now, json, note_unknown},
    wait::{Wait, WaitingCall},
};
use crate::{Context, context::PATIENCE};
use domain::release::{
    command::{Command, Refusal, Reply},
    members,
    offer::OfferKind,
};
use engine::{
    By, EngineError,
    stats::Stats,
    view::{ChildEntry, Mode, Published},
};
use language::render;
use model::StageStatus;
use protocol::{
    EndStageRequest,
    child::{EndStageAnswer, FollowUp, MAX_END_STAGE_BODY_BYTES},
};

/// The plain answers.
const END: &[u8] = b"{\"end_stage\":true}\n";
const NOT_YET: &[u8] = b"{\"end_stage\":false}\n";

/// Whether a child may end its stage.
#[utoipa::path(post, path = "/end_stage", operation_id = "end_stage", tag = "child protocol",
    params(("wait" = Option<String>, Query, description = "Answer as soon as it may, at the latest after this \
        time: `30s`, `500ms`. Without it, at once.")),
    request_body(content = Object, description = "`id`, `strategy_id`, `stage_name`; managers and \
        agents with a whole strategy add which stages they know to be `skipped`, agents the `shares` that they were told, managers how \
        many `failures` of stages that keep their shares they have told."),
    responses(
        (status = 200, description = "`end_stage`: true once it may; to whoever has a whole strategy also \
            `then: rollback`, the names of stages to `skip`, and to an agent with the feature `winner` the variation of its service \
            that is to serve alone in the end, if an operator chose it, and to one with the feature `shares` what the one variation \
            beside the stable one gets in stages in which an operator changed that, by their names, in units of 0.01 %; to a manager \
            `accepted` where it is decided to go on from these failures.", content_type = "application/json",
            body = Object),
        (status = 400, description = "Malformed.", content_type = "text/plain", body = String),
        (status = 404, description = "No such stage, or never offered. A child or a release that is not known at all, \
            as after a loss of data, is told to end the stage.", content_type = "text/plain", body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Wait(wait): Wait,
    JsonCall(headers): JsonCall,
    body: Result<ChildBody<MAX_END_STAGE_BODY_BYTES>, Refused>,
) -> Result<Response, Refused> {
    let body = body?;
    let mut request = EndStageRequest::parse(&body.bytes)?;
    check_token(&ctx, &headers, &request.id)?;
    let view = ctx.view();
    request.strategy_id = view.releases.own_id(&request.strategy_id).into_owned().into();
    Stats::count(&view.stats.end_stages);
    let quick = view.children.with(&request.id, |child| {
        let end = from_view(&ctx, child, &request);
        (end, heard_now(&ctx, child))
    });
    let (quick, is_serving) = quick.unwrap_or_else(|| (None, ctx.is_serving()));
    if !is_serving {
        return Err(Refused::unavailable(&ctx));
    }
    if let Some(end) = quick.filter(|end| *end || wait.is_none()) {
        return Ok(json(if end { END } else { NOT_YET }));
    }
    // In a box, so that calls that are answered at once carry nothing of it around.
    let answer = Box::pin(slowly(&ctx, &request, wait)).await?;
    Ok(json(match answer {
        EndStageAnswer { end_stage, then: None, skip, winner: None, shares, accepted: false }
            if skip.is_empty() && shares.is_empty() =>
        {
            Bytes::from_static(if end_stage { END } else { NOT_YET })
        }
        for_manager => written(&for_manager)?.into(),
    }))
}

/// By the engine, or after a wait.
async fn slowly(
    ctx: &Context,
    request: &EndStageRequest<'_>,
    wait: Option<Duration>,
) -> Result<EndStageAnswer, Refused> {
    let Some(wait) = wait else { return ask(ctx, request).await };
    let answer = look(ctx, request).await?;
    if is_news(&answer, request) { Ok(answer) } else { until_end(ctx, request, wait).await }
}

/// What is to be said now.
async fn look(ctx: &Context, request: &EndStageRequest<'_>) -> Result<EndStageAnswer, Refused> {
    let seen = ctx.view().children.with(&request.id, |child| from_view(ctx, child, request));
    match seen.flatten() {
        Some(end) => Ok(EndStageAnswer { end_stage: end, ..EndStageAnswer::default() }),
        None => ask(ctx, request).await,
    }
}

/// What only those are told who have a whole strategy.
fn written(answer: &EndStageAnswer) -> Result<Vec<u8>, Refused> {
    serde_json::to_vec(answer).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written".to_owned())
    })
}

/// Whether a manager or an agent wants to hear this at once.
fn is_news(answer: &EndStageAnswer, request: &EndStageRequest<'_>) -> bool {
    answer.end_stage
        || answer.accepted
        || answer.skip.iter().any(|stage| !request.skipped.contains(stage))
        || answer.shares.iter().any(|(stage, share)| request.shares.get(stage) != Some(share))
}

/// Whether the stage may end within the wait.
async fn until_end(
    ctx: &Context,
    request: &EndStageRequest<'_>,
    wait: Duration,
) -> Result<EndStageAnswer, Refused> {
    let Some(mut waiting) = WaitingCall::begin(ctx, &request.id, wait) else {
        return Ok(EndStageAnswer::default());
    };
    loop {
        let answer = look(ctx, request).await?;
        if is_news(&answer, request) || !waiting.again().await? {
            return Ok(answer);
        }
    }
}

/// The answer about the stage that the child has in hand. Everything else is the engine's to judge.
fn from_view(ctx: &Context, child: &ChildEntry, request: &EndStageRequest<'_>) -> Option<bool> {
    let turn: Published = child.turn();
    if turn.mode != Mode::InHand {
        return None;
    }
    let end = ctx.view().releases.with(turn.release, |release| {
        if !release.offers(&request.strategy_id, turn.name) {
            return None;
        }
        match turn.name.kind {
            OfferKind::Undo(_) => (request.stage_name == render::UNDO_STAGE).then_some(true),
            OfferKind::Rollout(_) => (request.stage_name == render::ROLLOUT_STAGE).then_some(true),
            OfferKind::First | OfferKind::Stage(_) => {
                let stage = turn.slot.stage_index().and_then(|index| release.strategy.stages.get(index))?;
                (stage.name == request.stage_name).then_some(turn.stage_status >= StageStatus::ShouldEnd)
            }
        }
    });
    end.flatten()
}

async fn ask(ctx: &Context, request: &EndStageRequest<'_>) -> Result<EndStageAnswer, Refused> {
    let command = Command::Members(members::Command::EndStage {
        child: request.id.to_string(),
        offer: request.strategy_id.to_string(),
        stage: request.stage_name.to_string(),
        failures: request.failures,
    });
    match ctx.engine.call(command, By::CHILD, PATIENCE).await {
        Ok(Reply::EndStage { end, rollback, skip, winner, mut shares, accepted }) => {
            let then = rollback.then_some(FollowUp::Rollback);
            shares.extend(forgotten(ctx, request, &shares));
            Ok(EndStageAnswer { end_stage: end || rollback, then, skip, winner, shares, accepted })
        }
        Ok(_) => Err(EngineError::Failed.into()),
        Err(EngineError::Refused(Refusal::UnknownStage { offer, stage })) => {
            let text = format!("{offer} has no stage {stage:?}");
            Err(Refused::new(StatusCode::NOT_FOUND, text))
        }
        Err(error) => {
            note_unknown(ctx, "/end_stage", &error);
            if is_of_a_lost_state(ctx, request, &error) {
                let then = Some(FollowUp::Rollback);
                return Ok(EndStageAnswer { end_stage: true, then, ..EndStageAnswer::default() });
            }
            Err(error.into())
        }
    }
}

/// The shares of stages of which a child was told others that nobody knows of here, as after a backup was put back: what the release says
/// counts. `chosen`: what is known.
fn forgotten(
    ctx: &Context,
    request: &EndStageRequest<'_>,
    chosen: &BTreeMap<String, u16>,
) -> BTreeMap<String, u16> {
    let mut unknown = request.shares.keys().filter(|stage| !chosen.contains_key(*stage)).peekable();
    if unknown.peek().is_none() {
        return BTreeMap::new();
    }
    let releases = &ctx.view().releases;
    let found = releases.resolve(&request.strategy_id);
    let shares = found.and_then(|found| {
        releases.with(found.release, |release| {
            let of = |name: &String| {
                let stage = release.strategy.stages.iter().find(|stage| stage.name == *name)?;
                let [_, share] = stage.shares[..] else { return None };
                Some((name.clone(), share))
            };
            unknown.filter_map(of).collect()
        })
    });
    shares.unwrap_or_default()
}

/// Whether the child is in a stage of which nobody here can know any more: the manager's data was wiped, or is from a backup.
///
/// An agent in a stage calls nothing else, and would stay there for ever. Told to end it, it goes back to the base version
/// (a stage handed out alone leaves that however it ends; a manager is told so), polls, and is known again.
fn is_of_a_lost_state(ctx: &Context, request: &EndStageRequest<'_>, error: &EngineError) -> bool {
    match error {
        EngineError::Refused(Refusal::UnknownChild(_)) => true,
        EngineError::Refused(Refusal::NeverOffered { .. }) => {
            ctx.view().releases.resolve(&request.strategy_id).is_none()
        }
        EngineError::Refused(_)
        | EngineError::Busy
        | EngineError::Full
        | EngineError::Failed
        | EngineError::Stopped => false,
    }
}
