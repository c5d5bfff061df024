//! What is probably meant otherwise, said where it stands in the strategy.

use std::sync::Arc;

use crate::{Context, context::PATIENCE};
use domain::{plan, plan::Advice};
use engine::EngineError;
use language::{Diagnostic, Severity, Strategy, TextPlaces, nearest};

/// Asks the children about a strategy.
pub async fn ask(
    ctx: &Context,
    strategy: &Arc<Strategy>,
    places: &TextPlaces,
) -> Result<Vec<Diagnostic>, EngineError> {
    let asked = Arc::clone(strategy);
    let advice = ctx.engine.read_apart(PATIENCE, move |state| {
        let planned = plan::plan(&asked, state);
        plan::advise(&asked, state, &planned)
    });
    Ok(warnings(strategy, places, &advice.await?))
}

/// In words.
pub fn warnings(strategy: &Strategy, places: &TextPlaces, advice: &Advice) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let (Some(children), Some(place)) = (advice.swapped, &places.area) {
        let lie = if children == 1 { "1 child lies".to_owned() } else { format!("{children} children lie") };
        let message = format!("no child lies in this area; with latitude and longitude swapped {lie} in it");
        let fix = "GeoJSON has the longitude first, as in [13.4, 52.52] for Berlin: swap the two";
        found.push(place.fault(Severity::Warning, "swapped-coordinates", message, fix));
    }
    found.extend(plan::stops(strategy, places, advice));
    found.extend(plan::drawn_apart(strategy, places, advice));
    if advice.runtimes.is_empty() {
        return found;
    }
    let have: Vec<&str> = advice.runtimes.iter().map(String::as_str).collect();
    for (function, places) in strategy.functions.iter().zip(&places.versions) {
        for (version, place) in [&function.base, &function.new].into_iter().zip(places) {
            if advice.runtimes.contains(&version.env) {
                continue;
            }
            let message = format!("no child says that it has the runtime {:?}", version.env);
            let fix = match nearest(&version.env, have.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("the children have {}", have.join(", ")),
            };
            found.push(place.env.fault(Severity::Warning, "runtime-nobody-has", message, fix));
        }
    }
    found
}
