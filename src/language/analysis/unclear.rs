//! What follows where the data don't decide, and what is over before its end.

use std::time::Duration;

use super::{
    amount,
    spec::{Analysis, Extend, MAX_EXTENSION, Metric, MetricSource, Rule, Unclear},
};
use crate::{
    diagnostic::quoted,
    fields::{FieldEntry, Fields},
    findings::Findings,
    node::{At, NodeKind},
    reading::{read_scalar, read_word},
    scalar::{self, fault},
};

const WORDS: [(&str, Unclear); 3] =
    [("pause", Unclear::Pause), ("fail", Unclear::Fail), ("pass", Unclear::Pass)];

/// What follows when the data don't suffice to decide.
#[derive(Default)]
pub(super) struct Inconclusive {
    pub then: Option<Unclear>,
    pub extend: Option<Extend>,
    /// Where it is said that it goes on.
    pub at: Option<At>,
}

pub(super) fn read_unclear(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Unclear> {
    read_word(entry, entry.key, &WORDS, findings)
}

/// A word, or for how long it goes on first. `is_open`: it has no end after which it could.
pub(super) fn inconclusive(fields: &Fields<'_>, is_open: bool, findings: &mut Findings<'_>) -> Inconclusive {
    let Some(entry) = fields.filled("inconclusive", "pause", findings) else {
        return Inconclusive::default();
    };
    match &entry.node.kind {
        NodeKind::Scalar(text) if text == "extend" => {
            let found = findings.error(entry.at, "missing-value", "extend doesn't say for how long");
            found.fix("write inconclusive: {extend: 30m}");
            Inconclusive::default()
        }
        NodeKind::Mapping(_) => going_on(entry, is_open, findings),
        _ => Inconclusive { then: read_unclear(entry, findings), ..Inconclusive::default() },
    }
}

fn going_on(entry: FieldEntry<'_>, is_open: bool, findings: &mut Findings<'_>) -> Inconclusive {
    let fields = Fields::open(entry.node, "inconclusive".to_owned(), &["extend", "calls", "then"], findings);
    let Some(fields) = fields else { return Inconclusive::default() };
    let calls = fields.filled("calls", "20000", findings);
    let duration = match calls {
        Some(_) => fields.filled("extend", "30m", findings),
        None => fields.required("extend", "30m", findings),
    };
    let has_duration = duration.is_some();
    let duration = duration.and_then(|e| read_scalar(e, "bad-duration", longer, findings));
    let has_calls = calls.is_some();
    let calls = calls.and_then(|e| read_scalar(e, "bad-analysis-value", amount::calls, findings));
    let then = fields.filled("then", "pause", findings).and_then(|e| read_unclear(e, findings));
    if is_open {
        let message = "an analysis that takes as long as the release has no end after which it could go on";
        findings.error(fields.at(), "contradiction", message).fix("write a duration, or inconclusive: pause");
    }
    // What couldn't be read was reported, and is no limit.
    let is_read = duration.is_some() == has_duration && calls.is_some() == has_calls;
    let extend = (is_read && (has_duration || has_calls))
        .then(|| Extend { duration: duration.unwrap_or(MAX_EXTENSION), calls });
    Inconclusive { then, extend, at: Some(entry.at) }
}

fn longer(text: &str) -> Result<Duration, scalar::ScalarFault<Duration>> {
    let duration = scalar::duration(text)?;
    if duration.is_zero() || duration > MAX_EXTENSION {
        let hours = MAX_EXTENSION.as_secs() / 3_600;
        let fault = fault(
            format!("an analysis can't go on for {}", quoted(text)),
            format!("write a time above 0 and up to {hours}h, as in extend: 30m"),
        );
        return Err(if duration.is_zero() { fault } else { fault.beyond(duration) });
    }
    Ok(duration)
}

/// Says where an early pass, or going on, would come to nothing.
pub(super) fn doubt(
    analysis: &Analysis,
    early_pass: Option<At>,
    extend: Option<At>,
    findings: &mut Findings<'_>,
) {
    let judged = || analysis.metrics.iter().filter(|metric| !metric.dry_run);
    if let (Some(at), true) = (early_pass, analysis.early_pass) {
        let to_the_end = judged().find(|metric| {
            matches!(metric.source, MetricSource::Query(_)) && !matches!(metric.rule, Rule::Compare(_))
        });
        if analysis.duration.is_none() {
            let message =
                "an analysis that takes as long as the release has no end that a pass could come before";
            findings.error(at, "no-effect", message).fix("write a duration, or leave earlyPass out");
        } else if let Some(metric) = to_the_end {
            let message = format!(
                "metric {} is measured to the end of duration, so nothing is over before it",
                quoted(&metric.name)
            );
            findings
                .warning(at, "no-effect", message)
                .fix("leave earlyPass out, or let that metric have dryRun: true");
        } else if !judged().any(|metric| matches!(metric.rule, Rule::Compare(_))) {
            let message = "only comparisons can pass early, and there is none";
            findings.warning(at, "no-effect", message).fix("leave earlyPass out");
        }
    }
    if let Some(at) = extend
        && !judged().any(Metric::is_beside)
    {
        let message =
            "only comparisons of both versions side by side go on after their end, and there is none";
        findings.warning(at, "no-effect", message).fix("write inconclusive: pause");
    }
}
