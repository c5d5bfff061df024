//! How a wanted state becomes rules and target groups, and how it is read back.
//!
//! - A service's port is a listener that its operator has made. The service is a rule there, whose target groups have weights; rules
//!   for the values of a header stand before it. Their priorities are in a range of ours; nothing else of a listener is touched.
//! - A rule is for the same hosts and paths as long as it is there. For others there is another one. New ones come in the order in which
//!   they are asked, and those that are wanted no more go in the opposite one, after them: so a call is answered as before or as after,
//!   at whatever instant. Where there is no room between two, all of them are moved in one call.
//! - A variation is a target group of ours, of type `ip`. One without a share isn't in the rule: AWS keeps whoever holds the cookie of a
//!   group with it, also at weight 0. So a roll-back takes the group and, with the last one, the keeping out of the rule in one call.
//! - What is there is asked for first, and only what differs is changed. All that can be refused is, before anything is changed.
//! - Rules and groups of ours have tags. Those of a rule say by which wanted state it stands, which variation has which group, and what
//!   it was told: one that says something else now was changed by somebody, and stands by no wanted state.
//! - Groups come before rules, and go after them: whatever instant this is cut off at, the next one ends it.
//!
//! Of ours on this machine is one folder: the newest number by which the load balancer was ever led, and the lock of who leads it. Who
//! leads it from elsewhere with an older number is refused by the tags.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::Url;
use tokio::sync::Mutex;
use traffic::{
    RouterKind,
    desired::{DesiredConfig, Health, Host, Listen, Number, Route, Service, Target, Variation},
    observed::{ObservedConfig, SeenService, SeenTarget, SeenVariation},
};

use super::{
    NAME,
    api::{Api, Checks, Group, Listener, LoadBalancer, Registered, Rule, Tags},
    rule::{
        self, Forward, GROUP_PREFIX, Marks, Role, RuleText, Shape, Unable, digest, group_name, priorities,
    },
};
use crate::{Answer, Applied, Checked, Operations, Router, RouterError, disk::Disk, leadership::Leadership};

/// Which load balancer is led, and how AWS is called.
#[derive(Debug, Clone)]
pub struct Settings {
    /// None: as AWS's chain of settings says.
    pub region: Option<String>,
    /// `https://…`, or `http://` with an address of this machine; none: where AWS is.
    pub endpoint: Option<Url>,
    /// Its name or its ARN.
    pub load_balancer: String,
    /// The first and the last priority of rules of ours.
    pub priorities: (u16, u16),
    /// How long a caller stays with a variation that it got: 1 s to 7 days.
    pub sticky_for: Duration,
    /// For one call, with its repeats.
    pub time_limit: Duration,
    /// What is ours of it on this machine; no other router has this folder.
    pub folder: PathBuf,
}

/// Leads a load balancer.
pub struct AwsAlb {
    settings: Settings,
    api: Api,
    leadership: Leadership,
    /// What was found of it; it is asked for anew once its listeners can't be had.
    load_balancer: Mutex<Option<LoadBalancer>>,
}

impl fmt::Debug for AwsAlb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsAlb").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A rule of ours, or one in the range of ours.
#[derive(Debug, Clone)]
struct SeenRule {
    listener: usize,
    rule: Rule,
    /// Its tags, where they say that it is ours.
    tags: Option<Tags>,
    /// None: its tags say nothing that can be read.
    marks: Option<Marks>,
}

/// What is there.
#[derive(Debug)]
struct Seen {
    load_balancer: LoadBalancer,
    listeners: Vec<Listener>,
    /// Those in the range of ours.
    rules: Vec<SeenRule>,
    /// All priorities of others, by the listener.
    taken: BTreeMap<usize, BTreeSet<u16>>,
}

/// A rule that is to be there.
struct WantedRule {
    listener: usize,
    there: Option<SeenRule>,
    marks: Marks,
    text: RuleText,
}

/// Where rules are to stand.
#[derive(Default)]
struct Places {
    /// Of each that is wanted.
    wanted: Vec<u16>,
    /// By the listener, rules that are there with where they come.
    moved: BTreeMap<usize, Vec<(String, u16)>>,
}

/// A variation's group, as it has to be.
struct WantedGroup {
    name: String,
    tags: Tags,
    is_ipv6: bool,
    checks: Checks,
    targets: BTreeSet<(String, u16)>,
}

impl From<Unable> for RouterError {
    fn from(unable: Unable) -> Self {
        Self::Unable { router: NAME, what: unable.to_string() }
    }
}

