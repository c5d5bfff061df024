use std::{net::SocketAddr, time::Duration};

use proxy::Limits;
use serde_json::json;
use tokio::{net::UdpSocket, time::timeout};

use super::{service, table};
use crate::{
    deadline::DEADLINE,
    world::{LATER, Running, SOON, start, until},
};

/// An end of UDP.
pub struct End {
    pub socket: UdpSocket,
}

impl End {
    pub async fn new() -> Self {
        Self { socket: UdpSocket::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn at(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    pub async fn send(&self, to: SocketAddr, text: &str) {
        self.socket.send_to(text.as_bytes(), to).await.unwrap();
    }

    /// The next datagram, and where it came from.
    pub async fn next(&self) -> (String, SocketAddr) {
        let mut room = vec![0; 65_536];
        let came = timeout(DEADLINE, self.socket.recv_from(&mut room)).await;
        let (length, from) = came.expect("nothing came").unwrap();
        (String::from_utf8(room[..length].to_vec()).unwrap(), from)
    }

    fn is_left_alone(&self) -> bool {
        self.socket.try_recv(&mut [0; 8]).is_err()
    }
}

/// An address that refuses what comes, and that nobody else is given meanwhile: its socket takes datagrams of nobody but itself.
struct Refusing(std::net::UdpSocket);

impl Refusing {
    fn new() -> Self {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        Self(socket)
    }

    fn at(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }
}

fn udp(running: &Running) -> SocketAddr {
    running.proxy.listen_udp(&std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap()
}

struct Two {
    running: Running,
    at: SocketAddr,
    base: End,
    new: End,
}

impl Two {
    async fn new(limits: Limits) -> Self {
        let running = start(limits);
        let at = udp(&running);
        Self { running, at, base: End::new().await, new: End::new().await }
    }

    async fn share(&self, generation: u64, share: u16) {
        let service = service("udp", self.at, &self.base.at().to_string(), &self.new.at().to_string(), share);
        self.running.share(generation, service).await;
    }

    async fn ended(&self) {
        until("all flows have ended", || self.running.proxy.flows() == 0).await;
        self.running.settled().await;
    }
}

#[tokio::test]
async fn each_udp_caller_has_one_flow_answered_from_same_socket() {
    let of = Two::new(Limits { udp_idle: LATER, ..Limits::default() }).await;
    of.share(1, 0).await;
    let callers = [End::new().await, End::new().await];
    let mut flows = Vec::new();
    for caller in &callers {
        caller.send(of.at, "one").await;
        let (text, flow) = of.base.next().await;
        assert_eq!(text, "one");
        flows.push(flow);
    }
    assert_ne!(flows[0], flows[1]);
    assert_eq!(of.running.proxy.flows(), 2);
    for turn in 0..20 {
        for (caller, flow) in callers.iter().zip(&flows) {
            caller.send(of.at, &format!("up {turn:02}")).await;
            assert_eq!(of.base.next().await, (format!("up {turn:02}"), *flow));
            of.base.send(*flow, &format!("down {turn:02}")).await;
            assert_eq!(caller.next().await, (format!("down {turn:02}"), of.at));
        }
    }
    // As large as any, and of nothing.
    let large = "x".repeat(60_000);
    for text in [large.as_str(), ""] {
        callers[0].send(of.at, text).await;
        assert_eq!(of.base.next().await, (text.to_owned(), flows[0]));
        of.base.send(flows[0], text).await;
        assert_eq!(callers[0].next().await, (text.to_owned(), of.at));
    }
    of.ended().await;
    let counted = of.running.counted("base").await;
    assert_eq!((counted.calls, counted.succeeded), (2, 2));
    assert_eq!((counted.bytes_up, counted.bytes_down), (2 * (3 + 20 * 5) + 60_000, 2 * 20 * 7 + 60_000));
    // A flow that has ended is not the next one's.
    callers[0].send(of.at, "anew").await;
    assert_eq!(of.base.next().await.0, "anew");
}

#[tokio::test]
async fn udp_flow_keeps_variation_and_next_flow_follows_new_table() {
    let of = Two::new(Limits { udp_idle: LATER, connect: SOON, ..Limits::default() }).await;
    of.share(1, 10_000).await;
    let (caller, other) = (End::new().await, End::new().await);
    caller.send(of.at, "first").await;
    let (_, flow) = of.new.next().await;
    of.share(2, 0).await;
    for generation in 3..8 {
        caller.send(of.at, "more").await;
        assert_eq!(of.new.next().await, ("more".to_owned(), flow));
        // Also without its service.
        of.running.proxy.apply(&table(generation, [])).await.unwrap();
    }
    // No other version is held once it is clear that this one doesn't refuse.
    until("one leaves", || of.running.proxy.leaving().len() == 1).await;
    assert_eq!(of.running.proxy.leaving()[0].version.name(), "new");
    of.share(8, 0).await;
    other.send(of.at, "another").await;
    assert_eq!(of.base.next().await.0, "another");
    of.ended().await;
    caller.send(of.at, "anew").await;
    assert_eq!(of.base.next().await.0, "anew");
}

#[tokio::test]
async fn a_udp_flow_keeps_its_variation_over_three_weights() {
    let of = Two::new(Limits { udp_idle: LATER, ..Limits::default() }).await;
    of.share(1, 0).await;
    let (caller, other) = (End::new().await, End::new().await);
    caller.send(of.at, "first").await;
    let (_, flow) = of.base.next().await;
    for (generation, share) in [(2, 1_000), (3, 5_000), (4, 10_000)] {
        of.share(generation, share).await;
        caller.send(of.at, "more").await;
        assert_eq!(of.base.next().await, ("more".to_owned(), flow));
    }
    other.send(of.at, "another").await;
    assert_eq!(of.new.next().await.0, "another");
}

#[tokio::test]
async fn a_flow_whose_variation_gets_none_any_more_leaves_it_at_the_deadline() {
    let of = Two::new(Limits::default()).await;
    of.share(1, 10_000).await;
    let caller = End::new().await;
    caller.send(of.at, "first").await;
    of.new.next().await;
    let mut drained = service("udp", of.at, &of.base.at().to_string(), &of.new.at().to_string(), 0);
    drained["drain_seconds"] = json!(0);
    of.running.share(2, drained).await;
    of.ended().await;
    caller.send(of.at, "next").await;
    assert_eq!(of.base.next().await.0, "next");
    let counted = of.running.counted("new").await;
    assert_eq!((counted.calls, counted.cut), (1, 1));
}

#[tokio::test]
async fn refused_udp_flow_moves_to_stable_with_its_data() {
    let of = Two::new(Limits { udp_idle: LATER, ..Limits::default() }).await;
    let refusing = Refusing::new();
    of.running.share(1, service("udp", of.at, &of.base.at().to_string(), &refusing.at(), 10_000)).await;
    let caller = End::new().await;
    caller.send(of.at, "first").await;
    let (text, flow) = of.base.next().await;
    assert_eq!(text, "first");
    of.base.send(flow, "answer").await;
    assert_eq!(caller.next().await, ("answer".to_owned(), of.at));
    caller.send(of.at, "second").await;
    assert_eq!(of.base.next().await, ("second".to_owned(), flow));
    of.ended().await;
    let (new, base) = (of.running.counted("new").await, of.running.counted("base").await);
    assert_eq!((new.calls, new.failed[0], new.repeated, base.calls), (1, 1, 1, 0));

    // Where nobody else is left it is the stable one's failure.
    let of = Two::new(Limits { udp_idle: SOON, ..Limits::default() }).await;
    of.running.share(1, service("udp", of.at, &refusing.at(), &refusing.at(), 0)).await;
    caller.send(of.at, "third").await;
    // Before it came there is no flow either.
    let base = loop {
        of.ended().await;
        let base = of.running.counted("base").await;
        if base.calls > 0 {
            break base;
        }
    };
    assert_eq!((base.calls, base.failed[0]), (1, 1));
}

#[tokio::test]
async fn of_too_many_flows_the_one_that_was_idle_for_longest_ends() {
    let of = Two::new(Limits { udp_flows: 3, ..Limits::default() }).await;
    of.share(1, 0).await;
    let mut callers = Vec::new();
    for _ in 0..3 {
        let caller = End::new().await;
        caller.send(of.at, "first").await;
        let (_, flow) = of.base.next().await;
        callers.push((caller, flow));
    }
    // The first is active again, in one direction; the second in the other one.
    callers[0].0.send(of.at, "again").await;
    of.base.next().await;
    of.base.send(callers[1].1, "answer").await;
    callers[1].0.next().await;
    let fourth = End::new().await;
    fourth.send(of.at, "fourth").await;
    of.base.next().await;
    until("one has ended", || of.running.proxy.flows() == 3).await;
    for (at, stays) in [(0, true), (1, true), (2, false)] {
        let (caller, flow) = &callers[at];
        caller.send(of.at, "still").await;
        let (_, now) = of.base.next().await;
        assert_eq!(now == *flow, stays, "{at}");
        until("no more than may be", || of.running.proxy.flows() == 3).await;
    }
    let counted = of.running.counted("base").await;
    assert_eq!((counted.calls, counted.cut), (2, 2));
}

#[tokio::test]
async fn a_proxy_that_ends_takes_no_further_flow_and_lets_those_that_are_there_end() {
    let of = Two::new(Limits { udp_idle: LATER, ..Limits::default() }).await;
    of.share(1, 0).await;
    let (caller, late) = (End::new().await, End::new().await);
    caller.send(of.at, "first").await;
    let (_, flow) = of.base.next().await;
    assert_eq!(of.running.proxy.drain(Duration::from_millis(1)).await, 1);
    late.send(of.at, "late").await;
    caller.send(of.at, "second").await;
    assert_eq!(of.base.next().await, ("second".to_owned(), flow));
    assert!(of.base.is_left_alone());
    assert_eq!(of.running.proxy.drain(DEADLINE).await, 0);
    let metrics = of.running.proxy.metrics().await;
    assert!(metrics.contains("choirmaster_proxy_datagrams_dropped_total 1\n"), "{metrics}");
}

#[tokio::test]
async fn datagrams_to_a_port_without_a_service_go_nowhere_and_are_counted() {
    let of = Two::new(Limits::default()).await;
    let caller = End::new().await;
    for _ in 0..3 {
        caller.send(of.at, "x").await;
    }
    let unserved = "choirmaster_proxy_unserved_total{class=\"no_service\"} 3\n";
    crate::world::wait_until("they are counted", async || {
        of.running.proxy.metrics().await.contains(unserved)
    })
    .await;
    assert_eq!(of.running.proxy.flows(), 0);
}
