//! What an operator sets of an ALB.

use std::{path::Path, time::Duration};

use reqwest::Url;

use crate::{
    remote,
    setup::{Fault, OpenError, OpenRouter},
};

/// An ALB; what an operator sets up for it stands in `docs/aws-alb.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Empty: as AWS's chain of settings says.
    pub region: String,
    /// Its name or its ARN.
    pub load_balancer: String,
    /// Where AWS is called; empty: where AWS is.
    pub endpoint: String,
    /// The first and the last priority of rules of ours.
    pub priorities: (u16, u16),
    /// How long a caller stays with a variation that it got.
    pub sticky_for: Duration,
    /// For one call, with its repeats.
    pub time_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            region: String::new(),
            load_balancer: String::new(),
            endpoint: String::new(),
            priorities: (100, 999),
            sticky_for: Duration::from_hours(24),
            time_limit: Duration::from_secs(4),
        }
    }
}

/// Whether this program can lead one.
pub const IS_BUILT_IN: bool = cfg!(feature = "aws");

const NOT_BUILT_IN: &str =
    "this program was built without the feature `aws`: build it with `cargo build --release --features aws`";

/// The last priority that a rule may have.
const LAST_PRIORITY: u16 = 50_000;

/// How long a caller may stay with a group.
const STICKY: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(7 * 24);

impl Options {
    /// Where AWS is called; none: where AWS is.
    ///
    /// # Errors
    ///
    /// The first setting that can't be used, or that this program was built without the feature.
    pub fn read(&self) -> Result<Option<Url>, Fault> {
        self.read_by(IS_BUILT_IN)
    }

    /// The same of a program that was built with the feature, or without it.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_by(&self, is_built_in: bool) -> Result<Option<Url>, Fault> {
        if !is_built_in {
            return Err(("router.kind", format!("aws_alb: {NOT_BUILT_IN}")));
        }
        if self.load_balancer.is_empty() {
            return Err(("aws_alb.load_balancer", "name the load balancer, or give its ARN".to_owned()));
        }
        let (first, last) = self.priorities;
        if first == 0 || first > last || last > LAST_PRIORITY {
            let why = format!("{first}-{last} are no priorities: they are from 1 to {LAST_PRIORITY}");
            return Err(("aws_alb.priorities", why));
        }
        if !STICKY.contains(&self.sticky_for) || self.sticky_for.subsec_nanos() != 0 {
            let why = "a load balancer keeps callers for 1 s to 7 days, in whole seconds".to_owned();
            return Err(("aws_alb.sticky_for", why));
        }
        if self.endpoint.is_empty() {
            return Ok(None);
        }
        let endpoint = Url::parse(&self.endpoint).map_err(|error| ("aws_alb.endpoint", error.to_string()))?;
        if !remote::may_be_called(&endpoint) {
            let why = "only an address of this machine is called without https".to_owned();
            return Err(("aws_alb.endpoint", why));
        }
        Ok(Some(endpoint))
    }

    /// Where none is set, that of an ARN.
    #[cfg(feature = "aws")]
    fn region(&self) -> Option<String> {
        let of_arn = self.load_balancer.strip_prefix("arn:").and_then(|arn| arn.split(':').nth(2));
        let region = if self.region.is_empty() { of_arn } else { Some(&*self.region) };
        region.filter(|region| !region.is_empty()).map(str::to_owned)
    }

    #[cfg(feature = "aws")]
    pub(crate) fn open(&self, folder: &Path) -> Result<OpenRouter, OpenError> {
        let settings = super::Settings {
            endpoint: self.read()?,
            region: self.region(),
            load_balancer: self.load_balancer.clone(),
            priorities: self.priorities,
            sticky_for: self.sticky_for,
            time_limit: self.time_limit,
            folder: folder.join("aws_alb"),
        };
        Ok(OpenRouter { router: std::sync::Arc::new(super::AwsAlb::open(settings)?), measure: None })
    }

    #[cfg(not(feature = "aws"))]
    pub(crate) fn open(&self, _: &Path) -> Result<OpenRouter, OpenError> {
        Err(self.read().err().unwrap_or(("router.kind", NOT_BUILT_IN.to_owned())).into())
    }
}
