//! A service, as it is led.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::limits::{
    MAX_TOLD_NAME_BYTES, MAX_TOLD_PORTS, MAX_TOLD_TARGET_BYTES, MAX_TOLD_TARGETS, MAX_TOLD_VALUES,
    MAX_TOLD_VARIATIONS, MAX_TOLD_WORD_BYTES,
};
use crate::{
    WireError,
    read::{at_most, within},
};

/// The whole of a service, as its router leads it: in the words of `services:` in a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LedService)]
pub struct LedForm {
    /// At most [`MAX_TOLD_PORTS`].
    pub ports: Vec<PortForm>,
    /// By what calls stay with one variation; absent: each call goes to any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky: Option<StickyByForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<RuleForm>,
    /// What the keys of calls are hashed with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub salt: String,
    /// `murmur2` or `xxh32`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// The first is the stable one.
    pub variations: Vec<LedVariation>,
}

/// Where a service takes calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ServicePort)]
pub struct PortForm {
    pub port: u16,
    pub protocol: TransportProtocol,
}

/// What is spoken at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum TransportProtocol {
    Http,
    Https,
    Tcp,
    Udp,
}

/// By what calls stay with one variation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StickyBy)]
pub enum StickyByForm {
    /// The name of a cookie.
    Cookie(String),
    /// The name of a header.
    Header(String),
    /// The address of the caller.
    Address,
}

/// A header whose value asks for a variation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HeaderRule)]
pub struct RuleForm {
    pub name: String,
    /// By value, the name of the variation; at most [`MAX_TOLD_VALUES`].
    pub values: BTreeMap<String, String>,
}

/// A variation with its targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ServiceVariation)]
pub struct LedVariation {
    pub name: String,
    /// `HOST:PORT`, at most [`MAX_TOLD_TARGETS`].
    pub targets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthCheckForm>,
}

/// How it is looked whether targets are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TargetCheck)]
pub struct HealthCheckForm {
    /// Absent: a connection is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Milliseconds from the begin of one check to that of the next.
    pub interval_ms: u64,
    /// Milliseconds.
    pub timeout_ms: u64,
    /// So many good checks in a row.
    pub healthy_after: u32,
    /// So many bad checks in a row.
    pub unhealthy_after: u32,
}

impl LedForm {
    pub(super) fn validate(&self) -> Result<(), WireError> {
        at_most("services.led.ports", self.ports.len(), MAX_TOLD_PORTS)?;
        at_most("services.led.variations", self.variations.len(), MAX_TOLD_VARIATIONS)?;
        within("services.led.salt", &self.salt, MAX_TOLD_NAME_BYTES)?;
        within("services.led.hash", &self.hash, MAX_TOLD_NAME_BYTES)?;
        if let Some(StickyByForm::Cookie(word) | StickyByForm::Header(word)) = &self.sticky {
            within("services.led.sticky", word, MAX_TOLD_WORD_BYTES)?;
        }
        if let Some(rule) = &self.header {
            within("services.led.header.name", &rule.name, MAX_TOLD_WORD_BYTES)?;
            at_most("services.led.header.values", rule.values.len(), MAX_TOLD_VALUES)?;
            for (value, variation) in &rule.values {
                within("services.led.header.values", value, MAX_TOLD_WORD_BYTES)?;
                within("services.led.header.values", variation, MAX_TOLD_NAME_BYTES)?;
            }
        }
        self.variations.iter().try_for_each(LedVariation::validate)
    }
}

impl LedVariation {
    fn validate(&self) -> Result<(), WireError> {
        within("services.led.variations.name", &self.name, MAX_TOLD_NAME_BYTES)?;
        at_most("services.led.variations.targets", self.targets.len(), MAX_TOLD_TARGETS)?;
        for target in &self.targets {
            within("services.led.variations.targets", target, MAX_TOLD_TARGET_BYTES)?;
        }
        let path = self.health.as_ref().and_then(|health| health.path.as_deref());
        path.map_or(Ok(()), |path| within("services.led.variations.health.path", path, MAX_TOLD_WORD_BYTES))
    }
}
