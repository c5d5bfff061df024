//! What differs between two strategies, in lines.
//!
//! Functions and stages are shown in the words of the language; the blocks, which are many and deep, are walked as they
//! are stored, so that whatever a block learns to say is compared from then on. Where all of that is equal and the
//! strategies are not, the stored forms themselves are compared: nothing that a strategy says can be overlooked.

use std::{collections::BTreeSet, fmt::Display, time::Duration};

use indexmap::IndexMap;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use language::{
    Action, Amount, Condition, Metric, OnConflict, Operator, Service, Stage, StageKind, Statistic, Strategy,
    Subject, TargetArea,
};
use model::duration;

fn show(time: Duration) -> String {
    duration::show_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// One line for each thing that differs.
pub fn differences(a: &Strategy, b: &Strategy) -> Vec<String> {
    let mut lines = between(&flat(a), &flat(b));
    for (what, of) in [("stages", stage_names as fn(&Strategy) -> Vec<&str>), ("functions", function_names)] {
        let (old, new) = (of(a), of(b));
        if old != new && old.iter().collect::<BTreeSet<_>>() == new.iter().collect::<BTreeSet<_>>() {
            lines.push(format!("order of the {what}: {} → {}", old.join(", "), new.join(", ")));
        }
    }
    if lines.is_empty() && a != b {
        let whole = |strategy: &Strategy| {
            let mut flat = IndexMap::new();
            block("", strategy, &mut |key, value| {
                flat.insert(key, value);
            });
            flat
        };
        lines = between(&whole(a), &whole(b));
    }
    lines
}

fn stage_names(strategy: &Strategy) -> Vec<&str> {
    strategy.stages.iter().map(|stage| stage.name.as_str()).collect()
}

fn function_names(strategy: &Strategy) -> Vec<&str> {
    strategy.functions.iter().map(|function| function.name.as_str()).collect()
}

fn between(before: &IndexMap<String, String>, after: &IndexMap<String, String>) -> Vec<String> {
    let keys: Vec<&String> =
        before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))).collect();
    let mut lines = Vec::new();
    // Of something that is there on one side only, one line is enough.
    let mut whole: BTreeSet<&str> = BTreeSet::new();
    for key in keys {
        let is_within = |group: &&str| key.strip_prefix(*group).is_some_and(|rest| rest.starts_with(": "));
        if whole.iter().any(is_within) {
            continue;
        }
        match (before.get(key), after.get(key)) {
            (Some(old), Some(new)) if old != new => lines.push(format!("{key}: {old} → {new}")),
            (Some(old), None) => lines.push(one_sided("-", key, old, &mut whole)),
            (None, Some(new)) => lines.push(one_sided("+", key, new, &mut whole)),
            _ => {}
        }
    }
    lines
}

fn one_sided<'k>(sign: &str, key: &'k str, value: &str, whole: &mut BTreeSet<&'k str>) -> String {
    if value == PRESENT {
        whole.insert(key);
        format!("{sign} {key}")
    } else {
        format!("{sign} {key}: {value}")
    }
}

/// The value of an entry that only says that something is there.
const PRESENT: &str = "";

