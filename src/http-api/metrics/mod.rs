//! `GET /metrics`: what one watches, and what one alerts on, for Prometheus.
//!
//! Labels are ids of releases that are not over and names of states; nothing grows with the number of children or
//! with the age of the store.

mod scan;
mod text;
mod traffic;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    scan::ReleaseNumbers,
    text::{MetricKind, MetricsText},
};
use super::{Context, problem::Problem};
use domain::release::state::ReleaseState;
use engine::{
    EngineError,
    stats::{COMMIT_BOUNDS_US, Stats},
};

/// A child that has not called for this long counts as silent.
const SILENT_MS: u64 = 5 * 60 * 1_000;

/// The media type of the text form.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub fn router() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(handle))
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "watching",
    responses((status = 200, description = "Its text form, 0.0.4.", content_type = "text/plain", body = String)))]
async fn handle(State(ctx): State<Context>) -> Result<Response, Problem> {
    // While the store does not answer, neither does the engine: then what is counted on the way is all there is,
    // and it is what one wants to see.
    let releases = scan::releases(&ctx).await.ok();
    let engine = ctx.engine.clone();
    let served_ms = ctx.served_ms();
    // A walk over all children, which with a million of them takes a while.
    let silent = tokio::task::spawn_blocking(move || engine.view().children.silent(served_ms, SILENT_MS));
    let silent = silent.await.map_err(|error| {
        tracing::error!(%error, "silent children could not be counted");
        EngineError::Failed
    })?;
    let mut text = MetricsText::default();
    calls(&mut text, &ctx.view().stats);
    commits(&mut text, &ctx.view().stats);
    unreadable(&mut text, &ctx.view().stats);
    manager(&mut text, &ctx, silent, releases.is_some());
    parent(&mut text, &ctx);
    mirror(&mut text, &ctx);
    applications(&mut text, &ctx);
    by_release(&mut text, &releases.unwrap_or_default());
    traffic::write(&mut text, &traffic::scan(&ctx).await.unwrap_or_default());
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text.finish()).into_response())
}

fn calls(text: &mut MetricsText, stats: &Stats) {
    for (name, help, counter) in [
        ("polls_total", "Polls of children.", &stats.polls),
        (
            "polls_by_engine_total",
            "Polls that the engine had to answer; the rest came from memory.",
            &stats.polls_by_engine,
        ),
        ("fetches_total", "Downloads of offers.", &stats.fetches),
        ("results_total", "Results that children sent.", &stats.results),
        ("end_stages_total", "Questions whether a stage may end.", &stats.end_stages),
        ("commands_total", "Commands that the engine decided.", &stats.commands),
        ("lost_results_total", "Results that never came although their child goes on.", &stats.lost_results),
        ("late_results_total", "Results that came too late to count.", &stats.late_results),
        ("recalls_total", "Releases that were over and were read back whole.", &stats.recalls),
    ] {
        text.single(name, MetricKind::Counter, help, Stats::get(counter));
    }
}

fn commits(text: &mut MetricsText, stats: &Stats) {
    text.single("commits_total", MetricKind::Counter, "Commits to the store.", Stats::get(&stats.commits));
    let retries = Stats::get(&stats.commit_retries);
    text.single("commit_retries_total", MetricKind::Counter, "Commits that had to be tried again.", retries);
    let help = "Time of a commit, tries included, in seconds.";
    let mut family = text.family("commit_seconds", MetricKind::Histogram, help);
    let mut below = 0;
    for (bound, bucket) in COMMIT_BOUNDS_US.iter().zip(&stats.commit_buckets) {
        below += Stats::get(bucket);
        family.sample("_bucket", &[("le", &seconds(*bound).to_string())], below);
    }
    // Summed, so that the last bucket and the count agree although commits go on meanwhile.
    let all = below + stats.commit_buckets.last().map_or(0, Stats::get);
    family.sample("_bucket", &[("le", "+Inf")], all);
    family.sample("_sum", &[], seconds(Stats::get(&stats.commit_us)));
    family.sample("_count", &[], all);
}

