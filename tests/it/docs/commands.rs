//! The commands of a page: those that are typed, and whether the program has those that are only shown.

use choirmaster::cli::Cli;
use clap::{CommandFactory as _, error::ErrorKind};

use super::{
    lexer::{Lexed, lex},
    page::{Block, Page, Place},
};

/// What is typed at once: a line, or several that belong together.
#[derive(Debug)]
pub struct Command {
    pub place: Place,
    pub text: String,
    pub lexed: Lexed,
    /// As its comment says (`# exit code 3`), else 0.
    pub code: i32,
}

impl Command {
    /// Without what sends it into the background, and without its comment.
    pub fn in_foreground(&self) -> &str {
        let comment = format!("#{}", self.lexed.comment);
        self.text.strip_suffix(&comment).unwrap_or(&self.text).trim_end().trim_end_matches('&')
    }
}

/// Those of a block of `sh`.
pub fn typed(block: &Block) -> Vec<Command> {
    let (mut commands, mut open) = (Vec::new(), None::<(Place, String)>);
    for (line, number) in block.text.lines().zip(block.place.line..) {
        let is_empty = line.trim().is_empty() || line.trim().starts_with('#');
        if open.is_none() && is_empty {
            continue;
        }
        let (place, text) = match open.take() {
            Some((place, before)) => (place, format!("{before}\n{line}")),
            None => (Place { page: block.place.page.clone(), line: number }, line.trim().to_owned()),
        };
        let lexed = lex(&text);
        if lexed.is_whole {
            let after = lexed.comment.split_once("exit code ").map_or("", |(_, after)| after);
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            let code = digits.parse().unwrap_or(0);
            commands.push(Command { place, text, lexed, code });
        } else {
            open = Some((place, text));
        }
    }
    if let Some((place, text)) = open {
        panic!("{place}: this command has no end: {text}");
    }
    commands
}

/// The arguments of the program, of each of its calls.
pub fn calls<'l>(lexed: &'l Lexed) -> Vec<Vec<&'l str>> {
    let arguments = |words: Vec<&'l str>| match &words[..] {
        ["cargo", "run", rest @ ..] => {
            let after = rest.iter().position(|word| *word == "--")?;
            Some(rest[after + 1..].to_vec())
        }
        [program, rest @ ..] if program.rsplit('/').next() == Some("choirmaster") => Some(rest.to_vec()),
        _ => None,
    };
    lexed.commands().into_iter().filter_map(arguments).collect()
}

/// Why the program would refuse these arguments.
fn refusal(arguments: &[&str]) -> Option<clap::Error> {
    let words = ["choirmaster"].iter().chain(arguments);
    let error = Cli::command().try_get_matches_from(words).err()?;
    let is_asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_asked_for).then_some(error)
}

/// The commands of a block that is only shown. Where some of its lines have a prompt, the others are answers.
fn shown(block: &Block) -> Vec<Command> {
    let has_prompts = block.text.lines().any(|line| line.starts_with("$ "));
    let command = |line: &str| match line.strip_prefix("$ ") {
        Some(command) => format!("{command}\n"),
        None if has_prompts => "\n".to_owned(),
        None => format!("{line}\n"),
    };
    let text = block.text.lines().map(command).collect();
    typed(&Block { text, ..block.clone() })
}

/// Each command that the page names is one, with its options.
pub fn check(page: &Page) {
    let mut faults = Vec::new();
    for block in page.blocks() {
        let commands = match block.language.as_str() {
            "sh" => typed(block),
            "console" => shown(block),
            _ => continue,
        };
        for command in &commands {
            for arguments in calls(&command.lexed) {
                // What a variable holds is known where it is typed.
                let is_known = !arguments.iter().any(|word| word.contains('$'));
                if let Some(error) = refusal(&arguments).filter(|_| is_known && command.code == 0) {
                    faults.push(format!("{}: `{}`: {error}", command.place, command.text));
                }
            }
        }
    }
    for (place, code) in page.inline_code() {
        // What may be left out or repeated is said so.
        let plain = code.replace(['[', ']', '…'], "");
        let lexed = lex(&plain);
        for mut arguments in calls(&lexed) {
            // Whatever else it takes need not be said, but all that is said must be right.
            arguments.push("--help");
            let is_other = |error: &clap::Error| {
                !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation)
            };
            if let Some(error) = refusal(&arguments).filter(is_other) {
                faults.push(format!("{place}: `{code}`: {error}"));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "the program has no such commands or options: change the page, or add them\n{}",
        faults.join("\n")
    );
}

#[test]
fn commands_are_found_with_their_lines_and_exit_codes() {
    let place = |line| Place { page: "p.md".to_owned(), line };
    let text = "# first\na b   # exit code 3\n\ncat > c <<E\nd # no comment\nE\ne \\\n  f\n".to_owned();
    let block = Block { place: place(5), language: "sh".to_owned(), text };
    let found: Vec<_> =
        typed(&block).into_iter().map(|command| (command.place.line, command.text, command.code)).collect();
    let expected =
        [(6, "a b   # exit code 3", 3), (8, "cat > c <<E\nd # no comment\nE", 0), (11, "e \\\n  f", 0)];
    assert_eq!(found, expected.map(|(line, text, code)| (line, text.to_owned(), code)));
    let text =
        "$ choirmaster --version\nchoirmaster 0.1.0\n$ sudo choirmaster children list | grep x\n".to_owned();
    let block = Block { place: place(1), language: "console".to_owned(), text };
    let found = shown(&block);
    let found: Vec<_> = found.iter().flat_map(|command| calls(&command.lexed)).collect();
    assert_eq!(found, [vec!["--version"], vec!["children", "list"]]);
}

#[test]
fn a_command_with_an_unknown_option_is_refused() {
    for (arguments, is_refused) in [
        (&["children", "list"][..], false),
        (&["children", "list", "--nonsense"], true),
        (&["children", "nonsense"], true),
        (&["release", "show"], true),
        (&["release", "show", "--help"], false),
        (&["--version"], false),
    ] {
        assert_eq!(refusal(arguments).is_some(), is_refused, "{arguments:?}");
    }
}
