//! What nearly everything here calls.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// In milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
