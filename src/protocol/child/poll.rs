//! `POST /poll`: what a child says of itself, and what waits for it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::join::check_nonce;
use super::limits::{
    MAX_CHILD_NAME_BYTES, MAX_LABEL_BYTES, MAX_LABELS, MAX_LABELS_BELOW, MAX_RM_IDS, MAX_RUNTIMES,
};
use crate::{
    WireError, number,
    question::{MAX_FEATURES, MAX_QUESTIONS, QuestionForm},
    read::{at_most, empty_for_none, read, within},
    text,
};
use model::{Capabilities, ChildKind, MAX_OFFER_ID_LEN};

/// `POST /poll`. Strings are borrowed from the body.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PollRequest<'a> {
    /// GeoJSON, unparsed.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub geographic_area: Option<&'a RawValue>,
    /// Empty or absent: the child asks for an id.
    #[serde(borrow, default, deserialize_with = "text::poll_id", serialize_with = "empty_for_none")]
    pub id: Option<Cow<'a, str>>,
    /// Agents below this child; 0 for an agent.
    #[serde(default, deserialize_with = "number::number_of_children")]
    pub number_of_children: u32,
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub name: Option<Cow<'a, str>>,
    /// Of who asks for an id: what it has made up at random, and keeps to itself. Who asks again with the same gets the same id.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub nonce: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ChildKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Of a manager: itself and the managers above it, nearest first, at most [`MAX_RM_IDS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rm_ids: Vec<String>,
    /// Of a manager: offers that it holds because it was told to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
}

impl<'a> PollRequest<'a> {
    /// Reads and checks a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let request: Self = read(body)?;
        request.validate()?;
        Ok(request)
    }

    /// The id, `""` where there is none.
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// Checks the limits of what newer children add.
    pub fn validate(&self) -> Result<(), WireError> {
        if let Some(name) = &self.name {
            within("name", name, MAX_CHILD_NAME_BYTES)?;
        }
        self.nonce.as_deref().map_or(Ok(()), check_nonce)?;
        check_ids("rm_ids", &self.rm_ids)?;
        check_ids("held", &self.held)?;
        self.capabilities.as_ref().map_or(Ok(()), check_capabilities)
    }
}

fn check_ids(field: &str, ids: &[String]) -> Result<(), WireError> {
    at_most(field, ids.len(), MAX_RM_IDS)?;
    ids.iter().try_for_each(|id| within(field, id, MAX_OFFER_ID_LEN))
}

/// Checks the limits of reported capabilities.
fn check_capabilities(capabilities: &Capabilities) -> Result<(), WireError> {
    // How it leads is one of a few words, and checked where it is read.
    let Capabilities { runtimes, labels, labels_below, features, leads: _, routers, public_url, node } =
        capabilities;
    if let Some(node) = node {
        check_features("capabilities.node.resources", &node.resources)?;
        // They become parts of keys, which programs print one a line and take apart at spaces.
        if node.resources.iter().any(|class| class.contains(|c: char| c.is_whitespace() || c.is_control())) {
            return Err(WireError::new("`capabilities.node.resources` has spaces or control characters"));
        }
        if !node.events.is_empty() {
            let why = |why| WireError::new(&format!("`capabilities.node.events` {why}"));
            model::public_url::check_node(&node.events).map_err(why)?;
        }
    }
    if let Some(url) = public_url {
        // People are led there: nothing else than an address of a page may come in.
        let why = |why| WireError::new(&format!("`capabilities.public_url` {why}"));
        model::public_url::check(url).map_err(why)?;
    }
    let runtimes = runtimes.as_deref().unwrap_or_default();
    at_most("capabilities.runtimes", runtimes.len(), MAX_RUNTIMES)?;
    at_most("capabilities.labels", labels.len(), MAX_LABELS)?;
    check_features("capabilities.features", features)?;
    check_features("capabilities.routers", routers)?;
    if let Some(below) = labels_below {
        // A key without a value is one, too.
        let pairs = below.values().map(|values| values.len().max(1)).sum();
        at_most("capabilities.labels_below", pairs, MAX_LABELS_BELOW)?;
        for text in below.keys().chain(below.values().flatten()) {
            within("capabilities.labels_below", text, MAX_LABEL_BYTES)?;
        }
    }
    for runtime in runtimes {
        within("capabilities.runtimes", runtime, MAX_LABEL_BYTES)?;
    }
    for (key, value) in labels {
        within("capabilities.labels", key, MAX_LABEL_BYTES)?;
        within("capabilities.labels", value, MAX_LABEL_BYTES)?;
    }
    Ok(())
}

fn check_features(field: &str, features: &[String]) -> Result<(), WireError> {
    at_most(field, features.len(), MAX_FEATURES)?;
    features.iter().try_for_each(|feature| within(field, feature, MAX_LABEL_BYTES))
}

/// The answer to a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollAnswer<'a> {
    /// What the child is called from now on. The older spelling may have a number here.
    #[serde(borrow, deserialize_with = "text::child_id")]
    pub id: Cow<'a, str>,
    /// The first offer that waits for it, or `""`. The older spelling may have a number here.
    #[serde(borrow, default, deserialize_with = "text::new_release")]
    pub new_release: Cow<'a, str>,
    /// To managers: who answers and the managers above it, nearest first, at most [`MAX_RM_IDS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rm_ids: Vec<String>,
    /// To managers: offers that they have in hand and whose release is paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hold: Vec<String>,
    /// To managers: what the parent understands beyond the plain protocol, at most [`MAX_FEATURES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// To managers that say that they answer them: at most [`MAX_QUESTIONS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionForm>,
}

impl<'a> PollAnswer<'a> {
    /// Reads and checks a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let answer: Self = read(body)?;
        within("id", &answer.id, MAX_OFFER_ID_LEN)?;
        within("new_release", &answer.new_release, MAX_OFFER_ID_LEN)?;
        if answer.id.is_empty() {
            return Err(WireError::new("`id` must not be empty"));
        }
        check_ids("rm_ids", &answer.rm_ids)?;
        check_ids("hold", &answer.hold)?;
        check_features("features", &answer.features)?;
        at_most("questions", answer.questions.len(), MAX_QUESTIONS)?;
        answer.questions.iter().try_for_each(QuestionForm::validate)?;
        Ok(answer)
    }
}
