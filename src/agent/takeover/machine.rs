//! The ground of a machine: the kernel's rules, by the program nft.

use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
};

use model::traffic::Socket;
use proxy::nftables::{NftError, TABLE, removal, run};

use super::{
    Answer, Ground,
    nft::{Found, Redirects, read, render},
};
use crate::state_machine::Trouble;

/// The machine that this runs on.
#[derive(Debug)]
pub struct Machine {
    /// The program.
    nft: PathBuf,
}

impl Machine {
    #[must_use]
    pub fn new(nft: PathBuf) -> Self {
        Self { nft }
    }

    async fn look_now(&self) -> Result<Found, Trouble> {
        let [family, name] = TABLE;
        match run(&self.nft, &["-j", "list", "table", family, name], String::new()).await {
            Ok(json) => {
                read(&json).map_err(|why| Trouble::passing(format!("what nft says can't be read: {why}")))
            }
            Err(NftError::Refused(why)) if why.contains("No such file or directory") => Ok(Found::default()),
            Err(error) => Err(of_nft(&error)),
        }
    }

    async fn put(&self, text: String) -> Result<(), Trouble> {
        let put = run(&self.nft, &["-f", "-"], text).await;
        put.map(drop).map_err(|error| of_nft(&error))
    }
}

fn of_nft(error: &NftError) -> Trouble {
    match error {
        NftError::Late => Trouble::passing(error.to_string()),
        NftError::Program { .. } | NftError::Forbidden(_) | NftError::Refused(_) => {
            Trouble::refused(error.to_string())
        }
    }
}

impl Ground for Machine {
    fn look(&self) -> Answer<'_, Result<Found, Trouble>> {
        Box::pin(self.look_now())
    }

    fn take<'a>(&'a self, all: &'a Redirects) -> Answer<'a, Result<(), Trouble>> {
        Box::pin(self.put(render(all)))
    }

    fn give_back(&self) -> Answer<'_, Result<(), Trouble>> {
        Box::pin(self.put(removal()))
    }

    fn addresses(&self, port: u16) -> Vec<SocketAddr> {
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

    fn is_free(&self, Socket { port, is_udp }: Socket) -> bool {
        self.addresses(port)
            .into_iter()
            .all(|at| if is_udp { UdpSocket::bind(at).is_ok() } else { TcpListener::bind(at).is_ok() })
    }
}
