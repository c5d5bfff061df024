//! The stored forms of what is known of routers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{bad, form::Version, json, read};
use analysis::Histogram;
use domain::traffic::{
    Answer, BURST, Drift, Entry, Measured, Order, ProvenService, Router, Service, Share, Variation,
};
use model::{
    ChildKey, Now, ReleaseId, ReleaseKey,
    traffic::{DriftThen, LedForm, OpenPorts, OrderWhat, RouterPhase, TargetCount},
};
use store::{
    StoreError,
    rows::{LedServiceRow, RouterOrderRow, RouterRow, TrafficHistoryRow, WallMs},
};

/// A moment, as it is stored.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct NowForm {
    wall_ms: i64,
    served_ms: u64,
}

impl From<Now> for NowForm {
    fn from(now: Now) -> Self {
        let Now { wall_ms, served_ms } = now;
        Self { wall_ms, served_ms }
    }
}

impl From<NowForm> for Now {
    fn from(form: NowForm) -> Self {
        let NowForm { wall_ms, served_ms } = form;
        Self { wall_ms, served_ms }
    }
}

/// `routers.detail`.
#[derive(Debug, Serialize, Deserialize)]
struct RouterForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    repairs: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ports: Option<Vec<OpenPorts>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    takeover_trouble: Option<String>,
    untold: u32,
    since: NowForm,
    measured: NowForm,
    newest_drift: u64,
    drifts: u64,
}

/// `led_services.detail`.
#[derive(Debug, Serialize, Deserialize)]
struct ServiceForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    release: Option<(u32, String)>,
    variations: Vec<VariationForm>,
    led: Arc<LedForm>,
    seen_ms: Option<i64>,
    measured_ms: Option<u64>,
    since: NowForm,
    standing: Option<StandingForm>,
}

