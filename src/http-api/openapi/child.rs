//! The bodies of children's calls. They are read by hand, in two spellings and without a copy, so what they look like
//! is written down by hand too: in the spelling of deployed agents.

mod traffic;

use serde_json::{Value, json};

use super::bounds::PRINTABLE;
use model::{ChildKind, Leads, MAX_OFFER_ID_LEN};
use protocol::{
    child::{
        MAX_CHILD_NAME_BYTES, MAX_GROUPED_STRATA, MAX_GROUPS, MAX_LABEL_BYTES, MAX_LABELS, MAX_RM_IDS,
        MAX_RUNTIMES, MAX_STAGE_NAME_BYTES, MAX_STRATA, MAX_SUMMARIES,
    },
    placements::{MAX_INSTANCES, MAX_WHY_BYTES},
    question::{MAX_FEATURES, MAX_QUESTIONS, MAX_REFUSAL_BYTES},
};

/// The schema of an operation's body and of its answer.
pub fn schemas(operation: &str) -> Option<(Value, Value)> {
    Some(match operation {
        "poll" => (poll(), polled()),
        "report" => (report(), Value::Null),
        "end_stage" => (end_stage(), ended()),
        "answer_questions" => (answers(), Value::Null),
        "join" => (join(), joined()),
        "report_traffic" => (traffic::report(), traffic::answered()),
        "report_placements" => (placements(), placed()),
        _ => return None,
    })
}

fn placements() -> Value {
    json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": text(MAX_OFFER_ID_LEN),
            "state": optional_text(MAX_OFFER_ID_LEN),
            "instances": {
                "type": "array", "maxItems": MAX_INSTANCES,
                "items": {
                    "type": "object",
                    "required": ["id", "phase"],
                    "properties": {
                        "id": text(MAX_OFFER_ID_LEN),
                        "phase": {"enum": ["starting", "running", "failed"]},
                        "why": optional_text(MAX_WHY_BYTES),
                    },
                },
                "description": "All that are there.",
            },
        },
    })
}

fn placed() -> Value {
    json!({
        "type": "object",
        "required": ["state"],
        "properties": {
            "state": {"type": "string"},
            "instances": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id", "function", "runtime", "folder", "annotations"],
                    "properties": {
                        "id": {"type": "string"},
                        "function": {"type": "string"},
                        "runtime": {"type": "string"},
                        "folder": {"type": "string"},
                        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                },
                "description": "All that are to run; absent where the caller knows them.",
            },
        },
    })
}

/// An id as agents put it into addresses, also as a number; empty or null where the child wants one.
fn id() -> Value {
    let pattern = format!("^(?!\\.{{1,2}}$)[A-Za-z0-9._~-]{{0,{MAX_OFFER_ID_LEN}}}$");
    json!({"anyOf": [{"type": "string", "pattern": pattern}, {"type": ["integer", "null"]}]})
}

/// An id that is only looked up: one that there can't be is unknown.
fn sought() -> Value {
    json!({"type": ["string", "number"]})
}

fn text(most: usize) -> Value {
    json!({"type": "string", "maxLength": most, "pattern": PRINTABLE})
}

/// A text of at most so many characters, or null for nothing.
fn optional_text(most: usize) -> Value {
    json!({"type": ["string", "null"], "maxLength": most, "pattern": PRINTABLE})
}

/// GeoJSON of these polygons, a polygon being a list of rings.
fn geojson(kind: &str, coordinates: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["type", "coordinates"],
        "properties": {"type": {"const": kind}, "coordinates": coordinates},
    })
}

fn area() -> Value {
    let number = json!({"type": "number", "minimum": -540, "maximum": 540});
    let position = json!({"type": "array", "minItems": 2, "maxItems": 3, "items": number});
    let ring = json!({"type": "array", "minItems": 4, "items": position});
    let polygon = json!({"type": "array", "minItems": 1, "items": ring});
    let polygons = json!({"type": "array", "minItems": 1, "items": polygon});
    json!({
        "anyOf": [geojson("Polygon", &polygon), geojson("MultiPolygon", &polygons), {"type": "null"}],
        "description": "GeoJSON. Rings end where they begin, don't cross themselves, and have 1,000 vertices at most in all. \
            Longitudes (beyond ±180 across the antimeridian) and latitudes in degrees.",
    })
}

