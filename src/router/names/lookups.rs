use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use traffic::desired::{DesiredConfig, Host, Target};

/// The most addresses that count of an answer.
pub const MAX_ADDRESSES: usize = traffic::desired::MAX_TARGETS;

/// What came of a question.
pub type LookupResult = Result<Vec<IpAddr>, Trouble>;

/// A target whose host has to be looked at: a name, or an address with the port of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupTarget {
    pub target: Target,
    pub is_udp: bool,
}

/// What is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The last good answer, in order; none: there never was one.
    pub addresses: Option<Vec<IpAddr>>,
    /// What was wrong with the newest one.
    pub trouble: Option<Trouble>,
}

/// Why an answer isn't taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("it can't be resolved: {0}")]
    Fails(String),
    #[error("the resolver doesn't answer in time")]
    Late,
    #[error("the resolver knows no address of it")]
    Nothing,
    #[error("it leads to {0}, where this router itself listens: calls would go round")]
    Loop(IpAddr),
}

/// What is known of all targets of a wanted state that have to be looked at. Cheap to compare, and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers(BTreeMap<LookupTarget, Answer>);

/// Targets of a wanted state whose hosts have to be looked at.
fn asked(wanted: &DesiredConfig) -> impl Iterator<Item = LookupTarget> {
    let ports = ports(wanted);
    wanted.services().iter().flat_map(move |service| {
        let is_udp = service.protocol().is_udp();
        let ports = ports.clone();
        let targets = service.variations.iter().flat_map(|variation| &variation.targets);
        targets.filter_map(move |target| {
            let is_asked = match &target.host {
                Host::Name(_) => true,
                Host::Address(_) => ports.contains(&(target.port, is_udp)),
            };
            is_asked.then(|| LookupTarget { target: target.clone(), is_udp })
        })
    })
}

/// Names in a wanted state; one may come more than once.
pub fn names(wanted: &DesiredConfig) -> impl Iterator<Item = Box<str>> {
    let targets = wanted.services().iter().flat_map(|service| &service.variations);
    targets.flat_map(|variation| &variation.targets).filter_map(|target| match &target.host {
        Host::Name(name) => Some(name.clone()),
        Host::Address(_) => None,
    })
}

/// Ports that a router listens on, with whether by UDP.
pub type Ports = BTreeSet<(u16, bool)>;

pub fn ports(wanted: &DesiredConfig) -> Ports {
    let listens = wanted.services().iter().flat_map(|service| &service.listens);
    listens.map(|listen| (listen.opened().port, listen.protocol.is_udp())).collect()
}

impl Answers {
    /// What is known of a target; none: it doesn't have to be looked at, or wasn't yet.
    #[must_use]
    pub fn of(&self, target: &Target, is_udp: bool) -> Option<&Answer> {
        self.0.get(&LookupTarget { target: target.clone(), is_udp })
    }

    /// Some target never had a good answer.
    #[must_use]
    pub fn has_none(&self) -> bool {
        self.0.values().any(|answer| answer.addresses.is_none())
    }

    /// A name is to be asked for before the next round: it never had a good answer, with some port.
    #[must_use]
    pub fn is_open(&self, name: &str) -> bool {
        let is_it = |asked: &LookupTarget| matches!(&asked.target.host, Host::Name(host) if **host == *name);
        let mut answers = self.0.iter().filter(|(asked, _)| is_it(asked)).peekable();
        answers.peek().is_none() || answers.any(|(_, answer)| answer.addresses.is_none())
    }

    /// What is known after these names were looked up. What isn't among them stays as it was, and what isn't wanted goes.
    #[must_use]
    pub fn after(
        &self,
        wanted: &DesiredConfig,
        looked: &BTreeMap<Box<str>, LookupResult>,
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Self {
        let ports = ports(wanted);
        let mut after = BTreeMap::new();
        for asked in asked(wanted) {
            if after.contains_key(&asked) {
                continue;
            }
            let before = self.0.get(&asked).cloned().unwrap_or_default();
            let found = match &asked.target.host {
                Host::Name(name) => looked.get(name).cloned(),
                Host::Address(address) => Some(Ok(vec![*address])),
            };
            let listens_there = ports.contains(&(asked.target.port, asked.is_udp));
            let leads_back = |address: &IpAddr| listens_there && is_own(*address);
            let answer = match found.map(|found| found.and_then(|all| taken(all, leads_back))) {
                None => before,
                Some(Ok(addresses)) => Answer { addresses: Some(addresses), trouble: None },
                Some(Err(trouble)) => Answer { trouble: Some(trouble), ..before },
            };
            after.insert(asked, answer);
        }
        Self(after)
    }
}

/// The addresses of an answer, if it may be taken.
fn taken(all: Vec<IpAddr>, leads_back: impl Fn(&IpAddr) -> bool) -> LookupResult {
    let mut all: Vec<IpAddr> = all.into_iter().map(|address| address.to_canonical()).collect();
    all.sort_unstable();
    all.dedup();
    all.truncate(MAX_ADDRESSES);
    if let Some(own) = all.iter().find(|address| leads_back(address)) {
        return Err(Trouble::Loop(*own));
    }
    if all.is_empty() { Err(Trouble::Nothing) } else { Ok(all) }
}
