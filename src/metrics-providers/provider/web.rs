//! Any address that answers in JSON. What it says is of the moment: its values have the time of the window's end.

use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::{Url, header};
use serde_json::Value;
use serde_json_path::JsonPath;

use super::{Ask, Point, Provider, ProviderError, Samples, Window, client::Caller, error::shown};
use language::analysis::{Escape, providers::ProviderSettings};

#[derive(Debug)]
pub struct Web {
    caller: Caller,
}

impl Web {
    pub fn new(settings: &ProviderSettings) -> Result<Self, String> {
        Url::parse(&settings.url).map_err(|error| format!("its address: {error}"))?;
        Ok(Self { caller: Caller::new(settings)? })
    }

    async fn get(&self, ask: Ask<'_>, window: Window) -> Result<Samples, ProviderError> {
        let path = self.path(ask.json_path)?;
        let url = self.address(ask.text)?;
        let request = self.caller.client().get(url).header(header::ACCEPT, "application/json");
        let body = self.caller.call(request).await?;
        let tree: Value = serde_json::from_slice(&body)
            .map_err(|error| ProviderError::Nonsense(shown(&error.to_string())))?;
        let mut found = Samples::default();
        let most = self.caller.settings().max_points;
        for node in path.query(&tree) {
            // A path that leads to a list means what is in it.
            match node {
                Value::Array(items) => {
                    items.iter().try_for_each(|item| take(item, window, most, &mut found))?;
                }
                node => take(node, window, most, &mut found)?,
            }
        }
        if found == Samples::default() {
            found.gaps = 1;
        }
        Ok(found)
    }

    fn path(&self, given: Option<&str>) -> Result<JsonPath, ProviderError> {
        let text = given.or(self.caller.settings().json_path.as_deref()).ok_or_else(|| {
            ProviderError::WrongKind("JSON without a jsonPath that says where the values stand".to_owned())
        })?;
        JsonPath::parse(text)
            .map_err(|error| ProviderError::WrongKind(format!("no values at {text:?} ({error})")))
    }

    /// The query is what follows the address: a path, parameters, or both. It never leads to another host.
    fn address(&self, text: &str) -> Result<Url, ProviderError> {
        let (base, text) = (&self.caller.settings().url, text.trim());
        if !text.is_empty() && !text.starts_with(['/', '?']) {
            let text = shown(text);
            return Err(ProviderError::WrongKind(format!(
                "{text:?}, which is no path that begins with / or ?"
            )));
        }
        Url::parse(&format!("{base}{text}"))
            .map_err(|error| ProviderError::WrongKind(format!("no address: {error}")))
    }
}

impl Provider for Web {
    fn escape(&self) -> Escape {
        Escape::Url
    }

    fn fetch<'a>(&'a self, ask: Ask<'a>, window: Window) -> BoxFuture<'a, Result<Samples, ProviderError>> {
        self.get(ask, window).boxed()
    }
}

fn take(value: &Value, window: Window, most: usize, found: &mut Samples) -> Result<(), ProviderError> {
    match value {
        Value::Null => found.gaps += 1,
        Value::Number(number) => {
            let value = number.as_f64().filter(|value| value.is_finite()).ok_or(ProviderError::Infinite)?;
            if found.points.len() == most {
                return Err(ProviderError::TooManyPoints { points: most as u64 + 1, most });
            }
            found.points.push(Point { at_ms: window.end_ms, value });
        }
        other => return Err(ProviderError::NotANumber(shown(&other.to_string()))),
    }
    Ok(())
}
