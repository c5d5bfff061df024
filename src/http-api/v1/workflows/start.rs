//! `POST /api/v1/workflows`.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::StatusCode,
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{
    form::{refusal, show},
    plan::{invalid, named_strategy, unstartable},
};
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{Query, acting},
    problem::Problem,
    scope::Scope,
    v1::releases::upload::{self, Upload},
};
use domain::workflows::{NewWorkflow, Secret};
use language::functions::{self, Archive, NamedFolder};
use model::ReleaseId;
use placement::Workflow;
use protocol::api::{self, Note, WorkflowDetail};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parameters {
    /// What the workflow is to be called: letters, digits, `_` and `-`.
    name: String,
    /// How one of several nodes is chosen: `random`, `round_robin`, `spread` or `nearest`; without it as the configuration says.
    strategy: Option<String>,
    /// The tenant whose workflow it is, if it is started with a token that is bound to none.
    tenant: Option<String>,
    /// Who acts; the name of the token counts.
    by: Option<String>,
    /// Why.
    note: Option<String>,
}

/// A workflow and its functions.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form")]
pub struct WorkflowParts {
    /// As a `workflow.json` of EDGELESS.
    workflow: String,
    /// A zip of the folders of its functions. Without it they are taken from the manager's own folder.
    #[schema(value_type = Option<String>, format = Binary)]
    functions: Option<Vec<u8>>,
}

/// Starts a workflow: each of its functions is placed on a node that may run it, and kept there.
///
/// What no node may run now waits for one.
#[utoipa::path(post, path = "/api/v1/workflows", operation_id = "start_workflow", tag = "workflows",
    params(Parameters),
    request_body(content((serde_json::Value = "application/json"), (WorkflowParts = "multipart/form-data")),
        description = "The workflow, alone or with a zip of its functions."),
    responses(
        (status = 201, body = WorkflowDetail),
        (status = 409, body = api::Problem, content_type = "application/problem+json",
            description = "There is a workflow of this name."),
        (status = 413, body = api::Problem, content_type = "application/problem+json", description = "Too large."),
        (status = 422, body = api::Problem, content_type = "application/problem+json",
            description = "The workflow has faults; they are in the detail."),
    ))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    operator: Option<Extension<CallingOperator>>,
    caller: Scope,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Result<(StatusCode, Json<WorkflowDetail>), Problem> {
    let Parameters { name, strategy, tenant, by, note } = parameters;
    let scope = caller.acting_for(&ctx.view().tenants, tenant.as_deref())?;
    let by = acting(operator.as_deref(), Note { by, note })?;
    let bad_name = |why: String| Problem::bad_request(format!("`name`: {why}"));
    ReleaseId::parse(&name).map_err(|error| bad_name(error.to_string()))?;
    // Nodes call its functions NAME.FUNCTION, and no two of them alike.
    if name.contains(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c))) {
        return Err(bad_name("it has letters, digits, _ and -".to_owned()));
    }
    let strategy = strategy.as_deref().map(named_strategy).transpose()?;
    let upload = upload::read_workflow(&ctx, request).await?;
    let (preparing, whose) = (ctx.clone(), scope.clone());
    let prepared = ctx.in_turn(move || prepare(&upload, &preparing, &whose)).await??;
    let Prepared { definition, text, archive } = prepared;
    let id = scope.release(&name);
    let parts = definition.functions.len() + definition.resources.len();
    let new = NewWorkflow {
        id,
        definition: Arc::new(definition),
        text,
        types: Arc::new(ctx.settings.function_types.clone()),
        archive: Some(archive.digest),
        secret: Secret(rand::random()),
        strategy,
        above: None,
        logical: (0..parts).map(|_| new_id()).collect(),
        by: by.actor.name(),
    };
    let started = ctx.engine.start_workflow(Box::new(new), archive.bytes, rand::random(), by, PATIENCE).await;
    started.map_err(|error| refusal(error, &name))?;
    Ok((StatusCode::CREATED, show(&ctx, scope, name).await?))
}

/// A UUID by chance.
fn new_id() -> Box<str> {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string().into()
}

struct Prepared {
    definition: Workflow,
    text: Arc<str>,
    archive: Archive,
}

/// Checks a workflow, and packs the folders of its functions.
fn prepare(upload: &Upload, ctx: &Context, scope: &Scope) -> Result<Prepared, Problem> {
    let settings = &ctx.settings;
    let read = Workflow::read(&upload.strategy, &settings.function_types);
    let (definition, _) = read.map_err(|faults| invalid(&faults))?;
    let faults = unstartable(&definition);
    if !faults.is_empty() {
        return Err(invalid(&faults));
    }
    let folder = |function: &placement::Function| Some((function.name.clone(), function.folder().ok()?));
    let wanted: Vec<NamedFolder> = definition.functions.iter().filter_map(folder).collect();
    let limits = &settings.archive_limits;
    let archive = if let Some(zip) = &upload.functions {
        functions::folders_from_upload(zip, &wanted, limits)?
    } else {
        let root = scope.functions_root(&settings.functions_root);
        functions::folders_from_folder(&root, &wanted, limits)?
    };
    let text = String::from_utf8_lossy(&upload.strategy).into();
    Ok(Prepared { definition, text, archive })
}
