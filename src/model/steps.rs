//! How much work commands are: entries of whatever grows with the number of children that were walked over.
//!
//! A look-up is no step, a loop over children, members or the like is one for each of them. Tests ask how the number
//! grows, which says more of what a manager can bear than the time that a test took.

use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// So many entries are walked over.
#[inline]
pub fn take(steps: usize) {
    TAKEN.with(|taken| taken.set(taken.get() + steps as u64));
}

/// The steps that this thread has taken so far.
pub fn taken() -> u64 {
    TAKEN.with(Cell::get)
}
