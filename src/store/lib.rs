//! The store's port: load, commit a batch, read history.
//!
//! The engine owns the one [`Writer`]; everybody else reads through a [`Reader`]. An adapter knows its database
//! and these rows, nothing of releases. Two adapters exist, `sqlite` and `postgres`, and one conformance suite
//! runs against both.
//!
//! Invariants of every adapter:
//! - a commit is atomic and durable when `commit` returns `Ok`;
//! - it happens only if the lease's epoch and sequence are those of the batch (so a second writer can't write, and
//!   a commit of unknown outcome may be tried again as it was);
//! - a store written by a newer version is refused before anything in it is changed.

mod check;
mod dump;
mod history;
pub mod lease_holder;
pub mod options;
pub mod postgres;
pub mod rows;
mod schema;
mod session;
pub mod sqlite;
mod tables;
pub mod transfer;
pub mod url;

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;

pub use tables::TABLES;

/// Parts of the stores that tests try alone. Nobody else uses them.
#[doc(hidden)]
pub mod tried_alone {
    pub use crate::url::{StorePlace, parse};

    pub mod sqlite {
        pub use crate::sqlite::{
            connect::connect,
            prepared::all_statements,
            schema::{APPLICATION_ID, FIRST, MARK, SET_VERSION, migrate},
        };
    }

    pub mod postgres {
        pub use crate::postgres::{
            prepared::all_statements,
            schema::migrate,
            short::{Folded, Short, fold, shorten},
        };
    }
}

use rows::{
    AnalysisRunRow, AssignmentRow, AuditRow, Batch, ChildRow, DeploymentRow, LeaseRow, LedServiceRow,
    MembersRow, OutboxRow, OverRow, PointerRow, PrecedentRow, RegisteredRow, ReleaseRow, RouterOrderRow,
    RouterRow, ServiceReleaseRow, SettingRow, StageResultRow, TrafficHistoryRow, UserRow, WallMs,
    WorkflowPartRow, WorkflowRow,
};

/// A lease that was not renewed for this long may be taken by another manager; its holder has stopped answering.
pub const LEASE_TTL: Duration = Duration::from_secs(10);

/// A writer with nothing to commit renews its lease this often.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(2);

/// Most rows a page of history holds.
pub const MAX_PAGE: u32 = 1_000;

/// What can go wrong with a store. The text says what happened and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Passing: no connection, a timeout. The same call may be made again.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Passing: there is no space left. The same call may be made again.
    #[error("the store has no space left: {0}")]
    Full(String),
    /// Somebody else writes here now, or has written.
    #[error("the lease on the store is lost: {0}")]
    LeaseLost(String),
    /// Another manager holds the lease.
    #[error("another manager ({holder}) works on this store; end it, wait {} s, or start with --standby", .retry_after.as_millis().div_ceil(1_000).max(1))]
    Held { holder: String, retry_after: Duration },
    #[error(
        "the store has schema version {found}, this program knows {known}: use a newer choirmaster; nothing was changed"
    )]
    Newer { found: i64, known: i64 },
    #[error(
        "the store has schema version {found}, from before the first release, and this program reads {first} and later: \
         name a store that isn't there yet, it is made; nothing was changed"
    )]
    Older { found: i64, first: i64 },
    /// A row that can't be read; names table, column and key.
    #[error("bad row in table {table}, key {key}, column {column}: {why}")]
    BadRow { table: &'static str, key: String, column: &'static str, why: String },
    /// The database refused what was asked for a reason that trying again won't cure.
    #[error("the store refused: {0}")]
    Refused(String),
}

impl StoreError {
    /// Whether the same call may succeed another time.
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Full(_))
    }
}

/// Receives what a store holds, table by table in the order of the methods, at start.
///
/// Only what the engine must hold in memory: all children, and of the releases the open ones with their members,
/// assignments, stage results and runs of analyses; of the others their heads.
pub trait Loader: Send {
    fn child(&mut self, row: ChildRow) -> Result<(), StoreError>;
    /// Every release ever, in order of key.
    fn release(&mut self, row: ReleaseHead) -> Result<(), StoreError>;
    fn open_release(&mut self, row: ReleaseRow) -> Result<(), StoreError>;
    fn members(&mut self, row: MembersRow) -> Result<(), StoreError>;
    fn assignment(&mut self, row: AssignmentRow) -> Result<(), StoreError>;
    fn stage_result(&mut self, row: StageResultRow) -> Result<(), StoreError>;
    fn analysis_run(&mut self, row: AnalysisRunRow) -> Result<(), StoreError>;
    fn deployment(&mut self, row: DeploymentRow) -> Result<(), StoreError>;
    fn outbox(&mut self, row: OutboxRow) -> Result<(), StoreError>;
    fn setting(&mut self, row: SettingRow) -> Result<(), StoreError>;
    /// In order of key.
    fn pointer(&mut self, row: PointerRow) -> Result<(), StoreError>;
    fn router(&mut self, row: RouterRow) -> Result<(), StoreError>;
    /// In order of key.
    fn led_service(&mut self, row: LedServiceRow) -> Result<(), StoreError>;
    /// In order of key.
    fn router_order(&mut self, row: RouterOrderRow) -> Result<(), StoreError>;
    fn workflow(&mut self, row: WorkflowRow) -> Result<(), StoreError>;
    /// In order of key.
    fn workflow_part(&mut self, row: WorkflowPartRow) -> Result<(), StoreError>;
}

