//! Who may do what: by method and path.
//!
//! | paths | right |
//! |---|---|
//! | `POST /release`, `/api`, `/events`, `/openapi.json`, `/metrics` | an operator's: `rights.rs` has the table, route by route |
//! | the calls of children | a child's own |
//! | `POST /join` | a join token |
//! | `/healthz`, `/readyz` | anybody's |
//!
//! Tokens are kept as SHA-256, compared in constant time, and shown nowhere.

use std::{collections::HashMap, fmt};

use axum::http::{HeaderMap, header};
use model::{Role, TenantName};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

/// A secret that opens something. Only its digest is kept: how long it takes to find one says nothing of a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token([u8; 32]);

impl Token {
    pub fn new(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// The token of this SHA-256.
    pub(super) fn of_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    pub(super) fn digest(&self) -> &[u8; 32] {
        &self.0
    }

    /// Compares in constant time.
    pub(super) fn is(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Tokens of children.
#[derive(Debug, Clone, Default)]
pub struct ChildTokens {
    /// Child id → its token. A child that has one must send it.
    tokens: HashMap<String, Token>,
    /// The other way round.
    holders: HashMap<Token, String>,
    /// Whether children without a token are refused.
    required: bool,
}

/// What a token is good for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Grant {
    /// `None`: the whole manager.
    pub tenant: Option<TenantName>,
    /// Empty: all of them.
    pub roles: Vec<Role>,
}

impl Grant {
    /// Whether it has one of these roles.
    pub fn has_any(&self, roles: &[Role]) -> bool {
        self.roles.is_empty() || roles.iter().any(|role| self.roles.contains(role))
    }

    /// Whether it is good for everything there is.
    pub const fn is_whole(&self) -> bool {
        self.tenant.is_none() && self.roles.is_empty()
    }
}

/// A token that operators call with.
#[derive(Debug, Clone)]
pub struct OperatorToken {
    /// Goes into the audit trail.
    pub name: String,
    pub token: Token,
    pub grant: Grant,
}

impl OperatorToken {
    /// A token that is good for everything.
    pub fn new(name: impl Into<String>, secret: &str) -> Self {
        Self { name: name.into(), token: Token::new(secret), grant: Grant::default() }
    }
}

/// A token with which children join.
#[derive(Debug, Clone)]
pub struct JoinToken {
    pub name: String,
    pub token: Token,
    /// Whose children join with it.
    pub tenant: Option<TenantName>,
}

impl JoinToken {
    /// A token with which children join that are no tenant's.
    pub fn new(name: impl Into<String>, secret: &str) -> Self {
        Self { name: name.into(), token: Token::new(secret), tenant: None }
    }
}

/// Who may do what. By default everybody everything, which is for loopback addresses.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub operators: Vec<OperatorToken>,
    /// Whether operators need a token.
    pub operator_required: bool,
    /// Whether `/metrics` is for everybody all the same.
    pub metrics_open: bool,
    pub children: ChildTokens,
    pub doors: Vec<JoinToken>,
}

impl Settings {
    /// The operator whose token this is.
    pub(super) fn operator(&self, token: &Token) -> Option<&OperatorToken> {
        place_of(self.operators.iter().map(|known| &known.token), token).and_then(|at| self.operators.get(at))
    }

    /// The join token that this is.
    pub(super) fn door(&self, token: &Token) -> Option<&JoinToken> {
        place_of(self.doors.iter().map(|known| &known.token), token).and_then(|at| self.doors.get(at))
    }
}

/// Where a token stands. Looks at all of them, so that the time tells nothing.
fn place_of<'a>(all: impl Iterator<Item = &'a Token>, token: &Token) -> Option<usize> {
    let mut found = 0_u32;
    for (place, known) in (1_u32..).zip(all) {
        found.conditional_assign(&place, known.is(token));
    }
    (found as usize).checked_sub(1)
}

/// The operator who calls, as the middleware found out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CallingOperator {
    /// The token's name; `None` where no token was needed and none was sent.
    pub name: Option<String>,
    /// What the token is good for.
    pub grant: Grant,
}

/// The token that a request brings along.
pub(super) fn bearer(headers: &HeaderMap) -> Option<Token> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Token::new(secret.trim()))
}

/// Why a child may not speak in somebody's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityMismatch;

impl ChildTokens {
    /// Each child and its token; no two have the same. `required`: children without a token are refused.
    pub fn new(tokens: HashMap<String, Token>, required: bool) -> Self {
        let holders = tokens.iter().map(|(id, token)| (token.clone(), id.clone())).collect();
        Self { tokens, holders, required }
    }

    /// Gives a child a token, in place of any that it had.
    pub fn add(&mut self, child: String, token: Token) {
        if let Some(before) = self.tokens.insert(child.clone(), token.clone()) {
            self.holders.remove(&before);
        }
        self.holders.insert(token, child);
    }

    /// The children that have one.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.tokens.keys()
    }

    /// Whether there is nothing to check.
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty() && !self.required
    }

    /// The child whose token this is, if it is anybody's.
    pub fn holder(&self, token: &Token) -> Option<&str> {
        self.holders.get(token).map(String::as_str)
    }

    /// Whether a child has one.
    pub fn has(&self, child: &str) -> bool {
        self.tokens.contains_key(child)
    }

    /// Whether a request may speak for `child`.
    pub fn may_speak_for(&self, child: &str, headers: &HeaderMap) -> Result<(), IdentityMismatch> {
        match self.tokens.get(child) {
            Some(known) => {
                let token = bearer(headers).ok_or(IdentityMismatch)?;
                if bool::from(known.is(&token)) { Ok(()) } else { Err(IdentityMismatch) }
            }
            None if self.required => Err(IdentityMismatch),
            None => Ok(()),
        }
    }
}
