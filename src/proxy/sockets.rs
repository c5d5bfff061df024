//! The listening sockets of a proxy, and how words between its processes name them.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixListener,
    },
};

use serde::{Deserialize, Serialize};

use crate::{
    form::{AddressForm, AddressKind},
    handover::HandoverError,
    live::Transport,
    shared,
};

/// The most listening sockets of a proxy, the control's among them.
pub const MAX_SOCKETS: usize = 64;

/// The most addresses of a proxy.
pub(crate) const MAX_ADDRESSES: usize = MAX_SOCKETS - 1;

/// How many connections wait while nobody accepts; the system may allow fewer.
pub(crate) const BACKLOG: i32 = 4_096;
/// Bytes of datagrams that wait while nobody reads; the system may allow fewer.
const WAITING_BYTES: usize = 4 * 1024 * 1024;

/// What comes in at a socket. It goes with the socket from process to process, whatever the configuration says by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Calls, without TLS.
    Plain,
    /// Calls, with TLS.
    Tls,
    /// Connections, whatever passes over them.
    Tcp,
    /// Connections of TLS that pass unopened.
    PassThrough,
    /// Datagrams.
    Udp,
    /// Whoever reads metrics.
    Metrics,
    /// Nothing, by itself: another program has the socket, and a list may have what comes in there taken here as well.
    Lent,
}

impl Kind {
    /// Whether what comes in is for services of a transport.
    #[must_use]
    pub fn takes(self, transport: Transport) -> bool {
        match self {
            Self::Plain | Self::Tls => transport == Transport::Http,
            Self::Tcp => transport == Transport::Tcp,
            Self::PassThrough => transport == Transport::Tls,
            Self::Udp => transport == Transport::Udp,
            Self::Metrics | Self::Lent => false,
        }
    }

    /// Whether it is a socket of UDP: it may have the address of one of TCP.
    pub(crate) fn is_udp(self) -> bool {
        self == Self::Udp
    }
}

/// An address to listen on, or on which it is listened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    pub kind: Kind,
    pub address: SocketAddr,
}

impl From<AddressForm> for Listen {
    fn from(form: AddressForm) -> Self {
        let kind = match form.kind {
            AddressKind::Http => Kind::Plain,
            AddressKind::Https => Kind::Tls,
            AddressKind::Tcp => Kind::Tcp,
            AddressKind::Tls => Kind::PassThrough,
            AddressKind::Udp => Kind::Udp,
        };
        Self { kind, address: form.address }
    }
}

impl Listen {
    /// Whether there can't be both: they are one address, whatever comes in there.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.kind.is_udp() == other.kind.is_udp() && self.address == other.address
    }

    /// Whether a socket that listens there is the one that is asked for: sockets for all addresses are taken for each other,
    /// since some systems write them as IPv6 alone.
    pub(crate) fn is_met_by(&self, socket: &Socket, there: SocketAddr) -> bool {
        if self.kind.is_udp() != socket.is_udp() {
            return false;
        }
        let are_all = self.address.ip().is_unspecified() && there.ip().is_unspecified();
        self.address == there || (are_all && self.address.port() == there.port())
    }
}

impl fmt::Display for Listen {
    /// With the scheme of what comes in there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Plain => write!(f, "http://{}", self.address),
            Kind::Tls => write!(f, "https://{}", self.address),
            Kind::Tcp => write!(f, "tcp://{}", self.address),
            Kind::PassThrough => write!(f, "tls://{}", self.address),
            Kind::Udp => write!(f, "udp://{}", self.address),
            Kind::Metrics => write!(f, "http://{}/metrics", self.address),
            Kind::Lent => write!(f, "tcp://{}, which was lent", self.address),
        }
    }
}

/// A listening socket, as words name it; descriptors follow in the same order. What takes calls has the address as it was asked
/// for, so that port 0 is found again. A program that doesn't know a name refuses the word: it would take one kind for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SocketName {
    Calls(String),
    Tls(String),
    Tcp(String),
    PassThrough(String),
    Udp(String),
    Metrics(String),
    Lent(String),
    Control,
}

/// A socket that listens on an address.
#[derive(Debug)]
pub(crate) struct Open {
    pub kind: Kind,
    /// The address as it was asked for.
    pub asked: String,
    pub socket: Socket,
}

/// A socket at which something comes in.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Socket {
    /// The address that the system gave it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        }
    }

    pub(crate) fn is_udp(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    fn copy(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            Self::Udp(socket) => Self::Udp(socket.try_clone()?),
        })
    }

    pub(crate) fn bind(listen: Listen) -> io::Result<Self> {
        if listen.kind.is_udp() {
            UdpSocket::bind(listen.address).map(Self::Udp)
        } else {
            TcpListener::bind(listen.address).map(Self::Tcp)
        }
    }

    /// The same beside those of other programs, which have an address as well. It doesn't listen yet.
    pub(crate) fn join(listen: Listen) -> io::Result<Self> {
        shared::socket::join(listen.address).map(Self::Tcp)
    }

    /// Lets more wait than a socket does by itself, as far as the system allows.
    pub(crate) fn deepen(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => rustix::net::listen(socket, BACKLOG)?,
            // Fewer datagrams are no reason not to serve.
            Self::Udp(socket) => {
                if let Err(error) = rustix::net::sockopt::set_socket_recv_buffer_size(socket, WAITING_BYTES) {
                    tracing::warn!(%error, "the buffer of a socket for datagrams stays as small as it was");
                }
            }
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

/// The listening sockets of a proxy.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub open: Vec<Open>,
    pub control: UnixListener,
}

