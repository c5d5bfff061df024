//! `choirmaster context …`, and commands that use what it keeps.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread::JoinHandle,
};

use super::{Served, code, err, out, program};

const NONE: &[(&str, &str)] = &[];

/// Where commands of these tests keep contexts.
fn kept(folder: &Path) -> PathBuf {
    folder.join(".config/choirmaster/contexts.yml")
}

/// What a command says, its exit code behind. `variables`: set for it.
fn say(folder: &Path, variables: &[(&str, &str)], line: &str) -> String {
    let output = program(folder).args(line.split(' ')).envs(variables.iter().copied()).output().unwrap();
    let said = out(&output) + &err(&output);
    format!("{said}({})", code(&output))
}

/// Something that answers each call like a manager without releases, and gives what was asked once a call was answered.
struct Listening {
    at: SocketAddr,
    asked: JoinHandle<String>,
}

impl Listening {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut head, mut room) = (Vec::new(), [0; 4096]);
            while !head.windows(4).any(|four| four == b"\r\n\r\n") {
                let read = stream.read(&mut room).unwrap();
                head.extend_from_slice(&room[..read]);
            }
            let body = r#"{"items":[],"next":null}"#;
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(head).unwrap().to_ascii_lowercase()
        });
        Self { at, asked }
    }

    fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    fn asked(self) -> String {
        self.asked.join().unwrap()
    }
}

#[test]
fn contexts_are_added_used_shown_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), "a-secret\n").unwrap();
    let mut seen = String::new();
    for line in [
        "context list",
        "context show",
        "context add prod --url https://choir.example.org/ --token-file token",
        "context add local --url http://127.0.0.1:9991",
        "context use prod",
        "context list",
        "context show",
        "context show local",
        "context use prd",
        "context add prod --url http://127.0.0.1:1",
        "context remove prod",
        "context use --none",
        "context remove local",
        "context use local",
    ] {
        let said = say(folder.path(), &[], line);
        seen += &format!("$ {line}\n{said}\n");
    }
    // Columns are as wide as the path of the folder.
    let mut seen = seen.replace(&folder.path().display().to_string(), "FOLDER");
    while seen.contains("  ") {
        seen = seen.replace("  ", " ");
    }
    insta::assert_snapshot!(seen, @r#"
    $ context list
    no contexts: choirmaster context add NAME --url URL
    (0)
    $ context show
    commands use no context: http://127.0.0.1:9991
    (0)
    $ context add prod --url https://choir.example.org/ --token-file token
    prod: added
    With --context prod a command uses it; after choirmaster context use prod all do
    (0)
    $ context add local --url http://127.0.0.1:9991
    local: added
    With --context local a command uses it; after choirmaster context use local all do
    (0)
    $ context use prod
    commands use prod now: https://choir.example.org
    (0)
    $ context list
    NAME URL TOKEN FILE CA
    local http://127.0.0.1:9991 - -
    prod (current) https://choir.example.org FOLDER/token -
    (0)
    $ context show
    prod
     url https://choir.example.org
     token file FOLDER/token
     ca -
     current yes
    (0)
    $ context show local
    local
     url http://127.0.0.1:9991
     token file -
     ca -
     current no
    (0)
    $ context use prd
    error: there is no context "prd"; did you mean prod?
    (1)
    $ context add prod --url http://127.0.0.1:1
    error: the context prod is there already: choirmaster context remove prod takes it away
    (1)
    $ context remove prod
    prod: removed; commands use no context now
    (0)
    $ context use --none
    commands use no context now: http://127.0.0.1:9991
    (0)
    $ context remove local
    local: removed
    (0)
    $ context use local
    error: there is no context "local"; there is none yet: choirmaster context add local --url URL
    (1)
    "#);
}

