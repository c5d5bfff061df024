//! A service whose calls are led, and what is told of it.

use std::{collections::BTreeMap, time::Duration};

use language::{ProxyProtocol, Service};
use serde::{Deserialize, Serialize};
use traffic::{
    BUCKETS, HashFunction, Run, Shares, Table, Variation,
    desired::{self, Name, ServiceError, ServiceSpec, WordError},
    murmur2,
};

use crate::runtime::VersionId;

/// A service whose calls are led.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedService {
    pub service: Service,
    /// The versions of those variations that a runtime starts here, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub started: BTreeMap<String, VersionId>,
    /// Which buckets each variation has: from, to before, variation.
    pub runs: Vec<(u16, u16, u8)>,
    /// What the keys of calls are hashed with.
    #[serde(default)]
    pub salt: String,
    /// What these shares are called in counts.
    #[serde(default)]
    pub split: String,
    /// A release is in hand.
    #[serde(default)]
    pub is_tried: bool,
    /// Who serves in the end is decided: callers who ask by a header get that too.
    #[serde(default)]
    pub(super) is_decided: bool,
    /// A stage of the release in hand asks how many targets are healthy.
    #[serde(default)]
    pub(super) asks_for_health: bool,
    /// The offer that shared it out last.
    #[serde(default)]
    pub offer: String,
    /// The last stage of that offer that was about it, once the offer is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The offer with which it came here, where nothing led it before and its rollback is to leave nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) came_with: Option<String>,
    /// What was led before the release in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Box<LedService>>,
}

/// What whatever splits the calls is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedService {
    pub service: desired::Service,
    /// Which calls are repeated, where whatever splits them can do that.
    pub retry: Option<language::Retry>,
    /// Of which version a header says to targets who calls.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How long connections may stay with a variation that gets none any more.
    pub drain: Option<Duration>,
    /// What its shares are called in counts.
    pub split: String,
}

impl LedService {
    /// One that is served by its stable variation alone.
    pub(super) fn new(service: Service, offer: &str) -> Self {
        let runs = vec![(0, BUCKETS, Variation::STABLE.0)];
        let (salt, split) = (String::new(), String::new());
        Self {
            service,
            started: BTreeMap::new(),
            runs,
            salt,
            split,
            is_tried: false,
            is_decided: false,
            asks_for_health: false,
            offer: offer.to_owned(),
            stage: None,
            came_with: None,
            before: None,
        }
    }

    fn table(&self) -> Option<Table> {
        let runs = self.runs.iter();
        let runs: Vec<Run> = runs.map(|&(from, to, of)| Run { from, to, variation: Variation(of) }).collect();
        Table::from_runs(self.service.variations.len(), &runs).ok()
    }

    /// What each variation gets, in units of 0.01 %.
    #[must_use]
    pub fn shares(&self) -> Vec<u16> {
        let mut shares = vec![0_u16; self.service.variations.len()];
        for (from, to, of) in &self.runs {
            if let Some(share) = shares.get_mut(usize::from(*of)) {
                *share = share.saturating_add(to.saturating_sub(*from));
            }
        }
        shares
    }

    /// Moves the buckets that these shares move, and no others.
    pub(super) fn share_out(&mut self, shares: &[u16]) {
        let Ok(shares) = Shares::new(shares) else { return };
        let Some(table) = self.table().and_then(|table| table.with_shares(&shares).ok()) else { return };
        self.runs = table.runs().into_iter().map(|run| (run.from, run.to, run.variation.0)).collect();
    }

    pub(super) fn give_all_to(&mut self, variation: usize) {
        let mut shares = vec![0; self.service.variations.len()];
        if let Some(share) = shares.get_mut(variation) {
            *share = BUCKETS;
        }
        self.share_out(&shares);
    }

    /// Gives all calls back to the stable variation, if another one has taken over.
    pub(super) fn undo(&mut self) -> bool {
        let is_other = !self.is_tried && self.serving().is_some_and(|serving| serving != 0);
        if is_other {
            self.give_all_to(0);
        }
        is_other
    }

    /// The variation that serves alone, if one does.
    #[must_use]
    pub fn serving(&self) -> Option<usize> {
        self.shares().iter().position(|share| *share == BUCKETS)
    }

    /// The one that is to serve alone once a release has gone well: the one that was chosen, else of those beside the stable one that
    /// which has most.
    pub(super) fn winner(&self, chosen: Option<&str>) -> usize {
        let is_chosen = |one: &desired::Variation| chosen == Some(one.name.as_str());
        if let Some(chosen) = self.service.variations.iter().position(is_chosen) {
            return chosen;
        }
        let shares = self.shares();
        let beside = shares.iter().enumerate().skip(1).rev();
        beside.max_by_key(|(_, share)| **share).map_or(0, |(at, _)| at)
    }

    /// Whether targets are looked at also where nothing is said of that. Of UDP nobody could tell.
    fn looks_at_all(&self) -> bool {
        let is_udp = self.service.protocol().is_udp();
        self.is_tried && self.asks_for_health && !is_udp
    }

    /// What decides how it is told, without what it was before, and where it comes from.
    pub(super) fn bare(&self) -> Self {
        let started = BTreeMap::new();
        Self { offer: String::new(), stage: None, came_with: None, before: None, started, ..self.clone() }
    }

    /// As whatever splits calls, and knows these functions, is told.
    ///
    /// # Errors
    ///
    /// What doesn't fit together: nothing that a language refuses does.
    pub fn told(&self, hashes: &[HashFunction]) -> Result<ManagedService, ServiceError> {
        let service = &self.service;
        let serving = self.serving().filter(|_| !self.is_tried);
        let is_shown = |at: usize| serving.is_none_or(|serving| serving == at);
        let shown = service.variations.iter().enumerate().filter(|(at, _)| is_shown(*at));
        let mut variations: Vec<_> = shown.map(|(_, variation)| variation.clone()).collect();
        if self.looks_at_all() {
            // Nobody tells how many are healthy of targets that nobody looks at: of these a connection is asked.
            variations.iter_mut().skip(1).for_each(|variation| {
                variation.health.get_or_insert_default();
            });
        }
        let mut rule = service.rule.clone().filter(|_| serving.is_none());
        if let (Some(rule), Some(winner)) = (&mut rule, self.serving().filter(|_| self.is_decided)) {
            // The rule stays, since another one would be another structure: what it leads to changes with the shares.
            rule.values.iter_mut().for_each(|(_, to)| *to = Variation(winner as u8));
        }
        let alone =
            || Table::from_runs(1, &[Run { from: 0, to: BUCKETS, variation: Variation::STABLE }]).ok();
        let table = serving.map_or_else(|| self.table(), |_| alone());
        let spec = ServiceSpec {
            name: service.name().parse().map_err(|_| ServiceError::Unnamed)?,
            listens: service.ports.clone(),
            sticky: service.sticky.clone(),
            rule,
            salt: salt(if self.salt.is_empty() { service.name() } else { &self.salt })
                .map_err(|_| ServiceError::Unnamed)?,
            hash: HashFunction::chosen(hashes, service.hash).unwrap_or_default(),
            variations,
            table: table.ok_or(ServiceError::Unnamed)?,
        };
        Ok(ManagedService {
            service: desired::Service::new(spec)?,
            retry: service.retry,
            proxy_protocol: service.proxy_protocol,
            drain: service.drain,
            split: self.split.clone(),
        })
    }
}

/// What keys are hashed with, as a word that every router can write down.
fn salt(text: &str) -> Result<Name, WordError> {
    text.parse().or_else(|_| format!("s{:08x}", murmur2(text.as_bytes())).parse())
}
