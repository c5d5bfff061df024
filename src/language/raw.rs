//! What the YAML says, each node with its place: scalars as written, sequences, mappings.
//!
//! A derived form would stop at the first fault. This tree takes any YAML that is not broken or too big, so that
//! the steps after it can report every fault. Scalars keep their spelling: `id: 1.10` is the text `1.10`.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{
    Location, Spanned,
    options::{DuplicateKeyPolicy, NonFiniteFloatPolicy},
};

use super::{
    findings::Findings,
    node::{At, Node, NodeKind},
    syntax::{self, Slip},
};

/// Longest strategy accepted, in bytes: 256 KiB.
pub const MAX_STRATEGY_BYTES: usize = 256 * 1024;

/// Deepest nesting of a strategy. The language itself needs 6.
pub const MAX_DEPTH: usize = 32;

/// Most YAML nodes of a strategy, aliases expanded: 64 whole stages have about 3,000.
pub const MAX_NODES: usize = 20_000;

/// Most uses of YAML aliases (`*name`).
pub const MAX_ALIASES: usize = 256;

/// Most bytes of all scalars, aliases expanded: 1 MiB.
const MAX_SCALAR_BYTES: usize = 4 * MAX_STRATEGY_BYTES;

/// Most characters of a key.
const MAX_KEY_LOOKAHEAD: usize = 1024;

/// What was accepted before may be so many times as much, but no deeper: a damaged text must come to an end.
const STORED: usize = 64;

/// Reads the tree; what is no YAML is reported, and then there is none.
pub(super) fn read(text: &str, findings: &mut Findings<'_>) -> Option<Node> {
    let times = if findings.is_stored() { STORED } else { 1 };
    match serde_saphyr::from_str_with_options::<SpannedForm>(text, options(times)) {
        Ok(form) => Some(form.into_node(text)),
        Err(error) => {
            report(&error, findings);
            None
        }
    }
}

/// `times`: the limits are so many times as high.
fn options(times: usize) -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: times * MAX_NODES,
            max_events: 4 * times * MAX_NODES,
            max_aliases: times * MAX_ALIASES,
            max_anchors: times * MAX_ALIASES,
            max_recorded_anchor_events: 4 * times * MAX_NODES,
            max_merge_keys: times * MAX_ALIASES,
            max_documents: 1,
            max_total_scalar_bytes: times * MAX_SCALAR_BYTES,
            simple_key_max_lookahead: times * MAX_KEY_LOOKAHEAD,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 2 * times * MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        // Duplicates of text keys come through one by one, and the next step names both places.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        // Comments are counted against limits where they are passed on, and files may have any number of them.
        emit_comments: false,
        with_snippet: false,
    }
}

fn report(error: &serde_saphyr::Error, findings: &mut Findings<'_>) {
    let at = error.location().map_or(At::START, At::from);
    let text = error.to_string();
    if text.contains("Documents {") || text.contains("multiple YAML documents") {
        findings
            .error(at, "many-documents", "there is more than one YAML document")
            .fix("keep one strategy in a file, and remove what follows ---");
        return;
    }
    if text.contains("budget breached") || text.contains("limit") {
        findings.error(at, "too-complex", "this is too deep or too big for a strategy").fix(format!(
            "a strategy has at most {MAX_NODES} values, {MAX_DEPTH} levels and {MAX_ALIASES} aliases"
        ));
        return;
    }
    // The place is printed in front of every message; the parser's own mention of it would be a second one.
    let message = text.lines().next().unwrap_or("unreadable");
    let message = message.split(" at line ").next().unwrap_or(message).trim();
    let Slip { at, message, fix } = syntax::explain(message, at, findings.lines());
    let found = findings.error(at, "syntax", format!("not readable as YAML: {message}"));
    if let Some(fix) = fix {
        found.fix(fix);
    }
}

type SpannedForm = Spanned<FormKind>;

/// The same tree while serde builds it: numbers and truth values wait for their spelling.
enum FormKind {
    Null,
    Text(String),
    Plain,
    Sequence(Vec<SpannedForm>),
    Mapping(Vec<(SpannedForm, SpannedForm)>),
}

trait IntoNode {
    fn into_node(self, text: &str) -> Node;
}

impl IntoNode for SpannedForm {
    fn into_node(self, text: &str) -> Node {
        let kind = match self.value {
            FormKind::Null => NodeKind::Null,
            FormKind::Text(scalar) => NodeKind::Scalar(scalar),
            FormKind::Plain => NodeKind::Scalar(spelling(text, self.defined).to_owned()),
            FormKind::Sequence(items) => {
                NodeKind::Sequence(items.into_iter().map(|item| item.into_node(text)).collect())
            }
            FormKind::Mapping(entries) => NodeKind::Mapping(
                entries
                    .into_iter()
                    .map(|(key, value)| (key.into_node(text), value.into_node(text)))
                    .collect(),
            ),
        };
        Node { at: self.referenced.into(), kind }
    }
}

/// A plain scalar as it stands in the text.
fn spelling(text: &str, place: Location) -> &str {
    let span = place.span();
    span.byte_offset()
        .zip(span.byte_len())
        .and_then(|(start, len)| {
            let start = usize::try_from(start).ok()?;
            text.get(start..start.checked_add(usize::try_from(len).ok()?)?)
        })
        .unwrap_or_default()
        .trim()
}

impl<'de> Deserialize<'de> for FormKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FormVisitor)
    }
}

struct FormVisitor;

impl<'de> de::Visitor<'de> for FormVisitor {
    type Value = FormKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<FormKind, E> {
        Ok(FormKind::Null)
    }

    fn visit_none<E>(self) -> Result<FormKind, E> {
        Ok(FormKind::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<FormKind, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<FormKind, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<FormKind, E> {
        Ok(FormKind::Plain)
    }

    fn visit_i64<E>(self, _: i64) -> Result<FormKind, E> {
        Ok(FormKind::Plain)
    }

    fn visit_u64<E>(self, _: u64) -> Result<FormKind, E> {
        Ok(FormKind::Plain)
    }

    fn visit_i128<E>(self, _: i128) -> Result<FormKind, E> {
        Ok(FormKind::Plain)
    }

    fn visit_u128<E>(self, _: u128) -> Result<FormKind, E> {
        Ok(FormKind::Plain)
    }

    fn visit_f64<E>(self, _: f64) -> Result<FormKind, E> {
        Ok(FormKind::Plain)
    }

    fn visit_str<E>(self, text: &str) -> Result<FormKind, E> {
        Ok(FormKind::Text(text.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<FormKind, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(FormKind::Sequence(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<FormKind, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            list.push(entry);
        }
        Ok(FormKind::Mapping(list))
    }
}
