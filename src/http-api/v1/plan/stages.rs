//! The stages of services in a plan: what each variation gets, and how many users that moves.

use ab_releases::percent;
use language::{Strategy, Subject};
use protocol::api::PlannedStage;

/// All calls, in units of 0.01 %.
const WHOLE: u16 = 10_000;

/// Those of each service in the order of the strategy, templates expanded. Before the first everybody is with the stable variation.
pub fn of(strategy: &Strategy) -> Vec<PlannedStage> {
    let services = (strategy.functions.len()..).zip(&strategy.services);
    let all = services.flat_map(|(at, service)| {
        let mut before: Vec<u16> = vec![0; service.variations.len()];
        before.iter_mut().take(1).for_each(|stable| *stable = WHOLE);
        let own = strategy.stages.iter().filter(move |stage| stage.subject == at);
        own.map(move |stage| {
            // Buckets that a variation gets more than it had are those that others give away.
            let moved: u16 =
                stage.shares.iter().zip(&before).map(|(now, before)| now.saturating_sub(*before)).sum();
            before.clone_from(&stage.shares);
            let shares = service.variations.iter().zip(&stage.shares);
            PlannedStage {
                stage: stage.name.clone(),
                changes: strategy.subject(at).map(Subject::key).unwrap_or_default().to_owned(),
                shares: shares.map(|(of, share)| (of.name.to_string(), percent(*share))).collect(),
                moved: percent(moved),
            }
        })
    });
    all.collect()
}
