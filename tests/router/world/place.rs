use std::{
    collections::HashSet,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{LazyLock, Mutex},
};

/// Below those from which the system takes ports of connections, so that none of these is in the way of a router's.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port of the loopback address that nobody has, and that no other test of this program gets.
pub fn free_port() -> u16 {
    for _ in 0..10_000 {
        let port = fastrand::u16(PORTS);
        let is_free = TcpListener::bind(at(port)).is_ok();
        if is_free && TAKEN.lock().unwrap().insert(port) {
            return port;
        }
    }
    panic!("none of 10,000 ports is free");
}

pub fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
