//! What a YAML parser complains of, in words of somebody who wrote the file.
//!
//! A parser says what it expected and where it gave up, which is often a line below the slip. Here the text around that
//! place is looked at: a quote or a bracket that was left open, an indentation that fits nothing, a colon or a dash
//! without a space. What is not recognised keeps the parser's words.

use super::{diagnostic::quoted, node::At};

/// Most lines above the place that are searched for the slip.
const MAX_LINES_BACK: usize = 200;

/// What is wrong, where, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slip {
    pub at: At,
    pub message: String,
    pub fix: Option<String>,
}

/// Explains a complaint about a text, given by lines.
pub(super) fn explain(complaint: &str, at: At, lines: &[&str]) -> Slip {
    let text = ComplaintText { lines, at };
    let known = || match complaint {
        c if c.contains("tab") && c.contains("indent") => Some(text.tab()),
        c if c.contains("bracket") => text.bracket(c),
        c if c.contains("quoted scalar") && c.contains("escape") => Some(text.slip(
            "a backslash in double quotes begins an escape, and there is none like this",
            "write \\\\ for a backslash, or use single quotes",
        )),
        c if c.contains("quoted") || c.contains("end of stream") => text.open_quote(),
        c if c.contains("unexpected character") => {
            let found: String = text.line().chars().skip(at.column as usize - 1).take(1).collect();
            Some(text.slip(format!("a value can't begin with {}", quoted(&found)), "put the value in quotes"))
        }
        c if c.contains("unknown anchor") => Some(text.slip(
            "a value that begins with * is a reference to a &name, and there is none of this name",
            "put the value in quotes",
        )),
        _ => text.layout(),
    };
    let slip = if text.line().split_once(": >").is_some()
        || text.line_of_parents().is_some_and(|l| l.contains(": >"))
    {
        Some(
            text.slip(complaint, "a threshold that starts with > must be quoted, as in threshold: \">=0.5\""),
        )
    } else {
        known()
    };
    slip.unwrap_or_else(|| Slip { at, message: complaint.to_owned(), fix: None })
}

struct ComplaintText<'t> {
    lines: &'t [&'t str],
    at: At,
}

