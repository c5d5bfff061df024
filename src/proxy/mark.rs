//! Marks on connections to versions ([`crate::nftables::MARK`]), by which the kernel tells them from those of callers.

use std::{io, net::SocketAddr, os::fd::AsFd};

use tokio::net::{TcpSocket, TcpStream};

/// A connection to an address, marked where that is wanted.
pub(crate) async fn connect(address: SocketAddr, mark: Option<u32>) -> io::Result<TcpStream> {
    if mark.is_none() {
        return TcpStream::connect(address).await;
    }
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    set(&socket, mark)?;
    socket.connect(address).await
}

/// Marks a socket that isn't connected yet.
#[cfg(target_os = "linux")]
pub(crate) fn set(socket: &impl AsFd, mark: Option<u32>) -> io::Result<()> {
    mark.map_or(Ok(()), |mark| socket2::SockRef::from(socket).set_mark(mark))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set(_: &impl AsFd, mark: Option<u32>) -> io::Result<()> {
    if mark.is_some() { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
}
