//! `choirmaster proxy` as people run it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use choirmaster::cli::{
    proxy::settings::Settings,
    settings::{Configured as _, Flag},
};

use super::{code, documented::documents, err, out, program, repository, run};

const TABLE: &str = "generation: 1\nservices:\n  - name: hello\n    variations:\n";

/// A proxy as a process, stopped at the end of the test.
struct Proxy {
    folder: tempfile::TempDir,
    holder: Child,
    _lines: BufReader<ChildStdout>,
    at: String,
}

impl Proxy {
    fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = program(folder.path());
        command.args(["proxy", "--listen", "127.0.0.1:0", "--log-level", "error"]).args(args);
        let mut holder = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let at = line
            .trim_end()
            .strip_prefix("listening on http://")
            .unwrap_or_else(|| panic!("{line:?}"))
            .to_owned();
        Self { folder, holder, _lines: lines, at }
    }

    fn ask(&self, args: &[&str]) -> String {
        let output = run(self.folder.path(), [&["proxy"], args].concat());
        assert_eq!(code(&output), 0, "{}", err(&output));
        out(&output)
    }

    fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.ask(&["status", "--json"])).unwrap()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn call(&self) -> String {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        stream.write_all(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Ok(None) = self.holder.try_wait() {
            signal("TERM", self.holder.id());
            let _ = self.holder.wait();
        }
    }
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

/// A version that says its name.
fn version(name: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while lines.read_line(&mut line).unwrap_or(0) > 0 {
                    if line == "\r\n" {
                        let answer =
                            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
                        lines.get_mut().write_all(answer.as_bytes()).unwrap();
                    }
                    line.clear();
                }
            });
        }
    });
    at
}

fn table(targets: &[(&str, &str)]) -> String {
    let variations =
        targets.iter().map(|(name, at)| format!("      - {{name: {name}, targets: [\"{at}\"]}}\n"));
    TABLE.to_owned() + &variations.collect::<String>()
}

#[test]
fn a_table_is_applied_shown_and_outlives_upgrades_and_kills() {
    let proxy = Proxy::start(&["--threads", "2", "--set", "limits.idle=2s"]);
    assert!(proxy.call().starts_with("HTTP/1.1 404 "));
    proxy.write("table.yml", &table(&[("base", &version("from the base"))]));
    assert_eq!(proxy.ask(&["apply", "table.yml"]), "table 0.1 is in force\n");
    assert!(proxy.call().ends_with("from the base"));
    assert!(proxy.ask(&["table"]).contains("hello    /hello  base       100 %"));
    let first = proxy.status();
    assert_eq!((&first["threads"], &first["held"]), (&2.into(), &true.into()));

    let said = proxy.ask(&["upgrade"]);
    let second = proxy.status()["pid"].as_u64().unwrap();
    assert!(said.starts_with(&format!("process {second} of ")), "{said}");
    assert!(said.ends_with(&format!(" has taken over from {}\n", first["pid"])), "{said}");
    assert!(proxy.call().ends_with("from the base"));

    signal("KILL", u32::try_from(second).unwrap());
    assert!(proxy.call().ends_with("from the base"), "the connection waits until another process takes it");
    assert_ne!(proxy.status()["pid"].as_u64(), Some(second));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do_and_whose_fault_it_is() {
    let proxy = Proxy::start(&[]);
    let folder = proxy.folder.path();
    let refused = |args: &[&str]| {
        let output = run(folder, [&["proxy"], args].concat());
        assert_eq!(code(&output), 1, "{}", out(&output));
        err(&output)
    };
    let at = version("x");
    let two = table(&[("base", &at), ("new", &at)]) + "    shares: [9000, 900]\n";
    proxy.write("wrong.yml", &two);
    let said = refused(&["apply", "wrong.yml"]);
    assert!(said.contains("9900 hundredths of a percent") && said.contains("In force: 0.0"), "{said}");
    proxy.write("none.yml", "generation: 1\nservices: 3\n");
    assert!(refused(&["apply", "none.yml"]).contains("none.yml holds no table"));
    assert!(refused(&["apply", "nowhere.yml"]).contains("nowhere.yml can't be read"));
    let said = refused(&["status", "--control", "nowhere.sock"]);
    assert!(
        said.contains("no proxy answers on nowhere.sock") && said.contains("choirmaster proxy"),
        "{said}"
    );
    assert!(refused(&["--listen", "127.0.0.1:0"]).contains("is there already"));
    let taken = refused(&["--listen", &proxy.at, "--control", "other.sock"]);
    assert!(taken.contains(&format!("can't listen on {}", proxy.at)), "{taken}");
    let said = refused(&["--set", "limits.idel=3s", "--set", "limits.queue=many", "--threads", "9999"]);
    for part in ["no key \"limits.idel\"", "\"many\" is no whole number", "9999 is not from 0 to 1024"] {
        assert!(said.contains(part), "{said}");
    }
    let said = refused(&["--listen", "127.0.0.1:0", "--control", "third.sock", "--state", "wrong.yml"]);
    assert!(said.contains("the state folder wrong.yml can't be used"), "{said}");
}

#[test]
fn tls_needs_files_that_can_be_used_before_anything_is_bound() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| {
        let output = run(folder.path(), [&["proxy", "--listen", "127.0.0.1:0"], args].concat());
        assert_eq!(code(&output), 1, "{}", out(&output));
        assert!(!folder.path().join("data").exists(), "something was bound");
        err(&output)
    };
    let said = refused(&["--tls-listen", "127.0.0.1:0"]);
    for key in ["tls.certificate", "tls.key"] {
        assert!(said.contains(&format!("tls.listen names an address, and {key} isn't set")), "{said}");
    }
    let said = refused(&["--tls-certificate", "a.crt"]);
    assert!(said.contains("tls.certificate is set, and tls.listen names no address"), "{said}");
    let files = ["--tls-listen", "127.0.0.1:0", "--tls-certificate", "a.crt", "--tls-key", "a.key"];
    assert!(refused(&files).contains("a.crt: No such file"));
    std::fs::write(folder.path().join("a.crt"), "nothing").unwrap();
    assert!(refused(&files).contains("a.crt holds no certificate in PEM"));
    let same = ["--tls-listen", "127.0.0.1:9", "--metrics", "127.0.0.1:9"];
    assert!(refused(&same).contains("127.0.0.1:9 is to be listened on twice"));
}

