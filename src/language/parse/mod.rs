//! From the tree of [`super::raw`] to a [`StrategyDraft`]: every value read, names not yet looked up.
//!
//! A value that can't be read is reported and left out of the draft, and reading goes on.

mod draft;
mod function;
pub(super) mod service;
mod stage;

pub(super) use self::draft::{
    DraftFunction, DraftService, DraftShares, DraftStage, DraftSubject, StrategyDraft, analyses,
};

use model::ReleaseId;

use self::{function::read_function, service::read_service, stage::read_stage};
use super::{
    analysis, annotations,
    fields::{FieldEntry, Fields},
    findings::Findings,
    from_parent,
    limits::{MAX_FUNCTIONS, MAX_STAGES},
    node::{At, Node, NodeKind},
    places::TextPlaces,
    reading::{read_name, read_scalar, read_truth, read_word},
    rollout::{self, OrderWord, RolloutDraft},
    rollout_templates, scalar,
    strategy::{OnConflict, ReleaseDeadlines},
    target,
};

const KEYS: [&str; 18] = [
    "id",
    "name",
    "type",
    "functions",
    "services",
    "stages",
    rollout_templates::KEY,
    "rollback",
    "on_conflict",
    "offer_deadline",
    "setup_grace",
    "stage_deadline",
    "target",
    "rollout",
    "forward_up",
    annotations::KEY,
    analysis::templates::NAMESPACE,
    analysis::templates::KEY,
];

/// The keys of a text that comes from the parent: one more.
const KEYS_FROM_PARENT: [&str; KEYS.len() + 1] = {
    let mut keys = ["from_above"; KEYS.len() + 1];
    let mut at = 0;
    while at < KEYS.len() {
        keys[at] = KEYS[at];
        at += 1;
    }
    keys
};

/// Who wrote a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    Developer,
    /// The parent, for a manager.
    Parent,
    /// A manager, for an agent.
    Manager,
}

pub(super) fn read_strategy(
    root: &Node,
    author: Author,
    findings: &mut Findings<'_>,
) -> Option<StrategyDraft> {
    if matches!(root.kind, NodeKind::Null) {
        findings.error(At::START, "empty", "there is no strategy here").fix("start with id: and name:");
        return None;
    }
    let keys = match author {
        Author::Developer => &KEYS[..],
        Author::Parent | Author::Manager => &KEYS_FROM_PARENT[..],
    };
    let fields = Fields::open(root, "the strategy".to_owned(), keys, findings)?;
    let deadline = |key: &str, findings: &mut Findings<'_>| {
        fields.optional(key).and_then(|e| read_scalar(e, "bad-duration", scalar::duration, findings))
    };
    let id = fields.required("id", "my-release-1", findings);
    let (id, offer_id) = match author {
        // Offers have names that releases can't have, and those of other managers any.
        Author::Manager => (None, id.and_then(|e| read_name(e, findings)).map(|id| id.value)),
        Author::Developer | Author::Parent => (id.and_then(|e| read_release_id(e, findings)), None),
    };
    let name = fields.required("name", "my release", findings).and_then(|e| read_name(e, findings));
    let kind = fields.optional("type").and_then(|e| read_free_text(e, findings)).unwrap_or_default();
    let services = match fields.filled("services", "and a list below it", findings) {
        Some(_) => read_list(&fields, "services", MAX_FUNCTIONS, read_service, findings),
        None => Vec::new(),
    };
    let functions = if fields.place("services").is_some() && fields.place("functions").is_none() {
        Vec::new()
    } else {
        read_list(&fields, "functions", MAX_FUNCTIONS, read_function, findings)
    };
    // What a name couldn't be replaced by was said already.
    let stages = match fields.place(rollout_templates::KEY) {
        Some(_) => Vec::new(),
        None => read_list(&fields, "stages", MAX_STAGES, read_stage, findings),
    };
    check_rollback(&fields, findings);
    let target = fields.filled("target", "{labels: {tier: edge}}", findings);
    let target = target.and_then(|e| target::read(e, findings));
    let rollout = fields.filled("rollout", "{order: parallel}", findings);
    // Routers of one service move as one.
    let usual = if services.is_empty() { OrderWord::Parallel } else { OrderWord::GlobalIncremental };
    let rollout = rollout.and_then(|e| rollout::read(e, usual, findings));
    let from_parent = fields.optional("from_above").filter(|_| author != Author::Developer);
    check_one_alpha(&stages, rollout.as_ref(), findings);
    let places = TextPlaces {
        area: fields.optional("target").and_then(|e| place_within(e, "area")).map(|at| findings.place(at)),
        start: fields.optional("rollout").and_then(|e| place_within(e, "start")).map(|at| findings.place(at)),
        versions: functions.iter().map(|function| function.places.clone()).collect(),
        functions: functions.iter().map(|function| findings.place(function.at)).collect(),
        services: services.iter().map(|service| findings.place(service.at)).collect(),
        stages: stages.iter().map(|stage| findings.place(stage.at)).collect(),
    };
    Some(StrategyDraft {
        id,
        offer_id,
        name: name.map(|n| n.value),
        kind,
        functions,
        services,
        stages,
        on_conflict: fields
            .optional("on_conflict")
            .and_then(|e| read_on_conflict(e, findings))
            .unwrap_or_default(),
        deadlines: ReleaseDeadlines {
            offer: deadline("offer_deadline", findings),
            setup_grace: deadline("setup_grace", findings),
            stage: deadline("stage_deadline", findings),
        },
        stage_deadline_at: fields.optional("stage_deadline").map_or(At::START, |e| e.at),
        target,
        rollout,
        forward_up: fields.optional("forward_up").and_then(|e| read_truth(e, findings)).unwrap_or_default(),
        from_parent: from_parent.and_then(|e| from_parent::read(e, findings)),
        annotations: fields
            .filled(annotations::KEY, "{team: shop}", findings)
            .and_then(|e| annotations::read(e, findings))
            .unwrap_or_default(),
        places,
    })
}

