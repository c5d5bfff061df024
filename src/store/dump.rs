//! Reading much at once: what the engine needs at start, and everything there is.

use super::{
    Loader, ReleaseHead, StoreError,
    rows::{
        AnalysisRunRow, ArchiveRow, AssignmentRow, AuditRow, ChildRow, DeploymentRow, LeaseRow, MembersRow,
        OutboxRow, PrecedentRow, ReleaseRow, StageResultRow,
    },
    session::{Arg, Columns, Session},
    tables::{
        FromRow, analysis_run_columns, archive_columns, assignment_columns, audit_columns, child_columns,
        deployment_columns, head_columns, lease_columns, member_columns, outbox_columns, precedent_columns,
        release_columns, stage_result_columns,
    },
};

const CHILDREN: &str = concat!("SELECT ", child_columns!(), " FROM children ORDER BY child_key");
const HEADS: &str = concat!("SELECT ", head_columns!(), " FROM releases ORDER BY release_key");
const OPEN_RELEASES: &str =
    concat!("SELECT ", release_columns!(), " FROM releases WHERE open ORDER BY release_key");
const OPEN_MEMBERS: &str = concat!(
    "SELECT ",
    member_columns!(),
    " FROM members WHERE release_key IN (SELECT release_key FROM releases WHERE open)
      ORDER BY release_key, slice"
);
const OPEN_ASSIGNMENTS: &str = concat!(
    "SELECT ",
    assignment_columns!(),
    " FROM assignments WHERE release_key IN (SELECT release_key FROM releases WHERE open)"
);
const STAGE_RESULTS: &str = concat!(
    "SELECT ",
    stage_result_columns!(),
    " FROM results WHERE release_key = $1 ORDER BY child_key, attempt, stage"
);
const OPEN_ANALYSIS_RUNS: &str = concat!(
    "SELECT ",
    analysis_run_columns!(),
    " FROM analysis_runs WHERE release_key IN (SELECT release_key FROM releases WHERE open)
      ORDER BY release_key, block"
);
const DEPLOYMENTS: &str = concat!("SELECT ", deployment_columns!(), " FROM deployments");
const OUTBOX: &str = concat!("SELECT ", outbox_columns!(), " FROM outbox ORDER BY id");

const LEASE: &str = concat!("SELECT ", lease_columns!(), " FROM lease");
const ALL_RELEASES: &str = concat!("SELECT ", release_columns!(), " FROM releases ORDER BY release_key");
const ALL_ARCHIVES: &str = concat!("SELECT ", archive_columns!(), " FROM archives ORDER BY digest");
const ALL_MEMBERS: &str = concat!("SELECT ", member_columns!(), " FROM members ORDER BY release_key, slice");
const ALL_ASSIGNMENTS: &str =
    concat!("SELECT ", assignment_columns!(), " FROM assignments ORDER BY release_key, child_key");
const ALL_STAGE_RESULTS: &str = concat!(
    "SELECT ",
    stage_result_columns!(),
    " FROM results ORDER BY release_key, child_key, attempt, stage"
);
const ALL_ANALYSIS_RUNS: &str =
    concat!("SELECT ", analysis_run_columns!(), " FROM analysis_runs ORDER BY release_key, block");
const ALL_PRECEDENTS: &str =
    concat!("SELECT ", precedent_columns!(), " FROM precedents ORDER BY function, release_key");
const ALL_DEPLOYMENTS: &str =
    concat!("SELECT ", deployment_columns!(), " FROM deployments ORDER BY child_key, function");
const ALL_AUDIT: &str = concat!("SELECT ", audit_columns!(), " FROM audit ORDER BY seq, idx");

/// Everything above, for the test that prepares each statement.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    CHILDREN,
    HEADS,
    OPEN_RELEASES,
    OPEN_MEMBERS,
    OPEN_ASSIGNMENTS,
    STAGE_RESULTS,
    OPEN_ANALYSIS_RUNS,
    DEPLOYMENTS,
    OUTBOX,
    LEASE,
    ALL_RELEASES,
    ALL_ARCHIVES,
    ALL_MEMBERS,
    ALL_ASSIGNMENTS,
    ALL_STAGE_RESULTS,
    ALL_ANALYSIS_RUNS,
    ALL_PRECEDENTS,
    ALL_DEPLOYMENTS,
    ALL_AUDIT,
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
    each(session, CHILDREN, |row: ChildRow| loader.child(row)).await?;
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
    each(session, OUTBOX, |row: OutboxRow| loader.outbox(row)).await
}

/// One row of any table.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnyRow {
    Lease(LeaseRow),
    Child(ChildRow),
    Release(ReleaseRow),
    Archive(ArchiveRow),
    Members(MembersRow),
    Assignment(AssignmentRow),
    StageResult(StageResultRow),
    AnalysisRun(AnalysisRunRow),
    Precedent(PrecedentRow),
    Deployment(DeploymentRow),
    Audit(AuditRow),
    Outbox(OutboxRow),
}

/// What is called with each row of a dump.
pub(crate) type TakeRow<'a> = dyn FnMut(AnyRow) -> Result<(), StoreError> + Send + 'a;

/// Hands over every row of every table, the lease first.
pub(crate) async fn dump(session: &mut dyn Session, take: &mut TakeRow<'_>) -> Result<(), StoreError> {
    each(session, LEASE, |row| take(AnyRow::Lease(row))).await?;
    each(session, CHILDREN, |row| take(AnyRow::Child(row))).await?;
    each(session, ALL_RELEASES, |row| take(AnyRow::Release(row))).await?;
    each(session, ALL_ARCHIVES, |row| take(AnyRow::Archive(row))).await?;
    each(session, ALL_MEMBERS, |row| take(AnyRow::Members(row))).await?;
    each(session, ALL_ASSIGNMENTS, |row| take(AnyRow::Assignment(row))).await?;
    each(session, ALL_STAGE_RESULTS, |row| take(AnyRow::StageResult(row))).await?;
    each(session, ALL_ANALYSIS_RUNS, |row| take(AnyRow::AnalysisRun(row))).await?;
    each(session, ALL_PRECEDENTS, |row| take(AnyRow::Precedent(row))).await?;
    each(session, ALL_DEPLOYMENTS, |row| take(AnyRow::Deployment(row))).await?;
    each(session, ALL_AUDIT, |row| take(AnyRow::Audit(row))).await?;
    each(session, OUTBOX, |row| take(AnyRow::Outbox(row))).await
}
