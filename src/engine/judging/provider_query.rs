//! Asking a provider about one variant in one stretch of time.

use super::due_looks::DueLook;
use language::analysis::{ProviderQuery, Variant};
use metrics_providers::provider::{Ask, Registry, Samples, Window};

impl DueLook {
    /// The function that is judged; of a whole release the first.
    pub fn function(&self) -> &str {
        let stage = self.stage.and_then(|stage| self.strategy.stages.get(stage));
        self.strategy.subject_key(stage.map_or(0, |stage| stage.subject)).unwrap_or_default()
    }

    /// What of this run wasn't seen yet, where there are values up to `until`.
    pub fn window(&self, until: Option<i64>) -> Window {
        let end_ms = self.now.wall_ms;
        let since = i64::try_from(self.elapsed_ms).unwrap_or(i64::MAX);
        Window { start_ms: until.unwrap_or_else(|| end_ms.saturating_sub(since)), end_ms }
    }
}

/// What was measured of one variant, and up to when there are values.
pub(super) async fn ask(
    registry: &Registry,
    due: &DueLook,
    asked: &ProviderQuery,
    variant: Variant,
    window: Window,
) -> Result<(Samples, i64), String> {
    let provider = registry.get(&asked.provider);
    let provider = provider.ok_or_else(|| {
        format!("the provider {:?} is not configured any more (analysis.providers)", asked.provider)
    })?;
    // The wall may have been turned back.
    if window.start_ms >= window.end_ms {
        return Ok((Samples::default(), window.start_ms));
    }
    let ends = (window.start_ms, window.end_ms);
    let text = asked.text_in(variant, due.function(), ends, provider.escape());
    let text = text.map_err(|unbound| unbound.to_string())?;
    let ask = Ask { text: &text, json_path: asked.json_path.as_deref() };
    let found = provider.fetch(ask, window).await;
    let found = found.map_err(|error| format!("{}: {error}", asked.provider))?;
    let until = found.points.iter().map(|point| point.at_ms).max().unwrap_or(window.start_ms);
    Ok((found, until))
}
