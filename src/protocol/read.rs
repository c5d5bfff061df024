//! Reading a body, and the checks that every form shares.

use std::borrow::Cow;

use serde::{Deserialize, Serializer};

use super::WireError;

/// Serde would take an array for a struct too; a call is an object.
pub(crate) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, WireError> {
    match body.trim_ascii_start().first() {
        Some(b'{') => Ok(serde_json::from_slice(body)?),
        _ => Err(WireError::new("the body must be a JSON object")),
    }
}

pub(crate) fn within(field: &str, text: &str, max: usize) -> Result<(), WireError> {
    if text.len() > max {
        return Err(WireError::new(&format!(
            "`{field}` has at most {max} bytes, this one has {}",
            text.len()
        )));
    }
    // Not even every database can keep them.
    if text.chars().any(char::is_control) {
        return Err(WireError::new(&format!("`{field}` has a control character in it")));
    }
    Ok(())
}

pub(crate) fn at_most(field: &str, len: usize, max: usize) -> Result<(), WireError> {
    if len > max {
        return Err(WireError::new(&format!("`{field}` holds at most {max} entries, this one has {len}")));
    }
    Ok(())
}

/// Agents write the empty string where there is no id and where nothing follows.
// Serde hands over a reference to the field.
#[allow(clippy::ref_option)]
pub(crate) fn empty_for_none<S: Serializer>(text: &Option<Cow<'_, str>>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(text.as_deref().unwrap_or_default())
}
