//! What of a strategy this interface shows: its first service, or the function of a release to agents that was created here. Both have
//! variations, of which the first is the stable one, and stages that share calls among them.

use language::{Stage, Strategy};

use super::{
    names::{BASE, ENVIRONMENT, NEW},
    shares::WHOLE,
};

/// The index of that subject; `None`: the release is none of this interface's.
#[must_use]
pub fn subject_of(strategy: &Strategy) -> Option<usize> {
    if !strategy.services.is_empty() {
        return Some(strategy.functions.len());
    }
    let is_named = |key: &str| strategy.annotations.contains_key(key);
    let is_of_agents = strategy.functions.len() == 1 && [ENVIRONMENT, BASE, NEW].into_iter().all(is_named);
    is_of_agents.then_some(0)
}

/// The name of a variation.
#[must_use]
pub fn variation_of(strategy: &Strategy, which: usize) -> Option<&str> {
    match strategy.services.first() {
        Some(service) => service.variations.get(which).map(|variation| variation.name.as_str()),
        None => strategy.annotations.get(*[BASE, NEW].get(which)?).map(String::as_str),
    }
}

/// What each variation gets in a stage, in units of 0.01 %.
#[must_use]
pub fn shares_of(stage: &Stage) -> Vec<u16> {
    if stage.shares.is_empty() {
        let new = u16::from(stage.new_traffic) * 100;
        return vec![WHOLE.saturating_sub(new), new];
    }
    stage.shares.clone()
}
