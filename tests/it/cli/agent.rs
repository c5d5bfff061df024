//! `choirmaster agent` as people run it, and what they set of it. Where an agent has to answer, the test does.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Output,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::{
    control::{
        self, Control, Order, Refused,
        form::{
            Added, CandidateStatus, FunctionStatus, KeptStatus, ManagerStatus, NewFunction, Owed,
            ProxyStatus, Removed, RetryForm, RuntimeStatus, Status, StickyForm, Stops, TableNumber, Undo,
            Undone, VersionStatus, Which, WorkStatus,
        },
    },
    proxy_process,
    runtime::Phase,
    settings::{StartProxy, Stop},
};
use choirmaster::cli::{
    agent::{settings::Settings, show},
    settings::{Configured as _, Flag},
};
use jiff::Timestamp;
use tokio::{runtime::Runtime, sync::mpsc};

use super::{PROGRAM, code, documented::documents, err, help::help, out, repository, run};

/// When all that is shown here was asked.
const NOW_MS: i64 = 1_800_000_000_000;

fn version(digit: char, target: &str) -> VersionStatus {
    VersionStatus {
        version: digit.to_string().repeat(64),
        runner: "nodejs".to_owned(),
        phase: Phase::Runs,
        target: target.to_owned(),
        pid: Some(4_713),
        restarts: 0,
        last_exit: None,
    }
}

fn resting() -> Status {
    let sieve = FunctionStatus {
        name: "sieve".to_owned(),
        sticky: None,
        retry: None,
        stable: version('a', "127.0.0.1:20000"),
        candidate: None,
        kept: None,
    };
    Status {
        program: "0.1.0".to_owned(),
        pid: 4_711,
        name: "edge-7".to_owned(),
        id: Some("7c3d2b67-9a23-4bbc-a80b-2913d09a1c26".to_owned()),
        manager: ManagerStatus {
            url: "http://127.0.0.1:9991".to_owned(),
            reached: true,
            since_ms: Some(NOW_MS - 11_040_000),
            trouble: None,
        },
        proxy: ProxyStatus {
            control: "data/proxy.sock".into(),
            answers: true,
            program: Some("0.1.0".to_owned()),
            pid: Some(4_712),
            table: Some(TableNumber { epoch: 3, generation: 17 }),
            listen: vec!["127.0.0.1:8000".to_owned()],
            trouble: None,
        },
        runtimes: vec![RuntimeStatus {
            name: "process".to_owned(),
            runners: ["binary", "nodejs", "python"].map(str::to_owned).to_vec(),
        }],
        functions: vec![sieve],
        work: None,
        owed: Owed::default(),
        stops: Stops::default(),
    }
}

/// In the middle of a release that goes badly, with the manager away.
fn in_trouble() -> Status {
    let mut status = resting();
    let new = VersionStatus {
        phase: Phase::Pauses,
        restarts: 3,
        last_exit: Some("signal 9: it used more memory than 512 MiB".to_owned()),
        ..version('b', "unix:/var/lib/a/fn.sock")
    };
    let sieve = &mut status.functions[0];
    sieve.candidate = Some(CandidateStatus {
        version: new,
        share: 1_250,
        stage: "canary-12.5".to_owned(),
        calls: 1_234,
        errors: 9,
        repeated: 7,
    });
    status.functions.push(FunctionStatus {
        name: "greet".to_owned(),
        stable: version('c', "127.0.0.1:20001"),
        kept: Some(KeptStatus { version: version('d', "127.0.0.1:20002"), until_ms: Some(NOW_MS + 300_000) }),
        candidate: None,
        ..status.functions[0].clone()
    });
    status.manager.reached = false;
    status.manager.trouble = Some("connection refused\u{1b}[2J".to_owned());
    status.proxy.answers = false;
    status.proxy.trouble = Some("it answered nothing for 30 seconds".to_owned());
    status.id = None;
    status.work = Some(WorkStatus {
        offer: "ab".to_owned(),
        phase: "runs a stage".to_owned(),
        stage: Some("canary-12.5".to_owned()),
        waits_for_signal: true,
        stopped: Some("errorRate is 22.5 %, and may be 5 %".to_owned()),
    });
    status.owed = Owed { results: 2, next_try_ms: Some(NOW_MS + 12_000) };
    status
}