#[test]
fn the_file_is_its_owners_alone_and_holds_no_token() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), "a-secret\n").unwrap();
    let add = "context add prod --url http://127.0.0.1:1 --token-file token";
    assert!(say(folder.path(), &[], add).ends_with("(0)"));
    let file = kept(folder.path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let text = fs::read_to_string(&file).unwrap();
    let token = folder.path().join("token").display().to_string();
    assert!(text.contains(&token) && !text.contains("a-secret"), "{text}");
    let listed = say(folder.path(), &[], "context list --json");
    let listed: serde_json::Value = serde_json::from_str(listed.strip_suffix("(0)").unwrap()).unwrap();
    let prod = serde_json::json!({
        "name": "prod", "url": "http://127.0.0.1:1", "token_file": token, "ca": null, "current": false,
    });
    assert_eq!(listed, serde_json::json!([prod]));
    // Whoever may change it decides where tokens are sent.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
    let refused = say(folder.path(), &[], "release list");
    assert!(refused.contains("others may change that file") && refused.contains("chmod 600"), "{refused}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "contexts: {prod: {address: x}}").unwrap();
    let refused = say(folder.path(), &[], "release list");
    assert!(refused.contains("contexts.yml can't be read") && refused.ends_with("(1)"), "{refused}");
    let other = say(folder.path(), &[], "release list --url http://127.0.0.1:1");
    assert!(
        other.contains("no manager answers at http://127.0.0.1:1"),
        "who names an address needs none: {other}"
    );
}

#[test]
fn what_is_no_context_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.pem"), "").unwrap();
    for (line, part) in [
        ("context add a/b --url http://127.0.0.1:1", "\"a/b\" is no name of a context"),
        ("context add a --url 127.0.0.1", "is no address of a manager"),
        ("context add a --url http://ada:secret@127.0.0.1:1", "put the token into a file"),
        ("context add a --url http://127.0.0.1:1 --token-file nowhere", "nowhere can't be read"),
        ("context add a --url http://127.0.0.1:1 --token-file .", ". is no file"),
        ("context add a --url http://127.0.0.1:1 --ca empty.pem", "holds no certificate"),
        ("context use", "Usage: choirmaster context use"),
        ("release list --context a", "there is no context \"a\"; there is none yet"),
    ] {
        let refused = say(folder.path(), &[], line);
        assert!(refused.contains(part) && refused.ends_with("(1)"), "{line}: {refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
    assert!(!kept(folder.path()).exists());
}

#[test]
fn flags_and_variables_win_over_the_context_and_errors_name_the_one_that_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let manager = Served::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    for (name, url) in [("good", manager.url.as_str()), ("gone", "http://127.0.0.1:1")] {
        let added = say(folder.path(), &[], &format!("context add {name} --url {url}"));
        assert!(added.ends_with("(0)"), "{added}");
    }
    let lists = |variables: &[(&str, &str)], line: &str| {
        let said = say(folder.path(), variables, line);
        assert!(
            said.ends_with("(0)") || said.contains("no manager answers at http://127.0.0.1:1:"),
            "{said}"
        );
        (said.ends_with("(0)"), said.lines().find(|line| line.starts_with("Context: ")).map(str::to_owned))
    };
    let gone = Some("Context: gone".to_owned());
    assert_eq!(lists(&[], "release list --context good"), (true, None));
    assert_eq!(lists(&[], "release list --context gone"), (false, gone.clone()));
    assert_eq!(lists(&[("CHOIRMASTER_CONTEXT", "gone")], "release list"), (false, gone.clone()));
    assert_eq!(lists(&[("CHOIRMASTER_CONTEXT", "gone")], "release list --context good"), (true, None));
    assert!(say(folder.path(), &[], "context use gone").ends_with("(0)"));
    assert_eq!(lists(&[], "release list"), (false, gone.clone()));
    assert_eq!(lists(&[], "release list --context good"), (true, None));
    assert_eq!(lists(&[("CHOIRMASTER_URL", manager.url.as_str())], "release list"), (true, None));
    assert_eq!(lists(&[("CHOIRMASTER_URL", "http://127.0.0.1:1")], "release list"), (false, None));
    let both = format!("release list --context gone --url {}", manager.url);
    assert_eq!(lists(&[], &both), (true, None));
    let unknown = say(folder.path(), &[], "release show nonsense --context good");
    assert!(unknown.ends_with("\nContext: good\n(1)"), "also what the manager refuses: {unknown}");
}

#[test]
fn the_token_of_a_context_is_sent_to_its_own_address_alone_and_gives_way_to_others() {
    let folder = tempfile::tempdir().unwrap();
    for (file, token) in [("token", "of-the-context"), ("other", "of-a-flag")] {
        fs::write(folder.path().join(file), format!("{token}\n")).unwrap();
    }
    for (number, (more, variables, sent)) in [
        ("", NONE, Some("of-the-context")),
        (" --token-file other", NONE, Some("of-a-flag")),
        ("", &[("CHOIRMASTER_TOKEN", "of-a-variable")], Some("of-a-variable")),
        (" --url ELSEWHERE", NONE, None),
        (" --url ELSEWHERE --token-file other", NONE, Some("of-a-flag")),
    ]
    .into_iter()
    .enumerate()
    {
        let called = Listening::start();
        let own = if more.contains("ELSEWHERE") { "http://127.0.0.1:1".to_owned() } else { called.url() };
        let added = say(folder.path(), &[], &format!("context add c{number} --url {own} --token-file token"));
        assert!(added.ends_with("(0)"), "{added}");
        let more = more.replace("ELSEWHERE", &called.url());
        let said = say(folder.path(), variables, &format!("release list --context c{number}{more}"));
        assert_eq!(said, "no releases\n(0)");
        let asked = called.asked();
        let shown = asked.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
        assert_eq!(shown, sent, "{more}");
    }
}

#[test]
fn a_manager_with_a_certificate_of_ones_own_authority_is_believed_where_the_context_names_that() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(folder.path().join("a.crt"), made.cert.pem()).unwrap();
    fs::write(folder.path().join("a.key"), made.signing_key.serialize_pem()).unwrap();
    let set = ["--listen", "127.0.0.1:0", "--set", "tls.certificate=a.crt", "--set", "tls.key=a.key"];
    let manager = Served::start(folder.path(), &set);
    assert!(manager.url.starts_with("https://"), "{}", manager.url);
    let added = say(folder.path(), &[], &format!("context add prod --url {} --ca a.crt", manager.url));
    assert!(added.ends_with("(0)"), "{added}");
    assert_eq!(say(folder.path(), &[], "release list --context prod"), "no releases\n(0)");
    let stranger = say(folder.path(), &[], &format!("release list --url {}", manager.url));
    assert!(stranger.contains("with --ca, or in the context") && stranger.ends_with("(2)"), "{stranger}");
    let by_flag =
        say(folder.path(), &[("CHOIRMASTER_CA", "a.crt")], &format!("release list --url {}", manager.url));
    assert_eq!(by_flag, "no releases\n(0)");
}
