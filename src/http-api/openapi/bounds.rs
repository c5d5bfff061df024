//! What the parameters of calls accept, by their names: the same name means the same everywhere.
//!
//! A table, and not an attribute beside each of dozens of fields, so that no list can forget what its `limit` is.

use serde_json::{Map, Value, json};

use crate::{
    extract::{MAX_NOTE_CHARS, MAX_OPERATOR_CHARS},
    v1::{
        MAX_LIMIT,
        releases::{actions, list_query::MAX_NAME_CHARS},
    },
};
use ab_releases::Status;
use domain::release::state::ReleaseState;
use engine::questions::releases::Sort;
use model::{ChildKind, ChildStatus, MAX_OFFER_ID_LEN, MAX_RELEASE_ID_LEN, Outcome, traffic::RouterPhase};
use protocol::child::{MAX_HISTOGRAM_CALLS, MAX_LABEL_BYTES};

/// Durations: whole numbers with units.
const DURATION: &str = "^([0-9]{1,6}(d|h|m|s|ms)){1,8}$";

/// A duration of one unit.
const SILENCE: &str = "^[0-9]{1,3}[smhd]$";

/// A duration above 0 and up to a day, of one unit.
const WITHIN_A_DAY: &str = "^([1-9][0-9]{0,3}s|[1-9][0-9]{0,2}m|([1-9]|1[0-9]|2[0-4])h)$";

/// No control characters.
pub(super) const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

const NO_NUL: &str = "^[^\\u0000]*$";

/// Keys of pages; empty is the first one.
const NUMBER: &str = "^[0-9]{0,9}$";
const PLACE: &str = "^([0-9]{1,18}-[0-9]{1,9})?$";
/// A look at a map: epoch and generation.
const LOOK: &str = "^([0-9]{1,16}-[0-9]{1,9})?$";
const WINDOW: &str = "^([0-9]{1,9}(-[0-9]{1,9}:[0-9]{1,4})?)?$";
const DEPLOYMENT: &str = "^[0-9]{1,9}:[^\\u0000]*$";

/// A point or a box in degrees.
const AREA: &str = "^-?[0-9]{1,3}(\\.[0-9]{1,15})?(,-?[0-9]{1,3}(\\.[0-9]{1,15})?){1}((,-?[0-9]{1,3}(\\.[0-9]{1,15})?){2})?$";

/// Four numbers of degrees.
const BOX: &str = "^(-?[0-9]{1,3}(\\.[0-9]{1,15})?(,-?[0-9]{1,3}(\\.[0-9]{1,15})?){3})?$";

/// Ids of releases.
const RELEASE_ID: &str = "^[A-Za-z0-9._~-]+$";

/// Entity tags in their quotes, or `*`; none at all match nothing.
const TAGS: &str = "^(\\*|(W/)?\"[!#-+\\u002d-\\u007e]*\"(,(W/)?\"[!#-+\\u002d-\\u007e]*\"){0,15})?$";

/// Names of states, with commas between.
fn states() -> String {
    let one = ReleaseState::NAMES.join("|");
    format!("^({one})(,({one}))*$")
}

/// The keywords that hold for a parameter of this name, in this operation.
fn of(name: &str, operation: &str) -> Option<Value> {
    let statuses: Vec<&str> = ChildStatus::ALL.iter().map(|status| status.name()).collect();
    Some(match (name, operation) {
        ("limit", _) => json!({"minimum": 1, "maximum": MAX_LIMIT}),
        ("wait", _) => json!({"pattern": DURATION}),
        ("for", "extend_analysis") => json!({"pattern": WITHIN_A_DAY}),
        ("calls", "extend_analysis") => json!({"minimum": 1, "maximum": MAX_HISTOGRAM_CALLS}),
        ("silent_for", _) => json!({"pattern": SILENCE}),
        ("by", _) => json!({"minLength": 1, "maxLength": MAX_OPERATOR_CHARS, "pattern": PRINTABLE}),
        ("note", _) => json!({"maxLength": MAX_NOTE_CHARS, "pattern": NO_NUL}),
        ("after", "list_audit" | "events" | "show_release_traffic") => json!({"pattern": PLACE}),
        ("after", "list_deployments") => json!({"pattern": DEPLOYMENT}),
        (
            "after",
            "list_services"
            | "list_environments"
            | "list_target_groups"
            | "list_versions"
            | "list_registered_releases"
            | "show_canary_folder",
        ) => json!({}),
        ("environmentId", _) | ("variation", "promote_release") | ("release", "list_canary_releases") => {
            json!({})
        }
        ("phase", "list_routers") => json!({"enum": RouterPhase::ALL.map(RouterPhase::name)}),
        ("after", "release_map_changes") => json!({"pattern": LOOK}),
        ("Last-Event-ID", "release_map_changes") => json!({"pattern": LOOK, "maxLength": MAX_OFFER_ID_LEN}),
        ("columns", "show_map_cells" | "show_release_map_cells") => json!({"minimum": 1, "maximum": 60}),
        ("box", _) => json!({"pattern": BOX}),
        ("If-Match", _) => json!({"pattern": TAGS}),
        ("new_id", "roll_back_release") => json!({"pattern": RELEASE_ID, "maxLength": MAX_RELEASE_ID_LEN}),
        ("to", "promote_release") => json!({"enum": ["all", "gate"]}),
        ("number", "show_router_order") => json!({"minimum": 0}),
        ("after", "list_releases") => json!({"pattern": WINDOW}),
        ("after", _) => json!({"pattern": NUMBER}),
        ("label", _) => json!({"pattern": "^[^:]*:"}),
        ("kind", _) => json!({"enum": ChildKind::NAMES}),
        ("cordon", _) => json!({"enum": ["open", "cordoned", "drained"]}),
        ("children", "plan_release") => json!({"enum": ["none", "participants", "all"]}),
        ("status", "list_ab_releases") => json!({"enum": Status::NAMES}),
        ("state", "list_releases") => json!({"pattern": states()}),
        ("action", "list_release_actions") => json!({"enum": actions::NAMES}),
        ("sort", "list_releases") => json!({"enum": Sort::NAMES}),
        ("name", "list_releases") | ("named", _) => json!({"maxLength": MAX_NAME_CHARS}),
        ("area", "list_releases") => json!({"pattern": AREA}),
        ("status", "list_release_children") => json!({"enum": statuses}),
        ("outcome", "list_release_children") => json!({"enum": Outcome::NAMES}),
        ("wave", "list_release_children") => json!({"minimum": 1}),
        ("key", "label_child") => json!({"minLength": 1, "maxLength": MAX_LABEL_BYTES, "pattern": PRINTABLE}),
        ("childID" | "releaseID", "fetch_offer") => json!({"minLength": 1}),
        ("Last-Event-ID", _) => json!({"pattern": PLACE, "maxLength": MAX_OFFER_ID_LEN}),
        _ => return None,
    })
}

/// Writes what holds into each parameter of an operation.
pub fn write(operation: &mut Map<String, Value>) {
    let id = operation.get("operationId").and_then(Value::as_str).unwrap_or_default().to_owned();
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(Value::Object(keywords)) = of(name, &id) else { continue };
        let Some(schema) = parameter.get_mut("schema").and_then(Value::as_object_mut) else { continue };
        // In a query nothing is null: who doesn't want a parameter leaves it out.
        if let Some(Value::Array(kinds)) = schema.get_mut("type") {
            kinds.retain(|kind| kind != "null");
            if let [only] = kinds.as_slice() {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        schema.extend(keywords);
    }
}
