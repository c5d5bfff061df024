//! `POST /traffic`.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, http::StatusCode, response::Response};
use tokio::time::{Instant, sleep_until};

use super::{
    body::ChildBody,
    caller::{JsonCall, check_token},
    refused::Refused,
    reply::{json, note_unknown},
    wait::{Wait, WaitingCall},
};
use crate::{Context, context::PATIENCE};
use domain::{
    release::command::{Command, Reply},
    traffic::{self, OrderState, Report, RouterReport, Service, ToldDrift, ToldOrder, Variation},
};
use engine::By;
use model::Now;
use protocol::{
    HistogramForm,
    traffic::{
        MAX_ORDERS, MAX_TRAFFIC_BODY_BYTES, OrderForm, ServiceReport, TrafficAnswer, TrafficRequest,
        VariationReport,
    },
};

/// The answer where nothing is asked.
const NOTHING: &[u8] = b"{}\n";

/// Between two looks for orders of a call that waits and is woken again and again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What an agent that leads a router says of that; it is answered what operators ask of it.
#[utoipa::path(post, path = "/traffic", operation_id = "report_traffic", tag = "child protocol",
    params(("wait" = Option<String>, Query, description = "Answer once what is said is stored, if it is news, or once \
        an order waits; else after this time: `30s`, `500ms`. Without it, at once.")),
    request_body(content = Object, description = "`id`, the `router` and how it is, all `services` that it leads, \
        `drifts` and `answers` to orders."),
    responses(
        (status = 200, description = "Stored. `orders`: what is asked of the router and not answered yet.",
            content_type = "application/json", body = Object),
        (status = 400, description = "Malformed.", content_type = "text/plain", body = String),
        (status = 404, description = "Not known here, or it doesn't say in its polls that it leads a router.",
            content_type = "text/plain", body = String),
        (status = 503, description = "A limit of what is kept is reached, or the store is away: later.",
            content_type = "text/plain", body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    Wait(wait): Wait,
    JsonCall(headers): JsonCall,
    body: Result<ChildBody<MAX_TRAFFIC_BODY_BYTES>, Refused>,
) -> Result<Response, Refused> {
    let body = body?;
    let request = TrafficRequest::parse(&body.bytes)?;
    check_token(&ctx, &headers, &request.id)?;
    let (served_ms, now) = (ctx.served_ms(), ctx.engine.clock().now());
    ctx.view().children.with(&request.id, |child| child.touch(served_ms));
    let id = request.id.to_string();
    let report = read(request, now)?;
    drop(body);
    Box::pin(take(&ctx, id, report, wait)).await
}

async fn take(
    ctx: &Context,
    id: String,
    report: Report,
    wait: Option<Duration>,
) -> Result<Response, Refused> {
    let command = traffic::Command::Report { child: id.clone(), report: Box::new(report) };
    let told = ctx.engine.call(Command::Traffic(command), By::CHILD, PATIENCE).await;
    let is_news = match told {
        Ok(Reply::Told { is_news }) => is_news,
        Ok(_) => return Err(engine::EngineError::Failed.into()),
        Err(error) => {
            note_unknown(ctx, "/traffic", &error);
            return Err(error.into());
        }
    };
    match wait.filter(|_| !is_news) {
        Some(wait) => written(&until_order(ctx, &id, wait).await?),
        None => written(&orders(ctx, &id).await?),
    }
}

fn written(answer: &TrafficAnswer) -> Result<Response, Refused> {
    if answer.orders.is_empty() {
        return Ok(json(NOTHING));
    }
    let mut text = serde_json::to_vec(answer).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written")
    })?;
    text.push(b'\n');
    Ok(json(text))
}

