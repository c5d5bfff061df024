//! Commands and options.

use choirmaster::cli::Cli;
use clap::{Arg, Command, CommandFactory as _};

fn option(arg: &Arg) -> String {
    let mut words = Vec::new();
    words
        .extend(arg.get_short_and_visible_aliases().into_iter().flatten().map(|letter| format!("-{letter}")));
    words.extend(arg.get_all_short_aliases().into_iter().flatten().map(|letter| format!("(-{letter})")));
    words.extend(arg.get_long().map(|name| format!("--{name}")));
    words.extend(arg.get_all_aliases().into_iter().flatten().map(|name| format!("(--{name})")));
    if arg.is_positional() || arg.get_action().takes_values() {
        words.extend(arg.get_value_names().into_iter().flatten().map(ToString::to_string));
    }
    words.extend(arg.get_env().map(|name| format!("${}", name.display())));
    if arg.get_action().takes_values() {
        let values = arg.get_possible_values().into_iter().map(|value| value.get_name().to_owned());
        words.push(values.collect::<Vec<_>>().join("|"));
        words.extend(arg.get_default_values().iter().map(|value| format!("[{}]", value.display())));
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

fn describe(command: &Command, path: &str, text: &mut String) {
    let path = format!("{path} {}", command.get_name());
    *text += path.trim_start();
    for alias in command.get_all_aliases() {
        *text += &format!(" ({alias})");
    }
    text.push('\n');
    for arg in command.get_arguments() {
        *text += &format!("    {}\n", option(arg));
    }
    for inner in command.get_subcommands() {
        describe(inner, &path, text);
    }
}

#[test]
fn commands_and_options_are_the_same() {
    let mut command = Cli::command();
    command.build();
    let mut text = String::new();
    describe(&command, "", &mut text);
    insta::assert_snapshot!(text);
}

/// All that is said of all commands.
pub fn help_of_all() -> String {
    fn add(command: &mut Command, text: &mut String) {
        *text += &command.render_long_help().to_string();
        command.get_subcommands_mut().for_each(|inner| add(inner, text));
    }
    let mut text = String::new();
    add(&mut Cli::command(), &mut text);
    text
}
