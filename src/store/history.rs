//! The [`Reader`], once for all databases: which statement answers which question.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{
    AuditFilter, AuditOrder, DeploymentFilter, DiskSpace, MAX_PAGE, Reader, ReleaseFilter, ServiceFilter,
    StoreError, StoreKind, TrafficFilter,
    rows::{
        AnalysisRunRow, ArchiveRow, AssignmentRow, AuditRow, DeploymentRow, MembersRow, OutboxId, OverRow,
        PrecedentRow, RegisteredRow, ReleaseRow, ServiceReleaseRow, StageResultRow, TrafficHistoryRow,
        UserRow, WallMs,
    },
    session::{Arg, Sessions},
    tables::{FromRow, columns, part},
};

/// A question to the store that isn't answered after this long is given up.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) const RELEASE: &str = concat!("SELECT ", columns!(ReleaseRow), " FROM releases WHERE id = $1");

pub(crate) const ARCHIVE: &str = concat!("SELECT ", columns!(ArchiveRow), " FROM archives WHERE digest = $1");

pub(crate) const MEMBERS: &str =
    concat!("SELECT ", columns!(MembersRow), " FROM members WHERE release_key = $1 ORDER BY slice");

pub(crate) const ASSIGNMENT: &str = concat!(
    "SELECT ",
    columns!(AssignmentRow),
    " FROM assignments WHERE release_key = $1 AND child_key = $2"
);

pub(crate) const ASSIGNMENTS: &str = concat!(
    "SELECT ",
    columns!(AssignmentRow),
    " FROM assignments WHERE release_key = $1 AND child_key > $2 ORDER BY child_key LIMIT $3"
);

pub(crate) const STAGE_RESULTS: &str = concat!(
    "SELECT ",
    columns!(StageResultRow),
    " FROM results WHERE release_key = $1 AND child_key BETWEEN $2 AND $3
      ORDER BY child_key, attempt, stage"
);

pub(crate) const ANALYSIS_RUNS: &str =
    concat!("SELECT ", columns!(AnalysisRunRow), " FROM analysis_runs WHERE release_key = $1 ORDER BY block");

pub(crate) const PRECEDENT: &str = concat!(
    "SELECT ",
    columns!(PrecedentRow),
    " FROM precedents WHERE function = $1 AND ended_ms <= $2 AND release_key <> $3
      ORDER BY ended_ms DESC, release_key DESC LIMIT 1"
);

pub(crate) const DEPLOYMENTS: &str = concat!(
    "SELECT ",
    columns!(DeploymentRow),
    " FROM deployments WHERE (function, child_key) > ($1, $2) ORDER BY function, child_key LIMIT $3"
);

pub(crate) const DEPLOYMENTS_OF_FUNCTION: &str = concat!(
    "SELECT ",
    columns!(DeploymentRow),
    " FROM deployments WHERE (function, child_key) > ($1, $2) AND function = $4
      ORDER BY function, child_key LIMIT $3"
);

pub(crate) const DEPLOYMENTS_OF_CHILD: &str = concat!(
    "SELECT ",
    columns!(DeploymentRow),
    " FROM deployments WHERE (function, child_key) > ($1, $2) AND child_key = $4
      AND function = COALESCE($5, function) ORDER BY function, child_key LIMIT $3"
);

pub(crate) const AUDIT: &str = concat!(
    "SELECT ",
    columns!(AuditRow),
    " FROM audit WHERE (seq, idx) > ($1, $2) ORDER BY seq, idx LIMIT $3"
);

pub(crate) const AUDIT_OF_RELEASE: &str = concat!(
    "SELECT ",
    columns!(AuditRow),
    " FROM audit WHERE (seq, idx) > ($1, $2) AND release_key = $4 ORDER BY seq, idx LIMIT $3"
);

pub(crate) const TOLD: &str = concat!(
    "SELECT ",
    columns!(AuditRow),
    " FROM audit WHERE (seq, idx) < ($1, $2) AND NOT steps ORDER BY seq DESC, idx DESC LIMIT $3"
);

