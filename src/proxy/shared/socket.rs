//! A socket of TCP at a port that another program has.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
};

use rustix::{fs::OFlags, net::Shutdown};
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

/// The byte of a segment of TCP that has its flags, and two of these.
const FLAGS: u32 = 13;
const SYN: u32 = 0x02;
const ACK: u32 = 0x10;

/// As the kernel has them in `linux/bpf_common.h`: a byte of what came, and what of it, compared, decides how much of it is kept.
const LOAD_BYTE: u16 = 0x30;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const KEEP: u16 = 0x06;

/// Bound beside those of other programs, and not listening yet. One for all of IPv6 takes callers of IPv4 as well, whatever is usual on this
/// machine: the other program's may do so, too, and nobody can tell.
pub(crate) fn join(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    Ok(socket.into())
}

/// Whether this process could listen at an address beside those who do: nobody does, or all of them said that they share it, and are
/// of the same user. A moment long the address is bound, and nobody notices.
#[must_use]
pub fn can_join(at: SocketAddr) -> bool {
    join(at).is_ok()
}

/// Whether whoever accepts there waits for a connection. That is so for all who have the socket.
pub(crate) fn waits(socket: &TcpListener) -> io::Result<bool> {
    Ok(!rustix::fs::fcntl_getfl(socket)?.contains(OFlags::NONBLOCK))
}

/// By which the kernel tells sockets apart.
pub(crate) fn inode(socket: &TcpListener) -> io::Result<u64> {
    Ok(rustix::fs::fstat(socket)?.st_ino)
}

/// Listens there, also where another program has ended that. It is refused where the socket would have another port.
pub(crate) fn listen(socket: &TcpListener, at: SocketAddr, backlog: i32) -> io::Result<()> {
    rustix::net::listen(socket, backlog)?;
    if socket.local_addr()?.port() == at.port() {
        return Ok(());
    }
    // Nobody is to come to the other port.
    end(socket)?;
    Err(io::Error::other(
        "another program has ended listening there, and the socket has lost its port, which it was given as any free one: name the \
         port where the socket is made",
    ))
}

/// Ends listening, for all who have the socket, which stays bound; what waits is reset.
pub(crate) fn end(socket: &TcpListener) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, Shutdown::Read)?)
}

pub(crate) fn is_listening(socket: &TcpListener) -> bool {
    rustix::net::sockopt::socket_acceptconn(socket).unwrap_or(false)
}

/// Takes a connection that waits. Another program may have had the socket wait for one by now.
pub(crate) fn accept_now(socket: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    socket.set_nonblocking(true)?;
    socket.accept()
}

/// Has the kernel drop what begins a connection to this socket, whichever process has it. Those whose beginning was taken go on. Where others
/// listen at the same address, it is the way to close a socket without a loss: what begins a connection is sent again, and reaches them.
///
/// # Errors
///
/// The kernel takes no such filter.
pub fn refuse_new(socket: &TcpListener) -> io::Result<()> {
    SockRef::from(socket).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(KEEP, 0, 0, 0),
        SockFilter::new(KEEP, 0, 0, u32::MAX),
    ])
}

/// Has the kernel take again what begins a connection, after [`refuse_new`]: the socket goes on.
pub(crate) fn take_new(socket: &TcpListener) -> io::Result<()> {
    match SockRef::from(socket).detach_filter() {
        // There was none, as a rule.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