impl<'t> ComplaintText<'t> {
    fn line(&self) -> &'t str {
        self.lines.get(self.at.line as usize - 1).copied().unwrap_or_default()
    }

    fn line_of_parents(&self) -> Option<&'t str> {
        self.lines.get((self.at.line as usize).checked_sub(2)?).copied()
    }

    fn slip(&self, message: impl Into<String>, fix: impl Into<String>) -> Slip {
        Slip { at: self.at, message: message.into(), fix: Some(fix.into()) }
    }

    fn tab(&self) -> Slip {
        self.slip("there is a tab in the indentation", "indent with spaces")
    }

    fn bracket(&self, complaint: &str) -> Option<Slip> {
        let mut brackets = complaint.split('\'').skip(1).step_by(2);
        let open = brackets.next()?;
        let partner = if open == "[" { "]" } else { "}" };
        let (message, fix) = match brackets.next() {
            None if matches!(open, "]" | "}") => {
                (format!("nothing is open that this {open} could close"), format!("take the {open} away"))
            }
            None => (
                format!("the {open} that is opened here is never closed"),
                format!("write {partner} where it ends"),
            ),
            Some(close) => (
                format!("the {open} that is opened here is closed by {close}"),
                format!("a {partner} is missing before it, or there is one {close} too many"),
            ),
        };
        Some(self.slip(message, fix))
    }

    /// The quote that was opened last before the place, and not closed in its line.
    fn open_quote(&self) -> Option<Slip> {
        let last = (self.at.line as usize).min(self.lines.len());
        (last.saturating_sub(MAX_LINES_BACK)..last).rev().find_map(|index| {
            let column = unclosed(self.lines[index])?;
            let at = At { line: index as u32 + 1, column };
            let rest: String = self.lines[index].chars().skip(column as usize - 1).collect();
            let quote = rest.chars().next()?;
            Some(Slip {
                at,
                message: "the quote that is opened here is not closed in this line".to_owned(),
                fix: Some(format!("write {}{quote}", rest.trim_end())),
            })
        })
    }

    /// A dash, a colon, or the indentation.
    fn layout(&self) -> Option<Slip> {
        let line = self.line();
        let trimmed = line.trim_start();
        let place = |offset: usize| At {
            line: self.at.line,
            column: (line.len() - trimmed.len() + offset) as u32 + 1,
        };
        if line[..line.len() - trimmed.len()].contains('\t') {
            return Some(self.tab());
        }
        if trimmed.starts_with('-') && trimmed[1..].starts_with(|c: char| c.is_alphanumeric()) {
            let fix = format!("write - {}", &trimmed[1..]);
            return Some(Slip {
                at: place(0),
                message: "a dash needs a space behind it".to_owned(),
                fix: Some(fix),
            });
        }
        let entry = trimmed.strip_prefix("- ").unwrap_or(trimmed);
        let offset = trimmed.len() - entry.len();
        match entry.split_once(':') {
            None => Some(Slip {
                at: place(offset),
                message: "there is no colon behind a key in this line".to_owned(),
                fix: Some("write it as key: value, or put a text of several lines in quotes".to_owned()),
            }),
            Some((key, value)) if value.starts_with(|c: char| !c.is_whitespace()) && is_word(key) => {
                Some(Slip {
                    at: place(offset + key.len()),
                    message: "a colon needs a space behind it".to_owned(),
                    fix: Some(format!("write {key}: {}", value.trim())),
                })
            }
            // The first colon belongs to the key, and the parser stumbled over another one.
            Some((key, value)) if value.contains(": ") && self.is_behind(offset + key.len() + 1) => {
                Some(Slip {
                    at: self.at,
                    message: "there is a colon in the value".to_owned(),
                    fix: Some(format!("put the value in quotes: {key}: {}", quoted(value.trim()))),
                })
            }
            Some(_) => self.indentation(),
        }
    }

    fn is_behind(&self, offset: usize) -> bool {
        let line = self.line();
        self.at.column as usize > line.len() - line.trim_start().len() + offset + 1
    }

    fn indentation(&self) -> Option<Slip> {
        let here = content_column(self.line());
        let above = (0..self.at.line as usize - 1).rev().take(MAX_LINES_BACK);
        let above = above.map(|index| (index, self.lines[index]));
        let (index, line) = above.into_iter().find(|(_, line)| is_content(line))?;
        let there = content_column(line);
        let message = format!(
            "the indentation fits nothing above: what is said here begins after {}, in line {} after {}",
            spaces(here),
            index + 1,
            spaces(there)
        );
        let at = At { line: self.at.line, column: here as u32 + 1 };
        let fix =
            "keys that belong together begin in the same column; behind a dash that is two columns further";
        Some(Slip { at, message, fix: Some(fix.to_owned()) })
    }
}

fn spaces(count: usize) -> String {
    if count == 1 { "1 space".to_owned() } else { format!("{count} spaces") }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

fn is_content(line: &str) -> bool {
    let trimmed = line.trim_start();
    !trimmed.is_empty() && !trimmed.starts_with('#')
}

/// Where the key of a line begins, dashes of lists aside, counted from 0.
fn content_column(line: &str) -> usize {
    let mut rest = line.trim_start();
    while let Some(item) = rest.strip_prefix("- ") {
        rest = item.trim_start();
    }
    line.len() - rest.len()
}

/// The column, from 1, of a quote that begins a value and is not closed in its line.
fn unclosed(line: &str) -> Option<u32> {
    let mut open: Option<(char, usize)> = None;
    let (mut before, mut escaped) = (' ', false);
    for (index, c) in line.chars().enumerate() {
        match open {
            None if c == '#' && before == ' ' => return None,
            None if matches!(c, '"' | '\'') && matches!(before, ' ' | '[' | '{' | ',' | ':') => {
                open = Some((c, index));
            }
            Some(_) if escaped => escaped = false,
            Some(('"', _)) if c == '\\' => escaped = true,
            Some((quote, _)) if c == quote => open = None,
            _ => {}
        }
        before = c;
    }
    open.map(|(_, index)| index as u32 + 1)
}
