//! Services of TCP and UDP, which stand in a file for the operator's `stream { … }`.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use router::{Router, RouterError, nginx::config::stream_digest};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    net::{TcpListener, UdpSocket},
    task::JoinHandle,
    time::timeout,
};
use traffic::{
    Bucket, HashFunction,
    desired::{Listen, Protocol, ServiceSpec, StickyTo},
    observed::{Difference, differences},
};

use super::real::{LaterNginx, RealNginx};
use crate::{
    conformance::{
        Real, comes_true, done,
        drains::{begin, end},
        state::with_shares,
    },
    loss::wait::wait_until,
    world::{
        backend::Backend,
        caller::Caller,
        place::{at, free_port},
        wants::{SALT, number, service, wanted},
    },
};

/// Answers each datagram with its name.
struct Datagrams {
    backend: Backend,
    task: JoinHandle<()>,
}

impl Datagrams {
    async fn start(name: &'static str) -> Self {
        let socket = UdpSocket::bind(at(0)).await.unwrap();
        let backend = Backend::elsewhere(name, socket.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let mut came = [0; 64];
            while let Ok((_, from)) = socket.recv_from(&mut came).await {
                let _ = socket.send_to(name.as_bytes(), from).await;
            }
        });
        Self { backend, task }
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn over(protocol: Protocol, port: u16, backends: &[Backend], shares: &[u16]) -> ServiceSpec {
    let mut spec = service("checkout", port, backends, shares);
    spec.listens = vec![Listen::new(port, protocol)];
    spec.sticky = None;
    spec
}

/// The variation that answers a datagram of this socket. Asks again where one was lost, which datagrams may be.
async fn variation(socket: &UdpSocket) -> String {
    const ONCE: Duration = Duration::from_secs(1);
    let mut came = [0; 64];
    let mut answer = None;
    wait_until("a datagram is answered", async || {
        // What comes to an earlier question is no answer to this one.
        while socket.try_recv(&mut came).is_ok() {}
        let _ = socket.send(b"who").await;
        answer = timeout(ONCE, socket.recv(&mut came)).await.ok().and_then(Result::ok);
        answer.is_some_and(|length| length > 0)
    })
    .await;
    String::from_utf8(came[..answer.unwrap()].to_vec()).unwrap()
}

fn expected(spec: &ServiceSpec, key: &str) -> String {
    let bucket = Bucket::of_key(HashFunction::Murmur2, SALT.as_bytes(), key.as_bytes());
    spec.variations[spec.table.variation(bucket).index()].name.to_string()
}

async fn caller(from: IpAddr, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).await.unwrap();
    socket.connect(to).await.unwrap();
    socket
}

/// Flows, each with its key, of this service.
async fn flows(spec: &ServiceSpec, to: SocketAddr) -> Vec<(UdpSocket, String)> {
    let mut flows = Vec::new();
    for user in 0..60 {
        let from = Ipv4Addr::new(127, 1, user, 99).into();
        let socket = caller(from, to).await;
        let key = match &spec.sticky {
            Some(_) => from.to_string(),
            None => socket.local_addr().unwrap().to_string(),
        };
        flows.push((socket, key));
    }
    flows
}

async fn datagrams_go_where_the_table_says<R: Real>(sticky: Option<StickyTo>) {
    let real = R::start().await;
    let router = real.open();
    let (a, b) = (Datagrams::start("A").await, Datagrams::start("B").await);
    let backends = [&a, &b].map(|one| Backend::elsewhere(&one.backend.name, address(&one.backend)));
    let port = free_port();
    let mut spec = over(Protocol::Udp, port, &backends, &[5_000, 5_000]);
    spec.sticky = sticky;
    done(&router, &wanted(1, &[&spec])).await;
    let flows = flows(&spec, real.at(port)).await;
    for (generation, shares) in (2..).zip([[5_000, 5_000], [9_000, 1_000], [0, 10_000], [10_000, 0]]) {
        let before = spec.table.clone();
        spec = with_shares(&spec, &shares);
        let was_reloaded = done(&router, &wanted(generation, &[&spec])).await.was_reloaded;
        assert_eq!(was_reloaded, spec.table != before);
        for (socket, key) in &flows {
            // Whichever of its workers reads it.
            for _ in 0..3 {
                assert_eq!(variation(socket).await, expected(&spec, key), "{key}");
            }
        }
    }
}

