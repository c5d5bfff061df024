//! `choirmaster serve` as a process.

use super::{Served, code, err, out, run};

#[test]
fn serve_prints_one_line_and_ends_with_0_on_sigterm_and_sigint() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["TERM", "INT"] {
        let served = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
        let port = served.url.strip_prefix("http://127.0.0.1:").and_then(|port| port.parse::<u16>().ok());
        assert!(port.is_some_and(|port| port > 0), "{:?}", served.url);
        served.signal(signal);
        assert_eq!(served.end(), (Some(0), String::new()));
    }
    assert!(folder.path().join("data/choirmaster.db").is_file());
}

#[test]
fn a_second_manager_on_one_store_says_so_and_a_standby_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let first = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    let second = run(folder.path(), ["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!((code(&second), out(&second)), (1, String::new()));
    assert!(err(&second).contains("start with --standby"), "{}", err(&second));
    let path = folder.path().to_owned();
    let standby = std::thread::spawn(move || Served::start(&path, &["--listen", "127.0.0.1:0", "--standby"]));
    first.signal("TERM");
    assert_eq!(first.end().0, Some(0));
    let standby = standby.join().unwrap();
    assert!(standby.url.starts_with("http://"), "{:?}", standby.url);
    standby.signal("TERM");
    assert_eq!(standby.end().0, Some(0));
}

#[test]
fn a_configuration_with_an_unknown_key_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("config/choirmaster.yml"), "limits:\n  max_childs: 5\n").unwrap();
    let served = run(folder.path(), ["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!((code(&served), out(&served)), (1, String::new()));
    insta::assert_snapshot!(err(&served), @r#"
    error: the configuration can't be used
      config/choirmaster.yml:2:3: there is no key "limits.max_childs"; did you mean limits.max_children?
    "#);
    assert!(!folder.path().join("data").exists());
}

#[test]
fn an_address_that_others_can_reach_starts_nothing_without_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let served = run(folder.path(), ["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!((code(&served), out(&served)), (1, String::new()));
    assert!(err(&served).contains("auth.operator_token_file"), "{}", err(&served));
}

#[test]
fn with_a_token_nobody_acts_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    let setting = format!("auth.operator_token_file={}", token.display());
    let served = Served::start(folder.path(), &["--listen", "127.0.0.1:0", "--set", &setting]);
    let without = run(folder.path(), ["release", "list", "--url", &served.url]);
    assert_eq!(code(&without), 1);
    assert!(err(&without).contains("--token-file"), "{}", err(&without));
    let with = run(folder.path(), ["release", "list", "--url", &served.url, "--token-file", "token"]);
    assert_eq!((code(&with), out(&with).as_str()), (0, "no releases\n"), "{}", err(&with));
}

#[test]
fn logs_are_json_where_that_is_wanted_and_go_to_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = super::program(folder.path());
    let process = served
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = process.id().to_string();
    let reader = std::thread::spawn(move || process.wait_with_output().unwrap());
    // The store's file is there before the manager has begun to listen, and from then on a signal ends it in order.
    let file = folder.path().join("data/choirmaster.db");
    while !file.exists() {
        std::thread::yield_now();
    }
    assert!(std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let output = reader.join().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    for line in err(&output).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
}
