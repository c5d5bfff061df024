//! `POST /api/v1/intents`.

use axum::{Extension, Json, extract::State};

use crate::{
    Context,
    auth::CallingOperator,
    extract::{OptionalJson, acting},
    problem::Problem,
    scope::Scope,
};
use engine::intents::{Intent, Places, answer};
use protocol::api::{self, IntentAnswer, IntentAnswers, Intents, Note};

/// Most intents of a call.
const MAX_INTENTS: usize = 100;

/// Moves functions and resources by their logical ids, and cordons nodes.
///
/// Each is carried out after those before it, and answered by itself: one that is refused, for whatever reason, keeps none of the others
/// from being carried out. What is wanted already is accepted.
#[utoipa::path(post, path = "/api/v1/intents", operation_id = "carry_out_intents", tag = "workflows",
    request_body(content = Intents),
    responses((status = 200, body = IntentAnswers, description = "What became of each, in the same order.")))]
pub(super) async fn handle(
    State(ctx): State<Context>,
    scope: Scope,
    operator: Option<Extension<CallingOperator>>,
    OptionalJson(body): OptionalJson<Intents>,
) -> Result<Json<IntentAnswers>, Problem> {
    let Some(Intents { intents, by, note }) = body else {
        return Err(Problem::bad_request(
            "the body must be JSON: {\"intents\": [{\"intent\": \"intent:cordon:NODE\", \"value\": \"yes\"}]}",
        ));
    };
    if intents.len() > MAX_INTENTS {
        return Err(Problem::bad_request(format!("`intents` has at most {MAX_INTENTS} of them")));
    }
    let by = acting(operator.as_deref(), Note { by, note })?;
    let wanted: Vec<Result<Intent, String>> =
        intents.iter().map(|one| Intent::read(&one.intent, &one.value)).collect();
    let places = Places::of(&ctx.engine, wanted.iter().flatten(), scope.tenant().cloned()).await?;
    let mut answers = Vec::with_capacity(intents.len());
    for (api::Intent { intent, value }, wanted) in intents.into_iter().zip(&wanted) {
        let reason = answer(&ctx.engine, &intent, &value, wanted, &places, by.clone()).await?;
        answers.push(IntentAnswer { intent, value, accepted: reason.is_none(), reason });
    }
    Ok(Json(IntentAnswers { answers }))
}
