//! What all routers of a service do together.

use std::collections::{BTreeMap, BTreeSet};

use super::Service;

/// A variation, over all routers that lead it. Shares are in units of 0.01 %.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sum {
    pub variation: String,
    /// Routers that lead it.
    pub routers: u32,
    /// The lowest and the highest that is wanted of a router.
    pub wanted: (u16, u16),
    /// The lowest and the highest that was read back; none: of no router yet.
    pub seen: Option<(u16, u16)>,
    /// Routers where it was not read back, or has another share than wanted, or some calls don't come.
    pub unproven: u32,
    /// Of those the routers past which another program takes some of the calls.
    pub shared: u32,
    /// Under the shares that are in force at each.
    pub calls: u64,
    pub errors: u64,
    /// Of the targets, how many the router sees healthy that sees fewest; none: there are some that no router looks at.
    pub healthy: Option<u32>,
    /// Each once, however many routers send calls there.
    pub targets: u32,
    /// Routers that drain it.
    pub draining: u32,
}

impl Sum {
    /// How many of the targets are healthy, in percent; none: nobody looks, or there are none.
    #[must_use]
    pub fn healthy_percent(&self) -> Option<f64> {
        let healthy = self.healthy.filter(|_| self.targets > 0)?;
        Some(f64::from(healthy) * 100.0 / f64::from(self.targets))
    }
}

/// The variations of a service over all its routers, in the order in which they are met.
pub fn sums<'a>(services: impl IntoIterator<Item = &'a Service>) -> Vec<Sum> {
    let mut sums: Vec<Sum> = Vec::new();
    let mut targets: BTreeMap<String, BTreeMap<Vec<&'a str>, Option<u32>>> = BTreeMap::new();
    for service in services {
        for (at, variation) in service.variations.iter().enumerate() {
            let place = sums.iter().position(|sum| sum.variation == variation.name);
            let place = place.unwrap_or_else(|| {
                let wanted = (variation.wanted, variation.wanted);
                sums.push(Sum { variation: variation.name.clone(), wanted, ..Sum::default() });
                sums.len() - 1
            });
            let sum = &mut sums[place];
            sum.routers += 1;
            sum.wanted = (sum.wanted.0.min(variation.wanted), sum.wanted.1.max(variation.wanted));
            if let Some(seen) = variation.seen {
                let (low, high) = sum.seen.unwrap_or((seen, seen));
                sum.seen = Some((low.min(seen), high.max(seen)));
            }
            sum.unproven += u32::from(service.is_shared() || variation.seen != Some(variation.wanted));
            sum.shared += u32::from(service.is_shared());
            sum.calls = sum.calls.saturating_add(variation.calls.unwrap_or_default());
            sum.errors = sum.errors.saturating_add(variation.errors.unwrap_or_default());
            sum.draining += u32::from(variation.draining.is_some());
            let led = service.led.variations.get(at);
            let mut named: Vec<&str> =
                led.into_iter().flat_map(|led| led.targets.iter().map(String::as_str)).collect();
            named.sort_unstable();
            let healthy = variation.targets.healthy;
            let of = targets.entry(variation.name.clone()).or_default();
            let least = of.entry(named).or_default();
            *least = (*least).into_iter().chain(healthy).min();
        }
    }
    for sum in &mut sums {
        let Some(of) = targets.get(&sum.variation) else { continue };
        let each: BTreeSet<&str> = of.keys().flatten().copied().collect();
        sum.targets = u32::try_from(each.len()).unwrap_or(u32::MAX);
        let healthy = of.values().try_fold(0_u32, |sum, healthy| Some(sum.saturating_add((*healthy)?)));
        sum.healthy = healthy.map(|healthy| healthy.min(sum.targets));
    }
    sums
}

/// The share of the calls that one of them had, in units of 0.01 %; none: there were no calls.
#[must_use]
pub fn measured(calls: u64, all: u64) -> Option<u16> {
    let share = (u128::from(calls) * 10_000 + u128::from(all) / 2).checked_div(u128::from(all))?;
    u16::try_from(share).ok()
}
