//! The nouns of the domain: ids, statuses, outcomes, capabilities, time.
//!
//! Everything here is a parsed value: once it exists it is valid, and no later code checks it again.
//! Pure: no clock, no network, no database.

pub mod address;
pub mod area;
pub mod child;
pub mod coordinates;
pub mod duration;
pub mod globe;
pub mod hex;
pub mod id;
pub mod manager_clock;
pub mod map_state;
mod names;
pub mod numbered;
pub mod pages;
pub mod pairs;
pub mod public_url;
pub mod ring;
mod secret;
pub mod status;
pub mod steps;
pub mod tenant;
pub mod text;
pub mod time;
pub mod traffic;

pub use child::{
    Capabilities, ChildKind, ChildStatus, Cordon, Exclusion, FEATURE_AGENTS, FEATURE_CLASSES, FEATURE_FLOWS,
    FEATURE_GROUPS, FEATURE_INTERIM, FEATURE_PLACEMENTS, FEATURE_QUESTIONS, FEATURE_ROUTERS, FEATURE_RUNS,
    FEATURE_SERVICES, FEATURE_SHARES, FEATURE_TOGETHER, FEATURE_TRAFFIC, FEATURE_VALUES, FEATURE_WINNER,
    Leads, NodeCapabilities, Outcome,
};
pub use id::{ChildId, ChildKey, IdError, MAX_OFFER_ID_LEN, MAX_RELEASE_ID_LEN, ReleaseId, ReleaseKey};
pub use manager_clock::{ManagerClock, ManagerInstant};
pub use map_state::MapState;
pub use secret::Secret;
pub use status::StageStatus;
pub use tenant::{Role, TENANT_LABEL, TenantName};
pub use time::Now;
