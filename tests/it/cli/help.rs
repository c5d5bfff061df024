//! What the program says about itself.

use super::{code, err, out, run};

fn help(args: &[&str]) -> String {
    let output = run(std::env::temp_dir().as_path(), args);
    assert_eq!(code(&output), 0, "{}", err(&output));
    out(&output)
}

#[test]
fn the_help_names_every_command() {
    insta::assert_snapshot!(help(&["--help"]), @"");
}

#[test]
fn the_help_of_release_names_every_verb() {
    insta::assert_snapshot!(help(&["release", "--help"]), @"");
}

#[test]
fn every_command_has_a_help_and_those_that_wait_tell_their_exit_codes() {
    for command in [
        "serve",
        "demo",
        "validate",
        "schema",
        "children",
        "deployments",
        "audit",
        "store",
        "fleet",
        "completions",
    ] {
        assert!(help(&[command, "--help"]).contains("Usage: choirmaster"), "{command}");
    }
    for verb in ["submit", "watch"] {
        assert!(help(&["release", verb, "--help"]).contains("3 DoneWithFailures"), "{verb}");
    }
}

#[test]
fn a_command_line_that_is_none_is_the_callers_fault() {
    for args in [&["nonsense"][..], &["serve", "--nonsense"], &["release", "show"], &[]] {
        let output = run(std::env::temp_dir().as_path(), args);
        assert_eq!((code(&output), out(&output)), (1, String::new()), "{args:?}");
        assert!(err(&output).contains("Usage: choirmaster"), "{args:?}: {}", err(&output));
    }
}

#[test]
fn there_are_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = help(&["completions", shell]);
        assert!(completions.contains("end-stage") && completions.contains("deployments"), "{shell}");
    }
}
