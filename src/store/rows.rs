//! What is kept: one struct a table, the same for every database.
//!
//! Rows are plain data. The engine makes them from its state and reads them back at start; adapters only carry
//! them. Columns that people and queries look at are columns; the rest of a state machine is JSON in `detail`,
//! so that a field can be added without a migration.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::schema::every_table;

/// Milliseconds since 1970, UTC. For people only: no rule depends on it.
pub type WallMs = i64;

/// `children`: one row a registered child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildRow {
    /// Primary key.
    pub child_key: u32,
    /// Unique.
    pub id: String,
    /// `agent` or `rm`.
    pub kind: String,
    pub name: Option<String>,
    /// The GeoJSON exactly as the child sent it.
    pub area: Option<String>,
    /// Number of agents it speaks for, itself included.
    pub agents: u32,
    pub born_ms: WallMs,
    /// Last call known; may lag by some minutes.
    pub seen_ms: WallMs,
    /// JSON object: capabilities, labels, cordon, …
    pub detail: String,
}

/// `releases`: one row a release, kept after its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleaseRow {
    /// Primary key; the order of submission.
    pub release_key: u32,
    /// Unique.
    pub id: String,
    /// `Planned`, `Running`, `Paused`, `RollingBack`, `Done`, `DoneWithFailures`, `Aborted`, …
    pub state: String,
    /// True while the engine must hold it in memory: it is not over, or an undo of it is not confirmed.
    pub open: bool,
    /// SHA-256 over the parsed strategy and the functions: same id and digest is the same release.
    #[serde(with = "base64_text")]
    pub digest: Vec<u8>,
    /// Names an `archives` row.
    #[serde(with = "base64_text")]
    pub archive: Vec<u8>,
    /// The YAML as the developer sent it.
    pub strategy: String,
    /// Names of the functions it changes, JSON array of strings.
    pub functions: String,
    pub submitted_ms: WallMs,
    pub updated_ms: WallMs,
    pub ended_ms: Option<WallMs>,
    /// JSON object: attempt, clock, facts, reason, counts.
    pub detail: String,
}

/// The state of a row that is all that is left of a release which was removed from the history: it keeps the rows that are
/// still to go together, and the number from being given again. Its id is no release's.
pub const REMOVED: &str = "Removed";

/// A release that is over: what tells whether it may be removed.
#[derive(Debug, Clone, PartialEq)]
pub struct OverRow {
    pub release_key: u32,
    pub id: String,
    /// As in [`ReleaseRow`].
    pub functions: String,
    pub detail: String,
}

/// `members`: who takes part in a release, stored once, in slices. Primary key `(release_key, slice)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MembersRow {
    pub release_key: u32,
    pub slice: u32,
    /// Child keys, ascending, packed by the engine.
    #[serde(with = "base64_text")]
    pub keys: Vec<u8>,
    /// The wave of each child, packed by the engine; empty where all are in the first.
    #[serde(with = "base64_text", default)]
    pub waves: Vec<u8>,
}

/// `assignments`: a child in a release, from the moment it acts. Primary key `(release_key, child_key)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssignmentRow {
    pub release_key: u32,
    pub child_key: u32,
    /// 0 `No`, 1 `Todo`, 2 `Doing`, 3 `Done`, 4 `Failed`.
    pub status: i16,
    /// `succeeded`, `failed`, `timed_out`, `unreachable`, `lost`, `undone`, `untested`, `excluded`.
    pub outcome: Option<String>,
    pub attempt: i16,
    /// Index of the current stage.
    pub stage: i16,
    /// 0 to 6 as on the wire.
    pub stage_status: i16,
    pub updated_ms: WallMs,
    /// JSON object: the rest of the state machine.
    pub detail: String,
}

/// `stage_results`: what a child reported of a stage. Primary key `(release_key, child_key, attempt, stage)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageResultRow {
    pub release_key: u32,
    pub child_key: u32,
    pub attempt: i16,
    pub stage: i16,
    /// 0 to 6 as on the wire; 1 or 2 while the numbers are preliminary.
    pub status: i16,
    pub at_ms: WallMs,
    /// A digest of the summary: a repeat has the same.
    pub digest: i64,
    /// The summary in the wire's spelling, JSON.
    pub summary: String,
}

/// `analysis_runs`: the latest run of a block of analysis, with everything measured for it. Primary key
/// `(release_key, block)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalysisRunRow {
    pub release_key: u32,
    /// Its place among the blocks of the release.
    pub block: i16,
    /// JSON object.
    pub detail: String,
}

