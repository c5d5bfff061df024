//! What a service is as rules of listeners. Pure.
//!
//! A service has at each of its listeners one rule with the weights of its variations, and before that one for each few values of its
//! header rule; where it names more hosts than a rule takes, for each few hosts. Rules of several services at one listener stand in the
//! order in which calls are told apart: a named host first, then the longest path. What marks them as ours, and says which variation a
//! target group is, stands in their tags.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use model::hex;
use sha2::{Digest as _, Sha256};
use traffic::{
    RouterKind, Variation as Which,
    desired::{Listen, Number, Route, Service, StickyTo},
};

use super::weights::{self, MAX_GROUPS};

/// The most values that the conditions of one rule may have together, and that one of them may have.
const MAX_VALUES: usize = 5;
const MAX_OF_CONDITION: usize = 3;

/// The most characters of a header's name, and of a value.
const MAX_HEADER: usize = 40;
const MAX_VALUE: usize = 128;

/// When a rule applies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Compared without regard to case.
    Host(Vec<String>),
    /// `*` stands for whatever follows.
    Path(Vec<String>),
    /// Name and values, compared without regard to case.
    Header(String, Vec<String>),
    /// In words: one that no rule of ours has.
    Other(String),
}

/// Which target groups get the calls of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forward {
    /// Weights by the groups' ARNs.
    pub groups: BTreeMap<String, u16>,
    /// For so many seconds a caller stays with the group that it got, whatever the weights.
    pub sticky: Option<u32>,
}

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleText {
    pub conditions: BTreeSet<Condition>,
    pub forward: Forward,
    /// In words, what else it does: no rule of ours does.
    pub others: Vec<String>,
}

/// Which of a service's rules for some calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Of so many rules for a header's values.
    Header(u8),
    Shares,
}

/// What a rule of ours has in its tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    pub service: String,
    /// Which calls at its listener are the service's by this rule: equal for equal hosts and paths.
    pub calls: String,
    pub role: Role,
    pub number: Number,
    /// Of the rule as it was told: [`digest`].
    pub digest: String,
    /// Of a rule with [`Role::Shares`]: each variation in its order, with its share in units of 0.01 % and the ARN of its group.
    pub variations: Vec<(String, u16, String)>,
    /// Of a rule with [`Role::Shares`]: so many rules the service has, at all of its listeners.
    pub rules: usize,
}

/// What an ALB can't do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unable {
    #[error("service {service}: it {what}")]
    Ability { service: String, what: String },
    #[error(
        "service {service}: shares of {} % can't be said by weights from 0 to 999; tenths of a percent always can",
        percents(shares)
    )]
    Shares { service: String, shares: Vec<u16> },
    #[error(
        "service {service}: {groups} variations have a share, and a rule takes {MAX_GROUPS} target groups"
    )]
    Groups { service: String, groups: usize },
    #[error("service {service}: there is no listener at port {port}: create one")]
    NoListener { service: String, port: u16 },
    #[error("service {service}: the listener at port {port} takes {has}, and not {wanted}")]
    Listener { service: String, port: u16, has: String, wanted: &'static str },
    #[error("service {service}: {why}")]
    Header { service: String, why: String },
    #[error(
        "service {service}: the host {host} can't be said: AWS compares at most {MAX_VALUE} characters, with a dot and then letters alone at the end"
    )]
    Host { service: String, host: String },
    #[error(
        "service {service}: a path of {length} characters can't be said: AWS compares at most {}",
        MAX_VALUE - BELOW.len()
    )]
    Path { service: String, length: usize },
    #[error(
        "services {first} and {second} share a host at port {port} and both keep their users, and a caller has one cookie AWSALBTG: keep them by one of the services alone"
    )]
    Cookie { first: String, second: String, port: u16 },
    #[error("variation {variation} of service {service}: {why}")]
    Targets { service: String, variation: String, why: String },
    #[error(
        "the listener at port {port} has no free priority from {first} to {last}, as aws_alb.priorities has it"
    )]
    Priorities { port: u16, first: u16, last: u16 },
}

fn percents(shares: &[u16]) -> String {
    let percents = shares.iter().map(|share| format!("{}", f64::from(*share) / 100.0));
    percents.collect::<Vec<_>>().join("/")
}

/// A service as its rules say it at each of its listeners; groups are variations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// One weight a variation that has a share.
    pub weights: Vec<(Which, u16)>,
    /// For so many seconds.
    pub sticky: Option<u32>,
    /// The header's name, all values of a variation, and which it is.
    pub headers: Vec<(String, Vec<String>, Which)>,
}

