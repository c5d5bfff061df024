//! Metrics that are shared by name.
//!
//! A manager has a folder of them, in files of the form `metrics: {NAME: {provider: …, query: …}}`. They are put in
//! before anything else is read, so that the rest of the language knows nothing of them; what a metric says itself wins
//! over its template. A release keeps those that it was submitted with: they are written into its text as
//! `analysis_templates`, and a text that has this key is never looked up anywhere else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    amount,
    metric::{self, MetricKeys},
};
use crate::{
    diagnostic::{Diagnostic, nearest, quoted},
    fields::Fields,
    findings::Findings,
    node::{At, Node, NodeKind},
    raw,
};

/// Most templates of a manager, and of a strategy.
pub const MAX_TEMPLATES: usize = 256;

/// The key under which a strategy carries its templates.
pub(crate) const KEY: &str = "analysis_templates";

/// The key under which a release says where its functions run.
pub(crate) const NAMESPACE: &str = "namespace";

/// Keys that make no sense for what is shared.
const OWN_KEYS: [&str; 2] = ["name", "template"];

/// Metrics by name, as far as they are written.
#[derive(Debug, Clone, Default)]
pub struct Templates(BTreeMap<String, Node>);

impl Templates {
    /// Adds those of a file; there are none of a file with an error. Names must be unique over all files.
    pub fn read(&mut self, text: &str) -> Vec<Diagnostic> {
        let mut findings = Findings::new(text);
        let mut found = Self::default();
        if let Some(root) = raw::read(text, &mut findings)
            && let Some(fields) = Fields::open(&root, "the file".to_owned(), &["metrics"], &mut findings)
            && let Some(entry) = fields.required("metrics", "and below it templates by name", &mut findings)
        {
            found.take(entry.node, &self.0, &mut findings);
        }
        if !findings.has_errors() {
            self.0.append(&mut found.0);
        }
        findings.finish()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.keys().map(String::as_str)
    }

    fn take(&mut self, node: &Node, others: &BTreeMap<String, Node>, findings: &mut Findings<'_>) {
        let NodeKind::Mapping(pairs) = &node.kind else {
            findings
                .error(node.at, "wrong-type", "the templates are not a mapping")
                .fix("write NAME: and below it a metric");
            return;
        };
        if others.len() + pairs.len() > MAX_TEMPLATES {
            let message = format!("there are more than {MAX_TEMPLATES} templates");
            findings.error(node.at, "too-many", message).fix("remove those that nobody uses");
            return;
        }
        let keys: Vec<&'static str> =
            metric::KEYS.into_iter().filter(|key| !OWN_KEYS.contains(key)).collect();
        for (key, metric) in pairs {
            let NodeKind::Scalar(name) = &key.kind else {
                findings.error(key.at, "wrong-type", "the name of a template is not a word");
                continue;
            };
            let what = format!("template {}", quoted(name));
            if let Some(fields) = Fields::open(metric, what.clone(), &keys, findings) {
                MetricKeys::read(&fields, findings);
            }
            if others.contains_key(name) || self.0.insert(name.clone(), metric.clone()).is_some() {
                findings
                    .error(key.at, "duplicate-name", format!("there is a {what} already"))
                    .fix("rename one of them");
            }
        }
    }
}

/// Where templates are looked up.
enum Shelf<'s> {
    /// In the text itself.
    Own(Templates),
    /// At the manager.
    Site(&'s Templates),
    /// Nowhere: the text is looked at where no manager is.
    Away,
}

/// Puts the templates into the metrics that name them; gives the names of those that were the manager's.
pub(crate) fn expand(
    root: &mut Node,
    site: Option<&Templates>,
    findings: &mut Findings<'_>,
) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let shelf = match (own(root, findings), site) {
        (Some(own), _) => Shelf::Own(own),
        (None, Some(site)) => Shelf::Site(site),
        (None, None) => Shelf::Away,
    };
    let namespace = namespace(root, findings);
    let mut of = |block: &mut Node| {
        for metric in block.child("metrics").map(Node::items).unwrap_or_default() {
            put_in(metric, &shelf, &mut used, findings);
            if let Some(namespace) = &namespace {
                share(metric, NAMESPACE, namespace);
            }
        }
    };
    for stage in root.child("stages").map(Node::items).unwrap_or_default() {
        stage.child("analysis").into_iter().for_each(&mut of);
    }
    root.child("rollout").and_then(|rollout| rollout.child("analysis")).into_iter().for_each(&mut of);
    used
}

/// What a release says of where its functions run: each of its metrics may name it.
fn namespace(root: &mut Node, findings: &mut Findings<'_>) -> Option<Node> {
    let node = root.child(NAMESPACE)?;
    let fault = match &node.kind {
        NodeKind::Scalar(text) => amount::namespace(text).err(),
        NodeKind::Null | NodeKind::Sequence(_) | NodeKind::Mapping(_) => amount::namespace("").err(),
    };
    match fault {
        None => Some(placed(node, node.at)),
        Some(fault) => {
            findings.error(node.at, "bad-name", fault.message).fix(fault.fix);
            None
        }
    }
}

/// Gives a metric what it doesn't say itself.
fn share(metric: &mut Node, key: &str, value: &Node) {
    let NodeKind::Mapping(pairs) = &mut metric.kind else { return };
    if !pairs.iter().any(|(given, _)| is_key(given, key)) {
        let name = Node { at: value.at, kind: NodeKind::Scalar(key.to_owned()) };
        pairs.push((name, placed(value, value.at)));
    }
}

