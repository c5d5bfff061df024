use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket},
    sync::Arc,
};

use tokio::{sync::Semaphore, task::spawn_blocking};
use traffic::desired::is_this_machine;

use super::{Lookup, Resolver};

/// So many questions are with the system's resolver at a time: each takes a thread until it is answered, also when nobody waits any
/// more, so a resolver that hangs takes no more threads than that.
const AT_ONCE: usize = 16;

/// A port that isn't connected to: no packet is sent for the question which address this machine has on the way there.
const ANY_PORT: u16 = 9;

/// The resolver of the system: `/etc/hosts`, DNS and what else it is set up to ask.
#[derive(Debug, Clone)]
pub struct System {
    places: Arc<Semaphore>,
}

impl Default for System {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Resolver for System {
    fn lookup<'a>(&'a self, name: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            // As `tokio::net::lookup_host` does it, but that the place is held until the thread is free.
            let found = spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                drop(place);
                found.map(|all| all.map(|address| address.ip()).collect())
            });
            found.await.map_err(io::Error::other)?
        })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        is_this_machine(address) || is_own(address).unwrap_or(false)
    }
}

/// The way to one of its own addresses begins at that address, whatever interface it belongs to.
fn is_own(address: IpAddr) -> io::Result<bool> {
    let address = address.to_canonical();
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(SocketAddr::new(address, ANY_PORT))?;
    Ok(socket.local_addr()?.ip() == address)
}
