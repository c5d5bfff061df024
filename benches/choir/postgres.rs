//! The Postgres that `benches/run` has started: databases on it, and pgbench.

use std::{
    path::{Path, PathBuf},
    process::Command,
    str::FromStr as _,
};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, postgres::PgConnectOptions};

use crate::load::MAX_LATENCY_US;

/// A server on which databases may be made.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// `postgres://USER@HOST:PORT/DATABASE`
    url: String,
    pub version: String,
    pub pgbench: Option<PathBuf>,
}

impl Cluster {
    pub async fn open(url: &str, pgbench: Option<&str>) -> anyhow::Result<Self> {
        let mut conn = connect(url).await?;
        let (version,): (String,) =
            sqlx::query_as("SELECT current_setting('server_version')").fetch_one(&mut conn).await?;
        conn.close().await?;
        Ok(Self { url: url.to_owned(), version, pgbench: pgbench.map(PathBuf::from) })
    }

    /// Makes an empty database and answers its URL.
    pub async fn database(&self, name: &str) -> anyhow::Result<String> {
        let mut conn = connect(&self.url).await?;
        for sql in [format!("DROP DATABASE IF EXISTS {name}"), format!("CREATE DATABASE {name}")] {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await?;
        }
        conn.close().await?;
        let (server, _) = self.url.rsplit_once('/').context("the URL names no database")?;
        Ok(format!("{server}/{name}"))
    }

    /// Brings the statistics of a database up to date, as the server does by itself after a while.
    pub async fn analyze(url: &str) -> anyhow::Result<()> {
        let mut conn = connect(url).await?;
        sqlx::raw_sql("VACUUM ANALYZE").execute(&mut conn).await?;
        conn.close().await?;
        Ok(())
    }
}

async fn connect(url: &str) -> anyhow::Result<PgConnection> {
    let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
    Ok(PgConnection::connect_with(&options).await?)
}

/// Areas sent to the server at once.
const AREAS_SLICE: usize = 10_000;

/// Polygons in a database, under an index of their boxes.
#[derive(Debug)]
pub struct Polygons {
    conn: PgConnection,
    pub version: String,
}

impl Polygons {
    pub async fn load(cluster: &Cluster, areas: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let url = cluster.database("choir_polygons").await?;
        let mut conn = connect(&url).await?;
        sqlx::raw_sql("CREATE EXTENSION postgis; CREATE TABLE areas (geom geometry(Polygon, 4326) NOT NULL)")
            .execute(&mut conn)
            .await
            .context("PostGIS is not installed")?;
        let mut slice = Vec::with_capacity(AREAS_SLICE);
        let mut areas = areas.peekable();
        while let Some(area) = areas.next() {
            slice.push(area);
            if slice.len() == AREAS_SLICE || areas.peek().is_none() {
                sqlx::query(
                    "INSERT INTO areas SELECT ST_GeomFromGeoJSON(area) FROM unnest($1::text[]) AS area",
                )
                .bind(&slice)
                .execute(&mut conn)
                .await?;
                slice.clear();
            }
        }
        sqlx::raw_sql("CREATE INDEX ON areas USING gist (geom)").execute(&mut conn).await?;
        sqlx::raw_sql("VACUUM ANALYZE areas").execute(&mut conn).await?;
        let (version,): (String,) =
            sqlx::query_as("SELECT PostGIS_Lib_Version()").fetch_one(&mut conn).await?;
        Ok(Self { conn, version })
    }

    /// How many of them meet the area. None touches it without overlapping, which this would count, too.
    pub async fn count(&mut self, area: &str) -> anyhow::Result<u64> {
        let sql = "SELECT count(*) FROM areas WHERE ST_Intersects(geom, ST_GeomFromGeoJSON($1))";
        let (count,): (i64,) = sqlx::query_as(sql).bind(area).fetch_one(&mut self.conn).await?;
        Ok(count.try_into()?)
    }
}

