//! What is taken over, as it is kept: the port, by what, and how far it has come. Pure.

use std::net::{IpAddr, SocketAddr};

use model::traffic::{Listen, Protocol, Socket};
use proxy::form::{AddressForm, AddressKind, ServiceForm, TransportForm};
use serde::{Deserialize, Serialize};

/// A port of which calls are taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    pub port: u16,
    pub kind: AddressKind,
    #[serde(default, skip_serializing_if = "By::is_rules")]
    pub by: By,
    /// Of callers of these addresses: as of [`super::Ground::listeners`], or, by a socket, those at which programs listen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<IpAddr>,
    /// Those of them of which the socket was lent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lent: Vec<IpAddr>,
    /// Where the proxy listens: by a socket, at the port itself.
    pub at: u16,
    pub phase: Phase,
}

/// By what calls come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum By {
    /// Rules of the kernel.
    #[default]
    Rules,
    /// A socket at the port itself.
    Socket,
}

impl By {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    fn is_rules(&self) -> bool {
        *self == Self::Rules
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// The proxy may listen for them, and gets none.
    Opening,
    /// They may come.
    Taken,
    /// None is to come, and some may.
    GivingBack,
    /// None comes, and some that came may go on.
    Leaving,
}

impl Taken {
    /// Whether calls come, or are about to.
    pub fn goes_on(&self) -> bool {
        matches!(self.phase, Phase::Opening | Phase::Taken)
    }

    pub fn is_by_rules(&self) -> bool {
        self.by == By::Rules
    }

    pub fn is_by_socket(&self) -> bool {
        self.by == By::Socket
    }

    pub fn is_udp(&self) -> bool {
        self.kind == AddressKind::Udp
    }

    pub fn is_for(&self, listen: &Listen) -> bool {
        self.goes_on() && self.port == listen.port && self.kind == kind_of(listen)
    }

    /// Whether the proxy listens there for it.
    pub fn is_at(&self, form: &AddressForm) -> bool {
        self.at == form.address.port() && self.is_udp() == (form.kind == AddressKind::Udp)
    }

    /// Where the proxy listens at the port itself.
    pub fn sockets(&self) -> impl Iterator<Item = SocketAddr> {
        let (at, is_by_socket) = (self.at, self.is_by_socket());
        self.of.iter().filter(move |_| is_by_socket).map(move |address| SocketAddr::new(*address, at))
    }

    /// Whether the proxy listens at the same port, where the other has it listen.
    pub fn has_sockets_of(&self, other: &Self) -> bool {
        other.sockets().all(|theirs| self.sockets().any(|own| own == theirs))
    }

    /// Whether a service that stands in the proxy's table has what comes in there.
    pub fn is_told_of(&self, form: &ServiceForm) -> bool {
        let transport = match self.kind {
            AddressKind::Http | AddressKind::Https => TransportForm::Http,
            AddressKind::Tls => TransportForm::Tls,
            AddressKind::Tcp => TransportForm::Tcp,
            AddressKind::Udp => TransportForm::Udp,
        };
        // Who has TLS pass by host has it at all ports.
        let is_named = transport == TransportForm::Tls && !form.hosts.is_empty();
        form.protocol == transport && (is_named || form.ports.contains(&self.at))
    }

    /// What is called.
    pub fn called(&self) -> Socket {
        Socket { port: self.port, is_udp: self.is_udp() }
    }

    /// Where the proxy listens.
    pub fn opened(&self) -> Socket {
        Socket { port: self.at, is_udp: self.is_udp() }
    }
}

/// As what it comes in for a service.
pub(super) fn kind_of(listen: &Listen) -> AddressKind {
    match listen.protocol {
        Protocol::Http => AddressKind::Http,
        Protocol::Https if listen.passes() => AddressKind::Tls,
        Protocol::Https => AddressKind::Https,
        Protocol::Tcp => AddressKind::Tcp,
        Protocol::Udp => AddressKind::Udp,
    }
}
