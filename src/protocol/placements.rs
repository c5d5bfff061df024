//! `POST /placements`: what an agent on whose machine functions of workflows are placed runs of them, and what it is to run.
//!
//! Each call says the whole of what runs, and is answered with the whole of what is to run. It is a long poll (`?wait=1s`): the answer
//! comes as soon as something else is to run than the caller knows of, else after the wait. Whatever runs there and isn't in an answer
//! is to be ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    WireError,
    read::{at_most, read, within},
};
use model::MAX_OFFER_ID_LEN;

/// Largest body, in bytes.
pub const MAX_PLACEMENTS_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Most instances of a node.
pub const MAX_INSTANCES: usize = 10_000;

/// Longest reason why an instance doesn't run, in bytes.
pub const MAX_WHY_BYTES: usize = 1_000;

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementsRequest {
    pub id: String,
    /// `state` of the last answer that was understood; absent: none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// At most [`MAX_INSTANCES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceReport>,
}

/// An instance that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceReport {
    pub id: String,
    pub phase: InstancePhase,
    /// Why it failed; at most [`MAX_WHY_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How far an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstancePhase {
    Starting,
    Running,
    /// It can't be started, or runs no more.
    Failed,
}

/// What is to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementsAnswer {
    /// Another one for whatever else is to run.
    pub state: String,
    /// `None`: as the caller knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<Vec<PlacedInstance>>,
}

/// An instance that is to run. Its code is at `GET /release/functions/ID`, with its `id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedInstance {
    pub id: String,
    /// What callers call it at the proxy of its node.
    pub function: String,
    /// What runs it.
    pub runtime: String,
    /// Its folder in the archive.
    pub folder: String,
    pub annotations: BTreeMap<String, String>,
}

impl PlacementsRequest {
    /// Reads and checks a body.
    ///
    /// # Errors
    ///
    /// What isn't as it is documented here; it names the field.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let request: Self = read(body)?;
        within("id", &request.id, MAX_OFFER_ID_LEN)?;
        within("state", request.state.as_deref().unwrap_or_default(), MAX_OFFER_ID_LEN)?;
        at_most("instances", request.instances.len(), MAX_INSTANCES)?;
        for instance in &request.instances {
            within("instances.id", &instance.id, MAX_OFFER_ID_LEN)?;
            within("instances.why", instance.why.as_deref().unwrap_or_default(), MAX_WHY_BYTES)?;
        }
        Ok(request)
    }
}

impl PlacementsAnswer {
    /// Reads and checks a body.
    ///
    /// # Errors
    ///
    /// What isn't as it is documented here; it names the field.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let answer: Self = read(body)?;
        within("state", &answer.state, MAX_OFFER_ID_LEN)?;
        at_most("instances", answer.instances.as_ref().map_or(0, Vec::len), MAX_INSTANCES)?;
        Ok(answer)
    }
}
