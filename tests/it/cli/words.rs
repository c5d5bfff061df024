//! Small things that somebody at a terminal meets.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use super::{Served, code, err, out, program, run};
use crate::{ports::free_port, world::AREA};

/// A child's poll under an id of its own.
pub fn poll(url: &str, id: &str) {
    let address = url.strip_prefix("http://").unwrap();
    let body = format!(r#"{{"id":"{id}","geographic_area":{AREA},"number_of_children":0}}"#);
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "POST /poll HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    );
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The body of an answer.
pub fn get(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

#[test]
fn an_export_replaces_a_file_only_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let manager = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    let file = folder.path().join("backup.jsonl");
    let export = ["store", "export", "--store", "sqlite://data/choirmaster.db", "--out", "backup.jsonl"];
    assert_eq!(code(&run(folder.path(), export)), 0);
    std::fs::write(&file, "the only good one").unwrap();
    let refused = run(folder.path(), export);
    assert_eq!(code(&refused), 1);
    assert!(err(&refused).contains("is there already"), "{}", err(&refused));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "the only good one");
    assert_eq!(code(&run(folder.path(), export.into_iter().chain(["--force"]))), 0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("choirmaster-store"));
    drop(manager);
}

#[test]
fn a_manager_that_is_its_own_parent_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (own, parent) = (format!("127.0.0.1:{port}"), format!("http://localhost:{port}"));
    let output = run(folder.path(), ["serve", "--listen", &own, "--parent", &parent]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(err(&output).contains("is this manager itself"), "{}", err(&output));
}

#[test]
fn a_tree_is_started_whatever_address_the_variable_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut tree = program(folder.path());
    tree.args(["fleet", "--tree", "1x1", "--pace", "0.1", "--for", "1s"])
        .env("CHOIRMASTER_URL", "http://127.0.0.1:1");
    let output = tree.output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    let both = run(folder.path(), ["fleet", "--tree", "1x1", "--url", "http://127.0.0.1:1"]);
    assert_ne!(code(&both), 0);
}

#[test]
fn child_id_may_be_abbreviated_to_unique_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let manager = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    for id in ["north-one", "north-two", "no"] {
        poll(&manager.url, id);
    }
    let show = |id: &str| run(folder.path(), ["children", "show", id, "--url", &manager.url]);
    assert!(out(&show("north-t")).starts_with("north-two\n"), "{}", out(&show("north-t")));
    assert!(out(&show("no")).starts_with("no\n"), "a whole id is meant");
    let unclear = show("north");
    assert_eq!(code(&unclear), 1);
    assert!(err(&unclear).contains("may be north-one, north-two"), "{}", err(&unclear));
    assert_eq!(code(&show("nor")), 1, "too short to be meant");
    assert_eq!(code(&show("south")), 1);
    let cordoned = run(folder.path(), ["children", "cordon", "north-o", "--url", &manager.url]);
    assert_eq!(out(&cordoned), "north-one: cordoned\n", "{}", err(&cordoned));
    let listed = out(&run(folder.path(), ["children", "list", "--url", &manager.url]));
    let one = listed.lines().find(|line| line.starts_with("north-one")).unwrap();
    let cells: Vec<&str> = one.split_whitespace().collect();
    assert_eq!(cells[1..7], ["-", "52.5200N", "13.4050E", "agent", "1", "cordoned"], "{listed}");
}

