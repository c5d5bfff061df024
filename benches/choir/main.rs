//! What Choirmaster reaches, as ratios to what is measured beside it in the same run. `benches/run` starts it.
//!
//! Compared with: axum handlers that only parse and answer (`bare`), pgbench doing one upsert a transaction,
//! `PostGIS` counting polygons ([`planning`]), and a general library for maps in the same browser ([`page`]).
//! All servers run in processes of their own ([`server`]) under the same generator ([`load`]). Rounds of all sides
//! alternate, and medians over the rounds are told, so that whatever else the machine does falls on all of them.
//!
//! Where a row is about processor time per request, servers and generator get processors of their own (`taskset`,
//! where there is more than one); where a database takes part, everybody shares all.

mod areas;
mod bare;
mod bodies;
#[allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "tests have more to do with it, and a benchmark that has no browser is to end there, too"
)]
#[path = "../../tests/page/browser/mod.rs"]
mod browser;
mod canaries;
#[allow(dead_code, reason = "tests have more to wait for")]
#[path = "../../tests/shared/deadline.rs"]
mod deadline;
mod downloads;
mod fill;
mod levels;
mod load;
mod machine;
mod migration;
mod mirror;
mod nodes;
mod page;
mod pages;
mod placing;
mod planning;
#[allow(dead_code, clippy::unwrap_used, reason = "tests want more ports, and end where there is none")]
#[path = "../../tests/shared/ports.rs"]
mod ports;
mod postgres;
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "tests look at what they find, and end where that can't be read"
)]
#[path = "../../tests/it/real_agents/processes.rs"]
mod processes;
#[allow(dead_code, reason = "tests draw more kinds of numbers")]
#[path = "../../tests/shared/random.rs"]
mod random;
#[allow(dead_code, clippy::unwrap_used, reason = "tests do more to it, and end where it doesn't answer")]
#[path = "../../tests/it/mirror/server.rs"]
mod redis_server;
mod rows;
mod sequential;
mod server;
#[path = "../shared/mod.rs"]
mod shared;
mod statistics;
mod status;
mod table;
mod viewers;

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};

use crate::{machine::Processors, postgres::Cluster, rows::Bench, server::Above, table::Table};

/// The rows that can be asked for alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Row {
    Poll,
    HandOut,
    /// First downloads of many children, also with equal areas, and a stop meanwhile.
    FirstDownloads,
    /// Polls while others report areas that take long to check.
    LargeAreas,
    /// Commits while a page of many children is read again and again.
    WatchedCommits,
    /// Polls while pages of the web page are open.
    Viewers,
    /// The web page in a browser, beside a general library for maps.
    Page,
    /// How a manager stands, asked for where many children are known.
    Status,
    EndStage,
    Release,
    Functions,
    Result,
    Memory,
    Start,
    Plan,
    /// Only the growth of plans, with nothing beside it.
    PlanGrowth,
    AcrossLevels,
    Statistics,
    /// Functions of workflows on nodes.
    Place,
    /// Nodes of workflows: their calls with nothing new, and what ran on those that die.
    Nodes,
    /// A function that moves from one agent to another.
    Migration,
    /// One of many manifests of canaries changes in the folder that is watched.
    CanaryFolder,
    /// Another weight of a canary, until it is in force.
    CanaryWeight,
    /// Calls to a port that is taken over, beside calls straight to the program that has it.
    CanaryTakeover,
    /// Nodes and workflows in Redis.
    Mirror,
}

