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

#[test]
fn behind_a_token_stands_whose_it_is_and_what_it_may_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let path = file.to_str().unwrap().to_owned();
    let read = |key: &'static str, content: &str| {
        std::fs::write(&file, content).unwrap();
        let flags = [(key, path.as_str())];
        let auth = load("", &[], &flags).unwrap().auth;
        if key.contains("join") { auth.doors() } else { auth.operators() }
    };
    let lines = "ann 0123456789abcdef  tenant=acme\nvic 1123456789abcdef roles=viewer,approver tenant=acme\nada 2123456789abcdef\n";
    let found = read("auth.operator_token_file", lines).unwrap();
    let said: Vec<String> = found
        .iter()
        .map(|line| {
            let tenant = line.tenant.as_ref().map_or("-", |tenant| tenant.as_str());
            let roles: Vec<&str> = line.roles.iter().map(|role| role.name()).collect();
            format!("{} {tenant} {}", line.name, roles.join(","))
        })
        .collect();
    assert_eq!(said, ["ann acme ", "vic acme viewer,approver", "ada - "]);
    let door = read("auth.join_token_file", "edge 0123456789abcdef tenant=acme\n").unwrap();
    assert_eq!(door[0].tenant.as_ref().unwrap().as_str(), "acme");
    let mut seen = String::new();
    for (key, line) in [
        ("auth.operator_token_file", "ann 0123456789abcdef tenant=ACME"),
        ("auth.operator_token_file", "ann 0123456789abcdef roles=king"),
        ("auth.operator_token_file", "ann 0123456789abcdef tenant=a tenant=b"),
        ("auth.operator_token_file", "ann 0123456789abcdef another-secret-word"),
        ("auth.operator_token_file", "0123456789abcdef tenant=a-tenant-16-long"),
        ("auth.join_token_file", "ann 0123456789abcdef roles=viewer"),
    ] {
        let fault = read(key, line).unwrap_err();
        seen += &format!("{}\n", fault.message.replace(&path, "FILE"));
        assert!(!fault.message.contains("secret"), "{}", fault.message);
    }
    insta::assert_snapshot!(seen, @"");
}
