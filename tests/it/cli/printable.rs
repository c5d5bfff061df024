//! What of others reaches a terminal.

use std::io::Write as _;

use choirmaster::cli::{
    printable::{Passes, Printable},
    terminal,
};

/// What comes through, however it is cut into pieces.
fn through(text: &str, filters: bool, passes: Passes) -> String {
    let write = |size: usize| {
        let mut written = Vec::new();
        let mut out = Printable::new(&mut written, filters, passes);
        for part in text.as_bytes().chunks(size) {
            out.write_all(part).unwrap();
        }
        drop(out);
        String::from_utf8(written).unwrap()
    };
    let whole = write(text.len().max(1));
    for size in 1..8 {
        assert_eq!(write(size), whole, "{text:?} in pieces of {size}");
    }
    whole
}

#[test]
fn nothing_of_others_moves_the_cursor_of_a_terminal() {
    let hostile = "a\u{1b}[2J\u{1b}]0;x\u{7} gpj.\u{202e}exe\r\u{9b}1A ü\n";
    assert_eq!(
        through(hostile, true, Passes::None),
        "a\\u001b[2J\\u001b]0;x\\u0007 gpj.\\u202eexe\\u000d\\u009b1A ü\n"
    );
    assert_eq!(through(hostile, false, Passes::None), hostile, "a file gets what there is");
}

#[test]
fn states_are_coloured_and_nothing_else_passes_beside_them() {
    let painted = terminal::painted("a  Done  5 of 5\nb  DoneWithFailures", true);
    assert!(painted.contains('\u{1b}'));
    assert_eq!(through(&painted, true, Passes::Colours), painted);
    assert_eq!(
        through("\r\u{1b}[K\u{1b}[2J\u{1b}[1;32mx\u{1b}[8m\u{1b}", true, Passes::Colours),
        "\\u000d\\u001b[K\\u001b[2J\\u001b[1;32mx\\u001b[8m"
    );
}

#[test]
fn terminal_drawing_allows_colours_and_cursor_moves_only() {
    let drawn = "\r\u{1b}[K\u{1b}[1;32mgreen\u{1b}[0m\u{1b}[?25l\n";
    assert_eq!(through(drawn, true, Passes::Drawings), drawn);
    assert_eq!(
        through("\u{1b}]0;title\u{7}\u{1b}c\u{202e}", true, Passes::Drawings),
        "\\u001b]0;title\\u0007\\u001bc\\u202e"
    );
}
