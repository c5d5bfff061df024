//! Commands that there aren't, and what is said of them.

use choirmaster::cli::{
    Cli,
    guess::{ANY, GUESSES, shown, tip},
};
use clap::{Command, CommandFactory as _};

use super::{code, err, out, run};

/// The command behind which a guess stands.
fn at<'c>(root: &'c Command, path: &str) -> &'c Command {
    path.split(' ')
        .filter(|word| !word.is_empty())
        .fold(root, |at, word| at.find_subcommand(word).expect(path))
}

#[test]
fn every_command_that_a_guess_names_is_there_and_no_word_of_it_is_one() {
    let root = Cli::command();
    for guess in GUESSES {
        let of_all = guess.behind == ANY;
        for meant in guess.meant.iter().filter(|meant| !meant.contains(ANY)) {
            let shown = shown(&root, meant).unwrap_or_else(|| panic!("there is no {meant}"));
            let (_, options) = meant.split_once(" --").unwrap_or_default();
            let option = options.split(' ').next().unwrap_or_default();
            let command = at(&root, meant.split(" --").next().unwrap());
            let is_known = |name: &str| command.get_arguments().any(|arg| arg.get_long() == Some(name));
            assert!(option.is_empty() || is_known(option), "{shown}");
        }
        for said in guess.said.iter().filter(|_| !of_all) {
            let there = at(&root, guess.behind).find_subcommand(said);
            assert!(there.is_none(), "{} {said} is a command: take it out of the guesses", guess.behind);
        }
    }
}

#[test]
fn guesses_that_people_of_other_tools_make_are_answered() {
    let root = Cli::command();
    let mut seen = String::new();
    for (behind, words) in [
        ("", "history logs list get describe delete ps top undo submit approve"),
        ("release", "get describe delete history log revert ls cancel"),
        ("children", "get describe delete rm logs"),
        ("router", "get describe"),
        ("agent", "list ps get"),
        ("agent functions", "get delete"),
        ("workflow", "delete create"),
        ("store", "describe"),
    ] {
        for said in words.split(' ') {
            let tip = tip(&root, behind, said);
            seen += format!("{behind} {said}: {}\n", tip.as_deref().unwrap_or("-")).trim_start();
        }
    }
    insta::assert_snapshot!(seen, @r"
    history: that is choirmaster audit or choirmaster release list
    logs: that is choirmaster agent logs, choirmaster release logs RELEASE or choirmaster audit
    list: that is choirmaster release list, choirmaster children list, choirmaster router list or choirmaster service list
    get: that is choirmaster release list, choirmaster release show RELEASE, choirmaster children list or choirmaster children show CHILD
    describe: that is choirmaster release show RELEASE, choirmaster children show CHILD, choirmaster router show ROUTER or choirmaster service show SERVICE
    delete: that is choirmaster release abort RELEASE, choirmaster children forget, choirmaster service retire SERVICE or choirmaster workflow stop NAME
    ps: that is choirmaster deployments, choirmaster agent status or choirmaster workflow list
    top: that is choirmaster status, choirmaster release watch RELEASE or choirmaster agent status
    undo: that is choirmaster release rollback RELEASE or choirmaster agent rollback
    submit: that is choirmaster release submit FILE|DIR
    approve: that is choirmaster release approve RELEASE
    release get: that is choirmaster release list or choirmaster release show RELEASE
    release describe: that is choirmaster release show RELEASE
    release delete: that is choirmaster release abort RELEASE
    release history: that is choirmaster audit --release RELEASE or choirmaster release list
    release log: that is choirmaster release logs RELEASE or choirmaster release show RELEASE --results
    release revert: that is choirmaster release rollback RELEASE or choirmaster release abort RELEASE
    release ls: that is choirmaster release list
    release cancel: that is choirmaster release abort RELEASE
    children get: that is choirmaster children list or choirmaster children show CHILD
    children describe: that is choirmaster children show CHILD
    children delete: that is choirmaster children forget
    children rm: that is choirmaster children forget
    children logs: that is choirmaster agent logs or choirmaster audit
    router get: that is choirmaster router list or choirmaster router show ROUTER
    router describe: that is choirmaster router show ROUTER
    agent list: that is choirmaster agent status or choirmaster agent functions list
    agent ps: that is choirmaster agent status or choirmaster agent functions list
    agent get: that is choirmaster agent status
    agent functions get: that is choirmaster agent functions list
    agent functions delete: that is choirmaster agent functions remove NAME
    workflow delete: that is choirmaster workflow stop NAME
    workflow create: that is choirmaster workflow start FILE
    store describe: that is choirmaster store info
    ");
    assert_eq!(tip(&root, "", "nonsense"), None);
    assert_eq!(tip(&root, "release", "canary"), None);
}

#[test]
fn the_answer_stands_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let said = run(folder.path(), ["release", "get", "canary", "--json"]);
    assert_eq!((code(&said), out(&said)), (1, String::new()));
    insta::assert_snapshot!(err(&said), @r"
    error: unrecognized subcommand 'get'

      tip: that is choirmaster release list or choirmaster release show RELEASE

    Usage: choirmaster release <COMMAND>

    For more information, try '--help'.
    ");
    // A word that is like a command of another meaning gets the answer alone.
    let said = err(&run(folder.path(), ["delete"]));
    assert!(said.contains("choirmaster children forget") && !said.contains("similar"), "{said}");
    let unknown = err(&run(folder.path(), ["releese", "list"]));
    assert!(unknown.contains("a similar subcommand exists: 'release'"), "{unknown}");
}
