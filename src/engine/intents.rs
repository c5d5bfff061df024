//! What programs outside want of workflows and nodes, in the form of EDGELESS: a key that says what is to be done to whom, and a value.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use super::{
    audit,
    blocking::giving_way,
    error::{EngineError, unwritable},
    handle::Engine,
    mailbox::By,
};
use domain::{
    children,
    release::{command::Command, state::Snapshot},
    workflows,
};
use model::Cordon;

/// What the key of each begins with.
pub const PREFIX: &str = "intent:";

/// Longest key and value that are read, in bytes.
const MAX_KEY_BYTES: usize = 256;
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Most nodes of one.
const MAX_NODES: usize = 100;

/// How long the engine may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// A function or a resource, by its logical id, moves to the first of some nodes that may run it.
    Migrate { logical: String, nodes: Vec<String> },
    /// Nothing new comes to a node, or it does so again.
    Cordon { node: String, is_cordoned: bool },
}

impl Intent {
    /// `intent:migrate:LOGICAL` with ids of nodes that commas separate, or `intent:cordon:NODE` with `yes` or `no`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(key: &str, value: &str) -> Result<Self, String> {
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return Err(format!("a key has at most {MAX_KEY_BYTES} bytes, a value {MAX_VALUE_BYTES}"));
        }
        let words = key.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
        match words {
            Some(("migrate", logical)) if !logical.is_empty() => {
                let nodes = value.split(',').map(str::trim).filter(|node| !node.is_empty());
                let nodes: Vec<String> = nodes.map(str::to_owned).collect();
                if nodes.is_empty() || nodes.len() > MAX_NODES {
                    return Err(format!(
                        "the value has 1 to {MAX_NODES} ids of nodes, with commas between them"
                    ));
                }
                Ok(Self::Migrate { logical: logical.to_ascii_lowercase(), nodes })
            }
            Some(("cordon", node)) if !node.is_empty() => {
                let is_cordoned = match value.trim().to_ascii_lowercase().as_str() {
                    "yes" => true,
                    "no" => false,
                    _ => return Err("the value is yes or no".to_owned()),
                };
                Ok(Self::Cordon { node: node.to_owned(), is_cordoned })
            }
            Some(_) | None => Err("an intent is intent:migrate:LOGICAL or intent:cordon:NODE".to_owned()),
        }
    }
}

/// Where functions and resources are: the workflow and the name of each, by its logical id.
#[derive(Debug, Default)]
pub struct Places(HashMap<String, (String, String)>);

impl Places {
    /// Of those that some intents name. One walk over all workflows, on a thread apart.
    ///
    /// # Errors
    ///
    /// The engine is gone, or too busy.
    pub async fn of(engine: &Engine, intents: impl Iterator<Item = &Intent>) -> Result<Self, EngineError> {
        let logical = |intent: &Intent| match intent {
            Intent::Migrate { logical, .. } => Some(logical.clone()),
            Intent::Cordon { .. } => None,
        };
        let wanted: HashSet<String> = intents.filter_map(logical).collect();
        if wanted.is_empty() {
            return Ok(Self::default());
        }
        engine.read_apart(PATIENCE, move |state| Self(find(state, &wanted))).await
    }
}

fn find(state: &Snapshot, wanted: &HashSet<String>) -> HashMap<String, (String, String)> {
    let mut found = HashMap::new();
    for workflow in state.workflows.iter() {
        for (key, name, _) in giving_way(workflow.parts()) {
            let Some(part) = state.workflows.part(key) else { continue };
            // Below a manager, one that stops may have the same logical id as the one that takes its place.
            let is_first = || !found.contains_key(&*part.logical);
            if wanted.contains(&*part.logical) && (!workflow.is_stopping || is_first()) {
                found.insert(part.logical.to_string(), (workflow.id.clone(), name.to_owned()));
            }
        }
    }
    found
}

/// Does what is wanted, once it is committed. The inner error: why it is refused.
///
/// # Errors
///
/// The engine is gone, or too busy: nothing is known of it.
pub async fn carry_out(
    engine: &Engine,
    intent: &Intent,
    places: &Places,
    by: By,
) -> Result<Result<(), String>, EngineError> {
    let command = match intent {
        Intent::Migrate { logical, nodes } => {
            let Some((id, part)) = places.0.get(logical) else {
                return Ok(Err(format!("no function or resource has the logical id {logical}")));
            };
            let (id, part) = (id.clone(), part.clone());
            let nodes = nodes.iter().map(|node| known(engine, node)).collect();
            Command::Workflows(workflows::Command::Move { id, part, nodes })
        }
        Intent::Cordon { node, is_cordoned } => {
            let cordon = if *is_cordoned { Cordon::Cordoned } else { Cordon::Open };
            Command::Children(children::Command::Cordon { child: known(engine, node), cordon })
        }
    };
    match engine.call(command, by, PATIENCE).await {
        Ok(_) => Ok(Ok(())),
        Err(EngineError::Refused(refusal)) => Ok(Err(refusal.to_string())),
        Err(error) => Err(error),
    }
}

/// The id of a node as it is known here: UUIDs are also said in capitals.
fn known(engine: &Engine, node: &str) -> String {
    let is_known = engine.view().children.with(node, |_| ()).is_some();
    if is_known { node.to_owned() } else { node.to_ascii_lowercase() }
}

/// Writes down what became of an intent: who had it is told after this.
///
/// # Errors
///
/// The engine is gone, or too busy.
pub async fn note_answer(
    engine: &Engine,
    key: &str,
    value: &str,
    refused: Option<&str>,
    by: By,
) -> Result<(), EngineError> {
    let event = audit::intent(key, value, refused).map_err(|error| unwritable(&error))?;
    engine.note(event, by, PATIENCE).await
}
