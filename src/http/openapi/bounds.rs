//! What the parameters of calls accept, by their names: the same name means the same everywhere.
//!
//! A table, and not an attribute beside each of dozens of fields, so that no list can forget what its `limit` is.

use serde_json::{Map, Value, json};

use crate::{
    extract::{MAX_NOTE_CHARS, MAX_OPERATOR_CHARS},
    v1::MAX_LIMIT,
};
use heart::release::state::ReleaseState;
use model::{ChildKind, ChildStatus, MAX_OFFER_ID_LEN, Outcome, traffic::RouterPhase};
use progressive::Status;
use wire::child::{MAX_HISTOGRAM_CALLS, MAX_LABEL_BYTES};

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
const DEPLOYMENT: &str = "^[0-9]{1,9}:[^\\u0000]*$";

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
        ("after", "list_services" | "list_environments" | "list_target_groups" | "list_versions") => {
            json!({})
        }
        ("environmentId", _) | ("variation", "promote_release") => json!({}),
        ("phase", "list_routers") => json!({"enum": RouterPhase::ALL.map(RouterPhase::name)}),
        ("number", "show_router_order") => json!({"minimum": 0}),
        ("after", _) => json!({"pattern": NUMBER}),
        ("label", _) => json!({"pattern": "^[^:]*:"}),
        ("kind", _) => json!({"enum": ChildKind::NAMES}),
        ("cordon", _) => json!({"enum": ["open", "cordoned", "drained"]}),
        ("children", "plan_release") => json!({"enum": ["none", "participants", "all"]}),
        ("status", "list_ab_releases") => json!({"enum": Status::NAMES}),
        ("state", "list_releases") => json!({"enum": ReleaseState::NAMES}),
        ("status", "list_release_children") => json!({"enum": statuses}),
        ("outcome", "list_release_children") => json!({"enum": Outcome::NAMES}),
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
