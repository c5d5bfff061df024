//! What is counted of lines, whatever they hold; by a router that says what it is told to say.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use call_metrics::Cursor;
use router::log_line::LogPath;
use router::{
    Answer, Applied, Checked, Operations, Router, RouterError,
    measure::{Measure, MeasureError, Settings, Totals},
};
use traffic::{RouterKind, desired::DesiredConfig, observed::ObservedConfig};

use crate::loss::wait::wait_until;

/// Says how many calls have ended; it has no other answer.
#[derive(Debug, Default)]
struct Told {
    ended: AtomicU64,
    /// Each reading counts that many more.
    process: AtomicU64,
}

impl Told {
    fn none<T: Send>() -> Answer<'static, T> {
        Box::pin(async { Err(RouterError::Unable { router: "nobody", what: "nothing".to_owned() }) })
    }
}

impl Operations for Told {
    fn kind(&self) -> RouterKind {
        RouterKind::Haproxy
    }

    fn check<'a>(&'a self, _config: Option<&'a Path>) -> Answer<'a, Checked> {
        Self::none()
    }

    fn reload(&self) -> Answer<'_, ()> {
        Self::none()
    }

    fn adopt<'a>(&'a self, _: &'a str) -> Answer<'a, String> {
        Box::pin(async { Err(RouterError::Unable { router: "nobody", what: "nothing".to_owned() }) })
    }
}

impl Router for Told {
    fn apply<'a>(&'a self, _wanted: &'a DesiredConfig) -> Answer<'a, Applied> {
        Self::none()
    }

    fn read(&self) -> Answer<'_, ObservedConfig> {
        Self::none()
    }

    fn connections<'a>(&'a self, _service: &'a str, _variation: &'a str) -> Answer<'a, Option<u64>> {
        Self::none()
    }

    fn totals(&self) -> Answer<'_, Totals> {
        let process = self.process.load(Ordering::Relaxed) as u32;
        let ended = self.ended.load(Ordering::Relaxed);
        Box::pin(async move { Ok(Totals::Ended(BTreeMap::from([(process, ended)]))) })
    }
}

fn open(folder: &Path) -> (Arc<Measure>, PathBuf) {
    let path = folder.join("lines");
    let log: LogPath = path.to_str().unwrap().parse().unwrap();
    (Measure::open(Settings::at(log)).unwrap(), path)
}

