//! Analyses that were written for another tool, in today's language: the ANALYSIS stages of a pipeline, and the metrics of an
//! `AnalysisTemplate`.
//!
//! What has a counterpart is taken over, with the names of keys and variables that it has now; what has none is named, so
//! that nobody believes it still holds. The result is checked as whatever is written by hand.

use std::fmt::Write as _;

use super::{
    analysis::Templates,
    check,
    findings::Findings,
    node::{Node, NodeKind},
    raw,
};

/// Longest text, in bytes: 1 MiB.
pub const MAX_IMPORT_BYTES: usize = 1024 * 1024;

/// Most documents of one text.
const MAX_DOCUMENTS: usize = 100;

/// Keys of a metric that are the same.
const SAME: [&str; 14] = [
    "name",
    "provider",
    "strategy",
    "interval",
    "query",
    "expected",
    "deviation",
    "tolerance",
    "baselineArgs",
    "canaryArgs",
    "primaryArgs",
    "appArgs",
    "failureLimit",
    "dryRun",
];

/// Variables that are called otherwise now. Longer ones come first.
const VARIABLES: [(&str, &str); 8] = [
    (".BuiltInArgs.App.K8s.Namespace", ".BuiltInArgs.App.K8s.Namespace"),
    (".App.K8s.Namespace", ".BuiltInArgs.App.K8s.Namespace"),
    (".K8s.Namespace", ".BuiltInArgs.App.K8s.Namespace"),
    (".BuiltInArgs.App.Name", ".BuiltInArgs.App.Name"),
    (".App.Name", ".BuiltInArgs.App.Name"),
    (".VariantCustomArgs.", ".VariantArgs."),
    (".AppCustomArgs.", ".AppArgs."),
    (".Args.", ".AppArgs."),
];

/// A strategy around a block, to check it.
const AROUND: &str = "\
id: imported
name: imported
namespace: imported
functions:
  - name: f
    base_version: {path: fns/base, env: nodejs}
    new_version: {path: fns/new, env: nodejs}
rollback: {action: {function: base_version}}
stages:
  - name: s
    type: WaitForSignal
    func_name: f
    variants:
      - {name: base_version, trafficPercentage: 50}
      - {name: new_version, trafficPercentage: 50}
    metrics_conditions:
      - {name: errorRate, threshold: '<1'}
    end_conditions:
      - {name: minDuration, threshold: 1s}
    end_action: {onSuccess: rollout, onFailure: rollback}
";

/// What came of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub parts: Vec<ImportedBlock>,
    /// What was left out, and why.
    pub dropped: Vec<String>,
    /// What is still to be done by hand.
    pub open: Vec<String>,
}

/// A block that can be put somewhere.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportedBlock {
    /// Where it belongs.
    pub place: String,
    pub text: String,
}

/// Translates all documents of a text. An error says why nothing could be read.
pub fn import(text: &str) -> Result<Imported, String> {
    if text.len() > MAX_IMPORT_BYTES {
        return Err(format!("there are more than {MAX_IMPORT_BYTES} bytes"));
    }
    let mut imported = Imported::default();
    let documents = documents(text);
    if documents.len() > MAX_DOCUMENTS {
        return Err(format!("there are more than {MAX_DOCUMENTS} documents"));
    }
    for document in documents.iter().filter(|document| !document.trim().is_empty()) {
        let mut findings = Findings::new(document);
        let root = raw::read(document, &mut findings);
        let Some(root) = root.filter(|_| !findings.has_errors()) else {
            let faults = findings.finish();
            return Err(faults.first().map_or_else(String::new, |fault| fault.message.clone()));
        };
        imported.document(&root);
    }
    if imported.parts.is_empty() {
        return Err("there is neither an ANALYSIS stage nor a kind: AnalysisTemplate in it".to_owned());
    }
    Ok(imported)
}

/// Apart at the lines between them.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    documents
}

impl Imported {
    fn document(&mut self, root: &Node) {
        let spec = get(root, "spec").unwrap_or(root);
        if get(root, "kind").and_then(text) == Some("AnalysisTemplate") {
            return self.template(spec);
        }
        let stages = get(spec, "pipeline").map_or_else(
            || get(spec, "stages").unwrap_or(spec),
            |pipeline| get(pipeline, "stages").unwrap_or(pipeline),
        );
        let mut count = 0;
        for stage in items(stages) {
            if get(stage, "name").and_then(text) != Some("ANALYSIS") {
                continue;
            }
            count += 1;
            self.stage(stage, count);
        }
    }

