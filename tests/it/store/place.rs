//! A fresh store for each story, of either kind, removed after it.

use std::{
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering},
};

use futures_util::FutureExt;
use sqlx::{Connection, PgConnection, SqliteConnection};
use store::{Reader, Writer, options::OpenOptions, url};
use tempfile::TempDir;

/// The kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

/// Where a store can be, and nothing is yet.
pub struct Place {
    pub kind: Kind,
    pub url: String,
    folder: TempDir,
    /// Superuser's URL and name of the database that is this place.
    database: Option<(String, String)>,
}

/// A superuser's URL; `tests/run` starts a cluster and sets it.
fn superuser() -> String {
    std::env::var("CHOIRMASTER_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("CHOIRMASTER_TEST_POSTGRES is not set: run the tests with tests/run, which starts a Postgres for them")
    })
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Place {
    pub async fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        match kind {
            Kind::Sqlite => {
                let url = format!("sqlite://{}", folder.path().join("store.db").display());
                Self { kind, url, folder, database: None }
            }
            Kind::Postgres => {
                let superuser = superuser();
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                let name = format!("story_{}_{number}", std::process::id());
                let mut admin = PgConnection::connect(&superuser).await.unwrap();
                let create = format!("CREATE DATABASE {name}");
                sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&mut admin).await.unwrap();
                let (server, _) = superuser.rsplit_once('/').unwrap();
                Self { kind, url: format!("{server}/{name}"), folder, database: Some((superuser, name)) }
            }
        }
    }

    /// A database that is there already, and is somebody else's to remove.
    pub fn database(url: String) -> Self {
        Self { kind: Kind::Postgres, url, folder: tempfile::tempdir().unwrap(), database: None }
    }

    /// The file of an SQLite store.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    pub async fn open(&self) -> (Box<dyn Writer>, Arc<dyn Reader>) {
        url::open(&self.url, &OpenOptions::new()).await.unwrap()
    }

    /// Changes the store behind the adapter's back.
    pub async fn sql(&self, sql: impl sqlx::SqlSafeStr) {
        match self.kind {
            Kind::Sqlite => {
                let mut conn = SqliteConnection::connect(&self.url).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Kind::Postgres => {
                let mut conn = PgConnection::connect(&self.url).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
        }
    }

    async fn remove(self) {
        if let Some((superuser, name)) = &self.database {
            let mut admin = PgConnection::connect(superuser).await.unwrap();
            let drop = format!("DROP DATABASE {name} WITH (FORCE)");
            sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(&mut admin).await.unwrap();
        }
    }

    /// Runs a story on a fresh place and removes the place, however the story ends.
    pub async fn with<T>(kind: Kind, story: impl AsyncFnOnce(&Place) -> T) -> T {
        Self::several(kind, 1, async |places: &[Self]| story(&places[0]).await).await
    }

    /// As [`Place::with`], on so many places of their own.
    pub async fn several<T>(kind: Kind, count: usize, story: impl AsyncFnOnce(&[Place]) -> T) -> T {
        let mut places = Vec::new();
        for _ in 0..count {
            places.push(Self::new(kind).await);
        }
        let ended = AssertUnwindSafe(story(&places)).catch_unwind().await;
        for place in places {
            place.remove().await;
        }
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Makes two tests of each story, one a kind.
macro_rules! stories {
    ($($story:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                $crate::store::place::Place::with($crate::store::place::Kind::Sqlite, super::$story).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                $crate::store::place::Place::with($crate::store::place::Kind::Postgres, super::$story).await;
            })*
        }
    };
}
pub(crate) use stories;