/// A strategy as names and values. What belongs together has the same text before the first colon.
fn flat(strategy: &Strategy) -> IndexMap<String, String> {
    let mut flat = IndexMap::new();
    let mut put = |key: String, value: &dyn Display| flat.insert(key, value.to_string());
    put("id".into(), &strategy.id.as_str());
    put("name".into(), &format!("{:?}", strategy.name));
    put("type".into(), &strategy.kind);
    put(
        "on_conflict".into(),
        &match strategy.on_conflict {
            OnConflict::Queue => "queue",
            OnConflict::Refuse => "refuse",
            OnConflict::Supersede => "supersede",
        },
    );
    let deadlines = &strategy.deadlines;
    for (name, time) in [
        ("offer_deadline", deadlines.offer),
        ("setup_grace", deadlines.setup_grace),
        ("stage_deadline", deadlines.stage),
    ] {
        put(name.into(), &time.map_or("the manager's".to_owned(), show));
    }
    for function in &strategy.functions {
        let name = format!("function {:?}", function.name);
        put(name.clone(), &PRESENT);
        if !function.agents.is_empty() {
            let labels = function.agents.iter().map(|(key, value)| format!("{key}={value}"));
            put(format!("{name}: agents"), &labels.collect::<Vec<_>>().join(", "));
        }
        for (version, what) in [("base version", &function.base), ("new version", &function.new)] {
            put(format!("{name}: {version}"), &format!("{} ({})", what.path, what.env));
        }
    }
    for service in &strategy.services {
        service_flat(service, &mut put);
    }
    if strategy.forward_up {
        put("forward_up".into(), &true);
    }
    for stage in &strategy.stages {
        stage_flat(strategy, stage, &mut put);
    }
    let mut put = |key: String, value: String| {
        flat.insert(key, value);
    };
    if let Some(target) = &strategy.target {
        put("target".to_owned(), PRESENT.to_owned());
        block("target", target, &mut put);
    }
    if let Some(rollout) = &strategy.rollout {
        put("rollout".to_owned(), PRESENT.to_owned());
        block("rollout", rollout, &mut put);
    }
    for (stage, analysis) in strategy.analyses() {
        let of = stage.and_then(|at| strategy.stages.get(at));
        let of = of.map_or("rollout".to_owned(), |stage| format!("stage {:?}", stage.name));
        let key = format!("{of}: analysis");
        put(key.clone(), PRESENT.to_owned());
        block(&key, analysis, &mut put);
    }
    flat
}

/// A block as it is stored, by path.
fn block(path: &str, value: &impl Serialize, put: &mut impl FnMut(String, String)) {
    // What has no JSON form can't have come from a file.
    walk(path, &serde_json::to_value(value).unwrap_or_default(), put);
}

fn walk(path: &str, value: &Value, put: &mut impl FnMut(String, String)) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}: {key}") };
    if let Some(text) = single(path, value) {
        put(path.to_owned(), text);
        return;
    }
    match value {
        // Blocks of analysis have lines of their own.
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| *key != "analysis" && !value.is_null())
            .for_each(|(key, value)| walk(&below(key), value, put)),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let name = item.get("name").and_then(Value::as_str);
                let name = name.map_or_else(|| (at + 1).to_string(), |name| format!("{name:?}"));
                if item.is_object() && single(path, item).is_none() {
                    put(below(&name), PRESENT.to_owned());
                }
                walk(&below(&name), item, put);
            }
        }
        _ => {}
    }
}

