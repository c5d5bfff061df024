//! A tree of managers in one process, with simulated agents at its leaves.

mod levels;
mod offers;