pub(crate) const TOLD_OF_RELEASE: &str = concat!(
    "SELECT ",
    columns!(AuditRow),
    " FROM audit WHERE (seq, idx) < ($1, $2) AND release_key = $4 AND NOT steps ORDER BY seq DESC, idx DESC LIMIT $3"
);

pub(crate) const AUDIT_END: &str =
    concat!("SELECT ", columns!(AuditRow), " FROM audit ORDER BY seq DESC, idx DESC LIMIT 1");

pub(crate) const TRAFFIC: &str = concat!(
    "SELECT ",
    columns!(TrafficHistoryRow),
    " FROM traffic_history WHERE (seq, idx) < ($1, $2) ORDER BY seq DESC, idx DESC LIMIT $3"
);

pub(crate) const TRAFFIC_OF_RELEASE: &str = concat!(
    "SELECT ",
    columns!(TrafficHistoryRow),
    " FROM traffic_history WHERE (seq, idx) < ($1, $2) AND release_key = $4 AND service = COALESCE($5, service)
      ORDER BY seq DESC, idx DESC LIMIT $3"
);

pub(crate) const TRAFFIC_OF_SERVICE: &str = concat!(
    "SELECT ",
    columns!(TrafficHistoryRow),
    " FROM traffic_history WHERE (seq, idx) < ($1, $2) AND service = $4 ORDER BY seq DESC, idx DESC LIMIT $3"
);

pub(crate) const OVER: &str = concat!(
    "SELECT ",
    part!(OverRow),
    " FROM releases WHERE release_key > $1 AND NOT open AND state <> 'Removed' ORDER BY release_key LIMIT $2"
);

pub(crate) const BYTES_OF: &str = "SELECT CAST(
        COALESCE((SELECT SUM(octet_length(strategy)) FROM releases
            WHERE substr(id, 1, length(CAST($1 AS text))) = CAST($1 AS text)), 0)
        + COALESCE((SELECT SUM(octet_length(bytes)) FROM archives WHERE digest IN
            (SELECT archive FROM releases WHERE substr(id, 1, length(CAST($1 AS text))) = CAST($1 AS text))), 0)
        AS BIGINT)";

pub(crate) const AWAITING: &str =
    concat!("SELECT ", part!(OutboxId), " FROM outbox WHERE kind = $1 ORDER BY id LIMIT $2");

pub(crate) const ARCHIVE_OF: &str = concat!(
    "SELECT ",
    columns!(ArchiveRow),
    " FROM archives WHERE digest = $2 AND EXISTS (SELECT 1 FROM releases
        WHERE archive = $2 AND substr(id, 1, length(CAST($1 AS text))) = CAST($1 AS text))"
);

pub(crate) const USERS: &str = concat!(
    "SELECT ",
    columns!(UserRow),
    " FROM users WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3"
);

pub(crate) const REGISTERED: &str = concat!(
    "SELECT ",
    columns!(RegisteredRow),
    " FROM registered WHERE tenant = $1 AND kind = $2 AND name > $3 AND removed_ms IS NULL ORDER BY name LIMIT $4"
);

pub(crate) const REGISTERED_ONE: &str =
    concat!("SELECT ", columns!(RegisteredRow), " FROM registered WHERE id = $1");

pub(crate) const SERVICE_RELEASE: &str =
    concat!("SELECT ", columns!(ServiceReleaseRow), " FROM service_releases WHERE id = $1");

pub(crate) const SERVICE_RELEASES: &str = concat!(
    "SELECT ",
    columns!(ServiceReleaseRow),
    " FROM service_releases WHERE tenant = COALESCE($1, tenant) AND release_key < $2
      AND environment_id = COALESCE($3, environment_id) ORDER BY release_key DESC LIMIT $4"
);

pub(crate) const PING: &str = "SELECT 1";

