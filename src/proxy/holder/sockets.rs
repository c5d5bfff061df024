use std::{
    collections::VecDeque,
    fs::File,
    io,
    net::{SocketAddr, TcpListener},
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
};

use super::{HoldError, Plan, Taken};
use crate::{
    handover::{MAX_SOCKETS, Sockets},
    local_http::socket,
    side_door::{MAX_PATH, Neighbour},
};

/// How many connections wait while nobody accepts; the system may allow fewer.
const BACKLOG: i32 = 4_096;

/// Makes sure that nobody else holds this control socket, for as long as the file is open.
pub(super) fn lock(plan: &Plan) -> Result<File, HoldError> {
    if plan.listen.is_empty() && plan.inherited.is_empty() {
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

/// Takes the sockets of whoever serves under this control socket, and links to all of its processes.
pub(super) async fn take(control: &Path) -> Result<Taken, HoldError> {
    let mut taken = Taken { sockets: None, links: Vec::new() };
    let at = |source| HoldError::Control { path: control.to_owned(), source };
    for neighbour in Neighbour::all(control).map_err(at)? {
        let take = |source| HoldError::Take { pid: neighbour.pid, source };
        taken.from(&neighbour).await.map_err(take)?;
    }
    // Its door is gone, and it lives: a second one on the same addresses would take half of its calls.
    if taken.sockets.is_none() && UnixStream::connect(control).is_ok() {
        return Err(HoldError::Running(control.to_owned()));
    }
    Ok(taken)
}

/// The sockets to listen on: those that were taken where they are asked for, others anew.
pub(super) fn make(plan: &Plan, taken: Option<Sockets>) -> Result<Sockets, HoldError> {
    let path = &plan.control;
    let (mut there, control) = match taken {
        Some(sockets) => (VecDeque::from(sockets.calls), Some(sockets.control)),
        None => (VecDeque::new(), None),
    };
    let mut known = |asked: &str| {
        let at = there.iter().position(|(known, _)| known == asked)?;
        there.remove(at).map(|(_, socket)| socket)
    };
    let mut calls = Vec::new();
    for socket in &plan.inherited {
        let asked = socket.local_addr()?.to_string();
        calls.push((asked, socket.try_clone()?));
    }
    for &address in &plan.listen {
        let asked = address.to_string();
        let socket = match known(&asked) {
            Some(socket) => socket,
            None => bind(address)?,
        };
        calls.push((asked, socket));
    }
    for (_, socket) in &calls {
        deepen(socket)?;
    }
    let control = match control.filter(|_| path.exists()) {
        Some(control) => control,
        None => socket::bind(path).map_err(|source| HoldError::Control { path: path.clone(), source })?,
    };
    Ok(Sockets { calls, control })
}

fn bind(address: SocketAddr) -> Result<TcpListener, HoldError> {
    TcpListener::bind(address).map_err(|source| HoldError::Listen { address, source })
}

/// Lets more connections wait than a socket does by itself.
fn deepen(socket: &impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(socket, BACKLOG)?)
}
