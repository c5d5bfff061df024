//! A small HTTP over a unix socket that belongs to one user: how a process of this program is asked how it stands, and told what to
//! do, by people and by other processes beside it. What is asked and answered is the business of whoever uses it.
//!
//! Each connection carries one question. An answer that isn't 2xx says why: `{"error": "…"}`. 503 stands for "nobody can answer just
//! now: ask again", which a client does by itself.

pub mod client;
pub mod serve;
pub mod socket;
