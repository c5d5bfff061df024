//! `POST /api/v1/children/{id}/uncordon`.

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

/// Lets a child take part in releases again.
#[utoipa::path(post, path = "/api/v1/children/{id}/uncordon", operation_id = "uncordon_child", tag = "children",
    params(("id" = String, Path, description = "The id of the child.")),
    request_body(content = Option<Note>),
    responses((status = 200, body = Child, description = "Done, or it was so already.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path(id): Path<String>,
    Acting(by): Acting,
) -> Result<Json<Child>, Problem> {
    let command = Command::Children(children::Command::Cordon { child: id.clone(), cordon: Cordon::Open });
    act(&ctx, &scope, &id, command, by).await
}
