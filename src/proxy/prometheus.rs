//! The text format of Prometheus, version 0.0.4, as far as it is written here.

use std::fmt::Write as _;

/// A text of metrics whose names begin alike.
#[derive(Debug)]
pub struct Text {
    prefix: &'static str,
    text: String,
}

impl Text {
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, text: String::new() }
    }

    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }

    /// A metric without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// What stands before the samples of a metric: what it means, and whether it is a `gauge`, a `counter` or a `histogram`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string can't fail.
        let _ = write!(
            self.text,
            "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}\n",
            prefix = self.prefix
        );
    }

    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.line(name, labels, &value.to_string());
    }

    /// A sample whose value is written already.
    pub fn line(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.text.extend([self.prefix, name]);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.text.extend([if at == 0 { "{" } else { "," }, label, "=\""]);
            for character in text.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        self.text.extend([if labels.is_empty() { " " } else { "} " }, value, "\n"]);
    }
}