impl Shape {
    /// `sticky_for`: how long a caller is to stay with a variation, in seconds.
    ///
    /// # Errors
    ///
    /// What an ALB can't do.
    pub fn of(service: &Service, sticky_for: u32) -> Result<Self, Unable> {
        let name = || service.name.to_string();
        let can = RouterKind::AwsAlb.abilities();
        let lacks = |what: String| Unable::Ability { service: name(), what };
        if let Some(listen) = service.listens.iter().find(|one| !can.protocols.contains(&one.protocol)) {
            return Err(lacks(format!("leads no {}", listen.protocol.name())));
        }
        service.listens.iter().try_for_each(|listen| check_calls(listen, service))?;
        match &service.sticky {
            Some(StickyTo::Header(_)) => return Err(lacks("keeps no users by a header".into())),
            Some(StickyTo::Address) => {
                return Err(lacks("keeps no users by their address".into()));
            }
            Some(StickyTo::Cookie(_)) | None => {}
        }
        let shares = service.table.hundredths();
        let all = weights::weights(&shares).ok_or_else(|| Unable::Shares { service: name(), shares })?;
        let weights: Vec<(Which, u16)> =
            (0..).map(Which).zip(all).filter(|(_, weight)| *weight > 0).collect();
        if weights.len() > MAX_GROUPS {
            return Err(Unable::Groups { service: name(), groups: weights.len() });
        }
        // With one group nobody has to be kept: who holds a cookie of another one goes to this.
        let sticky = (service.sticky.is_some() && weights.len() > 1).then_some(sticky_for);
        let headers = headers(service).map_err(|why| Unable::Header { service: name(), why })?;
        Ok(Self { weights, sticky, headers })
    }

    /// The rules at one listener, in the order in which they are to be asked, with what tells which calls they are for. `groups`: the ARN
    /// of each variation's.
    pub fn rules(&self, listen: &Listen, groups: &[String]) -> Vec<(String, Role, RuleText)> {
        let arn = |which: Which| groups.get(which.index()).cloned().unwrap_or_default();
        let (hosts_of_rule, values_of_rule) = self.split(listen);
        let shares = self.weights.iter().map(|(which, weight)| (arn(*which), *weight)).collect();
        let shares = Forward { groups: shares, sticky: self.sticky };
        let mut all = Vec::new();
        for own in conditions(listen, hosts_of_rule) {
            let calls = hash(&format!("{own:?}"), 8);
            let mut number = 0;
            for (name, values, which) in &self.headers {
                for some in values.chunks(values_of_rule) {
                    let header = Condition::Header(name.clone(), some.to_vec());
                    let conditions = own.iter().cloned().chain([header]).collect();
                    let forward = Forward { groups: [(arn(*which), 1)].into(), sticky: None };
                    let text = RuleText { conditions, forward, others: Vec::new() };
                    all.push((calls.clone(), Role::Header(number), text));
                    number += 1;
                }
            }
            // A rule needs a condition.
            let conditions =
                if own.is_empty() { [Condition::Path(vec!["/*".to_owned()])].into() } else { own };
            let text = RuleText { conditions, forward: shares.clone(), others: Vec::new() };
            all.push((calls, Role::Shares, text));
        }
        all
    }

    /// How many hosts, and how many values of a header beside them, a rule names, so that there are as few rules as can be.
    fn split(&self, listen: &Listen) -> (usize, usize) {
        let room = MAX_VALUES - if listen.path.is_some() { 2 } else { 0 };
        let values = |hosts: usize| (room - hosts).clamp(1, MAX_OF_CONDITION);
        let rules = |hosts: &usize| {
            let of_headers = self.headers.iter().map(|(_, all, _)| all.len().div_ceil(values(*hosts)));
            listen.hosts.len().div_ceil(*hosts) * (1 + of_headers.sum::<usize>())
        };
        let most = MAX_OF_CONDITION.min(room - usize::from(!self.headers.is_empty()));
        let hosts = (1..=most.min(listen.hosts.len())).rev().min_by_key(rules).unwrap_or(0);
        (hosts, values(hosts))
    }
}

/// What follows a path in whole segments.
const BELOW: &str = "/*";

/// By what calls that are a service's are told from others at its port: one set for each so many hosts.
fn conditions(listen: &Listen, hosts_of_rule: usize) -> Vec<BTreeSet<Condition>> {
    let path = listen.path.as_ref().map(|path| Condition::Path(vec![path.clone(), format!("{path}{BELOW}")]));
    let mut hosts = listen.hosts.clone();
    hosts.sort_unstable();
    if hosts.is_empty() {
        return vec![path.into_iter().collect()];
    }
    let some = hosts.chunks(hosts_of_rule).map(|some| Condition::Host(some.to_vec()));
    some.map(|some| path.iter().cloned().chain([some]).collect()).collect()
}