#[derive(Debug, Serialize, Deserialize)]
struct VariationForm {
    name: String,
    wanted: u16,
    seen: Option<u16>,
    healthy: Option<u32>,
    targets: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    draining: Option<DrainForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errors: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    histogram: Option<Arc<Histogram>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DrainForm {
    left: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StandingForm {
    epoch: u64,
    generation: u64,
    offer: Option<String>,
    release: Option<String>,
    shares: Vec<u16>,
    led: Arc<LedForm>,
    since: NowForm,
}

/// `router_orders.detail`.
#[derive(Debug, Serialize, Deserialize)]
struct OrderForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    service: Option<String>,
    config: Option<String>,
    by: String,
    at: NowForm,
    until_ms: u64,
    answer: Option<AnswerForm>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AnswerForm {
    ok: bool,
    text: String,
    left_over: Vec<String>,
    at: NowForm,
}

/// `traffic_history.detail`.
#[derive(Debug, Serialize, Deserialize)]
struct EntryForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    epoch: u64,
    generation: u64,
    offer: Option<String>,
    from: Vec<(String, u16)>,
    to: Vec<(String, u16)>,
    seen: Vec<(String, u16)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drift: Option<DriftForm>,
}

#[derive(Debug, Serialize, Deserialize)]
struct MeasuredForm {
    for_ms: u64,
    counts: Vec<(String, u64, u64)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DriftForm {
    service: Option<String>,
    wanted: String,
    seen: String,
    then: DriftThen,
}

/// The row of a router.
pub(crate) fn router_row(child: ChildKey, router: &Router, wall_ms: WallMs) -> Result<RouterRow, StoreError> {
    let form = RouterForm {
        version: Version::NOW,
        repairs: router.repairs,
        ports: router.ports.clone(),
        takeover_trouble: router.takeover_trouble.clone(),
        untold: router.untold,
        since: router.since.into(),
        measured: router.measured.into(),
        newest_drift: router.newest_drift,
        drifts: router.drifts,
    };
    Ok(RouterRow {
        child_key: child.0,
        kind: router.kind.clone(),
        version: router.version.clone(),
        phase: router.phase.name().to_owned(),
        reached: router.is_reached,
        trouble: router.trouble.clone(),
        updated_ms: wall_ms,
        detail: json(&form)?,
    })
}

/// A router without its services and orders.
pub(crate) fn router(row: RouterRow) -> Result<(ChildKey, Router), StoreError> {
    let key = row.child_key;
    let form: RouterForm = read("routers", key, "detail", &row.detail)?;
    let phase = RouterPhase::named(&row.phase)
        .ok_or_else(|| bad("routers", key, "phase", format!("{:?} is none", row.phase)))?;
    let measured = Now::from(form.measured);
    let router = Router {
        kind: row.kind,
        version: row.version,
        phase,
        trouble: row.trouble,
        is_reached: row.reached,
        repairs: form.repairs,
        ports: form.ports,
        takeover_trouble: form.takeover_trouble,
        untold: form.untold,
        since: form.since.into(),
        measured,
        services: Vec::new(),
        orders: Vec::new(),
        newest_drift: form.newest_drift,
        drifts: form.drifts,
        pace: (BURST, measured.served_ms),
    };
    Ok((ChildKey(key), router))
}

/// The row of a place, with the service that is there.
pub(crate) fn service_row(
    child: ChildKey,
    place: usize,
    service: Option<&Service>,
    wall_ms: WallMs,
) -> Result<LedServiceRow, StoreError> {
    let place = i16::try_from(place)
        .map_err(|_| StoreError::Refused(format!("place {place} of a service is too large")))?;
    let Some(service) = service else {
        let (service, detail) = (String::new(), "{}".to_owned());
        let (epoch, generation, offer, standing) = (0, 0, None, false);
        return Ok(LedServiceRow {
            child_key: child.0,
            place,
            service,
            epoch,
            generation,
            offer,
            standing,
            updated_ms: wall_ms,
            detail,
        });
    };
    let standing = service.standing.as_deref().map(|standing| StandingForm {
        epoch: standing.epoch,
        generation: standing.generation,
        offer: standing.offer.clone(),
        release: standing.release.as_ref().map(|id| id.as_str().to_owned()),
        shares: standing.shares.clone(),
        led: Arc::clone(&standing.led),
        since: standing.since.into(),
    });
    let variation = |one: &Variation| VariationForm {
        name: one.name.clone(),
        wanted: one.wanted,
        seen: one.seen,
        healthy: one.targets.healthy,
        targets: one.targets.total,
        draining: one.draining.map(|left| DrainForm { left }),
        calls: one.calls,
        errors: one.errors,
        histogram: one.histogram.clone(),
    };
    let form = ServiceForm {
        version: Version::NOW,
        release: service.release.as_ref().map(|(key, id)| (key.0, id.as_str().to_owned())),
        variations: service.variations.iter().map(variation).collect(),
        led: Arc::clone(&service.led),
        seen_ms: service.seen_ms,
        measured_ms: service.measured_ms,
        since: service.since.into(),
        standing,
    };
    Ok(LedServiceRow {
        child_key: child.0,
        place,
        service: service.name.clone(),
        epoch: service.epoch,
        generation: service.generation,
        offer: service.offer.clone(),
        standing: service.is_standing,
        updated_ms: wall_ms,
        detail: json(&form)?,
    })
}

/// A place, and the service that is there.
pub(crate) fn service(row: LedServiceRow) -> Result<(ChildKey, usize, Option<Service>), StoreError> {
    let key = || format!("({}, {})", row.child_key, row.place);
    let place = usize::try_from(row.place)
        .ok()
        .filter(|place| *place < domain::traffic::MAX_SERVICES)
        .ok_or_else(|| bad("led_services", key(), "place", "out of range"))?;
    if row.service.is_empty() {
        return Ok((ChildKey(row.child_key), place, None));
    }
    let form: ServiceForm = read("led_services", key(), "detail", &row.detail)?;
    let variation = |one: VariationForm| Variation {
        name: one.name,
        wanted: one.wanted,
        seen: one.seen,
        targets: TargetCount { healthy: one.healthy, total: one.targets },
        draining: one.draining.map(|drain| drain.left),
        calls: one.calls,
        errors: one.errors,
        histogram: one.histogram,
    };
    let standing = form.standing.map(|standing| {
        Arc::new(ProvenService {
            epoch: standing.epoch,
            generation: standing.generation,
            offer: standing.offer,
            release: standing.release.and_then(|id| ReleaseId::parse(&id).ok()),
            shares: standing.shares,
            led: if standing.led == form.led { Arc::clone(&form.led) } else { standing.led },
            since: standing.since.into(),
        })
    });
    let service = Service {
        name: row.service,
        epoch: row.epoch,
        generation: row.generation,
        offer: row.offer,
        release: form.release.and_then(|(key, id)| Some((ReleaseKey(key), ReleaseId::parse(&id).ok()?))),
        is_standing: row.standing,
        variations: form.variations.into_iter().map(variation).collect(),
        led: form.led,
        seen_ms: form.seen_ms,
        measured_ms: form.measured_ms,
        since: form.since.into(),
        standing,
    };
    Ok((ChildKey(row.child_key), place, Some(service)))
}

/// The row of an order.
pub(crate) fn order_row(child: ChildKey, place: usize, order: &Order) -> Result<RouterOrderRow, StoreError> {
    let place = i16::try_from(place)
        .map_err(|_| StoreError::Refused(format!("place {place} of an order is too large")))?;
    let answer = order.answer.as_ref().map(|answer| AnswerForm {
        ok: answer.is_ok,
        text: answer.text.clone(),
        left_over: answer.left_over.clone(),
        at: answer.at.into(),
    });
    let form = OrderForm {
        version: Version::NOW,
        service: order.service.clone(),
        config: order.config.clone(),
        by: order.by.clone(),
        at: order.at.into(),
        until_ms: order.until_ms,
        answer,
    };
    Ok(RouterOrderRow {
        child_key: child.0,
        place,
        number: order.number,
        what: order.what.name().to_owned(),
        at_ms: order.at.wall_ms,
        detail: json(&form)?,
    })
}

/// An order of a router.
pub(crate) fn order(row: &RouterOrderRow) -> Result<(ChildKey, Order), StoreError> {
    let key = || format!("({}, {})", row.child_key, row.place);
    let form: OrderForm = read("router_orders", key(), "detail", &row.detail)?;
    let what = OrderWhat::named(&row.what)
        .ok_or_else(|| bad("router_orders", key(), "what", format!("{:?} is none", row.what)))?;
    let answer = form.answer.map(|answer| Answer {
        is_ok: answer.ok,
        text: answer.text,
        left_over: answer.left_over,
        at: answer.at.into(),
    });
    let order = Order {
        number: row.number,
        what,
        service: form.service,
        config: form.config,
        by: form.by,
        at: form.at.into(),
        until_ms: form.until_ms,
        answer,
    };
    Ok((ChildKey(row.child_key), order))
}

/// An entry of the history, as it is stored.
pub(crate) fn entry_text(entry: &Entry) -> Result<String, StoreError> {
    let shares = |all: &[Share]| all.iter().map(|one| (one.variation.clone(), one.hundredths)).collect();
    json(&EntryForm {
        version: Version::NOW,
        epoch: entry.epoch,
        generation: entry.generation,
        offer: entry.offer.clone(),
        from: shares(&entry.from),
        to: shares(&entry.to),
        seen: shares(&entry.seen),
        measured: entry
            .measured
            .as_ref()
            .map(|measured| MeasuredForm { for_ms: measured.for_ms, counts: measured.counts.clone() }),
        drift: entry.drift.as_ref().map(|drift| DriftForm {
            service: drift.service.clone(),
            wanted: drift.wanted.clone(),
            seen: drift.seen.clone(),
            then: drift.then,
        }),
    })
}

/// An entry of the history.
pub fn entry(row: &TrafficHistoryRow) -> Result<Entry, StoreError> {
    let key = format!("({}, {})", row.seq, row.idx);
    let form: EntryForm = read("traffic_history", key, "detail", &row.detail)?;
    let shares = |all: Vec<(String, u16)>| {
        all.into_iter().map(|(variation, hundredths)| Share { variation, hundredths }).collect()
    };
    Ok(Entry {
        at_ms: row.at_ms,
        router: row.router.clone(),
        service: row.service.clone(),
        epoch: form.epoch,
        generation: form.generation,
        offer: form.offer,
        from: shares(form.from),
        to: shares(form.to),
        seen: shares(form.seen),
        measured: form.measured.map(|one| Measured { for_ms: one.for_ms, counts: one.counts }),
        drift: form.drift.map(|drift| Drift {
            service: drift.service,
            wanted: drift.wanted,
            seen: drift.seen,
            then: drift.then,
        }),
    })
}