fn shown(status: &Status) -> String {
    let mut text = Vec::new();
    show::status(&mut text, status, false, Timestamp::from_millisecond(NOW_MS).unwrap()).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn an_agent_at_rest_is_shown_on_a_few_lines() {
    insta::assert_snapshot!(shown(&resting()), @r"
    agent edge-7, known as 7c3d2b67, process 4711 of 0.1.0
    manager http://127.0.0.1:9991: reached for 3h 4m
    proxy data/proxy.sock: process 4712 of 0.1.0 serves on 127.0.0.1:8000, table 3.17
    runtime process: binary, nodejs, python

    FUNCTION  ROLE  SHARE  CALLS  ERRORS  STATE  RESTARTS  VERSION           AT
    sieve     base  100 %                 runs   0         aaaaaaaaaaaaaaaa  nodejs 127.0.0.1:20000
    ");
}

#[test]
fn an_agent_in_trouble_says_what_is_wrong_and_moves_no_cursor() {
    insta::assert_snapshot!(shown(&in_trouble()), @r"
    agent edge-7, not known to its manager yet, process 4711 of 0.1.0
    manager http://127.0.0.1:9991: not reached for 3h 4m: connection refused\u001b[2J
    proxy data/proxy.sock: does not answer: it answered nothing for 30 seconds
    runtime process: binary, nodejs, python
    release ab: runs a stage, stage canary-12.5, waits for the manager to end it
      taken back here: errorRate is 22.5 %, and may be 5 %
    2 results not answered by the manager yet, tried again in 12s

    FUNCTION  ROLE  SHARE    CALLS  ERRORS  STATE                                                                   RESTARTS  VERSION           AT
    sieve     base  87.50 %                 runs                                                                    0         aaaaaaaaaaaaaaaa  nodejs 127.0.0.1:20000
    sieve     new   12.50 %  1234   9       ended, started again soon (signal 9: it used more memory than 512 MiB)  3         bbbbbbbbbbbbbbbb  nodejs unix:/var/lib/a/fn.sock
    greet     base  100 %                   runs                                                                    0         cccccccccccccccc  nodejs 127.0.0.1:20001
    greet     kept  0 %                     runs, kept for 5m 0s                                                    0         dddddddddddddddd  nodejs 127.0.0.1:20002
    ");
}

#[test]
fn an_agent_that_just_begins_is_shown_too() {
    let mut status = resting();
    status.name = String::new();
    status.id = None;
    status.manager = ManagerStatus { reached: false, since_ms: None, trouble: None, ..status.manager };
    status.proxy = ProxyStatus {
        program: None,
        pid: None,
        table: None,
        listen: Vec::new(),
        answers: false,
        trouble: None,
        ..status.proxy
    };
    status.functions.clear();
    insta::assert_snapshot!(shown(&status), @r"
    agent, not known to its manager yet, process 4711 of 0.1.0
    manager http://127.0.0.1:9991: not reached
    proxy data/proxy.sock: does not answer
    runtime process: binary, nodejs, python
    ");
}

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
            Order::Remove { name, answer } => {
                let said = format!("remove {name}");
                let _ = answer.send(check(&name).map(|()| Removed { name }));
                said
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
        agent.ask(&["undo", "sieve", "--why", "customers complain"]),
        "sieve: the version before serves again\n"
    );
    agent.ask(&["undo"]);
    assert_eq!(agent.ask(&["logs", "sieve"]), "a line of sieve, newest\n");
    assert_eq!(agent.ask(&["logs", "sieve", "--new"]), "a line of sieve, new\n");
    assert_eq!(agent.ask(&["logs", "sieve", "--base"]), "a line of sieve, base\n");
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
        (
            &["status", "--control", "nowhere.sock"],
            &["no agent answers on nowhere.sock", "choirmaster agent"],
        ),
        (&["undo", "--nothing"], &["Usage: choirmaster agent undo"]),
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
fn the_help_tells_what_to_begin_with() {
    insta::assert_snapshot!(help(&["agent", "--help"]), @r"
    Run functions beside a node, take releases from a manager, and take back what is bad.

    Prints one line on stdout once it answers: `agent on SOCKET, manager URL`. Logs go to stderr.
    SIGTERM and SIGINT end it with 0; a second one ends it at once. Functions and proxy go on serving
    without it (unless agent.stop says otherwise), and so does what it has in hand once it is started
    again.

    It runs the versions of functions as processes, has the proxy beside it share the calls among them,
    judges the new one by itself, and takes it back within a second, whether or not its manager can be
    reached. Where no proxy answers, it starts one that stays.

    Every key of config/agent.yml can also be set by a variable (limits.memory is
    CHOIRMASTER_AGENT_LIMITS_MEMORY, agent.name is CHOIRMASTER_AGENT_NAME) or by --set; flags win over
    variables, variables over the file.

    Usage: choirmaster agent [OPTIONS]
           choirmaster agent <COMMAND>

    Commands:
      status     Show how the agent stands: manager, proxy, functions and their versions, the release in
                 hand
      undo       Take back what a release tries, or what it rolled out last, whether or not the manager
                 can be reached
      functions  Decide which functions are served before any release of them
      logs       Show what a version of a function wrote, as far as it is kept
      help       Print this message or the help of the given subcommand(s)

    Options:
          --config <FILE>
              Configuration file [default: config/agent.yml, where there is one]
              
              [env: CHOIRMASTER_AGENT_CONFIG=]

          --manager <URL>
              Address of the manager [default: http://127.0.0.1:9991]

          --name <NAME>
              What the manager shows it as

          --at <LAT,LON>
              Where it is, as latitude and longitude in degrees; its area is a square of 0.01 degrees
              around that

          --area <FILE>
              Where it is, as GeoJSON

          --label <KEY=VALUE>
              A label of it (repeatable)

          --state <DIR>
              Folder in which it keeps what has to last [default: data/agent]

          --control <PATH>
              The unix socket on which it is asked [default: data/agent.sock]

          --proxy <PATH>
              The control socket of the proxy beside it [default: data/proxy.sock]

          --listen <ADDR>
              Where a proxy that it has to start takes calls (repeatable) [default: 127.0.0.1:8000]

          --join-token <FILE>
              File with what lets it in the first time

          --token <FILE>
              File with the token that it shows

          --ca <FILE>
              PEM of the authorities of the manager's certificate [default: those that the public
              trusts]

          --certificate <FILE>
              PEM of its own certificate

          --key <FILE>
              PEM of the certificate's key

          --metrics <ADDR>
              Address of /metrics and /healthz, besides the control socket

          --log-level <LEVEL>
              trace, debug, info, warn, error, or per module: info,choirmaster_agent=debug [default:
              info]

          --log-format <FORMAT>
              human or json [default: human]

          --set <KEY=VALUE>
              Set any key of the configuration (repeatable)

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      choirmaster agent --manager https://choir.example.org --at 52.52,13.405
      choirmaster agent functions add sieve fns/sieve_base    # serves it, at /sieve of the proxy
      choirmaster agent status
      choirmaster agent undo sieve --why 'customers complain'
      choirmaster agent logs sieve --new
    ");
    insta::assert_snapshot!(help(&["agent", "functions", "add", "--help"]), @r"
    Serve a function, or another content of it

    Usage: choirmaster agent functions add [OPTIONS] <NAME> <FOLDER>

    Arguments:
      <NAME>    What it is called: calls of /NAME go to it
      <FOLDER>  Its content; it is copied

    Options:
          --runner <FORM>   nodejs, python, binary or program [default: what the folder holds says it]
          --sticky <BY>     What keeps a caller's calls with one version: cookie:NAME, header:NAME or
                            address
          --retry <WHICH>   Which calls that the new version fails are repeated on the stable one:
                            failed, refused (those that it never got) or never [default: failed for GET,
                            HEAD, PUT, DELETE and OPTIONS, refused for the rest]
          --control <PATH>  The control socket of the agent [env: CHOIRMASTER_AGENT_CONTROL=] [default:
                            data/agent.sock]
          --json            Print JSON
      -h, --help            Print help
      -V, --version         Print version

    Example: choirmaster agent functions add sieve fns/sieve_base --sticky cookie:session
    ");
}

#[test]
fn the_documented_file_lists_every_key_with_its_default_and_sets_nothing() {
    documents::<Settings>();
}

fn set(keys: &[(&str, &str)]) -> Result<Settings, String> {
    let flag =
        |&(key, value): &(&str, &str)| Flag { name: "--set", key: key.to_owned(), value: value.to_owned() };
    let file = repository().join("config/agent.yml");
    let flags: Vec<Flag> = keys.iter().map(flag).collect();
    Settings::load(Some(&file), [], &flags).map_err(|error| error.to_string())
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.yml");
    std::fs::write(&file, "agent: {name: file, keep_base: 1m}\nlimits: {memory: 1GiB, log: 1MiB}\n").unwrap();
    let variables = [
        ("CHOIRMASTER_AGENT_NAME", "variable"),
        ("CHOIRMASTER_AGENT_KEEP_BASE", "2m"),
        ("CHOIRMASTER_AGENT_LIMITS_MEMORY", "2GiB"),
        ("CHOIRMASTER_AGENT_CONFIG", "elsewhere"),
        ("CHOIRMASTER_PROXY_NONSENSE", "of another command"),
    ];
    let flag = Flag { name: "--name", key: "agent.name".to_owned(), value: "flag".to_owned() };
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::load(Some(&file), variables, &[flag]).unwrap().agent;
    assert_eq!((settings.name.as_str(), settings.keep_base), ("flag", Duration::from_mins(2)));
    assert_eq!((settings.versions.limits.memory, settings.versions.limits.log), (2 << 30, 1 << 20));
}

#[test]
fn what_is_set_reaches_the_agent() {
    let settings = set(&[
        ("agent.labels", "site=berlin, tier = edge"),
        ("agent.stop", "drain"),
        ("agent.metrics", "127.0.0.1:9100"),
        ("manager.url", "https://choir.example.org/below/"),
        ("manager.ca", "ca.pem"),
        ("proxy.control", "/run/p.sock"),
        ("proxy.listen", "127.0.0.1:1, [::1]:2"),
        ("proxy.state", "/p"),
        ("runtimes.enabled", "process, tinyfaas"),
        ("runtimes.ports", "30000-30009"),
        ("health.path", "/ready"),
        ("warm_up.calls", "3"),
        ("warm_up.path", "/warm"),
    ]);
    let agent = settings.unwrap().into_agent("/bin/choirmaster".into());
    let labels =
        [("site", "berlin"), ("tier", "edge")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(agent.labels, BTreeMap::from(labels));
    assert_eq!((agent.stop, agent.metrics), (Stop::Drain, Some("127.0.0.1:9100".parse().unwrap())));
    assert_eq!(agent.manager.url, "https://choir.example.org/below");
    assert_eq!(agent.manager.ca, Some(PathBuf::from("ca.pem")));
    assert_eq!(
        (agent.runtimes.enabled, agent.runtimes.ports),
        (vec!["process".to_owned(), "tinyfaas".to_owned()], (30_000, 30_009))
    );
    assert_eq!(agent.versions.health.path.as_deref(), Some("/ready"));
    let warm_up = agent.versions.warm_up.unwrap();
    assert_eq!((warm_up.calls, warm_up.path.as_str(), warm_up.method.as_str()), (3, "/warm", "GET"));
    let arguments =
        "proxy --own-session --control /run/p.sock --state /p --listen 127.0.0.1:1 --listen [::1]:2";
    assert_eq!(
        agent.proxy.start,
        Some(StartProxy {
            program: "/bin/choirmaster".into(),
            arguments: arguments.split(' ').map(Into::into).collect(),
            state: "/p".into(),
        })
    );
    let none = set(&[("proxy.start", "false")]).unwrap().into_agent("/bin/choirmaster".into());
    assert_eq!((none.proxy.start, none.versions.warm_up, none.versions.health.path), (None, None, None));
}

#[test]
fn where_it_is_comes_from_a_point_or_a_file() {
    assert_eq!(
        set(&[("agent.at", "52.52, -13.405")]).unwrap().agent.area,
        r#"{"type":"Polygon","coordinates":[[[-13.410000,52.515000],[-13.400000,52.515000],[-13.400000,52.525000],[-13.410000,52.525000],[-13.410000,52.515000]]]}"#
    );
    for place in ["89.99,180", "-89.99,-180", "0,0"] {
        let area = set(&[("agent.at", place)]).unwrap().agent.area;
        assert_eq!(model::area::parse(&area).map(|_| ()), Ok(()), "{place}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("area.json");
    let text = r#"{"type":"Feature","properties":{},"geometry":{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}}"#;
    std::fs::write(&file, text).unwrap();
    let area = set(&[("agent.area_file", file.to_str().unwrap())]).unwrap().agent.area;
    assert_eq!(model::area::parse(&area).map(|_| ()), Ok(()), "{area}");
    assert_eq!(set(&[]).unwrap().agent.area, "");
}

#[test]
fn every_fault_of_the_settings_is_said_at_once_and_no_secret_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("area.json");
    std::fs::write(&file, r#"{"type":"Point","coordinates":[0,0]}"#).unwrap();
    let long = "x".repeat(129);
    let said = set(&[
        ("agent.name", &long),
        ("agent.at", "52,53,54"),
        ("agent.area_file", file.to_str().unwrap()),
        ("agent.labels", "site=berlin,edge"),
        ("agent.stop", "now"),
        ("agent.metrics", "9100"),
        ("manager.url", "http://ann:hidden@choir.example.org"),
        ("manager.certificate", "agent.pem"),
        ("proxy.start", "yes"),
        ("runtimes.enabled", ""),
        ("runtimes.ports", "30000-20000"),
        ("limits.memory", "1KiB"),
        ("limits.files", "many"),
        ("health.path", "ready"),
        ("warm_up.method", "get"),
        ("log.level", "loud=very"),
        ("agent.nmae", "edge"),
    ])
    .unwrap_err();
    for part in [
        "the configuration of the agent can't be used",
        "agent.name: it has more than 128 bytes",
        "agent.at: \"52,53,54\" is no latitude and longitude in degrees",
        "agent.area_file: ",
        "agent.labels: \"edge\" is no label, as in site=berlin",
        "agent.stop: \"now\" is neither leave nor drain",
        "agent.metrics: \"9100\" is no address with a port",
        "manager.url: it holds a name or a password: put the token into a file",
        "manager.certificate: is shown over https alone",
        "manager.certificate: goes with manager.key: set both or neither",
        "proxy.start: \"yes\" is neither true nor false",
        "runtimes.enabled: name at least one",
        "runtimes.ports: \"30000-20000\" is no range of ports",
        "limits.memory: 1KiB is not from 1MiB to 1024GiB",
        "limits.files: \"many\" is no whole number",
        "health.path: \"ready\" does not begin with a slash",
        "warm_up.method: \"get\" is no method",
        "log.level: \"loud=very\" can't be read",
        "there is no key \"agent.nmae\"; config/agent.yml lists all of them",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(!said.contains("hidden"), "{said}");
    for url in ["choir.example.org", "ftp://choir.example.org", "http://", ""] {
        let said = set(&[("manager.url", url)]).unwrap_err();
        assert!(said.contains("manager.url: an address looks like http://127.0.0.1:9991"), "{url}: {said}");
    }
    let both = set(&[("agent.at", "1,2"), ("agent.area_file", "area.json")]).unwrap_err();
    assert!(both.contains("agent.at: and agent.area_file both say where it is"), "{both}");
}

#[test]
fn a_configuration_that_can_not_be_used_is_the_callers_fault() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), ["agent", "--at", "north", "--keep-base", "1h"]);
    assert_eq!(code(&output), 1);
    let output = run(folder.path(), ["agent", "--at", "north", "--name", "edge", "--metrics", "here"]);
    let said = err(&output);
    assert_eq!((code(&output), out(&output)), (1, String::new()));
    assert!(
        said.contains("--at: agent.at: \"north\"") && said.contains("--metrics: agent.metrics: \"here\""),
        "{said}"
    );
    assert!(!folder.path().join("data").exists(), "nothing is made before all is read");
}

/// Where a process stands in the table of processes: its parent, its group and its session.
fn lineage(pid: u32) -> [u32; 3] {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(')').unwrap().1;
    let numbers: Vec<u32> =
        rest.split_whitespace().skip(1).take(3).map(|text| text.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn a_proxy_that_is_started_has_a_session_and_a_log_of_its_own() {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let settings = set(&[
        ("proxy.control", &at("proxy.sock")),
        ("proxy.state", &at("proxy")),
        ("proxy.listen", "127.0.0.1:0"),
    ]);
    let start = settings.unwrap().into_agent(PROGRAM.into()).proxy.start.unwrap();
    let client = proxy::control::client::Client::new(at("proxy.sock"));
    let status = runtime.block_on(async {
        proxy_process::start(&start).unwrap();
        loop {
            match client.get::<proxy::control::form::Status>("/status").await {
                Ok(status) => break status,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    let [holder, _, session] = lineage(status.pid);
    let [parent, group, own] = lineage(holder);
    assert_eq!((parent, group, own, session), (std::process::id(), holder, holder, holder));
    let log = folder.path().join("proxy/proxy.log");
    // Whoever holds its sockets says so, and that is not who answered.
    while !std::fs::read_to_string(&log).unwrap().contains("listening on http://127.0.0.1:") {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(mode(&log), 0o600);
    let drained = run(folder.path(), ["proxy", "drain", "--control", &at("proxy.sock")]);
    assert_eq!(code(&drained), 0, "{}", err(&drained));
    while Path::new(&format!("/proc/{holder}")).exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_proxy_that_can_not_be_started_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let start = |program: &str, state: &str| {
        let start =
            StartProxy { program: program.into(), arguments: Vec::new(), state: folder.path().join(state) };
        proxy_process::start(&start).unwrap_err().to_string()
    };
    assert!(start("/nowhere/choirmaster", "state").starts_with("/nowhere/choirmaster can't be called: "));
    std::fs::write(folder.path().join("file"), "").unwrap();
    let said = start(PROGRAM, "file");
    assert!(said.starts_with("its log ") && said.contains("can't be opened"), "{said}");
}

#[test]
fn the_unit_starts_the_agent_with_flags_and_a_configuration_that_it_takes() {
    let unit = std::fs::read_to_string(repository().join("config/choirmaster-agent.service")).unwrap();
    let value = |key: &str| {
        let mut values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.next().unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    assert_eq!((value("KillMode").as_str(), value("Restart").as_str()), ("process", "always"));
    assert!(value("After").contains("choirmaster-proxy.service"));
    // The proxy's control is its user's alone, who is called like its unit.
    assert_eq!(value("User"), "choirmaster-proxy");
    let proxy = std::fs::read_to_string(repository().join("config/choirmaster-proxy.service")).unwrap();
    let start = value("ExecStart");
    let socket = "%t/choirmaster-proxy/control.sock";
    assert!(start.contains(socket) && proxy.contains(&format!("--control {socket}")));
    for folder in [value("StateDirectory"), value("RuntimeDirectory")] {
        assert!(start.contains(&format!("/{folder}")), "{folder}");
    }
    let folder = tempfile::tempdir().unwrap();
    let start = start
        .replace("/etc/choirmaster/agent.yml", &repository().join("config/agent.yml").display().to_string())
        .replace(['%'], &format!("{}/", folder.path().display()));
    let mut words = start.split_whitespace();
    assert_eq!(words.next(), Some("/usr/local/bin/choirmaster"));
    // All of it is read, and then this stops it.
    let output = run(folder.path(), words.chain(["--set", "log.level=loud=very"]));
    assert_eq!(code(&output), 1);
    let lines: Vec<String> = err(&output).lines().skip(1).map(|line| line.trim().to_owned()).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("log.level: \"loud=very\""), "{lines:?}");
}

#[test]
fn calls_are_kept_together_and_repeated_as_it_was_said() {
    let agent = Imitated::start(resting());
    for (flags, asked) in [
        (
            ["--sticky", "header:X-User", "--retry", "failed"],
            (StickyForm::Header("X-User".into()), RetryForm::Failed),
        ),
        (["--sticky", "address", "--retry", "refused"], (StickyForm::Address, RetryForm::Refused)),
    ] {
        agent.ask(&[&["functions", "add", "a", "."], &flags[..]].concat());
        let last = agent.asked().pop().unwrap();
        assert!(last.ends_with(&format!("{:?} {:?}", Some(asked.0), Some(asked.1))), "{last}");
    }
}
