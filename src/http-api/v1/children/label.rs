//! `PUT /api/v1/children/{id}/labels/{key}`.

use axum::{Extension, Json, extract::State};

use super::{act::act, tenant_labels};
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    extract::{OptionalJson, Path, acting},
    problem::Problem,
    scope::Scope,
};
use domain::children;
use domain::release::command::{Command, Refusal};
use protocol::{
    api::{Child, LabelValue, Note},
    child::{MAX_LABEL_BYTES, MAX_LABELS},
};

/// Gives a child a label. It wins over one of the same key that the child reports.
#[utoipa::path(put, path = "/api/v1/children/{id}/labels/{key}", operation_id = "label_child", tag = "children",
    params(
        ("id" = String, Path, description = "The id of the child."),
        ("key" = String, Path, description = "The label's key."),
    ),
    request_body(content = LabelValue),
    responses((status = 200, body = Child)))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    Path((id, key)): Path<(String, String)>,
    operator: Option<Extension<CallingOperator>>,
    OptionalJson(body): OptionalJson<LabelValue>,
) -> Result<Json<Child>, Problem> {
    let Some(LabelValue { value, by, note }) = body else {
        return Err(Problem::bad_request("the body must be JSON: {\"value\": \"edge\"}"));
    };
    let by = acting(operator.as_deref(), Note { by, note })?;
    for (what, text) in [("key", &key), ("value", &value)] {
        if text.len() > MAX_LABEL_BYTES
            || text.chars().any(char::is_control)
            || (what == "key" && text.is_empty())
        {
            let detail =
                format!("a label's {what} has at most {MAX_LABEL_BYTES} bytes and no control characters");
            return Err(Problem::bad_request(detail));
        }
    }
    refuse_one_more(&ctx, &id, &key).await?;
    // Held until it is there.
    let _turn = tenant_labels::may_give(&ctx, &scope, &id, &key, Some(&value)).await?;
    let command = Command::Children(children::Command::Label { child: id.clone(), key, value: Some(value) });
    act(&ctx, &scope, &id, command, by).await
}

/// Keeps the labels of a child within bounds. Two calls at once may go over by one, which does no harm.
async fn refuse_one_more(ctx: &Context, id: &str, key: &str) -> Result<(), Problem> {
    let (id, key) = (id.to_owned(), key.to_owned());
    let full = ctx.engine.read(PATIENCE, move |state| {
        let labels = state.children.by_id(&id).and_then(|(_, child)| child.labels.as_ref());
        labels.is_some_and(|labels| labels.len() >= MAX_LABELS && !labels.contains_key(&key))
    });
    if full.await? {
        Err(Refusal::Limit { what: "labels of a child", limit: MAX_LABELS }.into())
    } else {
        Ok(())
    }
}
