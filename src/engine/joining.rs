//! Children join, and get tokens of their own, which operators may revoke.

use std::time::Duration;

use tokio::{sync::oneshot, time::timeout};

use super::{
    Engine, EngineError, audit,
    kept::{ChildToken, Setting},
    mailbox::{By, Envelope},
    tokens::{Standing, digest},
};
use model::{ChildId, ChildKind, Secret};
use store::{StoreError, hex};

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
    /// The name of the token that lets it in.
    pub door: &'a str,
}

impl Engine {
    /// Makes an id and a token for a new child. When this returns, they are stored, and hold from then on.
    pub async fn join(&self, newcomer: &Newcomer<'_>, patience: Duration) -> Result<Joined, EngineError> {
        let (id, token) = fresh()?;
        let kept = ChildToken { digest: digest(&token), door: newcomer.door.to_owned(), is_revoked: false };
        let Newcomer { name, kind, door } = *newcomer;
        let event = audit::enrolled(id.as_str(), name, kind, door).map_err(|error| unwritable(&error))?;
        self.keep_token(&id, kept, By::CHILD, event, patience).await?;
        Ok(Joined { id, token: Secret::new(token) })
    }

    /// Makes the token of a child useless; false: it has none. When this returns well, it opens nothing any more.
    pub async fn revoke_token(&self, child: &str, by: By, patience: Duration) -> Result<bool, EngineError> {
        let (Some(standing), Ok(id)) = (self.view.tokens.of(child), ChildId::parse(child)) else {
            return Ok(false);
        };
        let digest = match standing {
            Standing::Revoked => return Ok(true),
            Standing::Holds(digest) => digest,
            Standing::Unreadable => [0; 32],
        };
        let kept = ChildToken { digest, door: String::new(), is_revoked: true };
        let event = audit::token_revoked(child, by.note.as_deref()).map_err(|error| unwritable(&error))?;
        self.keep_token(&id, kept, by, event, patience).await?;
        Ok(true)
    }

    async fn keep_token(
        &self,
        child: &ChildId,
        token: ChildToken,
        by: By,
        event: String,
        patience: Duration,
    ) -> Result<(), EngineError> {
        let (stored, is_stored) = oneshot::channel();
        let setting = Setting::ChildToken { child: child.as_str().to_owned(), token };
        let keep = Envelope::Keep { setting, event: Some((by.actor, event)), stored };
        let call = async {
            self.mailbox.send(keep).await.map_err(|_| EngineError::Stopped)?;
            is_stored.await.map_err(|_| EngineError::Failed)
        };
        self.if_serving(timeout(patience, call).await.unwrap_or_else(|_| Err(self.late())))
    }
}

fn unwritable(error: &StoreError) -> EngineError {
    tracing::error!(%error, "an event could not be written");
    EngineError::Failed
}

/// An id, and a token of 256 random bits.
fn fresh() -> Result<(ChildId, String), EngineError> {
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string();
    let id = ChildId::parse(&id).map_err(|error| {
        tracing::error!(%error, "an id could not be made");
        EngineError::Failed
    })?;
    Ok((id, hex(&rand::random::<[u8; 32]>())))
}