/// Everything above, for the test that prepares each statement.
pub(crate) const STATEMENTS: &[&str] = &[
    RELEASE,
    ARCHIVE,
    MEMBERS,
    ASSIGNMENT,
    ASSIGNMENTS,
    STAGE_RESULTS,
    ANALYSIS_RUNS,
    PRECEDENT,
    DEPLOYMENTS,
    DEPLOYMENTS_OF_FUNCTION,
    DEPLOYMENTS_OF_CHILD,
    AUDIT,
    AUDIT_OF_RELEASE,
    TOLD,
    TOLD_OF_RELEASE,
    AUDIT_END,
    TRAFFIC,
    TRAFFIC_OF_RELEASE,
    TRAFFIC_OF_SERVICE,
    OVER,
    BYTES_OF,
    AWAITING,
    ARCHIVE_OF,
    USERS,
    REGISTERED,
    REGISTERED_ONE,
    SERVICE_RELEASE,
    SERVICE_RELEASES,
    PING,
];

/// Reads what is committed.
#[derive(Debug, Clone)]
pub(crate) struct History {
    sessions: Arc<dyn Sessions>,
}

impl History {
    pub(crate) fn new(sessions: Arc<dyn Sessions>) -> Self {
        Self { sessions }
    }

    async fn all<T: FromRow + Send>(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::new();
        let asking = async {
            let mut session = self.sessions.session().await?;
            let mut each = |columns: &dyn super::session::Columns| {
                found.push(T::read(columns)?);
                Ok(())
            };
            session.rows(sql, args, &mut each).await
        };
        match timeout(READ_TIMEOUT, asking).await {
            Ok(done) => done?,
            Err(_) => {
                return Err(StoreError::Unavailable(format!(
                    "no answer within {} s",
                    READ_TIMEOUT.as_secs()
                )));
            }
        }
        Ok(found)
    }

    async fn one<T: FromRow + Send>(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Option<T>, StoreError> {
        Ok(self.all(sql, args).await?.pop())
    }
}

fn page(limit: u32) -> Arg<'static> {
    Arg::Int(i64::from(limit.clamp(1, MAX_PAGE)))
}

/// What a page that starts at the beginning comes after: every key is 0 or more.
const BEFORE_ALL: i64 = -1;

impl Reader for History {
    fn release<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<ReleaseRow>, StoreError>> {
        Box::pin(async move { self.one(RELEASE, &[Arg::Text(id)]).await })
    }