/// Where the value of a key of a mapping stands.
fn place_within(entry: FieldEntry<'_>, key: &str) -> Option<At> {
    let NodeKind::Mapping(pairs) = &entry.node.kind else { return None };
    let named = |name: &Node| matches!(&name.kind, NodeKind::Scalar(name) if name == key);
    pairs.iter().find(|(name, _)| named(name)).map(|(_, value)| value.at)
}

/// Alpha is shared over all blocks, so that only one can say how much it is.
fn check_one_alpha(stages: &[DraftStage], rollout: Option<&RolloutDraft>, findings: &mut Findings<'_>) {
    let mut given: Vec<At> = analyses(stages, rollout).filter_map(|block| block.alpha).collect();
    given.sort_unstable();
    let Some((first, others)) = given.split_first() else { return };
    for at in others {
        let line = first.line;
        let message = format!("alpha belongs to the release as a whole, and line {line} gives it already");
        findings.error(*at, "contradiction", message).fix("keep one of them: it is shared over all metrics");
    }
}

/// A required list with at least one item.
fn read_list<T>(
    fields: &Fields<'_>,
    key: &str,
    most: usize,
    item: fn(&Node, usize, &mut Findings<'_>) -> Option<T>,
    findings: &mut Findings<'_>,
) -> Vec<T> {
    let Some(entry) = fields.required(key, "and a list below it", findings) else { return Vec::new() };
    // An offer that was withdrawn has none.
    if matches!(&entry.node.kind, NodeKind::Sequence(items) if items.is_empty()) && !findings.is_offer() {
        findings.error(entry.at, "missing-value", format!("{key} is empty")).fix("name at least one");
    }
    let items = entry.members(most, findings);
    items.iter().enumerate().filter_map(|(at, node)| item(node, at, findings)).collect()
}

fn read_release_id(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<ReleaseId> {
    let text = entry.text(findings)?;
    match ReleaseId::parse(text.value) {
        Ok(id) => Some(id),
        Err(error) => {
            findings
                .error(text.at, "bad-id", error.to_string())
                .fix("write letters, digits and . _ ~ -, as in 11 or sieve-2026.1");
            None
        }
    }
}

/// Free text: like a name, but it may be empty.
fn read_free_text(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<String> {
    match &entry.node.kind {
        NodeKind::Scalar(text) if text.is_empty() => Some(String::new()),
        _ => read_name(entry, findings).map(|n| n.value),
    }
}

fn read_on_conflict(entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Option<OnConflict> {
    let known =
        [("queue", OnConflict::Queue), ("refuse", OnConflict::Refuse), ("supersede", OnConflict::Supersede)];
    read_word(entry, "on_conflict", &known, findings)
}

/// The block says what a roll-back restores. There is one thing it can restore, so it is checked and not kept.
fn check_rollback(fields: &Fields<'_>, findings: &mut Findings<'_>) {
    let Some(entry) = fields.optional("rollback") else { return };
    let Some(block) = Fields::open(entry.node, "rollback".to_owned(), &["action"], findings) else {
        return;
    };
    let Some(entry) = block.required("action", "and below it function: base_version", findings) else {
        return;
    };
    let Some(action) = Fields::open(entry.node, "the rollback action".to_owned(), &["function"], findings)
    else {
        return;
    };
    if let Some(entry) = action.required("function", "base_version", findings) {
        read_word(entry, "version to roll back to called", &[("base_version", ())], findings);
    }
}
