//! `DELETE /api/v1/children/{id}/labels/{key}`.

use axum::{Json, extract::State};

use super::{act::act, tenant_labels};
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
};
use domain::children;
use domain::release::command::Command;
use protocol::api::{Child, Note};

/// Removes a label that an operator gave. One that the child reports shows again.
#[utoipa::path(delete, path = "/api/v1/children/{id}/labels/{key}", operation_id = "unlabel_child",
    tag = "children",
    params(
        ("id" = String, Path, description = "The id of the child."),
        ("key" = String, Path, description = "The label's key."),
    ),
    request_body(content = Option<Note>),
    responses((status = 200, body = Child, description = "Removed, or it was not there.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path((id, key)): Path<(String, String)>,
    Acting(by): Acting,
) -> Result<Json<Child>, Problem> {
    tenant_labels::may_give(&ctx, &scope, &id, &key, None).await?;
    let command = Command::Children(children::Command::Label { child: id.clone(), key, value: None });
    act(&ctx, &scope, &id, command, by).await
}
