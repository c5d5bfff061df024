//! How much a call of a child may hold.

/// Largest body of a poll, in bytes: 1,000 vertices with room to spare.
pub const MAX_POLL_BODY_BYTES: usize = 256 * 1024;

/// Largest body of a result, in bytes.
pub const MAX_RESULT_BODY_BYTES: usize = 1024 * 1024;

/// Largest body of a question for the end of a stage, in bytes.
pub const MAX_END_STAGE_BODY_BYTES: usize = 8 * 1024;

/// Largest body of a call to join, in bytes.
pub const MAX_JOIN_BODY_BYTES: usize = 4 * 1024;

/// Most stage summaries in one result.
pub const MAX_SUMMARIES: usize = 64;

/// Longest name of a stage in a result, in bytes.
pub const MAX_STAGE_NAME_BYTES: usize = 256;

/// Longest name a child gives itself, in bytes.
pub const MAX_CHILD_NAME_BYTES: usize = 128;

/// What a child makes up so that it is known again when it asks twice to be taken in, in bytes. Nobody guesses what is this long.
pub const NONCE_BYTES: std::ops::RangeInclusive<usize> = 32..=128;

/// Most runtimes a child may report.
pub const MAX_RUNTIMES: usize = 64;

/// Most ids of managers, or of offers, in a poll or its answer: the depth of a tree.
pub const MAX_RM_IDS: usize = 64;

/// Most labels a child may report.
pub const MAX_LABELS: usize = 64;

/// Most labels, each value of a key counted, that a manager may report of its children.
pub const MAX_LABELS_BELOW: usize = 512;

/// Longest runtime, label key or label value, in bytes.
pub const MAX_LABEL_BYTES: usize = 128;

/// Most bounds a histogram may have.
pub const MAX_HISTOGRAM_BOUNDS: usize = 512;

/// Most calls in a logarithmic histogram: so many are still counted exactly.
pub const MAX_HISTOGRAM_CALLS: u64 = 1 << 48;

/// Longest text of why a part ended, in bytes.
pub const MAX_WHY_BYTES: usize = 1_000;

/// Most strata without a group in a summary.
pub const MAX_STRATA: usize = 64;

/// Most strata of groups of users in a summary: all groups under so many splits.
pub const MAX_GROUPED_STRATA: usize = 4 * MAX_GROUPS as usize;

/// Most variations in a summary.
pub const MAX_VARIATIONS: usize = 8;

/// Longest name of a variation, in bytes.
pub const MAX_VARIATION_NAME_BYTES: usize = 63;

/// Groups of users are numbered below it.
pub const MAX_GROUPS: u8 = analysis::clusters::MAX_GROUPS;
