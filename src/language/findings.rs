//! What is found wrong while a strategy is read, gathered with its place.

use super::{
    diagnostic::{Diagnostic, MAX_DIAGNOSTICS, MAX_SOURCE_LINE, Severity, TextPlace},
    node::At,
};
use model::text;

/// Collects diagnostics while a strategy is read.
pub(super) struct Findings<'t> {
    lines: Vec<&'t str>,
    list: Vec<Diagnostic>,
    left_over: Option<Diagnostic>,
    /// The text was accepted before: rules may have come since, and don't apply to it.
    is_stored: bool,
    /// It was made for an agent, perhaps by a manager that knows more than whoever reads it.
    is_offer: bool,
}

impl<'t> Findings<'t> {
    pub fn new(text: &'t str) -> Self {
        Self {
            lines: text.lines().collect(),
            list: Vec::new(),
            left_over: None,
            is_stored: false,
            is_offer: false,
        }
    }

    /// Of a text that was accepted before.
    pub fn of_stored(text: &'t str) -> Self {
        Self { is_stored: true, ..Self::new(text) }
    }

    /// Of what an agent was handed: it was accepted where it was handed in.
    pub fn of_offer(text: &'t str) -> Self {
        Self { is_offer: true, ..Self::of_stored(text) }
    }

    pub fn is_offer(&self) -> bool {
        self.is_offer
    }

    pub fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// A rule is broken by what can be read: how much there may be of something, or what may stand beside what. It is an
    /// error in what is handed in, and none in what was accepted before. The value must be kept either way: what can't be
    /// read, or would be dropped, is an [`Self::error`].
    pub fn broken_rule(&mut self, at: At, code: &'static str, message: impl Into<String>) -> &mut Diagnostic {
        let severity = if self.is_stored { Severity::Warning } else { Severity::Error };
        self.add(severity, at, code, message.into())
    }

    pub fn error(&mut self, at: At, code: &'static str, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Error, at, code, message.into())
    }

    pub fn warning(&mut self, at: At, code: &'static str, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Warning, at, code, message.into())
    }

    fn add(&mut self, severity: Severity, at: At, code: &'static str, message: String) -> &mut Diagnostic {
        let line = at.line.max(1);
        let found = Diagnostic {
            severity,
            code,
            line,
            column: at.column.max(1),
            message,
            source_line: self.line(line).map(shown).unwrap_or_default(),
            fix: None,
        };
        // Once the list is full, the last place goes to the latest error, and what is left over is only a place
        // where the caller can put its fix.
        if severity == Severity::Warning && self.is_full() {
            return self.left_over.insert(found);
        }
        if self.list.len() >= MAX_DIAGNOSTICS {
            self.list.pop();
        }
        let place = self.list.len();
        self.list.push(found);
        &mut self.list[place]
    }

    /// Whether the strategy is refused already and nothing more would be shown.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_DIAGNOSTICS && self.list.last().is_some_and(|d| d.severity == Severity::Error)
    }

    pub fn lines(&self) -> &[&'t str] {
        &self.lines
    }

    /// The place, for those who find a fault of it later.
    pub fn place(&self, at: At) -> TextPlace {
        let source_line = self.line(at.line).map(shown).unwrap_or_default();
        TextPlace { line: at.line.max(1), column: at.column.max(1), source_line }
    }

    /// The text of a line, counted from 1.
    pub fn line(&self, line: u32) -> Option<&'t str> {
        self.lines.get((line as usize).checked_sub(1)?).copied()
    }

    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// In the order of the file.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|d| (d.line, d.column, d.severity == Severity::Warning));
        self.list
    }
}

fn shown(line: &str) -> String {
    text::one_line(&line.chars().take(MAX_SOURCE_LINE).collect::<String>()).into_owned()
}
