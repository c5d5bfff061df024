//! A table's services as they travel.

use traffic::Variation;

use super::{LiveService, Transport};
use crate::{
    form::{
        ProtocolForm, ProxyProtocolForm, RuleForm, ServiceForm, ShadowForm, TransportForm, VariationForm,
    },
    live::version::{Protocol, Version},
    proxy_protocol::ProxyHeader,
};

impl LiveService {
    pub(super) fn form(&self) -> ServiceForm {
        let runs = self.table.runs().iter().map(|run| (run.from, run.to, run.variation.0)).collect();
        let name_of = |variation: Variation| self.versions[variation.index()].name().to_owned();
        ServiceForm {
            name: self.name.to_string(),
            hosts: self.hosts.clone(),
            ports: self.ports.clone(),
            protocol: match self.transport {
                Transport::Http => TransportForm::Http,
                Transport::Tcp => TransportForm::Tcp,
                Transport::Tls => TransportForm::Tls,
                Transport::Udp => TransportForm::Udp,
            },
            proxy_protocol: self.header().map(|header| match header {
                ProxyHeader::V1 => ProxyProtocolForm::V1,
                ProxyHeader::V2 => ProxyProtocolForm::V2,
            }),
            drain_seconds: self.drain.and_then(|drain| u32::try_from(drain.as_secs()).ok()),
            strip: self.strip,
            variations: self.versions.iter().map(|version| variation_form(version)).collect(),
            shares: None,
            runs: Some(runs),
            salt: String::from_utf8_lossy(&self.salt).into_owned(),
            hash: self.function,
            sticky: self.sticky.clone(),
            header: self.rule.as_ref().map(|rule| RuleForm {
                name: rule.name.to_string(),
                values: rule.values.iter().map(|(value, of)| (value.to_string(), name_of(*of))).collect(),
            }),
            retry: self.retry,
            shadow: self
                .shadow
                .map(|rule| ShadowForm { variation: name_of(rule.variation), share: rule.share }),
            split: self.split.to_string(),
        }
    }
}

fn variation_form(version: &Version) -> VariationForm {
    VariationForm {
        name: version.name().to_owned(),
        version: version.digest().to_owned(),
        targets: version.targets().iter().map(ToString::to_string).collect(),
        protocol: match version.protocol() {
            Protocol::Http1 => ProtocolForm::Http1,
            Protocol::H2c => ProtocolForm::H2c,
        },
    }
}
