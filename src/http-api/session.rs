//! Sessions of people who look at pages: a token is shown once, and from then on a cookie speaks for it.
//!
//! A cookie says until when it is good and has a number drawn at random, and both are signed with a key that is made from the token's
//! digest. So nothing is stored: a session outlives a restart and the change to a standby, and ends when the token is taken away. What
//! is signed out is remembered until it would have ended anyway, in this process alone. On a manager that asks for no token everybody
//! is somebody without a name, whose key is this process's own.
//!
//! A browser sends cookies also when another site makes it call. So an action takes a *proof* beside: a text that is in the pages of
//! this session and can be made from nothing that another site sees.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::auth::{CallingOperator, OperatorToken, Settings, Token};

/// Sessions that were signed out and are remembered; the oldest are forgotten first.
const MAX_ENDED: usize = 10_000;

const END_BYTES: usize = 8;
const NUMBER_BYTES: usize = 16;
const SIGNED_BYTES: usize = END_BYTES + NUMBER_BYTES;
const MAC_BYTES: usize = 32;

/// What a key signs. Two texts of different kinds are never the same.
const COOKIE: &[u8] = b"choirmaster page session 1";
const PROOF: &[u8] = b"choirmaster page proof 1";

/// Opens and knows sessions.
pub struct Sessions {
    /// Signs where no token is needed.
    own: [u8; 32],
    life: Duration,
    /// Number → end, in seconds since 1970.
    ended: Mutex<BTreeMap<[u8; NUMBER_BYTES], u64>>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("life", &self.life).finish_non_exhaustive()
    }
}

/// Somebody who looks at pages.
#[derive(Clone)]
pub struct Session {
    pub caller: CallingOperator,
    /// What the browser keeps.
    pub cookie: String,
    /// What an action has to bring along beside the cookie.
    pub proof: String,
    /// In seconds since 1970.
    pub ends_s: u64,
    number: [u8; NUMBER_BYTES],
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("caller", &self.caller)
            .field("ends_s", &self.ends_s)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Whether an action brought this session's proof along. Compares in constant time.
    pub fn is_proven_by(&self, proof: &str) -> bool {
        self.proof.as_bytes().ct_eq(proof.as_bytes()).into()
    }
}

impl Sessions {
    /// `own`: a secret drawn at random, of which nobody else knows. `life`: how long one lasts.
    pub fn new(own: [u8; 32], life: Duration) -> Self {
        Self { own, life, ended: Mutex::default() }
    }

    /// Opens one for whoever has this token; `None`: nobody has. `number`: drawn at random, for this session alone.
    pub fn open(&self, auth: &Settings, secret: &str, number: [u8; 16], now_s: u64) -> Option<Session> {
        let known = auth.operator(&Token::new(secret.trim()))?;
        Some(self.made(known.token.digest(), caller(known), number, now_s))
    }

    /// Opens one for anybody, on a manager that asks for no token.
    pub fn open_unnamed(&self, auth: &Settings, number: [u8; 16], now_s: u64) -> Option<Session> {
        (!auth.operator_required).then(|| self.made(&self.own, CallingOperator::default(), number, now_s))
    }

    fn made(&self, key: &[u8; 32], caller: CallingOperator, number: [u8; 16], now_s: u64) -> Session {
        session(key, caller, number, now_s.saturating_add(self.life.as_secs()))
    }

    /// The session of a cookie; `None`: it is over, or was never one.
    pub fn find(&self, auth: &Settings, cookie: &str, now_s: u64) -> Option<Session> {
        let bytes = BASE64.decode(cookie).ok()?;
        let (signed, mac) = bytes.split_at_checked(SIGNED_BYTES)?;
        let (end, number) = signed.split_at_checked(END_BYTES)?;
        let (ends_s, number) = (u64::from_be_bytes(end.try_into().ok()?), number.try_into().ok()?);
        if mac.len() != MAC_BYTES || ends_s <= now_s || self.ended().contains_key(&number) {
            return None;
        }
        let fits = |key: &[u8; 32]| bool::from(sign(key, COOKIE, signed).ct_eq(mac));
        // All are tried, so that the time doesn't tell whose it is.
        let named = auth.operators.iter().filter(|known| fits(known.token.digest()));
        let named = named.fold(None, |_, known| Some((*known.token.digest(), caller(known))));
        let unnamed =
            (!auth.operator_required && fits(&self.own)).then(|| (self.own, CallingOperator::default()));
        let (key, caller) = named.or(unnamed)?;
        Some(session(&key, caller, number, ends_s))
    }

    /// Signs out.
    pub fn end(&self, session: &Session, now_s: u64) {
        let mut ended = self.ended();
        ended.retain(|_, ends_s| *ends_s > now_s);
        if ended.len() >= MAX_ENDED {
            let first = ended.iter().min_by_key(|(_, ends_s)| **ends_s).map(|(number, _)| *number);
            first.and_then(|number| ended.remove(&number));
        }
        ended.insert(session.number, session.ends_s);
    }

    fn ended(&self) -> std::sync::MutexGuard<'_, BTreeMap<[u8; NUMBER_BYTES], u64>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn caller(known: &OperatorToken) -> CallingOperator {
    CallingOperator { name: Some(known.name.clone()), grant: known.grant.clone() }
}

fn session(key: &[u8; 32], caller: CallingOperator, number: [u8; NUMBER_BYTES], ends_s: u64) -> Session {
    let mut cookie = Vec::with_capacity(SIGNED_BYTES + MAC_BYTES);
    cookie.extend_from_slice(&ends_s.to_be_bytes());
    cookie.extend_from_slice(&number);
    let mac = sign(key, COOKIE, &cookie);
    let proof = BASE64.encode(sign(key, PROOF, &cookie));
    cookie.extend_from_slice(&mac);
    Session { caller, cookie: BASE64.encode(cookie), proof, ends_s, number }
}

/// HMAC-SHA-256 (RFC 2104) of a text of this kind.
fn sign(key: &[u8; 32], kind: &[u8], text: &[u8]) -> [u8; MAC_BYTES] {
    // A key that is shorter than a block is filled up with zeros.
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(kind);
    mac.update(text);
    mac.finalize().into_bytes().into()
}
