//! What it takes to judge a release, for people.

use super::show;
use analysis::thousands;
use protocol::api::{Plan, PlannedCondition, PlannedMetric, PlannedPoint};

/// The columns of [`row`].
pub const HEAD: [&str; 4] = ["CALLS", "LASTS", "EQUAL VERSIONS PASS", "FOUND 4 TIMES OF 5"];

/// What a number of calls is good for; `unit` is that of differences.
pub fn row(point: &PlannedPoint, relative: bool, unit: &str) -> Vec<String> {
    vec![
        point.calls.map_or_else(|| "never".to_owned(), thousands),
        point.seconds.map_or_else(|| "-".to_owned(), lasts),
        percent(point.passes),
        match point.calls {
            Some(_) => change(point.smallest_change, relative, unit),
            None => "-".to_owned(),
        },
    ]
}

/// The part of a plan that says what it takes; empty if nothing is judged.
pub fn of(plan: &Plan) -> String {
    let mut text = String::new();
    let metrics = plan.takes.iter().flat_map(metric).collect::<Vec<_>>();
    if !metrics.is_empty() {
        let head = ["TO JUDGE", "METRIC"].into_iter().chain(HEAD).chain(["BY"]).collect::<Vec<_>>();
        text.extend(["\n".to_owned(), show::table(&head, metrics)]);
    }
    let reporting = plan.takes.iter().filter_map(|found| {
        let what = found.stage.as_ref().map_or("the release".to_owned(), |stage| format!("stage {stage}"));
        Some(format!("  {what}, {}: {}\n", found.metric, found.reporting.as_ref()?))
    });
    text.extend(reporting.map(|line| format!("{}\n", show::one_line(line.trim_end()))));
    let warnings = plan.takes.iter().filter_map(|found| {
        let what = found.stage.as_ref().map_or("the release".to_owned(), |stage| format!("stage {stage}"));
        let unknown = found.unknown.as_ref().map(|why| format!("nothing can be said beforehand: {why}"));
        Some(format!("  {what}, {}: {}\n", found.metric, found.warning.clone().or(unknown)?))
    });
    text.extend(warnings.map(|line| format!("{}\n", show::one_line(line.trim_end()))));
    if !plan.conditions.is_empty() {
        let rows = plan.conditions.iter().map(condition);
        let head = ["STAGE", "CONDITION", "CALLS", "FAILS BY CHANCE", "UNTESTED", "ENOUGH CALLS", "BY"];
        text.extend(["\n".to_owned(), show::table(&head, rows)]);
    }
    let warnings = plan.conditions.iter().filter_map(|found| {
        let warning = found.warning.as_ref()?;
        Some(format!("  stage {}, {}: {warning}", found.stage, found.condition))
    });
    text.extend(warnings.map(|line| format!("{}\n", show::one_line(&line))));
    text
}

fn metric(found: &PlannedMetric) -> impl Iterator<Item = Vec<String>> {
    let stage = found.stage.clone().unwrap_or_else(|| "the release".to_owned());
    let points = found.wanted.iter().chain(&found.given);
    points.map(move |point| {
        let own = row(point, found.relative, "");
        [stage.clone(), found.metric.clone()].into_iter().chain(own).chain([found.basis.clone()]).collect()
    })
}

fn condition(found: &PlannedCondition) -> Vec<String> {
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    vec![
        found.stage.clone(),
        found.condition.clone(),
        found.min_calls.to_string(),
        share(found.fails),
        share(found.untested),
        found.least_calls.map_or_else(|| "none".to_owned(), |calls| calls.to_string()),
        found.basis.clone(),
    ]
}

/// "from +12 %".
pub fn change(change: Option<f64>, relative: bool, unit: &str) -> String {
    let Some(change) = change else { return "nothing".to_owned() };
    let (amount, unit) = if relative { ((change - 1.0) * 100.0, "%") } else { (change, unit) };
    let sign = if amount < 0.0 { "−" } else { "+" };
    format!("from {sign}{} {unit}", plain(amount.abs()))
}

fn lasts(seconds: f64) -> String {
    if seconds < 1.0 { "1s".to_owned() } else { show::lasted(seconds.ceil() as i64) }
}

pub fn percent(share: f64) -> String {
    format!("{:.0} %", (share * 100.0).floor())
}

/// Three digits at most.
pub fn plain(number: f64) -> String {
    let digits = if number >= 100.0 {
        0
    } else if number >= 10.0 {
        1
    } else if number >= 1.0 {
        2
    } else {
        4
    };
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
