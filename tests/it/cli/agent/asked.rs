//! What an agent is asked, and what is printed of its answers.

use std::{
    process::Output,
    sync::{Arc, Mutex},
};

use agent::control::{
    self, Control, Order, Refused,
    form::{Added, NewFunction, Removed, Retry, Status, Sticky, Undo, Undone, Which},
};
use tokio::{runtime::Runtime, sync::mpsc};

use super::{
    super::{code, err, out, run},
    resting,
};

/// An agent of which only the control is there.
struct Imitated {
    folder: tempfile::TempDir,
    asked: Arc<Mutex<Vec<String>>>,
    _control: Control,
    _runtime: Runtime,
}

impl Imitated {
    fn start(status: Status) -> Self {
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (sender, orders) = mpsc::channel(4);
        let within = runtime.enter();
        let control = control::open(&folder.path().join("data/agent.sock"), None, sender).unwrap();
        drop(within);
        runtime.spawn(answer(orders, status, Arc::clone(&asked)));
        Self { folder, asked, _control: control, _runtime: runtime }
    }

    fn run(&self, args: &[&str]) -> Output {
        run(self.folder.path(), [&["agent"], args].concat())
    }

    fn ask(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(code(&output), 0, "{args:?}: {}", err(&output));
        out(&output)
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!((code(&output), out(&output)), (1, String::new()), "{args:?}");
        err(&output)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(mut orders: mpsc::Receiver<Order>, status: Status, asked: Arc<Mutex<Vec<String>>>) {
    let known: Vec<String> = status.functions.iter().map(|function| function.name.clone()).collect();
    let check = |name: &str| {
        let unknown = Refused::Unknown { name: name.to_owned(), known: known.clone() };
        known.iter().any(|known| known == name).then_some(()).ok_or(unknown)
    };
    while let Some(order) = orders.recv().await {
        let said = match order {
            Order::Status(answer) => {
                let _ = answer.send(status.clone());
                continue;
            }
            Order::Undo { undo: Undo { function, why }, answer } => {
                let said = format!("undo {function:?} {why:?}");
                let done = function.as_deref().map_or(Ok(()), check);
                let text = "the version before serves again".to_owned();
                let _ = answer.send(done.map(|()| Undone { functions: known.clone(), text }));
                said
            }
            Order::Add { name, function, answer } => {
                let NewFunction { folder, runner, sticky, retry } = function;
                let said = format!("add {name} {} {runner:?} {sticky:?} {retry:?}", folder.display());
                let at = vec![format!("http://127.0.0.1:8000/{name}")];
                let done = if name == "busy" {
                    Err(Refused::Busy(
                        "the release ab has busy in hand: wait for its end, or undo it".to_owned(),
                    ))
                } else {
                    Ok(Added { name, version: "e".repeat(64), at })
                };
                let _ = answer.send(done);
                said
            }
            Order::Retire { name, answer } => {
                let _ = answer.send(check(&name).map(|()| Removed { name: name.clone() }));
                format!("retire {name}")
            }
            Order::Remove { name, answer, .. } => {
                let said = format!("remove {name}");
                let _ = answer.send(check(&name).map(|()| Removed { name }));
                said
            }
            Order::FailedLogs { release, answer } if release == "unread" => {
                let _ = answer.send(Err(Refused::Failed("they can't be read".to_owned())));
                continue;
            }
            Order::FailedLogs { release, answer } => {
                let _ = answer.send(Ok(format!("what failed in {release}\n").into_bytes()));
                continue;
            }
            Order::Log { name, which, answer, .. } => {
                let of = match which {
                    Some(Which::New) => "new",
                    Some(Which::Base) => "base",
                    None => "newest",
                };
                let _ = answer.send(check(&name).map(|()| format!("a line of {name}, {of}\n").into_bytes()));
                continue;
            }
        };
        asked.lock().unwrap().push(said);
    }
}

#[test]
fn what_an_agent_is_asked_reaches_it_and_its_answer_is_printed() {
    let agent = Imitated::start(resting());
    std::fs::create_dir_all(agent.folder.path().join("fns/resize")).unwrap();
    let status: Status = serde_json::from_str(&agent.ask(&["status", "--json"])).unwrap();
    assert_eq!(status, resting());
    assert!(agent.ask(&["status"]).starts_with("agent edge-7, known as 7c3d2b67, process 4711 of 0.1.0\n"));
    assert_eq!(
        agent.ask(&["functions", "add", "resize", "fns/resize"]),
        "resize is served at http://127.0.0.1:8000/resize, version eeeeeeeeeeeeeeee\n"
    );
    let all = ["--runner", "python", "--sticky", "cookie:session", "--retry", "never"];
    agent.ask(&[&["functions", "add", "other", "fns/resize"], &all[..]].concat());
    let list = agent.ask(&["functions", "list"]);
    assert!(list.starts_with("FUNCTION  ROLE") && list.contains("\nsieve     base  100 %"), "{list}");
    assert_eq!(agent.ask(&["functions", "remove", "sieve"]), "sieve is served no longer\n");
    assert_eq!(
        agent.ask(&["rollback", "sieve", "--why", "customers complain"]),
        "sieve: the version before serves again\n"
    );
    agent.ask(&["undo"]);
    assert_eq!(agent.ask(&["logs", "sieve"]), "a line of sieve, newest\n");
    assert_eq!(agent.ask(&["logs", "sieve", "--new"]), "a line of sieve, new\n");
    assert_eq!(agent.ask(&["logs", "sieve", "--base"]), "a line of sieve, base\n");
    assert_eq!(agent.ask(&["logs", "--release", "a b"]), "what failed in a b\n");
    let folder = agent.folder.path().join("fns/resize").canonicalize().unwrap();
    assert_eq!(
        agent.asked(),
        [
            format!("add resize {} None None None", folder.display()),
            format!("add other {} Some(\"python\") Some(Cookie(\"session\")) Some(Never)", folder.display()),
            "remove sieve".to_owned(),
            "undo Some(\"sieve\") Some(\"customers complain\")".to_owned(),
            "undo None None".to_owned(),
        ]
    );
}

#[test]
fn what_is_wrong_is_said_with_what_to_do_and_no_order_comes_of_it() {
    let agent = Imitated::start(resting());
    for (args, parts) in [
        (&["undo", "seive"][..], &["no function \"seive\" is served here", "did you mean sieve?"][..]),
        (&["functions", "remove", "other"], &["there are sieve"]),
        (
            &["functions", "add", "busy", "."],
            &["the release ab has busy in hand: wait for its end, or undo it"],
        ),
        (&["functions", "add", "a b", "."], &["\"a b\" is no name", "A-Z a-z 0-9"]),
        (&["functions", "add", "a", "nowhere"], &["nowhere can't be read"]),
        (&["functions", "add", "a", "file"], &["file is no folder"]),
        (&["functions", "add", "a", ".", "--sticky", "cookie"], &["cookie:NAME, header:NAME or address"]),
        (&["functions", "add", "a", ".", "--retry", "always"], &["failed, refused or never"]),
        (&["logs", "../sieve"], &["is no name"]),
        (&["logs", "other"], &["no function \"other\""]),
        (&["logs"], &["FUNCTION"]),
        (
            &["status", "--control", "nowhere.sock"],
            &["no agent answers on nowhere.sock", "choirmaster agent"],
        ),
        (&["rollback", "--nothing"], &["Usage: choirmaster agent rollback"]),
        (&["stop", "--all"], &["no agent has run in data/agent", "--state"]),
        (&["stop", "--set", "agent.stop=never"], &["\"never\" is neither leave nor drain"]),
    ] {
        std::fs::write(agent.folder.path().join("file"), "").unwrap();
        let said = agent.refused(args);
        for part in parts {
            assert!(said.contains(part), "{args:?}: {said}");
        }
    }
    let orders = agent.asked();
    assert!(orders.iter().all(|order| !order.starts_with("add a")), "{orders:?}");
}

#[test]
fn logs_that_an_agent_cant_read_are_not_looked_for_elsewhere() {
    let agent = Imitated::start(resting());
    let of =
        |release: &str| run(agent.folder.path(), ["release", "logs", release, "--url", "http://127.0.0.1:1"]);
    assert_eq!(out(&of("bad")), "what failed in bad\n");
    let unread = of("unread");
    assert_eq!((code(&unread), out(&unread)), (2, String::new()));
    assert!(err(&unread).contains("they can't be read"), "{}", err(&unread));
}

#[test]
fn calls_are_kept_together_and_repeated_as_it_was_said() {
    let agent = Imitated::start(resting());
    for (flags, asked) in [
        (
            ["--sticky", "header:X-User", "--retry", "failed"],
            (Sticky::Header("X-User".into()), Retry::Failed),
        ),
        (["--sticky", "address", "--retry", "refused"], (Sticky::Address, Retry::Refused)),
    ] {
        agent.ask(&[&["functions", "add", "a", "."], &flags[..]].concat());
        let last = agent.asked().pop().unwrap();
        assert!(last.ends_with(&format!("{:?} {:?}", Some(asked.0), Some(asked.1))), "{last}");
    }
}

#[test]
fn what_goes_on_after_a_stop_is_said_unless_it_ends_with_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("data/agent");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("sockets.json"), r#"{"agent":"/nowhere/agent.sock","proxy":null}"#).unwrap();
    for (stop, goes_on) in
        [("leave", "proxy and functions go on: choirmaster agent stop --all ends them\n"), ("drain", "")]
    {
        let stopped = run(folder.path(), ["agent", "stop", "--set", &format!("agent.stop={stop}")]);
        assert_eq!((code(&stopped), out(&stopped).as_str()), (0, goes_on), "{}", err(&stopped));
    }
}
