//! What is counted of a router's calls from the lines that it logs.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use call_metrics::{Cursor, Key, Tally};
use router::log_line::{LANES, LogPath};
use router::{
    Router,
    measure::{CountingGuard, Measure, Settings},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixDatagram},
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use traffic::{
    Bucket, Failure, RouterKind, Variation as Which,
    desired::{Listen, Protocol, ServiceSpec, StickyTo},
};

use super::{Real, done};
use crate::{
    conformance::state::with_shares,
    loss::wait::wait_until,
    world::{
        backend::Backend,
        caller::Caller,
        place::{self, free_port},
        wants::{HEADER, RULE, number, rule, service, wanted},
    },
};

/// Receives lines and counts them.
struct Counts {
    measure: Arc<Measure>,
    _counted: CountingGuard,
    cursor: Cursor,
    all: BTreeMap<Key, Tally>,
    gone: u64,
}

impl Counts {
    async fn begin(measure: Arc<Measure>, router: &Arc<dyn Router>) -> Self {
        let counted = measure.count(router);
        let mut this =
            Self { measure, _counted: counted, cursor: Cursor::default(), all: BTreeMap::new(), gone: 0 };
        // What the router did before it was looked at first is nobody's.
        wait_until("an interval is closed", async || this.read().next.interval > 0).await;
        this
    }

    fn read(&mut self) -> call_metrics::Reading {
        let reading = self.measure.since(self.cursor);
        self.cursor = reading.next;
        for row in reading.closed.iter().flat_map(|interval| &interval.rows) {
            self.all.entry(Key::clone(&row.key)).or_default().merge(&row.tally);
        }
        self.gone = reading.gone;
        reading
    }

    fn calls(&self) -> u64 {
        self.all.values().map(|tally| tally.calls).sum()
    }

    /// Waits until this many lines have come. So no more wait at once than there is room for, however busy the machine is.
    async fn received(&self, calls: u64) {
        let measure = &self.measure;
        wait_until("the line comes", async || measure.reception().calls >= calls).await;
    }

    /// Reads until so many calls are counted, or gone, of which so many have no line. One on its way may be taken for lost meanwhile.
    async fn until(&mut self, calls: u64, lost: u64) {
        wait_until("all lines that came are counted", async || {
            let is_settled = self.measure.reception().lost.unwrap_or(0) == lost;
            self.read();
            is_settled && self.calls() + self.gone >= calls
        })
        .await;
        assert_eq!(self.calls() + self.gone, calls, "{:?}", self.measure.reception());
    }

    fn of(&self, variation: &str, by_header: bool) -> Tally {
        let mut sum = Tally::default();
        let of = |key: &&Key| key.variation == variation && key.by_header == by_header;
        self.all.keys().filter(of).for_each(|key| sum.merge(&self.all[key]));
        sum
    }
}

fn path_in(folder: &Path, name: &str) -> LogPath {
    folder.join(name).to_str().unwrap().parse().unwrap()
}

fn measure_at(path: &LogPath) -> Arc<Measure> {
    Measure::open(Settings::at(path.clone())).unwrap()
}

/// A user of the split who has this variation.
fn user_of(spec: &ServiceSpec, which: u8) -> String {
    let bucket = |user: &str| Bucket::of_key(spec.hash, spec.salt.as_str().as_bytes(), user.as_bytes());
    let is_of = |user: &String| spec.table.variation(bucket(user)) == Which(which);
    (0..u32::MAX).map(|user| format!("user{user}")).find(is_of).unwrap()
}

