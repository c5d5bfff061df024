//! What an operator sets of a router, and how one that is set is led.

use std::path::Path;

use traffic::RouterKind;

use crate::{
    aws_alb, custom, haproxy, nginx,
    setup::{Fault, OpenError, OpenRouter},
    traefik,
};

/// A router of somebody else's, of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouterOptions {
    Nginx(nginx::Options),
    Haproxy(haproxy::Options),
    Traefik(traefik::Options),
    Custom(custom::Options),
    AwsAlb(aws_alb::Options),
}

impl RouterOptions {
    #[must_use]
    pub const fn kind(&self) -> RouterKind {
        match self {
            Self::Nginx(_) => RouterKind::Nginx,
            Self::Haproxy(_) => RouterKind::Haproxy,
            Self::Traefik(_) => RouterKind::Traefik,
            Self::Custom(_) => RouterKind::Custom,
            Self::AwsAlb(_) => RouterKind::AwsAlb,
        }
    }

    /// Whether all of them can be used.
    ///
    /// # Errors
    ///
    /// The first that can't.
    pub fn check(&self) -> Result<(), Fault> {
        match self {
            Self::Nginx(options) => options.read().map(drop),
            Self::Haproxy(options) => options.read().map(drop),
            Self::Traefik(options) => options.read().map(drop),
            Self::Custom(options) => options.read().map(drop),
            Self::AwsAlb(options) => options.read().map(drop),
        }
    }

    /// Makes what is ours of it, in `folder` where the router itself needs none of it. Must be called in a runtime of tokio.
    ///
    /// # Errors
    ///
    /// An option can't be used, or what is ours can't be made.
    pub fn open(&self, folder: &Path) -> Result<OpenRouter, OpenError> {
        match self {
            Self::Nginx(options) => options.open(),
            Self::Haproxy(options) => options.open(),
            Self::Traefik(options) => options.open(),
            Self::Custom(options) => options.open(folder),
            Self::AwsAlb(options) => options.open(folder),
        }
    }
}
