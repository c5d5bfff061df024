//! One chromedriver for all tests of this process.

use std::{
    env,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock},
};

/// It ends its process group, the driver and the browsers in it, when its standard input ends: that is when this process ends, however
/// it does. Statics aren't dropped, a process that is killed drops nothing, and browsers outlive their driver.
///
/// Nobody but the driver keeps standard output open: when the driver can't be started, that ends.
const KEEPER: &str = r#""$0" --port=0 & exec >/dev/null; cat; kill -KILL 0"#;

/// What the driver says once it listens.
const LISTENS: &str = "was started successfully on port ";

struct Driver {
    address: String,
    _keeper: Mutex<(Child, BufReader<ChildStdout>)>,
}

/// `http://127.0.0.1:PORT` of the driver, which the first call starts. Panics where there is none: a test that needs a browser and
/// has none has failed.
pub fn address() -> &'static str {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    &DRIVER.get_or_init(start).address
}

fn start() -> Driver {
    let program = env::var("CHOIRMASTER_TEST_CHROMEDRIVER").unwrap_or_else(|_| "chromedriver".to_owned());
    #[expect(clippy::zombie_processes, reason = "it ends with this process, which has nobody to wait then")]
    let mut keeper = Command::new("sh")
        .args(["-c", KEEPER, &program])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("sh: {e}"));
    let mut said = BufReader::new(keeper.stdout.take().unwrap());
    let mut line = String::new();
    loop {
        line.clear();
        let length = said.read_line(&mut line).unwrap();
        assert!(
            length > 0,
            "{program} did not start: run the tests with tests/run, which gets Chromium and its driver for them"
        );
        if let Some((_, port)) = line.split_once(LISTENS) {
            let port: u16 =
                port.trim().trim_end_matches('.').parse().unwrap_or_else(|e| panic!("{e}: {line}"));
            return Driver {
                address: format!("http://127.0.0.1:{port}"),
                _keeper: Mutex::new((keeper, said)),
            };
        }
    }
}
