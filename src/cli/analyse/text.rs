//! A finding for people.

use crate::cli::show;
use analysis::{BelowFloor, Evidence, SideSummary};

/// The sentence, and below it what it rests on.
pub fn of(evidence: &Evidence) -> String {
    let mut text = format!("{}\n\n{}", evidence.sentence, sides(evidence));
    if let Some(BelowFloor { floor, at_most }) = evidence.below_floor {
        let [at_most, floor] = [at_most, floor].map(|share| format!("{:.4} %", share * 100.0));
        text.extend([format!("\nthe canary's rate is at most {at_most}, and the floor is {floor}\n")]);
    }
    if let Some(effect) = &evidence.effect {
        let value = |value: f64| format!("{value:.4}");
        let end = |end: Option<f64>| end.map_or_else(|| "unknown".to_owned(), value);
        let what = if effect.relative { "canary / baseline" } else { "canary − baseline" };
        // At the looks before the last it is a level of their own.
        let digits = if (effect.confidence * 100.0).fract() > 1e-6 { 2 } else { 0 };
        let confidence = effect.confidence * 100.0;
        text.extend([format!(
            "\n{what}: {} ({confidence:.digits$} % interval {} to {})\n",
            value(effect.estimate),
            end(effect.low),
            end(effect.high)
        )]);
        if let Some(superiority) = effect.superiority {
            text.extend([format!("P(canary > baseline) + ½ P(equal): {superiority:.4}\n")]);
        }
    }
    if !evidence.tests.is_empty() {
        let rows = evidence.tests.iter().map(|test| {
            vec![
                test.name.clone(),
                format!("{:.2}", test.z),
                short(test.p),
                test.level.map_or_else(|| "-".to_owned(), short),
                short(test.p_pass),
                test.pass_level.map_or_else(String::new, short),
            ]
        });
        let is_early = evidence.tests.iter().any(|test| test.pass_level.is_some());
        let head = ["TESTED", "Z", "P", "FAILS AT", "P OF NO PASS", if is_early { "PASSES AT" } else { "" }];
        text.extend(["\n".to_owned(), show::table(&head, rows)]);
    }
    text
}

fn sides(evidence: &Evidence) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    let rated = evidence.baseline.rate.is_some() || evidence.canary.rate.is_some();
    let row = |name: &str, side: &SideSummary| {
        let mut row = vec![name.to_owned(), side.count.to_string()];
        if rated {
            row.push(side.events.map_or_else(|| "-".to_owned(), |events| events.to_string()));
            row.push(side.rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.4} %", rate * 100.0)));
        } else {
            row.extend([side.p50, side.p95, side.p99].map(number));
        }
        row
    };
    let head: &[&str] =
        if rated { &["", "CALLS", "EVENTS", "RATE"] } else { &["", "COUNT", "P50", "P95", "P99"] };
    show::table(head, [row("baseline", &evidence.baseline), row("canary", &evidence.canary)])
}

/// A probability in few digits.
pub fn short(p: f64) -> String {
    if p < 1e-300 {
        "<1e-300".to_owned()
    } else if p < 1e-4 {
        format!("{p:.1e}")
    } else {
        format!("{p:.4}")
    }
}