impl AwsAlb {
    /// Nothing is called yet.
    ///
    /// # Errors
    ///
    /// The folder can't be made.
    pub fn open(settings: Settings) -> Result<Self, RouterError> {
        let api = Api::new(settings.region.clone(), settings.endpoint.clone(), settings.time_limit);
        let leadership = Leadership::open(settings.folder.clone(), Disk::default())?;
        Ok(Self { settings, api, leadership, load_balancer: Mutex::default() })
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// The load balancer, and its listeners.
    pub(super) async fn listeners(&self) -> Result<(LoadBalancer, Vec<Listener>), RouterError> {
        let mut found = self.load_balancer.lock().await;
        let known = match found.take() {
            Some(known) => known,
            None => self.api.load_balancer(&self.settings.load_balancer).await?,
        };
        let listeners = self.api.listeners(&known.arn).await?;
        *found = Some(known.clone());
        Ok((known, listeners))
    }

    /// Whose rules and groups are ours, where several agents lead some of one load balancer.
    fn mark(&self, load_balancer: &LoadBalancer) -> String {
        let (_, short) = load_balancer.arn.split_once(":loadbalancer/").unwrap_or(("", &load_balancer.arn));
        let (first, last) = self.settings.priorities;
        format!("{short} {first}-{last}")
    }

    async fn look(&self) -> Result<Seen, RouterError> {
        let (load_balancer, listeners) = self.listeners().await?;
        let (first, last) = self.settings.priorities;
        let mut rules = Vec::new();
        for (listener, one) in listeners.iter().enumerate() {
            let all = self.api.rules(one).await?;
            let own = all.into_iter().filter(|rule| (first..=last).contains(&rule.priority));
            rules.extend(own.map(|rule| SeenRule { listener, rule, tags: None, marks: None }));
        }
        let arns: Vec<String> = rules.iter().map(|one| one.rule.arn.clone()).collect();
        let mut tags = self.api.tags(&arns).await?;
        let mark = self.mark(&load_balancer);
        // Another agent's rules are others' as well, where its range overlaps.
        let is_ours = |tags: &Tags| {
            tags.contains_key(rule::SERVICE) && tags.get(rule::ROUTER).is_none_or(|router| *router == mark)
        };
        let mut taken = BTreeMap::<usize, BTreeSet<u16>>::new();
        for one in &mut rules {
            one.tags = tags.remove(&one.rule.arn).filter(is_ours);
            one.marks = one.tags.as_ref().and_then(Marks::read);
            if one.tags.is_none() {
                taken.entry(one.listener).or_default().insert(one.rule.priority);
            }
        }
        rules.retain(|one| one.tags.is_some());
        Ok(Seen { load_balancer, listeners, rules, taken })
    }

    async fn apply_now(&self, wanted: &DesiredConfig) -> Result<Applied, RouterError> {
        let _leader = self.leadership.lead().await?;
        let asked = wanted.number;
        self.leadership.lead_by(asked)?;
        let seen = self.look().await?;
        let newest = seen.rules.iter().filter_map(|one| Some(one.marks.as_ref()?.number)).max();
        if let Some(newest) = newest.filter(|newest| *newest > asked) {
            return Err(RouterError::Older { asked, newest });
        }
        let shapes = self.shapes(wanted, &seen)?;
        wanted.routes().values().try_for_each(|routes| rule::check_cookies(routes))?;
        let groups = self.wanted_groups(wanted, &seen.load_balancer)?;
        let mut rules = rules(wanted, &shapes, &seen, &groups);
        // Before anything is changed: whether there is room for all of it.
        self.places(&rules, &seen)?;

        let there = self.own_groups(&seen.load_balancer).await?;
        let mut arns = BTreeMap::new();
        let mut leaving = Vec::new();
        for group in groups.values().flatten() {
            let (arn, left) = self.put_group(group, &there, seen.load_balancer.vpc.as_deref()).await?;
            leaving.extend(left.map(|left| (arn.clone(), left)));
            arns.insert(group.name.clone(), arn);
        }
        for rule in &mut rules {
            rule.name_groups(&arns);
        }
        self.put_rules(rules, &seen).await?;
        for (group, targets) in leaving {
            self.api.deregister(&group, &targets).await?;
        }
        for (_, group) in there.iter().filter(|(name, _)| !arns.contains_key(*name)) {
            // One that somebody else uses stays, and is listed as left over.
            self.api.delete_group(&group.arn).await?;
        }
        Ok(Applied { number: asked, was_reloaded: false })
    }

    /// What is to be said of each service, each of whose ports has its listener.
    fn shapes<'w>(&self, wanted: &'w DesiredConfig, seen: &Seen) -> Result<BTreeMap<&'w str, Shape>, Unable> {
        let sticky_for = self.settings.sticky_for.as_secs() as u32;
        let shape = |service: &'w Service| {
            let shape = Shape::of(service, sticky_for)?;
            for listen in &service.listens {
                let name = || service.name.to_string();
                let found = seen.listeners.iter().find(|one| one.port == listen.port);
                let found = found.ok_or_else(|| Unable::NoListener { service: name(), port: listen.port })?;
                let wanted = listen.protocol.name();
                if found.protocol != wanted {
                    let has = found.protocol.clone();
                    return Err(Unable::Listener { service: name(), port: listen.port, has, wanted });
                }
            }
            Ok((service.name.as_str(), shape))
        };
        wanted.services().iter().map(shape).collect()
    }

    /// By the service's name, one a variation.
    fn wanted_groups(
        &self,
        wanted: &DesiredConfig,
        load_balancer: &LoadBalancer,
    ) -> Result<BTreeMap<String, Vec<WantedGroup>>, Unable> {
        let mark = self.mark(load_balancer);
        let of = |service: &Service| {
            let groups = service.variations.iter().map(|one| group(&mark, service, one));
            Ok((service.name.to_string(), groups.collect::<Result<_, _>>()?))
        };
        wanted.services().iter().map(of).collect()
    }

    /// Groups of ours, by their names.
    async fn own_groups(&self, load_balancer: &LoadBalancer) -> Result<BTreeMap<String, Group>, RouterError> {
        let mark = self.mark(load_balancer);
        let mut all = self.api.groups().await?;
        all.retain(|group| group.name.starts_with(GROUP_PREFIX));
        let arns: Vec<String> = all.iter().map(|group| group.arn.clone()).collect();
        let tags = self.api.tags(&arns).await?;
        let is_ours =
            |group: &Group| tags.get(&group.arn).and_then(|tags| tags.get(rule::ROUTER)) == Some(&mark);
        Ok(all.into_iter().filter(is_ours).map(|group| (group.name.clone(), group)).collect())
    }

    /// Has a group with these targets, among others. Gives its ARN, and the others that it has.
    async fn put_group(
        &self,
        wanted: &WantedGroup,
        there: &BTreeMap<String, Group>,
        vpc: Option<&str>,
    ) -> Result<(String, Option<BTreeSet<(String, u16)>>), RouterError> {
        let (arn, has) = if let Some(group) = there.get(&wanted.name) {
            if group.checks != wanted.checks {
                self.api.check_group(&group.arn, &wanted.checks).await?;
            }
            (group.arn.clone(), self.api.targets(&group.arn).await?.into_keys().collect())
        } else {
            let WantedGroup { name, tags, is_ipv6, checks, .. } = wanted;
            (self.api.create_group(name, vpc, *is_ipv6, checks, tags).await?, BTreeSet::new())
        };
        let missing: BTreeSet<_> = wanted.targets.difference(&has).cloned().collect();
        if !missing.is_empty() {
            self.api.register(&arn, &missing).await?;
        }
        let others: BTreeSet<_> = has.difference(&wanted.targets).cloned().collect();
        Ok((arn, Some(others).filter(|others| !others.is_empty())))
    }

    /// The priority of each rule, and which rules that are there have to be moved for that.
    fn places(&self, rules: &[WantedRule], seen: &Seen) -> Result<Places, Unable> {
        let mut places = Places::default();
        let (first, last) = self.settings.priorities;
        for (listener, one) in seen.listeners.iter().enumerate() {
            let here: Vec<Option<&SeenRule>> = rules
                .iter()
                .filter(|rule| rule.listener == listener)
                .map(|rule| rule.there.as_ref())
                .collect();
            let mut going: Vec<&SeenRule> =
                seen.going(rules).into_iter().filter(|one| one.listener == listener).collect();
            let mut taken = seen.taken.get(&listener).cloned().unwrap_or_default();
            // Those that go keep their order among those that stay.
            let with_going = in_order(&here, going.clone());
            let place = |order: &[(Option<&SeenRule>, bool)], taken: &BTreeSet<u16>| {
                let there: Vec<Option<u16>> =
                    order.iter().map(|(there, _)| Some(there.as_ref()?.rule.priority)).collect();
                priorities(&there, taken, (first, last))
            };
            let found = place(&with_going, &taken).map(|found| (with_going, found)).or_else(|| {
                // There is no room for that.
                taken.extend(going.drain(..).map(|one| one.rule.priority));
                let order = in_order(&here, Vec::new());
                place(&order, &taken).map(|found| (order, found))
            });
            let (order, found) = found.ok_or(Unable::Priorities { port: one.port, first, last })?;
            for ((there, is_wanted), place) in order.into_iter().zip(found) {
                if let Some(there) = there.filter(|there| there.rule.priority != place) {
                    places.moved.entry(listener).or_default().push((there.rule.arn.clone(), place));
                }
                places.wanted.extend(is_wanted.then_some(place));
            }
        }
        Ok(places)
    }

    async fn put_rules(&self, rules: Vec<WantedRule>, seen: &Seen) -> Result<(), RouterError> {
        let places = self.places(&rules, seen)?;
        let going: Vec<String> = seen.going(&rules).iter().map(|one| one.rule.arn.clone()).collect();
        for moves in places.moved.values() {
            self.api.move_rules(moves).await?;
        }
        let (there, new): (Vec<_>, Vec<_>) =
            rules.into_iter().zip(places.wanted).partition(|(rule, _)| rule.there.is_some());
        // Those with shares first: a variation that is to get no calls any more loses the many before the few who ask for it.
        let (shares, others): (Vec<_>, Vec<_>) =
            there.into_iter().partition(|(rule, _)| rule.marks.role == Role::Shares);
        for (rule, place) in shares.into_iter().chain(others).chain(new) {
            let marks = Marks { digest: digest(place, &rule.text), ..rule.marks };
            let tags = self.with_mark(&seen.load_balancer, marks.tags());
            let Some(there) = rule.there else {
                let listener = &seen.listeners[rule.listener].arn;
                self.api.create_rule(listener, place, &rule.text, &tags).await?;
                continue;
            };
            if there.rule.text != rule.text {
                self.api.modify_rule(&there.rule.arn, &rule.text).await?;
            }
            let has = there.tags.unwrap_or_default();
            if tags.iter().any(|(key, value)| has.get(key) != Some(value)) {
                self.api.tag(&there.rule.arn, &tags).await?;
            }
        }
        for gone in going.iter().rev() {
            self.api.delete_rule(gone).await?;
        }
        Ok(())
    }

    fn with_mark(&self, load_balancer: &LoadBalancer, mut tags: Tags) -> Tags {
        tags.insert(rule::ROUTER.to_owned(), self.mark(load_balancer));
        tags
    }

    async fn read_now(&self) -> Result<ObservedConfig, RouterError> {
        let seen = self.look().await?;
        let mut targets = BTreeMap::new();
        for (_, _, group) in seen.marks().flat_map(|(_, marks)| &marks.variations) {
            if !targets.contains_key(group) {
                targets.insert(group.clone(), self.api.targets(group).await?);
            }
        }
        Ok(seen.observed(&targets))
    }

    async fn check_now(&self, config: Option<&Path>) -> Result<Checked, RouterError> {
        if config.is_some() {
            let what = "it has no configuration in a file".to_owned();
            return Err(RouterError::Unable { router: NAME, what });
        }
        let seen = self.look().await?;
        let mut left_over = seen.observed(&BTreeMap::new()).left_over;
        let used: BTreeSet<&String> =
            seen.marks().flat_map(|(_, marks)| &marks.variations).map(|(_, _, group)| group).collect();
        let groups = self.own_groups(&seen.load_balancer).await?;
        left_over.extend(groups.into_values().map(|group| group.arn).filter(|arn| !used.contains(arn)));
        Ok(Checked { refused: None, left_over, warnings: Vec::new() })
    }
}

