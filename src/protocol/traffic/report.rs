//! What an agent says of its router.

use std::{borrow::Cow, collections::BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    limits::{
        MAX_ANSWER_TEXT_BYTES, MAX_TOLD_ANSWERS, MAX_TOLD_DRIFTS, MAX_TOLD_NAME_BYTES, MAX_TOLD_OPEN_PORTS,
        MAX_TOLD_SERVICES, MAX_TOLD_TEXT_BYTES, MAX_TOLD_VARIATIONS, MAX_VERSION_BYTES,
    },
    service::check_led,
};
use crate::{
    HistogramForm, WireError, number,
    read::{at_most, read, within},
    text,
};
use model::{
    MAX_OFFER_ID_LEN,
    traffic::{DriftThen, LedForm, OpenPorts, RouterPhase, TargetCount, WHOLE},
};

/// Calls and errors are counted up to here: every number of them has a floating-point form of its own.
const MAX_COUNT: u64 = 1 << 53;

/// `POST /traffic`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrafficRequest<'a> {
    #[serde(borrow, deserialize_with = "text::child_id")]
    pub id: Cow<'a, str>,
    pub router: RouterReport,
    /// At most [`MAX_TOLD_SERVICES`], each name once. One that was told of and is missing here is no longer led.
    #[serde(default)]
    pub services: Vec<ServiceReport>,
    /// How many services more it leads than are told of here.
    #[serde(default, deserialize_with = "number::count", skip_serializing_if = "is_zero")]
    pub untold: u32,
    /// Those of which it isn't known yet that they are stored, in the order of their numbers; at most [`MAX_TOLD_DRIFTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drifts: Vec<DriftForm>,
    /// At most [`MAX_TOLD_ANSWERS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<OrderAnswer>,
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How a router is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterReport {
    /// `embedded`, `nginx`, `haproxy`, `webhook`, …: at most [`MAX_TOLD_NAME_BYTES`].
    pub kind: String,
    /// Of the router's program, as that says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub phase: RouterPhase,
    /// What stands in the way of what is wanted, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// It could be read when that was tried last.
    pub reached: bool,
    /// How many repairs it took within the last hour.
    #[serde(default, deserialize_with = "number::count", skip_serializing_if = "is_zero")]
    pub repairs: u32,
    /// The ports at which its services may be, at most [`MAX_TOLD_OPEN_PORTS`]; absent: any, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<OpenPorts>>,
    /// What keeps it from taking over calls at ports of other programs, though it is to, and what to do, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover_trouble: Option<String>,
}

/// A service of a router, as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceReport {
    pub name: String,
    /// Of the wanted state: (epoch, generation) only grow.
    #[serde(default, deserialize_with = "number::count")]
    pub epoch: u64,
    #[serde(default, deserialize_with = "number::count")]
    pub generation: u64,
    /// The offer that it came from last; absent: it stood before any release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<String>,
    /// No release is in hand: what is wanted was proven, and stays.
    #[serde(default)]
    pub standing: bool,
    /// How long ago, in milliseconds, `seen` was read back; absent: it never was.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub seen_ago_ms: Option<u64>,
    /// How long, in milliseconds, the shares have been in force since which calls are counted here; absent: they aren't counted.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub measured_ms: Option<u64>,
    /// In the order of `led.variations`, which have the same names; 1 to [`MAX_TOLD_VARIATIONS`].
    pub variations: Vec<VariationReport>,
    pub led: LedForm,
}

/// A variation, as it is now. Shares are in units of 0.01 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariationReport {
    pub name: String,
    /// All of a service come to [`WHOLE`].
    pub wanted: u16,
    /// As it was read back; absent: it was not read back yet, or isn't there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u16>,
    pub targets: TargetCount,
    /// Connections that are left while it is drained: absent where it isn't drained, -1 where the router doesn't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<i64>,
    /// Since these shares are in force. A call that was repeated elsewhere is an error here, and no call there.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// Times of the calls that succeeded, since these shares are in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<HistogramForm>,
}

/// A router did something else than it was seen to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftForm {
    /// Grows from drift to drift, also over restarts of the agent; the time in milliseconds since 1970 will do.
    #[serde(deserialize_with = "number::count")]
    pub number: u64,
    /// How long ago, in milliseconds.
    #[serde(default, deserialize_with = "number::count")]
    pub ago_ms: u64,
    /// Absent: it concerns the router as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Both values, a line each.
    pub wanted: String,
    pub seen: String,
    pub then: DriftThen,
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderAnswer {
    /// The order's.
    #[serde(deserialize_with = "number::count")]
    pub number: u64,
    /// It was carried out; for `check`, the router takes its configuration.
    pub ok: bool,
    /// What there is to say, in lines; at most [`MAX_ANSWER_TEXT_BYTES`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// For `check`: what is ours there and belongs to nothing that is wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_over: Vec<String>,
}

