//! Ports for programs that can't be handed a socket: routers of others, Postgres, and agents, which are told where to listen.

use std::{
    mem,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use tokio::net::TcpSocket;

/// Below the ports that the system gives to whoever asks for any.
const RANGES: std::ops::Range<u16> = 12_000..32_000;

/// A port, at every address of this machine, that no other process is given until this one ends. A socket stays bound to it and never
/// listens, so servers, which set `SO_REUSEADDR`, can listen there as often as they like. Whoever connects meanwhile is refused.
pub fn free_port() -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
    let port = socket.local_addr().unwrap().port();
    mem::forget(socket);
    port
}

/// Such a port at the loopback address.
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// Ports in a row are given out in such blocks, whoever asks for how many.
const BLOCK: u16 = 100;

/// So many ports in a row, as the first and the last of them, which no other caller of this gets until this process ends, in whichever
/// process it is: it listens on the port before them.
pub fn range(ports: u16) -> (u16, u16) {
    assert!(ports < BLOCK, "a block has {BLOCK} ports, of which one is listened on");
    let starts: Vec<u16> = RANGES.step_by(usize::from(BLOCK)).collect();
    // Where each process begins to look.
    let begin = std::process::id() as usize % starts.len();
    for first in starts[begin..].iter().chain(&starts[..begin]) {
        if let Ok(guard) = TcpListener::bind((Ipv4Addr::LOCALHOST, *first)) {
            mem::forget(guard);
            return (first + 1, first + ports);
        }
    }
    panic!("all blocks of ports are taken");
}
