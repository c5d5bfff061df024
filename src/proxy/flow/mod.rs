//! What isn't HTTP: connections of TCP, connections of TLS that pass unopened, and flows of UDP.
//!
//! Each is one *call* of its service: it is given to a variation by the same table when it begins, counted when it ends, and holds
//! its version until then. What a call of HTTP is repeated for can't be told here, where nothing is known of what passes; but where a
//! version can't be reached, or breaks a connection before a byte of it passed, the stable one gets it (`retry: never` says
//! otherwise).
//!
//! Invariants, which `tests/proxy/flows/` asserts:
//!
//! 1. Bytes pass unchanged and in order, and either end may close its direction first.
//! 2. A change of shares ends nothing: what began stays with its variation. Where that gets none any more, it may stay until a
//!    deadline (`drain_seconds`), and is cut then; should it get some again before, it stays.
//! 3. What was begun goes on over upgrades: connections in the process that took them, flows of UDP in the one that takes over
//!    ([`udp`]).
//!
//! Deliberately not here: balancing by load, and retries once anything was sent.

mod begin;
mod hello;
mod retired;
mod tcp;
mod udp;

pub(crate) use self::{
    hello::serve as serve_named,
    tcp::serve as serve_tcp,
    udp::{AdoptedFlow, FlowForm, Listener},
};
