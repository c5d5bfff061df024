//! Services: what gets calls behind routers, in two or more variations that run already.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use traffic::wanted::{Listen, Name, Rule, StickyTo, Variation};

use super::retry::Retry;

/// What the key of a service begins with. Names of functions have no `/`, so the two never meet.
const PREFIX: &str = "service/";

/// A service whose variations are targets that somebody else runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    key: String,
    /// Labels of the routers that lead its calls, all of which must be a router's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routers: BTreeMap<String, String>,
    pub ports: Vec<Listen>,
    /// By what calls stay with one variation; `None`: each call goes to any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<StickyTo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// 2 to [`traffic::MAX_VARIATIONS`]; the first is the stable one.
    pub variations: Vec<Variation>,
    #[serde(default, skip_serializing_if = "Salt::is_default")]
    pub salt: Salt,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// What decides which users come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Salt {
    /// Others in each release.
    #[default]
    Release,
    /// The same in each release of the service.
    Service,
}

impl Salt {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Service {
    /// Without anything but its name, ports and variations.
    #[must_use]
    pub fn new(name: &Name, ports: Vec<Listen>, variations: Vec<Variation>) -> Self {
        Self {
            key: format!("{PREFIX}{name}"),
            routers: BTreeMap::new(),
            ports,
            sticky: None,
            rule: None,
            variations,
            salt: Salt::default(),
            retry: None,
        }
    }

    /// What it is called among functions and services: `service/NAME`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.key.strip_prefix(PREFIX).unwrap_or(&self.key)
    }
}