pub async fn calls_are_counted_by_how_they_ended<R: Real>() {
    let real = R::start_logging_exactly().await;
    let folder = tempfile::tempdir().unwrap();
    let log = path_in(folder.path(), "lines");
    let measure = measure_at(&log);
    let router = real.open_logging(&log, Some(&measure));
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[7_000, 3_000]);
    spec.hash = R::HASH;
    spec.sticky = Some(StickyTo::Header(HEADER.parse().unwrap()));
    spec.rule = Some(rule(&[("B", 1)]));
    measure.announce(number(1), [("checkout".to_owned(), "stage".to_owned())].into());
    done(&router, &wanted(1, &[&spec])).await;
    let mut counts = Counts::begin(measure, &router).await;

    let mut caller = Caller::new(real.at(port));
    let mut given = BTreeMap::<String, u64>::new();
    for user in 0..60_u64 {
        *given.entry(caller.variation(&[(HEADER, &format!("user{user}"))]).await).or_default() += 1;
        counts.received(user + 1).await;
    }
    for call in 0..3 {
        assert_eq!(caller.variation(&[(RULE, "B")]).await, "B");
        counts.received(61 + call).await;
    }
    let of_b = user_of(&spec, 1);
    let mut came = 63;
    for (path, times) in [("/status/404", 2), ("/status/503", 3), ("/die", 2), ("/break", 1)] {
        for _ in 0..times {
            let _ = Caller::new(real.at(port)).try_get(path, &[(HEADER, &of_b)]).await;
            came += 1;
            counts.received(came).await;
        }
    }
    // A caller who leaves in the middle of an answer, and one who says nothing that is a call.
    let leaves = std::net::TcpStream::connect(real.at(port)).unwrap();
    let call = format!("GET /big HTTP/1.1\r\nHost: here\r\n{HEADER}: {of_b}\r\n\r\n");
    std::io::Write::write_all(&mut &leaves, call.as_bytes()).unwrap();
    std::io::Read::read_exact(&mut &leaves, &mut [0; 1_000]).unwrap();
    drop(leaves);
    // HAProxy sends a line twice and another one never where two of its threads log at the same time.
    counts.received(came + 1).await;
    let nonsense = std::net::TcpStream::connect(real.at(port)).unwrap();
    std::io::Write::write_all(&mut &nonsense, b"this is nothing\r\n\r\n").unwrap();
    drop(nonsense);

    counts.until(60 + 3 + 8 + 1, 0).await;
    let (a, b, asked) = (counts.of("A", false), counts.of("B", false), counts.of("B", true));
    assert_eq!((a.succeeded, b.succeeded, asked.calls, asked.succeeded), (given["A"], given["B"], 3, 3));
    let failed = |failure: Failure| b.failed[failure as usize];
    assert_eq!((b.client_errors, b.errors, failed(Failure::Died)), (2, 3, 2), "{b:?}");
    assert_eq!((b.broken_off, b.callers_gone), (1, 1), "{b:?}");
    let groups = b.groups.unwrap();
    assert_eq!(groups.calls.iter().sum::<u64>(), b.calls - 1, "of all that it had to answer");
    assert_eq!(groups.failures.iter().sum::<u64>(), 6);
    assert_eq!(
        a.groups.unwrap().calls.iter().filter(|calls| **calls > 0).count() as u64,
        groups_of(&spec, 0)
    );
    assert_eq!((b.times.count(), b.times.step_us()), (given["B"], 1_000));
    assert!(counts.all.keys().all(|key| key.split == "stage" && *key.shares == [7_000, 3_000]));
    let reception = counts.measure.reception();
    assert_eq!((reception.lost.unwrap_or(0), reception.not_measured, reception.nonsense), (0, 0, 0));
}

