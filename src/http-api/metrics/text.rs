//! The text form of Prometheus, version 0.0.4.
//!
//! The numbers already are where they are counted (the view, the engine's state); a registry would only copy them.

use std::fmt::{Display, Write as _};

/// What a family counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Families of samples, as they are scraped.
#[derive(Debug, Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Begins a family. The samples that follow belong to it.
    pub fn family<'t>(&'t mut self, name: &'t str, kind: MetricKind, help: &str) -> Family<'t> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Summary => "summary",
        };
        let _ = write!(self.0, "# HELP choirmaster_{name} {help}\n# TYPE choirmaster_{name} {kind}\n");
        Family { text: self, name }
    }

    /// A family of a single sample.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample("", &[], value);
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// A family that is being written.
#[derive(Debug)]
pub struct Family<'t> {
    text: &'t mut MetricsText,
    name: &'t str,
}

impl Family<'_> {
    /// A sample; histograms put `_bucket`, `_sum` or `_count` behind the name.
    pub fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let out = &mut self.text.0;
        let _ = write!(out, "choirmaster_{}{suffix}", self.name);
        for (place, (name, value)) in labels.iter().enumerate() {
            out.push(if place == 0 { '{' } else { ',' });
            let _ = write!(out, "{name}=\"");
            for c in value.chars() {
                match c {
                    '\\' => out.push_str("\\\\"),
                    '"' => out.push_str("\\\""),
                    '\n' => out.push_str("\\n"),
                    c => out.push(c),
                }
            }
            out.push('"');
        }
        if !labels.is_empty() {
            out.push('}');
        }
        let _ = writeln!(out, " {value}");
    }
}
