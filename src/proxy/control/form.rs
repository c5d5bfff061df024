//! What the control answers, as it travels.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{
    Proxy,
    form::{AddressForm, AddressKind, ListenForm},
};

/// How a proxy stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the program that serves.
    pub program: String,
    pub pid: u32,
    pub table: TableNumber,
    /// Addresses on which calls are taken.
    pub listen: Vec<String>,
    /// Those of them on which callers speak TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls: Vec<String>,
    /// Addresses on which connections of TCP are taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<String>,
    /// Addresses on which connections of TLS are taken that pass unopened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass_through: Vec<String>,
    /// Addresses on which datagrams are taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp: Vec<String>,
    /// Addresses on which metrics are read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    pub threads: usize,
    /// Connections of callers.
    pub connections: usize,
    /// Flows of UDP.
    #[serde(default)]
    pub flows: usize,
    pub services: Vec<ServiceStatus>,
    /// Versions that the table doesn't name and that still answer calls.
    pub leaving: Vec<LeavingStatus>,
    /// Processes that handed over and finish what they have.
    pub finishing: Vec<Finishing>,
    /// Whether a supervisor keeps the listening sockets and would start this process again.
    pub held: bool,
    /// Its connections to versions are marked for the kernel: connections to others' ports may be sent here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
    /// Where sockets of other programs listen that were lent to it; absent: it takes nothing at ports of other programs by a socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent: Option<Vec<SocketAddr>>,
    /// Why the last upgrade did not come about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_failed: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableNumber {
    pub epoch: u64,
    pub generation: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    pub name: String,
    pub split: String,
    pub variations: Vec<VariationStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariationStatus {
    pub name: String,
    pub version: String,
    /// Units of 0.01 %.
    pub share: u16,
    pub targets: Vec<String>,
    pub in_flight: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeavingStatus {
    pub service: String,
    pub variation: String,
    pub version: String,
    pub in_flight: u32,
}

/// A process that handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finishing {
    pub pid: u32,
    /// It answered; else nothing else here is known, and what it holds counts as held.
    pub answers: bool,
    pub connections: usize,
    /// Where they came in, and flows of UDP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressStatus>,
    pub leaving: Vec<LeavingStatus>,
}

/// The answer to a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub table: TableNumber,
    /// Processes that handed over and could not be told of the table. They go on by the one before until they end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_told: Vec<u32>,
}

/// The list of addresses in force, which stand beside those of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenStatus {
    #[serde(flatten)]
    pub list: ListenForm,
    /// Those of it on which it can't be listened for now. It is tried again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<AddressForm>,
    /// Addresses that were closed, while what came in there goes on, here or in processes that handed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closing: Vec<AddressStatus>,
}

/// What goes on of what came in at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressStatus {
    pub kind: AddressKind,
    pub address: SocketAddr,
    /// Connections, or flows of UDP.
    pub connections: usize,
}

impl AddressStatus {
    pub(crate) fn form(&self) -> AddressForm {
        AddressForm { kind: self.kind, address: self.address }
    }
}

/// Addresses of a port that other programs have as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Others {
    pub addresses: Vec<OthersStatus>,
}

/// Who takes what comes in at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OthersStatus {
    pub kind: AddressKind,
    pub address: SocketAddr,
    /// The proxy does: it listens there, and its table has a service for it.
    pub takes: bool,
    /// Another program takes all that comes in there, or none does; absent: it can't be told just now, or one takes a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<bool>,
}

/// Whether a version is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    pub drained: bool,
    /// Calls in flight at it.
    pub in_flight: u32,
}

/// Whether a version could not be connected to since this was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    pub unreachable: bool,
}

/// An answer that isn't what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<TableNumber>,
}

/// The order to hand over to a process of the program that is on disk now was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrading {
    /// The process that serves until then.
    pub pid: u32,
}

impl TableNumber {
    pub(crate) fn of(table: &crate::live::LiveTable) -> Self {
        Self { epoch: table.epoch(), generation: table.generation() }
    }
}

pub(crate) fn services(proxy: &Proxy) -> Vec<ServiceStatus> {
    let table = proxy.table();
    let of_service = |service: &crate::live::LiveService| {
        let shares = service.table().hundredths();
        let variations = service.versions().iter().zip(shares).map(|(version, share)| VariationStatus {
            name: version.name().to_owned(),
            version: version.digest().to_owned(),
            share,
            targets: version.targets().iter().map(ToString::to_string).collect(),
            in_flight: version.in_flight(),
        });
        ServiceStatus {
            name: service.name().to_owned(),
            split: service.split().to_owned(),
            variations: variations.collect(),
        }
    };
    table.services().iter().map(|service| of_service(service)).collect()
}

pub(crate) fn leaving(proxy: &Proxy) -> Vec<LeavingStatus> {
    let of_version = |leaving: crate::Leaving| LeavingStatus {
        service: leaving.service.into(),
        variation: leaving.version.name().to_owned(),
        version: leaving.version.digest().to_owned(),
        in_flight: leaving.version.in_flight(),
    };
    proxy.leaving().into_iter().map(of_version).collect()
}
