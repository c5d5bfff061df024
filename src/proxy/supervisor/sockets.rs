use std::{
    fs::File,
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::fd::AsFd,
};

use super::{Plan, error::HoldError};
use crate::{
    handover_socket::MAX_PATH,
    local_http::socket,
    sockets::{Kind, Listen, MAX_SOCKETS, Open, Socket, Sockets},
};

/// How many connections wait while nobody accepts; the system may allow fewer.
const BACKLOG: i32 = 4_096;
/// Bytes of datagrams that wait while nobody reads; the system may allow fewer.
const WAITING_BYTES: usize = 4 * 1024 * 1024;

/// Makes sure that nobody else holds this control socket, for as long as the file is open.
pub(super) fn lock(plan: &Plan) -> Result<File, HoldError> {
    let takes_calls = plan.listen.iter().any(|listen| listen.kind != Kind::Metrics);
    if !takes_calls && plan.inherited.is_empty() {
        return Err(HoldError::NoAddress);
    }
    if plan.listen.len() + plan.inherited.len() >= MAX_SOCKETS {
        return Err(HoldError::TooMany);
    }
    let path = &plan.control;
    if path.as_os_str().len() > MAX_PATH {
        return Err(HoldError::LongPath { path: path.clone() });
    }
    let control = |source| HoldError::Control { path: path.clone(), source };
    socket::make_folder_of(path).map_err(control)?;
    socket::lock(path).map_err(control)?.ok_or_else(|| HoldError::Running(path.clone()))
}

/// The sockets to listen on: those that were given or taken where they are asked for, others anew.
pub(super) fn make(plan: &mut Plan, taken: Option<Sockets>) -> Result<Sockets, HoldError> {
    let path = &plan.control;
    let (mut there, control) = match taken {
        Some(sockets) => (sockets.open, Some(sockets.control)),
        None => (Vec::new(), None),
    };
    let mut open = Vec::new();
    let mut wanted = plan.listen.clone();
    for socket in plan.inherited.drain(..) {
        let address = socket.local_addr()?;
        let at = wanted.iter().position(|wanted| wanted.is_met_by(&socket, address));
        let by_itself = if socket.is_udp() { Kind::Udp } else { Kind::Plain };
        let kind = at.map_or(by_itself, |at| wanted.remove(at).kind);
        open.push(Open { kind, asked: address.to_string(), socket });
    }
    for Listen { kind, address } in wanted {
        let asked = address.to_string();
        // Several may have asked for any port; else an address is one socket, whatever it was for.
        let same = |open: &Open| {
            open.asked == asked
                && open.kind.is_udp() == kind.is_udp()
                && (open.kind == kind || address.port() != 0)
        };
        let socket = match there.iter().position(same) {
            Some(at) => there.remove(at).socket,
            None => bind(kind, address)?,
        };
        open.push(Open { kind, asked, socket });
    }
    for Open { socket, .. } in &open {
        match socket {
            Socket::Tcp(socket) => deepen(socket)?,
            Socket::Udp(socket) => widen(socket),
        }
    }
    let control = match control.filter(|_| path.exists()) {
        Some(control) => control,
        None => socket::bind(path).map_err(|source| HoldError::Control { path: path.clone(), source })?,
    };
    Ok(Sockets { open, control })
}

fn bind(kind: Kind, address: SocketAddr) -> Result<Socket, HoldError> {
    let bound = if kind.is_udp() {
        UdpSocket::bind(address).map(Socket::Udp)
    } else {
        TcpListener::bind(address).map(Socket::Tcp)
    };
    bound.map_err(|source| HoldError::Listen { address, source })
}

/// Lets more datagrams wait while nobody reads, as far as the system allows; fewer are no reason not to serve.
fn widen(socket: &UdpSocket) {
    if let Err(error) = rustix::net::sockopt::set_socket_recv_buffer_size(socket, WAITING_BYTES) {
        tracing::warn!(%error, "the buffer of a socket for datagrams stays as small as it was");
    }
}

/// Lets more connections wait than a socket does by itself.
fn deepen(socket: &impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(socket, BACKLOG)?)
}
