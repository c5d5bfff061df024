use std::{
    io::Read,
    net::SocketAddr,
    num::NonZeroU32,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use proxy::{
    Limits, Measuring, Proxy,
    access_log::{AccessLog, LogTarget, Logged},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    counts::acting::{Act, Caller, Saw, acting},
    world::{table, wait_until},
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn logging(logged: Logged, path: &Path, new_share: u16) -> (Proxy, SocketAddr) {
    let access_log = AccessLog { logged, to: LogTarget::File(path.to_owned()) };
    let measuring = Measuring { access_log, ..Measuring::default() };
    let proxy = Proxy::start_measuring(2, Limits::default(), &measuring).unwrap();
    let at = proxy.listen(&std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let ((base, _), (new, _)) = (acting(None).await, acting(None).await);
    proxy.apply(&table(4, base, new, new_share)).await.unwrap();
    (proxy, at)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    (folder, path)
}

fn dropped(metrics: &str) -> u64 {
    let line = metrics.lines().find(|line| line.starts_with("choirmaster_proxy_log_dropped_total ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn each_call_has_a_line_with_what_became_of_it() {
    let (_folder, path) = folder();
    let (proxy, at) = logging(Logged::All, &path, 10_000).await;
    let mut caller = Caller::new(at);
    let traced = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\nX-Secret: hush\r\n");
    for act in [Act::Ok, Act::NotFound, Act::Die] {
        caller.call("GET", act, &traced).await;
    }
    caller.call("POST", Act::Broken, "traceparent: 00-\"}{\\-00f067aa0ba902b7-01\r\n").await;
    proxy.flush_log().await;
    let lines = lines(&path);
    let said = |field: &str| lines.iter().map(|line| line[field].clone()).collect::<Vec<_>>();
    assert_eq!(said("status"), [Value::from(200), 404.into(), 502.into(), 500.into()]);
    assert_eq!(said("class"), ["success", "client_error", "died", "error"]);
    assert_eq!(said("repeated"), [false, false, true, false]);
    assert_eq!(said("trace"), [TRACE.into(), TRACE.into(), TRACE.into(), Value::Null]);
    for line in &lines {
        assert_eq!(
            (&line["route"], &line["variation"], &line["table"]),
            (&"a".into(), &"new".into(), &"0.4".into())
        );
        assert!(line["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
        assert!(line["ms"].as_f64().unwrap() >= 0.0, "{line}");
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hush") && !text.contains("not-found"), "{text}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_log_that_is_off_writes_nothing_and_a_sampled_one_about_its_part() {
    let (_folder, path) = folder();
    let (proxy, at) = logging(Logged::Off, &path, 0).await;
    Caller::new(at).call("GET", Act::Ok, "").await;
    proxy.flush_log().await;
    assert!(!path.exists());

    let (proxy, at) = logging(Logged::Sampled(NonZeroU32::new(4).unwrap()), &path, 0).await;
    let mut caller = Caller::new(at);
    for _ in 0..800 {
        caller.call("GET", Act::Ok, "").await;
    }
    proxy.flush_log().await;
    // 200 are expected, with a standard deviation of 12.2: ten of them to each side.
    let written = lines(&path).len();
    assert!((78..=322).contains(&written), "{written}");
}

#[tokio::test]
async fn renamed_log_continues_in_new_file_without_losing_lines() {
    let (_folder, path) = folder();
    let (proxy, at) = logging(Logged::All, &path, 0).await;
    let mut caller = Caller::new(at);
    caller.call("GET", Act::Ok, "").await;
    proxy.flush_log().await;
    let old = path.with_extension("old");
    std::fs::rename(&path, &old).unwrap();
    let mut made = 1;
    wait_until("there is a new file", async || {
        caller.call("GET", Act::Ok, "").await;
        proxy.flush_log().await;
        made += 1;
        path.exists()
    })
    .await;
    assert_eq!(lines(&old).len() + lines(&path).len(), made);
}

#[tokio::test]
async fn a_log_that_can_not_be_written_costs_no_call_and_its_lines_are_counted() {
    let (proxy, at) = logging(Logged::All, Path::new("/dev/full"), 0).await;
    let mut caller = Caller::new(at);
    for _ in 0..20 {
        assert_eq!(caller.call("GET", Act::Ok, "").await, Saw::Answer { status: 200, by: "base".into() });
    }
    proxy.flush_log().await;
    assert_eq!(dropped(&proxy.metrics().await), 20);
}

#[tokio::test]
async fn a_log_that_nobody_takes_blocks_no_call_and_what_has_no_place_is_counted() {
    const CALLS: usize = 12_000;
    let (_folder, path) = folder();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut pipe = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let (proxy, at) = logging(Logged::All, &path, 0).await;
    let mut stream = TcpStream::connect(at).await.unwrap();
    let (mut from, mut to) = stream.split();
    let send = async {
        for _ in 0..CALLS / 100 {
            to.write_all("GET /a/ok HTTP/1.1\r\nHost: here\r\n\r\n".repeat(100).as_bytes()).await.unwrap();
        }
    };
    let take = async {
        let (mut answers, mut tail) = (0, Vec::new());
        while answers < CALLS {
            assert!(from.read_buf(&mut tail).await.unwrap() > 0);
            let ends = tail.windows(6).filter(|six| six == b"\r\n\r\nok").count();
            answers += ends;
            if let Some(at) = tail.windows(6).rposition(|six| six == b"\r\n\r\nok") {
                tail.drain(..at + 6);
            }
        }
    };
    tokio::join!(send, take);
    let dropped = dropped(&proxy.metrics().await);
    assert!(dropped > 0);
    let reader = std::thread::spawn(move || {
        let (mut lines, mut room) = (0, vec![0; 65_536]);
        while lines + (dropped as usize) < CALLS {
            let came = pipe.read(&mut room).unwrap();
            lines += memchr::memchr_iter(b'\n', &room[..came]).count();
        }
        lines + dropped as usize
    });
    assert_eq!(reader.join().unwrap(), CALLS);
}

#[test]
fn which_calls_are_logged_is_said_in_a_word_or_a_number() {
    assert_eq!("off".parse(), Ok(Logged::Off));
    assert_eq!("all".parse(), Ok(Logged::All));
    assert_eq!("100".parse(), Ok(Logged::Sampled(NonZeroU32::new(100).unwrap())));
    for wrong in ["0", "-1", "some", ""] {
        assert!(wrong.parse::<Logged>().is_err(), "{wrong}");
    }
}
