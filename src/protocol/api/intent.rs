//! What programs want of workflows and nodes: `/api/v1/intents`.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, DeserializeOwned},
};
use utoipa::ToSchema;

/// The body of `POST /api/v1/intents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Intents {
    /// They are carried out in their order.
    #[schema(max_items = 100)]
    #[serde(deserialize_with = "objects")]
    pub intents: Vec<Intent>,
    /// Who acts, for the audit trail; the token's name where there is one.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(default)]
    pub by: Option<String>,
    /// Why.
    #[schema(max_length = 1000, pattern = r"^[^\u0000]*$")]
    #[serde(default)]
    pub note: Option<String>,
}

/// By names alone: a list of the values of one would be taken for it, too.
fn objects<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let all = Vec::<serde_json::Map<String, serde_json::Value>>::deserialize(deserializer)?;
    let read = |one| T::deserialize(serde_json::Value::Object(one)).map_err(de::Error::custom);
    all.into_iter().map(read).collect()
}

/// What is wanted of a function, a resource or a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// `intent:migrate:LOGICAL`, with the logical id of a function or a resource, or `intent:cordon:NODE`.
    pub intent: String,
    /// Of `migrate` ids of nodes with commas between them: it moves to the first of them that may run it. Of `cordon` `yes` or `no`.
    pub value: String,
}

/// `POST /api/v1/intents`: an answer for each, in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntentAnswers {
    pub answers: Vec<IntentAnswer>,
}

/// What became of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntentAnswer {
    pub intent: String,
    pub value: String,
    /// What it changes is committed.
    pub accepted: bool,
    /// Why it was refused.
    pub reason: Option<String>,
}
