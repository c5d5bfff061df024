//! Fetches measurements from whoever has them: Prometheus, or anything that answers in JSON.
//!
//! A [`Provider`] is asked for a [`Window`] of time and gives [`Samples`], or a [`ProviderError`] that says what was
//! wrong. What children report is no provider: it lies in the results of their stages, and whoever judges reads it there
//! (`language::analysis::MetricSource::Children`).
//!
//! Invariants: an answer that is partial, ambiguous or beyond a limit is an error and never a smaller answer; no value
//! is infinite or not a number; no redirect is followed; every call ends within its timeout; no secret is in an error.
//! An answer without a value is no error here: whether that is good is for the judge. Not here: when to ask, retries,
//! what values mean.

mod client;
mod error;
mod prometheus;
mod range;
mod web;

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::BoxFuture;

pub use self::{
    error::{MAX_ERROR_CHARS, ProviderError, SetupError},
    prometheus::Prometheus,
    range::longest_range,
    web::Web,
};

use language::analysis::{
    Escape,
    providers::{ProviderKind, Providers},
};

/// What to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The query, its variables replaced.
    pub text: &'a str,
    /// Where in a JSON answer the values stand; `None`: where the provider says.
    pub json_path: Option<&'a str>,
}

/// A stretch of time, in milliseconds since 1970. What happened at its start is not in it, what happened at its end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub start_ms: i64,
    pub end_ms: i64,
}

/// A value and when it was measured, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub at_ms: i64,
    pub value: f64,
}

/// What was measured, in order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    pub points: Vec<Point>,
    /// Points that were no number; they are left out.
    pub nan: u64,
    /// Points that could have been there and weren't.
    pub gaps: u64,
}

impl Samples {
    /// Whether a point could have been there: in a window shorter than the step of a series there is none.
    pub fn has_room(&self) -> bool {
        self.points.len() as u64 + self.nan + self.gaps > 0
    }

    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.value)
    }
}

/// Somebody who can be asked for measurements.
pub trait Provider: Send + Sync + fmt::Debug {
    /// How values are put into its queries.
    fn escape(&self) -> Escape;

    /// The measurements of a window. A series has its points at `start + k · step`, k from 1, where the step is at least
    /// as long as the range that the query looks back, so that no two points have data in common. So that points stay
    /// where they are from look to look, ask from the same start each time.
    fn fetch<'a>(&'a self, ask: Ask<'a>, window: Window) -> BoxFuture<'a, Result<Samples, ProviderError>>;
}

/// The providers of a manager, by name, ready to be asked.
#[derive(Debug, Clone, Default)]
pub struct Registry(BTreeMap<String, Arc<dyn Provider>>);

impl Registry {
    /// Reads what belongs to the settings: files with certificates and secrets must be there.
    pub fn new(settings: &Providers) -> Result<Self, SetupError> {
        // The first caller decides; another provider of cryptography that was chosen before is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut providers: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
        for (name, settings) in settings.iter() {
            let fault = |message| SetupError { provider: name.to_owned(), message };
            let provider: Arc<dyn Provider> = match settings.kind {
                ProviderKind::Prometheus => Arc::new(Prometheus::new(settings).map_err(fault)?),
                ProviderKind::Web => Arc::new(Web::new(settings).map_err(fault)?),
            };
            providers.insert(name.to_owned(), provider);
        }
        Ok(Self(providers))
    }

    /// The same with one more, which takes the place of one that is called so.
    #[must_use]
    pub fn with(mut self, name: &str, provider: Arc<dyn Provider>) -> Self {
        self.0.insert(name.to_owned(), provider);
        self
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Provider>> {
        self.0.get(name)
    }
}
