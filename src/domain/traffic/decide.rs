//! What is told of a router, and asked of it, becomes changes or a refusal.

use std::sync::Arc;

use super::{
    Answer, BURST, Change, Command, Drift, MAX_BYTES, MAX_ORDERS, MAX_ROUTERS, MAX_SERVICES,
    MEASURED_EVERY_MS, Order, OrderAsked, OrderState, ProvenService, Report, Router, RouterReport, Service,
    ToldDrift, compare,
};
use crate::release::{
    command::{Decision, Refusal, Reply},
    offer::OfferName,
    state::State,
};
use model::{ChildKey, Now, ReleaseId, ReleaseKey};

/// Decides a command.
pub fn decide(state: &State, command: &Command, now: Now) -> Decision {
    match command {
        Command::Report { child, report } => self::report(state, child, report, now).into(),
        Command::Order { child, asked } => order(state, child, asked, now).into(),
    }
}

/// A report that is being taken in.
struct Taking<'a> {
    state: &'a State,
    key: ChildKey,
    child: &'a str,
    now: Now,
    router: Router,
    /// Places that are to be written.
    services: Vec<usize>,
    orders: Vec<usize>,
    /// Of the history and the trail.
    news: Vec<Change>,
    is_changed: bool,
}

fn report(state: &State, child: &str, report: &Report, now: Now) -> Result<Decision, Refusal> {
    let key = state.children.key(child).ok_or_else(|| Refusal::UnknownChild(child.to_owned()))?;
    let record = state.children.get(key);
    let leads = record.and_then(|record| record.profile.as_deref());
    if leads.is_none_or(|profile| profile.capabilities.routers.is_empty()) {
        return Err(Refusal::LeadsNoRouter(child.to_owned()));
    }
    let before = state.traffic.get(key);
    if before.is_none() && state.traffic.len() >= MAX_ROUTERS {
        return Err(Refusal::Limit { what: "routers", limit: MAX_ROUTERS });
    }
    let router = before.map_or_else(|| Router::new(now), |router| Router::clone(router));
    let mut taking = Taking {
        state,
        key,
        child,
        now,
        router,
        services: Vec::new(),
        orders: Vec::new(),
        news: Vec::new(),
        is_changed: before.is_none(),
    };
    taking.router_itself(&report.told);
    taking.answers(report);
    taking.services(&report.services)?;
    for drift in &report.drifts {
        taking.drift(drift);
    }
    taking.decided(before.map_or(0, |router| router.bytes()))
}

