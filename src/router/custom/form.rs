//! What is asked and answered, as it travels.

use std::collections::BTreeMap;

use model::traffic::LedForm;
use serde::{Deserialize, Serialize};

use crate::measure::{CounterKey, Counters, Counts};
use traffic::{
    MAX_VARIATIONS, Run, Table, Variation as Which,
    desired::{MAX_SERVICES, MAX_TARGETS, Name, Number, Service, Target},
    observed::{ObservedConfig, SeenService, SeenTarget, SeenVariation},
};

/// The most names that are listed as left over.
const LEFT_OVER: usize = 1_000;

/// The most calls of a variation that are believed: whole numbers above aren't the same in every language.
const MOST_CALLS: u64 = 1 << 53;

/// All shares of a service come to so much.
const WHOLE: u16 = traffic::BUCKETS;

/// What is asked.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Ask {
    Apply {
        #[serde(flatten)]
        number: NumberForm,
        services: Vec<ServiceForm>,
    },
    Read,
    Validate {
        #[serde(skip_serializing_if = "Option::is_none")]
        config: Option<String>,
    },
    Reload,
}

/// What goes with each.
#[derive(Debug, Serialize)]
pub(super) struct Signed<'a> {
    #[serde(flatten)]
    pub ask: &'a Ask,
    pub router: &'a str,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NumberForm {
    pub epoch: u64,
    pub generation: u64,
}

/// The answer to a state.
#[derive(Debug, Deserialize)]
pub(super) struct TakenForm {
    /// The greatest that was taken.
    #[serde(flatten)]
    pub number: NumberForm,
    #[serde(default)]
    pub reloaded: bool,
}

impl From<Number> for NumberForm {
    fn from(Number { epoch, generation }: Number) -> Self {
        Self { epoch, generation }
    }
}

impl From<NumberForm> for Number {
    fn from(NumberForm { epoch, generation }: NumberForm) -> Self {
        Self { epoch, generation }
    }
}

/// The whole of a service.
#[derive(Debug, Serialize)]
pub(super) struct ServiceForm {
    name: String,
    #[serde(flatten)]
    led: LedForm,
    /// Units of 0.01 %, in the order of the variations.
    shares: Vec<u16>,
    /// From, to, and whose.
    buckets: Vec<(u16, u16, u8)>,
}

impl From<&Service> for ServiceForm {
    fn from(service: &Service) -> Self {
        let runs = service.table.runs().into_iter();
        Self {
            name: service.name.to_string(),
            led: service.into(),
            shares: service.table.hundredths(),
            buckets: runs.map(|run| (run.from, run.to, run.variation.0)).collect(),
        }
    }
}

/// What a router says that it does.
#[derive(Debug, Deserialize)]
pub(super) struct SeenForm {
    #[serde(default)]
    epoch: Option<u64>,
    #[serde(default)]
    generation: Option<u64>,
    services: Vec<SeenServiceForm>,
    #[serde(default)]
    left_over: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct SeenServiceForm {
    name: Name,
    variations: Vec<SeenVariationForm>,
    shares: Vec<u16>,
    #[serde(default)]
    buckets: Option<Vec<(u16, u16, u8)>>,
}

#[derive(Debug, Deserialize)]
struct SeenVariationForm {
    name: Name,
    targets: Vec<Target>,
    #[serde(default)]
    connections: Option<u64>,
    /// Calls that have ended; of these the answers with a status from 400 to 499, and what failed.
    #[serde(default)]
    calls: Option<u64>,
    #[serde(default)]
    client_errors: u64,
    #[serde(default)]
    errors: u64,
}

/// What came of a check.
#[derive(Debug, Deserialize)]
pub(super) struct CheckedForm {
    #[serde(default)]
    pub refused: Option<String>,
    #[serde(default)]
    pub left_over: Vec<String>,
}

impl SeenForm {
    /// How many connections a variation has; none where that isn't told. One that isn't there has none left.
    pub(super) fn connections(&self, service: &str, variation: &str) -> Option<u64> {
        let found = self.services.iter().find(|one| one.name.as_str() == service);
        let found =
            found.and_then(|service| service.variations.iter().find(|one| one.name.as_str() == variation));
        found.map_or(Some(0), |found| found.connections)
    }

