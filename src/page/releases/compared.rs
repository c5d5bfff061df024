//! The base version and the new one side by side, drawn: where their values lie or how many of their calls count, and how
//! far apart they are for certain. Shapes tell them apart and not colours alone: the base version is a ring on a dashed
//! line, the new one a diamond on a full one.

use maud::{Markup, html};
use serde::Deserialize;

use crate::text::{self, compared as words};
use protocol::api::{MetricLimits, MetricOverview};

/// What of the evidence is drawn.
#[derive(Debug, Deserialize)]
struct Evidence {
    baseline: Side,
    canary: Side,
    #[serde(default)]
    effect: Option<Effect>,
}

/// What was measured of a version.
#[derive(Debug, Deserialize)]
struct Side {
    count: u64,
    mean: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    events: Option<u64>,
    rate: Option<f64>,
}

/// Reads one of its numbers.
type Read = fn(&Side) -> Option<f64>;

/// How far the new version is from the other.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Effect {
    estimate: f64,
    low: Option<f64>,
    high: Option<f64>,
    confidence: f64,
    relative: bool,
}

impl Effect {
    /// Where both are the same.
    const fn same(&self) -> f64 {
        if self.relative { 1.0 } else { 0.0 }
    }
}

/// Width of a drawing, and of the margin on each of its sides.
const WIDE: f64 = 400.0;
const MARGIN: f64 = 16.0;

/// From values to places in a drawing.
#[derive(Debug, Clone, Copy)]
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    /// One on which all of these have a place; `None` where there is none.
    fn over(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let (from, to) = finite
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), value| (from.min(value), to.max(value)));
        if from > to {
            return None;
        }
        // What is a single value stands in the middle. Ends so far apart that the width is none are no scale.
        let room = if to > from { (to - from) * 0.05 } else { to.abs().max(1.0) * 0.1 };
        let scale = Self { from: from - room, to: to + room };
        (scale.to - scale.from).is_finite().then_some(scale)
    }

    fn at(self, value: f64) -> f64 {
        let part = (value - self.from) / (self.to - self.from);
        MARGIN + part.clamp(0.0, 1.0) * (WIDE - 2.0 * MARGIN)
    }
}

/// A number of the evidence: exact for machines, in four digits for people.
fn number(value: f64) -> Markup {
    html! { data value=(value) { (text::figures(value)) } }
}

fn maybe(value: Option<f64>) -> Markup {
    html! { @if let Some(value) = value { (number(value)) } @else { "–" } }
}

/// What a metric's evidence looks like, or why there is nothing to be seen.
pub fn drawn(metric: &MetricOverview) -> Markup {
    let read = metric.evidence.as_ref().map(Evidence::deserialize);
    match read {
        Some(Ok(evidence)) if evidence.baseline.count + evidence.canary.count == 0 => {
            html! { p.hint { (text::COMPARED_NO_CALLS) } }
        }
        Some(Ok(evidence)) => both(metric, &evidence),
        Some(Err(error)) => {
            tracing::error!(%error, metric = metric.name, "evidence could not be drawn");
            html! { p.hint { (text::COMPARED_UNREADABLE) } }
        }
        None if metric.strategy == "THRESHOLD" => html! { p.hint { (text::COMPARED_WITH_LIMITS) } },
        None => html! { p.hint { (text::COMPARED_NOT_YET) } },
    }
}

fn both(metric: &MetricOverview, evidence: &Evidence) -> Markup {
    let Evidence { baseline, canary, effect } = evidence;
    let limits = metric.limits.as_ref();
    html! {
        figure.compared {
            @if baseline.rate.is_some() || canary.rate.is_some() { (rates(baseline, canary)) }
            @else if let Some(scale) = spread(baseline, canary) { (quantiles(scale, baseline, canary)) p.hint { (text::COMPARED_QUANTILES) } }
            @if let Some(effect) = effect { (interval(effect, limits)) }
            @else { p.hint { (text::COMPARED_NO_ESTIMATE) } }
            (table(metric, evidence))
        }
    }
}

fn places(side: &Side) -> [Option<f64>; 3] {
    [side.p50, side.p95, side.p99]
}

fn spread(base: &Side, new: &Side) -> Option<Scale> {
    Scale::over(places(base).into_iter().chain(places(new)).flatten())
}

/// What is said of a version's quantiles.
fn said(name: &str, side: &Side) -> String {
    let [p50, p95, p99] = places(side).map(|value| value.map_or_else(|| "–".to_owned(), text::figures));
    words::quantiles(name, &calls(side.count), [&p50, &p95, &p99])
}