fn address(backend: &Backend) -> SocketAddr {
    backend.target.to_string().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_flow_of_datagrams_goes_where_its_address_and_port_belong() {
    datagrams_go_where_the_table_says::<RealNginx>(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_are_split_by_the_address_that_they_come_from() {
    datagrams_go_where_the_table_says::<LaterNginx>(Some(StickyTo::Address)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_of_datagrams_is_counted_while_it_goes_on() {
    let real = RealNginx::start().await;
    let router = real.open();
    let (a, b) = (Datagrams::start("A").await, Datagrams::start("B").await);
    let backends = [&a, &b].map(|one| Backend::elsewhere(&one.backend.name, address(&one.backend)));
    let port = free_port();
    let spec = over(Protocol::Udp, port, &backends, &[0, 10_000]);
    done(&router, &wanted(1, &[&spec])).await;
    let count = async |variation| router.connections("checkout", variation).await.unwrap();
    assert_eq!((count("A").await, count("B").await), (Some(0), Some(0)));
    let flow = caller(Ipv4Addr::LOCALHOST.into(), real.at(port)).await;
    assert_eq!(variation(&flow).await, "B");
    assert_eq!((count("A").await, count("B").await), (Some(0), Some(1)));
}

/// Takes this from the operator's configuration.
fn without(real: &RealNginx, text: &str) {
    let path = real.path("nginx.conf");
    let config = fs::read_to_string(&path).unwrap();
    assert!(config.contains(text), "{config}");
    fs::write(path, config.replace(text, "")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_includes_is_refused_with_the_line_that_is_missing() {
    let real = RealNginx::start().await;
    let router = real.open();
    let config = fs::read(real.path("nginx.conf")).unwrap();
    let backends = Backend::start_all(["A", "B"]).await;
    let [http, tcp] = [free_port(), free_port()];
    let shop =
        ServiceSpec { name: "shop".parse().unwrap(), ..service("shop", http, &backends, &[0, 10_000]) };
    let spec = over(Protocol::Tcp, tcp, &backends, &[0, 10_000]);
    let file = real.path("choirmaster.conf.stream").display().to_string();
    let include = format!("\n  include {file};\n");
    let stream = format!("stream {{{include}}}\n");
    without(&real, &include);
    // Services of HTTP need nothing of it.
    done(&router, &wanted(1, &[&shop])).await;
    let on_disk = real.on_disk();
    for (generation, missing, said) in [
        (2, "", format!("add `include {file};` to stream {{ … }}")),
        (3, "stream {}\n", format!("add `stream {{ include {file}; }}` next to http {{ … }}")),
    ] {
        without(&real, missing);
        let refused = router.apply(&wanted(generation, &[&shop, &spec])).await.unwrap_err();
        assert!(
            matches!(&refused, RouterError::Refused { said: why, .. } if why.contains(&said)),
            "{refused}"
        );
        assert_eq!(real.on_disk(), on_disk, "the one before stays");
        assert_eq!(Caller::new(real.at(http)).variation(&[]).await, "B");
    }
    fs::write(real.path("nginx.conf"), config).unwrap();
    done(&router, &wanted(4, &[&shop, &spec])).await;
    assert_eq!(Caller::new(real.at(tcp)).variation(&[]).await, "B");
    // Who takes the line away has nobody served with the next load, and that is seen, too.
    without(&real, &stream);
    let refused = router.check(None).await.unwrap().refused.expect("calls don't come there");
    assert!(refused.contains("add `stream {"), "{refused}");
    let refused = router.reload().await.unwrap_err();
    assert!(
        matches!(&refused, RouterError::Refused { said, .. } if said.contains("add `stream {")),
        "{refused}"
    );
    assert_eq!(Caller::new(real.at(tcp)).variation(&[]).await, "B");
    let pid = fs::read_to_string(real.settings().pid).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::HUP).unwrap();
    let missing = Difference::Missing { service: "checkout".to_owned() };
    wait_until("it is seen", async || {
        let seen = router.read().await;
        seen.is_ok_and(|seen| differences(&wanted(4, &[&shop, &spec]), &seen).contains(&missing))
    })
    .await;
    assert_eq!(Caller::new(real.at(http)).variation(&[]).await, "B");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_changed_by_hand_in_the_file_is_seen_and_repaired() {
    let real = RealNginx::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let spec = over(Protocol::Tcp, port, &backends, &[6_000, 4_000]);
    let wanted = wanted(1, &[&spec]);
    done(&router, &wanted).await;
    let path = real.path("choirmaster.conf.stream");
    let written = fs::read_to_string(&path).unwrap();
    assert!(stream_digest(&written).is_some());
    for is_loaded in [false, true] {
        let edited = written.replace("0.0.0.0-0.0.39.99", "0.0.0.0-0.0.19.99");
        assert_ne!(edited, written);
        fs::write(&path, edited).unwrap();
        if is_loaded {
            router.reload().await.unwrap();
        }
        let seen = router.read().await.unwrap();
        assert_eq!(seen.number, None);
        let differ = differences(&wanted, &seen);
        let shares = Difference::Shares {
            service: "checkout".to_owned(),
            wanted: vec![6_000, 4_000],
            seen: vec![8_000, 2_000],
        };
        assert!(differ.contains(&shares), "{differ:?}");
        assert!(done(&router, &wanted).await.was_reloaded);
        assert_eq!(fs::read_to_string(&path).unwrap(), written);
    }
    // One that was emptied serves nobody with the next load, which is refused for that.
    fs::write(&path, "").unwrap();
    let refused = router.check(None).await.unwrap().refused.expect("it is no more what it is to be");
    assert!(refused.contains("`choirmaster router repair` writes it again"), "{refused}");
    let refused = router.reload().await.unwrap_err();
    assert!(matches!(refused, RouterError::Refused { .. }), "{refused}");
    assert!(["A", "B"].contains(&&*Caller::new(real.at(port)).variation(&[]).await));
    done(&router, &wanted).await;
    assert_eq!(router.check(None).await.unwrap().refused, None);
    // One that is gone, and one that was put there, are what nobody wanted.
    fs::remove_file(&path).unwrap();
    assert!(!differences(&wanted, &router.read().await.unwrap()).is_empty());
    done(&router, &wanted).await;
    let nothing = crate::world::wants::wanted(2, &[]);
    done(&router, &nothing).await;
    assert_eq!(stream_digest(&fs::read_to_string(&path).unwrap()), None);
    fs::write(&path, written).unwrap();
    let left_over = router.read().await.unwrap().left_over;
    assert!(left_over.iter().any(|one| one.contains("choirmaster.conf.stream")), "{left_over:?}");
    done(&router, &nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_of_the_operators_is_theirs_for_what_comes_there_alone() {
    let mut real = RealNginx::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let theirs = format!("stream {{\n  server {{ listen 127.0.0.1:{port} udp; return theirs; }}");
    let config = fs::read_to_string(real.path("nginx.conf")).unwrap().replace("stream {", &theirs);
    fs::write(real.path("nginx.conf"), config).unwrap();
    real.start_again().await;
    let over_udp = over(Protocol::Udp, port, &backends, &[0, 10_000]);
    let refused = router.apply(&wanted(1, &[&over_udp])).await.unwrap_err();
    let said = format!("a server of its operator's listens at port {port}");
    assert!(matches!(&refused, RouterError::Refused { said: why, .. } if why.contains(&said)), "{refused}");
    // Connections come to another port, though it has the same number.
    done(&router, &wanted(2, &[&over(Protocol::Tcp, port, &backends, &[0, 10_000])])).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
    let theirs = caller(Ipv4Addr::LOCALHOST.into(), real.at(port)).await;
    assert_eq!(variation(&theirs).await, "theirs");
    // Somebody else's.
    let taken = std::net::UdpSocket::bind(at(0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = router.apply(&wanted(3, &[&over(Protocol::Udp, port, &backends, &[0, 10_000])])).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, RouterError::Refused { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_killed_in_the_middle_of_a_load_is_followed_by_one_that_ends_it() {
    let real = RealNginx::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let [first_port, second_port] = [free_port(), free_port()];
    let stays = over(Protocol::Tcp, first_port, &backends, &[10_000, 0]);
    let moved = with_shares(&stays, &[0, 10_000]);
    let comes = ServiceSpec {
        name: "comes".parse().unwrap(),
        ..over(Protocol::Tcp, second_port, &backends, &[0, 10_000])
    };
    let (mut generation, mut steps, mut deaths) = (1, 0, 0);
    loop {
        done(&real.open(), &wanted(generation, &[&stays])).await;
        let dying = real.open_dying(steps).unwrap();
        let last = wanted(generation + 1, &[&moved, &comes]);
        let outcome = dying.apply(&last).await;
        drop(dying);
        let router = real.open();
        done(&router, &last).await;
        assert_eq!(router.check(None).await.unwrap().refused, None, "killed after {steps} steps");
        for port in [first_port, second_port] {
            assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B", "killed after {steps} steps");
        }
        // Or by one that wants nothing any more.
        done(&router, &wanted(generation + 2, &[])).await;
        assert!(Caller::new(real.at(first_port)).try_get("/", &[]).await.is_err());
        generation += 3;
        if outcome.is_ok() {
            break;
        }
        deaths += 1;
        steps += 1 + steps / 2;
    }
    assert!(deaths > 4, "{deaths}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_outlive_all_services_of_their_kind_are_not_taken_for_none() {
    let real = RealNginx::start().await;
    let router = real.open();
    let listener = TcpListener::bind(at(0)).await.unwrap();
    let backends = [Backend::elsewhere("A", listener.local_addr().unwrap())];
    let port = free_port();
    let shop =
        ServiceSpec { name: "shop".parse().unwrap(), ..service("shop", free_port(), &backends, &[10_000]) };
    let spec = over(Protocol::Tcp, port, &backends, &[10_000]);
    done(&router, &wanted(1, &[&shop, &spec])).await;
    let goes_on = begin(port, &listener).await;
    let count = async |name| router.connections(name, "A").await.unwrap();
    wait_until("it is counted", async || count("checkout").await == Some(1)).await;
    done(&router, &wanted(2, &[&shop])).await;
    // Nothing is loaded any more that would tell; of HTTP there is.
    assert_eq!((count("checkout").await, count("shop").await), (None, Some(0)));
    // Also of what took HTTP and has gone, and whatever was loaded since.
    let other = ServiceSpec { name: "other".parse().unwrap(), ..shop.clone() };
    done(&router, &wanted(3, &[&other])).await;
    done(&router, &wanted(4, &[])).await;
    let counts = [count("checkout").await, count("shop").await, count("other").await];
    assert_eq!(counts, [None, Some(0), Some(0)]);
    // Once there are such services again, it is told of them.
    done(&router, &wanted(5, &[&spec])).await;
    assert!(count("checkout").await.is_some());
    end(goes_on).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_is_asked_about_sessions_may_be_somebody_elses_until_there_are_some() {
    let real = RealNginx::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let [http, tcp] = [free_port(), free_port()];
    let shop =
        ServiceSpec { name: "shop".parse().unwrap(), ..service("shop", http, &backends, &[0, 10_000]) };
    let spec = over(Protocol::Tcp, tcp, &backends, &[0, 10_000]);
    // Takes calls there, and never says a word.
    let theirs = TcpListener::bind(real.settings().layout.ask_stream.unwrap()).await.unwrap();
    done(&router, &wanted(1, &[&shop])).await;
    assert_eq!(router.connections("shop", "B").await.unwrap(), Some(0));
    let on_disk = real.on_disk();
    let refused = router.apply(&wanted(2, &[&shop, &spec])).await.unwrap_err();
    assert!(
        matches!(&refused, RouterError::Refused { said, .. } if said.contains("nginx.ask_stream")),
        "{refused}"
    );
    assert_eq!(real.on_disk(), on_disk, "the one before stays");
    assert_eq!(Caller::new(real.at(http)).variation(&[]).await, "B");
    drop(theirs);
    done(&router, &wanted(3, &[&shop, &spec])).await;
    assert_eq!(Caller::new(real.at(tcp)).variation(&[]).await, "B");
    assert_eq!(router.connections("shop", "B").await.unwrap(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_warns_of_what_cuts_connections_after_each_change_of_shares() {
    let real = RealNginx::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let shop = service("shop", free_port(), &backends, &[0, 10_000]);
    done(&router, &wanted(1, &[&shop])).await;
    let warnings = async || router.check(None).await.unwrap().warnings;
    assert_eq!(warnings().await, [""; 0], "without services of TCP nothing is cut");
    done(&router, &wanted(2, &[&shop, &over(Protocol::Tcp, free_port(), &backends, &[0, 10_000])])).await;
    let [warning] = &warnings().await[..] else { panic!("one") };
    assert!(warning.starts_with("worker_shutdown_timeout 10m: "), "{warning}");
    let path = real.path("nginx.conf");
    let config = fs::read_to_string(&path).unwrap();
    for (time, is_told) in [("0", false), ("1h", true)] {
        fs::write(&path, config.replace("timeout 10m;", &format!("timeout {time};"))).unwrap();
        assert_eq!(!warnings().await.is_empty(), is_told, "{time}");
    }
    without(&real, "worker_shutdown_timeout 1h;\n");
    assert_eq!(warnings().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_its_operator_says_for_all_servers_of_the_stream_is_not_said_to_targets() {
    let mut real = RealNginx::start().await;
    let path = real.path("nginx.conf");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, config.replace("stream {", "stream {\n  proxy_protocol on;")).unwrap();
    real.start_again().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    done(&router, &wanted(1, &[&over(Protocol::Tcp, port, &backends, &[0, 10_000])])).await;
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
}

/// They share one index of buckets, and keep apart in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_with_other_shares_are_told_apart_and_change_each_by_itself() {
    const MANY: u16 = 260;
    let real = RealNginx::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut specs: Vec<ServiceSpec> = Vec::new();
    for at in 0..MANY {
        let shares = if at % 2 == 0 { [10_000, 0] } else { [0, 10_000] };
        let spec = over(Protocol::Tcp, free_port(), &backends, &shares);
        specs.push(ServiceSpec { name: format!("service{at:03}").parse().unwrap(), ..spec });
    }
    let all = |generation, specs: &[ServiceSpec]| wanted(generation, &specs.iter().collect::<Vec<_>>());
    done(&router, &all(1, &specs)).await;
    let port = |spec: &ServiceSpec| spec.listens[0].port;
    for at in [0, 1, 255, 256, 257, usize::from(MANY) - 1] {
        let said = Caller::new(real.at(port(&specs[at]))).variation(&[]).await;
        assert_eq!(said, if at % 2 == 0 { "A" } else { "B" }, "{at}");
    }
    specs[256] = with_shares(&specs[256], &[0, 10_000]);
    done(&router, &all(2, &specs)).await;
    for (at, name) in [(0, "A"), (256, "B"), (258, "A")] {
        assert_eq!(Caller::new(real.at(port(&specs[at]))).variation(&[]).await, name, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_told_is_there_again_after_a_kill() {
    let mut real = RealNginx::start().await;
    let router: Arc<dyn Router> = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = free_port();
    let spec = over(Protocol::Tcp, port, &backends, &[0, 10_000]);
    let last = wanted(1, &[&spec]);
    done(&router, &last).await;
    real.kill().await;
    real.start_again().await;
    comes_true(&router, &last).await;
    assert_eq!(router.read().await.unwrap().number, Some(number(1)));
    assert_eq!(Caller::new(real.at(port)).variation(&[]).await, "B");
    assert!(!done(&router, &last).await.was_reloaded);
    let refused = router.adopt("checkout").await.unwrap_err();
    assert!(refused.to_string().contains("is led already"), "{refused}");
}
