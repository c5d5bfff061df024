//! The ground of a machine: the kernel's rules, by the program nft, and sockets that listen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use model::traffic::Socket;
use proxy::{
    nftables::{self, NftError, TABLE},
    shared::{listening, socket::can_join},
};
use sysinfo::{NetworkData, Networks};

use super::{
    Answer, Ground,
    listeners::{by_port, listeners},
    lock,
    nft::{Found, Redirects, read, render},
};
use crate::state_machine::Trouble;

/// The machine that this runs on.
#[derive(Debug)]
pub struct Machine {
    /// The program.
    nft: PathBuf,
    /// Says to others of this network that its rules are this agent's.
    held: Mutex<Option<UnixListener>>,
    /// The table as it was listed right after it was put in force; none: none was.
    put: Mutex<Option<String>>,
}

impl Machine {
    #[must_use]
    pub fn new(nft: PathBuf) -> Self {
        Self { nft, held: Mutex::default(), put: Mutex::default() }
    }

    async fn look_now(&self) -> Result<Found, Trouble> {
        let Some(listed) = nftables::listed(&self.nft).await.map_err(|error| of_nft(&error))? else {
            return Ok(Found::default());
        };
        let put = lock(&self.put).clone();
        if put.is_none() && !listed.contains(nftables::END) {
            let [family, name] = TABLE;
            return Err(Trouble::refused(format!(
                "there is a table {family} {name} of nftables that isn't the agent's: if nobody needs it, say nft delete table {family} {name}"
            )));
        }
        Ok(Found { is_there: true, sent: read(&listed), is_as_put: put.is_some_and(|put| put == listed) })
    }

    async fn take_now(&self, all: &Redirects) -> Result<(), Trouble> {
        nftables::put(&self.nft, render(all)).await.map_err(|error| of_nft(&error))?;
        let listed = nftables::listed(&self.nft).await.map_err(|error| of_nft(&error))?;
        *lock(&self.put) = listed;
        Ok(())
    }

    async fn give_back_now(&self) -> Result<(), Trouble> {
        nftables::put(&self.nft, nftables::removal()).await.map_err(|error| of_nft(&error))?;
        *lock(&self.put) = None;
        Ok(())
    }

    /// Holds this network, unless another agent does. False: one does.
    fn hold_network(&self) -> Result<bool, Trouble> {
        let mut held = lock(&self.held);
        if held.is_none() {
            *held =
                bound().map_err(|error| Trouble::refused(format!("calls can't be taken over: {error}")))?;
        }
        Ok(held.is_some())
    }
}

/// A socket of a name that one process of a network can have, for as long as it runs; none: another one has it.
#[cfg(target_os = "linux")]
fn bound() -> std::io::Result<Option<UnixListener>> {
    use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};

    match UnixListener::bind_addr(&SocketAddr::from_abstract_name("choirmaster-takeover")?) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn bound() -> std::io::Result<Option<UnixListener>> {
    Err(std::io::Error::other("only Linux has nftables"))
}

/// Whatever it is: who waits for it would hold up all else that the proxy is to do.
fn of_nft(error: &NftError) -> Trouble {
    Trouble::refused(error.to_string())
}

impl Ground for Machine {
    fn hold(&self) -> Result<(), Trouble> {
        nftables::check_mark().map_err(|error| {
            Trouble::refused(format!(
                "this agent may not mark its connections: {error}; give it the right to (CAP_NET_ADMIN)"
            ))
        })?;
        if self.hold_network()? {
            return Ok(());
        }
        Err(Trouble::refused(
            "another agent of this network has takeover.nftables, and only one can: leave it out in one of them",
        ))
    }

    fn is_anothers(&self) -> bool {
        matches!(self.hold_network(), Ok(false))
    }

    fn look(&self) -> Answer<'_, Result<Found, Trouble>> {
        Box::pin(self.look_now())
    }

    fn take<'a>(&'a self, all: &'a Redirects) -> Answer<'a, Result<(), Trouble>> {
        Box::pin(self.take_now(all))
    }

    fn give_back(&self) -> Answer<'_, Result<(), Trouble>> {
        Box::pin(self.give_back_now())
    }

    fn forget_flows(&self, at: Option<u16>) {
        if let Err(error) = nftables::forget_flows(at) {
            tracing::warn!(
                %error,
                "flows of UDP that were taken over may still be sent to the proxy, which doesn't take them any more"
            );
        }
    }

    fn listeners(&self, Socket { port, is_udp }: Socket) -> Vec<IpAddr> {
        listeners(&listening::text(is_udp).unwrap_or_default(), port, is_udp)
    }

    fn beside(&self, port: Option<u16>) -> BTreeMap<u16, Vec<(IpAddr, bool)>> {
        let listed = by_port(&listening::text(false).unwrap_or_default()).into_iter();
        let asked = listed.filter(|(at, _)| port.is_none_or(|port| port == *at));
        let each = |(at, all): (u16, BTreeSet<IpAddr>)| {
            let all = all.into_iter().map(|address| (address, can_join(SocketAddr::new(address, at))));
            (at, all.collect())
        };
        asked.map(each).collect()
    }

    fn own_of(&self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        match Networks::new_with_refreshed_list() {
            Ok(networks) => {
                let own = networks.values().flat_map(NetworkData::ip_networks);
                let own = own.map(|network| network.addr.to_canonical());
                own.filter(|address| addresses.contains(address)).collect()
            }
            Err(error) => {
                tracing::warn!(%error, "the addresses of this machine can't be read");
                Vec::new()
            }
        }
    }

    fn addresses(&self, port: u16, of: &[IpAddr]) -> Vec<SocketAddr> {
        if !of.is_empty() {
            return of.iter().map(|address| SocketAddr::new(*address, port)).collect();
        }
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        // A socket of IPv6 takes callers of both, unless the system says otherwise.
        let is_alone = fs::read_to_string("/proc/sys/net/ipv6/bindv6only");
        match is_alone {
            _ if !Path::new("/proc/net/if_inet6").exists() => vec![v4],
            Ok(alone) if alone.trim() == "1" => vec![v4, v6],
            Ok(_) | Err(_) => vec![v6],
        }
    }

    fn is_free(&self, Socket { port, is_udp }: Socket, of: &[IpAddr]) -> bool {
        self.addresses(port, of)
            .into_iter()
            .all(|at| if is_udp { UdpSocket::bind(at).is_ok() } else { TcpListener::bind(at).is_ok() })
    }

    fn settles_in(&self) -> Duration {
        nftables::HANDSHAKE
    }
}