/// `precedents`: when the stages of a release were, for those that are compared with it. Primary key
/// `(function, release_key)`. It outlives the release's own rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrecedentRow {
    pub function: String,
    pub release_key: u32,
    /// The id of the release.
    pub id: String,
    /// When it ended well; `None`: it was taken back afterwards, and is nothing to be compared with.
    pub ended_ms: Option<WallMs>,
    /// JSON array of times.
    pub times: String,
}

/// `deployments`: what a child runs of a function, as far as is known. Primary key `(child_key, function)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeploymentRow {
    pub child_key: u32,
    pub function: String,
    /// The release that changed it last.
    pub release_key: u32,
    /// `base`, `new` or `unknown`.
    pub variant: String,
    /// The folder of that version.
    pub path: String,
    pub at_ms: WallMs,
    /// What that version is known by, where the child is an agent that tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<i64>,
}

/// `archives`: a `fns.zip`, frozen when its release was submitted. Primary key digest; never updated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArchiveRow {
    #[serde(with = "base64_text")]
    pub digest: Vec<u8>,
    #[serde(with = "base64_text")]
    pub bytes: Bytes,
}

/// `audit`: what happened, in order. Primary key `(seq, idx)`. Kept for a configured time, never read at start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    /// The commit it belongs to.
    pub seq: u64,
    /// Its place in the commit.
    pub idx: u32,
    pub at_ms: WallMs,
    /// Indexed; `None` for what concerns no release.
    pub release_key: Option<u32>,
    /// Who did it: `child`, `timer`, `operator:NAME`, …
    pub actor: String,
    /// A JSON array of events: all that one commit did to one release by one actor.
    pub events: String,
    /// Nothing but what single children did.
    #[serde(default)]
    pub steps: bool,
}

/// `outbox`: an effect that is still to be carried out. Primary key id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxRow {
    pub id: u64,
    /// Who carries it out: `webhook`, …
    pub kind: String,
    pub at_ms: WallMs,
    /// JSON.
    pub payload: String,
    /// Serving time at which it came up; `None`: not known.
    #[serde(default)]
    pub served_ms: Option<u64>,
}

/// Which effect it is.
#[derive(Debug)]
pub(crate) struct OutboxId {
    pub id: u64,
}

impl OutboxRow {
    /// For how long it has waited at this serving time, in milliseconds.
    pub fn age_ms(&self, served_ms: u64) -> u64 {
        served_ms.saturating_sub(self.served_ms.unwrap_or(served_ms))
    }
}

/// `settings`: what a manager keeps of itself. Primary key name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingRow {
    pub name: String,
    /// A text, or a JSON object.
    pub value: String,
    pub at_ms: WallMs,
}

/// `pointers`: where a strategy went that was submitted here and belongs elsewhere. Primary key `pointer_key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointerRow {
    /// Later ones have higher keys.
    pub pointer_key: u64,
    pub at_ms: WallMs,
    /// JSON object.
    pub detail: String,
}

/// `tenants`: who shares a manager, or once did; who is bound to none is one of them. Primary key name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRow {
    pub name: String,
    /// UUID, unique.
    pub id: String,
    /// When it was first known.
    pub at_ms: WallMs,
}

/// `users`: who was named by the configuration, or did something. Primary key `(tenant, name)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRow {
    /// The name of a tenant.
    pub tenant: String,
    pub name: String,
    /// UUID, unique.
    pub id: String,
    /// When they were first known.
    pub at_ms: WallMs,
}

/// `registered`: what releases of services may name. Primary key `(tenant, kind, name)`. What was removed stays as long as releases
/// may have named it: so no release loses its environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredRow {
    pub tenant: String,
    /// `environment`, `target_group`, `version`, `release`.
    pub kind: String,
    pub name: String,
    /// UUID, unique.
    pub id: String,
    /// JSON object.
    pub detail: String,
    pub at_ms: WallMs,
    /// Who did it; `None`: nobody said so.
    pub actor: Option<String>,
    pub removed_ms: Option<WallMs>,
}

/// `service_releases`: what of a release of a service can't change any more. Primary key `release_key`. How far it has come, its row in
/// `releases` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReleaseRow {
    pub release_key: u32,
    /// UUID, unique.
    pub id: String,
    pub tenant: String,
    /// UUID.
    pub tenant_id: String,
    pub environment: String,
    /// UUID.
    pub environment_id: String,
    /// Who submitted it; `None`: nobody said so.
    pub actor: Option<String>,
    /// UUID.
    pub actor_id: Option<String>,
    /// JSON object.
    pub form: String,
}