fn own(root: &Node, findings: &mut Findings<'_>) -> Option<Templates> {
    let NodeKind::Mapping(pairs) = &root.kind else { return None };
    let (_, node) = pairs.iter().find(|(key, _)| is_key(key, KEY))?;
    let mut own = Templates::default();
    own.take(node, &BTreeMap::new(), findings);
    Some(own)
}

fn is_key(node: &Node, key: &str) -> bool {
    matches!(&node.kind, NodeKind::Scalar(word) if word == key)
}

/// What a metric says of its template.
struct WantedTemplate {
    name: String,
    at: At,
    app_args: Option<Node>,
}

fn put_in(metric: &mut Node, shelf: &Shelf<'_>, used: &mut BTreeSet<String>, findings: &mut Findings<'_>) {
    let Some(wanted) = metric.child("template").and_then(|node| wanted(node, findings)) else { return };
    let (templates, from_site) = match shelf {
        Shelf::Own(own) => (own, false),
        Shelf::Site(site) => (*site, true),
        Shelf::Away => {
            let message = format!("the template {} is not at hand here", quoted(&wanted.name));
            findings
                .warning(wanted.at, "unknown-template", message)
                .fix("its metric is checked by the manager that has it");
            return;
        }
    };
    let Some(template) = templates.0.get(&wanted.name) else {
        let message = format!("there is no template {}", quoted(&wanted.name));
        let near = nearest(&wanted.name, templates.names());
        let found = findings.error(wanted.at, "unknown-template", message);
        match near {
            Some(near) => found.fix(format!("did you mean {near}?")),
            None if from_site => found.fix("name one of those in the folder analysis.templates"),
            None => found.fix(format!("add it under {KEY}")),
        }
        return;
    };
    if from_site {
        used.insert(wanted.name.clone());
    }
    let NodeKind::Mapping(pairs) = &mut metric.kind else { return };
    pairs.retain(|(key, _)| !is_key(key, "template"));
    let word = |word: &str| Node { at: wanted.at, kind: NodeKind::Scalar(word.to_owned()) };
    if !pairs.iter().any(|(key, _)| is_key(key, "name")) {
        pairs.push((word("name"), word(&wanted.name)));
    }
    if let Some(app_args) = wanted.app_args {
        pairs.push((word("appArgs"), app_args));
    }
    let NodeKind::Mapping(shared) = &template.kind else { return };
    for (key, value) in shared {
        if !pairs.iter().any(|(given, _)| matches!(&key.kind, NodeKind::Scalar(key) if is_key(given, key))) {
            // Its faults are shown where it is named: this text has no other place for them.
            pairs.push((placed(key, wanted.at), placed(value, wanted.at)));
        }
    }
}

fn wanted(node: &mut Node, findings: &mut Findings<'_>) -> Option<WantedTemplate> {
    if let NodeKind::Mapping(pairs) = &node.kind
        && let Some((key, _)) = pairs.iter().find(|(key, _)| is_key(key, "args"))
    {
        findings
            .error(key.at, "unknown-key", "template has no key \"args\"")
            .fix("it is called appArgs, and a query names it {{ .AppArgs.NAME }}");
        return None;
    }
    let fields = Fields::open(node, "template".to_owned(), &["name", "appArgs"], findings)?;
    let name = fields.required("name", "http_error_rate", findings)?.text(findings)?;
    let (name, at) = (name.value.to_owned(), name.at);
    let app_args = fields.filled("appArgs", "{job: sieve}", findings).map(|entry| entry.node.clone());
    Some(WantedTemplate { name, at, app_args })
}

fn placed(node: &Node, at: At) -> Node {
    let kind = match &node.kind {
        NodeKind::Null => NodeKind::Null,
        NodeKind::Scalar(text) => NodeKind::Scalar(text.clone()),
        NodeKind::Sequence(items) => NodeKind::Sequence(items.iter().map(|item| placed(item, at)).collect()),
        NodeKind::Mapping(pairs) => {
            NodeKind::Mapping(pairs.iter().map(|(k, v)| (placed(k, at), placed(v, at))).collect())
        }
    };
    Node { at, kind }
}

/// A strategy's text with the manager's templates written into it. JSON is YAML on one line.
pub(crate) fn freeze(text: &str, used: &BTreeSet<String>, templates: &Templates) -> String {
    let shared: Map<String, Value> =
        used.iter().filter_map(|name| Some((name.clone(), value(templates.0.get(name)?)))).collect();
    let shared = Value::Object(shared);
    let trimmed = text.trim_end();
    let flow = trimmed.trim_start().starts_with('{');
    match trimmed.strip_suffix('}').filter(|_| flow) {
        Some(open) => format!("{open}, {KEY:?}: {shared}}}\n"),
        None => format!("{trimmed}\n{KEY}: {shared}\n"),
    }
}

/// Scalars are texts, whatever they look like: that is how the language reads them.
fn value(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Scalar(text) => Value::String(text.clone()),
        NodeKind::Sequence(items) => Value::Array(items.iter().map(value).collect()),
        NodeKind::Mapping(pairs) => Value::Object(
            pairs
                .iter()
                .filter_map(|(key, node)| match &key.kind {
                    NodeKind::Scalar(key) => Some((key.clone(), value(node))),
                    NodeKind::Null | NodeKind::Sequence(_) | NodeKind::Mapping(_) => None,
                })
                .collect(),
        ),
    }
}
