//! What systemd says to a service, and hears from it. Without systemd none of it is there, and nothing happens.

use std::{
    env, io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
};

use listenfd::ListenFd;
use rustix::io::FdFlags;

use crate::sockets::Socket;

/// Variables that are meant for this process alone.
pub(super) const VARIABLES: [&str; 4] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET"];

/// The sockets of a socket unit. No process that is started later has them by accident.
pub fn inherited() -> io::Result<Vec<Socket>> {
    // Whoever was renewed has them already, and the variables speak of descriptors of before.
    if super::is_renewed() {
        return Ok(Vec::new());
    }
    let mut given = ListenFd::from_env();
    let count = given.len();
    let mut taken = |at| match given.take_tcp_listener(at) {
        Ok(socket) => Ok(socket.map(Socket::Tcp)),
        // It is left where it was, and may be one of UDP.
        Err(why) => given.take_udp_socket(at).map(|socket| socket.map(Socket::Udp)).map_err(|_| why),
    };
    let sockets = (0..count).filter_map(|at| taken(at).transpose());
    let kept_from_children = sockets.map(|socket| {
        let socket = socket?;
        rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        Ok(socket)
    });
    kept_from_children.collect()
}

/// Tells systemd how this service stands.
pub(super) fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let sent = || -> io::Result<()> {
        let address = match path.to_string_lossy().strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
    };
    if let Err(error) = sent() {
        tracing::warn!(%error, "systemd can't be told {state}");
    }
}
