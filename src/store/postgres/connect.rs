//! How the connection that writes is opened, and what it sets for itself.

use std::time::Duration;

use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use tokio::time::timeout;

use super::error::store_error;
use crate::StoreError;

/// Longest wait for a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a connection that writes sets for itself: the server gives up before we do, notices that we are gone, and
/// plans each statement once. Durability is not left to a default that somebody may have turned off.
const SET_UP: &str = "
    SET statement_timeout = '4s';
    SET idle_in_transaction_session_timeout = '4s';
    SET tcp_keepalives_idle = 5;
    SET tcp_keepalives_interval = 2;
    SET tcp_keepalives_count = 3;
    SET default_transaction_isolation = 'read committed';
    SET plan_cache_mode = 'force_generic_plan';
    SET jit = off;
    SET client_min_messages = 'warning';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// A connection that writes.
pub(super) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    let connecting = async {
        let mut conn = PgConnection::connect_with(options).await?;
        sqlx::raw_sql(SET_UP).execute(&mut conn).await?;
        Ok(conn)
    };
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(done) => done.map_err(store_error),
        Err(_) => {
            Err(StoreError::Unavailable(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())))
        }
    }
}