fn calls(count: u64) -> String {
    words::values(count)
}

fn quantiles(scale: Scale, base: &Side, new: &Side) -> Markup {
    let words = format!("{}. {}.", said(text::BASE, base), said(text::NEW, new));
    html! {
        svg.drawn viewBox="0 0 400 76" role="img" aria-label=(words) {
            (row(scale, base, text::BASE, "base", 26.0))
            (row(scale, new, text::NEW, "new", 62.0))
        }
    }
}

/// From the median, which is marked, over the 95th percentile, where a box ends, to the 99th, where the line does.
fn row(scale: Scale, side: &Side, name: &str, class: &str, y: f64) -> Markup {
    let [p50, p95, p99] = places(side).map(|value| value.filter(|value| value.is_finite()));
    let at = |value: f64| format!("{:.2}", scale.at(value));
    html! {
        g class=(class) {
            text x=(MARGIN) y=(y - 14.0) { (name) @if side.count == 0 { ": " (text::NO_VALUES) } }
            @if let (Some(p50), Some(p99)) = (p50, p99) {
                line x1=(at(p50)) x2=(at(p99)) y1=(y) y2=(y) {}
                line.end x1=(at(p99)) x2=(at(p99)) y1=(y - 5.0) y2=(y + 5.0) {}
            }
            @if let (Some(p50), Some(p95)) = (p50, p95) {
                @let wide = (scale.at(p95) - scale.at(p50)).max(0.0);
                rect x=(at(p50)) y=(y - 5.0) width=(format!("{wide:.2}")) height="10" {}
            }
            @if let Some(p50) = p50 { (mark(class, scale.at(p50), y)) }
        }
    }
}

/// A ring for the base version, a diamond for the new one.
fn mark(class: &str, x: f64, y: f64) -> Markup {
    html! {
        @if class == "base" { circle.mark cx=(format!("{x:.2}")) cy=(y) r="5" {} }
        @else { path.mark d=(format!("M{x:.2} {:.2}l6 6l-6 6l-6-6z", y - 6.0)) {} }
    }
}

/// Two shares of calls as bars from 0 to the larger of them.
fn rates(base: &Side, new: &Side) -> Markup {
    let share = |name: &str, side: &Side| match (side.events, side.rate) {
        (Some(events), Some(rate)) => format!(
            "{name}: {} of {}, {}",
            text::grouped(events),
            words::calls(side.count),
            text::percent(rate)
        ),
        (None | Some(_), None) | (None, Some(_)) => format!("{name}: {}", text::NO_VALUES),
    };
    let most = base.rate.unwrap_or_default().max(new.rate.unwrap_or_default()).max(f64::MIN_POSITIVE);
    let rows = [(base, text::BASE, "base", 22.0), (new, text::NEW, "new", 58.0)];
    let words = format!("{}. {}.", share(text::BASE, base), share(text::NEW, new));
    html! {
        svg.drawn viewBox="0 0 400 76" role="img" aria-label=(words) {
            @for (side, name, class, y) in rows {
                @let wide = side.rate.unwrap_or_default() / most * (WIDE - 2.0 * MARGIN);
                g class=(class) {
                    text x=(MARGIN) y=(y - 8.0) { (share(name, side)) }
                    line.end x1=(MARGIN) x2=(MARGIN) y1=(y - 3.0) y2=(y + 13.0) {}
                    rect x=(MARGIN) y=(y) width=(format!("{wide:.2}")) height="10" {}
                }
            }
        }
    }
}

/// How the new version compares, in a sentence.
fn compares(effect: &Effect, limits: Option<&MetricLimits>) -> String {
    let end = |value: Option<f64>| value.map_or_else(|| text::UNBOUNDED.to_owned(), text::figures);
    let what = if effect.relative { text::AS_RATIO } else { text::AS_DIFFERENCE };
    let borne = ends(limits).map(|(word, value)| words::bears(word, &text::figures(value)));
    format!(
        "{what}: {}, between {} and {} with a confidence of {}{}.",
        text::figures(effect.estimate),
        end(effect.low),
        end(effect.high),
        text::percent(effect.confidence),
        borne.collect::<String>()
    )
}

/// The ends of what the strategy bears.
fn ends(limits: Option<&MetricLimits>) -> impl Iterator<Item = (&'static str, f64)> {
    let of = |end: fn(&MetricLimits) -> Option<f64>| limits.and_then(end);
    let least = of(|limits| limits.at_least).map(|value| (words::BEARS_AT_LEAST, value));
    let most = of(|limits| limits.at_most).map(|value| (words::BEARS_AT_MOST, value));
    least.into_iter().chain(most)
}