/// Such as nginx after some failures, and `HAProxy` in maintenance: it is the router that fails these calls.
pub async fn calls_without_a_target_are_counted_apart<R: Real>() {
    let real = R::start_logging_exactly().await;
    let folder = tempfile::tempdir().unwrap();
    let log = path_in(folder.path(), "lines");
    let measure = measure_at(&log);
    let router = real.open_logging(&log, Some(&measure));
    let (a, ports) = (Backend::start("A").await, [free_port(), free_port()]);
    let at_a = a.target.to_string().parse().unwrap();
    let of = |name: &str, port: u16, names: [&str; 2]| {
        let backends = names
            .map(|name| Backend::elsewhere(name, if name == "A" { at_a } else { place::at(free_port()) }));
        let mut spec = service(name, port, &backends, &[5_000, 5_000]);
        spec.hash = R::HASH;
        spec.sticky = Some(StickyTo::Header(HEADER.parse().unwrap()));
        let dead = spec.variations.iter_mut().find(|variation| variation.name.as_str() == "B").unwrap();
        dead.targets.push(place::at(free_port()).to_string().parse().unwrap());
        spec
    };
    let (tried, stable) = (of("checkout", ports[0], ["A", "B"]), of("shop", ports[1], ["B", "A"]));
    done(&router, &wanted(1, &[&tried, &stable])).await;
    let mut counts = Counts::begin(Arc::clone(&measure), &router).await;
    for (spec, port, which) in [(&tried, ports[0], 1), (&stable, ports[1], 0)] {
        real.take_out(spec.name.as_str()).await;
        let (of_b, of_a) = (user_of(spec, which), user_of(spec, 1 - which));
        let without_target = async |counts: &mut Counts| {
            let _ = Caller::new(real.at(port)).try_get("/", &[(HEADER, &of_b)]).await;
            counts.read();
            let of = counts.all.iter().filter(|(key, _)| key.service == spec.name.as_str());
            of.map(|(_, tally)| tally.no_target).sum::<u64>() > 1
        };
        wait_until("it takes none to be there", async || without_target(&mut counts).await).await;
        assert_eq!(Caller::new(real.at(port)).variation(&[(HEADER, &of_a)]).await, "A");
    }
    for (key, tally) in counts.all.iter().filter(|(key, _)| key.variation == "B") {
        let failed: u64 = tally.failed.iter().sum();
        assert_eq!(tally.calls, tally.no_target + failed, "{key:?} {tally:?}");
        assert!(tally.times.is_empty() && tally.failures() == failed, "{tally:?}");
    }
    // Somebody is to look at the one of which nothing else is left.
    let alarms = async || {
        let _ = Caller::new(real.at(ports[1])).try_get("/", &[(HEADER, &user_of(&stable, 0))]).await;
        measure.alarms()
    };
    wait_until("it is an alarm", async || {
        let alarms = alarms().await;
        alarms.len() == 1
            && alarms[0].starts_with("shop: ")
            && alarms[0].ends_with(" calls found no target of its stable variation B")
    })
    .await;
}

/// The first addresses of this machine that have this variation.
fn addresses_of(spec: &ServiceSpec, which: u8) -> impl Iterator<Item = IpAddr> {
    let address = |at: u16| IpAddr::from([127, 1, at.to_be_bytes()[0], 1 + at.to_be_bytes()[1] % 200]);
    let is_of = move |address: &IpAddr| {
        let key = address.to_string();
        let bucket = Bucket::of_key(spec.hash, spec.salt.as_str().as_bytes(), key.as_bytes());
        spec.table.variation(bucket) == Which(which)
    };
    (0..u16::MAX).map(address).filter(is_of)
}

