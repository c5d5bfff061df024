//! How the share of a service's new variation grows, by name: `strategy: canary-10-25-50-100` in the place of `stages:`.
//!
//! A name is put in before anything else is read, as the stages that it means, so that the rest of the language knows nothing of
//! names. A release keeps what the name meant when it was submitted: the text that is stored has it written out.
//!
//! What is silent in a template is decided here, once: in each stage in which the new variation gets calls it needs about
//! [`MIN_CALLS`], so that nothing is passed unseen, and it fails where more than [`ERROR_RATE`] of its calls do.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::{
    diagnostic::{Diagnostic, nearest, quoted},
    fields::{FieldEntry, Fields},
    findings::Findings,
    limits::MAX_STAGES,
    node::{At, Node, NodeKind},
    raw,
    reading::{read_name, read_scalar, read_truth, read_word},
    rollout::OnLimit,
    scalar::{self, go_duration, percent},
};

/// The key under which a strategy names one.
pub(crate) const KEY: &str = "strategy";

/// The most templates of a manager, built-in ones left out.
pub const MAX_ROLLOUT_TEMPLATES: usize = 256;

/// About so many calls the new variation must have had in a stage in which it gets any.
pub const MIN_CALLS: u64 = 100;

/// A stage fails where a larger share of the new variation's calls does.
pub const ERROR_RATE: &str = "<0.05";

/// How often health is looked at, unless a template says otherwise.
const INTERVAL: Duration = Duration::from_secs(30);

/// Health that a stage needs unless it says otherwise, in units of 0.01 %.
const HEALTHY: u16 = 9_500;

/// How a share grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutTemplate {
    pub name: String,
    /// For people.
    pub description: String,
    /// 1 to [`MAX_STAGES`].
    pub stages: Vec<TemplateStage>,
    /// Goes on by itself when a stage has passed. If not, somebody is asked after each but the last.
    pub auto_advance: bool,
    pub on_failure: OnLimit,
    /// How often the health of targets is looked at.
    pub interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateStage {
    /// What the new variation gets, in units of 0.01 %.
    pub traffic: u16,
    /// 0: as soon as it has had its calls.
    pub duration: Duration,
    /// So much of the targets must be healthy, in units of 0.01 %.
    pub healthy_targets: u16,
    /// Somebody is asked when it has passed.
    pub approval: bool,
}

/// Templates by name.
#[derive(Debug, Clone)]
pub struct RolloutTemplates(BTreeMap<String, RolloutTemplate>);

impl Default for RolloutTemplates {
    /// Those that every manager has.
    fn default() -> Self {
        let built_in = [
            built_in(
                "canary-10-25-50-100",
                "Standard canary: 10 %, 25 %, 50 %, 100 %",
                &[(10, 300, false), (25, 600, false), (50, 900, true), (100, 0, false)],
            ),
            built_in(
                "canary-1-5-10-50-100",
                "Conservative: 1 %, 5 %, 10 %, 50 %, 100 %",
                &[(1, 300, false), (5, 600, false), (10, 600, false), (50, 900, true), (100, 0, false)],
            ),
            built_in(
                "blue-green-instant",
                "Green gets no calls but those that ask for it by a header, and after an approval all of them",
                &[(0, 60, true), (100, 0, false)],
            ),
            built_in(
                "blue-green-gradual",
                "Gradual shift: 25 %, 50 %, 75 %, 100 %",
                &[(25, 300, false), (50, 600, false), (75, 600, true), (100, 0, false)],
            ),
        ];
        Self(built_in.into_iter().map(|template| (template.name.clone(), template)).collect())
    }
}

/// Stages by percent, seconds, and whether somebody is asked after them.
fn built_in(name: &str, description: &str, stages: &[(u16, u64, bool)]) -> RolloutTemplate {
    let stage = |&(percent, seconds, approval): &(u16, u64, bool)| TemplateStage {
        traffic: percent * 100,
        duration: Duration::from_secs(seconds),
        healthy_targets: HEALTHY,
        approval,
    };
    RolloutTemplate {
        name: name.to_owned(),
        description: description.to_owned(),
        stages: stages.iter().map(stage).collect(),
        auto_advance: true,
        on_failure: OnLimit::Rollback,
        interval: INTERVAL,
    }
}

