use std::collections::BTreeMap;

use model::traffic::Socket;
use serde::Deserialize;
use serde_json::{Map, Value};
use traffic::{
    BUCKETS, MAX_VARIATIONS,
    desired::{Number, Target},
    observed::{ObservedConfig, SeenService, SeenTarget, SeenVariation},
};

use super::{EntryPoints, MARK, Provider, STATE, render::number_of};

/// Of a router or service that Traefik goes by.
const ENABLED: &str = "enabled";

/// What `/api/rawdata` says: everything that the running Traefik has.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawData {
    /// Where what is ours comes from.
    #[serde(skip)]
    pub provider: Provider,
    pub routers: BTreeMap<String, RawRouter>,
    pub services: BTreeMap<String, RawService>,
    pub tcp_routers: BTreeMap<String, RawRouter>,
    pub tcp_services: BTreeMap<String, RawService>,
    pub udp_routers: BTreeMap<String, RawRouter>,
    pub udp_services: BTreeMap<String, RawService>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawRouter {
    pub status: String,
    pub service: String,
    pub rule: String,
    pub entry_points: Vec<String>,
    /// Why it isn't enabled.
    pub error: Vec<String>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RawService {
    pub status: String,
    pub weighted: Option<Weighted>,
    pub load_balancer: Option<LoadBalancer>,
    pub error: Vec<String>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Weighted {
    pub services: Vec<Child>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub struct Child {
    pub name: String,
    /// One that isn't written is 1.
    #[serde(default = "one")]
    pub weight: u64,
}

fn one() -> u64 {
    1
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LoadBalancer {
    pub servers: Vec<Server>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Of HTTP.
    pub url: String,
    /// Of TCP and UDP.
    pub address: String,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Server {
    /// None where it isn't one of plain HTTP, TCP or UDP at a host and a port.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        let url = self.url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        url.unwrap_or(&self.address).parse().ok()
    }
}

/// One of `/api/entrypoints`.
#[derive(Debug, Deserialize)]
pub struct EntryPoint {
    pub name: String,
    /// As in `:8080`, `127.0.0.1:8080` and `:8053/udp`.
    #[serde(default)]
    pub address: String,
}

impl EntryPoint {
    /// By their ports.
    #[must_use]
    pub fn by_port(all: Vec<Self>) -> EntryPoints {
        let mut found = EntryPoints::new();
        for Self { name, address } in all {
            let (address, protocol) = address.split_once('/').unwrap_or((&address, "tcp"));
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            if let Some(port) = port {
                found.entry(Socket { port, is_udp: protocol == "udp" }).or_default().push(name);
            }
        }
        found
    }
}

type Part<'r> = (&'r BTreeMap<String, RawRouter>, &'r BTreeMap<String, RawService>);

impl RawData {
    fn parts(&self) -> [Part<'_>; 3] {
        [
            (&self.routers, &self.services),
            (&self.tcp_routers, &self.tcp_services),
            (&self.udp_routers, &self.udp_services),
        ]
    }

    /// By which wanted state it goes; none: by none of ours.
    #[must_use]
    pub fn number(&self) -> Option<Number> {
        let state = self.services.get(&format!("{STATE}{}", self.provider.suffix()))?;
        number_of(&state.load_balancer.as_ref()?.servers.first()?.url)
    }

    /// What it does of ours.
    #[must_use]
    pub fn observed(&self) -> ObservedConfig {
        let mut observed = ObservedConfig { number: self.number(), ..ObservedConfig::default() };
        for (routers, services) in self.parts() {
            for (name, service) in services {
                let Some(own) = self.own_name(name).filter(|own| !own.contains(':')) else { continue };
                let is_routed = routers.get(name).is_some_and(|router| router.status == ENABLED);
                match self.seen(service, services) {
                    Some(seen) if is_routed && service.status == ENABLED => {
                        observed.services.insert(own.to_owned(), seen);
                    }
                    Some(_) | None => {}
                }
            }
        }
        observed
    }

    /// What is marked as ours, by its name without the mark: routers and services of all protocols, and whoever put them there.
    pub fn marked(&self) -> impl Iterator<Item = &str> {
        let names = |(routers, services)| names(routers).chain(names(services));
        self.parts().into_iter().flat_map(names).filter(|name| name.starts_with(MARK))
    }

    /// Why something of ours isn't gone by, if anything.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let is_own = |name: &&String| name.starts_with(MARK);
        self.parts().into_iter().find_map(|(routers, services)| {
            let routers = routers.iter().filter(|(name, _)| is_own(name));
            let routers = routers.map(|(name, router)| (name, &router.status, &router.error));
            let services = services.iter().filter(|(name, _)| is_own(name));
            let services = services.map(|(name, service)| (name, &service.status, &service.error));
            let mut all = routers.chain(services);
            let (name, status, error) = all.find(|(_, status, _)| *status != ENABLED)?;
            Some(format!("{name} is {status}: {}", error.join("; ")))
        })
    }

    /// The name of one of ours, without mark and provider.
    pub fn own_name<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(MARK)?.strip_suffix(self.provider.suffix())
    }

    /// What somebody else has told it by the same provider.
    pub fn of_others(&self) -> impl Iterator<Item = &str> {
        let all = |(routers, services)| names(routers).chain(names(services));
        let told = self
            .parts()
            .into_iter()
            .flat_map(all)
            .filter_map(|name| name.strip_suffix(self.provider.suffix()));
        told.filter(|name| !name.starts_with(MARK) && *name != STATE)
    }

    fn seen(&self, service: &RawService, services: &BTreeMap<String, RawService>) -> Option<SeenService> {
        let children = &service.weighted.as_ref()?.services;
        if children.len() > MAX_VARIATIONS {
            return None;
        }
        let all: u128 = children.iter().map(|child| u128::from(child.weight)).sum();
        let variations = children.iter().map(|child| {
            let name = child.name.rsplit_once(':').map_or(&*child.name, |(_, name)| name);
            let led = services.get(&format!("{}{}", child.name, self.provider.suffix()));
            let servers = led.and_then(|led| led.load_balancer.as_ref()).map(|led| &led.servers);
            let targets = servers.into_iter().flatten().filter_map(Server::target);
            let target = |target| SeenTarget { target, is_healthy: None, connections: None };
            SeenVariation {
                name: name.trim_end_matches(self.provider.suffix()).to_owned(),
                hundredths: (u128::from(child.weight) * u128::from(BUCKETS)).checked_div(all).unwrap_or(0)
                    as u16,
                targets: targets.map(target).collect(),
            }
        });
        Some(SeenService { variations: variations.collect(), table: None })
    }
}

fn names<T>(all: &BTreeMap<String, T>) -> impl Iterator<Item = &str> {
    all.keys().map(String::as_str)
}