impl Open {
    pub(crate) fn copy(&self) -> io::Result<Self> {
        Ok(Self { kind: self.kind, asked: self.asked.clone(), socket: self.socket.copy()? })
    }

    /// Where it listens, by the address that the system gave.
    pub(crate) fn listen(&self) -> Option<Listen> {
        Some(Listen { kind: self.kind, address: self.socket.local_addr().ok()? })
    }

    fn name(&self) -> SocketName {
        let asked = self.asked.clone();
        match self.kind {
            Kind::Plain => SocketName::Calls(asked),
            Kind::Tls => SocketName::Tls(asked),
            Kind::Tcp => SocketName::Tcp(asked),
            Kind::PassThrough => SocketName::PassThrough(asked),
            Kind::Udp => SocketName::Udp(asked),
            Kind::Metrics => SocketName::Metrics(asked),
            Kind::Lent => SocketName::Lent(asked),
        }
    }

    /// Whether it listens at one of these addresses, for the same.
    fn is_of(&self, list: &[Listen]) -> bool {
        self.listen().is_some_and(|listen| list.contains(&listen))
    }

    /// Whether it was asked for so.
    fn is_asked_as(&self, other: &Self) -> bool {
        self.kind == other.kind && self.asked == other.asked
    }
}

impl Sockets {
    /// These and more, as a word names them and as they go along with it: the control's is the last.
    pub(crate) fn named<'s>(
        &'s self,
        more: impl Iterator<Item = &'s Open> + Clone,
    ) -> (Vec<SocketName>, Vec<BorrowedFd<'s>>) {
        let open = self.open.iter().chain(more);
        let names = open.clone().map(Open::name).chain([SocketName::Control]);
        let descriptors = open.map(|open| open.socket.as_fd()).chain([self.control.as_fd()]);
        (names.collect(), descriptors.collect())
    }

    pub(crate) fn copy(&self) -> io::Result<Self> {
        let open = self.open.iter().map(Open::copy).collect::<io::Result<_>>()?;
        Ok(Self { open, control: self.control.try_clone()? })
    }

    /// Where it is listened, by the addresses that the system gave.
    pub(crate) fn listens(&self) -> Vec<Listen> {
        self.open.iter().filter(|open| open.kind != Kind::Lent).filter_map(Open::listen).collect()
    }

    /// Those that were lent, which are here no more.
    pub(crate) fn take_lent(&mut self) -> Vec<Open> {
        self.open.extract_if(.., |open| open.kind == Kind::Lent).collect()
    }

    /// Where sockets listen that were lent.
    pub(crate) fn lent(&self) -> Vec<SocketAddr> {
        let lent = self.open.iter().filter(|open| open.kind == Kind::Lent);
        lent.filter_map(|open| open.socket.local_addr().ok()).collect()
    }

    /// Goes over from the sockets of one list of addresses to those of another: gives what is new, which is not taken yet, and what is
    /// no more. All others stay, whatever was given, and so do those that were lent: this process was started with them, and perhaps with
    /// another configuration than whoever gives has.
    pub(crate) fn exchange(
        &mut self,
        given: Self,
        before: &[Listen],
        list: &[Listen],
    ) -> (Vec<Open>, Vec<Open>) {
        let mut new = given.open;
        let is_gone = |own: &mut Open| match new.iter().position(|other| other.is_asked_as(own)) {
            Some(at) => {
                new.swap_remove(at);
                false
            }
            None => own.is_of(before),
        };
        let gone = self.open.extract_if(.., is_gone).collect();
        new.retain(|open| open.is_of(list));
        (new, gone)
    }

    pub(crate) fn from_named(
        names: Vec<SocketName>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, HandoverError> {
        let (mut open, mut control) = (Vec::new(), None);
        for (name, descriptor) in names.into_iter().zip(descriptors) {
            let (kind, asked) = match name {
                SocketName::Calls(asked) => (Kind::Plain, asked),
                SocketName::Tls(asked) => (Kind::Tls, asked),
                SocketName::Tcp(asked) => (Kind::Tcp, asked),
                SocketName::PassThrough(asked) => (Kind::PassThrough, asked),
                SocketName::Udp(asked) => (Kind::Udp, asked),
                SocketName::Metrics(asked) => (Kind::Metrics, asked),
                SocketName::Lent(asked) => (Kind::Lent, asked),
                SocketName::Control => {
                    control = Some(UnixListener::from(descriptor));
                    continue;
                }
            };
            let socket = if kind.is_udp() {
                Socket::Udp(UdpSocket::from(descriptor))
            } else {
                Socket::Tcp(TcpListener::from(descriptor))
            };
            open.push(Open { kind, asked, socket });
        }
        let control =
            control.ok_or_else(|| HandoverError::Unexpected("nothing of a control socket".to_owned()))?;
        Ok(Self { open, control })
    }
}
