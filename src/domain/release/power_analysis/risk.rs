//! What chance does to plain conditions, each child by itself.

use super::{Observed, assumed_errors};
use analysis::power::{self, Chances, KeptCondition};
use language::{Condition, Metric, Operator, Stage, Statistic, Strategy};

/// The share of children that chance may stop at a condition.
const TOLERATED_CHANCE: f64 = 0.05;

/// So many numbers of calls are tried for one that is enough.
const MOST_TRIED: usize = 1_000;

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
    let is_tolerated = |chances: Chances| chances.fails + chances.untested <= TOLERATED_CHANCE;
    let warning = (!is_tolerated(chances)).then(|| {
        let advice = match least_calls {
            Some(least) => {
                // Single errors make it rise and fall from number to number.
                let mut more = (least.max(calls + 1)..).take(MOST_TRIED);
                let enough = more.find(|calls| is_tolerated(power::chances(kept, *calls, share, rate)));
                format!("raise minCalls from {} to {}", stage.min_calls, enough.unwrap_or(least))
            }
            None => loosen(condition, kept, rate),
        };
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let hit = (agents as f64 * chances.fails).round();
        let some = if hit > 0.0 { format!(", at some {hit} of {agents},") } else { String::new() };
        format!(
            "{advice}: an equal version fails by chance at {} of the agents{some} and is untested at {} after {calls} calls",
            percent(chances.fails),
            percent(chances.untested)
        )
    });
    Some(Risk { stage: at, condition: condition.to_string(), basis, chances, least_calls, warning })
}

/// What to do about a condition that the base version breaks, too, or keeps by a hair.
fn loosen(condition: &Condition, kept: KeptCondition, rate: f64) -> String {
    match kept {
        KeptCondition::Errors { .. } => {
            let rate = condition.metric.shown(rate);
            format!("raise the limit of {condition} well above {rate}, the rate of the base version")
        }
        KeptCondition::Quantile { beyond, .. }
        | KeptCondition::All { beyond }
        | KeptCondition::One { beyond } => format!(
            "raise the limit of {condition}, for {:.2} % of the base version's calls take longer",
            beyond * 100.0
        ),
    }
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