    fn stage(&mut self, stage: &Node, count: usize) {
        let what = format!("ANALYSIS stage {count}");
        for (key, _) in pairs(stage).filter(|(key, _)| !["name", "with"].contains(key)) {
            self.drop(&what, key, "a stage of a strategy has its own");
        }
        let Some(with) = get(stage, "with") else {
            self.open.push(format!("{what} has no `with`: write its duration and metrics"));
            return;
        };
        let mut block = Vec::new();
        let mut metrics = Vec::new();
        let mut take = |this: &mut Self, node: &Node| {
            for (at, metric) in items(node).iter().enumerate() {
                metrics.push(this.metric(metric, &format!("{what}, metric {}", at + 1)));
            }
        };
        for (key, node) in pairs(with) {
            match key {
                "duration" => block.push((key.to_owned(), plain(node))),
                "metrics" => take(self, node),
                "dynamic" => {
                    for (key, node) in pairs(node) {
                        match key {
                            "metrics" => take(self, node),
                            _ => self.drop(&what, &format!("dynamic.{key}"), "only metrics are judged here"),
                        }
                    }
                }
                "logs" | "https" | "http" => self.drop(&what, key, "only metrics are judged here"),
                _ => self.drop(&what, key, "it has no counterpart"),
            }
        }
        let skips = |metric: &KeptMetric| metric.skips_no_data;
        if !metrics.is_empty() && metrics.iter().all(skips) {
            block.push(("noData".to_owned(), BlockValue::Text("pass".to_owned())));
        } else if metrics.iter().any(skips) {
            self.drop(&what, "skipOnNoData", "noData holds for all metrics of a block, and not all have it");
        }
        let metrics = metrics.into_iter().map(|metric| metric.value).collect();
        block.push(("metrics".to_owned(), BlockValue::List(metrics)));
        let text = emit(&BlockValue::Map(vec![("analysis".to_owned(), BlockValue::Map(block))]));
        let mut whole = AROUND.to_owned();
        for line in text.lines() {
            let _ = writeln!(whole, "    {line}");
        }
        self.check(&what, &check(&whole).diagnostics);
        self.parts.push(ImportedBlock { place: format!("{what}: into a stage, or under rollout"), text });
    }

    fn template(&mut self, spec: &Node) {
        let what = "AnalysisTemplate";
        for (key, _) in pairs(spec).filter(|(key, _)| *key != "metrics") {
            if !["apiVersion", "kind"].contains(&key) {
                self.drop(what, key, "only metrics are shared by name");
            }
        }
        let mut metrics = Vec::new();
        for (name, metric) in get(spec, "metrics").into_iter().flat_map(pairs) {
            let what = format!("{what}, metric {name}");
            let kept = self.metric(metric, &what);
            if kept.skips_no_data {
                self.drop(&what, "skipOnNoData", "noData is said by the block that uses the template");
            }
            metrics.push((name.to_owned(), kept.value));
        }
        let text = emit(&BlockValue::Map(vec![("metrics".to_owned(), BlockValue::Map(metrics))]));
        self.check(what, &Templates::default().read(&text));
        self.parts.push(ImportedBlock {
            place: format!("{what}: into a file of the folder analysis.templates"),
            text,
        });
    }

    fn metric(&mut self, metric: &Node, what: &str) -> KeptMetric {
        let mut skips_no_data = false;
        let mut kept = Vec::new();
        for (key, node) in pairs(metric) {
            match key {
                "query" => kept.push((key.to_owned(), query(node))),
                "template" => kept.push((key.to_owned(), self.used(node, what))),
                "args" | "appCustomArgs" => kept.push(("appArgs".to_owned(), plain(node))),
                "skipOnNoData" => skips_no_data = text(node) == Some("true"),
                "timeout" => self.drop(what, key, "a provider has its own timeout"),
                _ if SAME.contains(&key) => kept.push((key.to_owned(), plain(node))),
                _ => self.drop(what, key, "it has no counterpart"),
            }
        }
        KeptMetric { value: BlockValue::Map(kept), skips_no_data }
    }

    /// `template: {name, args}`.
    fn used(&mut self, node: &Node, what: &str) -> BlockValue {
        let mut kept = Vec::new();
        for (key, node) in pairs(node) {
            match key {
                "name" => kept.push((key.to_owned(), plain(node))),
                "args" | "appArgs" | "appCustomArgs" => kept.push(("appArgs".to_owned(), plain(node))),
                _ => self.drop(what, &format!("template.{key}"), "a template takes appArgs alone"),
            }
        }
        BlockValue::Map(kept)
    }

