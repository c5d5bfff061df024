//! `POST /placements`: what an agent on whose machine functions of workflows are placed runs of them, and what it is to run.
//!
//! Each call says the whole of what runs, and is answered with the whole of what is to run. It is a long poll (`?wait=1s`): the answer
//! comes as soon as something else is to run than the caller knows of, else after the wait. Whatever runs there and isn't in an answer
//! is to be ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    WireError,
    measurements::{self, NodeHealth, Samples},
    read::{at_most, read, within},
};
use model::MAX_OFFER_ID_LEN;

/// Largest body, in bytes.
pub const MAX_PLACEMENTS_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Largest answer, in bytes.
pub const MAX_PLACEMENTS_ANSWER_BYTES: usize = 128 * 1024 * 1024;

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
    /// How the machine is; absent: as it was said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<NodeHealth>,
    /// What was measured since the last call that was answered.
    #[serde(default, skip_serializing_if = "Samples::is_empty")]
    pub samples: Samples,
}

/// An instance that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceReport {
    pub id: String,
    pub phase: InstancePhase,
    /// Why it failed; at most [`MAX_WHY_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Of a manager: where the node below it takes events that runs the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// How far an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstancePhase {
    Starting,
    /// It was to get ready, and could run at once.
    Ready,
    Running,
    /// It can't be started, or runs no more.
    Failed,
}

/// What is to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementsAnswer {
    /// Another one for whatever else is to run.
    pub state: String,
    /// A node that says nothing for so long is taken for lost: the next call waits for half of it at most.
    pub keep_alive_ms: u64,
    /// It is to be measured how long functions take with events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub measure: bool,
    /// `None`: as the caller knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<Vec<PlacedInstance>>,
}

/// An instance that is to run, or to end. The code of a function is at `GET /release/functions/ID`, with its `id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedInstance {
    pub id: String,
    /// Its workflow and its name there: what callers call a function at the proxy of its node.
    pub name: String,
    /// What it is called whichever node runs it: a UUID.
    pub part: String,
    /// With which events to it are signed.
    pub key: String,
    #[serde(default, skip_serializing_if = "PlacedState::is_run")]
    pub state: PlacedState,
    /// It begins by itself: there are never two of it that run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub source: bool,
    #[serde(flatten)]
    pub what: PlacedPart,
    /// By the name of an output: who gets what it puts out there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, PlacedTarget>,
}

/// What is to become of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacedState {
    #[default]
    Run,
    /// It is to get ready, and to run once another one of its function has ended elsewhere.
    Prepare,
    /// It is to end; what it has put out is delivered still.
    End,
}

impl PlacedState {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_run(&self) -> bool {
        *self == Self::Run
    }
}

/// What an instance is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacedPart {
    Function {
        /// What runs it.
        runtime: String,
        /// Its folder in the archive.
        folder: String,
        annotations: BTreeMap<String, String>,
    },
    Resource {
        class: String,
        configuration: BTreeMap<String, String>,
    },
}

/// Classes of resources that nodes provide.
pub const RESOURCES: [&str; 3] = ["file-log", "http-egress", METRICS_COLLECTOR];

/// The class of resources that functions tell when something begins and ends.
pub const METRICS_COLLECTOR: &str = "metrics-collector";

/// What is configured of a collector: what the workflow is called there, and the weight of the newest sample in an average.
const WF_NAME: &str = "wf_name";
const ALPHA: &str = "alpha";
const USUAL_ALPHA: f64 = 0.9;

/// Longest name of a file, and of a workflow at a collector, in bytes.
const MAX_FILE_NAME_BYTES: usize = 128;

/// What is wrong with the configuration of a resource: the key, and why.
pub fn check_resource(
    class: &str,
    configuration: &BTreeMap<String, String>,
) -> Result<(), (&'static str, String)> {
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        (1..=MAX_FILE_NAME_BYTES).contains(&name.len()) && name.chars().all(is_plain)
    };
    if class == METRICS_COLLECTOR {
        let name = configuration.get(WF_NAME).filter(|name| !name.is_empty());
        if name.is_some_and(|name| !is_name(name)) {
            return Err((WF_NAME, format!("it has 1 to {MAX_FILE_NAME_BYTES} letters, digits, ., _ and -")));
        }
        let alpha = configuration.get(ALPHA).map(|alpha| alpha.trim().parse::<f64>());
        if alpha.is_some_and(|alpha| !alpha.is_ok_and(|alpha| alpha > 0.0 && alpha <= 1.0)) {
            return Err((ALPHA, "it is above 0 and at most 1, as in 0.9".to_owned()));
        }
    }
    if class != "file-log" {
        return Ok(());
    }
    let name = configuration.get("filename").map_or("", String::as_str);
    if !is_name(name) || name.starts_with('.') {
        let why = format!(
            "it is the name of a file in the folder node.logs: 1 to {MAX_FILE_NAME_BYTES} letters, digits, ., _ and -, with no . in front"
        );
        return Err(("filename", why));
    }
    Ok(())
}

/// What a collector of metrics calls its workflow, if that isn't the name of it; and the weight of the newest sample in an average.
#[must_use]
pub fn collector(configuration: &BTreeMap<String, String>) -> (Option<&str>, f64) {
    let name = configuration.get(WF_NAME).map(String::as_str).filter(|name| !name.is_empty());
    let alpha = configuration.get(ALPHA).and_then(|alpha| alpha.trim().parse().ok());
    (name, alpha.unwrap_or(USUAL_ALPHA))
}

/// Who gets events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedTarget {
    /// A UUID.
    pub part: String,
    /// Where its node takes events; none: it runs nowhere now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// With which events to it are signed.
    pub key: String,
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
        measurements::check(&request.samples)?;
        for instance in &request.instances {
            within("instances.id", &instance.id, MAX_OFFER_ID_LEN)?;
            within("instances.why", instance.why.as_deref().unwrap_or_default(), MAX_WHY_BYTES)?;
            if let Some(url) = instance.url.as_deref().filter(|url| !url.is_empty()) {
                let why = |why| WireError::new(&format!("`instances.url` {why}"));
                model::public_url::check_node(url).map_err(why)?;
            }
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
