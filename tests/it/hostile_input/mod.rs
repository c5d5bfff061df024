//! Everything a stranger may try at the doors: names, tokens, bodies that don't end, requests that are none, and
//! tens of thousands of changed ones.

mod bodies;
mod framing;
mod hosts;
mod mutants;
mod opening;
mod raw;
pub mod routes;
mod schemathesis;
mod small;
mod tokens;
