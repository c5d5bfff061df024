use std::net::{Ipv4Addr, SocketAddr};

pub use crate::ports::free_port;

pub fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
