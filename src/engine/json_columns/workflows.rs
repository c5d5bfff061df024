//! The stored forms of workflows and their parts.

use std::{collections::BTreeMap, sync::Arc};

use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine as _};
use serde::{Deserialize, Serialize};

use super::{bad, form::Version, json, read};
use crate::load::digest;
use domain::workflows::{Above, Instance, Part, PartKey, Phase, Secret, Target, Workflow, WorkflowKey};
use model::{ChildKey, Now};
use placement::{FunctionTypes, Strategy};
use store::{
    StoreError,
    rows::{WorkflowPartRow, WorkflowRow},
};

/// `workflows.detail`.
#[derive(Serialize, Deserialize)]
struct WorkflowForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    first_part: u32,
    /// Which runtime runs which type of functions.
    types: BTreeMap<String, String>,
    wall_ms: i64,
    served_ms: u64,
    by: String,
    stopping: bool,
    /// Base64.
    secret: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    above: Option<AboveForm>,
}

#[derive(Serialize, Deserialize)]
struct AboveForm {
    name: String,
    key: String,
    prepares: bool,
    source: bool,
    outputs: BTreeMap<String, TargetForm>,
}

#[derive(Serialize, Deserialize)]
struct TargetForm {
    part: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    key: String,
}

/// `workflow_parts.detail`.
#[derive(Serialize, Deserialize)]
struct PartForm {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    version: Version<1>,
    logical: Box<str>,
    placed: u32,
    #[serde(default)]
    tried_ms: u64,
    #[serde(default)]
    failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<InstanceForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<InstanceForm>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    leaving: Vec<InstanceForm>,
}

#[derive(Serialize, Deserialize)]
struct InstanceForm {
    id: Box<str>,
    node: u32,
    phase: PhaseForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<Box<str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PhaseForm {
    Placed,
    Starting,
    Ready,
    Running,
    Failed,
}

pub(crate) fn workflow_row(workflow: &Workflow) -> Result<WorkflowRow, StoreError> {
    let form = WorkflowForm {
        version: Version::NOW,
        first_part: workflow.first.0,
        types: workflow.types.0.clone(),
        wall_ms: workflow.since.wall_ms,
        served_ms: workflow.since.served_ms,
        by: workflow.by.clone(),
        stopping: workflow.is_stopping,
        secret: BASE64_STANDARD_NO_PAD.encode(workflow.secret.0),
        strategy: workflow.strategy.map(|strategy| strategy.name().to_owned()),
        above: workflow.above.as_deref().map(above_form),
    };
    Ok(WorkflowRow {
        workflow_key: workflow.key.0,
        id: workflow.id.clone(),
        archive: workflow.archive.map(Vec::from).unwrap_or_default(),
        definition: workflow.text.to_string(),
        detail: json(&form)?,
    })
}

pub(crate) fn workflow(row: WorkflowRow) -> Result<Workflow, StoreError> {
    let key = row.workflow_key;
    let form: WorkflowForm = read("workflows", key, "detail", &row.detail)?;
    let types = FunctionTypes(form.types);
    let definition = placement::Workflow::read(row.definition.as_bytes(), &types).map_err(|faults| {
        let first = faults.first().map(ToString::to_string).unwrap_or_default();
        bad("workflows", key, "definition", first)
    })?;
    let archive = match &*row.archive {
        [] => None,
        bytes => Some(digest("workflows", key, "archive", bytes)?),
    };
    let secret = BASE64_STANDARD_NO_PAD.decode(&form.secret).unwrap_or_default();
    let secret = Secret(digest("workflows", key, "detail", &secret)?);
    let named = |name: &String| {
        Strategy::named(name)
            .ok_or_else(|| bad("workflows", key, "detail", format!("{name:?} is no strategy")))
    };
    let strategy = form.strategy.as_ref().map(named).transpose()?;
    Ok(Workflow {
        key: WorkflowKey(key),
        id: row.id,
        definition: Arc::new(definition.0),
        text: row.definition.into(),
        types: Arc::new(types),
        archive,
        secret,
        first: PartKey(form.first_part),
        since: Now { wall_ms: form.wall_ms, served_ms: form.served_ms },
        by: form.by,
        is_stopping: form.stopping,
        strategy,
        above: form.above.map(above).map(Arc::new),
    })
}

fn above_form(above: &Above) -> AboveForm {
    let Above { name, key, prepares, is_source, outputs } = above.clone();
    let target = |(output, Target { part, url, key })| (output, TargetForm { part, url, key });
    AboveForm { name, key, prepares, source: is_source, outputs: outputs.into_iter().map(target).collect() }
}

fn above(form: AboveForm) -> Above {
    let AboveForm { name, key, prepares, source, outputs } = form;
    let target = |(output, TargetForm { part, url, key })| (output, Target { part, url, key });
    Above { name, key, prepares, is_source: source, outputs: outputs.into_iter().map(target).collect() }
}

pub(crate) fn part_row(key: PartKey, part: &Part) -> Result<WorkflowPartRow, StoreError> {
    let form = PartForm {
        version: Version::NOW,
        logical: part.logical.clone(),
        placed: part.placed,
        tried_ms: part.tried_ms,
        failures: part.failures,
        instance: part.instance.as_ref().map(instance_form),
        next: part.next.as_ref().map(instance_form),
        leaving: part.leaving.iter().map(instance_form).collect(),
    };
    Ok(WorkflowPartRow { part_key: key.0, workflow_key: part.workflow.0, detail: json(&form)? })
}

fn instance_form(instance: &Instance) -> InstanceForm {
    let (phase, why) = match &instance.phase {
        Phase::Placed => (PhaseForm::Placed, None),
        Phase::Starting => (PhaseForm::Starting, None),
        Phase::Ready => (PhaseForm::Ready, None),
        Phase::Running => (PhaseForm::Running, None),
        Phase::Failed(why) => (PhaseForm::Failed, Some(why.clone())),
    };
    InstanceForm { id: instance.id.clone(), node: instance.node.0, phase, why, url: instance.url.clone() }
}

pub(crate) fn part(row: &WorkflowPartRow) -> Result<(PartKey, Part), StoreError> {
    let form: PartForm = read("workflow_parts", row.part_key, "detail", &row.detail)?;
    let part = Part {
        workflow: WorkflowKey(row.workflow_key),
        logical: form.logical,
        instance: form.instance.map(instance),
        next: form.next.map(instance),
        leaving: form.leaving.into_iter().map(instance).collect(),
        placed: form.placed,
        tried_ms: form.tried_ms,
        failures: form.failures,
    };
    Ok((PartKey(row.part_key), part))
}

fn instance(form: InstanceForm) -> Instance {
    let phase = match form.phase {
        PhaseForm::Placed => Phase::Placed,
        PhaseForm::Starting => Phase::Starting,
        PhaseForm::Ready => Phase::Ready,
        PhaseForm::Running => Phase::Running,
        PhaseForm::Failed => Phase::Failed(form.why.unwrap_or_default()),
    };
    Instance { id: form.id, node: ChildKey(form.node), phase, url: form.url }
}
