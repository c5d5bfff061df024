//! A release survives anything: real processes, real stores, real losses.
//!
//! The binary itself is started, killed, cut off from its disk and its database, and started again, while scripted
//! children ([`agent`]) go through releases and write down every answer they got ([`ledger`]). What was answered with
//! success must be there ever after, statuses may only move on, every release must come to its end, and a call that
//! is made again must change nothing.
//!
//! | | |
//! |---|---|
//! | `kill` | SIGKILL at random instants, on both stores |
//! | `power` | power losses of the embedded store; crash recovery of a Postgres server of its own |
//! | `fleet` | simulated deployed agents go through every sample |
//! | `disk`, `lease`, `slow` | a full disk; two managers on one store; SIGTERM while at work; slow and half-open callers |
//! | `deposed` | SIGSTOP of a leader with a commit in flight, a take-over, SIGCONT |
//!
//! A failing run of random instants says its seed. These variables replay it, or make the runs longer:
//!
//! | variable | |
//! |---|---|
//! | `CHOIRMASTER_TEST_SEED` | the seed |
//! | `CHOIRMASTER_CRASH_KILLS` | kills on each store (default [`kill::KILLS`]) |
//! | `CHOIRMASTER_CRASH_LOSSES` | power losses (default [`power::LOSSES`]) |
//!
//! Not here: losses on the level of the store alone (`store`), and rules as such (`release`).

mod agent;
mod check;
mod cluster;
mod deposed;
mod disk;
mod fleet;
mod frozen;
mod joining;
mod kill;
mod lease;
mod ledger;
mod look;
mod operator;
mod power;
pub mod server;
mod slow;
mod world;