impl Taking<'_> {
    fn router_itself(&mut self, told: &RouterReport) {
        let RouterReport {
            kind,
            version,
            phase,
            trouble,
            is_reached,
            repairs,
            ports,
            takeover_trouble,
            untold,
        } = told;
        let router = &mut self.router;
        let known = (&router.kind, &router.version, &router.ports, &router.takeover_trouble, router.untold);
        if known != (kind, version, ports, takeover_trouble, *untold) {
            router.kind.clone_from(kind);
            router.version.clone_from(version);
            router.ports.clone_from(ports);
            router.takeover_trouble.clone_from(takeover_trouble);
            router.untold = *untold;
            self.is_changed = true;
        }
        if (router.phase, router.is_reached, &router.trouble) != (*phase, *is_reached, trouble) {
            (router.phase, router.is_reached) = (*phase, *is_reached);
            router.trouble.clone_from(trouble);
            router.since = self.now;
            self.is_changed = true;
            let (child, phase, is_reached) = (self.key, *phase, *is_reached);
            self.news.push(Change::Stood { child, phase, is_reached, trouble: trouble.clone() });
        }
        if router.repairs != *repairs && self.may_measure() {
            self.router.repairs = *repairs;
            self.is_changed = true;
        }
    }

    /// Whether counts alone are worth to be kept again.
    fn may_measure(&self) -> bool {
        self.now.served_ms >= self.router.measured.served_ms.saturating_add(MEASURED_EVERY_MS)
    }

    fn answers(&mut self, report: &Report) {
        for told in &report.answers {
            let open = self.router.orders.iter().position(|order| {
                order.number == told.number && order.state(self.now.served_ms) == OrderState::Open
            });
            let Some(place) = open else { continue };
            let (is_ok, text, left_over) = (told.is_ok, told.text.clone(), told.left_over.clone());
            let mut order = Order::clone(&self.router.orders[place]);
            order.answer = Some(Answer { is_ok, text, left_over, at: self.now });
            let (child, number, what) = (self.key, order.number, order.what);
            self.news.push(Change::Answered { child, number, what, is_ok });
            self.router.orders[place] = Arc::new(order);
            self.orders.push(place);
        }
    }

    fn services(&mut self, told: &[Service]) -> Result<(), Refusal> {
        if told.len() > MAX_SERVICES {
            return Err(Refusal::Limit { what: "services of a router", limit: MAX_SERVICES });
        }
        for place in 0..self.router.services.len() {
            let gone = self.router.services[place].clone();
            let Some(gone) = gone.filter(|known| told.iter().all(|one| one.name != known.name)) else {
                continue;
            };
            let entry = compare::entry(self.child, Some(&gone), None, self.now.wall_ms);
            let release = gone.release.as_ref().map(|(key, _)| *key);
            self.news.push(Change::Shifted { child: self.key, release, entry: entry.into() });
            self.router.services[place] = None;
            self.services.push(place);
        }
        let may_measure = self.may_measure();
        let mut is_measured = false;
        for service in told {
            let before = self.router.service(&service.name).cloned();
            let is_news = before.as_ref().is_none_or(|before| !compare::is_same(before, service));
            let is_counted = may_measure
                && before.as_ref().is_some_and(|known| compare::is_counted_otherwise(known, service));
            if !is_news && !is_counted {
                continue;
            }
            is_measured |= is_counted;
            self.service(before.as_deref(), service, is_news);
        }
        if is_measured {
            self.router.measured = self.now;
        }
        Ok(())
    }

    fn service(&mut self, before: Option<&Service>, told: &Service, is_news: bool) {
        let found = told.offer.as_deref().and_then(|offer| release_of(self.state, offer));
        let release = found.as_ref().map(|(key, _)| *key);
        let since = if is_news { self.now } else { before.map_or(self.now, |before| before.since) };
        let mut now = Service { release: found, since, ..told.clone() };
        if let Some(before) = before.filter(|before| before.led == now.led) {
            now.led = Arc::clone(&before.led);
        }
        now.standing = standing(before, &now, self.now);
        self.health(before, &now);
        if before.is_none_or(|before| compare::is_shared_otherwise(before, &now)) {
            let entry = compare::entry(self.child, before, Some(&now), self.now.wall_ms);
            self.news.push(Change::Shifted { child: self.key, release, entry: entry.into() });
        }
        let free = || self.router.services.iter().position(Option::is_none);
        let place = self.router.place_of(&now.name).or_else(free).unwrap_or(self.router.services.len());
        if place == self.router.services.len() {
            self.router.services.push(None);
        }
        self.router.services[place] = Some(Arc::new(now));
        self.services.push(place);
    }

    /// Says which variations have no healthy target any more, or one again.
    fn health(&mut self, before: Option<&Service>, now: &Service) {
        for variation in &now.variations {
            let known =
                before.and_then(|one| one.variations.iter().find(|known| known.name == variation.name));
            let has_none = |of: &super::Variation| of.targets.healthy == Some(0) && of.targets.total > 0;
            let (is_down, was_down) = (has_none(variation), known.is_some_and(has_none));
            // Where nobody looks any more, nobody knows that there is one again.
            if is_down != was_down && variation.targets.healthy.is_some() {
                self.news.push(Change::Health {
                    child: self.key,
                    release: now.release.as_ref().map(|(key, _)| *key),
                    service: now.name.clone(),
                    variation: variation.name.clone(),
                    targets: variation.targets,
                });
            }
        }
    }

    fn drift(&mut self, told: &ToldDrift) {
        if told.number <= self.router.newest_drift {
            return;
        }
        self.router.newest_drift = told.number;
        self.router.drifts += 1;
        self.is_changed = true;
        let ToldDrift { service, wanted, seen, then, .. } = told;
        let drift =
            Drift { service: service.clone(), wanted: wanted.clone(), seen: seen.clone(), then: *then };
        let known = service.as_deref().and_then(|name| self.router.service(name));
        let mut entry =
            compare::entry(self.child, known.map(AsRef::as_ref), known.map(AsRef::as_ref), told.at_ms);
        entry.service = service.clone().unwrap_or_default();
        entry.drift = Some(drift.clone());
        let release = known.and_then(|known| known.release.as_ref()).map(|(key, _)| *key);
        let (child, drift) = (self.key, drift.into());
        self.news.push(Change::Drifted { child, release, drift, entry: entry.into() });
    }

    fn decided(mut self, bytes_before: usize) -> Result<Decision, Refusal> {
        if !self.is_changed && self.services.is_empty() && self.orders.is_empty() {
            return Ok(Decision::unchanged(Reply::Told { is_news: false }));
        }
        let is_news = !self.news.is_empty();
        if !self.router.take(self.news.len(), self.now.served_ms) {
            let limit = BURST as usize;
            return Err(Refusal::Limit { what: "changes of a router in a short time", limit });
        }
        let others = self.state.traffic.bytes().saturating_sub(bytes_before);
        if others.saturating_add(self.router.bytes()) > MAX_BYTES {
            return Err(Refusal::Limit { what: "bytes of all that is known of routers", limit: MAX_BYTES });
        }
        let (child, services, orders) = (self.key, self.services, self.orders);
        let told = Change::Told { child, router: Arc::new(self.router), services, orders };
        let changes = std::iter::once(told).chain(self.news).map(Into::into).collect();
        Ok(Decision::new(changes, Reply::Told { is_news }))
    }
}

