//! Who takes part in a release, in which wave or order, and why each of the others does not.
//!
//! [`plan`] is pure and deterministic: the same strategy over the same children gives the same plan, whoever asks
//! and whenever. It tells for everybody why: [`why_not`] gives the reason for one child, by the same rules.
//!
//! - An area takes part if its inside and the target's share more than a border. Planar, as RFC 7946; places that
//!   are a turn around the globe apart are the same place.
//! - A child runs a function if it has the runtimes of both versions; one that reports none has all. Unless the
//!   target allows parts, it must run all functions.
//! - Labels of operators win over those that a child reports.
//! - Agents are what is counted: an agent is one, a child release manager as many as it says.
//! - A hybrid release, of functions and services, has two groups: agents run its functions, routers lead its services, and nobody is in
//!   both. Waves, counts and percents are of each group by itself, the routers' behind the agents'. A router is whom a `routers:`
//!   selector names by its labels, or who leads a router and doesn't run the functions. Without either group there is no
//!   release. A manager below is in one of them, too: with the routers, if an operator gave it the labels of such a selector or nobody below it
//!   runs any of the functions, else with the agents. What it has of the other group takes no part.
//!
//! Not here: what is offered to whom and when (the domain decides), liveness, whether a child is busy: it is told,
//! but keeps nobody out.

mod advice;
mod area_cover;
mod cover_cache;
mod edges;
mod exclusions;
mod fleet;
mod index;
mod liveness;
mod needs;
mod order;
mod planned;
mod planning;
mod router_abilities;
mod shape;
mod stops;
mod user_hashing;

pub use advice::{Advice, Takeover, advise};
pub use area_cover::{Cover, Lies};
pub use cover_cache::KeptCover;
pub use edges::{Point, Segment};
pub use exclusions::{Part, Why};
pub use fleet::{Candidate, Fleet};
pub use index::{AreaIndex, ENTRY_BYTES, Entry, Middle, Place};
pub use liveness::Liveness;
pub use needs::Needs;
pub use order::{Filled, cut, metres_from};
pub use planned::{Half, Plan, Routers, Tally, Wave};
pub use planning::{able, fit, group_of, plan, plan_of, why_not};
pub use router_abilities::{Lacks, UnmanagedRouter, unmanaged};
pub use shape::{Bounds, Shape};
pub use stops::stops;
pub use user_hashing::drawn_apart;
