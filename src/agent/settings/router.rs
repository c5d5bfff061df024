//! What is set of a router of somebody else's that the agent leads.

use std::time::Duration;

pub use router::{
    aws_alb, controller::OnDrift, custom, haproxy, nginx, options::RouterOptions, setup::CommandLine, traefik,
};
pub use traffic::RouterKind;

/// What splits the calls beside this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one for a whole agent")]
pub enum FrontSettings {
    Proxy(super::ProxySettings),
    /// The agent runs no functions then.
    Router(Box<RouterSettings>),
}

/// A router of somebody else's, which this agent leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterSettings {
    pub options: RouterOptions,
    pub on_drift: OnDrift,
    /// How long callers may take with what they have of a variation that lost its share at the end of a release.
    pub drain: Duration,
    /// The ports that services may have.
    pub ports: Ports,
}

/// Ports: from the first to the last of each span. Empty: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports(pub Vec<(u16, u16)>);

impl Ports {
    #[must_use]
    pub fn have(&self, port: u16) -> bool {
        self.0.is_empty() || self.0.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}
