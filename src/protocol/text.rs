//! Texts that are borrowed from the body, and ids that may be written as strings or as numbers.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::value::RawValue;

/// The text of a JSON string or number, `None` for null. A number is kept as it was written: `1.50` stays `1.50`.
fn decode(raw: &RawValue) -> Result<Option<Cow<'_, str>>, &'static str> {
    const EXPECTED: &str = "must be a string or a number";
    let written = raw.get();
    match written.as_bytes().first() {
        Some(b'"') => {
            let inner = written.get(1..written.len() - 1).ok_or(EXPECTED)?;
            if inner.contains('\\') {
                let unescaped = serde_json::from_str(written).map_err(|_| "has a broken escape")?;
                Ok(Some(Cow::Owned(unescaped)))
            } else {
                Ok(Some(Cow::Borrowed(inner)))
            }
        }
        Some(b'-' | b'0'..=b'9') => Ok(Some(Cow::Borrowed(written))),
        Some(b'n') => Ok(None),
        _ => Err(EXPECTED),
    }
}

fn optional_id<'de, D: Deserializer<'de>>(d: D, field: &str) -> Result<Option<Cow<'de, str>>, D::Error> {
    let raw = <&'de RawValue>::deserialize(d)?;
    decode(raw).map_err(|why| D::Error::custom(format_args!("`{field}` {why}")))
}

fn required_id<'de, D: Deserializer<'de>>(d: D, field: &str) -> Result<Cow<'de, str>, D::Error> {
    optional_id(d, field)?.ok_or_else(|| D::Error::custom(format_args!("`{field}` must not be null")))
}

pub fn poll_id<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    optional_id(d, "id")
}

/// Nothing where there is none.
pub fn new_release<'de, D: Deserializer<'de>>(d: D) -> Result<Cow<'de, str>, D::Error> {
    Ok(optional_id(d, "new_release")?.unwrap_or_default())
}

pub fn child_id<'de, D: Deserializer<'de>>(d: D) -> Result<Cow<'de, str>, D::Error> {
    required_id(d, "id")
}

pub fn release_id<'de, D: Deserializer<'de>>(d: D) -> Result<Cow<'de, str>, D::Error> {
    required_id(d, "release_id")
}

pub fn strategy_id<'de, D: Deserializer<'de>>(d: D) -> Result<Cow<'de, str>, D::Error> {
    required_id(d, "strategy_id")
}

/// A string or null, borrowed from the body unless it has escapes.
pub fn optional_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    /// Serde borrows a `Cow` only where it is the field itself.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    Ok(Option::<Text<'de>>::deserialize(d)?.map(|text| text.0))
}
