//! `children.detail`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde::{Deserialize, Serialize};

use super::form::{Boxed, Maybe, Version, forms};
use domain::children::Replaced;
use model::{Capabilities, ChildKey, Cordon, Leads, NodeCapabilities};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChildDetail {
    #[serde(skip_serializing_if = "Version::is_first")]
    pub version: Version<1>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
    #[serde(skip_serializing_if = "Option::is_none", with = "Maybe::<ReplacedForm>")]
    pub replaced: Option<Replaced>,
    pub called_again: bool,
    pub born_served_ms: u64,
    #[serde(with = "CordonForm")]
    pub cordon: Cordon,
    pub plain: bool,
    #[serde(with = "CapabilitiesForm")]
    pub capabilities: Capabilities,
    pub labels: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Replaced")]
struct ReplacedForm {
    by: ChildKey,
    at: u64,
}

/// Told in the audit trail as well.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Cordon", rename_all = "lowercase")]
pub(crate) enum CordonForm {
    Open,
    Cordoned,
    Drained,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(remote = "Capabilities", default)]
struct CapabilitiesForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    runtimes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[expect(clippy::box_collection, reason = "the field's type, which serde has to meet")]
    #[serde(skip_serializing_if = "Option::is_none")]
    labels_below: Option<Box<BTreeMap<String, BTreeSet<String>>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    features: Vec<String>,
    #[serde(skip_serializing_if = "Leads::is_stepwise", with = "LeadsForm")]
    leads: Leads,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_url: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<NodeForm>>")]
    node: Option<Box<NodeCapabilities>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NodeCapabilities")]
struct NodeForm {
    cpus: u32,
    cores: u32,
    mhz: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    memory_mib: Option<u64>,
    tee: bool,
    tpm: bool,
    resources: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    events: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Leads", rename_all = "lowercase")]
enum LeadsForm {
    Stepwise,
    Whole,
}

forms! { ReplacedForm = Replaced, NodeForm = NodeCapabilities }
