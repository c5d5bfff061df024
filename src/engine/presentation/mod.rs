//! Releases as they are shown: by the API of this manager, and as an answer to the one above.
//!
//! What is in memory is shown from a snapshot, the rest from rows of the store. Nothing is decided here.

mod analysis;
pub mod line;
pub mod release;
mod waves;
