//! How much there may be of what.

use super::section::{Field, Section};
use crate::release::settings::Settings as Rules;

/// Connections at once, unless configured otherwise.
pub const DEFAULT_MAX_CONNECTIONS: usize = 50_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub max_children: usize,
    pub max_open_releases: usize,
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            max_children: rules.max_children,
            max_open_releases: rules.max_open_releases,
            max_connections: DEFAULT_MAX_CONNECTIONS,
        }
    }
}

impl Section for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::within("max_children", &mut self.max_children, 1, 10_000_000),
            Field::within("max_open_releases", &mut self.max_open_releases, 1, 100_000),
            Field::within("max_connections", &mut self.max_connections, 1, 1_000_000),
        ]
    }
}
