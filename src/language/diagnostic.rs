//! What is wrong with a strategy, where, and how to mend it.

use std::fmt;

use serde::Serialize;

use super::raw::At;
use model::text;

/// Most diagnostics reported for one strategy; a text with more faults than this is not a strategy.
pub const MAX_DIAGNOSTICS: usize = 200;

/// Longest part of a source line that is carried along, in characters.
pub const MAX_SOURCE_LINE: usize = 200;

/// Longest piece of the developer's text that a message repeats, in characters.
const MAX_QUOTED: usize = 60;

/// Longest word that is compared with the known ones, in bytes.
const MAX_COMPARED: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The strategy is refused.
    Error,
    /// The strategy is accepted, but probably not what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One fault of a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Stable name of the rule, for scripts.
    pub code: &'static str,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    pub message: String,
    /// The line it is about, without control characters, at most [`MAX_SOURCE_LINE`] characters.
    pub source_line: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A place in a strategy's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextPlace {
    line: u32,
    column: u32,
    source_line: String,
}

impl TextPlace {
    /// Something that is found out about what stands here.
    pub fn fault(
        &self,
        severity: Severity,
        code: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Diagnostic {
        let Self { line, column, source_line } = self.clone();
        Diagnostic {
            severity,
            code,
            line,
            column,
            message: message.into(),
            source_line,
            fix: Some(fix.into()),
        }
    }
}

impl Diagnostic {
    /// The whole text for a person: place, message, the line with a caret, help.
    pub fn render(&self, file: &str) -> String {
        format!("{file}:{self}")
    }

    pub(super) fn fix(&mut self, fix: impl Into<String>) {
        self.fix = Some(fix.into());
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, line, column, message, source_line, .. } = self;
        write!(f, "{line}:{column}: {severity}: {message}")?;
        if !source_line.trim().is_empty() {
            let number = line.to_string();
            write!(f, "\n {number} | {source_line}")?;
            let before = *column as usize - 1;
            if before < MAX_SOURCE_LINE {
                write!(f, "\n {:number$} | {:before$}^", "", "", number = number.len())?;
            }
        }
        match &self.fix {
            Some(fix) => write!(f, "\n  help: {fix}"),
            None => Ok(()),
        }
    }
}

/// Collects diagnostics while a strategy is read.
pub(super) struct Findings<'t> {
    lines: Vec<&'t str>,
    list: Vec<Diagnostic>,
    left_over: Option<Diagnostic>,
    /// The text was accepted before: rules may have come since, and don't apply to it.
    is_stored: bool,
}

impl<'t> Findings<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { lines: text.lines().collect(), list: Vec::new(), left_over: None, is_stored: false }
    }

    /// Of a text that was accepted before.
    pub fn of_stored(text: &'t str) -> Self {
        Self { is_stored: true, ..Self::new(text) }
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

/// The developer's text for a message: quoted, escaped, and not longer than a line bears.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(MAX_QUOTED).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{:?}", format!("{short}{dots}"))
}

/// The known word that was probably meant.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > MAX_COMPARED {
        return None;
    }
    let word = word.to_lowercase();
    let far = 1 + word.chars().count() / 3;
    known
        .into_iter()
        .filter(|k| k.len() <= MAX_COMPARED)
        .map(|k| (strsim::damerau_levenshtein(&word, &k.to_lowercase()), k))
        // A word with nothing left of it is no misspelling.
        .filter(|(distance, _)| *distance <= far && *distance < word.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}
