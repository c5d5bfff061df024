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
        let slowest = stage.conditions.iter().filter_map(|condition| stopped(stage, condition, alpha));
        let Stopped { condition, at_worst, at_twice } = slowest.max_by_key(|found| found.at_twice)?;
        if at_twice <= calls {
            return None;
        }
        let message = format!(
            "an agent that judges by itself stops a version of which all calls break {condition} after {at_worst} of its calls, and one \
             of which twice as many do as may after about {at_twice}; stage {:?} may end after {calls}",
            stage.name
        );
        let fix = "raise minCalls or the share of the new version, or let an analysis judge the stage for all agents together";
        Some(place.fault(Severity::Warning, "slow-stop", message, fix))
    })
    .collect()
}

/// Calls of the new version until it is stopped.
struct Stopped<'s> {
    condition: &'s Condition,
    /// Where all of them break the condition.
    at_worst: u64,
    /// Where twice as many do as may.
    at_twice: u64,
}

fn stopped<'s>(stage: &Stage, condition: &'s Condition, alpha: f64) -> Option<Stopped<'s>> {
    let most = condition.most_beyond().into_iter().max_by(f64::total_cmp).filter(|most| *most < 1.0)?;
    let level = stage.alpha_of_a_limit(alpha)?;
    let until = |share: f64| calls_until(share, most, level).unwrap_or(u64::MAX);
    // Where none may, one is too much.
    let twice = if most > 0.0 { (2.0 * most).min(1.0) } else { 1.0 };
    Some(Stopped { condition, at_worst: until(1.0), at_twice: until(twice) })
}
