//! What programs outside want of workflows and nodes, in the form of EDGELESS: a key that says what is to be done to whom, and a value.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures_util::future::BoxFuture;

use super::{
    audit,
    blocking::giving_way,
    error::{EngineError, unwritable},
    handle::Engine,
    mailbox::By,
};
use domain::{
    children,
    release::{
        command::{Command, Refusal},
        state::Snapshot,
    },
    workflows,
};
use model::{Cordon, TenantName};

/// What the key of each begins with.
pub const PREFIX: &str = "intent:";

/// Longest key and value that are read, in bytes.
const MAX_KEY_BYTES: usize = 256;
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Most nodes of one.
const MAX_NODES: usize = 100;

/// Longest part of a key or a value that is repeated, in bytes.
const MAX_SHOWN: usize = 1_000;

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

/// What intents name, as far as whoever has them sees it.
#[derive(Debug, Default)]
pub struct Places {
    /// Where functions and resources are: the workflow and the name of each, by its logical id.
    parts: HashMap<String, (String, String)>,
    /// Ids of nodes.
    nodes: HashSet<String>,
}

impl Places {
    /// Of those that some intents name. One walk over all workflows, on a thread apart. `own`: the tenant that has the intents and sees its
    /// own alone; none: everything is seen.
    ///
    /// # Errors
    ///
    /// The engine is gone, or too busy.
    pub fn of<'e, 'i>(
        engine: &'e Engine,
        intents: impl Iterator<Item = &'i Intent>,
        own: Option<TenantName>,
    ) -> BoxFuture<'e, Result<Self, EngineError>> {
        let (mut parts, mut nodes) = (HashSet::new(), HashSet::new());
        for intent in intents {
            match intent {
                Intent::Migrate { logical, nodes: to } => {
                    parts.insert(logical.clone());
                    nodes.extend(to.iter().cloned());
                }
                Intent::Cordon { node, .. } => {
                    nodes.insert(node.clone());
                }
            }
        }
        Box::pin(async move {
            if nodes.is_empty() {
                return Ok(Self::default());
            }
            let find = move |state: &Snapshot| Self {
                parts: find_parts(state, &parts, own.as_ref()),
                nodes: find_nodes(state, nodes, own.as_ref()),
            };
            engine.read_apart(PATIENCE, find).await
        })
    }

    /// The id of a node as it is known here: UUIDs are also said in capitals.
    fn node(&self, said: &str) -> String {
        if self.nodes.contains(said) { said.to_owned() } else { said.to_ascii_lowercase() }
    }
}

fn find_parts(
    state: &Snapshot,
    wanted: &HashSet<String>,
    own: Option<&TenantName>,
) -> HashMap<String, (String, String)> {
    let mut found = HashMap::new();
    if wanted.is_empty() {
        return found;
    }
    for workflow in state.workflows.iter() {
        if own.is_some_and(|own| !own.owns(&workflow.id)) {
            continue;
        }
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

fn find_nodes(state: &Snapshot, wanted: HashSet<String>, own: Option<&TenantName>) -> HashSet<String> {
    let is_seen = |id: &str| {
        let child = state.children.by_id(id);
        child.is_some_and(|(_, child)| own.is_none_or(|own| child.tenant() == Some(own.as_str())))
    };
    let spelled = wanted.into_iter().flat_map(|node| [node.to_ascii_lowercase(), node]);
    spelled.filter(|id| is_seen(id)).collect()
}

/// Does what is wanted, once it is committed, and writes down what became of it: who had it is told after this. `intent`: what the key and
/// the value say, or what is wrong with them. What is answered: why it is refused; none: it is done.
///
/// # Errors
///
/// The engine is gone, or too busy: nothing is known of it.
pub fn answer<'a>(
    engine: &'a Engine,
    key: &'a str,
    value: &'a str,
    intent: &'a Result<Intent, String>,
    places: &'a Places,
    by: By,
) -> BoxFuture<'a, Result<Option<String>, EngineError>> {
    Box::pin(async move {
        let refused = match intent {
            Ok(intent) => carry_out(engine, intent, places, by.clone()).await?,
            Err(why) => Some(why.clone()),
        };
        let event = audit::intent(shown(key), shown(value), refused.as_deref(), by.note.as_deref());
        let event = event.map_err(|error| unwritable(&error))?;
        engine.note(event, by, PATIENCE).await?;
        Ok(refused)
    })
}

/// Why it is refused; none: it is done.
async fn carry_out(
    engine: &Engine,
    intent: &Intent,
    places: &Places,
    by: By,
) -> Result<Option<String>, EngineError> {
    let command = match intent {
        Intent::Migrate { logical, nodes } => {
            let Some((id, part)) = places.parts.get(logical) else {
                return Ok(Some(format!("no function or resource has the logical id {logical}")));
            };
            let (id, part) = (id.clone(), part.clone());
            let nodes = nodes.iter().map(|node| places.node(node)).collect();
            Command::Workflows(workflows::Command::Move { id, part, nodes })
        }
        Intent::Cordon { node, is_cordoned } => {
            let child = places.node(node);
            if !places.nodes.contains(&child) {
                return Ok(Some(Refusal::UnknownChild(child).to_string()));
            }
            let cordon = if *is_cordoned { Cordon::Cordoned } else { Cordon::Open };
            Command::Children(children::Command::Cordon { child, cordon })
        }
    };
    match engine.call(command, by, PATIENCE).await {
        Ok(_) => Ok(None),
        Err(EngineError::Refused(refusal)) => Ok(Some(refusal.to_string())),
        Err(error) => Err(error),
    }
}

/// The beginning of a text.
#[must_use]
pub fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_SHOWN)]
}
