//! `choirmaster fleet`: its flags and its exit code.

use std::time::Duration;

use choirmaster::cli::fleet::{FleetArgs, run};
use clap::Parser;
use simulated_children::{FleetConfig, FleetKind, Latency};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: FleetArgs,
}

fn parse(line: &str) -> Result<FleetArgs, clap::Error> {
    Command::try_parse_from(line.split_whitespace()).map(|command| command.args)
}

#[test]
fn without_flags_the_fleet_is_the_default_one() {
    let config = FleetConfig { url: "http://127.0.0.1:1".into(), ..FleetConfig::default() };
    assert_eq!(parse("fleet --url http://127.0.0.1:1").unwrap().config(), config);
}

#[test]
fn each_flag_says_what_it_does() {
    let line = "fleet --url http://127.0.0.1:1 --agents 2000 --poll 1s500ms --seed 8 --latency constant:4ms \
                --new-latency uniform:5ms,9ms --errors 0.5% --new-errors 0.25 --calls-per-second 5 \
                --spread -1,2,3,4 --kind modern --crash 0.1% --runtime nodejs --label tier=edge --bad-path bad --for 1m \
                --until-idle 5 --wait 10s --clock 1ms,down --session-calls 10";
    let config = parse(line).unwrap().config();
    assert_eq!((config.agents, config.seed, config.kind), (2000, 8, FleetKind::Modern));
    assert_eq!((config.poll, config.wait), (Duration::from_millis(1500), Duration::from_secs(10)));
    assert_eq!(config.traffic.base.latency, Latency::Constant { ms: 4.0 });
    assert_eq!(config.traffic.bad.latency, config.traffic.base.latency);
    assert_eq!(config.traffic.new.latency, Latency::Uniform { from_ms: 5.0, to_ms: 9.0 });
    assert_eq!((config.traffic.base.errors, config.traffic.new.errors), (0.005, 0.25));
    assert_eq!(config.traffic.bad_path.as_deref(), Some("bad"));
    assert_eq!((config.spread.west, config.faults.crash), (-1.0, 0.001));
    assert_eq!((config.runtimes, config.labels["tier"].as_str()), (vec!["nodejs".into()], "edge"));
    assert_eq!(Ok(config.clock), "1ms,down".parse());
    assert_eq!(config.session_calls, 10);
    assert_eq!(config.run_for.zip(config.until_idle), Some((Duration::from_mins(1), Duration::from_secs(5))));
}

#[test]
fn unreadable_flags_are_refused() {
    for flags in [
        "--poll 1d",
        "--errors 101%",
        "--errors -1",
        "--latency 8ms",
        "--spread 1,2",
        "--label tier",
        "--kind old",
        "--clock 8",
    ] {
        assert!(parse(&format!("fleet {flags}")).is_err(), "{flags}");
    }
}

#[tokio::test]
async fn a_manager_that_never_answers_is_an_exit_code_of_one() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let args = parse(&format!("fleet --url {url} --agents 2 --pace 0.01 --for 100ms")).unwrap();
    assert_eq!(run(&args, &mut Vec::new()).await.unwrap(), 1);
}
