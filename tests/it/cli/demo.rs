//! The demo, from its first line to its exit code.

use std::path::Path;

use super::{code, err, out, run};

#[test]
fn the_demo_comes_out_as_it_should_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = super::program(folder.path());
    let output = demo.args(["demo", "--pace", "0.1"]).env("TMPDIR", folder.path()).output().unwrap();
    let text = out(&output);
    assert_eq!(code(&output), 0, "{text}\n{}", err(&output));
    assert!(text.contains("SIMULATED") && text.contains("listening on http://127.0.0.1:"), "{text}");
    assert!(text.contains("13 of 13 releases came out as they should"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.ends_with("as it should")).collect();
    assert_eq!(rows.len(), 13, "{text}");
    let bad: Vec<&str> =
        rows.iter().find(|row| row.starts_with("bad ")).unwrap().split_whitespace().collect();
    assert_eq!(&bad[..6], ["bad", "DoneWithFailures", "0", "20", "0", "20"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(processes_with(folder.path()), Vec::<String>::new());
    let everywhere: Vec<&str> =
        rows.iter().find(|row| row.starts_with("everywhere ")).unwrap().split_whitespace().collect();
    assert_eq!(
        (everywhere[1], &everywhere[4..6]),
        ("RolledBack", &["0", "12"][..]),
        "rolled back is rolled back"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "too long for a terminal: {line}");
    }
    let own = |id: &str| -> Vec<&str> {
        rows.iter().find(|row| row.starts_with(id)).unwrap().split_whitespace().take(6).collect()
    };
    assert_eq!(own("own-good "), ["own-good", "Done", "2", "0", "2", "0"]);
    assert_eq!(own("own-bad "), ["own-bad", "DoneWithFailures", "0", "2", "0", "2"]);
    assert_eq!((own("shop-good ")[1], &own("shop-good ")[4..]), ("Done", &["2", "0"][..]));
    assert_eq!((own("shop-bad ")[1], &own("shop-bad ")[4..]), ("RolledBack", &["0", "2"][..]));
    assert!(text.contains("REAL") && text.contains(" times, and 0 of the calls were lost;"), "{text}");
    let fault =
        text.lines().find(|line| line.contains(" in stage Half: errorRate ")).expect("whose failure it was");
    let child = fault.split_whitespace().next().unwrap();
    assert!(child.len() == 8 && child.chars().all(|c| c.is_ascii_hexdigit()), "{fault}");
}

/// Arguments of processes that name a folder: agents, proxies and what watches versions do.
fn processes_with(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let arguments = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let texts = arguments.map(|text| String::from_utf8_lossy(&text).replace('\0', " "));
    texts.filter(|text| text.contains(folder.to_str().unwrap())).collect()
}

#[test]
fn a_demo_at_an_impossible_pace_is_the_callers_fault() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), ["demo", "--pace", "0"]);
    assert_eq!(code(&output), 1, "{}", err(&output));
}
