//! What is wrong with a strategy, where, and how to mend it.

use std::fmt;

use serde::Serialize;

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
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) source_line: String,
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
