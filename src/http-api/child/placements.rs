//! `POST /placements`.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use axum::{extract::State, http::StatusCode, response::Response};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
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
    release::{
        command::{Command, Refusal},
        state::Snapshot,
    },
    workflows::{self, Instance, Part, PartKey, Phase, Target, Told, Workflow},
};
use engine::{By, EngineError, measurements, view::NodeCalls};
use model::ChildKey;
use protocol::placements::{
    InstancePhase, InstanceReport, MAX_PLACEMENTS_BODY_BYTES, PlacedInstance, PlacedPart, PlacedState,
    PlacedTarget, PlacementsAnswer, PlacementsRequest,
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
    let request = PlacementsRequest::parse(&body.bytes)?;
    drop(body);
    check_token(&ctx, &headers, &request.id)?;
    let served_ms = ctx.served_ms();
    let children = &ctx.view().children;
    let key = children.with(&request.id, |child| {
        child.touch(served_ms);
        child.key
    });
    let Some(key) = key else {
        let unknown = EngineError::Refused(Refusal::UnknownChild(request.id.clone()));
        note_unknown(&ctx, "/placements", &unknown);
        return Err(unknown.into());
    };
    let node = children.report(key, served_ms);
    let said = said(&request.instances);
    let PlacementsRequest { id, state, instances, health, samples } = request;
    if let Some(health) = health {
        ctx.view().note_health(key, &node, health, ctx.engine.clock().now().wall_ms);
    }
    let has_samples = !samples.all.is_empty();
    if has_samples {
        measurements::take(&ctx.engine, key, &node, samples, PATIENCE).await?;
    }
    if !node.is_known(said) {
        let revision = node.revision();
        let told = instances.into_iter().map(|one| Told {
            id: one.id.into(),
            phase: match one.phase {
                InstancePhase::Starting => Phase::Starting,
                InstancePhase::Ready => Phase::Ready,
                InstancePhase::Running => Phase::Running,
                InstancePhase::Failed => Phase::Failed(one.why.unwrap_or_default().into()),
            },
            url: one.url.map(Into::into),
        });
        let command = workflows::Command::Report { child: id.clone(), told: told.collect() };
        let taken = ctx.engine.call(Command::Workflows(command), By::CHILD, PATIENCE).await;
        taken.inspect_err(|error| note_unknown(&ctx, "/placements", error))?;
        node.know(revision, said);
    }
    // Whoever doesn't hear that its samples were taken tells them to the next life of this manager again.
    let wait = wait.filter(|_| !has_samples);
    Box::pin(until_news(&ctx, &id, key, &node, state.as_deref(), wait)).await
}

/// What a node says, as a number.
fn said(instances: &[InstanceReport]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for InstanceReport { id, phase, why, url } in instances {
        (id, *phase as u8, why, url).hash(&mut hasher);
    }
    hasher.finish()
}

