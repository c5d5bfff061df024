//! How much a call may hold.

/// Largest body, in bytes.
pub const MAX_TRAFFIC_BODY_BYTES: usize = 1024 * 1024;

/// Most services of one router that are told of. Of more, [`super::TrafficRequest::untold`] says how many there are.
pub const MAX_TOLD_SERVICES: usize = 256;

/// Most variations of a service.
pub const MAX_TOLD_VARIATIONS: usize = 8;

/// Most targets of a variation.
pub const MAX_TOLD_TARGETS: usize = 64;

/// Most ranges of ports at which services of a router may be.
pub const MAX_TOLD_OPEN_PORTS: usize = 64;

/// Most ports of a service.
pub const MAX_TOLD_PORTS: usize = 64;

/// Hosts of a port.
pub const MAX_TOLD_HOSTS: usize = 16;

/// Most values of a header rule.
pub const MAX_TOLD_VALUES: usize = 64;

/// Most drifts in one call; of more the newest count.
pub const MAX_TOLD_DRIFTS: usize = 32;

/// Most answers to orders in one call.
pub const MAX_TOLD_ANSWERS: usize = 16;

/// Most orders in one answer.
pub const MAX_ORDERS: usize = 16;

/// Longest name of a service or a variation, and longest kind of a router, in bytes.
pub const MAX_TOLD_NAME_BYTES: usize = 63;

/// Longest version of a router, in bytes.
pub const MAX_VERSION_BYTES: usize = 128;

/// Longest line of text, in bytes: trouble, a value of a drift.
pub const MAX_TOLD_TEXT_BYTES: usize = 1_000;

/// Longest text of an answer to an order, in bytes. It may have several lines: those that `service adopt` prints.
pub const MAX_ANSWER_TEXT_BYTES: usize = 64 * 1024;

/// Longest target, in bytes.
pub const MAX_TOLD_TARGET_BYTES: usize = 270;

/// Longest value of a header, path, or name of a cookie or header, in bytes.
pub const MAX_TOLD_WORD_BYTES: usize = 256;
