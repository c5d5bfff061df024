//! What is looked at in a service before it is one of the table.

use std::{sync::Arc, time::Duration};

use traffic::{BUCKETS, HeaderRule, MAX_VARIATIONS, Run, Shares, Sticky, Table, Variation};

use super::{LiveService, MAX_DRAIN, MAX_NAME, MAX_PORTS, MAX_TARGETS, ServiceFault, ShadowRule, Transport};
use crate::{
    form::{
        ProtocolForm, ProxyProtocolForm, RuleForm, ServiceForm, ShadowForm, TransportForm, VariationForm,
    },
    live::version::{Protocol, Target, Version},
    proxy_protocol::ProxyHeader,
};

impl LiveService {
    pub(super) fn checked(form: &ServiceForm, before: Option<&Self>) -> Result<Self, ServiceFault> {
        check_sizes(form)?;
        let transport = match form.protocol {
            TransportForm::Http => Transport::Http,
            TransportForm::Tcp => Transport::Tcp,
            TransportForm::Tls => Transport::Tls,
            TransportForm::Udp => Transport::Udp,
        };
        if transport == Transport::Http {
            check_of_http(form)?;
        } else {
            check_of_flows(form, transport)?;
        }
        let mut versions: Vec<Arc<Version>> = Vec::with_capacity(form.variations.len());
        for variation in &form.variations {
            if versions.iter().any(|version| version.name() == variation.name) {
                return Err(ServiceFault::Twice(variation.name.clone()));
            }
            versions.push(version(variation, (form, transport), before)?);
        }
        let hosts: Vec<String> = form.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        hosts.iter().try_for_each(|host| token(host).map(drop))?;
        let table = buckets(form, before)?;
        let rule = form.header.as_ref().map(|header| rule(header, &versions)).transpose()?;
        let shadow = form.shadow.as_ref().map(|form| shadow(form, &versions)).transpose()?;
        let has_path = transport == Transport::Http && hosts.is_empty() && form.ports.is_empty();
        Ok(Self {
            name: form.name.as_str().into(),
            prefix: has_path.then(|| format!("/{}", form.name).into()),
            strip: form.strip,
            shares: table.hundredths().into(),
            table,
            function: form.hash,
            salt: form.salt.as_bytes().into(),
            sticky: sticky(form)?,
            rule,
            retry: form.retry,
            shadow,
            split: form.split.as_str().into(),
            versions,
            hosts,
            ports: form.ports.clone(),
            transport,
            drain: form.drain_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        })
    }
}

fn check_sizes(form: &ServiceForm) -> Result<(), ServiceFault> {
    if form.variations.is_empty() || form.variations.len() > MAX_VARIATIONS {
        return Err(ServiceFault::Variations(form.variations.len()));
    }
    if form.salt.len() > MAX_NAME || form.split.len() > MAX_NAME {
        return Err(ServiceFault::Long);
    }
    if form.ports.len() > MAX_PORTS || form.ports.contains(&0) {
        return Err(ServiceFault::Ports(form.ports.len()));
    }
    if form.drain_seconds.is_some_and(|seconds| seconds > MAX_DRAIN) {
        return Err(ServiceFault::Drain);
    }
    Ok(())
}

fn check_of_http(form: &ServiceForm) -> Result<(), ServiceFault> {
    if form.drain_seconds.is_some() {
        return Err(ServiceFault::Meaningless { what: "drain_seconds", of: name_of(Transport::Http) });
    }
    if form.proxy_protocol.is_none() {
        return Ok(());
    }
    if form.variations.iter().any(|variation| variation.protocol == ProtocolForm::H2c) {
        return Err(ServiceFault::NoHeader("a connection of HTTP/2, which calls of many callers share"));
    }
    if form.shadow.is_some() {
        return Err(ServiceFault::NoHeader("copies of calls, which have no caller"));
    }
    Ok(())
}

/// What passes unopened has no headers, no paths and no answers.
fn check_of_flows(form: &ServiceForm, transport: Transport) -> Result<(), ServiceFault> {
    let of = name_of(transport);
    let meaningless = [
        (matches!(form.sticky, Some(Sticky::Cookie(_))), "a cookie"),
        (matches!(form.sticky, Some(Sticky::Header(_))), "a header"),
        (form.header.is_some(), "a header rule"),
        (form.shadow.is_some(), "a shadow"),
        (transport != Transport::Tls && !form.hosts.is_empty(), "a host"),
        (form.variations.iter().any(|variation| variation.protocol != ProtocolForm::Http1), "h2c"),
    ];
    if let Some((_, what)) = meaningless.into_iter().find(|(is_said, _)| *is_said) {
        return Err(ServiceFault::Meaningless { what, of });
    }
    if form.ports.is_empty() && form.hosts.is_empty() {
        return Err(ServiceFault::Nowhere);
    }
    if transport == Transport::Udp && form.proxy_protocol.is_some() {
        return Err(ServiceFault::NoHeader("datagrams"));
    }
    Ok(())
}

