//! How calls are shared among the variations of a service.
//!
//! A service has [`BUCKETS`] buckets. The key of a call (a cookie, a header, the caller's address, or a number drawn for this one
//! call) is hashed with a salt to a bucket, and a [`Table`] says which variation each bucket belongs to. Whoever has the table
//! gives a key the same variation, on any machine and in any router that knows the hash function.
//!
//! Invariants, which `tests/traffic/` asserts:
//!
//! 1. A table's shares are exactly those asked for, in units of 0.01 %.
//! 2. A change of shares moves exactly as many buckets as it must, and none between two variations of which neither shrinks
//!    and grows.
//! 3. While one variation only grows, no bucket leaves it.
//! 4. With two variations the table depends on their shares alone, however they were reached.
//!
//! Pure: no clock, no input or output, and no randomness of its own.
//!
//! [`desired`] is what a router is to do: services with their variations, targets and tables, checked. [`nginx`] and [`haproxy`]
//! are what that is in the language of a kind of router. [`observed`] is what one was seen to do, and [`health`] what is left of the
//! wanted state while targets are away. [`log_line`] is what routers log of calls. [`adopt`] is what one does by its operator's own
//! configuration.
//!
//! Deliberately not here: connections and counts.

mod bucket_table;
mod choice;
pub mod desired;
mod hash;
pub mod health;
pub mod observed;
mod repeat;
mod router_kind;
mod shares;

use serde::{Deserialize, Serialize};

pub use model::traffic::{RuleForm, Sticky};

pub use self::{
    bucket_table::{Run, Table, TableError},
    choice::{Call, Choice, HeaderRule, choose},
    hash::{Bucket, GROUPS, HashFunction, group_of_key, murmur2},
    repeat::{Failure, Recent, Retry, may_repeat},
    router_kind::{FlowAbilities, MeasuredBy, RouterAbilities, RouterKind, StickyAbilities},
    shares::{MAX_VARIATIONS, Shares, SharesError},
};

/// How many buckets a service has, so that a share is a whole number of them in units of 0.01 %.
pub const BUCKETS: u16 = 10_000;

/// Which of a service's variations; 0 is the stable one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Variation(pub u8);

impl Variation {
    /// The one that serves when no release is under way, and to which calls of the others are repeated.
    pub const STABLE: Self = Self(0);

    #[must_use]
    pub fn is_stable(self) -> bool {
        self == Self::STABLE
    }

    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
