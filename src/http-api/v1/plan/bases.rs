//! Whether children run what a strategy takes for its base versions, as far as that is known.

use std::collections::BTreeSet;

use crate::{Context, problem::Problem};
use domain::plan;
use engine::EngineError;
use language::{Diagnostic, Severity, Strategy, TextPlaces};
use model::ChildKey;
use std::sync::Arc;
use store::{DeploymentFilter, MAX_PAGE};

use crate::context::PATIENCE;

/// Most deployments of a function that are looked at.
const MAX_LOOKED_AT: usize = 10_000;

/// Says of each function how many children that take part run something else than its base version.
pub(super) async fn ask(
    ctx: &Context,
    strategy: &Arc<Strategy>,
    places: &TextPlaces,
) -> Result<Vec<Diagnostic>, Problem> {
    if strategy.functions.is_empty() {
        return Ok(Vec::new());
    }
    let planned = Arc::clone(strategy);
    let members = ctx.engine.read_apart(PATIENCE, move |state| plan::plan(&planned, state).members).await?;
    let members: BTreeSet<ChildKey> = members.into_iter().collect();
    let mut found = Vec::new();
    for (function, place) in strategy.functions.iter().zip(&places.versions) {
        let (others, example) = others(ctx, &function.name, &function.base.path, &members).await?;
        if let Some(path) = example {
            let who = if others == 1 { "1 child runs".to_owned() } else { format!("{others} children run") };
            let message = format!(
                "{who} another version of {} than its base version {:?}, as {path:?}",
                function.name, function.base.path
            );
            let fix = "name what runs now as base_version, or know that going back leads elsewhere";
            found.push(place[0].path.fault(Severity::Warning, "other-base", message, fix));
        }
    }
    Ok(found)
}

/// How many of these children run another version of a function than this one, and what one of them runs.
async fn others(
    ctx: &Context,
    function: &str,
    base: &str,
    members: &BTreeSet<ChildKey>,
) -> Result<(usize, Option<String>), EngineError> {
    let mut filter = DeploymentFilter {
        function: Some(function.to_owned()),
        limit: MAX_PAGE,
        ..DeploymentFilter::default()
    };
    let (mut looked, mut others, mut example) = (0, 0, None);
    while looked < MAX_LOOKED_AT {
        let page = ctx.engine.reader().deployments(&filter).await.map_err(|error| {
            tracing::warn!(%error, function, "deployments could not be read");
            EngineError::Busy
        })?;
        let Some(last) = page.last() else { break };
        filter.after = Some((last.function.clone(), last.child_key));
        looked += page.len();
        for row in page {
            let is_known = matches!(row.variant.as_str(), "base" | "new");
            if is_known && row.path != base && members.contains(&ChildKey(row.child_key)) {
                others += 1;
                example.get_or_insert(row.path);
            }
        }
    }
    Ok((others, example))
}