/// What the engine remembers of every release, over or not.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseHead {
    pub release_key: u32,
    pub id: String,
    pub digest: Vec<u8>,
    pub open: bool,
}

/// The only one who writes. Got by taking the lease.
pub trait Writer: Send + fmt::Debug {
    /// The lease as it was taken.
    fn lease(&self) -> &LeaseRow;

    /// Hands everything the engine needs to `loader`.
    fn load<'a>(&'a mut self, loader: &'a mut dyn Loader) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Commits a batch. After an error that passes the outcome is unknown: call again with the same batch. An
    /// implementation first looks whether `seq` says that the batch is already there.
    fn commit<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Renews the lease without writing anything else but the serving time.
    fn renew(&mut self, served_ms: u64) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Removes audit rows that are known to be too old, answers how many, and notes how far the store has got at this
    /// serving time.
    fn prune_audit(&mut self, pruning: Pruning) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Removes rows of releases whose own row says [`rows::REMOVED`], then that row, and archives that nobody refers to
    /// any more; at most `limit` rows. Answers how many: fewer than `limit`, and nothing is left to be removed. What is left
    /// of the release with the highest number stays, so that its number is not given again.
    fn prune_history(&mut self, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Gives the lease back, so that a successor needs not wait. Nothing can be committed afterwards.
    fn release(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Which part of the audit trail is too old. Ages are serving time: a wall clock may jump. A store notes now and then
/// which commit it has got to, so a row goes up to a [`Pruning::STEPS`]th of the time later than it might, and rows
/// of before the first note are as old as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruning {
    /// Now.
    pub served_ms: u64,
    /// For how long a row is kept.
    pub retention_ms: u64,
    /// Most rows that are removed.
    pub limit: u32,
}

impl Pruning {
    /// Notes in the time that a row is kept.
    pub const STEPS: u64 = 64;

    /// Nothing is noted if there is a note of this serving time or later.
    fn noted_since(&self) -> i64 {
        bounded(self.served_ms.saturating_sub(self.retention_ms / Self::STEPS)) + 1
    }

    /// What was there at this serving time or before is too old; negative: nothing is.
    fn before(&self) -> i64 {
        bounded(self.served_ms).saturating_sub(bounded(self.retention_ms))
    }
}

/// Fits a number into what a database can keep, with one to spare.
fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX).min(i64::MAX - 1)
}

/// Which releases to list; newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReleaseFilter {
    /// Only keys below this one: the page after.
    pub before: Option<u32>,
    /// Only in one of these states; empty: in any.
    pub states: Vec<String>,
    /// Only those that change this function.
    pub function: Option<String>,
    /// Only those whose ids begin so.
    pub prefix: Option<String>,
    /// 1 to [`MAX_PAGE`].
    pub limit: u32,
}

/// Which releases of services to list; newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceFilter {
    /// `None`: of all.
    pub tenant: Option<String>,
    /// Only keys below this one: the page after.
    pub before: Option<u32>,
    /// The UUID of an environment.
    pub environment_id: Option<String>,
    /// 1 to [`MAX_PAGE`].
    pub limit: u32,
}

/// In which order the audit trail is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditOrder {
    /// Everything, as it happened.
    #[default]
    OldestFirst,
    /// Without rows that tell nothing but what single children did.
    ToldNewestFirst,
}

/// Which part of the audit trail to read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditFilter {
    pub order: AuditOrder,
    /// Only rows that come after this (seq, idx) in that order.
    pub after: Option<(u64, u32)>,
    pub release_key: Option<u32>,
    /// 1 to [`MAX_PAGE`].
    pub limit: u32,
}

/// Which part of the history of services to read, newest first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TrafficFilter<'a> {
    /// Only rows before this (seq, idx): the page after.
    pub before: Option<(u64, u32)>,
    pub release_key: Option<u32>,
    pub service: Option<&'a str>,
    /// 1 to [`MAX_PAGE`].
    pub limit: u32,
}

/// Which deployments to read, by `(function, child_key)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeploymentFilter {
    pub function: Option<String>,
    pub child_key: Option<u32>,
    /// Only rows after this `(function, child_key)`.
    pub after: Option<(String, u32)>,
    /// 1 to [`MAX_PAGE`].
    pub limit: u32,
}

