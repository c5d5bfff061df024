//! Prometheus, and what speaks its API: range queries.

use std::{borrow::Cow, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::{Url, header};
use serde::Deserialize;

use super::{
    Ask, Point, Provider, ProviderError, Samples, Window, client::Caller, error::shown, range::longest_range,
};
use language::analysis::{Escape, providers::ProviderSettings};

/// How far from its place on the grid a point may be, for instants are sent as seconds with a fraction.
const INSTANT_SLACK_MS: i64 = 1;

/// Old versions send notes about a query among their warnings. They say nothing of the answer.
const NOTE: &str = "PromQL info";

#[derive(Debug)]
pub struct Prometheus {
    caller: Caller,
    url: Url,
}

impl Prometheus {
    pub fn new(settings: &ProviderSettings) -> Result<Self, String> {
        let url = format!("{}/api/v1/query_range", settings.url);
        let url = Url::parse(&url).map_err(|error| format!("its address: {error}"))?;
        Ok(Self { caller: Caller::new(settings)?, url })
    }

    /// Between two points: no data in common.
    pub fn step(&self, query: &str) -> Duration {
        longest_range(query).unwrap_or_default().max(self.caller.settings().step)
    }

    async fn range(&self, query: &str, window: Window) -> Result<Samples, ProviderError> {
        let step_ms = i64::try_from(self.step(query).as_millis()).unwrap_or(i64::MAX);
        let most = self.caller.settings().max_points;
        let points = u64::try_from(window.end_ms.saturating_sub(window.start_ms) / step_ms).unwrap_or(0);
        if points > most as u64 {
            return Err(ProviderError::TooManyPoints { points, most });
        }
        if points == 0 {
            return Ok(Samples::default());
        }
        // The last point lies on the grid, so that a later end doesn't move it.
        let grid = Grid { first_ms: window.start_ms + step_ms, step_ms, points };
        let body = self.caller.call(self.request(query, &grid)).await?;
        samples(&body, &grid)
    }

    /// A query can be too long for an address.
    fn request(&self, query: &str, grid: &Grid) -> reqwest::RequestBuilder {
        let timeout = seconds(i64::try_from(self.caller.settings().timeout.as_millis()).unwrap_or(i64::MAX));
        let mut form = self.url.clone();
        form.query_pairs_mut()
            .append_pair("query", query)
            .append_pair("start", &seconds(grid.first_ms))
            .append_pair("end", &seconds(grid.last_ms()))
            .append_pair("step", &seconds(grid.step_ms))
            .append_pair("timeout", &timeout);
        self.caller
            .client()
            .post(self.url.clone())
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(form.query().unwrap_or_default().to_owned())
    }
}

impl Provider for Prometheus {
    fn escape(&self) -> Escape {
        Escape::PromQl
    }

    fn fetch<'a>(&'a self, ask: Ask<'a>, window: Window) -> BoxFuture<'a, Result<Samples, ProviderError>> {
        self.range(ask.text, window).boxed()
    }
}

/// The instants that are asked for.
struct Grid {
    first_ms: i64,
    step_ms: i64,
    points: u64,
}

impl Grid {
    const fn last_ms(&self) -> i64 {
        self.first_ms + (self.points as i64 - 1) * self.step_ms
    }
}

/// Milliseconds as seconds with three decimals, exactly.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

#[derive(Deserialize)]
struct QueryAnswer<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default, borrow)]
    data: Option<Data<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    #[serde(borrow)]
    result_type: Cow<'a, str>,
    #[serde(borrow)]
    result: &'a serde_json::value::RawValue,
}

#[derive(Deserialize)]
struct Series<'a> {
    #[serde(default, borrow)]
    values: Vec<(f64, Cow<'a, str>)>,
    #[serde(default)]
    histograms: Vec<serde::de::IgnoredAny>,
}

fn samples(body: &[u8], grid: &Grid) -> Result<Samples, ProviderError> {
    let nonsense = |error: serde_json::Error| ProviderError::Nonsense(shown(&error.to_string()));
    let answer: QueryAnswer<'_> = serde_json::from_slice(body).map_err(nonsense)?;
    let warnings: Vec<&String> = answer.warnings.iter().filter(|text| !text.starts_with(NOTE)).collect();
    if let Some(warning) = warnings.first() {
        return Err(ProviderError::Partial(shown(warning)));
    }
    let data = match (answer.status.as_ref(), answer.data) {
        ("success", Some(data)) => data,
        (status, _) => {
            let text = answer.error.unwrap_or_else(|| format!("status {status:?} without data"));
            return Err(ProviderError::Nonsense(shown(&text)));
        }
    };
    if data.result_type != "matrix" {
        return Err(ProviderError::WrongKind(format!("a {}", shown(&data.result_type))));
    }
    let series: Vec<Series<'_>> = serde_json::from_str(data.result.get()).map_err(nonsense)?;
    let lone = match &series[..] {
        [] => return Ok(Samples { gaps: grid.points, ..Samples::default() }),
        [lone] if !lone.histograms.is_empty() => {
            return Err(ProviderError::WrongKind("histograms".to_owned()));
        }
        [lone] => lone,
        several => return Err(ProviderError::SeveralSeries(several.len())),
    };
    points(lone, grid)
}

fn points(series: &Series<'_>, grid: &Grid) -> Result<Samples, ProviderError> {
    let mut found = Samples::default();
    let mut last = -1;
    for (at, text) in &series.values {
        let at_ms = (at * 1000.0).round() as i64;
        let since = at_ms.saturating_sub(grid.first_ms);
        let place = since.saturating_add(INSTANT_SLACK_MS).div_euclid(grid.step_ms);
        let off = since.saturating_sub(place.saturating_mul(grid.step_ms)).saturating_abs();
        let asked = place > last && place < grid.points as i64 && off <= INSTANT_SLACK_MS;
        if !asked {
            return Err(ProviderError::Nonsense(format!("a point at {at:?}, which wasn't asked for")));
        }
        last = place;
        match text.parse::<f64>() {
            Err(_) => return Err(ProviderError::NotANumber(shown(&format!("{text:?}")))),
            Ok(value) if value.is_nan() => found.nan += 1,
            Ok(value) if value.is_infinite() => return Err(ProviderError::Infinite),
            Ok(value) => found.points.push(Point { at_ms, value }),
        }
    }
    found.gaps = grid.points - series.values.len() as u64;
    Ok(found)
}