impl WantedRule {
    /// Groups were called by their names while they weren't there yet.
    fn name_groups(&mut self, arns: &BTreeMap<String, String>) {
        let arn = |name: &String| arns.get(name).unwrap_or(name).clone();
        for (_, _, group) in &mut self.marks.variations {
            *group = arn(group);
        }
        let groups = std::mem::take(&mut self.text.forward.groups);
        self.text.forward.groups = groups.iter().map(|(name, weight)| (arn(name), *weight)).collect();
    }
}

/// Rules of one listener, each with whether it is wanted: those that go stand before the first that stays after them.
fn in_order<'s>(
    wanted: &[Option<&'s SeenRule>],
    mut going: Vec<&'s SeenRule>,
) -> Vec<(Option<&'s SeenRule>, bool)> {
    going.reverse();
    let mut all = Vec::new();
    for there in wanted {
        while let Some(before) =
            going.pop_if(|one| there.is_some_and(|there| one.rule.priority < there.rule.priority))
        {
            all.push((Some(before), false));
        }
        all.push((*there, true));
    }
    all.extend(going.into_iter().rev().map(|one| (Some(one), false)));
    all
}

/// All rules, by listeners, in the order in which they are to be asked there. Groups are called by their names.
fn rules(
    wanted: &DesiredConfig,
    shapes: &BTreeMap<&str, Shape>,
    seen: &Seen,
    groups: &BTreeMap<String, Vec<WantedGroup>>,
) -> Vec<WantedRule> {
    let mut all = Vec::new();
    for (listener, of) in seen.listeners.iter().enumerate() {
        let mut known: Vec<&Listen> = Vec::new();
        let here = wanted.routes().into_iter().filter(|(socket, _)| socket.port == of.port);
        for Route { listen, service, .. } in here.flat_map(|(_, routes)| routes) {
            // Once for all of its hosts: they are told apart from others by the same.
            if known.iter().any(|one| std::ptr::eq(*one, listen)) {
                continue;
            }
            known.push(listen);
            let name = service.name.as_str();
            let names: Vec<String> =
                groups.get(name).into_iter().flatten().map(|group| group.name.clone()).collect();
            let variations = service.variations.iter().zip(service.table.hundredths()).zip(&names);
            let variations: Vec<_> = variations
                .map(|((one, share), group)| (one.name.to_string(), share, group.clone()))
                .collect();
            for (calls, role, text) in shapes[name].rules(listen, &names) {
                let variations = if role == Role::Shares { variations.clone() } else { Vec::new() };
                let (service, number) = (name.to_owned(), wanted.number);
                let (digest, rules) = (String::new(), 0);
                let marks = Marks { service, calls, role, number, digest, variations, rules };
                let there = seen.rules.iter().find(|one| {
                    let is_it = |has: &Marks| {
                        (&has.service, &has.calls, has.role) == (&marks.service, &marks.calls, marks.role)
                    };
                    one.listener == listener && one.marks.as_ref().is_some_and(is_it)
                });
                all.push(WantedRule { listener, there: there.cloned(), marks, text });
            }
        }
    }
    let mut counts = BTreeMap::<String, usize>::new();
    for rule in &all {
        *counts.entry(rule.marks.service.clone()).or_default() += 1;
    }
    for rule in all.iter_mut().filter(|rule| rule.marks.role == Role::Shares) {
        rule.marks.rules = counts[&rule.marks.service];
    }
    all
}

