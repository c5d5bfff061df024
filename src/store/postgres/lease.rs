//! Taking, renewing and giving back the lease.
//!
//! Whoever wants it watches the one who has it: a living holder renews it, whatever the database's clock says. That
//! clock may jump, so a standby goes by its own alone. Who doesn't want to wait goes by the database's, and watches
//! for a moment only.

use std::time::Duration;

use sqlx::{PgConnection, Row, postgres::PgConnectOptions};
use tokio::time::{Instant, sleep};

use super::{connect::connect, error::store_error, statements::now_ms};
use crate::{LEASE_TTL, StoreError, options::OpenOptions, rows::LeaseRow};

/// A standby looks this often whether the lease is free.
const LEASE_POLL: Duration = Duration::from_secs(1);

/// A holder that lives renews within this time, even if the store was slow once.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

pub(super) const LOOK: &str =
    concat!("SELECT epoch, seq, holder, renewed_ms, ", now_ms!(), " - renewed_ms FROM lease");
/// Only if nobody has taken or renewed it since we looked.
pub(super) const TAKE: &str = concat!(
    "UPDATE lease SET epoch = epoch + 1, holder = $1, renewed_ms = ",
    now_ms!(),
    " WHERE epoch = $2 AND renewed_ms = $3 RETURNING epoch, seq, holder, served_ms"
);
pub(super) const RENEW: &str = concat!(
    "UPDATE lease SET served_ms = GREATEST(served_ms, $2), renewed_ms = ",
    now_ms!(),
    " WHERE epoch = $1"
);
pub(super) const GIVE_BACK: &str = "UPDATE lease SET holder = '', renewed_ms = 0 WHERE epoch = $1";

/// What was found in place of a free lease.
struct Looked {
    epoch: i64,
    seq: i64,
    holder: String,
    renewed_ms: i64,
    age_ms: i64,
}

impl Looked {
    /// How long the lease lives yet, by the database's clock.
    fn left(&self) -> Duration {
        // A time far in the future is of a clock that was set back since.
        let ttl = i64::try_from(LEASE_TTL.as_millis()).unwrap_or(i64::MAX);
        Duration::from_millis(u64::try_from(ttl.saturating_sub(self.age_ms.saturating_abs())).unwrap_or(0))
    }
}

/// Since when, by our own clock, nothing was heard of the holder.
struct Watch {
    last: Option<(i64, i64)>,
    since: Instant,
}

impl Watch {
    fn new() -> Self {
        Self { last: None, since: Instant::now() }
    }

    /// For how long the lease has been as it is now.
    fn unchanged(&mut self, looked: &Looked) -> Duration {
        let now = (looked.epoch, looked.renewed_ms);
        if self.last.replace(now) != Some(now) {
            self.since = Instant::now();
        }
        self.since.elapsed()
    }

    /// How long the holder may yet be expected to come back; `None`: the lease is free.
    fn left(&mut self, looked: &Looked, options: &OpenOptions) -> Option<Duration> {
        let unchanged = self.unchanged(looked);
        if looked.holder.is_empty() || options.holder.proves_dead(&looked.holder) {
            return None;
        }
        let left = if options.wait {
            LEASE_TTL.saturating_sub(unchanged)
        } else {
            looked.left().max(SIGN_OF_LIFE.saturating_sub(unchanged))
        };
        (!left.is_zero()).then_some(left)
    }
}

async fn look_at(conn: &mut PgConnection) -> Result<Looked, StoreError> {
    let row = sqlx::query(LOOK).fetch_optional(conn).await.map_err(store_error)?;
    let row = row.ok_or_else(|| StoreError::Refused("the store has no lease row".to_owned()))?;
    let looked = || {
        Ok(Looked {
            epoch: row.try_get(0)?,
            seq: row.try_get(1)?,
            holder: row.try_get(2)?,
            renewed_ms: row.try_get(3)?,
            age_ms: row.try_get(4)?,
        })
    };
    looked().map_err(store_error)
}

/// The lease as it is: `(epoch, seq, holder)`.
pub(super) async fn look(conn: &mut PgConnection) -> Result<(u64, u64, String), StoreError> {
    let looked = look_at(conn).await?;
    Ok((looked.epoch.cast_unsigned(), looked.seq.cast_unsigned(), looked.holder))
}

/// Takes the lease: at once, or as a standby when it is free, through whatever happens to the connection meanwhile.
pub(super) async fn take(
    mut conn: PgConnection,
    connect_options: &PgConnectOptions,
    options: &OpenOptions,
) -> Result<(PgConnection, LeaseRow), StoreError> {
    let (mut said, mut watch) = (false, Watch::new());
    loop {
        let pause = match try_take(&mut conn, options, &mut watch).await {
            Ok(lease) => return Ok((conn, lease)),
            Err(StoreError::Held { holder, retry_after }) if options.wait => {
                if !said {
                    tracing::info!(%holder, "standing by: another manager works on this store");
                    said = true;
                }
                retry_after.min(LEASE_POLL)
            }
            Err(StoreError::Unavailable(why)) if options.wait => {
                tracing::warn!(%why, "standing by: the store is not available");
                if let Ok(new) = connect(connect_options).await {
                    conn = new;
                }
                LEASE_POLL
            }
            Err(error) => return Err(error),
        };
        sleep(pause).await;
    }
}

async fn try_take(
    conn: &mut PgConnection,
    options: &OpenOptions,
    watch: &mut Watch,
) -> Result<LeaseRow, StoreError> {
    loop {
        let looked = look_at(conn).await?;
        if let Some(retry_after) = watch.left(&looked, options) {
            if options.wait || !looked.left().is_zero() {
                return Err(StoreError::Held { holder: looked.holder, retry_after });
            }
            sleep(retry_after).await;
            continue;
        }
        let take =
            sqlx::query(TAKE).bind(options.holder.to_string()).bind(looked.epoch).bind(looked.renewed_ms);
        // No row: somebody was faster; look again.
        if let Some(row) = take.fetch_optional(&mut *conn).await.map_err(store_error)? {
            let lease = || {
                Ok(LeaseRow {
                    epoch: row.try_get::<i64, _>(0)?.cast_unsigned(),
                    seq: row.try_get::<i64, _>(1)?.cast_unsigned(),
                    holder: row.try_get(2)?,
                    served_ms: row.try_get::<i64, _>(3)?.cast_unsigned(),
                })
            };
            return lease().map_err(store_error);
        }
    }
}

/// Says that the holder lives, and how long it has served.
pub(super) async fn renew(conn: &mut PgConnection, epoch: u64, served_ms: u64) -> Result<(), StoreError> {
    let renew =
        sqlx::query(RENEW).bind(epoch.cast_signed()).bind(i64::try_from(served_ms).unwrap_or(i64::MAX));
    match renew.execute(conn).await.map_err(store_error)?.rows_affected() {
        1 => Ok(()),
        _ => Err(StoreError::LeaseLost("another manager has taken it".to_owned())),
    }
}

/// Clears the holder, if it is still this one.
pub(super) async fn give_back(conn: &mut PgConnection, epoch: u64) -> Result<(), StoreError> {
    sqlx::query(GIVE_BACK).bind(epoch.cast_signed()).execute(conn).await.map_err(store_error)?;
    Ok(())
}