pub async fn connections_are_counted_by_how_they_ended<R: Real>() {
    let real = R::start_logging_exactly().await;
    let folder = tempfile::tempdir().unwrap();
    let log = path_in(folder.path(), "lines");
    let measure = measure_at(&log);
    let router = real.open_logging(&log, Some(&measure));
    let backends = [Backend::start("A").await, Backend::elsewhere("B", place::at(free_port()))];
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
    spec.hash = R::HASH;
    spec.listens = vec![Listen::new(port, Protocol::Tcp)];
    spec.sticky = Some(StickyTo::Address);
    measure.announce(number(1), [("checkout".to_owned(), "stage".to_owned())].into());
    done(&router, &wanted(1, &[&spec])).await;
    let mut counts = Counts::begin(measure, &router).await;

    let mut came = 0;
    for from in addresses_of(&spec, 0).take(10) {
        assert_eq!(Caller::from_address(real.at(port), from).variation(&[]).await, "A");
        came += 1;
        counts.received(came).await;
    }
    for from in addresses_of(&spec, 1).take(2) {
        assert!(Caller::from_address(real.at(port), from).try_get("/", &[]).await.is_err());
        came += 1;
        counts.received(came).await;
    }
    // Who only looks whether somebody is there has not called. HAProxy logs nothing of that either, but counts it as a session.
    if R::KIND == RouterKind::Nginx {
        drop(std::net::TcpStream::connect(real.at(port)).unwrap());
    }
    let last = addresses_of(&spec, 0).next().unwrap();
    assert_eq!(Caller::from_address(real.at(port), last).variation(&[]).await, "A");

    counts.until(13, 0).await;
    let (a, b) = (counts.of("A", false), counts.of("B", false));
    assert_eq!((a.calls, a.succeeded, a.failures(), a.times.count()), (11, 11, 0, 11), "{a:?}");
    assert_eq!((b.calls, b.succeeded, b.failed[Failure::Refused as usize]), (2, 0, 2), "{b:?}");
    assert!(a.bytes_up > 0 && a.bytes_down > a.bytes_up, "{a:?}");
    assert_eq!(a.groups.unwrap().calls.iter().sum::<u64>(), 11);
    assert!(counts.all.keys().all(|key| key.split == "stage"), "{:?}", counts.all.keys());
    let reception = counts.measure.reception();
    assert_eq!((reception.not_measured, reception.nonsense), (0, 0));
}

/// As mail servers and databases do, which greet whoever comes.
pub async fn a_connection_on_which_only_the_target_speaks_is_a_call<R: Real>() {
    const GREETING: &[u8] = b"220 here\r\n";
    let real = R::start_logging_exactly().await;
    let folder = tempfile::tempdir().unwrap();
    let log = path_in(folder.path(), "lines");
    let measure = measure_at(&log);
    let router = real.open_logging(&log, Some(&measure));
    let listener = TcpListener::bind(place::at(0)).await.unwrap();
    let backends = [Backend::elsewhere("A", listener.local_addr().unwrap())];
    let mut greeting = JoinSet::new();
    greeting.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(GREETING).await;
        }
    });
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[10_000]);
    spec.hash = R::HASH;
    spec.listens = vec![Listen::new(port, Protocol::Tcp)];
    spec.sticky = None;
    done(&router, &wanted(1, &[&spec])).await;
    let mut counts = Counts::begin(measure, &router).await;
    let mut heard = Vec::new();
    TcpStream::connect(real.at(port)).await.unwrap().read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, GREETING);
    counts.until(1, 0).await;
    let a = counts.of("A", false);
    assert_eq!((a.calls, a.succeeded, a.bytes_up), (1, 1, 0), "{a:?}");
    assert_eq!(a.bytes_down, GREETING.len() as u64);
}

/// Of how many groups the users are that have this variation.
fn groups_of(spec: &ServiceSpec, which: u8) -> u64 {
    let bucket = |user: u32| {
        Bucket::of_key(spec.hash, spec.salt.as_str().as_bytes(), format!("user{user}").as_bytes())
    };
    let of = (0..60).map(bucket).filter(|bucket| spec.table.variation(*bucket) == Which(which));
    of.map(|bucket| bucket.index() % u16::from(traffic::GROUPS))
        .collect::<std::collections::BTreeSet<_>>()
        .len() as u64
}

pub async fn nobody_waits_for_a_line_whatever_becomes_of_it<R: Real>() {
    const CALLS: u32 = 400;
    let real = R::start().await;
    let folder = tempfile::tempdir().unwrap();
    let log = path_in(folder.path(), "lines");
    let router = real.open_logging(&log, None);
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let calls = async || {
        let mut caller = Caller::new(real.at(port));
        for _ in 0..CALLS {
            caller.get("/", &[]).await;
        }
    };
    // Nothing is there.
    calls().await;
    // Somebody is, and doesn't read: there is no room after some lines.
    let bind = |lane| std::os::unix::net::UnixDatagram::bind(log.lane(lane)).unwrap();
    let stopped: Vec<_> = (0..LANES).map(bind).collect();
    calls().await;
    let mut waiting = 0;
    for socket in &stopped {
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0; 2_048]).is_ok() {
            waiting += 1;
        }
    }
    assert!((1..CALLS).contains(&waiting), "{waiting} lines wait, and the others have no room");
    // It is killed, and leaves its socket behind.
    drop(stopped);
    calls().await;
    assert!(Path::new(log.as_str()).exists());
    // And another one comes.
    let measure = measure_at(&log);
    let mut caller = Caller::new(real.at(port));
    wait_until("lines come again", async || {
        caller.get("/", &[]).await;
        measure.reception().nonsense > 0
    })
    .await;
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Comes,
    IsLost,
    /// Comes once that is allowed.
    IsLate,
}

