use std::{
    collections::HashSet,
    sync::{Arc, Weak},
};

use traffic::{
    BUCKETS, HashFunction, HeaderRule, MAX_VARIATIONS, Retry, Run, Shares, SharesError, Sticky, Table,
    TableError, Variation,
};

use super::{
    routes::{Ambiguous, Route, Routes},
    version::{Protocol, Target, TargetError, Version},
};
use crate::form::{
    FORMAT, FORMAT_WITHOUT_PORTS, HashForm, HeaderForm, ProtocolForm, RetryForm, ServiceForm, ShadowForm,
    StickyForm, TableForm, VariationForm,
};

/// The most services of a table.
pub const MAX_SERVICES: usize = 10_000;
/// The most targets of a version.
pub const MAX_TARGETS: usize = 256;
/// The most bytes of a name, a salt or a value.
pub const MAX_NAME: usize = 200;
/// The most ports of a service.
pub const MAX_PORTS: usize = 64;

/// A table that was checked, with the versions it names.
#[derive(Debug)]
pub struct LiveTable {
    epoch: u64,
    generation: u64,
    services: Vec<Arc<LiveService>>,
    routes: Routes,
}

/// A service of a table.
#[derive(Debug)]
pub struct LiveService {
    name: Box<str>,
    prefix: Option<Box<str>>,
    strip: bool,
    table: Table,
    shares: Arc<[u16]>,
    function: HashFunction,
    salt: Box<[u8]>,
    sticky: Option<Sticky>,
    rule: Option<HeaderRule>,
    retry: Option<Retry>,
    shadow: Option<ShadowRule>,
    split: Box<str>,
    versions: Vec<Arc<Version>>,
    hosts: Vec<String>,
    ports: Vec<u16>,
}

/// Which variation gets copies of calls, and of how many, in units of 0.01 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShadowRule {
    pub variation: Variation,
    pub share: u16,
}

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
    #[error("port {0} leads to two services")]
    PortTwice(u16),
    #[error(
        "service {service:?}: on port {port} no calls are taken; a table opens no ports, and those of this proxy's \
         configuration are {open}"
    )]
    NotListened { service: String, port: u16, open: String },
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
    #[error("`salt` and `split` have at most {MAX_NAME} bytes")]
    Long,
}

impl LiveTable {
    /// The table before anybody gave one.
    #[must_use]
    pub fn empty() -> Self {
        Self { epoch: 0, generation: 0, services: Vec::new(), routes: Routes::default() }
    }

    /// Checks a table that is to follow this one. Versions that are the same in both are carried over, with the calls in flight
    /// that they have.
    pub fn next(&self, form: &TableForm) -> Result<Self, TableFault> {
        if form.format > FORMAT {
            return Err(TableFault::Format(form.format));
        }
        if (form.epoch, form.generation) < (self.epoch, self.generation) {
            let in_force = self.number();
            return Err(TableFault::Old { epoch: form.epoch, generation: form.generation, in_force });
        }
        if form.services.len() > MAX_SERVICES {
            return Err(TableFault::Services(form.services.len()));
        }
        let mut names = HashSet::new();
        let mut services = Vec::with_capacity(form.services.len());
        for service in &form.services {
            if !is_service_name(&service.name) {
                return Err(TableFault::Name(service.name.clone()));
            }
            if !names.insert(service.name.as_str()) {
                return Err(TableFault::Twice(service.name.clone()));
            }
            let before = self.service(&service.name).map(|(_, before)| &**before);
            let checked = LiveService::checked(service, before)
                .map_err(|why| TableFault::Service { service: service.name.clone(), why })?;
            services.push(Arc::new(checked));
        }
        let routes = Routes::new(&services).map_err(|twice| match twice {
            Ambiguous::Host(host) => TableFault::HostTwice(host),
            Ambiguous::Port(port) => TableFault::PortTwice(port),
        })?;
        let next = Self { epoch: form.epoch, generation: form.generation, services, routes };
        let is_same = (self.epoch, self.generation) == (next.epoch, next.generation);
        if is_same && self.generation > 0 && !self.has_content_of(&next) {
            return Err(TableFault::Changed(self.number()));
        }
        Ok(next)
    }

