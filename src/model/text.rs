//! Texts that others chose, made fit for a terminal.
//!
//! A name may hold what moves a cursor, changes colours, or shows what follows in another order than it is in. The one
//! place that knows which characters these are; commands and logs write through it.

use std::borrow::Cow;

/// Whether a terminal shows something else than the character: controls, marks of direction, breaks of lines and
/// paragraphs, and what takes no room.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}')
}

/// `\u202e`, as JSON writes it too: what is JSON stays it.
pub fn escape(c: char, out: &mut String) {
    let code = u32::from(c);
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.push(char::from_digit((code >> shift) & 15, 16).unwrap_or('?'));
    }
}

/// One line: what breaks lines or leaves room is a space, what can't be shown is spelt out.
pub fn one_line(text: &str) -> Cow<'_, str> {
    shown(text, |c| matches!(c, '\n' | '\r' | '\t').then_some(' '))
}

/// Lines stay lines.
pub fn lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| matches!(c, '\n' | '\t').then_some(c))
}

/// `instead` says what stands for a character that can't be shown; `None`: its spelling.
fn shown(text: &str, instead: impl Fn(char) -> Option<char>) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match instead(c) {
            _ if !is_unprintable(c) => out.push(c),
            Some(c) => out.push(c),
            None => escape(c, &mut out),
        }
    }
    Cow::Owned(out)
}