#[derive(Debug, Parser)]
#[command(name = "benches/run", about = "Measures Choirmaster beside bare handlers and pgbench")]
struct Arguments {
    /// Small numbers: shows that everything works, measures nothing.
    #[arg(long)]
    quick: bool,
    /// Only these rows (and what they need); may be given several times. `benches/run` also knows `proxy`.
    #[arg(long)]
    only: Vec<Row>,
    /// Length of a round, in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Rounds of each side.
    #[arg(long)]
    rounds: Option<usize>,
    /// Registered children.
    #[arg(long)]
    children: Option<usize>,
    /// Connections of the generator, and clients of pgbench.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Says why there is no Postgres; `benches/run` does.
    #[arg(long, hide = true, default_value = "CHOIR_BENCH_POSTGRES names none; start this by benches/run")]
    no_postgres: String,
    #[arg(long, hide = true)]
    serve: Option<String>,
    /// The parent a server.
    #[arg(long, hide = true)]
    parent: Option<SocketAddr>,
    /// A server that answers every poll at once.
    #[arg(long, hide = true)]
    lets_nobody_wait: bool,
    /// The Redis a server mirrors to.
    #[arg(long, hide = true)]
    mirror: Option<String>,
    /// A server that takes nodes for lost only after long.
    #[arg(long, hide = true)]
    patient: bool,
    /// Cargo gives it.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Sizes of everything.
#[derive(Debug, Clone)]
pub struct Sizes {
    pub children: usize,
    /// Children of the row that measures a start.
    pub start_children: usize,
    /// Most children of the rows about planning.
    pub plan_children: usize,
    /// Functions that are placed, and nodes for them.
    pub placed_functions: usize,
    pub nodes: usize,
    /// Canaries in a folder.
    pub canaries: usize,
    /// Runs of what is simulated.
    pub simulated_runs: u64,
    pub connections: usize,
    pub round: Duration,
    pub rounds: usize,
}

impl Sizes {
    fn of(arguments: &Arguments) -> Self {
        let quick = arguments.quick;
        Self {
            children: arguments.children.unwrap_or(if quick { 2_000 } else { 100_000 }),
            start_children: if quick { 20_000 } else { 1_000_000 },
            plan_children: if quick { 10_000 } else { 1_000_000 },
            placed_functions: if quick { 10_000 } else { 100_000 },
            nodes: if quick { 1_000 } else { 10_000 },
            canaries: if quick { 50 } else { 1_000 },
            simulated_runs: if quick { 500 } else { 20_000 },
            connections: arguments.connections,
            round: Duration::from_secs(arguments.seconds.unwrap_or(if quick { 1 } else { 3 })),
            rounds: arguments.rounds.unwrap_or(if quick { 1 } else { 5 }),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // For what is measured from outside; a manager chooses the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let done = match arguments.serve.as_deref() {
        Some(canaries::TAKEN_OVER) => call_taken_over(&Sizes::of(&arguments)),
        Some(what) => {
            let (parent, mirror) = (arguments.parent, arguments.mirror.clone());
            let (lets_wait, is_patient) = (!arguments.lets_nobody_wait, arguments.patient);
            serve(what, &Above { parent, lets_wait, mirror, is_patient })
        }
        None => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

/// The process that is in a network of its own.
fn call_taken_over(sizes: &Sizes) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(canaries::taken_over(sizes))
}

/// A server's process: the runtime that `serve` has, too.
fn serve(what: &str, above: &Above) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(server::run(what, above))
}

fn measure(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let sizes = Sizes::of(arguments);
        let folder = tempfile::Builder::new().prefix("choir-bench-").tempdir()?;
        let mut table = Table::new(&sizes);
        let cluster = if let Ok(url) = std::env::var("CHOIR_BENCH_POSTGRES") {
            let pgbench = std::env::var("CHOIR_BENCH_PGBENCH").ok();
            if pgbench.is_none() {
                table.missing("the comparison with pgbench", "pgbench is not installed");
            }
            Some(Cluster::open(&url, pgbench.as_deref()).await?)
        } else {
            table.missing("everything on Postgres, and pgbench", &arguments.no_postgres);
            None
        };
        let processors = Processors::find();
        let mut bench =
            Bench { sizes, folder: folder.path().to_owned(), cluster, processors, table, busiest: 0.0 };
        rows::run(&mut bench, &arguments.only).await?;
        let Bench { table, busiest, cluster, processors, .. } = bench;
        let version = cluster.as_ref().map(|cluster| cluster.version.as_str());
        println!("{}", table.render(&machine::describe(&processors, version), busiest));
        Ok(())
    })
}
