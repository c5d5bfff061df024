//! What chance does to plain conditions, each child by itself.

use super::{Observed, assumed_errors};
use analysis::power::{self, Chances, KeptCondition};
use language::{Condition, Metric, Operator, Stage, Statistic, Strategy};

/// The share of children that chance may stop at a condition.
const TOLERATED_CHANCE: f64 = 0.05;

/// What chance does to a plain condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Risk {
    pub stage: usize,
    pub condition: String,
    pub basis: String,
    pub chances: Chances,
    /// The `minCalls` from which on no more than one child in twenty is stopped or untested by chance.
    pub least_calls: Option<u64>,
    pub warning: Option<String>,
}

/// Of every plain condition of every stage.
pub fn risks(strategy: &Strategy, observed: &[Option<Observed>], agents: u64) -> Vec<Risk> {
    let stages = strategy.stages.iter().enumerate().filter(|(_, stage)| stage.new_traffic > 0);
    let each = |(at, stage): (usize, &Stage)| -> Vec<Risk> {
        let observed = observed.get(at).and_then(Option::as_ref);
        let risk = |condition| risk(at, stage, condition, observed, agents);
        stage.conditions.iter().filter_map(risk).collect()
    };
    stages.flat_map(each).collect()
}

fn risk(
    at: usize,
    stage: &Stage,
    condition: &Condition,
    observed: Option<&Observed>,
    agents: u64,
) -> Option<Risk> {
    let (kept, rate, basis) = match condition.metric {
        Metric::ErrorRate => {
            let (rate, basis) = observed.and_then(Observed::errors).unwrap_or_else(assumed_errors);
            let or_equal = or_equal(condition.operator)?;
            (KeptCondition::Errors { threshold: condition.threshold, or_equal }, rate, basis)
        }
        Metric::ResponseTime(statistic) => {
            // Without history nobody knows how long calls take.
            let observed = observed?;
            let or_equal = or_equal(condition.operator)?;
            (kept(statistic, observed.beyond(condition.threshold, or_equal)?), 0.0, observed.basis())
        }
    };
    let (calls, share) = (stage.min_calls.max(1), f64::from(stage.new_traffic) / 100.0);
    let chances = power::chances(kept, calls, share, rate);
    let least_calls = power::least_calls(kept, share, rate, TOLERATED_CHANCE);
    let warning = (chances.fails + chances.untested > TOLERATED_CHANCE).then(|| {
        let share = |share: f64| format!("{:.1} %", share * 100.0);
        let advice = match least_calls {
            Some(least) => format!("minCalls: {least} would do"),
            None => "no minCalls would do: the base version breaks it too".to_owned(),
        };
        let hit = (agents as f64 * chances.fails).round();
        let some = if hit > 0.0 { format!(", at some {hit} of {agents},") } else { String::new() };
        format!(
            "after {calls} calls an equal version fails by chance at {} of the agents{some} and is untested at {}; {advice}",
            share(chances.fails),
            share(chances.untested)
        )
    });
    Some(Risk { stage: at, condition: condition.to_string(), basis, chances, least_calls, warning })
}

/// Whether a limit from above may be reached; `None`: it is none from above.
const fn or_equal(operator: Operator) -> Option<bool> {
    match operator {
        Operator::Less => Some(false),
        Operator::LessOrEqual => Some(true),
        _ => None,
    }
}

const fn kept(statistic: Statistic, beyond: f64) -> KeptCondition {
    match statistic {
        Statistic::Median => KeptCondition::Quantile { q: 0.5, beyond },
        Statistic::Quantile(q) => KeptCondition::Quantile { q, beyond },
        Statistic::Maximum => KeptCondition::All { beyond },
        Statistic::Minimum => KeptCondition::One { beyond },
    }
}
