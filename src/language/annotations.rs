//! What people and programs note of a release: texts by key, carried along and never interpreted.

use std::collections::BTreeMap;

use super::{
    diagnostic::quoted,
    fields::FieldEntry,
    findings::Findings,
    node::{Node, NodeKind},
};

/// The key under which a strategy has them.
pub(crate) const KEY: &str = "annotations";

/// The most annotations of a release.
pub const MAX_ANNOTATIONS: usize = 64;

/// Longest key of an annotation, in bytes.
pub const MAX_ANNOTATION_KEY_BYTES: usize = 128;

/// Longest text of an annotation, in bytes.
pub const MAX_ANNOTATION_BYTES: usize = 1_024;

/// `{team: shop, ticket: OPS-7}`.
pub(super) fn read(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<BTreeMap<String, String>> {
    let NodeKind::Mapping(pairs) = &entry.node.kind else {
        findings
            .error(entry.at, "wrong-type", "annotations is not a mapping")
            .fix("write annotations: {KEY: TEXT}");
        return None;
    };
    if pairs.len() > MAX_ANNOTATIONS && !findings.is_stored() {
        let message =
            format!("there are {} annotations; at most {MAX_ANNOTATIONS} are possible", pairs.len());
        findings.error(entry.at, "too-many", message).fix("remove those that nobody reads");
        return None;
    }
    let mut all = BTreeMap::new();
    for (key, value) in pairs {
        let key = text("the key of an annotation", key, MAX_ANNOTATION_KEY_BYTES, findings)?;
        let value = text("an annotation", value, MAX_ANNOTATION_BYTES, findings)?;
        all.insert(key, value);
    }
    Some(all)
}

fn text(what: &'static str, node: &Node, most: usize, findings: &mut Findings<'_>) -> Option<String> {
    let entry = FieldEntry { key: what, node, at: node.at };
    let text = entry.text(findings)?.value;
    if text.chars().any(char::is_control) || text.is_empty() || text.len() > most && !findings.is_stored() {
        let message = format!("{what} is {}", quoted(text));
        findings
            .error(node.at, "bad-name", message)
            .fix(format!("write 1 to {most} bytes without control characters"));
        return None;
    }
    Some(text.to_owned())
}