impl RolloutTemplates {
    /// Adds those of a file of the form `strategies: {NAME: {stages: [{traffic: 10, duration: 5m}, …]}}`; there are none of a file
    /// with an error. Names must be unique over all files, and other than the built-in ones.
    pub fn read(&mut self, text: &str) -> Vec<Diagnostic> {
        let mut findings = Findings::new(text);
        let mut found = Vec::new();
        if let Some(root) = raw::read(text, &mut findings)
            && let Some(fields) = Fields::open(&root, "the file".to_owned(), &["strategies"], &mut findings)
            && let Some(entry) =
                fields.required("strategies", "and below it templates by name", &mut findings)
        {
            found = self.of_file(entry, &mut findings);
        }
        if !findings.has_errors() {
            self.0.extend(found.into_iter().map(|template| (template.name.clone(), template)));
        }
        findings.finish()
    }

    fn of_file(&self, entry: FieldEntry<'_>, findings: &mut Findings<'_>) -> Vec<RolloutTemplate> {
        let NodeKind::Mapping(pairs) = &entry.node.kind else {
            findings
                .error(entry.at, "wrong-type", "strategies is not a mapping")
                .fix("write NAME: and below it stages");
            return Vec::new();
        };
        if self.0.len() + pairs.len() > MAX_ROLLOUT_TEMPLATES {
            let message = format!("there are more than {MAX_ROLLOUT_TEMPLATES} strategies");
            findings.error(entry.at, "too-many", message).fix("remove those that nobody uses");
            return Vec::new();
        }
        let mut found: Vec<RolloutTemplate> = Vec::new();
        for (key, node) in pairs {
            let name = FieldEntry { key: "the name of a strategy", node: key, at: key.at };
            let Some(name) = read_name(name, findings) else { continue };
            if self.0.contains_key(&name.value) || found.iter().any(|known| known.name == name.value) {
                let message = format!("there are two strategies {}", quoted(&name.value));
                findings.error(name.at, "duplicate-name", message).fix("rename one of them");
                continue;
            }
            found.extend(template(node, Some(name.value), findings));
        }
        found
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RolloutTemplate> {
        self.0.get(name)
    }

    /// In the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &RolloutTemplate> {
        self.0.values()
    }
}

impl RolloutTemplate {
    /// As it may stand under `strategy:` in the place of its name.
    #[must_use]
    pub fn written_out(&self) -> Value {
        let stages = self.stages.iter().map(|stage| {
            json!({
                "traffic": percent(stage.traffic), "duration": go_duration(stage.duration),
                "healthy_targets": percent(stage.healthy_targets), "approval": stage.approval.to_string(),
            })
        });
        let stages: Vec<Value> = stages.collect();
        let mut form = json!({
            "stages": stages, "auto_advance": self.auto_advance.to_string(), "on_failure": word(self.on_failure),
            "interval": go_duration(self.interval),
        });
        for (key, text) in [("name", &self.name), ("description", &self.description)] {
            if !text.is_empty() {
                form[key] = json!(text);
            }
        }
        form
    }
}

impl RolloutTemplate {
    /// As `stages:` and `rollout:` of a service with any number of variations. `shares`: what each gets, by name and in percent, where
    /// all but the stable one get so much together, in units of 0.01 %.
    #[must_use]
    pub fn spelled_out(&self, shares: impl Fn(u16) -> Value) -> (Vec<Value>, Value) {
        let names = stage_names(self);
        let mut rollout = json!({"on_failure": word(self.on_failure)});
        if let Some(approval) = approval(self, &names) {
            rollout["approval"] = approval;
        }
        (stage_forms(self, &names, shares), rollout)
    }
}

fn word(on_failure: OnLimit) -> &'static str {
    match on_failure {
        OnLimit::Rollback => "rollback",
        OnLimit::Pause => "pause",
        OnLimit::Continue => "continue",
    }
}

