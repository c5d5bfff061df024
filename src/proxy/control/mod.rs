//! The control of a proxy: a small HTTP over a unix socket, for the agent and for people.
//!
//! | call | answer |
//! |---|---|
//! | `GET /table` | the table in force |
//! | `PUT /table` | puts a table in force; 409 for one that is older, or changed without a new number; 422 for a fault in it; 507 where it can't be kept |
//! | `GET /listen` | the list of addresses in force, beside those of the configuration; which of them can't be opened; and what is left at those that were closed |
//! | `PUT /listen` | puts a list of addresses in force, numbered as tables are, and answers as `GET /listen`; 409 for one that is older, or changed without a new number, and where somebody else has an address; 403 where the system refuses one; 422 for a fault in it; 507 where it can't be kept |
//! | `POST /others?port=8080` | who takes what comes in at those addresses of this port that other programs have as well. Where a socket was lent, nothing is accepted there for a moment, and a connection is made |
//! | `GET /status` | how the proxy stands |
//! | `GET /drained?service=S&variation=V&version=D&wait=30` | whether nobody holds this version any more; 409 while the table names it |
//! | `GET /unreachable?wait=30` | once a version can't be connected to, or could not since this was asked last |
//! | `GET /counts?life=L&interval=I` | what was counted after a cursor, which is `next` of the answer before; without one, all that is kept. What a reader may rely on stands in the crate `call-metrics` |
//! | `GET /metrics` | metrics in the text format of Prometheus |
//! | `POST /upgrade` | hands over to a process of the program that is on disk now |
//! | `POST /drain` | ends the proxy once all that it has is finished |
//!
//! An answer that isn't 2xx says why: `{"error": "…"}`. 503 says that another process takes over, or has something else to do first: ask
//! again, and it answers.

mod addresses;
pub mod client;
pub mod control_handler;
pub(crate) mod counting;
mod counts;
mod exposed;
pub mod form;
mod others;
mod serve;

pub(crate) use self::exposed::expose;
pub use self::serve::serve;

/// The most bytes of a table that is sent.
pub const MAX_TABLE: usize = 32 * 1024 * 1024;

/// The most bytes of a list of addresses that is sent.
pub const MAX_LIST: usize = 64 * 1024;