fn poll() -> Value {
    let ids = json!({"type": "array", "maxItems": MAX_RM_IDS, "items": text(MAX_OFFER_ID_LEN)});
    let kinds: Vec<Option<&str>> = ChildKind::NAMES.into_iter().map(Some).chain([None]).collect();
    json!({
        "type": "object",
        "description": "`geographic_area` may be left out by children that say their `kind`.",
        "properties": {
            "id": id(),
            "geographic_area": area(),
            "number_of_children": {"type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX},
            "name": optional_text(MAX_CHILD_NAME_BYTES),
            "kind": {"enum": kinds},
            "capabilities": {
                "type": ["object", "null"],
                "properties": {
                    "runtimes": {"type": ["array", "null"], "maxItems": MAX_RUNTIMES, "items": text(MAX_LABEL_BYTES)},
                    "labels": {
                        "type": "object", "maxProperties": MAX_LABELS, "propertyNames": {"maxLength": MAX_LABEL_BYTES, "pattern": PRINTABLE},
                        "additionalProperties": text(MAX_LABEL_BYTES),
                    },
                    "node": {
                        "type": ["object", "null"],
                        "description": "Of an agent on whose machine functions of workflows may be placed: what that has. 0: not said.",
                        "properties": {
                            "cpus": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                            "cores": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                            "mhz": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                            "memory_mib": {"type": ["integer", "null"], "minimum": 0},
                            "tee": {"type": "boolean"},
                            "tpm": {"type": "boolean"},
                            "resources": {"type": "array", "maxItems": MAX_FEATURES, "items": text(MAX_LABEL_BYTES)},
                        },
                    },
                    "leads": {"enum": Leads::NAMES, "description": "How much of a strategy an agent takes at once: \
                        `whole` takes all of it in one offer, changes shares in place and asks for the end of each stage."},
                },
            },
            "rm_ids": ids,
            "held": ids,
        },
    })
}

fn join() -> Value {
    json!({
        "type": "object",
        "properties": {"name": optional_text(MAX_CHILD_NAME_BYTES), "kind": {"enum": ChildKind::NAMES}},
    })
}

fn joined() -> Value {
    json!({
        "type": "object",
        "required": ["id", "token"],
        "properties": {
            "id": {"type": "string", "minLength": 1, "maxLength": MAX_OFFER_ID_LEN},
            "token": {"type": "string", "minLength": 1},
        },
    })
}

fn polled() -> Value {
    json!({
        "type": "object",
        "required": ["id", "new_release"],
        "properties": {
            "id": {"type": "string", "minLength": 1, "maxLength": MAX_OFFER_ID_LEN},
            "new_release": {"type": "string", "maxLength": MAX_OFFER_ID_LEN},
        },
    })
}

fn report() -> Value {
    let time = json!({
        "anyOf": [{"type": "number", "minimum": 0}, {"const": -1}],
        "description": "Milliseconds; -1 without a successful call.",
    });
    let times = json!({
        "type": "object",
        "required": ["median", "minimum", "maximum"],
        "properties": {"median": time, "minimum": time, "maximum": time},
    });
    let rate = json!({"type": "number", "minimum": 0, "maximum": 1});
    let name = optional_text(MAX_STAGE_NAME_BYTES);
    let assignment = json!({"enum": ["call", "user", "child"], "description": "How it was chosen which version a call goes \
        to: each by itself, all of a user alike, or all of the child."});
    let count = json!({"type": ["integer", "null"], "minimum": 0, "maximum": u64::MAX});
    let stratum = json!({
        "type": "object",
        "properties": {
            "split": {"type": ["integer", "null"], "minimum": 0, "maximum": 100},
            "interval": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
            "assignment": assignment,
            "group": {"type": "integer", "minimum": 0, "maximum": MAX_GROUPS - 1, "description": "Of users, by a hash, over \
                the whole stage; to managers that name the feature `groups`."},
            "f1_calls": count,
            "f2_calls": count,
        },
        // A group has no interval, and is one of users.
        "if": {"required": ["group"]},
        "then": {"properties": {"interval": {"const": 0}, "assignment": {"enum": ["user", "child"]}}},
    });
    let with_group = json!({"required": ["group"]});
    let at_most = |most: usize, of: &Value| json!({"contains": of, "minContains": 0, "maxContains": most});
    json!({
        "type": "object",
        "required": ["id", "release_id", "stage_summaries"],
        "properties": {
            "id": sought(),
            "release_id": sought(),
            "stage_summaries": {
                "type": "array", "minItems": 1, "maxItems": MAX_SUMMARIES,
                "items": {
                    "type": "object",
                    "required": ["status"],
                    "properties": {
                        "stage_name": name,
                        "proxy_times": times,
                        "f1_times_summary": times,
                        "f2_times_summary": times,
                        "f1_err_rate": rate,
                        "f2_err_rate": rate,
                        "status": {"type": "integer", "minimum": 0, "maximum": 6, "description": "Pending, InProgress, \
                            SuccessWaiting, ShouldEnd, Completed, Failure, Error."},
                        "next_stage": name,
                        "assignment": assignment,
                        "strata": {
                            "type": "array", "items": stratum,
                            "description": "The same numbers apart by split and interval, or by group of users.",
                            "allOf": [at_most(MAX_GROUPED_STRATA, &with_group), at_most(MAX_STRATA, &json!({"not": with_group}))],
                        },
                    },
                },
            },
            "next_stage": name,
        },
    })
}

fn end_stage() -> Value {
    json!({
        "type": "object",
        "required": ["id", "strategy_id", "stage_name"],
        "properties": {
            "id": sought(),
            "strategy_id": sought(),
            "stage_name": {"type": "string"},
            "shares": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": u16::MAX}},
        },
    })
}

fn ended() -> Value {
    json!({
        "type": "object",
        "required": ["end_stage"],
        "properties": {
            "end_stage": {"type": "boolean"},
            "then": {"enum": ["rollback"]},
            "skip": {"type": "array", "items": {"type": "string"}},
            "winner": {"type": "string"},
            "shares": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 10_000}},
        },
    })
}

fn answers() -> Value {
    json!({
        "type": "object",
        "required": ["id", "answers"],
        "properties": {
            "id": sought(),
            "answers": {
                "type": "array", "minItems": 1, "maxItems": MAX_QUESTIONS,
                "items": {
                    "type": "object",
                    "required": ["id"],
                    "properties": {
                        "id": text(MAX_OFFER_ID_LEN),
                        "body": {"type": ["object", "null"]},
                        "error": optional_text(MAX_REFUSAL_BYTES),
                    },
                },
            },
        },
    })
}
