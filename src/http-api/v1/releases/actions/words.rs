//! What an action would do, in a sentence. Names that others chose stand in it spelt out, so that none turns the rest around.

use super::affected_agents::Reach;
use domain::release::{
    operation::Operation,
    state::{Release, ReleaseState},
};
use model::text::one_line;

/// The stage that an action is about.
pub fn stage(release: &Release, operation: Operation) -> Option<&str> {
    match operation {
        Operation::SkipStage(at) => release.strategy.stages.get(at).map(|stage| stage.name.as_str()),
        Operation::Approve
        | Operation::Pause
        | Operation::Resume
        | Operation::PromoteToGate
        | Operation::Promote
        | Operation::Retry
        | Operation::Extend
        | Operation::Abort => None,
    }
}

/// Why an action that would be accepted changes nothing.
pub const fn already(operation: Operation) -> &'static str {
    match operation {
        Operation::Approve => "it was approved already",
        Operation::Pause => "it is paused already",
        Operation::Resume => "it runs already",
        Operation::PromoteToGate | Operation::Promote => "everything is open already",
        Operation::SkipStage(_) => "this stage is skipped already",
        Operation::Retry => "nobody is to be tried again",
        Operation::Extend => "everybody who can take part does already",
        Operation::Abort => "it is being taken back, or was, already",
    }
}

pub fn does(release: &Release, operation: Operation, reach: &Reach) -> String {
    let agents = agents(reach);
    let whose = whose(reach);
    match operation {
        Operation::Approve => {
            let what = match &release.state {
                ReleaseState::AwaitingApproval { what, .. } => what.as_str(),
                ReleaseState::Planned
                | ReleaseState::Running
                | ReleaseState::Paused(_)
                | ReleaseState::RollingBack { .. }
                | ReleaseState::Over { .. } => "what waits for an approval",
            };
            format!("Opens {}: {agents} can go on{whose}.", one_line(what))
        }
        Operation::Pause => {
            format!("Holds {agents} before what comes next{whose}; what one has in hand, it ends.")
        }
        Operation::Resume if matches!(release.state, ReleaseState::Planned) => {
            "Begins the release when its turn has come.".to_owned()
        }
        Operation::Resume => format!("Lets {agents} go on{whose}."),
        Operation::PromoteToGate => {
            let gate = release
                .next_gate()
                .map_or_else(|| "what comes next".to_owned(), |gate| release.gate_name(gate));
            format!(
                "Opens {} without waiting any longer: {agents} can go on{whose}. What is behind it waits as before.",
                one_line(&gate)
            )
        }
        Operation::Promote => {
            format!(
                "Opens all waves, stages and approvals that are left, at once: {agents} can go on{whose}."
            )
        }
        Operation::SkipStage(_) => {
            let name = stage(release, operation).unwrap_or_default();
            let name = one_line(name);
            format!("Ends stage {name} for those in it, and nobody begins it any more: {agents}{whose}.")
        }
        Operation::Retry => format!("Gives {agents} that ended badly another attempt{whose}."),
        Operation::Extend => {
            format!("Takes in {agents} that can take part by now and have no part{whose}, after all others.")
        }
        Operation::Abort => {
            format!(
                "Takes the release back for good: {agents} get no more of it, or go back to the base version{whose}."
            )
        }
    }
}

fn agents(reach: &Reach) -> String {
    match reach.agents {
        _ if reach.is_unknown => "agents".to_owned(),
        1 => "1 agent".to_owned(),
        more => format!("{more} agents"),
    }
}

/// In which waves, and where.
fn whose(reach: &Reach) -> String {
    let waves = match reach.waves {
        Some([first, last]) if first == last => format!(" in wave {first}"),
        Some([first, last]) => format!(" in waves {first} to {last}"),
        None => String::new(),
    };
    match reach.places.as_slice() {
        [] => waves,
        places => {
            format!("{waves}, at {}", places.join(", "))
                + if reach.has_others { " and elsewhere" } else { "" }
        }
    }
}
