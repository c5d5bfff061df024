//! States in colour.

use choirmaster::cli::terminal::painted;

#[test]
fn states_are_painted_as_whole_words_and_only_where_there_are_colours() {
    let text = "a  Done  5 of 5\nb  DoneWithFailures (x) Donets";
    assert_eq!(painted(text, false), text);
    let expected = "a  \x1b[32mDone\x1b[0m  5 of 5\nb  \x1b[31mDoneWithFailures\x1b[0m (x) Donets";
    assert_eq!(painted(text, true), expected);
}