/// Reads a template; `name`: under which it stands, else it says so itself.
fn template(node: &Node, name: Option<String>, findings: &mut Findings<'_>) -> Option<RolloutTemplate> {
    let keys = ["stages", "name", "description", "auto_advance", "on_failure", "interval"];
    let what = name.as_ref().map_or_else(|| KEY.to_owned(), |name| format!("strategy {}", quoted(name)));
    let fields = Fields::open(node, what, &keys, findings)?;
    let own = match &name {
        Some(_) => None,
        None => fields.filled("name", "my-canary", findings).and_then(|entry| read_name(entry, findings)),
    };
    let entry =
        fields.required("stages", "[{traffic: 10, duration: 5m}, {traffic: 100, duration: 0s}]", findings)?;
    let items = entry.members(MAX_STAGES, findings);
    if items.is_empty() {
        findings.error(entry.at, "missing-value", "stages is empty").fix("name at least one");
    }
    let stages: Vec<Option<TemplateStage>> =
        items.iter().enumerate().map(|(index, node)| stage(node, index, findings)).collect();
    let description = fields.optional("description").and_then(|entry| read_name(entry, findings));
    let auto_advance = fields.optional("auto_advance").map(|entry| read_truth(entry, findings));
    let known = [("rollback", OnLimit::Rollback), ("pause", OnLimit::Pause), ("continue", OnLimit::Continue)];
    let on_failure =
        fields.optional("on_failure").map(|entry| read_word(entry, "on_failure", &known, findings));
    let interval = fields.optional("interval");
    let interval = interval.map(|entry| read_scalar(entry, "bad-duration", scalar::duration, findings));
    let stages: Vec<TemplateStage> = stages.into_iter().collect::<Option<_>>()?;
    Some(RolloutTemplate {
        name: name.or(own.map(|name| name.value)).unwrap_or_default(),
        description: description.map(|text| text.value).unwrap_or_default(),
        stages: Some(stages).filter(|stages| !stages.is_empty())?,
        auto_advance: auto_advance.unwrap_or(Some(true))?,
        on_failure: on_failure.unwrap_or(Some(OnLimit::Rollback))?,
        interval: interval.unwrap_or(Some(INTERVAL))?,
    })
}

fn stage(node: &Node, index: usize, findings: &mut Findings<'_>) -> Option<TemplateStage> {
    let keys = ["traffic", "duration", "healthy_targets", "approval"];
    let fields = Fields::open(node, format!("stage {} of the strategy", index + 1), &keys, findings)?;
    let traffic = fields.required("traffic", "10", findings);
    let traffic =
        traffic.and_then(|entry| read_scalar(entry, "bad-percentage", scalar::hundredths, findings));
    let duration = fields.required("duration", "5m", findings);
    let duration = duration.and_then(|entry| read_scalar(entry, "bad-duration", scalar::duration, findings));
    let healthy = fields.optional("healthy_targets");
    let healthy = healthy.map(|entry| read_scalar(entry, "bad-percentage", scalar::hundredths, findings));
    let approval = fields.optional("approval").map(|entry| read_truth(entry, findings));
    Some(TemplateStage {
        traffic: traffic?,
        duration: duration?,
        healthy_targets: healthy.unwrap_or(Some(HEALTHY))?,
        approval: approval.unwrap_or(Some(false))?,
    })
}

/// The template that a text names or has written out; `None`: it has stages of its own, or names what is no built-in one.
#[must_use]
pub fn rollout_template_of(text: &str) -> Option<RolloutTemplate> {
    let mut findings = Findings::of_stored(text);
    let mut root = raw::read(text, &mut findings)?;
    let value = root.child(KEY)?.clone();
    match &value.kind {
        NodeKind::Scalar(name) => RolloutTemplates::default().get(name).cloned(),
        NodeKind::Mapping(_) => template(&value, None, &mut findings),
        NodeKind::Null | NodeKind::Sequence(_) => None,
    }
}

/// Where a name stood, and what it means, so that it can be written out.
pub(crate) struct Used {
    pub at: At,
    pub name: String,
    pub template: RolloutTemplate,
}

