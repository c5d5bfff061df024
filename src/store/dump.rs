//! Reading much at once: what the engine needs at start, and everything there is.

use super::{
    Loader, ReleaseHead, StoreError,
    rows::{
        AnalysisRunRow, ArchiveRow, AssignmentRow, AuditRow, ChildRow, DeploymentRow, LeaseRow,
        LedServiceRow, MembersRow, OutboxRow, PointerRow, PrecedentRow, RegisteredRow, ReleaseRow,
        RouterOrderRow, RouterRow, ServiceReleaseRow, SettingRow, StageResultRow, TenantRow,
        TrafficHistoryRow, UserRow, WorkflowPartRow, WorkflowRow, Writes,
    },
    schema::every_table,
    session::{Arg, Columns, Session},
    tables::{FromRow, Stored, columns, part},
};

const HEADS: &str = concat!("SELECT ", part!(ReleaseHead), " FROM releases ORDER BY release_key");
const OPEN_RELEASES: &str =
    concat!("SELECT ", columns!(ReleaseRow), " FROM releases WHERE open ORDER BY release_key");
const OPEN_MEMBERS: &str = concat!(
    "SELECT ",
    columns!(MembersRow),
    " FROM members WHERE release_key IN (SELECT release_key FROM releases WHERE open)
      ORDER BY release_key, slice"
);
const OPEN_ASSIGNMENTS: &str = concat!(
    "SELECT ",
    columns!(AssignmentRow),
    " FROM assignments WHERE release_key IN (SELECT release_key FROM releases WHERE open)"
);
const STAGE_RESULTS: &str = concat!(
    "SELECT ",
    columns!(StageResultRow),
    " FROM results WHERE release_key = $1 ORDER BY child_key, attempt, stage"
);
const OPEN_ANALYSIS_RUNS: &str = concat!(
    "SELECT ",
    columns!(AnalysisRunRow),
    " FROM analysis_runs WHERE release_key IN (SELECT release_key FROM releases WHERE open)
      ORDER BY release_key, block"
);
const DEPLOYMENTS: &str = concat!("SELECT ", columns!(DeploymentRow), " FROM deployments");

pub(crate) const LEASE: &str = concat!("SELECT ", part!(LeaseRow), " FROM lease");

/// Everything above, for the test that prepares each statement.
pub(crate) const STATEMENTS: &[&str] = &[
    HEADS,
    OPEN_RELEASES,
    OPEN_MEMBERS,
    OPEN_ASSIGNMENTS,
    STAGE_RESULTS,
    OPEN_ANALYSIS_RUNS,
    DEPLOYMENTS,
    LEASE,
];

/// Reads a whole table and hands each row to `take`.
async fn each<T: FromRow>(
    session: &mut dyn Session,
    sql: &'static str,
    mut take: impl FnMut(T) -> Result<(), StoreError> + Send,
) -> Result<(), StoreError> {
    session.rows(sql, &[], &mut |columns: &dyn Columns| take(T::read(columns)?)).await
}

/// Hands the loader what the engine needs, in the order of its methods.
pub(crate) async fn load(session: &mut dyn Session, loader: &mut dyn Loader) -> Result<(), StoreError> {
    each(session, ChildRow::SELECT, |row: ChildRow| loader.child(row)).await?;
    each(session, HEADS, |row: ReleaseHead| loader.release(row)).await?;
    let mut open = Vec::new();
    each(session, OPEN_RELEASES, |row: ReleaseRow| {
        open.push(Arg::Int(row.release_key.into()));
        loader.open_release(row)
    })
    .await?;
    each(session, OPEN_MEMBERS, |row: MembersRow| loader.members(row)).await?;
    each(session, OPEN_ASSIGNMENTS, |row: AssignmentRow| loader.assignment(row)).await?;
    // One after the other: a database that puts results together from two tables would do so for all that ever were.
    for release in open.chunks(1) {
        let mut take = |columns: &dyn Columns| loader.stage_result(StageResultRow::read(columns)?);
        session.rows(STAGE_RESULTS, release, &mut take).await?;
    }
    each(session, OPEN_ANALYSIS_RUNS, |row: AnalysisRunRow| loader.analysis_run(row)).await?;
    each(session, DEPLOYMENTS, |row: DeploymentRow| loader.deployment(row)).await?;
    each(session, OutboxRow::SELECT, |row: OutboxRow| loader.outbox(row)).await?;
    each(session, SettingRow::SELECT, |row: SettingRow| loader.setting(row)).await?;
    each(session, PointerRow::SELECT, |row: PointerRow| loader.pointer(row)).await?;
    each(session, RouterRow::SELECT, |row: RouterRow| loader.router(row)).await?;
    each(session, LedServiceRow::SELECT, |row: LedServiceRow| loader.led_service(row)).await?;
    each(session, RouterOrderRow::SELECT, |row: RouterOrderRow| loader.router_order(row)).await?;
    each(session, WorkflowRow::SELECT, |row: WorkflowRow| loader.workflow(row)).await?;
    each(session, WorkflowPartRow::SELECT, |row: WorkflowPartRow| loader.workflow_part(row)).await
}

macro_rules! any_row {
    ($($table:ident $variant:ident($row:ident) $writing:ident $ends:ident [$($key:ident),*] from $source:ident
        [$($column:ident),*];)*) => {
        /// One row of any table.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum AnyRow {
            Lease(LeaseRow),
            $($variant($row),)*
        }

        impl AnyRow {
            /// Adds it to what is written; the lease's is answered.
            pub(crate) fn add_to(self, writes: &mut Writes) -> Option<LeaseRow> {
                match self {
                    Self::Lease(row) => return Some(row),
                    $(Self::$variant(row) => writes.$table.push(row),)*
                }
                None
            }
        }

        /// Hands over every row of every table, the lease first.
        pub(crate) async fn dump(session: &mut dyn Session, take: &mut TakeRow<'_>) -> Result<(), StoreError> {
            each(session, LEASE, |row| take(AnyRow::Lease(row))).await?;
            $(each(session, $row::SELECT, |row| take(AnyRow::$variant(row))).await?;)*
            Ok(())
        }

        /// The statements that read whole tables, for the test that prepares each.
        pub(crate) const WHOLE: &[&str] = &[$($row::SELECT),*];
    };
}
every_table!(any_row);

/// What is called with each row of a dump.
pub(crate) type TakeRow<'a> = dyn FnMut(AnyRow) -> Result<(), StoreError> + Send + 'a;
