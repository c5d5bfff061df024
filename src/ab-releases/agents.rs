//! The target-group model: agents with the labels of a group run both versions side by side and share the calls among them. There is no
//! router, so an environment of this model has no ports.
//!
//! It becomes a strategy of one function. What the versions consist of comes from the archives that they name by digest, so each says
//! in which folder of its archive it is, and what runs it.

use std::fmt::Write as _;

use language::RolloutTemplate;
use protocol::ab_releases::{NewABRelease, TargetGroupSpec, TrafficSplit, VersionSpec};
use serde_json::{Map, Value, json};

use super::{Bound, Fault, shares::WHOLE, translate::sticky_form};

/// The part of the text that says who runs what, and how the share grows; what `rollout` says is added to that.
///
/// # Errors
///
/// The first field that can't be taken.
pub(super) fn text(
    body: &NewABRelease,
    bound: &Bound,
    split: &TrafficSplit,
    template: &RolloutTemplate,
    rollout: &mut Map<String, Value>,
) -> Result<String, Fault> {
    if body.variations.len() != 2 {
        let why =
            "agents run two versions of a function side by side: without a router there are two variations";
        return Err(Fault::new("variations", why));
    }
    let group = group(bound)?;
    let [base, new] = folders(bound, 1)?;
    let service = &bound.environment.service;
    let mut function = json!({"name": service, "base_version": base, "new_version": new});
    if split.header_match.is_some() {
        let why = "a header asks routers for a variation, and this environment has none";
        return Err(Fault::new("trafficSplit.headerMatch", why));
    }
    if let Some(key) = &split.sticky_key {
        function["sticky"] = sticky_form(key)?;
    }
    let (stages, lead) = template.spelled_out(|traffic| json!(traffic));
    let stages = stages.into_iter().enumerate().map(|(at, stage)| of_function(stage, at, service));
    let stages = stages.collect::<Result<Vec<Value>, Fault>>()?;
    // Agents go on together, so that somebody can be asked in between.
    rollout.insert("order".to_owned(), json!("global_incremental"));
    rollout.extend(lead.as_object().cloned().unwrap_or_default());
    let mut text = format!("target: {}\n", json!({"labels": group.labels}));
    let _ = writeln!(text, "functions: {}", json!([function]));
    let _ = writeln!(text, "stages: {}", Value::Array(stages));
    Ok(text)
}

/// Where the stable version and the new one of this place are, as a strategy has them.
///
/// # Errors
///
/// The version that agents can't run.
pub(super) fn folders(bound: &Bound, new: usize) -> Result<[Value; 2], Fault> {
    let field = |at: usize| format!("variations[{at}].releaseId");
    let version = |at: usize| {
        let version = bound.versions.get(at).ok_or_else(|| Fault::new(field(at), "it is not there"))?;
        let folder = folder(version).map_err(|why| Fault::new(field(at), why))?;
        Ok::<_, Fault>((version, folder))
    };
    let ((stable, base), (tried, other)) = (version(0)?, version(new)?);
    if base["path"] == other["path"] && stable.digest != tried.digest {
        let why = format!(
            "both versions are in the folder {}, of different archives: they need folders of different names",
            other["path"]
        );
        return Err(Fault::new(field(new), why));
    }
    Ok([base, other])
}

/// The target group of a variation, if it is of agents.
pub(super) fn group_of_agents(bound: &Bound, at: usize) -> Option<&TargetGroupSpec> {
    bound.groups.get(at).and_then(Option::as_ref).filter(|group| !group.labels.is_empty())
}

/// The one group that runs both variations.
fn group(bound: &Bound) -> Result<&TargetGroupSpec, Fault> {
    let of = |at: usize| bound.groups.get(at).and_then(Option::as_ref);
    let refused = |at: usize, why: String| Err(Fault::new(format!("variations[{at}].targetGroupId"), why));
    let named = &bound.environment.name;
    let Some(group) = group_of_agents(bound, 1) else {
        let why = format!(
            "environment {named} has no ports, so no router leads calls there: name a target group with the labels of agents"
        );
        return refused(1, why);
    };
    if of(0).is_some_and(|stable| stable.name != group.name) {
        let why = format!(
            "without a router nobody shares calls among groups: name {}, whose agents run both, or none",
            group.name
        );
        return refused(0, why);
    }
    Ok(group)
}

/// Where a version is, as a strategy has it.
fn folder(version: &VersionSpec) -> Result<Value, String> {
    let VersionSpec { name, digest, path, env, .. } = version;
    match (digest, path, env) {
        (Some(_), Some(path), Some(env)) => Ok(json!({"path": path, "env": env})),
        (None, ..) => {
            Err(format!("version {name} names no archive by its digest, so agents have nothing to run"))
        }
        (_, None, _) => Err(format!(
            "version {name} doesn't say in which folder of its archive it is: register it with a path"
        )),
        (.., None) => {
            Err(format!("version {name} doesn't say what runs it: register it with an env, as in nodejs"))
        }
    }
}

/// A stage that is spelled out for a service, whose share stands for itself, as one of a function.
fn of_function(mut stage: Value, at: usize, function: &str) -> Result<Value, Fault> {
    let field = || format!("rolloutStrategy.stages[{at}].trafficPercentage");
    let Some(form) = stage.as_object_mut() else { return Err(Fault::new(field(), "it is no stage")) };
    let share = form.remove("shares").and_then(|share| share.as_u64()).unwrap_or_default();
    if share == 0 || share % 100 != 0 || share > u64::from(WHOLE) {
        let why =
            "agents share calls out by whole percents, and prove a version by its calls: it is from 1 to 100";
        return Err(Fault::new(field(), why));
    }
    let new = share / 100;
    form.remove("healthy_targets");
    form.insert("type".to_owned(), json!("A/B"));
    form.insert("func_name".to_owned(), json!(function));
    let variant = |name: &str, share: u64| json!({"name": name, "trafficPercentage": share});
    form.insert(
        "variants".to_owned(),
        json!([variant("base_version", 100 - new), variant("new_version", new)]),
    );
    Ok(stage)
}