fn check_calls(listen: &Listen, service: &Service) -> Result<(), Unable> {
    let service = || service.name.to_string();
    let can_be_said = |host: &str| {
        let last = host.rsplit_once('.').map_or("", |(_, last)| last);
        host.len() <= MAX_VALUE && !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    if let Some(host) = listen.hosts.iter().find(|host| !can_be_said(host)) {
        return Err(Unable::Host { service: service(), host: host.clone() });
    }
    match &listen.path {
        Some(path) if path.len() + BELOW.len() > MAX_VALUE => {
            Err(Unable::Path { service: service(), length: path.len() })
        }
        _ => Ok(()),
    }
}

/// Of those at one port: callers are kept by one cookie, which is of the service that they called last.
///
/// # Errors
///
/// Two services would give it to one caller.
pub fn check_cookies(routes: &[Route<'_>]) -> Result<(), Unable> {
    let keeping: Vec<&Route<'_>> = routes.iter().filter(|route| route.service.sticky.is_some()).collect();
    for (at, route) in keeping.iter().enumerate() {
        // Those of whatever host come last.
        let meets = |other: &&&Route<'_>| {
            other.service.name != route.service.name && (route.host.is_none() || other.host == route.host)
        };
        if let Some(other) = keeping[..at].iter().find(meets) {
            let [first, second] = [other, route].map(|one| one.service.name.to_string());
            return Err(Unable::Cookie { first, second, port: route.listen.port });
        }
    }
    Ok(())
}

/// By variation, the values that ask for it.
fn headers(service: &Service) -> Result<Vec<(String, Vec<String>, Which)>, String> {
    let Some(rule) = &service.rule else { return Ok(Vec::new()) };
    let name = rule.name.as_str();
    if name.len() > MAX_HEADER {
        return Err(format!("the header {name} has more than {MAX_HEADER} characters"));
    }
    if name.eq_ignore_ascii_case("host") {
        return Err("the header Host can't be asked for so".to_owned());
    }
    let mut of: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    let mut known = BTreeMap::new();
    for (value, which) in &rule.values {
        let value = value.as_str();
        if value.len() > MAX_VALUE {
            return Err(format!("a value of the header {name} has more than {MAX_VALUE} characters"));
        }
        if value.contains(['*', '?', '\\']) {
            return Err(format!(
                "{value:?} of the header {name} has a character that stands for others there"
            ));
        }
        // Case doesn't count there.
        match known.insert(value.to_ascii_lowercase(), *which) {
            Some(other) if other != *which => {
                return Err(format!(
                    "{value:?} of the header {name} stands there for two variations, since case doesn't count"
                ));
            }
            Some(_) => {}
            None => of.entry(which.0).or_default().push(value.to_owned()),
        }
    }
    let by_variation = of.into_iter().map(|(which, mut values)| {
        values.sort_unstable();
        (name.to_owned(), values, Which(which))
    });
    Ok(by_variation.collect())
}

/// The first bytes of the hash of a text.
fn hash(text: &str, bytes: usize) -> String {
    hex::encode(&Sha256::digest(text)[..bytes])
}

/// Tells whether a rule is still what it was told to be.
#[must_use]
pub fn digest(priority: u16, text: &RuleText) -> String {
    hash(&format!("{priority} {text:?}"), 8)
}

/// Where rules stand, in the order in which they are to be asked. `there`: the priority that each has; none: it is to be created. What
/// has one keeps it where that can be. `taken`: those of all others. None: there is no room.
#[must_use]
pub fn priorities(
    there: &[Option<u16>],
    taken: &BTreeSet<u16>,
    (first, last): (u16, u16),
) -> Option<Vec<u16>> {
    let own: BTreeSet<u16> = there.iter().copied().flatten().collect();
    let free = |at: &u16| !taken.contains(at) && !own.contains(at);
    let mut places = Vec::new();
    let mut below = last.checked_add(1)?;
    for (at, one) in there.iter().enumerate().rev() {
        let above = there[..at].iter().rev().find_map(|one| *one).map_or(first, |one| one.saturating_add(1));
        let place = match one {
            Some(one) => Some(*one).filter(|one| *one < below && (first..=last).contains(one)),
            None => (above..below).rev().find(free),
        };
        let Some(place) = place else {
            // All of them are put elsewhere, at priorities that nobody has now.
            let mut all: Vec<u16> = (first..=last).rev().filter(free).take(there.len()).collect();
            all.reverse();
            return (all.len() == there.len()).then_some(all);
        };
        places.push(place);
        below = place;
    }
    places.reverse();
    Some(places)
}

/// The name of a variation's group, which no other has: AWS takes at most 32 letters, digits and hyphens. `mark`: whose it is.
#[must_use]
pub fn group_name(mark: &str, service: &str, variation: &str, is_ipv6: bool) -> String {
    let hash = hash(&format!("{mark}\n{service}\n{variation}\n{is_ipv6}"), 5);
    let letters = format!("{service}-{variation}");
    let letters: String =
        letters.chars().filter(|one| one.is_ascii_alphanumeric() || *one == '-').take(18).collect();
    format!("{GROUP_PREFIX}{}-{hash}", letters.trim_matches('-'))
}

/// Of the names of groups of ours.
pub const GROUP_PREFIX: &str = "cm-";

impl Role {
    fn read(text: &str) -> Option<Self> {
        match text.strip_prefix("header-") {
            Some(number) => number.parse().ok().map(Self::Header),
            None => (text == "shares").then_some(Self::Shares),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(number) => write!(f, "header-{number}"),
            Self::Shares => f.write_str("shares"),
        }
    }
}

/// The name of the service that a rule or a group is of; what has this tag is ours.
pub const SERVICE: &str = "choirmaster:service";
/// The variation that a group is of.
pub const VARIATION: &str = "choirmaster:variation";
/// Which agent's, where several lead rules of one load balancer.
pub const ROUTER: &str = "choirmaster:router";
const CALLS: &str = "choirmaster:calls";
const RULE: &str = "choirmaster:rule";
const NUMBER: &str = "choirmaster:number";
const TOLD: &str = "choirmaster:told";
const VARIATIONS: &str = "choirmaster:variations";
const RULES: &str = "choirmaster:rules";

impl Marks {
    /// Tags, by which others see whose it is, too.
    #[must_use]
    pub fn tags(&self) -> BTreeMap<String, String> {
        let mut tags: BTreeMap<String, String> = [
            (SERVICE.to_owned(), self.service.clone()),
            (CALLS.to_owned(), self.calls.clone()),
            (RULE.to_owned(), self.role.to_string()),
            (NUMBER.to_owned(), self.number.to_string()),
            (TOLD.to_owned(), self.digest.clone()),
        ]
        .into();
        if self.role == Role::Shares {
            tags.insert(VARIATIONS.to_owned(), self.variations.len().to_string());
            tags.insert(RULES.to_owned(), self.rules.to_string());
        }
        for (at, (name, share, group)) in self.variations.iter().enumerate() {
            tags.insert(format!("{VARIATION}-{at}"), format!("{name} {share} {group}"));
        }
        tags
    }

    /// None: it isn't ours, or somebody has changed its tags.
    #[must_use]
    pub fn read(tags: &BTreeMap<String, String>) -> Option<Self> {
        let variation = |at: usize| {
            let mut words = tags.get(&format!("{VARIATION}-{at}"))?.split(' ');
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.to_owned()))
        };
        let role = Role::read(tags.get(RULE)?)?;
        let number = |key: &str| tags.get(key)?.parse::<usize>().ok();
        let (count, rules) = match role {
            Role::Shares => {
                (number(VARIATIONS).filter(|count| *count <= traffic::MAX_VARIATIONS)?, number(RULES)?)
            }
            Role::Header(_) => (0, 0),
        };
        Some(Self {
            service: tags.get(SERVICE)?.clone(),
            calls: tags.get(CALLS)?.clone(),
            role,
            number: tags.get(NUMBER)?.parse().ok()?,
            digest: tags.get(TOLD)?.clone(),
            variations: (0..count).map(variation).collect::<Option<_>>()?,
            rules,
        })
    }

    /// What its variations have by the weights that are in force: what was wanted where these are the weights of that.
    #[must_use]
    pub fn shares(&self, forward: &Forward) -> Vec<u16> {
        let wanted: Vec<u16> = self.variations.iter().map(|(_, share, _)| *share).collect();
        let weight = |group: &String| forward.groups.get(group).copied().unwrap_or(0);
        let there: Vec<u16> = self.variations.iter().map(|(_, _, group)| weight(group)).collect();
        let own: BTreeSet<&String> = self.variations.iter().map(|(_, _, group)| group).collect();
        let strange: u32 = forward
            .groups
            .iter()
            .filter(|(group, _)| !own.contains(group))
            .map(|(_, weight)| u32::from(*weight))
            .sum();
        if strange == 0 && weights::weights(&wanted).as_ref() == Some(&there) {
            return wanted;
        }
        let strange = u16::try_from(strange).unwrap_or(u16::MAX);
        let mut shares = weights::hundredths(&[&there[..], &[strange]].concat());
        shares.pop();
        shares
    }
}