/// Like the table `assignments`; its rows do not grow, and have the room that an update in place needs.
const TABLE: &str = "CREATE TABLE rows (
        release_key bigint NOT NULL, child_key bigint NOT NULL, status smallint NOT NULL, outcome text,
        attempt smallint NOT NULL, stage smallint NOT NULL, stage_status smallint NOT NULL,
        updated_ms bigint NOT NULL, detail text NOT NULL, PRIMARY KEY (release_key, child_key)
    ) WITH (fillfactor = 70)";

const FILL: &str = "INSERT INTO rows SELECT 1, key, 2, NULL, 1, 0, 1, 1767225600000,
        '{\"named\":1,\"piece\":\"Whole\",\"fetched\":true,\"since\":123456,\"stage_since\":123456,\"facts\":0}'
    FROM generate_series(1, $1::bigint) AS key";

/// The transaction that the results are measured against: one upsert of one such row. What follows a colon without
/// a space is a variable to pgbench.
fn script(keys: usize) -> String {
    format!(
        "\\set child random(1, {keys})\n\\set stage random(0, 2)\n\
         INSERT INTO rows (release_key, child_key, status, outcome, attempt, stage, stage_status, updated_ms, detail) \
         VALUES (1, :child, 2, NULL, 1, :stage, 2, 1767225600000, \
         '{{\"named\": 1,\"piece\": \"Whole\",\"fetched\": true,\"since\": 123456,\"stage_since\": 123456,\"facts\": 0}}') \
         ON CONFLICT (release_key, child_key) DO UPDATE SET status = excluded.status, outcome = excluded.outcome, \
         attempt = excluded.attempt, stage = excluded.stage, stage_status = excluded.stage_status, \
         updated_ms = excluded.updated_ms, detail = excluded.detail;\n"
    )
}

/// pgbench with its table filled.
#[derive(Debug)]
pub struct Pgbench {
    program: PathBuf,
    url: String,
    folder: PathBuf,
    clients: usize,
}

/// Share of the transactions whose time pgbench notes: enough for a p99, too little to slow it down.
const SAMPLED: &str = "0.1";

impl Pgbench {
    pub async fn prepare(
        cluster: &Cluster,
        folder: &Path,
        keys: usize,
        clients: usize,
    ) -> anyhow::Result<Option<Self>> {
        let Some(program) = cluster.pgbench.clone() else { return Ok(None) };
        let url = cluster.database("choir_pgbench").await?;
        let mut conn = connect(&url).await?;
        sqlx::raw_sql(TABLE).execute(&mut conn).await?;
        sqlx::query(FILL).bind(i64::try_from(keys)?).execute(&mut conn).await?;
        conn.close().await?;
        Cluster::analyze(&url).await?;
        std::fs::write(folder.join("upsert.sql"), script(keys))?;
        Ok(Some(Self { program, url, folder: folder.to_owned(), clients }))
    }

    /// Runs for some seconds; answers transactions per second and their times in microseconds.
    pub fn run(&self, seconds: u64) -> anyhow::Result<(f64, Histogram<u64>)> {
        let prefix = "pgbench-times";
        let output = Command::new(&self.program)
            .current_dir(&self.folder)
            .args(["-M", "prepared", "-n", "-j", "2", "-f", "upsert.sql", "-l", "--sampling-rate", SAMPLED])
            .args(["--log-prefix", prefix, "-c", &self.clients.to_string(), "-T", &seconds.to_string()])
            .arg(&self.url)
            .output()
            .context("pgbench could not be run")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
        let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        let tps = tps.with_context(|| format!("pgbench told no tps: {text}"))?;
        Ok((tps, self.take_times(prefix)?))
    }

    fn take_times(&self, prefix: &str) -> anyhow::Result<Histogram<u64>> {
        let mut times = Histogram::new_with_max(MAX_LATENCY_US, 3)?;
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) {
                continue;
            }
            for line in std::fs::read_to_string(&path)?.lines() {
                let time = line.split(' ').nth(2).and_then(|time| time.parse().ok());
                times.saturating_record(time.with_context(|| format!("pgbench noted {line:?}"))?);
            }
            std::fs::remove_file(&path)?;
        }
        Ok(times)
    }
}