fn interval(effect: &Effect, limits: Option<&MetricLimits>) -> Markup {
    let words = compares(effect, limits);
    let known = [Some(effect.estimate), effect.low, effect.high, Some(effect.same())];
    let borne = || ends(limits).map(|(_, value)| value);
    let scale = Scale::over(known.into_iter().flatten().chain(borne()));
    html! {
        @if let Some(scale) = scale {
            @let x = |value: f64| format!("{:.2}", scale.at(value));
            svg.drawn viewBox="0 0 400 44" role="img" aria-label=(words) {
                line.same x1=(x(effect.same())) x2=(x(effect.same())) y1="4" y2="40" {}
                @for value in borne() { line.limit x1=(x(value)) x2=(x(value)) y1="4" y2="40" {} }
                g.new {
                    (reach(effect.low.map(|low| scale.at(low)), MARGIN, -1.0))
                    (reach(effect.high.map(|high| scale.at(high)), WIDE - MARGIN, 1.0))
                    line x1=(x(effect.low.unwrap_or(scale.from))) x2=(x(effect.high.unwrap_or(scale.to))) y1="22" y2="22" {}
                    (mark("new", scale.at(effect.estimate), 22.0))
                }
            }
        }
        figcaption { (words) " " span.hint { (text::COMPARED_KEY) } }
    }
}

/// One end of an interval: a stroke, or an arrow where the data don't bound it.
fn reach(end: Option<f64>, edge: f64, way: f64) -> Markup {
    html! {
        @if let Some(x) = end { line.end x1=(format!("{x:.2}")) x2=(format!("{x:.2}")) y1="15" y2="29" {} }
        @else { path.mark d=(format!("M{edge:.2} 15l{:.2} 7l{:.2} 7z", 10.0 * way, -10.0 * way)) {} }
    }
}

/// The same numbers in a table.
fn table(metric: &MetricOverview, evidence: &Evidence) -> Markup {
    let Evidence { baseline: base, canary: new, effect } = evidence;
    let rows: [(&str, &str, Read); 5] = [
        ("mean", words::MEAN, |side| side.mean),
        ("p50", words::MEDIAN, |side| side.p50),
        ("p95", words::P95, |side| side.p95),
        ("p99", words::P99, |side| side.p99),
        ("rate", words::RATE, |side| side.rate),
    ];
    let known = |of: Read| of(base).is_some() || of(new).is_some();
    html! {
        details {
            summary { (text::COMPARED_TABLE) }
            div.wide tabindex="0" role="group" aria-label=(text::COMPARED_TABLE) {
                table {
                    thead { tr { th scope="col" { (text::COMPARED_WHAT) } th scope="col" { (text::BASE) } th scope="col" { (text::NEW) } } }
                    tbody {
                        tr { th scope="row" { (words::VALUES) } td data-field="base.count" { (whole(Some(base.count))) } td data-field="new.count" { (whole(Some(new.count))) } }
                        @if base.events.is_some() || new.events.is_some() {
                            tr { th scope="row" { (words::COUNTED) } td data-field="base.events" { (whole(base.events)) } td data-field="new.events" { (whole(new.events)) } }
                        }
                        @for (key, name, of) in rows { @if known(of) {
                            tr { th scope="row" { (name) } td data-field={ "base." (key) } { (maybe(of(base))) } td data-field={ "new." (key) } { (maybe(of(new))) } }
                        } }
                    }
                }
            }
            dl.evidence {
                @if let Some(effect) = effect {
                    div { dt { (words::ESTIMATE) } dd data-field="estimate" { (number(effect.estimate)) } }
                    div { dt { (words::LOWER) } dd data-field="low" { (maybe(effect.low)) } }
                    div { dt { (words::UPPER) } dd data-field="high" { (maybe(effect.high)) } }
                }
                @if let Some(limits) = &metric.limits {
                    div { dt { (words::AT_LEAST) } dd data-field="at_least" { (maybe(limits.at_least)) } }
                    div { dt { (words::AT_MOST) } dd data-field="at_most" { (maybe(limits.at_most)) } }
                    @if let Some(floor) = limits.floor { div { dt { (words::FLOOR) } dd data-field="floor" { (number(floor)) } } }
                }
            }
        }
    }
}

fn whole(value: Option<u64>) -> Markup {
    html! { @if let Some(value) = value { data value=(value) { (text::grouped(value)) } } @else { "–" } }
}