/// Hands on the lines that it gets, by their fate.
struct HandsOn {
    calls: Arc<AtomicU32>,
    late: Arc<Semaphore>,
    _tasks: Vec<JoinHandle<()>>,
}

fn hand_on(from: &LogPath, to: &LogPath, fate: impl Fn(u32) -> Fate + Send + Sync + 'static) -> HandsOn {
    let (calls, late) = (Arc::<AtomicU32>::default(), Arc::new(Semaphore::new(0)));
    let fate = Arc::new(fate);
    let of_lane = |lane| {
        let socket = UnixDatagram::bind(from.lane(lane)).unwrap();
        let to = to.lane(lane);
        let (seen, late, fate) = (Arc::clone(&calls), Arc::clone(&late), Arc::clone(&fate));
        tokio::spawn(async move {
            let mut room = [0; 2_048];
            while let Ok(length) = socket.recv(&mut room).await {
                let line = &room[..length];
                if line.ends_with(b"|n?") {
                    socket.send_to(line, &to).await.unwrap();
                    continue;
                }
                // The calls of these tests come one after the other, whichever sockets their lines come to.
                let call = seen.load(Ordering::Acquire) + 1;
                match fate(call) {
                    Fate::Comes => drop(socket.send_to(line, &to).await.unwrap()),
                    Fate::IsLost => {}
                    Fate::IsLate => {
                        let (late, line, to) = (Arc::clone(&late), line.to_vec(), to.clone());
                        tokio::spawn(async move {
                            late.acquire().await.unwrap().forget();
                            std::os::unix::net::UnixDatagram::unbound().unwrap().send_to(&line, to).unwrap();
                        });
                    }
                }
                seen.store(call, Ordering::Release);
            }
        })
    };
    let tasks = (0..LANES).map(of_lane).collect();
    HandsOn { calls, late, _tasks: tasks }
}

/// Calls one after the other, up to that number, each once what became of the line before is known. In between it waits some times as
/// long as a call took: six looks in a row at a router would else all meet one whose line is on its way, where the machine is slow.
async fn call_up_to(number: u32, caller: &mut Caller, handing_on: &HandsOn) {
    const PAUSE: u32 = 4;
    let handed_on = || handing_on.calls.load(Ordering::Acquire);
    while handed_on() < number {
        let (begun, before) = (Instant::now(), handed_on());
        caller.get("/", &[]).await;
        wait_until("its line came", async || handed_on() > before).await;
        tokio::time::sleep(begun.elapsed() * PAUSE).await;
    }
}

pub async fn lines_that_are_lost_are_known_and_nothing_is_said_of_their_interval<R: Real>() {
    const CALLS: u32 = 300;
    let real = R::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (log, to) = (path_in(folder.path(), "log"), path_in(folder.path(), "lines"));
    let measure = measure_at(&to);
    // Of the first 300 none, of the others each tenth.
    let is_lost = |call| call > CALLS && call % 10 == 0;
    let handing_on = hand_on(&log, &to, move |call| if is_lost(call) { Fate::IsLost } else { Fate::Comes });
    let router = real.open_logging(&log, Some(&measure));
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let mut counts = Counts::begin(measure, &router).await;
    let mut caller = Caller::new(real.at(port));
    call_up_to(CALLS, &mut caller, &handing_on).await;
    counts.until(u64::from(CALLS), 0).await;
    assert_eq!((counts.calls(), counts.gone), (u64::from(CALLS), 0));
    call_up_to(2 * CALLS, &mut caller, &handing_on).await;
    let lost = u64::from(CALLS / 10);
    counts.until(u64::from(2 * CALLS), lost).await;
    // An interval that had nothing but calls between two lost ones is measured.
    assert!(counts.calls() >= u64::from(CALLS) && counts.gone > lost, "{} {}", counts.calls(), counts.gone);
    assert!(counts.measure.reception().not_measured > 0);
}

