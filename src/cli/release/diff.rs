//! `choirmaster release diff`: what differs between two releases.

use std::{collections::BTreeSet, fmt::Display, io::Write, path::Path};

use indexmap::IndexMap;
use serde_json::json;

use super::submit::read_strategy;
use crate::{
    cli::{
        client::{Client, Connection},
        failure::Failure,
        show,
    },
    config::Setting as _,
    strategy::{
        self, Action, Condition, Metric, OnConflict, Operator, Stage, StageKind, Statistic, Strategy,
    },
    wire::api::ReleaseDetail,
};

/// Exit code of --exit-code where something differs.
const DIFFERENT: u8 = 3;

/// Show what differs between the strategies of two releases.
///
/// What counts is what the strategies mean: comments, order of keys and spelling of numbers make no difference.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  choirmaster release diff canary canary-2\n  \
                        choirmaster release diff canary.yml        against the release of the id in the file\n  \
                        choirmaster release diff canary ./new.yml")]
pub struct Args {
    /// A release's id, or a strategy file
    #[arg(value_name = "A")]
    a: String,
    /// Another; may be left out if A is a file
    #[arg(value_name = "B")]
    b: Option<String>,
    /// End with 3 if something differs
    #[arg(long)]
    exit_code: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// One of the two.
struct Side {
    label: String,
    strategy: Strategy,
    /// Unknown of a file.
    functions: Option<String>,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let (a, b) = match &args.b {
        Some(b) => (side(&client, &args.a).await?, side(&client, b).await?),
        None if is_file(&args.a) => {
            let file = from_file(&args.a)?;
            (of_release(&client, file.strategy.id.as_str()).await?, file)
        }
        None => return Err(Failure::user("name a second release or file to compare with")),
    };
    let mut lines = differences(&a.strategy, &b.strategy);
    if let (Some(before), Some(after)) = (&a.functions, &b.functions)
        && before != after
    {
        lines.push("functions: the files differ".to_owned());
    }
    if args.json {
        show::json(out, &json!({"a": a.label, "b": b.label, "differences": lines}))?;
    } else if lines.is_empty() {
        writeln!(out, "{} and {} say the same", a.label, b.label)?;
    } else {
        writeln!(out, "from {} to {}", a.label, b.label)?;
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    Ok(if args.exit_code && !lines.is_empty() { DIFFERENT } else { 0 })
}

fn is_file(name: &str) -> bool {
    Path::new(name).is_file() || name.contains('/') || name == "-"
}

async fn side(client: &Client, name: &str) -> Result<Side, Failure> {
    if is_file(name) { from_file(name) } else { of_release(client, name).await }
}

fn from_file(file: &str) -> Result<Side, Failure> {
    let checked = strategy::check_bytes(&read_strategy(file)?);
    let Some(strategy) = checked.strategy else {
        let faults: Vec<String> = checked.diagnostics.iter().map(|fault| fault.render(file)).collect();
        return Err(Failure::user(format!("{file} has faults\n\n{}", faults.join("\n\n"))));
    };
    Ok(Side { label: file.to_owned(), strategy, functions: None })
}

async fn of_release(client: &Client, id: &str) -> Result<Side, Failure> {
    let detail: ReleaseDetail = client.get(&["api", "v1", "releases", id], &[]).await?;
    let strategy = strategy::check_stored(&detail.strategy).strategy.ok_or_else(|| {
        Failure::ours(format!(
            "the strategy of {id} is not one that this program knows: use the manager's version"
        ))
    })?;
    Ok(Side { label: format!("release {id}"), strategy, functions: Some(detail.functions_digest) })
}

/// One line for each thing that differs.
pub fn differences(a: &Strategy, b: &Strategy) -> Vec<String> {
    let (before, after) = (flat(a), flat(b));
    let keys: Vec<&String> =
        before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))).collect();
    let mut lines = Vec::new();
    // Of something that is there on one side only, one line is enough.
    let mut whole: BTreeSet<&str> = BTreeSet::new();
    for key in keys {
        let group = key.split_once(": ").map(|(group, _)| group);
        if group.is_some_and(|group| whole.contains(group)) {
            continue;
        }
        match (before.get(key), after.get(key)) {
            (Some(old), Some(new)) if old != new => lines.push(format!("{key}: {old} → {new}")),
            (Some(old), None) => lines.push(one_sided("-", key, old, &mut whole)),
            (None, Some(new)) => lines.push(one_sided("+", key, new, &mut whole)),
            _ => {}
        }
    }
    let order =
        |strategy: &Strategy| strategy.stages.iter().map(|stage| stage.name.clone()).collect::<Vec<_>>();
    let (old, new) = (order(a), order(b));
    if old != new && old.iter().collect::<BTreeSet<_>>() == new.iter().collect::<BTreeSet<_>>() {
        lines.push(format!("order of the stages: {} → {}", old.join(", "), new.join(", ")));
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
        put(name.into(), &time.map_or("the manager's".to_owned(), |time| time.show()));
    }
    for function in &strategy.functions {
        let name = format!("function {:?}", function.name);
        put(name.clone(), &PRESENT);
        for (version, what) in [("base version", &function.base), ("new version", &function.new)] {
            put(format!("{name}: {version}"), &format!("{} ({})", what.path, what.env));
        }
    }
    for stage in &strategy.stages {
        stage_flat(strategy, stage, &mut put);
    }
    flat
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
            StageKind::AB => "A/B",
            StageKind::WaitForSignal => "WaitForSignal",
        },
    );
    let function = strategy.functions.get(stage.function).map_or("?", |function| &function.name);
    put(format!("{name}: function"), &function);
    put(format!("{name}: traffic of the new version"), &format!("{} %", stage.new_traffic));
    put(format!("{name}: at least"), &format!("{} and {} calls", stage.min_duration.show(), stage.min_calls));
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
