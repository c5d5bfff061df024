//! `POST /api/v1/children/{id}/cordon`.

use axum::{Json, extract::State};

use super::act::act;
use crate::{
    Context,
    extract::{Acting, Path},
    problem::Problem,
    scope::Scope,
};
use domain::children;
use domain::release::command::Command;
use model::Cordon;
use protocol::api::{Child, Note};

/// Keeps a child out of releases that start from now on.
#[utoipa::path(post, path = "/api/v1/children/{id}/cordon", operation_id = "cordon_child", tag = "children",
    params(("id" = String, Path, description = "The id of the child.")),
    request_body(content = Option<Note>),
    responses((status = 200, body = Child, description = "Done, or it was so already.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Acting(by): Acting,
) -> Result<Json<Child>, Problem> {
    let command =
        Command::Children(children::Command::Cordon { child: id.clone(), cordon: Cordon::Cordoned });
    act(&ctx, &scope, &id, command, by).await
}
