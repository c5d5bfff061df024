//! The yardstick: the least that an axum program can do that parses the same bodies and gives the same answers.
//!
//! `axum::serve` as it comes, plain typed structs, no state but what is answered.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, Query, State},
    http::header,
    response::IntoResponse,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// What is answered.
#[derive(Debug)]
pub struct Answers {
    pub offer: Bytes,
    pub archive: Bytes,
}

/// Fields are parsed, though nobody reads them: that is what the yardstick does.
#[derive(Deserialize)]
#[expect(dead_code, reason = "they are there to be parsed")]
struct Polygon {
    r#type: String,
    coordinates: Vec<Vec<[f64; 2]>>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they are there to be parsed")]
struct Poll {
    id: String,
    geographic_area: Polygon,
    number_of_children: u32,
}

#[derive(Serialize)]
struct PollAnswer {
    id: String,
    new_release: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they are there to be parsed")]
struct EndStage {
    id: String,
    strategy_id: String,
    stage_name: String,
}

#[derive(Serialize)]
struct EndStageAnswer {
    end_stage: bool,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they are there to be parsed")]
struct Fetch {
    #[serde(rename = "childID")]
    child: String,
    #[serde(rename = "releaseID")]
    release: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they are there to be parsed")]
struct Times {
    median: f64,
    minimum: f64,
    maximum: f64,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they are there to be parsed")]
struct Summary {
    stage_name: String,
    proxy_times: Times,
    #[serde(rename = "f1_times_summary")]
    f1_times: Times,
    #[serde(rename = "f2_times_summary")]
    f2_times: Times,
    f1_err_rate: f64,
    f2_err_rate: f64,
    status: u8,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "they are there to be parsed")]
struct Report {
    id: String,
    release_id: String,
    stage_summaries: Vec<Summary>,
    next_stage: String,
}

async fn poll(Json(poll): Json<Poll>) -> Json<PollAnswer> {
    Json(PollAnswer { id: poll.id, new_release: String::new() })
}

async fn end_stage(Json(_): Json<EndStage>) -> Json<EndStageAnswer> {
    Json(EndStageAnswer { end_stage: false })
}

async fn release(State(answers): State<Arc<Answers>>, Query(_): Query<Fetch>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/x-yaml")], answers.offer.clone())
}

async fn functions(State(answers): State<Arc<Answers>>, Path(_): Path<String>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/zip")], answers.archive.clone())
}

async fn result(Json(_): Json<Report>) {}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, answers: Answers) -> anyhow::Result<()> {
    let router = Router::new()
        .route("/poll", post(poll))
        .route("/end_stage", post(end_stage))
        .route("/release", get(release))
        .route("/release/functions/{offer}", get(functions))
        .route("/result", post(result))
        .with_state(Arc::new(answers));
    axum::serve(listener, router).await?;
    Ok(())
}
