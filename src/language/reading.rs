//! Reading what a key holds: a scalar in one of its small languages, one of a few words, a name, a truth value.
//!
//! What can't be read is reported, and then there is no value.

use super::{
    diagnostic::{nearest, quoted},
    fields::{FieldEntry, Located},
    findings::Findings,
    node::{Node, NodeKind},
    scalar::ScalarFault,
};

/// Longest name (of a release, function, stage, runtime), in bytes.
pub const MAX_NAME_BYTES: usize = 200;

/// A scalar, by the function that knows its language; `code` names the rule that is broken where it can't be read.
pub(super) fn read_scalar<T>(
    entry: FieldEntry<'_>,
    code: &'static str,
    parse: fn(&str) -> Result<T, ScalarFault<T>>,
    findings: &mut Findings<'_>,
) -> Option<T> {
    let text = entry.text(findings)?;
    match parse(text.value) {
        Ok(value) => Some(value),
        Err(fault) => {
            let value = fault.value.filter(|_| findings.is_stored());
            let found = match value {
                Some(_) => findings.broken_rule(text.at, code, fault.message),
                None => findings.error(text.at, code, fault.message),
            };
            found.fix(fault.fix);
            value
        }
    }
}

/// One of a few words.
pub(super) fn read_word<T: Copy>(
    entry: FieldEntry<'_>,
    what: &str,
    known: &[(&'static str, T)],
    findings: &mut Findings<'_>,
) -> Option<T> {
    let text = entry.text(findings)?;
    if let Some((_, value)) = known.iter().find(|(name, _)| *name == text.value) {
        return Some(*value);
    }
    let words = known.iter().map(|(name, _)| *name);
    let found =
        findings.error(text.at, "unknown-value", format!("there is no {what} {}", quoted(text.value)));
    match nearest(text.value, words.clone()) {
        Some(near) => found.fix(format!("did you mean {near}?")),
        None => found.fix(format!("it is one of {}", words.collect::<Vec<_>>().join(", "))),
    }
    None
}

/// A short text on one line.
pub(super) fn read_name(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<Located<String>> {
    let text = entry.text(findings)?;
    let fault = if text.value.trim().is_empty() {
        format!("{} is empty", entry.key)
    } else if text.value.len() > MAX_NAME_BYTES && !findings.is_stored() {
        format!("{} is longer than {MAX_NAME_BYTES} bytes", entry.key)
    } else if text.value.chars().any(char::is_control) {
        format!("{} contains a line break or another control character", entry.key)
    } else {
        return Some(Located { value: text.value.to_owned(), at: text.at });
    };
    findings.error(text.at, "bad-name", fault).fix("write a short text on one line");
    None
}

/// YAML 1.2 knows no other spellings.
pub(super) fn read_truth(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<bool> {
    let text = entry.text(findings)?;
    let truth = text.value.parse().ok();
    if truth.is_none() {
        let message = format!("{} is true or false, not {}", entry.key, quoted(text.value));
        findings.error(text.at, "unknown-value", message).fix("write true or false");
    }
    truth
}

/// `stage "Canary"`, or `stage 2` where it has no name to call it by.
pub(super) fn title_of(noun: &str, node: &Node, index: usize) -> String {
    if let NodeKind::Mapping(entries) = &node.kind {
        for (key, value) in entries {
            if let (NodeKind::Scalar(key), NodeKind::Scalar(name)) = (&key.kind, &value.kind)
                && key == "name"
            {
                return format!("{noun} {}", quoted(name));
            }
        }
    }
    format!("{noun} {}", index + 1)
}