/// Puts stages in the place of `strategy:`; gives what a name meant.
pub(crate) fn expand(root: &mut Node, known: &RolloutTemplates, findings: &mut Findings<'_>) -> Option<Used> {
    let value = root.child(KEY)?.clone();
    let is_hybrid = root.child("functions").is_some() && root.child("services").is_some();
    // In a hybrid they are the agents', and the routers' come behind them.
    if let Some(stages) = root.child("stages")
        && !(is_hybrid && matches!(stages.kind, NodeKind::Sequence(_)))
    {
        let message = "strategy says which stages there are, and so does stages";
        findings.error(stages.at, "contradiction", message).fix("keep one of the two");
        return None;
    }
    let (template, used) = match &value.kind {
        NodeKind::Scalar(name) => {
            let Some(template) = known.get(name) else {
                let message = format!("there is no strategy {}", quoted(name));
                let fault = findings.error(value.at, "unknown-strategy", message);
                match nearest(name, known.0.keys().map(String::as_str)) {
                    Some(near) => fault.fix(format!("did you mean {near}?")),
                    None => fault.fix(format!(
                        "it is one of {}",
                        known.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
                    )),
                }
                return None;
            };
            let used = Used { at: value.at, name: name.clone(), template: template.clone() };
            (template.clone(), Some(used))
        }
        NodeKind::Mapping(_) => (template(&value, None, findings)?, None),
        NodeKind::Null | NodeKind::Sequence(_) => {
            findings
                .error(value.at, "wrong-type", "strategy is neither a name nor a mapping")
                .fix("write the name of one, as in canary-10-25-50-100");
            return None;
        }
    };
    let [stable, new] = variations(root, value.at, findings)?;
    let names = stage_names(&template);
    let stages = stages(&template, &names, [&stable, &new], value.at);
    let NodeKind::Mapping(pairs) = &mut root.kind else { return None };
    pairs.retain(|(key, _)| !matches!(&key.kind, NodeKind::Scalar(key) if key == KEY));
    let written =
        |(key, _): &&mut (Node, Node)| matches!(&key.kind, NodeKind::Scalar(key) if key == "stages");
    if let Some((_, Node { kind: NodeKind::Sequence(own), .. })) = pairs.iter_mut().find(written) {
        own.extend(stages);
    } else {
        let kind = NodeKind::Sequence(stages);
        pairs.push((text("stages", value.at), Node { at: value.at, kind }));
    }
    lead(root, &template, &names, value.at);
    used
}

/// The names of the stable variation and of the other one of the only service.
fn variations(root: &mut Node, at: At, findings: &mut Findings<'_>) -> Option<[String; 2]> {
    let mut services = root.child("services").map(Node::items).unwrap_or_default().iter_mut();
    let (service, more) = (services.next(), services.next());
    let mut refuse = |message: &str| {
        findings
            .error(at, "contradiction", message.to_owned())
            .fix("write stages: of type Traffic, with the shares of each variation");
    };
    let Some(service) = service.filter(|_| more.is_none()) else {
        refuse("strategy says how the calls of one service are shared, and there is not exactly one");
        return None;
    };
    let names = service.child("variations").map(Node::items).unwrap_or_default().iter_mut();
    let names: Vec<Option<String>> = names
        .map(|variation| match &variation.child("name")?.kind {
            NodeKind::Scalar(name) => Some(name.clone()),
            NodeKind::Null | NodeKind::Sequence(_) | NodeKind::Mapping(_) => None,
        })
        .collect();
    match &names[..] {
        [Some(stable), Some(new)] => Some([stable.clone(), new.clone()]),
        // What isn't there is said where it is read.
        [] | [_] | [_, _] => None,
        _ => {
            refuse("strategy shares calls among two variations, and the service has more");
            None
        }
    }
}

/// `10 %`; one that is there already gets its number.
fn stage_names(template: &RolloutTemplate) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (at, stage) in template.stages.iter().enumerate() {
        let name = format!("{} %", f64::from(stage.traffic) / 100.0);
        names.push(if names.contains(&name) { format!("{name}, stage {}", at + 1) } else { name });
    }
    names
}

fn stages(template: &RolloutTemplate, names: &[String], [stable, new]: [&str; 2], at: At) -> Vec<Node> {
    let shares = |traffic: u16| json!({stable: percent(10_000 - traffic), new: percent(traffic)});
    stage_forms(template, names, shares).iter().map(|form| node(form, at)).collect()
}