/// What waits for a router within the wait.
async fn until_order(ctx: &Context, id: &str, wait: Duration) -> Result<TrafficAnswer, Refused> {
    let Some(mut waiting) = WaitingCall::begin(ctx, id, wait) else { return orders(ctx, id).await };
    loop {
        let looked = Instant::now();
        let answer = orders(ctx, id).await?;
        if !answer.orders.is_empty() || !waiting.again().await? {
            return Ok(answer);
        }
        // Its other calls wake it as well.
        sleep_until(looked + LOOK_EVERY).await;
    }
}

/// What is asked of a router and not answered yet.
async fn orders(ctx: &Context, id: &str) -> Result<TrafficAnswer, Refused> {
    let (id, served_ms) = (id.to_owned(), ctx.engine.clock().now().served_ms);
    let read = move |state: &domain::release::state::Snapshot| {
        let router = state.traffic.get(state.children.key(&id)?)?;
        let open = router.orders.iter().filter(|order| order.state(served_ms) == OrderState::Open);
        let mut open: Vec<OrderForm> = open
            .map(|order| OrderForm {
                number: order.number,
                what: order.what,
                service: order.service.clone(),
                config: order.config.clone(),
                within_ms: order.until_ms.saturating_sub(served_ms),
            })
            .collect();
        open.sort_unstable_by_key(|order| order.number);
        open.truncate(MAX_ORDERS);
        Some(TrafficAnswer { orders: open })
    };
    Ok(ctx.engine.read(PATIENCE, read).await?.unwrap_or_default())
}

fn read(request: TrafficRequest<'_>, now: Now) -> Result<Report, Refused> {
    let TrafficRequest { id: _, router, services, untold, drifts, answers } = request;
    let told = RouterReport {
        kind: router.kind,
        version: router.version,
        phase: router.phase,
        trouble: router.trouble,
        is_reached: router.reached,
        repairs: router.repairs,
        ports: router.ports,
        takeover_trouble: router.takeover_trouble,
        untold,
    };
    let services = services.into_iter().map(|one| service(one, now)).collect::<Result<_, _>>()?;
    let drift = |one: protocol::traffic::DriftForm| ToldDrift {
        number: one.number,
        at_ms: ago(now, one.ago_ms),
        service: one.service,
        wanted: one.wanted,
        seen: one.seen,
        then: one.then,
    };
    let mut drifts: Vec<ToldDrift> = drifts.into_iter().map(drift).collect();
    drifts.sort_by_key(|drift| drift.number);
    let answer = |one: protocol::traffic::OrderAnswer| ToldOrder {
        number: one.number,
        is_ok: one.ok,
        text: one.text,
        left_over: one.left_over,
    };
    Ok(Report { told, services, drifts, answers: answers.into_iter().map(answer).collect() })
}

/// The wall time so many milliseconds ago.
fn ago(now: Now, ms: u64) -> i64 {
    now.wall_ms.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)).max(0)
}

fn service(told: ServiceReport, now: Now) -> Result<Service, Refused> {
    let variations = told.variations.into_iter().map(variation).collect::<Result<_, _>>()?;
    Ok(Service {
        epoch: told.epoch,
        generation: told.generation,
        offer: told.offer,
        is_standing: told.standing,
        led: Arc::new(told.led),
        seen_ms: told.seen_ago_ms.map(|ms| ago(now, ms)),
        measured_ms: told.measured_ms,
        ..Service::told(told.name, variations)
    })
}

fn variation(told: VariationReport) -> Result<Variation, Refused> {
    let histogram = match told.histogram {
        None => None,
        Some(HistogramForm::Sketch(sketch)) => Some(Arc::new(sketch)),
        Some(HistogramForm::Bounds(_)) => {
            return Err(Refused::bad(
                "`services.variations.histogram` has bounds of its own: logarithmic buckets are taken here",
            ));
        }
    };
    Ok(Variation {
        name: told.name,
        wanted: told.wanted,
        seen: told.seen,
        targets: told.targets,
        draining: told.draining.map(|left| u64::try_from(left).ok()),
        calls: told.calls,
        errors: told.errors,
        histogram,
    })
}
