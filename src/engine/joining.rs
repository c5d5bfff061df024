//! Children join, and get tokens of their own, which operators may revoke.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{
    Engine, audit,
    error::{EngineError, unwritable},
    mailbox::By,
    settings::{ChildToken, Setting},
    tokens::{TokenStatus, Tokens, digest},
};
use model::{ChildId, ChildKind, Secret, TenantName, hex};

/// Who has joined.
#[derive(Debug)]
pub struct Joined {
    pub id: ChildId,
    /// Nobody else knows it, and it can't be asked for again.
    pub token: Secret,
}

/// Who wants to join.
#[derive(Debug)]
pub struct Newcomer<'a> {
    pub name: Option<&'a str>,
    pub kind: ChildKind,
    /// The name of the token that lets it in, and the SHA-256 of that token.
    pub door: &'a str,
    pub join_token: &'a [u8; 32],
    /// What it has made up: who joins again with the same is the same. At least [`protocol::child::NONCE_BYTES`] long.
    pub nonce: Option<&'a str>,
    /// Whose child it is, as is said of that token.
    pub tenant: Option<&'a TenantName>,
}

impl Engine {
    /// Makes an id and a token for a new child. When this returns, they are stored, and hold from then on. Where the child brings a nonce
    /// along, both follow from that and the join token: who joins again, as an answer was lost or the call came twice, is answered the same,
    /// and nothing changes. `None`: this nonce can't be used any more, as its token was revoked or came by another join token.
    pub async fn join(
        &self,
        newcomer: &Newcomer<'_>,
        time_limit: Duration,
    ) -> Result<Option<Joined>, EngineError> {
        let Newcomer { name, kind, door, join_token, nonce, tenant } = *newcomer;
        let (id, token) = match nonce {
            None => fresh()?,
            Some(nonce) => {
                let token = token_of_nonce(join_token, nonce);
                (id_of_nonce(&token)?, token)
            }
        };
        let digest = digest(&token);
        let joined = || Joined { id: id.clone(), token: Secret::new(token.clone()) };
        match self.view.tokens.of(id.as_str()) {
            Some(TokenStatus::Holds(known)) if known == digest => return Ok(Some(joined())),
            Some(TokenStatus::Holds(_) | TokenStatus::Revoked | TokenStatus::Unreadable) => return Ok(None),
            None => {}
        }
        let tenant = tenant.cloned();
        let kept = ChildToken { digest, door: door.to_owned(), is_revoked: false, tenant };
        let event = audit::enrolled(id.as_str(), name, kind, door).map_err(|error| unwritable(&error))?;
        let setting = Setting::ChildToken { child: id.as_str().to_owned(), token: kept };
        self.keep_setting(setting, By::CHILD, event, time_limit).await?;
        Ok(Some(joined()))
    }

    /// Whether a child has joined with this nonce already.
    pub fn has_joined(&self, join_token: &[u8; 32], nonce: &str) -> bool {
        let token = token_of_nonce(join_token, nonce);
        self.view.tokens.holder(&digest(&token)).is_some()
    }

    /// Makes the token of a child useless; false: it has none. When this returns well, it opens nothing any more.
    pub async fn revoke_token(&self, child: &str, by: By, time_limit: Duration) -> Result<bool, EngineError> {
        match self.view.tokens.of(child) {
            None => return Ok(false),
            Some(TokenStatus::Revoked) => return Ok(true),
            Some(TokenStatus::Holds(_) | TokenStatus::Unreadable) => {}
        }
        let Some((setting, event)) = revoked(&self.view.tokens, child, by.note.as_deref()) else {
            return Err(EngineError::Failed);
        };
        self.keep_setting(setting, by, event, time_limit).await?;
        Ok(true)
    }
}

/// What is stored, and said in the trail, where the token of a child is made useless; `None`: it has none, or that is so already.
pub(super) fn revoked(tokens: &Tokens, child: &str, note: Option<&str>) -> Option<(Setting, String)> {
    let digest = match tokens.of(child)? {
        TokenStatus::Revoked => return None,
        TokenStatus::Holds(digest) => digest,
        TokenStatus::Unreadable => [0; 32],
    };
    let token = ChildToken { digest, door: String::new(), is_revoked: true, tenant: None };
    let event = audit::token_revoked(child, note).map_err(|error| unwritable(&error)).ok()?;
    Some((Setting::ChildToken { child: child.to_owned(), token }, event))
}

/// 256 bits that follow from secrets, and from which nobody finds these; different for each purpose.
fn following(purpose: &[u8], secrets: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(b"choirmaster ");
    for part in std::iter::once(&purpose).chain(secrets) {
        // With its length, so that no two lists of parts are written alike.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn token_of_nonce(join_token: &[u8; 32], nonce: &str) -> String {
    hex::encode(&following(b"child token", &[join_token, nonce.as_bytes()]))
}

/// The id of a child that made this nonce up: always the same, and none that tells the nonce.
pub fn id_of_nonce(nonce: &str) -> Result<ChildId, EngineError> {
    let bytes = following(b"child id", &[nonce.as_bytes()]);
    let mut first = [0; 16];
    first.copy_from_slice(&bytes[..16]);
    id_from(first)
}

/// An id, and a token of 256 random bits.
fn fresh() -> Result<(ChildId, String), EngineError> {
    Ok((id_from(rand::random())?, hex::encode(&rand::random::<[u8; 32]>())))
}

fn id_from(bytes: [u8; 16]) -> Result<ChildId, EngineError> {
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid().to_string();
    ChildId::parse(&id).map_err(|error| {
        tracing::error!(%error, "an id could not be made");
        EngineError::Failed
    })
}
