//! Actions on all children that options choose.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::{Command, Output, Stdio},
};

use protocol::child::MAX_LABELS;

use super::{PROGRAM, Served, code, err, out, run, words::poll};

/// A manager with two children of the label `site=a` and one without.
struct Site {
    folder: tempfile::TempDir,
    manager: Served,
}

impl Site {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manager = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
        let site = Self { folder, manager };
        for id in ["north-one", "north-two", "south"] {
            poll(&site.manager.url, id);
        }
        for id in ["north-one", "north-two"] {
            let labelled = site.run(&["label", id, "site=a"]);
            assert_eq!(out(&labelled), format!("{id}: site=a\n"), "{}", err(&labelled));
        }
        site
    }

    fn run(&self, args: &[&str]) -> Output {
        let connection = ["--url", &self.manager.url];
        run(self.folder.path(), [&["children"], args, &connection].concat())
    }

    /// The ids of the children that are listed so.
    fn listed(&self, args: &[&str]) -> Vec<String> {
        let list = self.run(&[&["list", "--json"], args].concat());
        assert_eq!(code(&list), 0, "{}", err(&list));
        let children: Vec<serde_json::Value> = serde_json::from_str(&out(&list)).unwrap();
        children.iter().map(|child| child["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// Runs a command on a terminal of its own. Once it asks, `meanwhile` is done and the answer typed: its exit code, and what is written.
fn asked(
    folder: &Path,
    args: &[&str],
    url: &str,
    meanwhile: impl FnOnce(),
    answer: &str,
) -> (Option<i32>, String) {
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &format!("{PROGRAM} children {} --url {url}", args.join(" ")), "/dev/null"]);
    terminal.current_dir(folder).env_clear().env("TERM", "dumb").env("PATH", std::env::var("PATH").unwrap());
    let mut process = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keys = process.stdin.take().unwrap();
    let mut screen = process.stdout.take().unwrap();
    let mut written = Vec::new();
    while !written.ends_with(b"[y/N] ") {
        let mut byte = [0];
        assert_eq!(screen.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&written));
        written.push(byte[0]);
    }
    meanwhile();
    writeln!(keys, "{answer}").unwrap();
    screen.read_to_end(&mut written).unwrap();
    let code = process.wait().unwrap().code();
    (code, String::from_utf8(written).unwrap())
}

#[test]
fn an_action_is_done_to_all_children_that_options_choose_and_to_no_others() {
    let site = Site::start();
    let cordoned = site.run(&["cordon", "--label", "site:a", "--yes"]);
    assert_eq!(
        (code(&cordoned), out(&cordoned).as_str(), err(&cordoned).as_str()),
        (0, "north-one: cordoned\nnorth-two: cordoned\n2 of 2 children: cordoned\n", "")
    );
    assert_eq!(site.listed(&["--cordon", "cordoned"]), ["north-one", "north-two"]);
    let open = site.run(&["uncordon", "--cordon", "cordoned", "--yes"]);
    assert!(out(&open).ends_with("2 of 2 children: takes part again\n"), "{}{}", out(&open), err(&open));
    assert_eq!(site.listed(&["--cordon", "open"]).len(), 3);
    let labelled =
        site.run(&["label", "--label", "site:a", "--kind", "agent", "tier=edge", "site-", "--yes"]);
    assert!(
        out(&labelled).ends_with("2 of 2 children: tier=edge, site removed\n"),
        "{}{}",
        out(&labelled),
        err(&labelled)
    );
    assert_eq!(site.listed(&["--label", "tier:edge"]), ["north-one", "north-two"]);
    let nobody = site.run(&["drain", "--silent-for", "1h"]);
    assert_eq!((code(&nobody), out(&nobody).as_str()), (0, "no such children\n"), "{}", err(&nobody));
    let forgotten = site.run(&["forget", "--silent-for", "0s", "--yes"]);
    assert!(out(&forgotten).ends_with("3 of 3 children: forgotten\n"), "{}", err(&forgotten));
    assert!(site.listed(&[]).is_empty());
}

#[test]
fn children_that_failed_are_named_with_why_and_the_others_have_it() {
    let site = Site::start();
    let most: Vec<String> = (1..MAX_LABELS).map(|number| format!("l{number}=x")).collect();
    let words: Vec<&str> = most.iter().map(String::as_str).collect();
    assert_eq!(code(&site.run(&[&["label", "north-one"], &words[..]].concat())), 0);
    let labelled = site.run(&["label", "--label", "site:a", "more=x", "--yes"]);
    assert_eq!(
        (code(&labelled), out(&labelled).as_str()),
        (2, "north-two: more=x\n1 of 2 children: more=x; 1 failed\n")
    );
    assert!(err(&labelled).starts_with("north-one: failed: "), "{}", err(&labelled));
    assert_eq!(site.listed(&["--label", "more:x"]), ["north-two"]);
    // Neither has joined, so neither has a token.
    let revoked = site.run(&["revoke", "--label", "site:a", "--yes"]);
    assert_eq!(
        (code(&revoked), out(&revoked).as_str()),
        (1, "0 of 2 children: token revoked; 2 failed\n"),
        "{}",
        err(&revoked)
    );
}

#[test]
fn a_choice_that_can_not_be_meant_changes_nothing_and_is_told() {
    let site = Site::start();
    for (args, parts) in [
        (
            &["forget", "--label", "site:a"][..],
            &[
                "north-one",
                "north-two",
                "Forget 2 children of http://127.0.0.1:",
                "without a terminal",
                "add --yes",
            ][..],
        ),
        (&["cordon"], &["name a child, or choose some", "--silent-for"]),
        (&["cordon", "south", "--label", "site:a", "--yes"], &["both south and options"]),
        (&["cordon", "--label", "site:a", "--limit", "1", "--yes"], &["more than 1 child", "raise --limit"]),
        (&["cordon", "--silent-for", "long", "--yes"], &["looks like 90s, 5m or 2h"]),
        (&["label", "--label", "site:a", "tier", "--yes"], &["\"tier\" is no label", "tier=edge to set"]),
        (&["label", "south"], &["say what to set (KEY=VALUE)"]),
        (&["label", "--label", "site:a", "--yes"], &["Usage: choirmaster children label"]),
    ] {
        let refused = site.run(args);
        assert_eq!((code(&refused), out(&refused)), (1, String::new()), "{args:?}");
        for part in parts {
            assert!(err(&refused).contains(part), "{args:?}: {}", err(&refused));
        }
    }
    assert_eq!(site.listed(&["--cordon", "open"]), ["north-one", "north-two", "south"]);
}

#[test]
fn on_a_terminal_it_is_asked_once_and_who_is_meant_no_more_is_left_out() {
    let site = Site::start();
    let (folder, url) = (site.folder.path(), site.manager.url.as_str());
    let forget = ["forget", "--label", "site:a"];
    let (ended, written) = asked(folder, &forget, url, || (), "");
    assert_eq!(ended, Some(1), "{written}");
    assert!(
        written.contains("north-one") && written.contains("Forget 2 children of http://127.0.0.1:"),
        "{written}"
    );
    assert!(written.contains("nothing was done"), "{written}");
    assert_eq!(site.listed(&[]).len(), 3);
    let meanwhile = || assert_eq!(code(&site.run(&["label", "north-two", "site=b"])), 0);
    let (ended, written) = asked(folder, &forget, url, meanwhile, "y");
    assert_eq!(ended, Some(0), "{written}");
    assert!(written.contains("north-two: left out"), "{written}");
    assert!(written.contains("1 of 1 child: forgotten"), "{written}");
    assert_eq!(site.listed(&[]), ["north-two", "south"]);
}
