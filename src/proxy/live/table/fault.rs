use traffic::{BUCKETS, MAX_VARIATIONS, SharesError, TableError};

use super::{MAX_DRAIN, MAX_NAME, MAX_PORTS, MAX_SERVICES, MAX_TARGETS};
use crate::{form::FORMAT, live::version::TargetError};

/// Why a table is refused. Nothing of it is in force then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableFault {
    #[error("the table has format {0}, and this proxy knows up to {FORMAT}: update the proxy")]
    Format(u32),
    #[error("table {epoch}.{generation} is older than the one in force, {in_force}")]
    Old { epoch: u64, generation: u64, in_force: String },
    #[error("table {0} is in force with another content: a change needs a new generation")]
    Changed(String),
    #[error("{0} services; a proxy has at most {MAX_SERVICES}")]
    Services(usize),
    #[error(
        "service {0:?}: a name is 1 to {MAX_NAME} characters from A-Z a-z 0-9 . _ - and begins with none of . _ -"
    )]
    Name(String),
    #[error("two services are called {0:?}")]
    Twice(String),
    #[error("the host {0:?} leads to two services")]
    HostTwice(String),
    #[error("callers of TLS who name {0:?} are led to two services")]
    NameTwice(String),
    #[error("port {0} leads to two services")]
    PortTwice(u16),
    #[error(
        "service {service:?}: on port {port} no {what} are taken; a table opens no ports, and those of this proxy are {open}"
    )]
    NotListened { service: String, port: u16, what: &'static str, open: String },
    #[error("service {service:?}: {why}")]
    Service { service: String, why: ServiceFault },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceFault {
    #[error("it has {0} variations; 1 to {MAX_VARIATIONS} are possible")]
    Variations(usize),
    #[error("two variations are called {0:?}")]
    Twice(String),
    #[error("variation {0:?} has no target, or more than {MAX_TARGETS}")]
    Targets(String),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    Shares(#[from] SharesError),
    #[error("there are {shares} shares for {variations} variations")]
    Count { shares: usize, variations: usize },
    #[error("name either `shares` or `runs`")]
    SharesOrRuns,
    #[error("the header rule names {0:?}, which is no variation of it")]
    Rule(String),
    #[error("the shadow {0:?} is none: name a variation of it that isn't its first and that speaks HTTP/1.1")]
    Shadow(String),
    #[error("the shadow gets {0} hundredths of a percent of calls; at most {BUCKETS} are possible")]
    ShadowShare(u16),
    #[error(
        "{0:?} is no name of a header, cookie or host here: 1 to {MAX_NAME} visible characters without separators"
    )]
    Token(String),
    #[error("it has {0} ports; at most {MAX_PORTS} are possible, from 1 to 65535")]
    Ports(usize),
    #[error("{what} means nothing to a service of {of}")]
    Meaningless { what: &'static str, of: &'static str },
    #[error("no port leads to it, and no host where it is one of TLS")]
    Nowhere,
    #[error("the target {target:?} is none for {of}: write an address with a port{or}")]
    TargetOf { target: String, of: &'static str, or: &'static str },
    #[error("a PROXY header can't stand before {0}")]
    NoHeader(&'static str),
    #[error("`drain_seconds` is at most {MAX_DRAIN}, 30 days")]
    Drain,
    #[error("`salt` and `split` have at most {MAX_NAME} bytes")]
    Long,
}