/// What stands once this is so.
fn standing(before: Option<&Service>, now: &Service, at: Now) -> Option<Arc<ProvenService>> {
    let known = before.and_then(|before| before.standing.clone());
    if !now.is_standing || !now.is_proven() {
        return known;
    }
    let Service { epoch, generation, offer, led, .. } = now;
    let is_known = known.as_ref().is_some_and(|known| {
        (known.epoch, known.generation, &known.offer) == (*epoch, *generation, offer)
            && known.shares == now.wanted()
            && known.led == *led
    });
    if is_known {
        return known;
    }
    Some(Arc::new(ProvenService {
        epoch: *epoch,
        generation: *generation,
        offer: offer.clone(),
        release: now.release.as_ref().map(|(_, id)| id.clone()),
        shares: now.wanted(),
        led: Arc::clone(led),
        since: at,
    }))
}

/// The release, over or not, that an offer belongs to.
fn release_of(state: &State, offer: &str) -> Option<(ReleaseKey, ReleaseId)> {
    let mut candidates = OfferName::candidates(offer);
    candidates.find_map(|(id, _)| state.known.get_key_value(id)).map(|(id, known)| (known.key, id.clone()))
}

fn order(state: &State, child: &str, asked: &OrderAsked, now: Now) -> Result<Decision, Refusal> {
    let key = state.children.key(child).ok_or_else(|| Refusal::UnknownChild(child.to_owned()))?;
    let Some(router) = state.traffic.get(key) else {
        return Err(Refusal::LeadsNoRouter(child.to_owned()));
    };
    if let Some(service) = &asked.service
        && asked.what == model::traffic::OrderWhat::Retire
        && router.service(service).is_none()
    {
        return Err(Refusal::UnknownService { router: child.to_owned(), service: service.clone() });
    }
    let mut router = Router::clone(router);
    let OrderAsked { what, service, config, within_ms, by } = asked.clone();
    let number = state.traffic.next_order.max(now.served_ms);
    let until_ms = now.served_ms.saturating_add(within_ms);
    let order = Arc::new(Order { number, what, service, config, by, at: now, until_ms, answer: None });
    let is_over = |order: &Arc<Order>| order.state(now.served_ms) != OrderState::Open;
    let place = if router.orders.len() < MAX_ORDERS {
        router.orders.push(order);
        router.orders.len() - 1
    } else {
        let over = (0..MAX_ORDERS).filter(|place| is_over(&router.orders[*place]));
        let Some(oldest) = over.min_by_key(|place| router.orders[*place].number) else {
            return Err(Refusal::Limit { what: "orders to a router that wait", limit: MAX_ORDERS });
        };
        router.orders[oldest] = order;
        oldest
    };
    let change = Change::Ordered { child: key, router: Arc::new(router), place };
    Ok(Decision::new(vec![change.into()], Reply::Ordered { number }))
}
