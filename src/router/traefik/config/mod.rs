//! What Traefik is told, and what it says: its dynamic configuration as one text of ours, and what its API lists. Pure.
//!
//! ```yaml
//! # Made by choirmaster; changes by hand are seen and undone. What is yours goes into another file.
//! # digest 9c2f6e1d0b7a5843
//! http:
//!   routers:
//!     choirmaster:checkout: {rule: PathPrefix("/"), entryPoints: [web], service: choirmaster:checkout}
//!     choirmaster:checkout:0: {rule: PathPrefix("/") && Header("X-Variation", "B"), entryPoints: [web], service: choirmaster:checkout:B:asked}
//!   services:
//!     choirmaster: {loadBalancer: {servers: [{url: http://3.7.choirmaster.invalid}]}}
//!     choirmaster:checkout:
//!       weighted:
//!         services: [{name: choirmaster:checkout:A, weight: 9000}, {name: choirmaster:checkout:B, weight: 1000}]
//!         sticky: {cookie: {name: cm}}
//!     choirmaster:checkout:A: {loadBalancer: {servers: [{url: http://127.0.0.1:9101}]}}
//!     choirmaster:checkout:B: {loadBalancer: {servers: [{url: http://127.0.0.1:9111}]}}
//!     choirmaster:checkout:B:asked: {loadBalancer: {servers: [{url: http://127.0.0.1:9111}]}}
//! ```
//!
//! (It is written as JSON, which is YAML too.)
//!
//! - Weights are integers, so that shares are exact to 0.01 %. Each change begins the round of calls anew at the heaviest variation.
//! - Who has the cookie of a variation stays with it while that has a weight. A weight of 0 moves them at once, so a roll-back reaches them.
//! - The service `choirmaster` gets no calls: its address says by which wanted state the *running* Traefik goes.
//! - Calls that ask for a variation by a header have a service of their own, which is counted apart.
//! - A router of ours has the longest rule that takes everything, which is shorter than any that an operator writes for a host or a path:
//!   those keep their calls. At a port that services share, or with TLS, it has a priority that says what comes first (a named host, then the
//!   longest path), which is above those that Traefik gives by the length of rules for named hosts.
//! - TLS is ended with the certificates that Traefik has: `tls: {}`.
//! - Names of an operator's have no `choirmaster:` before them; nobody else's are touched.
//!
//! Deliberately not here: health checks of Traefik's own, which forget what they found at each change and call all targets healthy until
//! the next check. Targets are checked by whoever leads it.

mod adopt;
mod metrics;
mod observed;
mod render;

pub use self::{
    adopt::adopt,
    metrics::counters,
    observed::{EntryPoint, RawData, RawRouter, RawService},
    render::{EntryPoints, Unable, body_of, number_in, render},
};

/// What names of ours begin with.
pub const MARK: &str = "choirmaster:";

/// The service whose address names the wanted state.
const STATE: &str = "choirmaster";

/// Of that address, behind the number.
const NOWHERE: &str = ".choirmaster.invalid";

/// How Traefik is told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Provider {
    /// A file in a folder that it watches.
    #[default]
    File,
    /// A call that replaces all that was told so before.
    Rest,
}

impl Provider {
    /// What Traefik writes behind the names of what it was told so.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::File => "@file",
            Self::Rest => "@rest",
        }
    }
}

/// Behind the name of a variation, for calls that a header asked it for.
const BY_HEADER: &str = ":asked";

fn service_name(service: &str) -> String {
    format!("{MARK}{service}")
}

/// Of the calls that a header asked this variation for.
fn asked_name(service: &str, variation: &str) -> String {
    format!("{}{BY_HEADER}", variation_name(service, variation))
}

fn variation_name(service: &str, variation: &str) -> String {
    format!("{MARK}{service}:{variation}")
}
