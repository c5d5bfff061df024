//! Who may do what: by method and path.
//!
//! | paths | right |
//! |---|---|
//! | `POST /release`, `/api`, `/events`, `/openapi.json`, `/metrics` | an operator's |
//! | the calls of children | a child's own |
//! | `POST /join` | a join token |
//! | `/healthz`, `/readyz` | anybody's |
//!
//! Tokens are kept as SHA-256, compared in constant time, and shown nowhere.

use std::{collections::HashMap, fmt};

use axum::http::{HeaderMap, header};
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

/// Who may do what. By default everybody everything, which is for loopback addresses.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Name and token of each operator. The name goes into the audit trail.
    pub operators: Vec<(String, Token)>,
    /// Whether operators need a token.
    pub operator_required: bool,
    /// Whether `/metrics` is for everybody all the same.
    pub metrics_open: bool,
    pub children: ChildTokens,
    /// Name and token of each door: with such a token children join.
    pub doors: Vec<(String, Token)>,
}

impl Settings {
    /// The operator whose token this is.
    pub(super) fn operator(&self, token: &Token) -> Option<&str> {
        name_of(&self.operators, token)
    }

    /// The name of the join token that this is.
    pub(super) fn door(&self, token: &Token) -> Option<&str> {
        name_of(&self.doors, token)
    }
}

/// Whose token this is. Looks at all of them, so that the time tells nothing.
fn name_of<'a>(all: &'a [(String, Token)], token: &Token) -> Option<&'a str> {
    let mut found = 0_u32;
    for (place, (_, known)) in (1_u32..).zip(all) {
        found.conditional_assign(&place, known.is(token));
    }
    let place = (found as usize).checked_sub(1)?;
    all.get(place).map(|(name, _)| name.as_str())
}

/// The operator who calls, as the middleware found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallingOperator {
    /// The token's name; `None` where no token was needed and none was sent.
    pub name: Option<String>,
}

/// The token that a request brings along.
pub(super) fn bearer(headers: &HeaderMap) -> Option<Token> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Token::new(secret.trim()))
}

/// Why a child may not speak in somebody's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger;

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
    pub fn may_speak_for(&self, child: &str, headers: &HeaderMap) -> Result<(), Stranger> {
        match self.tokens.get(child) {
            Some(known) => {
                let token = bearer(headers).ok_or(Stranger)?;
                if bool::from(known.is(&token)) { Ok(()) } else { Err(Stranger) }
            }
            None if self.required => Err(Stranger),
            None => Ok(()),
        }
    }
}