/// What is to run, once that is something else than the caller knows of.
async fn until_news(
    ctx: &Context,
    id: &str,
    key: ChildKey,
    node: &NodeCalls,
    known: Option<&str>,
    wait: Option<Duration>,
) -> Result<Response, Refused> {
    let mut waiting = wait.and_then(|wait| WaitingCall::begin(ctx, id, wait));
    loop {
        let looked = Instant::now();
        let (state, instances) = match node.wanted() {
            Some(state) if known == Some(&*state) => (state.to_string(), None),
            Some(_) | None => {
                let revision = node.revision();
                let (state, instances) = wanted(ctx, key).await?;
                node.want(revision, &state);
                (state, Some(instances))
            }
        };
        let is_news = known != Some(&*state);
        let again = match &mut waiting {
            Some(waiting) if !is_news => waiting.again().await?,
            Some(_) | None => false,
        };
        if !again {
            let keep_alive_ms = ctx.settings.keep_alive.as_millis() as u64;
            let instances = instances.filter(|_| is_news);
            let measure = ctx.view().measurements.are_wanted();
            return written(&PlacementsAnswer { state, keep_alive_ms, measure, instances });
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

/// What is to run on a node, and by what that is known.
async fn wanted(ctx: &Context, node: ChildKey) -> Result<(String, Vec<PlacedInstance>), Refused> {
    let read = move |state: &Snapshot| {
        let own = state.workflows.on_node(node);
        own.flat_map(|(key, part)| instances_on(state, node, key, part)).collect::<Vec<_>>()
    };
    let instances = ctx.engine.read(PATIENCE, read).await?;
    let mut hash = Sha256::new();
    for one in &instances {
        hash.update(serde_json::to_vec(one).unwrap_or_default());
    }
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finalize()[..16]);
    Ok((Uuid::from_bytes(first).simple().to_string(), instances))
}

/// The instances of a part on a node: what is to run, to get ready or to end there.
fn instances_on(state: &Snapshot, node: ChildKey, key: PartKey, part: &Part) -> Vec<PlacedInstance> {
    let Some(workflow) = state.workflows.by_key(part.workflow) else { return Vec::new() };
    let next = if workflow.is_source(key) { PlacedState::Prepare } else { PlacedState::Run };
    let prepares = workflow.above.as_ref().is_some_and(|above| above.prepares);
    let now = if prepares { PlacedState::Prepare } else { PlacedState::Run };
    let all = part.instance.iter().map(|one| (one, now));
    let all = all.chain(part.next.iter().map(|one| (one, next)));
    let all = all.chain(part.leaving.iter().map(|one| (one, PlacedState::End)));
    let here = all.filter(|(one, _)| one.node == node);
    here.filter_map(|(one, of)| placed(state, workflow, key, part, one, of)).collect()
}

fn placed(
    state: &Snapshot,
    workflow: &Workflow,
    key: PartKey,
    part: &Part,
    instance: &Instance,
    of: PlacedState,
) -> Option<PlacedInstance> {
    let (name, what, outputs) = match (workflow.function(key), workflow.resource(key)) {
        (Some(function), _) => {
            let what = PlacedPart::Function {
                runtime: function.requirements.runtime.clone()?,
                folder: function.folder().ok()?,
                annotations: function.annotations.clone(),
            };
            (&function.name, what, &function.outputs)
        }
        (None, resource) => {
            let resource = resource?;
            let (class, configuration) = (resource.class.clone(), resource.configuration.clone());
            (&resource.name, PlacedPart::Resource { class, configuration }, &resource.outputs)
        }
    };
    let target = |(output, name): (&String, &String)| {
        let part = state.workflows.part(workflow.key_of(name)?)?;
        let url =
            part.instance.as_ref().or(part.next.as_ref()).and_then(|one| workflows::events_url(state, one));
        let (key, part) = (event_key(workflow, part), part.logical.to_string());
        // What ends with its workflow waits for nobody who isn't there.
        let is_wanted = !workflow.is_stopping || url.is_some();
        is_wanted
            .then(|| (output.clone(), PlacedTarget { part, url: url.filter(|url| !url.is_empty()), key }))
    };
    let outputs = match &workflow.above {
        None => outputs.iter().filter_map(target).collect(),
        // As the parent has told it.
        Some(above) => above.outputs.iter().map(of_parent).collect(),
    };
    Some(PlacedInstance {
        id: instance.id.to_string(),
        name: workflow.name_at_nodes(name),
        part: part.logical.to_string(),
        key: workflow.above.as_ref().map_or_else(|| event_key(workflow, part), |above| above.key.clone()),
        state: of,
        source: workflow.is_source(key),
        what,
        outputs,
    })
}

fn of_parent((output, target): (&String, &Target)) -> (String, PlacedTarget) {
    let Target { part, url, key } = target.clone();
    (output.clone(), PlacedTarget { part, url, key })
}

/// With which events to a part are signed. Nodes that send or get them know it, and nobody else.
fn event_key(workflow: &Workflow, part: &Part) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(&workflow.secret.0).map(|mac| mac.chain_update(&*part.logical));
    mac.map(|mac| BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())).unwrap_or_default()
}
