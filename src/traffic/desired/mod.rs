//! What a router is to do: the whole of it, which is never changed but replaced by one with a higher number.
//!
//! Everything in it was checked when it was made, so that whoever writes it down in a router's own language has nothing to refuse:
//! names are of letters, digits and `. _ -`, values of headers and names of cookies can't end a line or a quoted text.

mod name;
mod service;
mod target;

use std::collections::{BTreeMap, btree_map::Entry};

use model::traffic::Socket;

pub use self::{
    name::{CookieName, HeaderName, HeaderValue, Name, WordError},
    service::{
        Health, IN_A_ROW, INTERVALS, Listen, MAX_HOSTS, MAX_LISTENS, MAX_TARGETS, MAX_VALUES, Protocol, Rule,
        Service, ServiceError, ServiceSpec, StickyTo, TIMEOUTS, TlsEnd, Variant, Variation, is_check_path,
        is_host, is_path,
    },
    target::{Host, Target, TargetError, is_this_machine},
};

/// Which wanted state: one of an older lease, or an older one of the same lease, is never applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Number {
    /// Of the lease of whoever decides.
    pub epoch: u64,
    /// Grows with each wanted state of an epoch.
    pub generation: u64,
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.epoch, self.generation)
    }
}

/// As [`Number`] is written.
impl std::str::FromStr for Number {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (epoch, generation) = text.split_once('.').ok_or(())?;
        let part = |text: &str| text.parse().map_err(|_| ());
        Ok(Self { epoch: part(epoch)?, generation: part(generation)? })
    }
}

/// What one router is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredConfig {
    pub number: Number,
    services: Box<[Service]>,
}

/// The most services of a router.
pub const MAX_SERVICES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WantedError {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("there are two services {0}")]
    Twice(Name),
    #[error("the services {first} and {second} would both have {at}")]
    Port { first: Name, second: Name, at: Listen },
    #[error("port {port} would be for {} of service {first} and for {} of service {second}", protocols[0].name(), protocols[1].name())]
    Protocols { first: Name, second: Name, port: u16, protocols: [Protocol; 2] },
    #[error(
        "the target {target} of service {service} is where this router itself listens for {listens}: calls would go round"
    )]
    Loop { service: Name, target: Target, listens: Name },
    #[error("{0} services are more than {MAX_SERVICES}")]
    TooMany(usize),
}

impl DesiredConfig {
    /// Services in the order of their names.
    ///
    /// # Errors
    ///
    /// Two of one name, or for the same calls at one port; a port for two protocols; a target that is a port of the router's own at a loopback address, or too many.
    pub fn new(number: Number, mut services: Vec<Service>) -> Result<Self, WantedError> {
        if services.len() > MAX_SERVICES {
            return Err(WantedError::TooMany(services.len()));
        }
        services.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = services.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(WantedError::Twice(pair[0].name.clone()));
        }
        check_ports(&services)?;
        let opened: BTreeMap<Socket, &Name> = services
            .iter()
            .rev()
            .flat_map(|service| service.listens.iter().map(move |listen| (listen.opened(), &service.name)))
            .collect();
        for service in &services {
            for target in service.variations.iter().flat_map(|variation| &variation.targets) {
                let socket = Socket { port: target.port, is_udp: service.protocol().is_udp() };
                let listens = opened.get(&socket).filter(|_| target.host.is_this_machine());
                if let Some(listens) = listens {
                    let (service, target) = (service.name.clone(), target.clone());
                    return Err(WantedError::Loop { service, target, listens: Name::clone(listens) });
                }
            }
        }
        Ok(Self { number, services: services.into() })
    }

    /// One of the same number whose services differ from these in what a rule of this crate has changed.
    pub(crate) fn map(&self, change: impl FnMut(&Service) -> Service) -> Self {
        Self { number: self.number, services: self.services.iter().map(change).collect() }
    }

    /// The same with other targets, as `targets` gives them for each variation; none: it keeps those that it has.
    ///
    /// # Errors
    ///
    /// As [`Service::new`] and [`Self::new`].
    pub fn with_targets(
        &self,
        mut targets: impl FnMut(&Service, &Variation) -> Option<Vec<Target>>,
    ) -> Result<Self, WantedError> {
        let mut services = Vec::with_capacity(self.services.len());
        for service in &self.services {
            let others: Vec<_> = service.variations.iter().map(|one| targets(service, one)).collect();
            if others.iter().all(Option::is_none) {
                services.push(service.clone());
                continue;
            }
            let mut spec = ServiceSpec::clone(service);
            for (variation, others) in spec.variations.iter_mut().zip(others) {
                variation.targets = others.unwrap_or_else(|| std::mem::take(&mut variation.targets));
            }
            services.push(Service::new(spec)?);
        }
        Self::new(self.number, services)
    }

    #[must_use]
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// Which calls at each port are whose: a call is the first one's that it fits.
    #[must_use]
    pub fn routes(&self) -> BTreeMap<Socket, Vec<Route<'_>>> {
        let mut all: BTreeMap<Socket, Vec<Route<'_>>> = BTreeMap::new();
        for service in &*self.services {
            for listen in &service.listens {
                let path = listen.path.as_deref();
                let routes = listen.each_host().map(|host| Route { host, path, listen, service });
                all.entry(listen.socket()).or_default().extend(routes);
            }
        }
        for routes in all.values_mut() {
            let length = |route: &Route<'_>| route.path.map_or(0, str::len);
            routes.sort_by(|a, b| {
                let named_first = b.host.is_some().cmp(&a.host.is_some());
                named_first.then_with(|| length(b).cmp(&length(a))).then_with(|| a.key().cmp(&b.key()))
            });
        }
        all
    }

    #[must_use]
    pub fn service(&self, name: &str) -> Option<&Service> {
        let at = self.services.binary_search_by(|service| service.name.as_str().cmp(name)).ok()?;
        self.services.get(at)
    }
}

/// A part of the calls that come to a port.
#[derive(Debug, Clone, Copy)]
pub struct Route<'c> {
    /// None: whatever host.
    pub host: Option<&'c str>,
    /// None: whatever path.
    pub path: Option<&'c str>,
    pub listen: &'c Listen,
    pub service: &'c Service,
}

impl<'c> Route<'c> {
    fn key(&self) -> (Option<&'c str>, Option<&'c str>) {
        (self.host, self.path)
    }
}

/// A port has one protocol, and each host and path at it one service.
fn check_ports(services: &[Service]) -> Result<(), WantedError> {
    let (mut ports, mut routes) = (BTreeMap::new(), BTreeMap::new());
    for service in services {
        for listen in &service.listens {
            let second = || service.name.clone();
            match ports.entry(listen.socket()) {
                Entry::Vacant(free) => drop(free.insert((&service.name, listen.protocol))),
                Entry::Occupied(had) if had.get().1 != listen.protocol => {
                    let &(first, protocol) = had.get();
                    let (first, protocols) = (first.clone(), [protocol, listen.protocol]);
                    return Err(WantedError::Protocols {
                        first,
                        second: second(),
                        port: listen.port,
                        protocols,
                    });
                }
                Entry::Occupied(_) => {}
            }
            for host in listen.each_host() {
                let route = (listen.socket(), host, listen.path.as_deref());
                if let Some(first) = routes.insert(route, &service.name) {
                    let hosts = host.map(str::to_owned).into_iter().collect();
                    let (first, at) = (Name::clone(first), Listen { hosts, ..listen.clone() });
                    return Err(WantedError::Port { first, second: second(), at });
                }
            }
        }
    }
    Ok(())
}
