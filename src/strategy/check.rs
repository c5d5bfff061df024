//! The one check that CLI, API and tests share.

use super::{
    Strategy,
    diagnostic::{Diagnostic, Findings},
    parse::{self, Author, Blocks},
    raw::{self, At},
    validate,
};

/// Longest strategy accepted, in bytes: 256 KiB.
pub const MAX_STRATEGY_BYTES: usize = 256 * 1024;

/// What a check found.
#[derive(Debug, Clone)]
pub struct Checked {
    /// There exactly if no diagnostic is an error.
    pub strategy: Option<Strategy>,
    /// In the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a strategy and reports every fault of it.
pub fn check(text: &str) -> Checked {
    check_for(text, Author::Developer, |_, _| {})
}

/// [`check_bytes`] for what the manager above hands out.
pub fn check_from_above(bytes: &[u8]) -> Checked {
    bytes_to_text(bytes, |text| check_for(text, Author::Parent, |_, _| {}))
}

/// [`check_bytes`] for a release that is to start: what this version can read but not carry out is a fault, too.
pub fn check_submission(bytes: &[u8]) -> Checked {
    bytes_to_text(bytes, |text| check_for(text, Author::Developer, validate::not_yet_available))
}

fn check_for(text: &str, author: Author, also: impl FnOnce(Blocks, &mut Findings<'_>)) -> Checked {
    // A mark that some editors put in front says nothing.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_STRATEGY_BYTES {
        let mut findings = Findings::new("");
        let message =
            format!("a strategy has at most {MAX_STRATEGY_BYTES} bytes, this one has {}", text.len());
        findings.error(At::START, "too-large", message).fix("split the release");
        return Checked { strategy: None, diagnostics: findings.finish() };
    }
    let mut findings = Findings::new(text);
    let draft = raw::read(text, &mut findings).and_then(|root| parse::draft(&root, author, &mut findings));
    if let Some(draft) = &draft {
        also(draft.blocks, &mut findings);
    }
    let strategy = draft.and_then(|draft| validate::strategy(draft, &mut findings));
    let strategy = strategy.filter(|_| !findings.has_errors());
    Checked { strategy, diagnostics: findings.finish() }
}

/// [`check`] for what came over a wire or from a file and may not even be text.
pub fn check_bytes(bytes: &[u8]) -> Checked {
    bytes_to_text(bytes, check)
}

fn bytes_to_text(bytes: &[u8], check: impl FnOnce(&str) -> Checked) -> Checked {
    match std::str::from_utf8(bytes) {
        Ok(text) => check(text),
        Err(error) => {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX);
            let column = before.rsplit('\n').next().map_or(1, |last| last.chars().count() + 1);
            let mut findings = Findings::new(&before);
            let at = At { line, column: u32::try_from(column).unwrap_or(u32::MAX) };
            findings.error(at, "not-text", "this is not UTF-8 text").fix("save the file as UTF-8");
            Checked { strategy: None, diagnostics: findings.finish() }
        }
    }
}