/// The targets of a variation as a group of ours.
fn group(mark: &str, service: &Service, variation: &Variation) -> Result<WantedGroup, Unable> {
    let fault = |why: String| Unable::Targets {
        service: service.name.to_string(),
        variation: variation.name.to_string(),
        why,
    };
    let mut targets = BTreeSet::new();
    let mut families = BTreeSet::new();
    for target in &variation.targets {
        match &target.host {
            Host::Address(address) => {
                families.insert(address.is_ipv6());
                targets.insert((address.to_string(), target.port));
            }
            Host::Name(name) => {
                return Err(fault(format!("a target group has addresses, and not the name {name}")));
            }
        }
    }
    if families.len() > 1 {
        return Err(fault("a target group has addresses of IPv4 or of IPv6, and not of both".to_owned()));
    }
    let is_ipv6 = families.contains(&true);
    let tags = [
        (rule::SERVICE, service.name.to_string()),
        (rule::VARIATION, variation.name.to_string()),
        (rule::ROUTER, mark.to_owned()),
    ];
    Ok(WantedGroup {
        name: group_name(mark, service.name.as_str(), variation.name.as_str(), is_ipv6),
        tags: tags.map(|(key, value)| (key.to_owned(), value)).into(),
        is_ipv6,
        checks: checks(variation.health.as_ref()),
        targets,
    })
}