    /// Epoch and generation.
    #[must_use]
    pub fn number(&self) -> String {
        format!("{}.{}", self.epoch, self.generation)
    }

    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    #[must_use]
    pub fn services(&self) -> &[Arc<LiveService>] {
        &self.services
    }

    /// `at`: the port that the call came in on, and its host.
    pub(crate) fn route<'t>(&self, at: (u16, Option<&[u8]>), target: &'t str) -> Option<Route<'t>> {
        self.routes.find(&self.services, at, target)
    }

    /// Versions of this table that the next one doesn't name, with their services.
    pub(crate) fn not_named_by(&self, next: &Self) -> Vec<(Box<str>, Weak<Version>)> {
        let named: HashSet<*const Version> =
            next.services.iter().flat_map(|service| service.versions.iter().map(Arc::as_ptr)).collect();
        let mut gone = Vec::new();
        for service in &self.services {
            let not_named = service.versions.iter().filter(|version| !named.contains(&Arc::as_ptr(version)));
            gone.extend(not_named.map(|version| (service.name.clone(), Arc::downgrade(version))));
        }
        gone
    }

    fn service(&self, name: &str) -> Option<(usize, &Arc<LiveService>)> {
        self.routes.index_of(name).map(|index| (index, &self.services[index]))
    }

    fn has_content_of(&self, other: &Self) -> bool {
        self.form().services == other.form().services
    }

    /// The table as it travels and is kept.
    #[must_use]
    pub fn form(&self) -> TableForm {
        let names_ports = self.services.iter().any(|service| !service.ports.is_empty());
        TableForm {
            format: if names_ports { FORMAT } else { FORMAT_WITHOUT_PORTS },
            epoch: self.epoch,
            generation: self.generation,
            services: self.services.iter().map(|service| service.form()).collect(),
        }
    }
}

