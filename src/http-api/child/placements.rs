//! `POST /placements`.

use std::time::Duration;

use axum::{extract::State, http::StatusCode, response::Response};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::{
    body::ChildBody,
    caller::{JsonCall, check_token},
    refused::Refused,
    reply::{json, note_unknown},
    wait::{Wait, WaitingCall},
};
use crate::{Context, context::PATIENCE};
use domain::{
    release::{command::Command, state::Snapshot},
    workflows::{self, Part, PartKey, Phase, Told},
};
use engine::By;
use model::ChildKey;
use protocol::placements::{
    InstancePhase, MAX_PLACEMENTS_BODY_BYTES, PlacedInstance, PlacementsAnswer, PlacementsRequest,
};

/// Between two looks of a call that waits and is woken again and again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What an agent on whose machine functions of workflows are placed runs of them; it is answered what it is to run.
#[utoipa::path(post, path = "/placements", operation_id = "report_placements", tag = "child protocol",
    params(("wait" = Option<String>, Query, description = "Answer once something else is to run than `state` says; else \
        after this time: `30s`, `500ms`. Without it, at once.")),
    request_body(content = Object, description = "`id`, all `instances` that are there, and `state` of the last answer."),
    responses(
        (status = 200, description = "`state`, and `instances`: all that are to run, unless the caller knows them.",
            content_type = "application/json", body = Object),
        (status = 400, description = "Malformed.", content_type = "text/plain", body = String),
        (status = 404, description = "Not known here.", content_type = "text/plain", body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Wait(wait): Wait,
    JsonCall(headers): JsonCall,
    body: Result<ChildBody<MAX_PLACEMENTS_BODY_BYTES>, Refused>,
) -> Result<Response, Refused> {
    let body = body?;
    let PlacementsRequest { id, state, instances } = PlacementsRequest::parse(&body.bytes)?;
    drop(body);
    check_token(&ctx, &headers, &id)?;
    let served_ms = ctx.served_ms();
    ctx.view().children.with(&id, |child| child.touch(served_ms));
    let told = instances.into_iter().map(|one| Told {
        id: one.id.into(),
        phase: match one.phase {
            InstancePhase::Starting => Phase::Starting,
            InstancePhase::Running => Phase::Running,
            InstancePhase::Failed => Phase::Failed(one.why.unwrap_or_default().into()),
        },
    });
    let command = workflows::Command::Report { child: id.clone(), told: told.collect() };
    let taken = ctx.engine.call(Command::Workflows(command), By::CHILD, PATIENCE).await;
    taken.inspect_err(|error| note_unknown(&ctx, "/placements", error))?;
    Box::pin(until_news(&ctx, &id, state.as_deref(), wait)).await
}

/// What is to run, once that is something else than the caller knows of.
async fn until_news(
    ctx: &Context,
    id: &str,
    known: Option<&str>,
    wait: Option<Duration>,
) -> Result<Response, Refused> {
    let mut waiting = wait.and_then(|wait| WaitingCall::begin(ctx, id, wait));
    loop {
        let looked = Instant::now();
        let answer = wanted(ctx, id).await?;
        let is_news = known != Some(&*answer.state);
        let again = match &mut waiting {
            Some(waiting) if !is_news => waiting.again().await?,
            Some(_) | None => false,
        };
        if !again {
            let instances = answer.instances.filter(|_| is_news);
            return written(&PlacementsAnswer { instances, ..answer });
        }
        // Its other calls wake it as well.
        sleep_until(looked + LOOK_EVERY).await;
    }
}

fn written(answer: &PlacementsAnswer) -> Result<Response, Refused> {
    let text = serde_json::to_vec(answer).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written")
    })?;
    Ok(json(text))
}

async fn wanted(ctx: &Context, id: &str) -> Result<PlacementsAnswer, Refused> {
    let id = id.to_owned();
    let read = move |state: &Snapshot| {
        let node = state.children.key(&id)?;
        let own = state.workflows.on_node(node);
        Some(own.filter_map(|(key, part)| instance(state, node, key, part)).collect::<Vec<_>>())
    };
    let instances = ctx.engine.read(PATIENCE, read).await?.unwrap_or_default();
    let mut hash = Sha256::new();
    for instance in &instances {
        hash.update(instance.id.as_bytes());
    }
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finalize()[..16]);
    let state = Uuid::from_bytes(first).simple().to_string();
    Ok(PlacementsAnswer { state, instances: Some(instances) })
}

/// The instance of a part that is to run on a node.
fn instance(state: &Snapshot, node: ChildKey, key: PartKey, part: &Part) -> Option<PlacedInstance> {
    let instance = part.instance.as_ref().filter(|instance| instance.node == node)?;
    let workflow = state.workflows.by_key(part.workflow)?;
    let function = workflow.function(key)?;
    Some(PlacedInstance {
        id: instance.id.to_string(),
        function: workflow.function_name(function),
        runtime: function.requirements.runtime.clone()?,
        folder: function.folder().ok()?,
        annotations: function.annotations.clone(),
    })
}