/// The text of what is one value to a person.
fn single(path: &str, value: &Value) -> Option<String> {
    let last = path.rsplit(": ").next().unwrap_or_default();
    match value {
        Value::Null => None,
        Value::Number(ms) if last == "start_ms" => {
            let at = ms.as_i64().and_then(|ms| Timestamp::from_millisecond(ms).ok());
            Some(at.map_or_else(|| ms.to_string(), |at| at.to_string()))
        }
        Value::Object(map) => span(map).or_else(|| amount(value)),
        Value::Array(_) if last == "area" => area(value),
        Value::Array(items) => {
            let plain = |item: &Value| match item {
                Value::Object(_) => amount(item),
                Value::Array(_) => None,
                item => single("", item),
            };
            let items: Option<Vec<String>> = items.iter().map(plain).collect();
            items.map(|items| format!("[{}]", items.join(", ")))
        }
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn span(map: &Map<String, Value>) -> Option<String> {
    let (secs, nanos) = (map.get("secs")?.as_u64()?, map.get("nanos")?.as_u64()?);
    Some(show(Duration::new(secs, u32::try_from(nanos).ok()?)))
}

fn amount(value: &Value) -> Option<String> {
    serde_json::from_value::<Amount>(value.clone()).ok().map(|amount| amount.to_string())
}

/// An area in a line that is another one for another area.
fn area(value: &Value) -> Option<String> {
    let TargetArea(polygons) = serde_json::from_value(value.clone()).ok()?;
    let corners: Vec<[f64; 2]> = polygons.iter().flatten().flatten().copied().collect();
    let most = |at: usize| corners.iter().map(|corner| corner[at]).fold(f64::NEG_INFINITY, f64::max);
    let least = |at: usize| corners.iter().map(|corner| corner[at]).fold(f64::INFINITY, f64::min);
    // All corners play a part in it, which a list of them would show to nobody.
    let mix = |sum: u64, at: &f64| (sum ^ at.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let sum = corners.iter().flatten().fold(0_u64, mix);
    Some(format!(
        "{} corners from {}, {} to {}, {} ({:06x})",
        corners.len(),
        least(0),
        least(1),
        most(0),
        most(1),
        sum & 0xff_ffff
    ))
}

fn stage_flat(
    strategy: &Strategy,
    stage: &Stage,
    put: &mut impl FnMut(String, &dyn Display) -> Option<String>,
) {
    let name = format!("stage {:?}", stage.name);
    put(name.clone(), &PRESENT);
    put(
        format!("{name}: type"),
        &match stage.kind {
            StageKind::AB if !stage.shares.is_empty() => "Traffic",
            StageKind::AB => "A/B",
            StageKind::WaitForSignal => "WaitForSignal",
        },
    );
    let subject = strategy.subject(stage.subject);
    put(format!("{name}: function"), &subject.map_or("?", Subject::key));
    match subject {
        Some(Subject::Service(service)) => {
            let each = service.variations.iter().zip(&stage.shares);
            let each = each.map(|(of, share)| format!("{} {} %", of.name, f64::from(*share) / 100.0));
            put(format!("{name}: shares"), &each.collect::<Vec<_>>().join(", "));
            if stage.with_next {
                put(format!("{name}: begins"), &"with the next one");
            }
            if let Some(least) = stage.healthy_targets {
                put(format!("{name}: healthy targets"), &format!("{} %", f64::from(least) / 100.0));
            }
        }
        Some(Subject::Function(_)) | None => {
            put(format!("{name}: traffic of the new version"), &format!("{} %", stage.new_traffic));
        }
    }
    put(format!("{name}: at least"), &format!("{} and {} calls", show(stage.min_duration), stage.min_calls));
    let conditions: Vec<String> = stage.conditions.iter().map(condition).collect();
    put(format!("{name}: conditions"), &format!("[{}]", conditions.join(", ")));
    for (when, action) in [("on success", stage.on_success), ("on failure", stage.on_failure)] {
        let action = match action {
            Action::Rollout => "rollout",
            Action::Rollback => "rollback",
            Action::Stage(index) => strategy.stages.get(index).map_or("?", |stage| &stage.name),
        };
        put(format!("{name}: {when}"), &action);
    }
}

fn service_flat(service: &Service, put: &mut impl FnMut(String, &dyn Display) -> Option<String>) {
    let name = format!("service {:?}", service.name());
    put(name.clone(), &PRESENT);
    // What it says beside its variations, as it is kept: whoever compares wants to see that it differs.
    let mut rest = service.clone();
    rest.variations.clear();
    rest.runs.clear();
    put(format!("{name}: routing"), &serde_json::to_string(&rest).unwrap_or_default());
    for variation in &service.variations {
        let targets = variation.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let run = service.runs.get(variation.name.as_str());
        let run = run.map(|run| serde_json::to_string(run).unwrap_or_default());
        put(format!("{name}: variation {}", variation.name), &run.unwrap_or(targets));
        if let Some(health) = &variation.health {
            let health = serde_json::to_string(health).unwrap_or_default();
            put(format!("{name}: health of {}", variation.name), &health);
        }
    }
}

fn condition(condition: &Condition) -> String {
    let metric = match condition.metric {
        Metric::ErrorRate => "errorRate".to_owned(),
        Metric::ResponseTime(Statistic::Median) => "Median".to_owned(),
        Metric::ResponseTime(Statistic::Minimum) => "Minimum".to_owned(),
        Metric::ResponseTime(Statistic::Maximum) => "Maximum".to_owned(),
        Metric::ResponseTime(Statistic::Quantile(share)) => format!("P{}", share * 100.0),
    };
    let operator = match condition.operator {
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
        Operator::Equal => "==",
    };
    format!("{metric} {operator} {}", condition.threshold)
}