    fn drop(&mut self, what: &str, key: &str, why: &str) {
        self.dropped.push(format!("{what}: {key}, for {why}"));
    }

    /// What is wrong with a block by itself.
    fn check(&mut self, what: &str, found: &[super::Diagnostic]) {
        let say = |fault: &super::Diagnostic| {
            let fix = fault.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
            format!("{what}: {}{fix}", fault.message)
        };
        self.open.extend(found.iter().map(say));
    }
}

struct KeptMetric {
    value: BlockValue,
    skips_no_data: bool,
}

enum BlockValue {
    Text(String),
    List(Vec<BlockValue>),
    Map(Vec<(String, BlockValue)>),
}

fn pairs(node: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let pairs = match &node.kind {
        NodeKind::Mapping(pairs) => pairs.as_slice(),
        _ => &[],
    };
    pairs.iter().filter_map(|(key, value)| Some((text(key)?, value)))
}

fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    pairs(node).find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn items(node: &Node) -> &[Node] {
    match &node.kind {
        NodeKind::Sequence(items) => items,
        _ => &[],
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.kind {
        NodeKind::Scalar(text) => Some(text),
        _ => None,
    }
}

fn plain(node: &Node) -> BlockValue {
    match &node.kind {
        NodeKind::Null => BlockValue::Text(String::new()),
        NodeKind::Scalar(text) => BlockValue::Text(text.clone()),
        NodeKind::Sequence(items) => BlockValue::List(items.iter().map(plain).collect()),
        NodeKind::Mapping(_) => {
            BlockValue::Map(pairs(node).map(|(key, value)| (key.to_owned(), plain(value))).collect())
        }
    }
}

/// With today's names of variables.
fn query(node: &Node) -> BlockValue {
    let Some(text) = text(node) else { return plain(node) };
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inner, behind)) = after.split_once("}}") else { break };
        let name = inner.trim();
        let renamed = VARIABLES.iter().find_map(|(old, new)| {
            // A whole name, or the group that a name belongs to.
            let rest = name.strip_prefix(old).filter(|rest| old.ends_with('.') || rest.is_empty())?;
            Some(format!("{new}{rest}"))
        });
        let _ = write!(out, "{before}{{{{ {} }}}}", renamed.as_deref().unwrap_or(name));
        rest = behind;
    }
    out.push_str(rest);
    BlockValue::Text(out)
}

/// YAML. Every scalar of the language is a text, so that quotes never change what is meant.
fn emit(value: &BlockValue) -> String {
    let mut text = String::new();
    put(value, 0, &mut text);
    text
}

fn put(value: &BlockValue, by: usize, out: &mut String) {
    match value {
        BlockValue::Text(text) => out.push_str(&scalar(text)),
        BlockValue::List(items) => {
            for item in items {
                let mut inner = String::new();
                put(item, by + 2, &mut inner);
                let _ = writeln!(out, "{:by$}- {}", "", inner.trim());
            }
        }
        BlockValue::Map(pairs) => {
            for (key, value) in pairs {
                let _ = write!(out, "{:by$}{}:", "", scalar(key));
                match value {
                    BlockValue::Text(text) if text.trim_end_matches('\n').contains('\n') => {
                        out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
                        for line in text.trim_end_matches('\n').lines() {
                            let indent = if line.is_empty() { 0 } else { by + 2 };
                            let _ = writeln!(out, "{:indent$}{line}", "");
                        }
                    }
                    BlockValue::Text(text) => {
                        let _ = writeln!(out, " {}", scalar(text));
                    }
                    BlockValue::List(items) if items.is_empty() => out.push_str(" []\n"),
                    BlockValue::Map(pairs) if pairs.is_empty() => out.push_str(" {}\n"),
                    _ => {
                        out.push('\n');
                        put(value, by + 2, out);
                    }
                }
            }
        }
    }
}

/// As it is where nothing in it means anything, else in quotes.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '%');
    let starts = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if starts && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if text.chars().any(char::is_control) {
        let mut quoted = String::from("\"");
        for c in text.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                c if c.is_control() => {
                    let _ = write!(quoted, "\\u{:04x}", u32::from(c));
                }
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        return quoted;
    }
    format!("'{}'", text.replace('\'', "''"))
}