fn name_of(transport: Transport) -> &'static str {
    match transport {
        Transport::Http => "HTTP",
        Transport::Tcp => "TCP",
        Transport::Tls => "TLS that passes unopened",
        Transport::Udp => "UDP",
    }
}

/// Whether a version can be there for what comes in.
fn check_target(target: &Target, transport: Transport) -> Result<(), ServiceFault> {
    let or = match (transport, target) {
        (Transport::Http, _) | (_, Target::Tcp(_)) | (Transport::Tcp | Transport::Tls, Target::Unix(_)) => {
            return Ok(());
        }
        (Transport::Udp, _) => "",
        (Transport::Tcp | Transport::Tls, Target::Below { .. }) => ", or unix: and a path",
    };
    Err(ServiceFault::TargetOf { target: target.to_string(), of: name_of(transport), or })
}

fn sticky(form: &ServiceForm) -> Result<Option<Sticky>, ServiceFault> {
    if let Some(Sticky::Cookie(name) | Sticky::Header(name)) = &form.sticky {
        token(name.as_str())?;
    }
    Ok(form.sticky.clone())
}

/// The version of a variation: the one that is there, if nothing about it changed.
fn version(
    form: &VariationForm,
    (service, transport): (&ServiceForm, Transport),
    before: Option<&LiveService>,
) -> Result<Arc<Version>, ServiceFault> {
    token(&form.name)?;
    if form.targets.is_empty() || form.targets.len() > MAX_TARGETS {
        return Err(ServiceFault::Targets(form.name.clone()));
    }
    let targets: Box<[Target]> =
        form.targets.iter().map(|target| target.parse()).collect::<Result<_, _>>()?;
    targets.iter().try_for_each(|target| check_target(target, transport))?;
    let protocol = match form.protocol {
        ProtocolForm::Http1 => Protocol::Http1,
        ProtocolForm::H2c => Protocol::H2c,
    };
    let header = service.proxy_protocol.map(|header| match header {
        ProxyProtocolForm::V1 => ProxyHeader::V1,
        ProxyProtocolForm::V2 => ProxyHeader::V2,
    });
    let new = Version::new((&form.name, &form.version), targets, protocol, header);
    let known = before.filter(|before| before.transport == transport);
    let same = known.and_then(|before| before.versions.iter().find(|version| version.is_same_content(&new)));
    Ok(same.map_or_else(|| Arc::new(new), Arc::clone))
}

fn buckets(form: &ServiceForm, before: Option<&LiveService>) -> Result<Table, ServiceFault> {
    let variations = form.variations.len();
    match (&form.shares, &form.runs) {
        (Some(_), Some(_)) => Err(ServiceFault::SharesOrRuns),
        (None, Some(runs)) => {
            let run = |&(from, to, variation)| Run { from, to, variation: Variation(variation) };
            let runs: Vec<Run> = runs.iter().map(run).collect();
            Ok(Table::from_runs(variations, &runs)?)
        }
        (shares, None) => {
            let shares = match shares {
                Some(shares) if shares.len() != variations => {
                    return Err(ServiceFault::Count { shares: shares.len(), variations });
                }
                Some(shares) => Shares::new(shares.as_slice())?,
                None if variations == 1 => Shares::all_stable(1)?,
                None => return Err(ServiceFault::SharesOrRuns),
            };
            let follows = before.filter(|before| before.table.variations() <= variations);
            Ok(match follows {
                Some(before) => before.table.with_shares(&shares)?,
                None => Table::new(&shares),
            })
        }
    }
}

fn rule(form: &RuleForm, versions: &[Arc<Version>]) -> Result<HeaderRule, ServiceFault> {
    let named = |name: &String| {
        let at = versions.iter().position(|version| version.name() == name);
        at.map(|at| Variation(at as u8)).ok_or_else(|| ServiceFault::Rule(name.clone()))
    };
    let values = form.values.iter().map(|(value, name)| Ok((value.as_str().into(), named(name)?)));
    Ok(HeaderRule { name: token(&form.name)?.into(), values: values.collect::<Result<_, ServiceFault>>()? })
}

fn shadow(form: &ShadowForm, versions: &[Arc<Version>]) -> Result<ShadowRule, ServiceFault> {
    if form.share > BUCKETS {
        return Err(ServiceFault::ShadowShare(form.share));
    }
    let can_be =
        |version: &Version| version.name() == form.variation && version.protocol() == Protocol::Http1;
    let at = versions.iter().skip(1).position(|version| can_be(version));
    let variation =
        at.map(|at| Variation(at as u8 + 1)).ok_or(ServiceFault::Shadow(form.variation.clone()))?;
    Ok(ShadowRule { variation, share: form.share })
}

/// What may stand in a field of a head as it is.
fn token(text: &str) -> Result<&str, ServiceFault> {
    let is_token = |byte: u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte);
    let is_one = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_token);
    if is_one { Ok(text) } else { Err(ServiceFault::Token(text.to_owned())) }
}
