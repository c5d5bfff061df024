//! How an agent is shown, and what its help says.

use agent::control::form::{ManagerStatus, ProxyStatus, ServiceStatus, Status, VariationStatus, WorkStatus};
use choirmaster::cli::agent::show;
use jiff::Timestamp;

use super::{super::help::help, NOW_MS, in_trouble, resting};

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

/// Of a function and of a service; the offer is that of a second attempt.
#[test]
fn failed_stage_keeping_shares_shows_who_decides_and_how() {
    let mut status = resting();
    status.functions[0].candidate = in_trouble().functions[0].candidate.clone();
    let variation = |name: &str, share| VariationStatus {
        name: name.to_owned(),
        share,
        seen: None,
        targets: vec!["127.0.0.1:9101".to_owned()],
        healthy: None,
        draining: None,
    };
    let service = |name: &str, is_tried| ServiceStatus {
        name: name.to_owned(),
        ports: vec![8080],
        variations: vec![variation("A", 9_000), variation("B", 1_000)],
        is_tried,
    };
    status.services = vec![service("checkout", true), service("other", false)];
    status.work = in_trouble().work.map(|work| WorkStatus {
        offer: "shop-7.1.r2".to_owned(),
        failed: Some("errorRate is 22.5 %, and may be 5 %".to_owned()),
        stopped: None,
        ..work
    });
    let text = shown(&status);
    let lines = text.lines().skip(4).take(6).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(lines, @r"
    release shop-7.1.r2: runs a stage, stage canary-12.5, which has failed and keeps its shares
      why: errorRate is 22.5 %, and may be 5 %
      shares: sieve 12.50 % new; checkout A 90 %, B 10 %
      people decide, at the manager where it was submitted:
        choirmaster release resume shop-7.1  goes on to what follows
        choirmaster release abort shop-7.1  takes it back
    ");
}

#[test]
fn an_agent_that_just_begins_is_shown_too() {
    let mut status = resting();
    status.name = String::new();
    status.id = None;
    status.manager = ManagerStatus { reached: false, since_ms: None, trouble: None, ..status.manager };
    status.proxy = status.proxy.map(|proxy| ProxyStatus {
        program: None,
        pid: None,
        table: None,
        listen: Vec::new(),
        answers: false,
        trouble: None,
        ..proxy
    });
    status.functions.clear();
    insta::assert_snapshot!(shown(&status), @r"
    agent, not known to its manager yet, process 4711 of 0.1.0
    manager http://127.0.0.1:9991: not reached
    proxy data/proxy.sock: does not answer
    runtime process: binary, nodejs, python
    ");
}

/// An agent of which only the control is there.

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
      rollback   Roll back what a release tries, or what it rolled out last, whether or not the manager
                 can be reached [alias: undo]
      functions  Decide which functions are served before any release of them
      logs       Show what a version of a function wrote, as far as it is kept
      stop       End the agent; with --all also the proxy beside it and all functions, so that nothing
                 runs any more
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
              trace, debug, info, warn, error, or per module: info,agent=debug [default: info]

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
      choirmaster agent rollback sieve --why 'customers complain'
      choirmaster agent logs sieve --new
      choirmaster agent stop --all                            # ends it, its proxy and its functions
    ");
    insta::assert_snapshot!(help(&["agent", "functions", "add", "--help"]), @r"
    Serve a function, or another content of it

    Usage: choirmaster agent functions add [OPTIONS] <NAME> <FOLDER>

    Arguments:
      <NAME>    What it is called: calls of /NAME go to it
      <FOLDER>  Its content; it is copied

    Options:
          --runner <FORM>   nodejs, python, binary, program or wasm [default: what the folder holds says
                            it]
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
