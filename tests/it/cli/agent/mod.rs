//! `choirmaster agent` as people run it, and what they set of it. Where an agent has to answer, the test does.

mod asked;
mod proxy;
mod runtimes;
mod settings;
mod shown;

use agent::{
    control::form::{
        CandidateStatus, FunctionStatus, KeptStatus, ManagerStatus, PendingReports, ProxyStatus,
        RuntimeStatus, Status, Stops, TableNumber, VersionStatus, WorkStatus,
    },
    runtime::Phase,
};

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
        router: None,
        proxy: Some(ProxyStatus {
            control: "data/proxy.sock".into(),
            answers: true,
            program: Some("0.1.0".to_owned()),
            pid: Some(4_712),
            table: Some(TableNumber { epoch: 3, generation: 17 }),
            listen: vec!["127.0.0.1:8000".to_owned()],
            trouble: None,
        }),
        runtimes: vec![RuntimeStatus {
            name: "process".to_owned(),
            runners: ["binary", "nodejs", "python"].map(str::to_owned).to_vec(),
            reached: true,
            trouble: None,
        }],
        unsaved: None,
        services: Vec::new(),
        functions: vec![sieve],
        work: None,
        owed: PendingReports::default(),
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
    let proxy = status.proxy.as_mut().unwrap();
    proxy.answers = false;
    proxy.trouble = Some("it answered nothing for 30 seconds".to_owned());
    status.id = None;
    status.work = Some(WorkStatus {
        offer: "ab".to_owned(),
        phase: "runs a stage".to_owned(),
        stage: Some("canary-12.5".to_owned()),
        waits_for_signal: true,
        failed: None,
        stopped: Some("errorRate is 22.5 %, and may be 5 %".to_owned()),
    });
    status.owed = PendingReports { results: 2, next_try_ms: Some(NOW_MS + 12_000) };
    status
}
