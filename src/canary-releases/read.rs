//! From bytes to a document: of which kind it is, and what it says.

use language::{MAX_ALIASES, MAX_DEPTH, MAX_NODES, MAX_STRATEGY_BYTES};
use protocol::canary_releases::{CanaryReleaseSpec, Manifest, ReleaseSpec};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    form::{self, Canary},
    words::one_line,
};
use ab_releases::Fault;

/// Longest document accepted, in bytes: 64 KiB, as whatever is registered.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1024;

pub(super) const CANARY_RELEASE: &str = "CanaryRelease";
pub(super) const RELEASE: &str = "Release";

/// A text of one of the two kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    Release(ReleaseSpec),
    Canary(Canary),
}

/// Only what a text says of its kind.
#[derive(Deserialize)]
struct OfKind {
    #[serde(default)]
    kind: Value,
}

/// What of these kinds a text is; `None`: neither, so it is a strategy. Cheap for strategies: nothing is parsed where the words aren't there.
#[must_use]
pub fn kind_of(text: &[u8]) -> Option<&'static str> {
    let text = plain(text)?;
    // The name of the other kind ends in this one.
    if !text.contains("kind") || !text.contains(RELEASE) {
        return None;
    }
    let parsed = (text.len() <= MAX_STRATEGY_BYTES).then(|| parse::<OfKind>(text).ok()).flatten();
    match parsed {
        Some(found) => found.kind.as_str().and_then(known),
        // Whoever meant one of these kinds is told what is wrong with that, and not with a strategy.
        None => text.lines().find_map(kind_of_line),
    }
}

fn known(kind: &str) -> Option<&'static str> {
    [CANARY_RELEASE, RELEASE].into_iter().find(|known| *known == kind)
}

/// Of a text that can't be read: `kind: CanaryRelease` at the begin of a line, or the same as JSON has it.
fn kind_of_line(line: &str) -> Option<&'static str> {
    let json = line.trim_start_matches(['{', ',', ' ', '\t']).strip_prefix("\"kind\"");
    let (between, value) = json.or_else(|| line.strip_prefix("kind"))?.split_once(':')?;
    if !between.trim().is_empty() {
        return None;
    }
    let value = value.split([',', '}', '#']).next().unwrap_or_default();
    known(value.trim().trim_matches(['"', '\'']))
}

/// # Errors
///
/// The first field that can't be taken.
pub fn read(text: &[u8]) -> Result<Document, Fault> {
    let kind = kind_of(text).zip(plain(text));
    let (kind, plain) = kind.ok_or_else(|| Fault::new("kind", "it is CanaryRelease or Release"))?;
    if text.len() > MAX_DOCUMENT_BYTES {
        let why = format!("it has at most {MAX_DOCUMENT_BYTES} bytes, this one has {}", text.len());
        return Err(Fault::new(kind, why));
    }
    let unread = |message: String| Fault::new(kind, one_line(&message));
    if kind == RELEASE {
        let manifest = parse::<Manifest<ReleaseSpec>>(plain).map_err(unread)?;
        return form::release(manifest).map(Document::Release);
    }
    let manifest = parse::<Manifest<CanaryReleaseSpec>>(plain).map_err(unread)?;
    form::canary(manifest).map(Document::Canary)
}

/// Without the mark that some editors put in front; `None`: it is no text.
fn plain(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads JSON or YAML. Not all JSON is YAML, so what looks like JSON is tried as that first.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.trim_start().starts_with('{') {
        match serde_json::from_str(text) {
            Ok(found) => return Ok(found),
            Err(error) if error.is_data() => return Err(error.to_string()),
            Err(_) => {}
        }
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| error.to_string())
}

/// As much as a strategy may have, for it isn't known before whether it is one.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_recorded_anchor_events: 4 * MAX_NODES,
            max_merge_keys: MAX_ALIASES,
            max_documents: 1,
            max_total_scalar_bytes: 4 * MAX_STRATEGY_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 2 * MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        emit_comments: false,
        with_snippet: false,
    }
}
