//! The bounds of a service, as it is led.

use super::limits::{
    MAX_TOLD_HOSTS, MAX_TOLD_NAME_BYTES, MAX_TOLD_PORTS, MAX_TOLD_TARGET_BYTES, MAX_TOLD_TARGETS,
    MAX_TOLD_VALUES, MAX_TOLD_VARIATIONS, MAX_TOLD_WORD_BYTES,
};
use crate::{
    WireError,
    read::{at_most, within},
};
use model::traffic::{LedForm, LedVariation, Sticky};

pub(super) fn check_led(led: &LedForm) -> Result<(), WireError> {
    at_most("services.led.ports", led.ports.len(), MAX_TOLD_PORTS)?;
    at_most("services.led.variations", led.variations.len(), MAX_TOLD_VARIATIONS)?;
    for listen in &led.ports {
        at_most("services.led.ports.hosts", listen.hosts.len(), MAX_TOLD_HOSTS)?;
        listen
            .hosts
            .iter()
            .try_for_each(|host| within("services.led.ports.hosts", host, MAX_TOLD_WORD_BYTES))?;
        let path = listen.path.as_deref();
        path.map_or(Ok(()), |path| within("services.led.ports.path", path, MAX_TOLD_WORD_BYTES))?;
    }
    within("services.led.salt", &led.salt, MAX_TOLD_NAME_BYTES)?;
    within("services.led.hash", &led.hash, MAX_TOLD_NAME_BYTES)?;
    if let Some(Sticky::Cookie(word) | Sticky::Header(word)) = &led.sticky {
        within("services.led.sticky", word, MAX_TOLD_WORD_BYTES)?;
    }
    if let Some(rule) = &led.header {
        within("services.led.header.name", &rule.name, MAX_TOLD_WORD_BYTES)?;
        at_most("services.led.header.values", rule.values.len(), MAX_TOLD_VALUES)?;
        for (value, variation) in &rule.values {
            within("services.led.header.values", value, MAX_TOLD_WORD_BYTES)?;
            within("services.led.header.values", variation, MAX_TOLD_NAME_BYTES)?;
        }
    }
    led.variations.iter().try_for_each(check_variation)
}

fn check_variation(variation: &LedVariation) -> Result<(), WireError> {
    within("services.led.variations.name", &variation.name, MAX_TOLD_NAME_BYTES)?;
    at_most("services.led.variations.targets", variation.targets.len(), MAX_TOLD_TARGETS)?;
    for target in &variation.targets {
        within("services.led.variations.targets", target, MAX_TOLD_TARGET_BYTES)?;
    }
    let path = variation.health.as_ref().and_then(|health| health.path.as_deref());
    path.map_or(Ok(()), |path| within("services.led.variations.health.path", path, MAX_TOLD_WORD_BYTES))
}
