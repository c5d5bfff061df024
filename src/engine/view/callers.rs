//! Calls by ids that nobody knows, for operators.

use std::sync::{Mutex, PoisonError};

/// Children whose polls were not understood, remembered for operators.
pub const MAX_UNKNOWN_CALLERS: usize = 1_000;

/// A call by somebody who is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCaller {
    pub id: String,
    pub call: &'static str,
    pub count: u64,
    pub last_ms: i64,
}

/// Who called lately without being known.
#[derive(Debug, Default)]
pub struct UnknownCallers(Mutex<Vec<UnknownCaller>>);

impl UnknownCallers {
    pub fn note(&self, id: &str, call: &'static str, wall_ms: i64) {
        let id: String = id.chars().filter(|c| !c.is_control()).take(model::MAX_OFFER_ID_LEN).collect();
        let mut unknown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = unknown.iter_mut().find(|caller| caller.id == id && caller.call == call) {
            known.count += 1;
            known.last_ms = wall_ms;
            return;
        }
        if unknown.len() >= MAX_UNKNOWN_CALLERS {
            unknown.remove(0);
        }
        unknown.push(UnknownCaller { id, call, count: 1, last_ms: wall_ms });
    }

    pub fn all(&self) -> Vec<UnknownCaller> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