impl LiveService {
    fn checked(form: &ServiceForm, before: Option<&Self>) -> Result<Self, ServiceFault> {
        if form.variations.is_empty() || form.variations.len() > MAX_VARIATIONS {
            return Err(ServiceFault::Variations(form.variations.len()));
        }
        if form.salt.len() > MAX_NAME || form.split.len() > MAX_NAME {
            return Err(ServiceFault::Long);
        }
        if form.ports.len() > MAX_PORTS || form.ports.contains(&0) {
            return Err(ServiceFault::Ports(form.ports.len()));
        }
        let mut versions: Vec<Arc<Version>> = Vec::with_capacity(form.variations.len());
        for variation in &form.variations {
            if versions.iter().any(|version| version.name() == variation.name) {
                return Err(ServiceFault::Twice(variation.name.clone()));
            }
            versions.push(version(variation, before)?);
        }
        let hosts: Vec<String> = form.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        hosts.iter().try_for_each(|host| token(host).map(drop))?;
        let sticky = match &form.sticky {
            None => None,
            Some(StickyForm::Cookie(name)) => Some(Sticky::Cookie(token(name)?.into())),
            Some(StickyForm::Header(name)) => Some(Sticky::Header(token(name)?.into())),
            Some(StickyForm::Address) => Some(Sticky::Address),
        };
        let table = buckets(form, before)?;
        let rule = form.header.as_ref().map(|header| rule(header, &versions)).transpose()?;
        let shadow = form.shadow.as_ref().map(|form| shadow(form, &versions)).transpose()?;
        Ok(Self {
            name: form.name.as_str().into(),
            prefix: (hosts.is_empty() && form.ports.is_empty()).then(|| format!("/{}", form.name).into()),
            strip: form.strip,
            shares: table.hundredths().into(),
            table,
            function: match form.hash {
                HashForm::Murmur2 => HashFunction::Murmur2,
                HashForm::Xxh32 => HashFunction::Xxh32,
            },
            salt: form.salt.as_bytes().into(),
            sticky,
            rule,
            retry: form.retry.map(|retry| match retry {
                RetryForm::Failed => Retry::Failed,
                RetryForm::Refused => Retry::Refused,
                RetryForm::Never => Retry::Never,
            }),
            shadow,
            split: form.split.as_str().into(),
            versions,
            hosts,
            ports: form.ports.clone(),
        })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path that leads here, where no host and no port does.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    pub(crate) fn strips(&self) -> bool {
        self.strip
    }

    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Ports all of whose calls lead here.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Units of 0.01 %, a variation each.
    #[must_use]
    pub fn shares(&self) -> &Arc<[u16]> {
        &self.shares
    }

    /// What its shares are called in counts.
    #[must_use]
    pub fn split(&self) -> &str {
        &self.split
    }

    #[must_use]
    pub fn versions(&self) -> &[Arc<Version>] {
        &self.versions
    }

    /// When a call of this method is repeated.
    pub(crate) fn retry(&self, method: &str) -> Retry {
        self.retry.unwrap_or_else(|| Retry::default_for(method.as_bytes()))
    }

    pub(crate) fn sticky(&self) -> Option<&Sticky> {
        self.sticky.as_ref()
    }

    pub(crate) fn shadow(&self) -> Option<ShadowRule> {
        self.shadow
    }

    pub(crate) fn choose(&self, call: &impl traffic::Call, draw: impl FnOnce() -> u64) -> traffic::Choice {
        let how = (self.rule.as_ref(), self.sticky.as_ref());
        traffic::choose((&self.table, self.function, &self.salt), how, call, draw)
    }

    fn form(&self) -> ServiceForm {
        let runs = self.table.runs().iter().map(|run| (run.from, run.to, run.variation.0)).collect();
        let name_of = |variation: Variation| self.versions[variation.index()].name().to_owned();
        ServiceForm {
            name: self.name.to_string(),
            hosts: self.hosts.clone(),
            ports: self.ports.clone(),
            strip: self.strip,
            variations: self.versions.iter().map(|version| variation_form(version)).collect(),
            shares: None,
            runs: Some(runs),
            salt: String::from_utf8_lossy(&self.salt).into_owned(),
            hash: match self.function {
                HashFunction::Murmur2 => HashForm::Murmur2,
                HashFunction::Xxh32 => HashForm::Xxh32,
            },
            sticky: self.sticky.as_ref().map(|sticky| match sticky {
                Sticky::Cookie(name) => StickyForm::Cookie(name.to_string()),
                Sticky::Header(name) => StickyForm::Header(name.to_string()),
                Sticky::Address => StickyForm::Address,
            }),
            header: self.rule.as_ref().map(|rule| HeaderForm {
                name: rule.name.to_string(),
                values: rule.values.iter().map(|(value, of)| (value.to_string(), name_of(*of))).collect(),
            }),
            retry: self.retry.map(|retry| match retry {
                Retry::Failed => RetryForm::Failed,
                Retry::Refused => RetryForm::Refused,
                Retry::Never => RetryForm::Never,
            }),
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

/// The version of a variation: the one that is there, if nothing about it changed.
fn version(form: &VariationForm, before: Option<&LiveService>) -> Result<Arc<Version>, ServiceFault> {
    token(&form.name)?;
    if form.targets.is_empty() || form.targets.len() > MAX_TARGETS {
        return Err(ServiceFault::Targets(form.name.clone()));
    }
    let targets: Box<[Target]> =
        form.targets.iter().map(|target| target.parse()).collect::<Result<_, _>>()?;
    let protocol = match form.protocol {
        ProtocolForm::Http1 => Protocol::Http1,
        ProtocolForm::H2c => Protocol::H2c,
    };
    let same = before.and_then(|before| {
        before.versions.iter().find(|version| {
            version.name() == form.name
                && version.digest() == form.version
                && *version.targets() == *targets
                && version.protocol() == protocol
        })
    });
    Ok(same.map_or_else(|| Arc::new(Version::new(&form.name, &form.version, targets, protocol)), Arc::clone))
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

fn rule(form: &HeaderForm, versions: &[Arc<Version>]) -> Result<HeaderRule, ServiceFault> {
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

/// Whether a service can be called so.
#[must_use]
pub fn is_service_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// What may stand in a field of a head as it is.
fn token(text: &str) -> Result<&str, ServiceFault> {
    let is_token = |byte: u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte);
    let is_one = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_token);
    if is_one { Ok(text) } else { Err(ServiceFault::Token(text.to_owned())) }
}