fn unreadable(text: &mut MetricsText, stats: &Stats) {
    let help =
        "Rows met in the store that can't be read, by table; nothing is decided as if they were not there.";
    let mut family = text.family("unreadable_total", MetricKind::Counter, help);
    for (table, count) in stats.unreadable.counts() {
        family.sample("", &[("what", table)], count);
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1_000_000.0
}

fn manager(text: &mut MetricsText, ctx: &Context, silent: usize, answers: bool) {
    let view = ctx.view();
    let lease_s = ctx.engine.clock().lease_left().as_secs_f64();
    let gauges: [(&str, &str, f64); 8] = [
        (
            "engine_up",
            "0 while the engine does not answer; then there are no numbers of releases.",
            f64::from(u8::from(answers)),
        ),
        ("backlog", "Commands that wait for the engine.", ctx.engine.backlog() as f64),
        ("children", "Children that are known.", view.children.count() as f64),
        ("silent_children", "Children that have not called for 5 minutes.", silent as f64),
        ("lease_seconds", "Time left in which the manager may answer without renewing its lease.", lease_s),
        ("draining", "1 while the manager is stopping.", f64::from(u8::from(view.is_draining()))),
        ("waiters", "Calls of children that wait for something new.", view.waiters.count() as f64),
        ("unknown_callers", "Ids that called without being known.", view.unknown_callers.all().len() as f64),
    ];
    for (name, help, value) in gauges {
        text.single(name, MetricKind::Gauge, help, value);
    }
    text.single(
        "releases_known",
        MetricKind::Gauge,
        "Releases that the store knows.",
        view.releases.known_count(),
    );
    let served = seconds(ctx.served_ms().saturating_mul(1_000));
    text.single(
        "served_seconds_total",
        MetricKind::Counter,
        "Time that managers have served on this store.",
        served,
    );
    let help = "Always 1; the version is a label.";
    let mut family = text.family("build_info", MetricKind::Gauge, help);
    family.sample("", &[("version", env!("CARGO_PKG_VERSION"))], 1);
}

/// How the link to the parent stands; nothing where there is none.
fn parent(text: &mut MetricsText, ctx: &Context) {
    let Some(link) = ctx.view().lineage.link.look(ctx.served_ms()) else { return };
    let up = u8::from(link.is_up);
    text.single("parent_up", MetricKind::Gauge, "1 while the parent answers polls.", up);
    if let Some(silent_ms) = link.silent_ms {
        let help =
            "Seconds since the parent last answered a poll; with long polls up to half a minute is usual.";
        text.single("parent_silent_seconds", MetricKind::Gauge, help, silent_ms as f64 / 1_000.0);
    }
    let help = "Results that the parent has not answered yet.";
    text.single("parent_unsent_results", MetricKind::Gauge, help, link.unsent);
}

fn mirror(text: &mut MetricsText, ctx: &Context) {
    let Some(is_up) = ctx.view().changed.is_copied() else { return };
    let help = "1 while nodes and workflows are mirrored.";
    text.single("mirror_up", MetricKind::Gauge, help, u8::from(is_up));
}

/// What functions of workflows told collectors of metrics; nothing where nothing was told.
fn applications(text: &mut MetricsText, ctx: &Context) {
    let all = ctx.view().measurements.totals(ctx.engine.clock().now().wall_ms);
    if all.is_empty() {
        return;
    }
    let help = "What functions of workflows measured between a begin and an end.";
    let mut family = text.family("application_seconds", MetricKind::Summary, help);
    for (subject, totals) in &all {
        let (of, name) = subject.names();
        let labels = [("of", of), ("name", name)];
        family.sample("_sum", &labels, totals.sum_ms as f64 / 1_000.0);
        family.sample("_count", &labels, totals.count);
    }
    let help = "The same as an average in which the newest sample weighs most.";
    let mut family = text.family("application_average_seconds", MetricKind::Gauge, help);
    for (subject, totals) in &all {
        let (of, name) = subject.names();
        family.sample("", &[("of", of), ("name", name)], totals.average_ms / 1_000.0);
    }
}

/// What a number says of a release.
type Number = fn(&ReleaseNumbers) -> u32;

fn by_release(text: &mut MetricsText, releases: &[ReleaseNumbers]) {
    let mut family = text.family("releases", MetricKind::Gauge, "Releases in memory, by state.");
    for state in ReleaseState::NAMES {
        let count = releases.iter().filter(|release| release.state == state).count();
        family.sample("", &[("state", state)], count);
    }
    let help = "Children of an unfinished release, by status.";
    let mut family = text.family("release_children", MetricKind::Gauge, help);
    for release in releases.iter().filter(|release| !release.is_over) {
        let counts = &release.counts;
        for (status, count) in [
            ("No", counts.no),
            ("Todo", counts.todo),
            ("Doing", counts.doing),
            ("Done", counts.done),
            ("Failed", counts.failed),
        ] {
            family.sample("", &[("release", &release.id), ("status", status)], count);
        }
    }
    let numbers: [(&str, &str, Number); 4] = [
        ("offers_not_fetched", "Offers that were not fetched for 5 minutes.", |release| release.not_fetched),
        (
            "stuck_stages",
            "Children whose stage runs for an hour, or for half its deadline if that is less.",
            |release| release.stuck,
        ),
        ("undos_pending", "Undos that are not confirmed.", |release| release.counts.undoing),
        ("undos_overdue", "Undos that the release waits for no longer.", |release| {
            release.counts.undo_overdue
        }),
    ];
    for (name, help, number) in numbers {
        let mut family = text.family(name, MetricKind::Gauge, help);
        for release in releases {
            family.sample("", &[("release", &release.id)], number(release));
        }
    }
}