/// Which database a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    Sqlite,
    Postgres,
}

impl StoreKind {
    /// As it is shown, and as its URLs begin.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// The disk that a store lies on, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// What may be written yet by a program that is not the administrator's.
    pub free: u64,
    pub total: u64,
}

/// Reads what is committed. Cheap to share; used concurrently.
pub trait Reader: Send + Sync + fmt::Debug {
    fn release<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<ReleaseRow>, StoreError>>;
    fn releases<'a>(
        &'a self,
        filter: &'a ReleaseFilter,
    ) -> BoxFuture<'a, Result<Vec<ReleaseRow>, StoreError>>;
    /// Bytes of the strategies of releases whose ids begin so, and of their archives, each once.
    fn bytes_of<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, StoreError>>;
    /// Releases that are over, the oldest first: only keys above `after`; `limit` 1 to [`MAX_PAGE`].
    fn over(&self, after: Option<u32>, limit: u32) -> BoxFuture<'_, Result<Vec<OverRow>, StoreError>>;
    /// The effects of this kind that wait to be carried out, the oldest first: their ids; `limit` 1 to [`MAX_PAGE`].
    fn awaiting<'a>(&'a self, kind: &'a str, limit: u32) -> BoxFuture<'a, Result<Vec<u64>, StoreError>>;
    /// An archive that a release has whose id begins so; `None`: there is none.
    fn archive_of<'a>(
        &'a self,
        prefix: &'a str,
        digest: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>>;
    fn archive<'a>(&'a self, digest: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>>;
    fn members(&self, release_key: u32) -> BoxFuture<'_, Result<Vec<MembersRow>, StoreError>>;
    fn assignment(
        &self,
        release_key: u32,
        child_key: u32,
    ) -> BoxFuture<'_, Result<Option<AssignmentRow>, StoreError>>;
    /// In order of `child_key`, only keys above `after`; `limit` 1 to [`MAX_PAGE`].
    fn assignments(
        &self,
        release_key: u32,
        after: Option<u32>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<AssignmentRow>, StoreError>>;
    /// Of children `from..=to`, in order of `(child_key, attempt, stage)`.
    fn stage_results(
        &self,
        release_key: u32,
        from: u32,
        to: u32,
    ) -> BoxFuture<'_, Result<Vec<StageResultRow>, StoreError>>;
    /// In order of `block`.
    fn analysis_runs(&self, release_key: u32) -> BoxFuture<'_, Result<Vec<AnalysisRunRow>, StoreError>>;
    /// The release of `function` that ended well last, at `until_ms` or before; never `but`.
    fn precedent<'a>(
        &'a self,
        function: &'a str,
        until_ms: WallMs,
        but: u32,
    ) -> BoxFuture<'a, Result<Option<PrecedentRow>, StoreError>>;
    fn deployments<'a>(
        &'a self,
        filter: &'a DeploymentFilter,
    ) -> BoxFuture<'a, Result<Vec<DeploymentRow>, StoreError>>;
    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> BoxFuture<'a, Result<Vec<AuditRow>, StoreError>>;
    /// The users of a tenant, by name: only names after `after`; `limit` 1 to [`MAX_PAGE`].
    fn users<'a>(
        &'a self,
        tenant: &'a str,
        after: &'a str,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<UserRow>, StoreError>>;
    /// What is registered of a kind, by name: only names after `after`, and none that was removed; `limit` 1 to [`MAX_PAGE`].
    fn registered<'a>(
        &'a self,
        tenant: &'a str,
        kind: &'a str,
        after: &'a str,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<RegisteredRow>, StoreError>>;
    /// What has this UUID, removed or not.
    fn registered_one<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<RegisteredRow>, StoreError>>;
    /// The release of services with this UUID.
    fn service_release<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<ServiceReleaseRow>, StoreError>>;
    /// Releases of services, newest first.
    fn service_releases<'a>(
        &'a self,
        filter: &'a ServiceFilter,
    ) -> BoxFuture<'a, Result<Vec<ServiceReleaseRow>, StoreError>>;
    fn traffic_history<'a>(
        &'a self,
        filter: TrafficFilter<'a>,
    ) -> BoxFuture<'a, Result<Vec<TrafficHistoryRow>, StoreError>>;
    /// The (seq, idx) of the newest audit row.
    fn audit_end(&self) -> BoxFuture<'_, Result<Option<(u64, u32)>, StoreError>>;
    /// Answers if the store does.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>>;
    fn kind(&self) -> StoreKind;
    /// The space on its disk; `None`: that is another machine's.
    fn disk(&self) -> BoxFuture<'_, Result<Option<DiskSpace>, StoreError>>;
}
