//! What can be done to a release.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/v1/releases/{id}/actions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseActions {
    pub id: String,
    /// The release that all of this is said of. Sent as `If-Match: "TAG"`, it keeps an action from meeting another one.
    pub tag: String,
    pub state: String,
    /// Whether the strategy wants a note with each of them.
    #[serde(default)]
    pub note_required: bool,
    /// Everything that is done to a release as a whole, also what can't be done now.
    pub actions: Vec<ReleaseAction>,
}

/// Something that is done to a release as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseAction {
    /// `approve`, `pause`, `resume`, `promote`, `skip`, `retry`, `extend` or `abort`: what is called below the release.
    pub action: String,
    /// The stage that is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// How far it is promoted: to the next `gate`, or through `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether it would do something now, if the caller did it.
    pub can: bool,
    /// Why not: what whoever tries is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the token is good for it.
    pub allowed: bool,
    /// What it would do, in a sentence.
    pub does: String,
    /// Agents that it would reach, those below managers among them. An action that can't be done reaches none, and of one that the token is not
    /// good for nobody is counted.
    pub agents: u32,
    /// The first and the last of their waves, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<[u32; 2]>,
    /// The box around the middles of their areas: west, south, east, north, in degrees. West of more than east is a box across the
    /// antimeridian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<f64>>)]
    pub bounds: Option<[f64; 4]>,
    /// A few of their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
}
