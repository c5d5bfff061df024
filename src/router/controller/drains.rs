//! Variations that have no share any more are waited for until nobody is connected to them.

use traffic::{desired::DesiredConfig, observed::ObservedConfig};

use super::{Act, RouterEvent, StateMachine, Trouble};

/// How often connections are counted.
const COUNT_EVERY_MS: u64 = 500;

/// The most drains at a time.
const MAX_DRAINS: usize = 10_000;

/// By service and variation.
pub type Key = (String, String);

#[derive(Debug, Clone, Copy)]
pub struct Drain {
    pub within_ms: u64,
    /// Since when it was seen to have no share.
    pub since_ms: Option<u64>,
    /// Connections that it had when they were counted last; none: the router doesn't tell, or wasn't asked yet.
    pub left: Option<u64>,
    count_ms: u64,
}

/// Whether a share or a header leads to a variation.
fn has_calls(wanted: &DesiredConfig, (service, variation): &Key) -> bool {
    let Some(service) = wanted.service(service) else { return false };
    let is_asked = |which| service.rule.iter().flat_map(|rule| &rule.values).any(|(_, to)| *to == which);
    let mut variants = service.variants().filter(|one| one.variation.name.as_str() == variation);
    variants.any(|one| one.hundredths > 0 || is_asked(one.which))
}

impl StateMachine {
    pub(super) fn drain(&mut self, key: Key, within_ms: u64) {
        if self.drains.len() >= MAX_DRAINS && !self.drains.contains_key(&key) {
            return self.troubled(format!("more than {MAX_DRAINS} variations are to be drained at a time"));
        }
        let new = Drain { within_ms, since_ms: None, left: None, count_ms: 0 };
        self.drains.entry(key).and_modify(|drain| drain.within_ms = within_ms).or_insert(new);
    }

    /// Notes who has no share, by what was read and what was told.
    pub(super) fn note_drains(&mut self, seen: &ObservedConfig, now_ms: u64) {
        let keys: Vec<Key> = self.drains.keys().cloned().collect();
        for key in keys {
            let there = seen.services.get(&key.0).into_iter().flat_map(|service| &service.variations);
            let has_share = there.filter(|there| there.name == key.1).any(|there| there.hundredths > 0);
            let is_told = self.told.as_ref().map(|told| has_calls(&told.effective.wanted, &key));
            let is_wanted = self.wanted.as_ref().is_some_and(|wanted| has_calls(wanted, &key));
            let Some(drain) = self.drains.get_mut(&key) else { continue };
            match (has_share || is_wanted, is_told) {
                (true, _) | (false, Some(true)) => (drain.since_ms, drain.left) = (None, None),
                (false, Some(false)) if drain.since_ms.is_none() => {
                    (drain.since_ms, drain.count_ms) = (Some(now_ms), now_ms);
                }
                // While something else is being told, it stays as it was.
                (false, Some(false) | None) => {}
            }
        }
    }

    /// Who is wanted to have calls again doesn't drain.
    pub(super) fn keep_from_draining(&mut self) {
        let Some(wanted) = &self.wanted else { return };
        for (key, drain) in &mut self.drains {
            if has_calls(wanted, key) {
                (drain.since_ms, drain.left) = (None, None);
            }
        }
    }

    pub(super) fn due_count(&self, now_ms: u64) -> Option<Act> {
        let due =
            self.drains.iter().filter(|(_, drain)| drain.since_ms.is_some() && drain.count_ms <= now_ms);
        let ((service, variation), _) = due.min_by_key(|(_, drain)| drain.count_ms)?;
        Some(Act::Connections { service: service.clone(), variation: variation.clone() })
    }

    pub(super) fn counted(&mut self, key: Key, counted: &Result<Option<u64>, Trouble>, now_ms: u64) {
        let Some(drain) = self.drains.get_mut(&key) else { return };
        drain.count_ms = now_ms + COUNT_EVERY_MS;
        if let Ok(left) = counted {
            drain.left = *left;
        }
        if *counted == Ok(Some(0)) && drain.since_ms.is_some() {
            self.drains.remove(&key);
            self.say_drained(key, Some(0));
        }
    }

    /// Ends those whose time is up.
    pub(super) fn end_drains(&mut self, now_ms: u64) {
        let is_over = |drain: &Drain| {
            drain.since_ms.is_some_and(|since| now_ms >= since.saturating_add(drain.within_ms))
        };
        while let Some((key, left)) =
            self.drains.iter().find(|(_, drain)| is_over(drain)).map(|(key, drain)| (key.clone(), drain.left))
        {
            self.drains.remove(&key);
            self.say_drained(key, left);
        }
    }

    /// The first time after now at which something is to be done about one.
    pub(super) fn next_drain_ms(&self, now_ms: u64) -> Option<u64> {
        let open = self.drains.values().filter_map(|drain| drain.since_ms.map(|since| (since, drain)));
        let times = open.flat_map(|(since, drain)| [drain.count_ms, since.saturating_add(drain.within_ms)]);
        times.filter(|at| *at > now_ms).min()
    }

    fn say_drained(&mut self, (service, variation): Key, left: Option<u64>) {
        self.say(RouterEvent::Drained { service, variation, left });
    }
}