    fn releases<'a>(
        &'a self,
        filter: &'a ReleaseFilter,
    ) -> BoxFuture<'a, Result<Vec<ReleaseRow>, StoreError>> {
        Box::pin(async move {
            // Names of states have no comma.
            let states = (!filter.states.is_empty()).then(|| format!(",{},", filter.states.join(",")));
            let args = [
                Arg::Int(filter.before.map_or(i64::MAX, i64::from)),
                page(filter.limit),
                Arg::OptText(states.as_deref()),
                Arg::OptText(filter.function.as_deref()),
                Arg::OptText(filter.prefix.as_deref()),
            ];
            self.all(self.sessions.releases_sql(), &args).await
        })
    }

    fn bytes_of<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let mut bytes = 0;
            let asking = async {
                let mut session = self.sessions.session().await?;
                let mut each = |columns: &dyn super::session::Columns| {
                    let read = columns.int(0).map_err(StoreError::Unavailable)?;
                    bytes = read.and_then(|sum| u64::try_from(sum).ok()).unwrap_or_default();
                    Ok(())
                };
                session.rows(BYTES_OF, &[Arg::Text(prefix)], &mut each).await
            };
            let late = |_| StoreError::Unavailable(format!("no answer within {} s", READ_TIMEOUT.as_secs()));
            timeout(READ_TIMEOUT, asking).await.map_err(late)??;
            Ok(bytes)
        })
    }

    fn over(&self, after: Option<u32>, limit: u32) -> BoxFuture<'_, Result<Vec<OverRow>, StoreError>> {
        Box::pin(async move {
            let after = after.map_or(BEFORE_ALL, i64::from);
            self.all(OVER, &[Arg::Int(after), page(limit)]).await
        })
    }

    fn awaiting<'a>(&'a self, kind: &'a str, limit: u32) -> BoxFuture<'a, Result<Vec<u64>, StoreError>> {
        Box::pin(async move {
            let rows: Vec<OutboxId> = self.all(AWAITING, &[Arg::Text(kind), page(limit)]).await?;
            Ok(rows.into_iter().map(|row| row.id).collect())
        })
    }

    fn archive_of<'a>(
        &'a self,
        prefix: &'a str,
        digest: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move {
            let row: Option<ArchiveRow> =
                self.one(ARCHIVE_OF, &[Arg::Text(prefix), Arg::Bytes(digest)]).await?;
            Ok(row.map(|row| row.bytes))
        })
    }

    fn archive<'a>(&'a self, digest: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move {
            let row: Option<ArchiveRow> = self.one(ARCHIVE, &[Arg::Bytes(digest)]).await?;
            Ok(row.map(|row| row.bytes))
        })
    }

    fn members(&self, release_key: u32) -> BoxFuture<'_, Result<Vec<MembersRow>, StoreError>> {
        Box::pin(async move { self.all(MEMBERS, &[Arg::Int(release_key.into())]).await })
    }

    fn assignment(
        &self,
        release_key: u32,
        child_key: u32,
    ) -> BoxFuture<'_, Result<Option<AssignmentRow>, StoreError>> {
        Box::pin(async move {
            self.one(ASSIGNMENT, &[Arg::Int(release_key.into()), Arg::Int(child_key.into())]).await
        })
    }

    fn assignments(
        &self,
        release_key: u32,
        after: Option<u32>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<AssignmentRow>, StoreError>> {
        Box::pin(async move {
            let after = after.map_or(BEFORE_ALL, i64::from);
            self.all(ASSIGNMENTS, &[Arg::Int(release_key.into()), Arg::Int(after), page(limit)]).await
        })
    }

    fn stage_results(
        &self,
        release_key: u32,
        from: u32,
        to: u32,
    ) -> BoxFuture<'_, Result<Vec<StageResultRow>, StoreError>> {
        Box::pin(async move {
            let args = [Arg::Int(release_key.into()), Arg::Int(from.into()), Arg::Int(to.into())];
            self.all(STAGE_RESULTS, &args).await
        })
    }

    fn analysis_runs(&self, release_key: u32) -> BoxFuture<'_, Result<Vec<AnalysisRunRow>, StoreError>> {
        Box::pin(async move { self.all(ANALYSIS_RUNS, &[Arg::Int(release_key.into())]).await })
    }

    fn precedent<'a>(
        &'a self,
        function: &'a str,
        until_ms: WallMs,
        but: u32,
    ) -> BoxFuture<'a, Result<Option<PrecedentRow>, StoreError>> {
        Box::pin(async move {
            self.one(PRECEDENT, &[Arg::Text(function), Arg::Int(until_ms), Arg::Int(but.into())]).await
        })
    }

    fn deployments<'a>(
        &'a self,
        filter: &'a DeploymentFilter,
    ) -> BoxFuture<'a, Result<Vec<DeploymentRow>, StoreError>> {
        Box::pin(async move {
            let (function, child_key) = match &filter.after {
                Some((function, child_key)) => (function.as_str(), i64::from(*child_key)),
                None => ("", BEFORE_ALL),
            };
            let after = [Arg::Text(function), Arg::Int(child_key), page(filter.limit)];
            let wanted = filter.function.as_deref();
            match (filter.child_key, wanted) {
                (Some(child_key), wanted) => {
                    let args = [&after[..], &[Arg::Int(child_key.into()), Arg::OptText(wanted)]].concat();
                    self.all(DEPLOYMENTS_OF_CHILD, &args).await
                }
                (None, Some(wanted)) => {
                    self.all(DEPLOYMENTS_OF_FUNCTION, &[&after[..], &[Arg::Text(wanted)]].concat()).await
                }
                (None, None) => self.all(DEPLOYMENTS, &after).await,
            }
        })
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> BoxFuture<'a, Result<Vec<AuditRow>, StoreError>> {
        Box::pin(async move {
            let (all, of_release, start) = match filter.order {
                AuditOrder::OldestFirst => (AUDIT, AUDIT_OF_RELEASE, BEFORE_ALL),
                AuditOrder::ToldNewestFirst => (TOLD, TOLD_OF_RELEASE, i64::MAX),
            };
            // A sequence beyond what the store can hold has nothing after it.
            let (seq, idx) = filter.after.map_or((start, start), |(seq, idx)| {
                (i64::try_from(seq).unwrap_or(i64::MAX), i64::from(idx))
            });
            let after = [Arg::Int(seq), Arg::Int(idx), page(filter.limit)];
            match filter.release_key {
                Some(key) => self.all(of_release, &[&after[..], &[Arg::Int(key.into())]].concat()).await,
                None => self.all(all, &after).await,
            }
        })
    }

    fn users<'a>(
        &'a self,
        tenant: &'a str,
        after: &'a str,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<UserRow>, StoreError>> {
        Box::pin(async move { self.all(USERS, &[Arg::Text(tenant), Arg::Text(after), page(limit)]).await })
    }

    fn registered<'a>(
        &'a self,
        tenant: &'a str,
        kind: &'a str,
        after: &'a str,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<RegisteredRow>, StoreError>> {
        Box::pin(async move {
            let args = [Arg::Text(tenant), Arg::Text(kind), Arg::Text(after), page(limit)];
            self.all(REGISTERED, &args).await
        })
    }

    fn registered_one<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<RegisteredRow>, StoreError>> {
        Box::pin(async move { self.one(REGISTERED_ONE, &[Arg::Text(id)]).await })
    }

    fn service_release<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<ServiceReleaseRow>, StoreError>> {
        Box::pin(async move { self.one(SERVICE_RELEASE, &[Arg::Text(id)]).await })
    }

    fn service_releases<'a>(
        &'a self,
        filter: &'a ServiceFilter,
    ) -> BoxFuture<'a, Result<Vec<ServiceReleaseRow>, StoreError>> {
        Box::pin(async move {
            let args = [
                Arg::OptText(filter.tenant.as_deref()),
                Arg::Int(filter.before.map_or(i64::MAX, i64::from)),
                Arg::OptText(filter.environment_id.as_deref()),
                page(filter.limit),
            ];
            self.all(SERVICE_RELEASES, &args).await
        })
    }

    fn traffic_history<'a>(
        &'a self,
        filter: TrafficFilter<'a>,
    ) -> BoxFuture<'a, Result<Vec<TrafficHistoryRow>, StoreError>> {
        Box::pin(async move {
            let (seq, idx) = filter.before.map_or((i64::MAX, i64::MAX), |(seq, idx)| {
                (i64::try_from(seq).unwrap_or(i64::MAX), i64::from(idx))
            });
            let before = [Arg::Int(seq), Arg::Int(idx), page(filter.limit)];
            match (filter.release_key, filter.service) {
                (Some(key), service) => {
                    let args = [&before[..], &[Arg::Int(key.into()), Arg::OptText(service)]].concat();
                    self.all(TRAFFIC_OF_RELEASE, &args).await
                }
                (None, Some(service)) => {
                    self.all(TRAFFIC_OF_SERVICE, &[&before[..], &[Arg::Text(service)]].concat()).await
                }
                (None, None) => self.all(TRAFFIC, &before).await,
            }
        })
    }

    fn audit_end(&self) -> BoxFuture<'_, Result<Option<(u64, u32)>, StoreError>> {
        Box::pin(async move {
            let row: Option<AuditRow> = self.one(AUDIT_END, &[]).await?;
            Ok(row.map(|row| (row.seq, row.idx)))
        })
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let asking = async {
                let mut session = self.sessions.session().await?;
                session.rows(PING, &[], &mut |_| Ok(())).await
            };
            timeout(READ_TIMEOUT, asking)
                .await
                .unwrap_or_else(|_| Err(StoreError::Unavailable("no answer to a ping".to_owned())))
        })
    }

    fn kind(&self) -> StoreKind {
        self.sessions.kind()
    }

    fn disk(&self) -> BoxFuture<'_, Result<Option<DiskSpace>, StoreError>> {
        self.sessions.disk()
    }
}
