//! From a URL to an adapter. Only `app` and the commands that open a store call this.
//!
//! `sqlite://PATH` (also `sqlite:PATH`) is a file; `postgres://…` (also `postgresql://…`) a Postgres database, with
//! the parameters libpq knows, among them `sslmode`, `sslrootcert` and `host=/folder` for a Unix socket.

use std::{path::Path, sync::Arc};

use super::{
    Reader, StoreError, Writer,
    options::OpenOptions,
    postgres, sqlite,
    transfer::{Source, Target},
};

/// What a URL names.
#[derive(Debug, PartialEq, Eq)]
pub enum StorePlace<'a> {
    Sqlite(&'a Path),
    Postgres(&'a str),
}

pub fn parse(url: &str) -> Result<StorePlace<'_>, StoreError> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"));
    match path {
        Some("" | ":memory:") => {
            Err(StoreError::Refused("sqlite://PATH needs the path of a file".to_owned()))
        }
        Some(path) => Ok(StorePlace::Sqlite(Path::new(path))),
        None if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(StorePlace::Postgres(url))
        }
        // The URL itself may hold a password, so it is not repeated.
        None => Err(StoreError::Refused(
            "a store is sqlite://PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE".to_owned(),
        )),
    }
}

/// Opens a store and takes its lease.
pub async fn open(
    url: &str,
    options: &OpenOptions,
) -> Result<(Box<dyn Writer>, Arc<dyn Reader>), StoreError> {
    match parse(url)? {
        StorePlace::Sqlite(path) => sqlite::open(path, options).await,
        StorePlace::Postgres(url) => postgres::open(url, options).await,
    }
}

/// Opens a store to read all of it; needs no lease.
pub async fn open_source(url: &str) -> Result<Source, StoreError> {
    let sessions = match parse(url)? {
        StorePlace::Sqlite(path) => sqlite::open_source(path).await?,
        StorePlace::Postgres(url) => postgres::open_source(url).await?,
    };
    Ok(Source::new(sessions))
}

/// Opens a store to fill it, and takes its lease.
pub async fn open_target(url: &str, options: &OpenOptions) -> Result<Box<dyn Target>, StoreError> {
    match parse(url)? {
        StorePlace::Sqlite(path) => sqlite::open_target(path, options).await,
        StorePlace::Postgres(url) => postgres::open_target(url, options).await,
    }
}
