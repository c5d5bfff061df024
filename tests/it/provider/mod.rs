//! Asking for measurements: good answers, every kind of bad one, and a real Prometheus.

mod answers;
mod prometheus;
mod range;
pub mod real;
mod stub;
mod web;
pub mod written;

use std::sync::Arc;

use language::analysis::providers::Providers;
use metrics_providers::provider::{Ask, Provider, ProviderError, Registry, Samples, Window};

/// The provider `it` of a file with these keys.
pub fn provider(keys: &str) -> Arc<dyn Provider> {
    let (settings, faults) = Providers::read(&format!("providers: {{it: {{{keys}}}}}"));
    assert_eq!(faults, []);
    Arc::clone(Registry::new(&settings).unwrap().get("it").unwrap())
}

/// Ten minutes from the start of a day.
pub const WINDOW: Window = Window { start_ms: 1_767_225_600_000, end_ms: 1_767_226_200_000 };

pub async fn fetch(provider: &Arc<dyn Provider>, text: &str) -> Result<Samples, ProviderError> {
    provider.fetch(Ask { text, json_path: None }, WINDOW).await
}
