//! Who else takes what comes in at an address that other programs have as well.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use tokio::{
    net::TcpStream,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{
    control_handler::{ControlHandler, Phase},
    form::{Others, OthersStatus},
};
use crate::{
    listen_address::ListenAddress,
    shared::{ANOTHERS_TURN, Sharing, listening},
};

impl ControlHandler {
    /// Looks who takes what comes in at those addresses of a port at which it is listened here beside others.
    pub(super) async fn others(&self, port: u16) -> Others {
        // Neither another list nor another question comes in between, nor a process that takes over: it would be taken for another program.
        let _turn = self.addresses.turn.lock().await;
        let phase = self.phase.lock().await;
        let shared = self.proxy.shared_at(port);
        let own: Vec<u64> = shared.iter().map(|address| address.inode).collect();
        let mut addresses = Vec::new();
        for address in shared {
            let takes = self.proxy.is_wanted(&address) && address.has_begun() && !address.is_deaf();
            let others = match address.sharing {
                Sharing::Alone => Some(false),
                Sharing::Joined => listens_beside(&address, own.clone()).await,
                Sharing::Lent if takes && *phase == Phase::Serving => self.is_taken_by_others(&address).await,
                // Nothing is taken here, or by another process as well.
                Sharing::Lent => None,
            };
            let (kind, address) = (address.form.kind, address.form.address);
            addresses.push(OthersStatus { kind, address, takes, others });
        }
        Others { addresses }
    }

    /// Whether somebody else accepts a connection that is made to a lent socket while nobody does here.
    async fn is_taken_by_others(&self, address: &Arc<ListenAddress>) -> Option<bool> {
        let paused = address.pause();
        self.proxy.acknowledged().await;
        let asking = connection_to(address.form.address).await?;
        let ends = (asking.peer_addr().ok()?, asking.local_addr().ok()?);
        sleep(ANOTHERS_TURN).await;
        let is_here = self.proxy.take_waiting(Arc::clone(address), ends.1).await?;
        // If it took longer, the connection may have been accepted here by then.
        let is_sure = address.is_paused();
        drop(paused);
        if !is_sure {
            return None;
        }
        // Nobody has one that the kernel keeps back.
        (is_here || !is_beginning(ends).await?).then_some(!is_here)
    }
}

/// A connection from this machine to whoever accepts there; none: there is none in time.
async fn connection_to(at: SocketAddr) -> Option<TcpStream> {
    for called in called(at) {
        match timeout(ANOTHERS_TURN, TcpStream::connect(called)).await.ok()? {
            Ok(connection) => return Some(connection),
            // This machine has none of IPv6.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            Err(_) => return None,
        }
    }
    None
}

/// Whether a connection hasn't come to where it is made, and whence; none: it can't be read.
async fn is_beginning(ends: (SocketAddr, SocketAddr)) -> Option<bool> {
    let looked = spawn_blocking(move || {
        Some(listening::beginning(&listening::text(false).ok()?).any(|one| one == ends))
    });
    looked.await.ok()?
}

/// Whether somebody else has a socket that listens where this one does; none: it can't be read, or is where a part of the callers come.
/// `own`: by which the kernel tells this proxy's sockets of that port.
async fn listens_beside(address: &ListenAddress, own: Vec<u64>) -> Option<bool> {
    let at = address.form.address;
    let looked = spawn_blocking(move || listening::is_taken_beside(&listening::text(false).ok()?, at, &own));
    looked.await.ok()?
}

/// By which addresses somebody of this machine is called who listens there: by the first that there is.
fn called(at: SocketAddr) -> Vec<SocketAddr> {
    let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    let all: Vec<IpAddr> = match at.ip() {
        one if !one.is_unspecified() => vec![one],
        IpAddr::V4(_) => vec![v4],
        IpAddr::V6(_) => vec![v6, v4],
    };
    all.into_iter().map(|ip| SocketAddr::new(ip, at.port())).collect()
}
