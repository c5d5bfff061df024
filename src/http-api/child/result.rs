//! `POST /result`.

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{
    body::ChildBody,
    caller::{JsonCall, check_token},
    refused::Refused,
    reply::note_unknown,
};
use crate::{Context, context::PATIENCE};
use domain::release::{
    command::Command,
    ending::{Cause, Ending},
    manager::Agents,
    members, summary,
};
use engine::{By, json_columns, stats::Stats};
use model::StageStatus;
use protocol::{
    HistogramForm, ResultRequest, StageSummary, StratumForm, TimesForm, VariationForm, VariationStratumForm,
    child::{MAX_RESULT_BODY_BYTES, Why},
};

/// What a child reports of its stages. Answered once it is stored.
///
/// Newer children report a stage while it goes on, too (`InProgress`): their numbers so far. They are told the manager's
/// time, by which they number the intervals of what they measure.
#[utoipa::path(post, path = "/result", operation_id = "report", tag = "child protocol",
    request_body(content = Object, description = "`id`, `release_id`, `stage_summaries`, `next_stage`."),
    responses(
        (status = 200, description = "It is stored, or it was already. `time_ms` to who reports a stage that goes on.",
            content_type = "application/json", body = Object),
        (status = 400, description = "Malformed, or no summaries.", content_type = "text/plain", body = String),
        (status = 404, description = "Unknown child.", content_type = "text/plain", body = String),
        (status = 409, description = "A stage is unknown, has not started, or has ended otherwise.",
            content_type = "text/plain", body = String),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    JsonCall(headers): JsonCall,
    body: Result<ChildBody<MAX_RESULT_BODY_BYTES>, Refused>,
) -> Result<Response, Refused> {
    let body = body?;
    let request = ResultRequest::parse(&body.bytes)?;
    check_token(&ctx, &headers, &request.id)?;
    Stats::count(&ctx.view().stats.results);
    let served_ms = ctx.served_ms();
    ctx.view().children.with(&request.id, |child| child.touch(served_ms));
    let goes_on = request.stage_summaries.iter().any(|summary| summary.status == StageStatus::InProgress);
    let next: Vec<Option<String>> =
        (0..request.stage_summaries.len()).map(|index| request.says_next(index).map(str::to_owned)).collect();
    let reports = request.stage_summaries.into_iter().zip(next);
    let reports =
        reports.map(|(sent, next)| json_columns::received(read(sent, next))).collect::<Result<_, _>>();
    let reports = reports.map_err(|error| {
        tracing::error!(%error, child = %request.id, "a result could not be written");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the result could not be written")
    })?;
    let command = Command::Members(members::Command::Result {
        child: request.id.into_owned(),
        offer: ctx.view().releases.own_id(&request.release_id).into_owned(),
        reports,
    });
    if let Err(error) = ctx.engine.call(command, By::CHILD, PATIENCE).await {
        note_unknown(&ctx, "/result", &error);
        return Err(error.into());
    }
    // A deployed agent reports nothing that goes on, and is told nothing but that it was stored.
    if goes_on {
        return Ok(Json(ctx.manager_time()).into_response());
    }
    let mut response = Response::default();
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    Ok(response)
}

pub fn read(sent: StageSummary, says_next: Option<String>) -> summary::Summary {
    summary::Summary {
        says_next,
        agents: agents(&sent),
        recount: sent.recount,
        failures: sent.failures,
        why: sent.why.map(|why| Box::new(ending(why))),
        stage_name: sent.stage_name.filter(|name| !name.is_empty()),
        status: sent.status,
        proxy_times: times(sent.proxy_times),
        f1_times_summary: times(sent.f1_times),
        f2_times_summary: times(sent.f2_times),
        f1_err_rate: sent.f1_err_rate,
        f2_err_rate: sent.f2_err_rate,
        f1_calls: sent.f1_calls,
        f2_calls: sent.f2_calls,
        f1_errors: sent.f1_errors,
        f2_errors: sent.f2_errors,
        f1_histogram: sent.f1_histogram.map(|sent| Box::new(histogram(sent))),
        f2_histogram: sent.f2_histogram.map(|sent| Box::new(histogram(sent))),
        f1_values: sent.f1_values,
        f2_values: sent.f2_values,
        assignment: sent.assignment.unwrap_or_default(),
        strata: sent.strata.into_iter().map(stratum).collect(),
        variations: sent.variations.into_iter().map(variation).collect(),
        effects: sent.effects,
    }
}

/// `None` if nothing is said of them.
fn agents(sent: &StageSummary) -> Option<Agents> {
    let numbers = [
        sent.participants,
        sent.succeeded,
        sent.failed,
        sent.timed_out,
        sent.unreachable,
        sent.untested,
        sent.unconfirmed,
    ];
    if numbers == [None; 7] {
        return None;
    }
    let [participants, succeeded, failed, timed_out, unreachable, untested, unconfirmed] =
        numbers.map(Option::unwrap_or_default);
    Some(Agents { participants, succeeded, failed, timed_out, unreachable, untested, unconfirmed })
}

fn times(sent: TimesForm) -> summary::Times {
    summary::Times { median: sent.median, minimum: sent.minimum, maximum: sent.maximum }
}

fn histogram(sent: HistogramForm) -> summary::Reported {
    match sent {
        HistogramForm::Sketch(sketch) => summary::Reported::Sketch(sketch),
        HistogramForm::Bounds(sent) => {
            summary::Reported::Bounds(summary::Histogram { bounds_ms: sent.bounds_ms, counts: sent.counts })
        }
    }
}

fn variation(sent: VariationForm) -> summary::Variation {
    let stratum = |VariationStratumForm { interval, group, calls, errors }| summary::VariationStratum {
        interval,
        group,
        calls,
        errors,
    };
    summary::Variation {
        name: sent.name,
        calls: sent.calls,
        errors: sent.errors,
        histogram: sent.histogram.map(|sent| Box::new(histogram(sent))),
        strata: sent.strata.into_iter().map(stratum).collect(),
    }
}

fn stratum(sent: StratumForm) -> summary::Stratum {
    summary::Stratum {
        split: sent.split,
        interval: sent.interval,
        assignment: sent.assignment,
        group: sent.group,
        class: sent.class,
        f1_calls: sent.f1_calls,
        f2_calls: sent.f2_calls,
        f1_errors: sent.f1_errors,
        f2_errors: sent.f2_errors,
        f1_histogram: sent.f1_histogram.map(|sent| Box::new(histogram(sent))),
        f2_histogram: sent.f2_histogram.map(|sent| Box::new(histogram(sent))),
        f1_values: sent.f1_values,
        f2_values: sent.f2_values,
    }
}

/// A cause of which nothing is known here is still a cause.
fn ending(sent: Why) -> Ending {
    let cause = Cause::named(&sent.cause).unwrap_or(Cause::Children);
    let Why { text, child, stage, version, numbers, by, note, .. } = sent;
    Ending { cause, text, child, stage, version, numbers, by, note }
}
