//! Text of others on a terminal.

use model::text::{lines, one_line};

#[test]
fn what_a_terminal_would_obey_is_spelt_out() {
    for (text, line) in [
        ("plain Grün 東京 👩‍🔧", "plain Grün 東京 👩‍🔧"),
        ("red \u{1b}[31m", "red \\u001b[31m"),
        ("\u{9b}2J\u{7f}", "\\u009b2J\\u007f"),
        ("gpj.\u{202e}exe\u{202c}", "gpj.\\u202eexe\\u202c"),
        ("a\u{2066}b\u{2069}\u{200f}", "a\\u2066b\\u2069\\u200f"),
        ("a\nb\r\tc\u{2028}d\0", "a b  c\\u2028d\\u0000"),
    ] {
        assert_eq!(one_line(text), line);
    }
    assert_eq!(lines("a\n\tb\rc\u{1b}"), "a\n\tb\\u000dc\\u001b");
}
