//! `POST /join`: a new child gets an id and a token of its own.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use super::limits::{MAX_CHILD_NAME_BYTES, NONCE_BYTES};
use crate::{
    WireError,
    read::{read, within},
    text,
};
use model::ChildKind;

/// `POST /join`, with a join token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest<'a> {
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub name: Option<Cow<'a, str>>,
    #[serde(default)]
    pub kind: ChildKind,
    /// What the child has made up at random, and keeps to itself: who joins again with the same, by the same join token, is the same child
    /// and gets the same token. Without it each call makes another child.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub nonce: Option<Cow<'a, str>>,
}

impl<'a> JoinRequest<'a> {
    /// Reads and checks a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let request: Self = read(body)?;
        request.name.as_ref().map_or(Ok(()), |name| within("name", name, MAX_CHILD_NAME_BYTES))?;
        request.nonce.as_deref().map_or(Ok(()), check_nonce)?;
        Ok(request)
    }
}

/// Checks that nobody guesses a nonce. The error doesn't show it.
pub(super) fn check_nonce(nonce: &str) -> Result<(), WireError> {
    if NONCE_BYTES.contains(&nonce.len()) && nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let (least, most) = (NONCE_BYTES.start(), NONCE_BYTES.end());
    Err(WireError::new(&format!("`nonce` has {least} to {most} characters of ASCII that can be seen")))
}

/// The answer to who joins.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// What the child is called from now on.
    pub id: String,
    /// What it sends with each call from now on. A secret that is said once.
    pub token: String,
}

impl fmt::Debug for JoinAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinAnswer").field("id", &self.id).finish_non_exhaustive()
    }
}