impl<'a> TrafficRequest<'a> {
    /// Reads and checks a body.
    ///
    /// # Errors
    ///
    /// What isn't as it is documented here; it names the field.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let request: Self = read(body)?;
        request.validate()?;
        Ok(request)
    }

    /// Checks numbers and limits; the refusal names the field.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`].
    pub fn validate(&self) -> Result<(), WireError> {
        let router = &self.router;
        is_name("router.kind", &router.kind)?;
        optional("router.version", router.version.as_deref(), MAX_VERSION_BYTES)?;
        optional("router.trouble", router.trouble.as_deref(), MAX_TOLD_TEXT_BYTES)?;
        optional("router.takeover_trouble", router.takeover_trouble.as_deref(), MAX_TOLD_TEXT_BYTES)?;
        let ports = router.ports.as_deref().unwrap_or_default();
        at_most("router.ports", ports.len(), MAX_TOLD_OPEN_PORTS)?;
        if ports.iter().any(|open| open.first == 0 || open.last < open.first) {
            return Err(WireError::new("`router.ports` has a range that begins at 0, or after its end"));
        }
        at_most("services", self.services.len(), MAX_TOLD_SERVICES)?;
        let mut names = BTreeSet::new();
        for service in &self.services {
            service.validate()?;
            if !names.insert(service.name.as_str()) {
                return Err(WireError::new(&format!("`services` has two of the name {}", service.name)));
            }
        }
        at_most("drifts", self.drifts.len(), MAX_TOLD_DRIFTS)?;
        for drift in &self.drifts {
            if drift.number > MAX_COUNT {
                return Err(WireError::new("`drifts.number` is too large"));
            }
            optional("drifts.service", drift.service.as_deref(), MAX_TOLD_NAME_BYTES)?;
            within("drifts.wanted", &drift.wanted, MAX_TOLD_TEXT_BYTES)?;
            within("drifts.seen", &drift.seen, MAX_TOLD_TEXT_BYTES)?;
        }
        at_most("answers", self.answers.len(), MAX_TOLD_ANSWERS)?;
        self.answers.iter().try_for_each(OrderAnswer::validate)
    }
}

impl OrderAnswer {
    fn validate(&self) -> Result<(), WireError> {
        if self.text.len() > MAX_ANSWER_TEXT_BYTES {
            return Err(WireError::new(&format!("`answers.text` has at most {MAX_ANSWER_TEXT_BYTES} bytes")));
        }
        self.text.split('\n').try_for_each(|line| within("answers.text", line, MAX_ANSWER_TEXT_BYTES))?;
        at_most("answers.left_over", self.left_over.len(), MAX_TOLD_SERVICES)?;
        self.left_over.iter().try_for_each(|what| within("answers.left_over", what, MAX_TOLD_TEXT_BYTES))
    }
}

impl ServiceReport {
    fn validate(&self) -> Result<(), WireError> {
        is_name("services.name", &self.name)?;
        if self.epoch > MAX_COUNT || self.generation > MAX_COUNT {
            return Err(WireError::new("`services.epoch` or `services.generation` is too large"));
        }
        optional("services.offer", self.offer.as_deref(), MAX_OFFER_ID_LEN)?;
        check_led(&self.led)?;
        let variations = &self.variations;
        at_most("services.variations", variations.len(), MAX_TOLD_VARIATIONS)?;
        let names = variations.iter().map(|one| &one.name);
        if variations.is_empty() || !names.eq(self.led.variations.iter().map(|one| &one.name)) {
            let text = format!(
                "`services.variations` of {} must name those of `led`, in their order, and at least one",
                self.name
            );
            return Err(WireError::new(&text));
        }
        if (1..variations.len()).any(|at| variations[..at].iter().any(|one| one.name == variations[at].name))
        {
            return Err(WireError::new(&format!("`services.variations` of {} has a name twice", self.name)));
        }
        variations.iter().try_for_each(VariationReport::validate)?;
        let wanted: u32 = variations.iter().map(|one| u32::from(one.wanted)).sum();
        if wanted != u32::from(WHOLE) {
            let text =
                format!("`services.variations.wanted` of {} come to {wanted}, not to {WHOLE}", self.name);
            return Err(WireError::new(&text));
        }
        Ok(())
    }
}

impl VariationReport {
    fn validate(&self) -> Result<(), WireError> {
        is_name("services.variations.name", &self.name)?;
        let fault = |what: &str| Err(WireError::new(&format!("`services.variations` {}: {what}", self.name)));
        if self.seen.is_some_and(|seen| seen > WHOLE) {
            return fault("`seen` is more than 10000");
        }
        if self.targets.healthy.is_some_and(|healthy| healthy > self.targets.total) {
            return fault("more targets are healthy than there are");
        }
        if self.draining.is_some_and(|left| left < -1) {
            return fault("`draining` is at least -1");
        }
        let (calls, errors) = (self.calls.unwrap_or_default(), self.errors.unwrap_or_default());
        if calls > MAX_COUNT || errors > calls {
            return fault("`errors` are more than `calls`, or these too many");
        }
        self.histogram
            .as_ref()
            .map_or(Ok(()), |histogram| histogram.validate("services.variations.histogram"))
    }
}

fn optional(field: &str, text: Option<&str>, most: usize) -> Result<(), WireError> {
    text.map_or(Ok(()), |text| within(field, text, most))
}

/// Names of services and variations are as the language has them: letters, digits and `. _ -`, of which the first is a letter or digit.
fn is_name(field: &str, name: &str) -> Result<(), WireError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if !begins || name.len() > MAX_TOLD_NAME_BYTES || !name.bytes().all(is_word) {
        let text = format!(
            "`{field}` is {name:?}: it has 1 to {MAX_TOLD_NAME_BYTES} letters, digits and . _ -, and begins with a letter or digit"
        );
        return Err(WireError::new(&text));
    }
    Ok(())
}