/// The nearest checks that AWS has. Without checks of the variation's, anything but an error is an answer.
fn checks(health: Option<&Health>) -> Checks {
    let within = |value: u64, first: u64, last: u64| value.clamp(first, last) as i32;
    let usual =
        Health { interval: Duration::from_secs(10), timeout: Duration::from_secs(5), ..Health::default() };
    let of = health.unwrap_or(&usual);
    let seconds = |time: Duration| time.as_millis().div_ceil(1000) as u64;
    let timeout_s = within(seconds(of.timeout), 2, 60);
    Checks {
        path: of.path.as_deref().unwrap_or("/").to_owned(),
        good: if of.path.is_some() { "200-399" } else { "200-499" }.to_owned(),
        // Longer than a check may take.
        interval_s: within(seconds(of.interval), 5, 300).max(timeout_s + 1),
        timeout_s,
        healthy_after: within(of.healthy_after.into(), 2, 10),
        unhealthy_after: within(of.unhealthy_after.into(), 2, 10),
    }
}

impl Seen {
    fn marks(&self) -> impl Iterator<Item = (&SeenRule, &Marks)> {
        self.rules.iter().filter_map(|one| Some((one, one.marks.as_ref()?)))
    }

    /// Rules that are wanted no more, in the order in which they are asked.
    fn going(&self, wanted: &[WantedRule]) -> Vec<&SeenRule> {
        let stay: BTreeSet<&String> =
            wanted.iter().filter_map(|rule| Some(&rule.there.as_ref()?.rule.arn)).collect();
        let mut going: Vec<&SeenRule> =
            self.rules.iter().filter(|one| !stay.contains(&one.rule.arn)).collect();
        going.sort_by_key(|one| (one.listener, one.rule.priority));
        going
    }