#[test]
fn callers_of_tls_are_served_beside_others_and_metrics_are_read() {
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    let folder = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("a.crt"), cert.pem()).unwrap();
    std::fs::write(path("a.key"), signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (path("a.crt"), path("a.key"));
    let files = ["--tls-listen", "127.0.0.1:0", "--tls-certificate", &certificate, "--tls-key", &key];
    let proxy = Proxy::start(&[&files[..], &["--metrics", "127.0.0.1:0"]].concat());
    let (plain, tls) = proxy.at.split_once(", https://").unwrap();
    let status = proxy.status();
    assert_eq!(
        (&status["listen"], &status["tls"]),
        (&serde_json::json!([plain, tls]), &serde_json::json!([tls]))
    );
    let said = proxy.ask(&["status"]);
    assert!(said.contains(&format!("serves on {plain}, {tls} (TLS)\nmetrics on ")), "{said}");
    let mut stream = TcpStream::connect(status["metrics"][0].as_str().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("choirmaster_proxy_connections 0\n"), "{answer}");
    assert!(TcpStream::connect(tls).is_ok() && TcpStream::connect(plain).is_ok());
}

#[test]
fn it_ends_with_0_when_it_is_drained() {
    let mut proxy = Proxy::start(&[]);
    assert!(proxy.ask(&["drain"]).starts_with("the proxy takes nothing more"));
    assert_eq!(proxy.holder.wait().unwrap().code(), Some(0));
    assert!(!proxy.folder.path().join("data/proxy.sock").exists());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut proxy = Proxy::start(&[]);
    // An idle connection keeps it until the limit on idleness.
    let mut idle = TcpStream::connect(&proxy.at).unwrap();
    idle.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    idle.read_exact(&mut [0; 12]).unwrap();
    signal("TERM", proxy.holder.id());
    let looks = std::iter::repeat_n(Duration::from_millis(5), 12_000);
    let stopped =
        looks.inspect(|pause| std::thread::sleep(*pause)).any(|_| TcpStream::connect(&proxy.at).is_err());
    assert!(stopped, "it still listens");
    assert!(proxy.holder.try_wait().unwrap().is_none());
    signal("TERM", proxy.holder.id());
    assert_eq!(proxy.holder.wait().unwrap().code(), Some(2));
}

#[test]
fn the_documented_file_lists_every_key_with_its_default_and_sets_nothing() {
    documents::<Settings>();
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.yml");
    std::fs::write(&file, "proxy:\n  threads: 2\nlimits:\n  idle: 2s\n  queue: 7\n").unwrap();
    let load = |variables: &[(&str, &str)], flags: &[Flag]| {
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Settings::load(Some(&file), variables, flags)
    };
    let flag = Flag { name: "--threads", key: "proxy.threads".to_owned(), value: "4".to_owned() };
    let variables = [
        ("CHOIRMASTER_PROXY_THREADS", "3"),
        ("CHOIRMASTER_PROXY_LIMITS_IDLE", "3s"),
        ("CHOIRMASTER_PROXY_CONFIG", "elsewhere"),
        ("CHOIRMASTER_LISTEN", "of another command"),
    ];
    let settings = load(&variables, &[flag]).unwrap();
    assert_eq!(
        (settings.threads, settings.limits.idle, settings.limits.queue),
        (4, Duration::from_secs(3), 7)
    );
    let error = load(&[("CHOIRMASTER_PROXY_IDLE", "3s"), ("CHOIRMASTER_PROXY_STATE", "")], &[]).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("CHOIRMASTER_PROXY_IDLE: no such variable"), "{said}");
    assert!(said.contains("CHOIRMASTER_PROXY_STATE: proxy.state: the path is empty"), "{said}");
}

#[test]
fn the_unit_starts_the_proxy_with_flags_and_a_configuration_that_it_takes() {
    let unit = std::fs::read_to_string(repository().join("config/choirmaster-proxy.service")).unwrap();
    let value = |key: &str| {
        let mut values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.next().unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    assert_eq!((value("KillMode").as_str(), value("Type").as_str()), ("process", "notify"));
    let (state, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let start = value("ExecStart")
        .replace("/etc/choirmaster/proxy.yml", &repository().join("config/proxy.yml").display().to_string())
        .replace("%S", &state.path().display().to_string())
        .replace("%t", &runtime.path().display().to_string());
    let mut words = start.split_whitespace();
    assert_eq!(words.next(), Some("/usr/local/bin/choirmaster"));
    let mut command = program(state.path());
    let mut process = command
        .args(words)
        .env("CHOIRMASTER_PROXY_LISTEN", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line:?}");
    let folder = |name: &str, below: &Path| below.join(value(name));
    assert!(folder("StateDirectory", state.path()).is_dir());
    assert!(folder("RuntimeDirectory", runtime.path()).join("control.sock").exists());
    signal("TERM", process.id());
    assert_eq!(process.wait().unwrap().code(), Some(0));
}
