//! The table that follows from what is to be served.

use std::collections::BTreeMap;

use proxy::{
    control::form::TableNumber,
    form::{ProtocolForm, ServiceForm, TransportForm, VariationForm},
    live::Target,
};
use traffic::HashFunction;

use super::{
    managed_service::{LedService, ManagedService},
    state::Function,
};
use crate::{
    measure::{BASE, NEW},
    runtime::VersionId,
};

/// All shares, in units of 0.01 %.
pub const WHOLE: u16 = 10_000;

/// All that is to be in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub number: TableNumber,
    pub served: Served,
}

/// What a table has of calls, whatever its number is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Served {
    /// Functions, whose versions run here.
    pub functions: Vec<ServiceForm>,
    /// Services, whose variations run elsewhere.
    pub services: Vec<ManagedService>,
}

/// What a table is made from. It is looked after each event whether that is something else now, so no table is made for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableInputs {
    pub functions: Vec<ServiceForm>,
    /// Without what they were before, and where they come from.
    pub services: Vec<LedService>,
}

impl TableInputs {
    /// What is told of it to whatever knows these functions.
    pub fn served(&self, hashes: &[HashFunction]) -> Served {
        let services = self.services.iter().filter_map(|led| led.told(hashes).ok());
        Served { functions: self.functions.clone(), services: services.collect() }
    }
}

/// The functions of a table. A function whose stable version never had a target is in none; a candidate without a target gets no call.
pub fn functions(
    functions: &BTreeMap<String, Function>,
    targets: &BTreeMap<VersionId, Target>,
) -> Vec<ServiceForm> {
    functions.iter().filter_map(|(name, function)| service(name, function, targets)).collect()
}

fn service(name: &str, function: &Function, targets: &BTreeMap<VersionId, Target>) -> Option<ServiceForm> {
    let variation = |name: &str, version: &VersionId| {
        Some(VariationForm {
            name: name.to_owned(),
            version: version.to_string(),
            targets: vec![targets.get(version)?.to_string()],
            protocol: ProtocolForm::Http1,
        })
    };
    let mut variations = vec![variation(BASE, &function.stable)?];
    let mut shares = vec![WHOLE];
    let (mut split, mut salt) = (String::new(), String::new());
    if let Some(candidate) = &function.candidate {
        // Counts need its split although nothing of it may run.
        (split, salt) = (candidate.split.clone(), candidate.salt.clone());
        if let Some(new) = variation(NEW, &candidate.version) {
            variations.push(new);
            shares = vec![WHOLE - candidate.share.min(WHOLE), candidate.share.min(WHOLE)];
        }
    }
    Some(ServiceForm {
        name: name.to_owned(),
        hosts: Vec::new(),
        ports: Vec::new(),
        protocol: TransportForm::Http,
        proxy_protocol: None,
        drain_seconds: None,
        shadow: None,
        strip: true,
        variations,
        shares: Some(shares),
        runs: None,
        salt,
        hash: HashFunction::Murmur2,
        sticky: function.routing.sticky.clone(),
        header: None,
        retry: function.routing.retry,
        split,
    })
}