    /// `targets`: of each group.
    fn observed(&self, targets: &BTreeMap<String, Registered>) -> ObservedConfig {
        let mut services = BTreeMap::<String, (SeenService, &Forward)>::new();
        let mut numbers = BTreeSet::<Option<Number>>::new();
        let mut rules = BTreeMap::<&str, usize>::new();
        for (_, marks) in self.marks() {
            *rules.entry(&marks.service).or_default() += 1;
        }
        for (one, marks) in self.marks().filter(|(_, marks)| marks.role == Role::Shares) {
            let forward = &one.rule.text.forward;
            let shares = marks.shares(forward).into_iter();
            let variations = marks.variations.iter().zip(shares).map(|((name, _, group), hundredths)| {
                let targets = targets.get(group).into_iter().flatten();
                let targets = targets.filter_map(|((id, port), is_healthy)| {
                    let host = id.parse().ok()?;
                    let target = Target { host, port: *port };
                    Some(SeenTarget { target, is_healthy: *is_healthy, connections: None })
                });
                SeenVariation { name: name.clone(), hundredths, targets: targets.collect() }
            });
            let service = SeenService { variations: variations.collect(), table: None };
            let (first, of_first) =
                services.entry(marks.service.clone()).or_insert_with(|| (service.clone(), forward));
            // One that lacks a rule, or whose ports differ, stands by no wanted state.
            let is_whole = rules.get(&*marks.service) == Some(&marks.rules);
            if !is_whole || *first != service || *of_first != forward {
                numbers.insert(None);
            }
        }
        let mut left_over = Vec::new();
        for one in &self.rules {
            let Some(marks) = one.marks.as_ref().filter(|marks| services.contains_key(&marks.service)) else {
                left_over.push(one.rule.arn.clone());
                continue;
            };
            let is_as_told = digest(one.rule.priority, &one.rule.text) == marks.digest;
            numbers.insert(Some(marks.number).filter(|_| is_as_told));
        }
        let number = if numbers.len() == 1 { numbers.pop_first().flatten() } else { None };
        let services = services.into_iter().map(|(name, (service, _))| (name, service)).collect();
        ObservedConfig { number, services, left_over }
    }
}

impl Operations for AwsAlb {
    fn kind(&self) -> RouterKind {
        RouterKind::AwsAlb
    }

    fn check<'a>(&'a self, config: Option<&'a Path>) -> Answer<'a, Checked> {
        Box::pin(self.check_now(config))
    }

    fn reload(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let what = "it has nothing to load: it goes by its rules as they are changed".to_owned();
            Err(RouterError::Unable { router: NAME, what })
        })
    }

    fn adopt<'a>(&'a self, service: &'a str) -> Answer<'a, String> {
        Box::pin(self.adopt_now(service))
    }
}

impl Router for AwsAlb {
    fn apply<'a>(&'a self, wanted: &'a DesiredConfig) -> Answer<'a, Applied> {
        Box::pin(self.apply_now(wanted))
    }

    fn read(&self) -> Answer<'_, ObservedConfig> {
        Box::pin(self.read_now())
    }

    /// It counts connections of the whole load balancer alone.
    fn connections<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, Option<u64>> {
        Box::pin(async { Ok(None) })
    }
}
