//! What agents that are led in place do by themselves, and what of that is slow or left to chance for want of a word.

use super::Advice;
use analysis::limit_evidence::calls_until;
use language::{Condition, Diagnostic, Severity, Stage, Strategy, TextPlaces, part_of_the};

/// In words; nothing where no such agent takes part.
pub fn stops(strategy: &Strategy, places: &TextPlaces, advice: &Advice) -> Vec<Diagnostic> {
    if advice.in_place == 0 {
        return Vec::new();
    }
    let mut found = unrepeated(strategy, places);
    found.extend(slow(strategy, places, advice.agents));
    found
}

fn unrepeated(strategy: &Strategy, places: &TextPlaces) -> Vec<Diagnostic> {
    let each = strategy.functions.iter().zip(&places.functions).filter(|(of, _)| of.retry.is_none());
    each.map(|(function, place)| {
        let message = format!(
            "function {:?} has no retry: a POST that the new version fails reaches the caller, where an agent routes its calls",
            function.name
        );
        let fix = "say retry: failed if a call may be carried out twice, and retry: refused if not";
        place.fault(Severity::Warning, "no-retry", message, fix)
    })
    .collect()
}

/// Stages that may be over before an agent can have proven that the new version breaks a condition.
fn slow(strategy: &Strategy, places: &TextPlaces, agents: u64) -> Vec<Diagnostic> {
    let of_first_attempt = strategy.local_alpha(agents) * part_of_the(1);
    let alpha = strategy.alpha_of_a_stage(of_first_attempt);
    let each = strategy.stages.iter().zip(&places.stages).filter(|(stage, _)| stage.new_traffic > 0);
    each.filter_map(|(stage, place)| {
        let calls = (stage.min_calls * u64::from(stage.new_traffic) / 100).max(1);
        let stopped = stage.conditions.iter().filter_map(|of| Some((of, stopped_after(stage, of, alpha)?)));
        let (condition, needed) = stopped.min_by_key(|(_, needed)| *needed)?;
        if needed <= calls {
            return None;
        }
        let least = (100 * needed).div_ceil(u64::from(stage.new_traffic));
        let message = format!(
            "raise minCalls from {} to {least}: stage {:?} may end after {calls} of the new version's calls, and an agent that judges by \
             itself needs {needed} to stop a version of which all break {condition}",
            stage.min_calls, stage.name
        );
        let fix = format!(
            "write {{name: minCalls, threshold: {least}}} in its end_conditions, or let an analysis judge it for all agents together"
        );
        Some(place.fault(Severity::Warning, "slow-stop", message, fix))
    })
    .collect()
}

/// After how many calls of the new version it is stopped, where all of them break the condition; `None`: not by evidence of many calls.
fn stopped_after(stage: &Stage, condition: &Condition, alpha: f64) -> Option<u64> {
    let most = condition.most_beyond().into_iter().max_by(f64::total_cmp).filter(|most| *most < 1.0)?;
    calls_until(1.0, most, stage.alpha_of_a_limit(alpha)?)
}
