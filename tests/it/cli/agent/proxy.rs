//! The proxy that an agent starts.

use std::{path::Path, time::Duration};

use agent::{
    proxy_process,
    settings::{FrontSettings, StartProxy},
};
use tokio::runtime::Runtime;

use super::{
    super::{PROGRAM, code, err, run},
    settings::set,
};

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
    let FrontSettings::Proxy(proxy) = settings.unwrap().into_agent(PROGRAM.into()).front else {
        panic!("the proxy is what splits calls")
    };
    let start = proxy.start.unwrap();
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