/// `routers`: what the agent beside a router says of that. Primary key `child_key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterRow {
    pub child_key: u32,
    /// `embedded`, `nginx`, `haproxy`, …
    pub kind: String,
    pub version: Option<String>,
    /// `idle`, `waiting`, `telling`, `in_force`, `paused`, `accepted`, `superseded`.
    pub phase: String,
    pub reached: bool,
    pub trouble: Option<String>,
    pub updated_ms: WallMs,
    /// JSON object: counts, times.
    pub detail: String,
}

/// `led_services`: a service of a router, as it is led. Primary key `(child_key, place)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedServiceRow {
    pub child_key: u32,
    /// Below the number of services that a router may have; given again when a service is gone.
    pub place: i16,
    /// Empty: none is there.
    pub service: String,
    pub epoch: u64,
    pub generation: u64,
    pub offer: Option<String>,
    pub standing: bool,
    pub updated_ms: WallMs,
    /// JSON object: variations, shares, counts, targets, the standing state.
    pub detail: String,
}

/// `router_orders`: what operators asked of a router. Primary key `(child_key, place)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterOrderRow {
    pub child_key: u32,
    /// Below the number of orders that are remembered; given again.
    pub place: i16,
    /// Never given again.
    pub number: u64,
    /// `check`, `repair`, `reload`, `retire`, `adopt`.
    pub what: String,
    pub at_ms: WallMs,
    /// JSON object: who asked, until when, the answer.
    pub detail: String,
}

/// `traffic_history`: how shares of services came about. Primary key `(seq, idx)`. Kept for as long as the audit trail, never
/// read at start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficHistoryRow {
    /// The commit it belongs to.
    pub seq: u64,
    /// Its place in the commit.
    pub idx: u32,
    pub at_ms: WallMs,
    pub child_key: u32,
    /// The id of the child, which may be forgotten by now.
    pub router: String,
    /// Indexed; empty for what concerns the router as a whole.
    pub service: String,
    /// Indexed; `None` for what came of no release.
    pub release_key: Option<u32>,
    /// JSON object: from, to, seen, measured, drift.
    pub detail: String,
}

/// `workflows`: functions and resources that are kept running. Primary key `workflow_key`, and `id` is unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowRow {
    pub workflow_key: u32,
    pub id: String,
    /// Names an `archives` row; empty: it has no functions of its own.
    #[serde(with = "base64_text")]
    pub archive: Vec<u8>,
    /// As it was posted: JSON.
    pub definition: String,
    /// JSON object: its first part, what runs which type of functions, who started it when, whether it stops.
    pub detail: String,
}

/// `workflow_parts`: a function or a resource of a workflow. Primary key `part_key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowPartRow {
    pub part_key: u32,
    pub workflow_key: u32,
    /// JSON object: its logical id, its instances and where they are.
    pub detail: String,
}

/// `lease`: a single row; who writes, and how far the writing has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRow {
    /// Raised by everybody who takes the lease.
    pub epoch: u64,
    /// Raised by every commit.
    pub seq: u64,
    /// Host, boot, process and start time of the holder, so that a dead one is recognised.
    pub holder: String,
    /// Milliseconds a manager has served on this store, over all its lives: the clock of deadlines.
    pub served_ms: u64,
}

macro_rules! writes {
    ($($table:ident $variant:ident($row:ident) $writing:ident $ends:ident [$($key:ident),*] from $source:ident
        [$($column:ident),*];)*) => {
        /// Everything that one transaction writes: the rows of each table, as [`super::schema`] says how, and what goes. What
        /// goes, goes first, but for effects that are done. No list holds a key twice.
        ///
        /// Text can't hold the character NUL, and numbers can't exceed `i64::MAX`; a batch with either is refused.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Writes {
            /// What they run, and what is known of their routers, goes with them.
            pub children_gone: Vec<u32>,
            /// Their parts go with them.
            pub workflows_gone: Vec<u32>,
            $(#[doc = concat!("Rows of `", stringify!($table), "`: ", stringify!($writing), ".")]
            pub $table: Vec<$row>,)*
            /// Updates of `seen_ms` alone: `(child_key, seen_ms)`.
            pub seen: Vec<(u32, WallMs)>,
            pub outbox_done: Vec<u64>,
            pub pointers_gone: Vec<u64>,
        }
    };
}
every_table!(writes);

/// One transaction: `writes` and the lease's step from `seq` to `seq + 1`, all or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub epoch: u64,
    /// The sequence before this commit.
    pub seq: u64,
    pub served_ms: u64,
    pub writes: Writes,
}

/// Bytes in JSON.
mod base64_text {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        bytes: impl AsRef<[u8]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, T: From<Vec<u8>>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(T::from).map_err(D::Error::custom)
    }
}
