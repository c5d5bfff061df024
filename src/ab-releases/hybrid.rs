//! The hybrid model: agents with the labels of a group deploy the new variation, and then routers shift the calls of the service to it.
//!
//! The environment has ports, as that of routers, and one variation but the stable one has a target group of agents. Beside the service
//! the strategy has a function of the same name, which the agents of the group run: in the stable variation's version until now, and
//! in the new one's once they have deployed it. Versions say what they consist of, as those of agents do, and where routers find
//! them, as those of routers do.
//!
//! Agents have one stage of their own, in which the new version runs without any share of the calls. Whether it is good is judged by the
//! calls that routers give it, in the stages that the body asks for.

use serde_json::{Value, json};

use super::{
    Bound, Fault,
    agents::{folders, group_of_agents},
};
use protocol::ab_releases::NewABRelease;

/// The agents' stage. No template has one called so: theirs are called by their shares.
const DEPLOY: &str = "deploy";

/// The variation that agents deploy, by its place; `None`: all of them run already.
///
/// # Errors
///
/// Groups of agents that can't stand beside each other.
pub(super) fn deployed(body: &NewABRelease, bound: &Bound) -> Result<Option<usize>, Fault> {
    let of_agents = |at: &usize| group_of_agents(bound, *at).is_some();
    let field = |at: usize| format!("variations[{at}].targetGroupId");
    let mut by_agents = (1..body.variations.len()).filter(of_agents);
    let (first, second) = (by_agents.next(), by_agents.next());
    if let (Some(first), Some(second)) = (first, second) {
        let why = format!(
            "agents deploy one variation of a release, and {} is one: give {} a target group with addresses",
            body.variations[first].name, body.variations[second].name
        );
        return Err(Fault::new(field(second), why));
    }
    let (Some(stable), new) = (group_of_agents(bound, 0), first.and_then(|at| group_of_agents(bound, at)))
    else {
        return Ok(first);
    };
    if new.is_some_and(|new| new.name == stable.name) {
        return Ok(first);
    }
    let why = format!(
        "target group {} is of agents, and the stable variation runs already: name the group whose agents deploy another one, or none",
        stable.name
    );
    Err(Fault::new(field(0), why))
}

/// The function that agents deploy, as a strategy has it.
///
/// # Errors
///
/// The field that can't be taken.
pub(super) fn function(bound: &Bound, at: usize) -> Result<Value, Fault> {
    let labels = group_of_agents(bound, at).map(|group| &group.labels);
    let [base, new] = folders(bound, at)?;
    let service = &bound.environment.service;
    Ok(json!({"name": service, "agents": {"labels": labels}, "base_version": base, "new_version": new}))
}

/// The stage in which they do.
pub(super) fn stage(bound: &Bound) -> Value {
    json!({
        "name": DEPLOY, "type": "A/B", "func_name": bound.environment.service,
        "variants": [
            {"name": "base_version", "trafficPercentage": 100},
            {"name": "new_version", "trafficPercentage": 0},
        ],
        "end_action": {"onSuccess": "rollout", "onFailure": "rollback"},
    })
}
