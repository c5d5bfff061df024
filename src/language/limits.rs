//! How many of what a strategy may have.

/// Most functions a strategy may name. A child's possibly changed functions are one 64-bit set.
pub const MAX_FUNCTIONS: usize = 64;

/// Most stages a strategy may have.
pub const MAX_STAGES: usize = 64;

/// Most waves of a release.
pub const MAX_WAVES: usize = 64;

/// Most conditions of one stage.
pub const MAX_CONDITIONS: usize = 32;
