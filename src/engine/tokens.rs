//! The tokens that children got when they joined.
//!
//! Each is a setting of the store, written in the commit that makes it so, and comes back at a start. Only digests are kept: a
//! token itself is said once, to the child that it was made for. One that was revoked stays known as such, so that nobody speaks
//! in the name of its child without a token instead.

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use sha2::{Digest as _, Sha256};

use super::{
    json_columns,
    settings::{ChildToken, child_of},
};
use model::TenantName;
use store::{StoreError, rows::SettingRow};

/// What is known of the token of a child that joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenStatus {
    /// It has to send the token of this digest.
    Holds([u8; 32]),
    Revoked,
    /// It has one, and which can't be read.
    Unreadable,
}

/// The children that joined, by their ids and by their tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    all: RwLock<All>,
    /// Of the children in `all`: calls look at this first.
    many: AtomicUsize,
}

#[derive(Debug, Default)]
struct All {
    by_child: HashMap<String, TokenStatus>,
    /// Whose a token is or was: who comes with one that was revoked is to hear that.
    holders: HashMap<[u8; 32], String>,
    /// Tokens that open something.
    valid: usize,
    /// Children that joined as some tenant's.
    tenants: HashMap<String, TenantName>,
}

impl Tokens {
    fn read(&self) -> RwLockReadGuard<'_, All> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has ever joined.
    pub fn is_empty(&self) -> bool {
        self.many.load(Ordering::Acquire) == 0
    }

    /// Tokens that open something.
    pub fn valid(&self) -> usize {
        self.read().valid
    }

    /// What is known of the token of a child; `None`: it has not joined.
    pub fn of(&self, child: &str) -> Option<TokenStatus> {
        if self.is_empty() {
            return None;
        }
        self.read().by_child.get(child).copied()
    }

    /// The child that has the token of this digest, or had it until it was revoked.
    pub fn holder(&self, digest: &[u8; 32]) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        self.read().holders.get(digest).cloned()
    }

    /// Whose child one became by joining.
    pub fn tenant_of(&self, child: &str) -> Option<TenantName> {
        if self.is_empty() {
            return None;
        }
        self.read().tenants.get(child).cloned()
    }

    fn set(&self, child: &str, standing: TokenStatus, digest: Option<[u8; 32]>) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let is_valid = |standing| matches!(standing, TokenStatus::Holds(_));
        let was_valid = all.by_child.insert(child.to_owned(), standing).is_some_and(is_valid);
        all.valid = all.valid + usize::from(is_valid(standing)) - usize::from(was_valid);
        if let Some(digest) = digest {
            all.holders.insert(digest, child.to_owned());
        }
        self.many.store(all.by_child.len(), Ordering::Release);
    }

    /// Takes a setting of the store in, if it is a token, and tells whose. The error is about one that can't be read: its child is
    /// refused.
    pub(super) fn note<'r>(&self, row: &'r SettingRow) -> Result<Option<(&'r str, TokenStatus)>, StoreError> {
        let Some(child) = child_of(row) else { return Ok(None) };
        let token = json_columns::child_token(row);
        let standing = match &token {
            Err(_) => TokenStatus::Unreadable,
            Ok(ChildToken { is_revoked: true, .. }) => TokenStatus::Revoked,
            Ok(ChildToken { digest, .. }) => TokenStatus::Holds(*digest),
        };
        self.set(child, standing, token.as_ref().ok().map(|token| token.digest));
        if let Ok(ChildToken { tenant: Some(tenant), .. }) = &token {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.tenants.insert(child.to_owned(), tenant.clone());
        }
        token.map(|_| Some((child, standing)))
    }
}

/// SHA-256 of a token.
pub fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
