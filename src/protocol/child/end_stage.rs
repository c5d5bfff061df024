//! `POST /end_stage`: may the stage end, and how?

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::{WireError, read::read, text};

/// `POST /end_stage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndStageRequest<'a> {
    #[serde(borrow, deserialize_with = "text::child_id")]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub stage_name: Cow<'a, str>,
    /// The offer. A number is kept as it was written.
    #[serde(borrow, deserialize_with = "text::strategy_id")]
    pub strategy_id: Cow<'a, str>,
    /// The stages of which whoever has a whole strategy knows that they are passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// The shares that an agent was told of, as [`EndStageAnswer::shares`] tells them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, u16>,
    /// A manager asks what becomes of the stages that have failed below it and keep their shares: so many it has told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
}

impl<'a> EndStageRequest<'a> {
    /// Reads a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        read(body)
    }
}

/// The answer to a question for the end of a stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndStageAnswer {
    pub end_stage: bool,
    /// What a newer child is to do at the end; deployed agents don't look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<FollowUp>,
    /// The stages that a manager is to pass over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// The variation of its service that an agent is to have serve alone once its last stage has ended well, whatever the stages say.
    /// Told to those only that name the feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// What the one variation beside the stable one gets from now on in these stages, in units of 0.01 %, whatever the offer's text says. Told
    /// to those only that name the feature.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, u16>,
    /// It is decided to go on from the `failures` of which a manager asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowUp {
    Rollback,
}
