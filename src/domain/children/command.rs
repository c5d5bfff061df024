//! What is asked about a child, by itself or by an operator.

use std::{net::IpAddr, sync::Arc};

use super::Profile;
use model::{ChildId, Cordon, TenantName};

/// A poll, parsed and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Poll {
    /// `None`: the child asks for an id.
    pub child: Option<ChildId>,
    /// The id it gets then: random, or what follows from something random that the child keeps, which is the same when it asks again.
    pub fresh: ChildId,
    /// `None`: as before.
    pub area: Option<Arc<str>>,
    /// Where it calls from; `None`: nobody knows.
    pub address: Option<IpAddr>,
    pub agents: u32,
    /// `None`: a plain agent, which says nothing of itself.
    pub profile: Option<Profile>,
    /// Whose it is if it is new: what an operator said of the token with which it joined.
    pub tenant: Option<TenantName>,
}

/// What is asked about a child.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are polls, which would be allocated for nothing"
)]
pub enum Command {
    Poll(Poll),
    Forget {
        child: String,
        /// Also one that may run a version that is to be taken back.
        even_if_it_owes: bool,
    },
    /// `None` removes the label.
    Label {
        child: String,
        key: String,
        value: Option<String>,
    },
    Cordon {
        child: String,
        cordon: Cordon,
    },
}
