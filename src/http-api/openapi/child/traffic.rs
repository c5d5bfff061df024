//! The bodies of `POST /traffic`.

use serde_json::{Value, json};

use super::{optional_text, sought, text};
use model::MAX_OFFER_ID_LEN;
use protocol::traffic::{
    DriftThen, MAX_ANSWER_TEXT_BYTES, MAX_ORDERS, MAX_TOLD_ANSWERS, MAX_TOLD_DRIFTS, MAX_TOLD_HOSTS,
    MAX_TOLD_NAME_BYTES, MAX_TOLD_OPEN_PORTS, MAX_TOLD_SERVICES, MAX_TOLD_TARGET_BYTES, MAX_TOLD_TARGETS,
    MAX_TOLD_TEXT_BYTES, MAX_TOLD_VARIATIONS, MAX_VERSION_BYTES, OrderWhat, Protocol, RouterPhase, WHOLE,
};

/// Whole numbers up to here have a floating-point form of their own.
const MOST: u64 = 1 << 53;

/// No control characters but line feeds.
const LINES: &str = "^[^\\u0000-\\u0009\\u000b-\\u001f\\u007f-\\u009f]*$";

fn name() -> Value {
    let pattern = format!("^[A-Za-z0-9][A-Za-z0-9._-]{{0,{}}}$", MAX_TOLD_NAME_BYTES - 1);
    json!({"type": "string", "pattern": pattern})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": MOST})
}

fn optional_count() -> Value {
    json!({"type": ["integer", "null"], "minimum": 0, "maximum": MOST})
}

/// What an agent says of its router.
pub(super) fn report() -> Value {
    let then = [
        DriftThen::Repaired,
        DriftThen::Paused,
        DriftThen::PausedAfterRepairs,
        DriftThen::Accepted,
        DriftThen::Over,
    ];
    let line = text(MAX_TOLD_TEXT_BYTES);
    json!({
        "type": "object",
        "required": ["id", "router"],
        "properties": {
            "id": sought(),
            "router": {
                "type": "object",
                "required": ["kind", "phase", "reached"],
                "properties": {
                    "kind": name(),
                    "version": optional_text(MAX_VERSION_BYTES),
                    "phase": {"enum": RouterPhase::ALL.map(RouterPhase::name)},
                    "trouble": optional_text(MAX_TOLD_TEXT_BYTES),
                    "takeover_trouble": optional_text(MAX_TOLD_TEXT_BYTES),
                    "reached": {"type": "boolean"},
                    "repairs": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                    "ports": {
                        "type": "array", "maxItems": MAX_TOLD_OPEN_PORTS,
                        "items": {
                            "type": "object",
                            "required": ["first", "last"],
                            "properties": {
                                "first": {"type": "integer", "minimum": 1, "maximum": u16::MAX},
                                "last": {"type": "integer", "minimum": 1, "maximum": u16::MAX},
                                "protocol": {"enum": Protocol::ALL},
                                "takes_over": {"type": "boolean"},
                                "by_socket": {"type": "boolean"},
                            },
                        },
                        "description": "Ranges of ports at which its services may be. Absent: any.",
                    },
                },
            },
            "services": {
                "type": "array", "maxItems": MAX_TOLD_SERVICES, "items": service(),
                "description": "All that it leads, each name once.",
            },
            "untold": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
            "drifts": {
                "type": "array", "maxItems": MAX_TOLD_DRIFTS,
                "items": {
                    "type": "object",
                    "required": ["number", "wanted", "seen", "then"],
                    "properties": {
                        "number": count(),
                        "ago_ms": count(),
                        "service": optional_text(MAX_TOLD_NAME_BYTES),
                        "wanted": line,
                        "seen": line,
                        "then": {"enum": then.map(DriftThen::name)},
                    },
                },
            },
            "answers": {
                "type": "array", "maxItems": MAX_TOLD_ANSWERS,
                "items": {
                    "type": "object",
                    "required": ["number", "ok"],
                    "properties": {
                        "number": count(),
                        "ok": {"type": "boolean"},
                        "text": {"type": "string", "maxLength": MAX_ANSWER_TEXT_BYTES, "pattern": LINES},
                        "left_over": {"type": "array", "maxItems": MAX_TOLD_SERVICES, "items": line},
                    },
                },
            },
        },
    })
}

fn service() -> Value {
    let variation = json!({
        "type": "object",
        "required": ["name", "wanted", "targets"],
        "description": "Shares are in units of 0.01 %; those wanted of a service come to 10000.",
        "properties": {
            "name": name(),
            "wanted": {"type": "integer", "minimum": 0, "maximum": WHOLE},
            "seen": {"type": ["integer", "null"], "minimum": 0, "maximum": WHOLE},
            "targets": {
                "type": "object",
                "required": ["healthy", "total"],
                "properties": {
                    "healthy": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                    "total": {"type": "integer", "minimum": 0, "maximum": u32::MAX},
                },
            },
            "draining": {"type": ["integer", "null"], "minimum": -1},
            "calls": optional_count(),
            "errors": optional_count(),
        },
    });
    json!({
        "type": "object",
        "required": ["name", "variations", "led"],
        "properties": {
            "name": name(),
            "epoch": count(),
            "generation": count(),
            "offer": optional_text(MAX_OFFER_ID_LEN),
            "standing": {"type": "boolean"},
            "seen_ago_ms": optional_count(),
            "measured_ms": optional_count(),
            "variations": {"type": "array", "minItems": 1, "maxItems": MAX_TOLD_VARIATIONS, "items": variation},
            "led": led(),
        },
    })
}

fn led() -> Value {
    let target = text(MAX_TOLD_TARGET_BYTES);
    json!({
        "type": "object",
        "required": ["variations"],
        "properties": {
            "ports": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["port", "protocol"],
                    "properties": {
                        "port": {"type": "integer", "minimum": 0, "maximum": u16::MAX},
                        "protocol": {"enum": Protocol::ALL},
                        "hosts": {"type": "array", "maxItems": MAX_TOLD_HOSTS, "items": {"type": "string"}},
                        "path": {"type": "string"},
                    },
                },
            },
            "variations": {
                "type": "array", "minItems": 1, "maxItems": MAX_TOLD_VARIATIONS,
                "items": {
                    "type": "object",
                    "required": ["name", "targets"],
                    "properties": {
                        "name": name(),
                        "targets": {"type": "array", "maxItems": MAX_TOLD_TARGETS, "items": target},
                    },
                },
            },
        },
    })
}

/// What is asked of it.
pub(super) fn answered() -> Value {
    json!({
        "type": "object",
        "properties": {
            "orders": {
                "type": "array", "maxItems": MAX_ORDERS,
                "items": {
                    "type": "object",
                    "required": ["number", "what", "within_ms"],
                    "properties": {
                        "number": count(),
                        "what": {"enum": OrderWhat::ALL.map(OrderWhat::name)},
                        "service": {"type": "string"},
                        "config": {"type": "string"},
                        "within_ms": count(),
                    },
                },
            },
        },
    })
}
