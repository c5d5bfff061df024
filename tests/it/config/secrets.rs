//! Secrets come from variables and files, and are shown nowhere.

use super::load;

const TOKEN: &str = "a-token-that-nobody-may-see";

#[test]
fn no_secret_is_shown() {
    let variables = [
        ("CHOIRMASTER_AUTH_OPERATOR_TOKEN", TOKEN),
        ("CHOIRMASTER_STORE", "postgres://rm:a-token-that-nobody-may-see@db/rm"),
    ];
    let config = load("", &variables, &[]).unwrap();
    assert_eq!(config.auth.operators().unwrap()[0].token.reveal(), TOKEN);
    let shown = format!("{config:?} {:?}", config.keys());
    assert!(!shown.contains(TOKEN), "{shown}");
}

#[test]
fn tokens_of_operators_come_from_a_file_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("operators");
    std::fs::write(&file, "# who may release\nann 0123456789abcdef\n\nfedcba9876543210\n").unwrap();
    let flag = [("auth.operator_token_file", file.to_str().unwrap())];
    let operators = load("", &[], &flag).unwrap().auth.operators().unwrap();
    let read: Vec<(&str, &str)> =
        operators.iter().map(|line| (line.name.as_str(), line.token.reveal())).collect();
    assert_eq!(read, [("ann", "0123456789abcdef"), ("operator", "fedcba9876543210")]);
}

#[test]
fn tokens_that_are_none_are_refused_without_showing_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    for (content, reason) in [
        ("child-1 short", "line 1: a token has at least 16 characters"),
        ("0123456789abcdef", "line 1: it looks like ID TOKEN"),
        ("# nobody\n", "holds no token"),
        ("a 0123456789abcdef\n\nb 0123456789abcdef", "line 3: its token is that of line 1"),
        ("a 0123456789abcdef\na fedcba9876543210", "child a has two tokens"),
    ] {
        std::fs::write(&file, content).unwrap();
        let flag = [("auth.child_token_file", file.to_str().unwrap())];
        let fault = load("", &[], &flag).unwrap().auth.children().unwrap_err();
        assert_eq!(fault.place, "auth.child_token_file");
        assert!(fault.message.contains(reason), "{}", fault.message);
        assert!(!fault.message.contains("short"), "{}", fault.message);
        assert!(!fault.message.contains("0123456789abcdef"), "{}", fault.message);
    }
}