#[test]
fn audit_listing_is_limited_and_mentions_more_only_if_present() {
    let folder = tempfile::tempdir().unwrap();
    let manager = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    for id in ["one", "two", "three", "four", "five"] {
        poll(&manager.url, id);
        let cordon = run(folder.path(), ["children", "cordon", id, "--url", &manager.url]);
        assert_eq!(code(&cordon), 0);
    }
    let audit = |args: &[&str]| {
        let output = run(folder.path(), [&["audit", "--url", &manager.url], args].concat());
        assert_eq!(code(&output), 0, "{}", err(&output));
        out(&output)
    };
    let entries: Vec<serde_json::Value> =
        audit(&["--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = entries.len();
    assert!(all >= 5);
    assert!(!audit(&["--limit", &all.to_string()]).contains("and more"));
    assert!(audit(&["--limit", &(all - 1).to_string()]).contains("and more"));
    assert_eq!(audit(&["--limit", "2", "--json"]).lines().count(), 2);
    assert_eq!(audit(&["--since", "1h", "--json"]).lines().count(), all);
    assert_eq!(audit(&["--since", "2999-01-01T00:00:00Z", "--json"]), "");
    for entry in &entries {
        let time = entry["at"].as_str().unwrap();
        let at =
            |entry: &serde_json::Value| entry["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let expected = entries.iter().filter(|other| at(other) >= at(entry)).count();
        assert_eq!(audit(&["--since", time, "--json"]).lines().count(), expected, "since {time}");
    }
}

#[test]
fn a_list_of_nothing_is_asked_for_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    for list in ["children list", "release list", "release show x", "deployments", "audit", "plan x.yml"] {
        let refused =
            run(folder.path(), list.split(' ').chain(["--limit", "0", "--url", "http://127.0.0.1:1"]));
        assert_eq!(code(&refused), 1, "{list}: {}", err(&refused));
        assert!(err(&refused).contains("it is a whole number from 1"), "{list}: {}", err(&refused));
    }
}

/// A folder may be called anything, and its name is said of it.
#[test]
fn the_name_of_a_folder_does_not_move_the_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let manager = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    let odd = folder.path().join("releases/red\u{1b}[31m\u{202e}");
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::copy(super::repository().join("releases/canary.yml"), odd.join("release.yml")).unwrap();
    let output = run(folder.path(), ["release", "import", "releases", "--url", &manager.url]);
    assert_eq!(code(&output), 1, "it has no functions");
    let said = err(&output);
    assert!(said.contains("fns.zip") && !said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
    let store = format!("sqlite://{}", odd.join("none.db").display());
    let said = err(&run(folder.path(), ["store", "info", "--store", &store]));
    assert!(said.starts_with("error: there is no store at ") && !said.contains('\u{1b}'), "{said:?}");
}

/// What a command writes to a terminal of its own.
fn on_a_terminal(folder: &std::path::Path, variables: &[(&str, &str)], command: &str) -> String {
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-qec", &format!("{} {command}", super::PROGRAM), "/dev/null"]).current_dir(folder);
    terminal
        .stdin(std::process::Stdio::null())
        .env_clear()
        .env("TERM", "xterm")
        .envs(variables.iter().copied());
    terminal.env("PATH", std::env::var("PATH").unwrap());
    let written = terminal.output().unwrap();
    assert!(written.status.success(), "{}{}", out(&written), err(&written));
    out(&written)
}

#[test]
fn states_have_colours_on_a_terminal_that_wants_them_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let manager = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    let sample = super::repository().join("releases/canary.yml").display().to_string();
    let submitted = run(folder.path(), ["release", "submit", &sample, "--wait", "--url", &manager.url]);
    assert_eq!(code(&submitted), 6, "nobody takes part: {}{}", out(&submitted), err(&submitted));
    let url = ("CHOIRMASTER_URL", manager.url.as_str());
    for command in ["release list", "release show canary"] {
        let shown = on_a_terminal(folder.path(), &[url], command);
        assert!(shown.contains("\u{1b}[33mNoParticipants\u{1b}[0m"), "{command}: {shown:?}");
        let plain = on_a_terminal(folder.path(), &[url, ("NO_COLOR", "1")], command);
        assert!(plain.contains("NoParticipants") && !plain.contains('\u{1b}'), "{command}: {plain:?}");
        let args = command.split(' ').chain(["--url", &manager.url]);
        assert!(!out(&run(folder.path(), args)).contains('\u{1b}'));
    }
    // A terminal is as wide as it says, and what is no terminal has no end.
    let narrow = [url, ("NO_COLOR", "1"), ("COLUMNS", "60")];
    let cut = on_a_terminal(folder.path(), &narrow, "release list");
    assert!(cut.lines().all(|line| line.chars().count() <= 60) && cut.contains('…'), "{cut}");
    let whole = out(&run(folder.path(), ["release", "list", "--url", &manager.url]));
    assert!(whole.contains("  Canary of the sieve, 5 percent\n"), "{whole}");
}

#[test]
fn held_store_error_never_suggests_waiting_zero_seconds() {
    for (millis, said) in [(0, "wait 1 s,"), (1, "wait 1 s,"), (1_000, "wait 1 s,"), (1_001, "wait 2 s,")] {
        let retry_after = std::time::Duration::from_millis(millis);
        let held = store::StoreError::Held { holder: "another".to_owned(), retry_after };
        assert!(held.to_string().contains(said), "{held}");
    }
}