pub async fn a_call_whose_line_comes_late_is_one_call_and_no_lost_one<R: Real>() {
    const CALLS: u32 = 10;
    let real = R::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (log, to) = (path_in(folder.path(), "log"), path_in(folder.path(), "lines"));
    let measure = measure_at(&to);
    let fate = |call| match call {
        CALLS => Fate::IsLate,
        _ if call > CALLS => Fate::IsLost,
        _ => Fate::Comes,
    };
    let handing_on = hand_on(&log, &to, fate);
    let router = real.open_logging(&log, Some(&measure));
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[5_000, 5_000]);
    spec.hash = R::HASH;
    done(&router, &wanted(1, &[&spec])).await;
    let mut counts = Counts::begin(measure, &router).await;
    let mut caller = Caller::new(real.at(port));
    call_up_to(CALLS, &mut caller, &handing_on).await;
    counts.until(u64::from(CALLS), 1).await;
    handing_on.late.add_permits(1);
    counts.until(u64::from(CALLS), 0).await;
    assert_eq!(counts.measure.reception().calls, u64::from(CALLS));
    // The next one that is lost isn't taken for the one that came.
    call_up_to(CALLS + 1, &mut caller, &handing_on).await;
    counts.until(u64::from(CALLS + 1), 1).await;
}

pub async fn a_call_is_in_the_split_by_which_it_was_given_out<R: Real>() {
    let real = R::start().await;
    let folder = tempfile::tempdir().unwrap();
    let log = path_in(folder.path(), "lines");
    let measure = measure_at(&log);
    let router = real.open_logging(&log, Some(&measure));
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let mut spec = service("checkout", port, &backends, &[10_000, 0]);
    spec.hash = R::HASH;
    spec.sticky = None;
    let name = |split: &str| BTreeMap::from([("checkout".to_owned(), split.to_owned())]);
    measure.announce(number(1), name("none"));
    measure.announce(number(2), name("all"));
    done(&router, &wanted(1, &[&spec])).await;
    let mut counts = Counts::begin(measure, &router).await;
    let calling = tokio::spawn({
        let at = real.at(port);
        async move {
            let mut caller = Caller::new(at);
            let mut of = BTreeMap::<String, u64>::new();
            while of.get("B").is_none_or(|calls| *calls < 200) {
                *of.entry(caller.variation(&[]).await).or_default() += 1;
                // Some more than there is room for would come while nobody receives, on a machine that does other things.
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            of
        }
    });
    wait_until("there were calls", async || {
        counts.read();
        counts.calls() > 20
    })
    .await;
    done(&router, &wanted(2, &[&with_shares(&spec, &[0, 10_000])])).await;
    let of = calling.await.unwrap();
    // What has no line, since nothing paused for it, is gone.
    wait_until("all calls are counted or gone", async || {
        counts.read();
        counts.calls() + counts.gone >= of.values().sum()
    })
    .await;
    let by_split = |split: &str, variation: &str| -> u64 {
        let of = counts.all.iter().filter(|(key, _)| key.split == split && key.variation == variation);
        of.map(|(_, tally)| tally.calls).sum()
    };
    assert_eq!((by_split("none", "B"), by_split("all", "A")), (0, 0), "{:?}", counts.all.keys());
    assert!(by_split("none", "A") > 20 && by_split("all", "B") > 0, "{:?}", counts.measure.reception());
    // The others were given out while that changed.
    assert!(by_split("none", "A") + by_split("", "A") <= of["A"]);
    assert!(by_split("all", "B") + by_split("", "B") <= of["B"]);
}