    /// What it has counted. An error says what contradicts itself.
    pub(super) fn counters(&self) -> Result<Counters, String> {
        let mut of = BTreeMap::new();
        for service in &self.services {
            for variation in &service.variations {
                let Some(calls) = variation.calls else {
                    let not =
                        format!("it tells no `calls` of variation {} of {}", variation.name, service.name);
                    return Ok(Counters::Not(not));
                };
                let SeenVariationForm { client_errors, errors, .. } = *variation;
                let succeeded = calls.checked_sub(client_errors).and_then(|calls| calls.checked_sub(errors));
                let Some(succeeded) = succeeded.filter(|_| calls <= MOST_CALLS) else {
                    return Err(format!(
                        "variation {} of {} has {calls} calls, {client_errors} client_errors and {errors} errors",
                        variation.name, service.name
                    ));
                };
                let (service, variation) = (service.name.to_string(), variation.name.to_string());
                let key = CounterKey { service, variation, by_header: false };
                of.insert(key, Counts { succeeded, client_errors, errors, ..Counts::default() });
            }
        }
        Ok(Counters::Counted { of, is_whole: false, life: 0 })
    }

    /// Whether it fits together. An error says what doesn't.
    pub(super) fn into_observed(self) -> Result<ObservedConfig, String> {
        let number = match (self.epoch, self.generation) {
            (Some(epoch), Some(generation)) => Some(Number { epoch, generation }),
            (None, None) => None,
            _ => return Err("it names one of epoch and generation without the other".to_owned()),
        };
        if self.services.len() > MAX_SERVICES {
            return Err(format!("{} services are more than {MAX_SERVICES}", self.services.len()));
        }
        if self.left_over.len() > LEFT_OVER {
            return Err(format!("it lists more than {LEFT_OVER} names as left over"));
        }
        let mut services = BTreeMap::new();
        for service in self.services {
            let name = service.name.to_string();
            let seen = service.into_seen().map_err(|why| format!("service {name}: {why}"))?;
            if services.insert(name.clone(), seen).is_some() {
                return Err(format!("service {name} is there twice"));
            }
        }
        Ok(ObservedConfig { number, services, left_over: self.left_over })
    }
}

impl SeenServiceForm {
    fn into_seen(self) -> Result<SeenService, String> {
        let count = self.variations.len();
        if count == 0 || count > MAX_VARIATIONS {
            return Err(format!("it has {count} variations: 1 to {MAX_VARIATIONS}"));
        }
        if self.shares.len() != count {
            return Err(format!("it has {count} variations and {} shares", self.shares.len()));
        }
        let whole: u64 = self.shares.iter().copied().map(u64::from).sum();
        if whole != u64::from(WHOLE) {
            return Err(format!("its shares come to {whole}, and not to {WHOLE}"));
        }
        let table = self.buckets.map(|runs| {
            let runs = runs.into_iter().map(|(from, to, of)| Run { from, to, variation: Which(of) });
            Table::from_runs(count, &runs.collect::<Vec<_>>()).map_err(|error| error.to_string())
        });
        let table = table.transpose()?;
        if table.as_ref().is_some_and(|table| table.hundredths() != self.shares) {
            return Err("its buckets say something else than its shares".to_owned());
        }
        let variations = self.variations.into_iter().zip(self.shares).map(|(variation, hundredths)| {
            let SeenVariationForm { name, targets, .. } = variation;
            if targets.len() > MAX_TARGETS {
                return Err(format!("variation {name} has more than {MAX_TARGETS} targets"));
            }
            let target = |target| SeenTarget { target, is_healthy: None, connections: None };
            let targets = targets.into_iter().map(target).collect();
            Ok(SeenVariation { name: name.to_string(), hundredths, targets })
        });
        Ok(SeenService { variations: variations.collect::<Result<_, _>>()?, table })
    }
}
