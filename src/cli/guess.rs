//! Commands that people try because other programs have them: whoever types one is told which command it is here.

use std::ffi::OsString;

use clap::{
    Arg, Command, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Words that are no commands, and the commands that they mean.
#[derive(Debug)]
pub struct Guess {
    /// Behind which command they stand; empty: behind none, [`ANY`]: behind each.
    pub behind: &'static str,
    pub said: &'static [&'static str],
    /// Without the program's name. `{}` is the command before the word; what is not there is not named.
    pub meant: &'static [&'static str],
}

/// Behind each command that has commands of its own.
pub const ANY: &str = "{}";

/// The first that fits counts.
pub const GUESSES: &[Guess] = &[
    guess("", &["list", "ls"], &["release list", "children list", "router list", "service list"]),
    guess("", &["get"], &["release list", "release show", "children list", "children show"]),
    guess("", &["describe", "inspect"], &["release show", "children show", "router show", "service show"]),
    guess(
        "",
        &["delete", "rm", "remove"],
        &["release abort", "children forget", "service retire", "workflow stop"],
    ),
    guess("", &["history", "events"], &["audit", "release list"]),
    guess("", &["logs", "log"], &["agent logs", "release logs", "audit"]),
    guess("", &["ps"], &["deployments", "agent status", "workflow list"]),
    guess("", &["top", "info", "health", "doctor"], &["status", "release watch", "agent status"]),
    guess("", &["apply", "create", "deploy", "rollout", "run"], &["release submit"]),
    guess("", &["undo", "rollback", "revert"], &["release rollback", "agent rollback"]),
    guess("", &["start", "server", "up"], &["serve", "agent"]),
    guess("", &["node", "nodes", "agents"], &["children list", "agent"]),
    guess("", &["managers"], &["children list --kind rm"]),
    guess("release", &["history", "events"], &["audit --release RELEASE", "release list"]),
    guess("release", &["log"], &["release logs", "release show --results"]),
    guess("release", &["delete", "rm", "remove", "cancel", "stop"], &["release abort"]),
    guess("release", &["revert"], &["release rollback", "release abort"]),
    guess("release", &["create", "apply", "new", "run"], &["release submit"]),
    guess("release", &["start", "continue", "unpause"], &["release resume"]),
    guess("release", &["follow", "tail", "top", "ps"], &["release watch"]),
    guess("release", &["status"], &["release show", "status"]),
    guess(ANY, &["get"], &["{} list", "{} show", "{} status"]),
    guess(ANY, &["list", "ls", "ps"], &["{} list", "{} status", "{} functions list"]),
    guess(ANY, &["describe", "inspect", "info", "show", "status"], &["{} show", "{} status", "{} info"]),
    guess(
        ANY,
        &["delete", "rm", "remove"],
        &["{} delete", "{} remove", "{} forget", "{} retire", "{} stop", "{} functions remove"],
    ),
    guess(
        ANY,
        &["create", "add", "new", "apply"],
        &["{} create", "{} register", "{} start", "{} functions add"],
    ),
    guess(ANY, &["undo", "rollback", "revert"], &["{} rollback", "release rollback"]),
    guess(ANY, &["history", "events"], &["{} history", "audit"]),
    guess(ANY, &["logs", "log"], &["{} logs", "agent logs", "audit"]),
    guess(ANY, &["top"], &["{} status", "status"]),
];

const fn guess(behind: &'static str, said: &'static [&'static str], meant: &'static [&'static str]) -> Guess {
    Guess { behind, said, meant }
}

/// The same error; if it is about a command that there isn't, with what is meant by that where it is known.
pub fn answered(mut error: Error, root: &Command, arguments: &[OsString]) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(said)) = error.get(ContextKind::InvalidSubcommand).cloned() else {
        return error;
    };
    if let Some(tip) = tip(root, &typed(root, arguments), &said) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// The commands that stand before what is none.
fn typed(root: &Command, arguments: &[OsString]) -> String {
    let (mut at, mut path) = (root, Vec::new());
    for word in arguments.iter().skip(1) {
        let Some(inner) = at.find_subcommand(word) else { break };
        path.push(inner.get_name().to_owned());
        at = inner;
    }
    path.join(" ")
}

/// Which commands are meant by a word behind others; `None`: that is not known.
pub fn tip(root: &Command, behind: &str, said: &str) -> Option<String> {
    let fits = |guess: &&Guess| {
        let is_there = guess.behind == behind || (guess.behind == ANY && !behind.is_empty());
        is_there && guess.said.contains(&said)
    };
    let mut named = GUESSES.iter().filter(fits).map(|guess| {
        let lines = guess.meant.iter().map(|line| line.replace(ANY, behind));
        lines.filter_map(|line| shown(root, &line)).collect::<Vec<String>>()
    });
    let commands = named.find(|commands| !commands.is_empty());
    let commands = commands.or_else(|| behind.is_empty().then(|| of_nouns(root, said)))?;
    let (last, others) = commands.split_last()?;
    Some(if others.is_empty() {
        format!("that is {last}")
    } else {
        format!("that is {} or {last}", others.join(", "))
    })
}

/// What the commands are that have a command of this name.
fn of_nouns(root: &Command, verb: &str) -> Vec<String> {
    let nouns = root.get_subcommands().filter(|noun| noun.find_subcommand(verb).is_some());
    nouns.filter_map(|noun| shown(root, &format!("{} {verb}", noun.get_name()))).collect()
}

/// A command as it is typed, with what it requires; `None`: there is none.
pub fn shown(root: &Command, line: &str) -> Option<String> {
    let (path, options) = match line.split_once(" --") {
        Some((path, options)) => (path, format!(" --{options}")),
        None => (line, String::new()),
    };
    let mut at = root;
    for word in path.split(' ') {
        at = at.find_subcommand(word)?;
    }
    let required = at.get_positionals().filter(|arg| arg.is_required_set());
    let values = required.fold(String::new(), |values, arg| values + " " + &value(arg));
    Some(format!("choirmaster {path}{values}{options}"))
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string)
}