#[tokio::test]
async fn the_socket_is_one_users_alone_and_nobody_elses_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (measure, path) = open(folder.path());
    let about = fs::metadata(&path).unwrap();
    assert_eq!(
        (about.permissions().mode() & 0o777, about.uid()),
        (0o600, rustix::process::geteuid().as_raw())
    );
    let again = Measure::open(Settings::at(path.to_str().unwrap().parse().unwrap())).unwrap_err();
    let MeasureError::Socket { source, .. } = &again;
    assert_eq!(source.kind(), std::io::ErrorKind::AddrInUse, "{again}");
    drop(measure);
    assert!(!path.exists());
    // What is there and no socket stays.
    fs::write(&path, "mine").unwrap();
    let refused = Measure::open(Settings::at(path.to_str().unwrap().parse().unwrap())).unwrap_err();
    assert!(refused.to_string().contains("no socket"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    // What a process left that was killed is in nobody's way.
    fs::remove_file(&path).unwrap();
    drop(UnixDatagram::bind(&path).unwrap());
    assert!(path.exists());
    drop(open(folder.path()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left beside it");
}

#[test]
fn paths_that_could_mean_something_else_are_refused() {
    for path in [
        "",
        "lines",
        "/a b",
        "/a;b",
        "/a,b",
        "/a:b",
        "/a/",
        "/a$b",
        "/a\nb",
        "/ä",
        &format!("/{}", "a".repeat(90)),
    ] {
        assert!(path.parse::<LogPath>().is_err(), "{path:?}");
    }
    assert_eq!(
        "/run/choirmaster/lines-1_a.sock".parse::<LogPath>().unwrap().as_str(),
        "/run/choirmaster/lines-1_a.sock"
    );
}

#[tokio::test]
async fn malformed_or_unwanted_log_lines_are_counted_as_nonsense() {
    let folder = tempfile::tempdir().unwrap();
    let (measure, path) = open(folder.path());
    let sender = UnixDatagram::unbound().unwrap();
    let long = format!("cm1|h|{}", "a".repeat(2_000));
    let lines = [
        "",
        "cm1",
        "cm1|",
        "nonsense",
        "cm1|x|a|b",
        "<190>Nov 23 12:00:00 cm:",
        "cm1|h|shop|choirmaster:shop:B|12|-|1795437576991|200|0|0|0|45|--|0|55|1369528|2862",
        "cm1|h|shop|choirmaster:shop:B|12|-|1795437576991|200|0|0|0|45|--|0|55|1369528",
        &long,
    ];
    for line in lines {
        sender.send_to(line.as_bytes(), &path).unwrap();
    }
    sender.send_to(&[0xff, 0xfe, b'|', 0], &path).unwrap();
    wait_until("all came", async || measure.reception().nonsense == lines.len() as u64 + 1).await;
    assert_eq!(measure.reception().calls, 0);
    assert_eq!(measure.since(Cursor::default()).closed, []);
}

/// Only the superuser can be another user, too.
#[tokio::test]
async fn lines_of_other_users_are_told_apart() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    let mut settings = Settings::at(path.to_str().unwrap().parse().unwrap());
    settings.sender = Some(65_533);
    let measure = Measure::open(settings).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().uid(), 65_533);
    // Who shouldn't be able to is let in, as by an operator's mistake.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let send = |user: u32| {
        let mut command = std::process::Command::new("setpriv");
        command.args([&format!("--reuid={user}"), "--clear-groups", "logger", "--socket-errors=off", "-u"]);
        command.arg(&path).arg("a line");
        command.status().is_ok_and(|status| status.success())
    };
    if !send(65_533) {
        // There is no such program here.
        return;
    }
    wait_until("it came", async || measure.reception().nonsense == 1).await;
    assert!(send(65_532));
    wait_until("it came", async || measure.reception().of_others == 1).await;
    assert_eq!(measure.reception().nonsense, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_missing_from_router_log_count_as_lost_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let (measure, _) = open(folder.path());
    let told = Arc::new(Told::default());
    told.ended.store(1_000_000, Ordering::Relaxed);
    told.process.store(7, Ordering::Relaxed);
    let router: Arc<dyn Router> = Arc::clone(&told) as _;
    let _counted = measure.count(&router);
    let closed = async |intervals: u64| {
        let first = measure.since(Cursor::default()).next.interval;
        wait_until("intervals are closed", async || {
            measure.since(Cursor::default()).next.interval >= first + intervals
        })
        .await;
    };
    closed(1).await;
    assert_eq!(measure.reception().lost, Some(0), "what was before nobody saw");
    told.ended.fetch_add(30, Ordering::Relaxed);
    wait_until("that is noticed", async || measure.reception().lost == Some(30)).await;
    // Another process takes its place.
    told.process.store(8, Ordering::Relaxed);
    told.ended.store(5, Ordering::Relaxed);
    wait_until("that is noticed", async || measure.reception().lost == Some(35)).await;
    // The same one counts from nothing: it was started anew under its number.
    let before = measure.reception().not_measured;
    told.ended.store(0, Ordering::Relaxed);
    wait_until("that is noticed", async || measure.reception().not_measured > before).await;
    assert_eq!(measure.since(Cursor::default()).gone, 35);
}

/// It would stand for one that is lost later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_a_call_that_ended_before_anybody_looked_hides_no_lost_one() {
    let folder = tempfile::tempdir().unwrap();
    let (measure, path) = open(folder.path());
    let told = Arc::new(Told::default());
    told.ended.store(1, Ordering::Relaxed);
    let router: Arc<dyn Router> = Arc::clone(&told) as _;
    let _counted = measure.count(&router);
    let interval = || measure.since(Cursor::default()).next.interval;
    let closes = async |above: u64| wait_until("an interval is closed", async || interval() > above).await;
    closes(0).await;
    UnixDatagram::unbound().unwrap().send_to(b"cm1|n?", &path).unwrap();
    // One that it comes in, and one that begins after it.
    closes(interval() + 1).await;
    told.ended.fetch_add(1, Ordering::Relaxed);
    wait_until("that is noticed", async || measure.reception().lost == Some(1)).await;
}