/// `shares`: what each variation gets where all but the stable one get so much together.
fn stage_forms(template: &RolloutTemplate, names: &[String], shares: impl Fn(u16) -> Value) -> Vec<Value> {
    let mut all = Vec::new();
    for (index, (stage, name)) in template.stages.iter().zip(names).enumerate() {
        let gets_calls = stage.traffic > 0;
        // Those of both together, so that the new variation has its part of them.
        let calls = (MIN_CALLS * 10_000).checked_div(u64::from(stage.traffic)).unwrap_or(0);
        let next = names.get(index + 1).map_or("rollout", String::as_str);
        let mut form = json!({
            "name": name,
            "type": "Traffic",
            "shares": shares(stage.traffic),
            "healthy_targets": percent(stage.healthy_targets),
            "end_conditions": [
                {"name": "minDuration", "threshold": go_duration(stage.duration)},
                {"name": "minCalls", "threshold": calls.to_string()},
            ],
            "end_action": {"onSuccess": next, "onFailure": "rollback"},
        });
        if gets_calls {
            form["metrics_conditions"] = json!([{"name": "errorRate", "threshold": ERROR_RATE}]);
        }
        all.push(form);
    }
    all
}

/// Of which stages somebody is asked, as `approval:` has it.
fn approval(template: &RolloutTemplate, names: &[String]) -> Option<Value> {
    let last = template.stages.len().saturating_sub(1);
    let asks = |(index, stage): &(usize, &TemplateStage)| {
        *index < last && (stage.approval || !template.auto_advance)
    };
    let asked = template.stages.iter().enumerate().filter(asks);
    // An approval of a stage is asked before it: so of the one behind that which has to pass.
    let asked: Vec<&String> = asked.filter_map(|(index, _)| names.get(index + 1)).collect();
    let approves_last = template.stages.last().is_some_and(|stage| stage.approval) && asked.is_empty();
    match (approves_last, &asked[..]) {
        (true, _) => Some(json!("before_rollout")),
        (false, []) => None,
        (false, asked) => Some(json!({"stages": asked})),
    }
}

/// What the template says of approvals and failures, where the strategy doesn't.
fn lead(root: &mut Node, template: &RolloutTemplate, names: &[String], at: At) {
    let approval = approval(template, names);
    let has_some = |found: &mut Node| !matches!(found.kind, NodeKind::Null);
    if !root.child("rollout").is_some_and(has_some) {
        let NodeKind::Mapping(pairs) = &mut root.kind else { return };
        pairs.retain(|(key, _)| !matches!(&key.kind, NodeKind::Scalar(key) if key == "rollout"));
        pairs.push((text("rollout", at), Node { at, kind: NodeKind::Mapping(Vec::new()) }));
    }
    let Some(rollout) = root.child("rollout") else { return };
    let mut give = |key: &str, value: &Value| {
        if rollout.child(key).is_none()
            && let NodeKind::Mapping(pairs) = &mut rollout.kind
        {
            pairs.push((text(key, at), node(value, at)));
        }
    };
    give("on_failure", &json!(word(template.on_failure)));
    if let Some(approval) = approval {
        give("approval", &approval);
    }
}

/// The text with what a name meant in its place.
pub(crate) fn freeze(text: &str, used: &Used) -> Option<String> {
    let line_at =
        text.split_inclusive('\n').take(used.at.line.checked_sub(1)? as usize).map(str::len).sum::<usize>();
    let column = used.at.column.checked_sub(1)? as usize;
    let line = text.get(line_at..)?;
    let start = line_at + line.char_indices().nth(column).map(|(at, _)| at)?;
    let rest = text.get(start..)?;
    let quotes = ["", "\"", "'"].into_iter().map(|quote| format!("{quote}{}{quote}", used.name));
    let written = quotes.into_iter().find(|written| rest.starts_with(written.as_str()))?;
    let mut frozen = text.get(..start)?.to_owned();
    frozen.push_str(&used.template.written_out().to_string());
    frozen.push_str(rest.get(written.len()..)?);
    Some(frozen)
}

fn node(value: &Value, at: At) -> Node {
    let kind = match value {
        Value::Null => NodeKind::Null,
        Value::Bool(truth) => NodeKind::Scalar(truth.to_string()),
        Value::Number(number) => NodeKind::Scalar(number.to_string()),
        Value::String(text) => NodeKind::Scalar(text.clone()),
        Value::Array(items) => NodeKind::Sequence(items.iter().map(|item| node(item, at)).collect()),
        Value::Object(pairs) => {
            NodeKind::Mapping(pairs.iter().map(|(key, value)| (text(key, at), node(value, at))).collect())
        }
    };
    Node { at, kind }
}

fn text(text: &str, at: At) -> Node {
    Node { at, kind: NodeKind::Scalar(text.to_owned()) }
}
