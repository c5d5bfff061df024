//! The rows, one function each, and the order that what they leave in the stores asks for.

use std::{path::Path, path::PathBuf, sync::Arc, thread, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::time::Instant;

use crate::{
    Row, Sizes,
    bodies::{self, Caller},
    fill,
    load::{self, Connection, Cursor, HandOut, Load, Outcome, Requests, Work},
    machine::Processors,
    postgres::{Cluster, Pgbench},
    server::{Server, cpu_time},
    table::{Side, Table, Target},
};

/// Nothing that is prepared takes longer.
pub(crate) const PREPARATION: Duration = Duration::from_mins(10);

/// Rounds with fewer requests than this say nothing.
const FEWEST: u64 = 500;

/// Everything the rows need.
#[derive(Debug)]
pub struct Bench {
    pub sizes: Sizes,
    pub folder: PathBuf,
    pub cluster: Option<Cluster>,
    pub processors: Processors,
    pub table: Table,
    /// The largest share of its processors that the generator used while it was kept apart.
    pub busiest: f64,
}

/// A store with registered children.
#[derive(Debug)]
struct Store {
    name: &'static str,
    url: String,
}

/// Measures the rows in `only`, or all.
pub async fn run(bench: &mut Bench, only: &[Row]) -> anyhow::Result<()> {
    let wanted = |row: Row| only.is_empty() || only.contains(&row);
    let in_hand = [Row::EndStage, Row::Release, Row::Functions];
    let handed_out = [Row::HandOut, Row::Result].into_iter().chain(in_hand).any(wanted);
    if wanted(Row::Poll) || handed_out {
        let (stores, callers) = bench.stores().await?;
        if wanted(Row::Poll) {
            bench.poll(&stores, &callers)?;
        }
        if handed_out {
            for store in &stores {
                bench.hand_out(store, &callers, wanted(Row::HandOut))?;
            }
        }
        if in_hand.into_iter().any(wanted) {
            bench.in_hand(&stores, &callers, &wanted)?;
        }
        if wanted(Row::Result) {
            bench.result(&stores, &callers).await?;
        }
    }
    if wanted(Row::FirstDownloads) {
        bench.first_downloads().await?;
    }
    if wanted(Row::LargeAreas) {
        bench.large_areas().await?;
    }
    if wanted(Row::WatchedCommits) {
        bench.watched_commits().await?;
    }
    if wanted(Row::Viewers) {
        bench.viewers().await?;
    }
    if wanted(Row::Page) {
        bench.page().await?;
    }
    if wanted(Row::Status) {
        bench.status().await?;
    }
    if wanted(Row::Memory) {
        bench.memory()?;
    }
    if wanted(Row::Start) {
        bench.start().await?;
    }
    if wanted(Row::Plan) || only.contains(&Row::PlanGrowth) {
        bench.planning(wanted(Row::Plan)).await?;
    }
    if wanted(Row::Statistics) {
        bench.statistics()?;
    }
    if wanted(Row::Place) {
        bench.placing()?;
    }
    if wanted(Row::Nodes) {
        bench.nodes().await?;
    }
    if wanted(Row::Migration) {
        bench.migration().await?;
    }
    if wanted(Row::CanaryFolder) {
        bench.canary_folder().await?;
    }
    if wanted(Row::CanaryWeight) {
        bench.canary_weight().await?;
    }
    if wanted(Row::CanaryTakeover) {
        bench.canary_takeover()?;
    }
    if wanted(Row::Mirror) {
        bench.mirror().await?;
    }
    if wanted(Row::AcrossLevels) {
        bench.across_levels().await?;
    }
    Ok(())
}

/// One side of a comparison under load.
struct Runner<'a> {
    server: &'a Server,
    work: Work,
    side: Side,
}

impl<'a> Runner<'a> {
    fn new(server: &'a Server, requests: &Arc<Requests>) -> Self {
        let cursor = Cursor::wrapping(requests.len());
        Self { server, work: Work::Each { requests: Arc::clone(requests), cursor }, side: Side::default() }
    }
}

/// How far the children of a server have got with their reports.
struct Reporting {
    stage: usize,
    requests: Arc<Requests>,
    cursor: Arc<Cursor>,
}

impl Reporting {
    fn of(callers: &[Caller], stage: usize) -> Self {
        let requests = Arc::new(bodies::results(callers, stage));
        Self { stage, cursor: Cursor::once(requests.len()), requests }
    }
}

impl Bench {
    pub(crate) fn sqlite(&self, name: &str) -> String {
        format!("sqlite://{}", self.folder.join(name).display())
    }

    /// A store of each kind, filled with the same children; Postgres last.
    async fn stores(&self) -> anyhow::Result<(Vec<Store>, Vec<Caller>)> {
        say("filling the stores");
        let mut stores = vec![Store { name: "SQLite", url: self.sqlite("children.db") }];
        if let Some(cluster) = &self.cluster {
            stores.push(Store { name: "Postgres", url: cluster.database("choir_children").await? });
        }
        let mut callers = Vec::new();
        for store in &stores {
            callers = fill::children(&store.url, self.sizes.children).await?;
        }
        if let Some(store) = stores.iter().find(|store| store.name == "Postgres") {
            Cluster::analyze(&store.url).await?;
        }
        Ok((stores, callers))
    }

    pub(crate) fn load(&self, server: &Server, work: Work, limit: Duration) -> Load {
        let (connections, threads) = (self.sizes.connections, self.processors.generator_threads());
        Load { address: server.address, connections, threads, work, limit }
    }

    /// One round; notes the processor time of both ends.
    fn round(&mut self, runner: &mut Runner<'_>, limit: Duration) -> anyhow::Result<()> {
        let load = self.load(runner.server, runner.work.clone(), limit);
        let own = Path::new("/proc/self");
        let (server_before, own_before) = (runner.server.cpu()?, cpu_time(own)?);
        let outcome = load::run(&load)?;
        let server_cpu = runner.server.cpu()?.saturating_sub(server_before);
        let own_cpu = cpu_time(own)?.saturating_sub(own_before);
        runner.side.add(outcome.per_second(), &outcome.latency);
        runner.side.cpu.push(server_cpu.as_secs_f64() * 1e6 / outcome.latency.len() as f64);
        let share = own_cpu.as_secs_f64() / outcome.took.as_secs_f64() / load.threads as f64;
        self.busiest = self.busiest.max(share);
        Ok(())
    }

    /// Rounds of all sides in turn, after one short round each that counts for nothing.
    fn alternate(&mut self, runners: &mut [Runner<'_>]) -> anyhow::Result<()> {
        for runner in &mut *runners {
            let load = self.load(runner.server, runner.work.clone(), self.sizes.round / 3);
            load::run(&load)?;
        }
        for _ in 0..self.sizes.rounds {
            for runner in &mut *runners {
                self.round(runner, self.sizes.round)?;
            }
        }
        Ok(())
    }

    fn poll(&mut self, stores: &[Store], callers: &[Caller]) -> anyhow::Result<()> {
        say("POST /poll");
        let requests = Arc::new(bodies::polls(callers));
        let processors = self.processors.clone();
        let cpus = processors.apart();
        let bare = Server::bare(cpus)?;
        let servers = start_all(stores, cpus)?;
        let mut runners: Vec<_> =
            servers.iter().chain([&bare]).map(|server| Runner::new(server, &requests)).collect();
        self.alternate(&mut runners)?;
        let sides: Vec<Side> = runners.into_iter().map(|runner| runner.side).collect();
        let target = Target::Rate { at_least: 0.9, p99_at_most: Some(2.0) };
        for (store, side) in stores.iter().zip(&sides) {
            let what = format!("`POST /poll`, store on {}", store.name);
            self.table.compare(&what, side, "bare", &sides[stores.len()], target);
        }
        processors.together();
        servers.into_iter().chain([bare]).try_for_each(Server::stop)
    }

    /// Everybody polls; then the release comes, and everybody polls until it has it.
    fn hand_out(&mut self, store: &Store, callers: &[Caller], is_row: bool) -> anyhow::Result<()> {
        say(&format!("handing a release to all children, store on {}", store.name));
        let mut server = ready(Server::ours(&store.url, None)?)?;
        let polls = Arc::new(bodies::polls(callers));
        let mut idle = Runner::new(&server, &polls);
        if is_row {
            for _ in 0..self.sizes.rounds {
                let outcome = load::run(&self.load(&server, idle.work.clone(), self.sizes.round))?;
                idle.side.add(outcome.per_second(), &outcome.latency);
            }
        }
        let idle = idle.side;
        let outcome = self.hand_out_to_all(&mut server, polls, callers)?;
        server.stop()?;
        if is_row {
            let seconds = outcome.took.as_secs_f64();
            let mut busy = Side::default();
            busy.add(outcome.latency.len() as f64 / seconds, &outcome.latency);
            let mut first = Side::default();
            first.add(outcome.fetch_latency.len() as f64 / seconds, &outcome.fetch_latency);
            // One hand-out a store: it is compared with the median of the idle rounds.
            let median = Side {
                per_second: vec![crate::shared::figures::median(&idle.per_second)],
                p50: vec![crate::shared::figures::median(&idle.p50)],
                p99: vec![crate::shared::figures::median(&idle.p99)],
                cpu: Vec::new(),
            };
            let what = format!("`POST /poll` during a hand-out, {}", store.name);
            self.table.compare(&what, &busy, "idle", &median, Target::P99(5.0));
            let what = format!("`GET /release`, first downloads between these polls, {}", store.name);
            self.table.compare(&what, &first, "idle polls", &median, Target::None);
        }
        Ok(())
    }

    fn hand_out_to_all(
        &self,
        server: &mut Server,
        polls: Arc<Requests>,
        callers: &[Caller],
    ) -> anyhow::Result<Outcome> {
        let work = HandOut::new(polls, bodies::fetches(callers));
        let load = self.load(server, Work::HandOut(Arc::clone(&work)), PREPARATION);
        let loading = thread::spawn(move || load::run(&load));
        server.submit()?;
        let outcome = loading.join().map_err(|_| anyhow::anyhow!("the load of the hand-out panicked"))??;
        let fetched = outcome.fetch_latency.len();
        ensure!(fetched == callers.len() as u64, "only {fetched} children have fetched their offer");
        Ok(outcome)
    }

    /// What children ask that have an offer in hand. No store takes part, so one kind is enough.
    fn in_hand(
        &mut self,
        stores: &[Store],
        callers: &[Caller],
        wanted: &dyn Fn(Row) -> bool,
    ) -> anyhow::Result<()> {
        let store = stores.last().context("there is no store")?;
        let processors = self.processors.clone();
        let cpus = processors.apart();
        let bare = Server::bare(cpus)?;
        let ours = answering(Server::ours(&store.url, cpus)?, &bodies::end_stages(&callers[..1]))?;
        for (row, what, requests) in [
            (Row::EndStage, "`POST /end_stage`, offer in hand", bodies::end_stages(callers)),
            (Row::Release, "`GET /release`, again", bodies::fetches(callers)),
            (Row::Functions, "`GET /release/functions/R`", bodies::functions()),
        ] {
            if !wanted(row) {
                continue;
            }
            say(what);
            let requests = Arc::new(requests);
            let mut runners = [Runner::new(&ours, &requests), Runner::new(&bare, &requests)];
            self.alternate(&mut runners)?;
            let [ours, bare] = runners.map(|runner| runner.side);
            let target = Target::Rate { at_least: 0.9, p99_at_most: None };
            self.table.compare(what, &ours, "bare", &bare, target);
        }
        processors.together();
        [ours, bare].into_iter().try_for_each(Server::stop)
    }

    /// Results that are stored before they are answered.
    async fn result(&mut self, stores: &[Store], callers: &[Caller]) -> anyhow::Result<()> {
        say("POST /result");
        let pgbench = match &self.cluster {
            Some(cluster) => {
                Pgbench::prepare(cluster, &self.folder, callers.len(), self.sizes.connections).await?
            }
            None => None,
        };
        let probe = bodies::end_stages(&callers[..1]);
        let bare = Server::bare(None)?;
        let servers = stores
            .iter()
            .map(|store| answering(Server::ours(&store.url, None)?, &probe))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut sides = vec![Side::default(); servers.len() + 1];
        let mut theirs = Side::default();
        let mut reporting: Vec<_> = servers.iter().map(|_| Reporting::of(callers, 0)).collect();
        let any = Reporting::of(callers, 0).requests;
        let any = Work::Each { cursor: Cursor::wrapping(any.len()), requests: any };
        for _ in 0..self.sizes.rounds {
            if let Some(pgbench) = &pgbench {
                let (tps, times) = pgbench.run(self.sizes.round.as_secs())?;
                theirs.add(tps, &times);
            }
            for (place, server) in servers.iter().chain([&bare]).enumerate() {
                let work = match reporting.get_mut(place) {
                    Some(reporting) => self.next_results(server, callers, reporting)?,
                    None => any.clone(),
                };
                let outcome = load::run(&self.load(server, work, self.sizes.round))?;
                if outcome.latency.len() >= FEWEST {
                    sides[place].add(outcome.per_second(), &outcome.latency);
                }
            }
        }
        for (store, side) in stores.iter().zip(&sides).rev() {
            let what = format!("`POST /result`, durable on {}", store.name);
            let target = match store.name {
                "Postgres" => Target::Rate { at_least: 1.5, p99_at_most: None },
                _ => Target::None,
            };
            if pgbench.is_some() {
                self.table.compare(&what, side, "pgbench", &theirs, target);
            }
            self.table.compare(&what, side, "bare, nothing stored", &sides[stores.len()], Target::None);
        }
        servers.into_iter().chain([bare]).try_for_each(Server::stop)
    }

    /// What is reported next. When everybody has reported all of a stage, everybody fetches the next one first.
    fn next_results(
        &self,
        server: &Server,
        callers: &[Caller],
        reporting: &mut Reporting,
    ) -> anyhow::Result<Work> {
        if reporting.cursor.is_spent() && reporting.stage + 1 < bodies::STAGES.len() {
            *reporting = Reporting::of(callers, reporting.stage + 1);
            let requests = Arc::new(bodies::fetches_of(callers, reporting.stage));
            let cursor = Cursor::once(requests.len());
            load::run(&self.load(server, Work::Each { requests, cursor }, PREPARATION))?;
        }
        let Reporting { requests, cursor, .. } = reporting;
        Ok(Work::Each { requests: Arc::clone(requests), cursor: Arc::clone(cursor) })
    }

    /// How much a server grows by children that register and are handed a release.
    fn memory(&mut self) -> anyhow::Result<()> {
        say("memory");
        let count = self.sizes.children;
        let mut server = Server::ours(&self.sqlite("memory.db"), None)?;
        let first = bodies::registrations(1);
        server = answering(server, &first)?;
        let before = server.resident()?;
        let registering =
            Work::Register { requests: Arc::new(bodies::registrations(count)), cursor: Cursor::once(count) };
        let given = load::run(&self.load(&server, registering, PREPARATION))?.ids;
        let callers: Vec<_> = given.into_iter().map(|(index, id)| Caller { index, id }).collect();
        let polls = Arc::new(bodies::polls(&callers));
        let again = Work::Each { requests: Arc::clone(&polls), cursor: Cursor::once(count) };
        load::run(&self.load(&server, again, PREPARATION))?;
        let registered = server.resident()?;
        self.hand_out_to_all(&mut server, polls, &callers)?;
        let after = server.resident()?;
        server.stop()?;
        let geometry: usize = (0..count).map(|index| bodies::area(index).len()).sum();
        let each = |bytes: u64| bytes as f64 / count as f64;
        let beyond = each(after - before) - geometry as f64 / count as f64;
        let text = format!(
            "{beyond:.0} bytes a child (registered {:.0}, handed out {:.0}, of these geometry {:.0})",
            each(registered - before),
            each(after - before),
            geometry as f64 / count as f64
        );
        self.table.limit(
            "memory beyond geometry, a release of three stages open",
            &text,
            beyond / 600.0,
            "≤ 600",
        );
        Ok(())
    }

    /// From the start of the process to the first answer.
    async fn start(&mut self) -> anyhow::Result<()> {
        let Some(cluster) = self.cluster.clone() else { return Ok(()) };
        let count = self.sizes.start_children;
        say(&format!("start with {count} children"));
        let url = cluster.database("choir_start").await?;
        fill::children(&url, count).await?;
        Cluster::analyze(&url).await?;
        let mut took = Vec::new();
        let mut resident = 0;
        for _ in 0..self.sizes.rounds.min(3) {
            let began = Instant::now();
            let server = ready(Server::ours(&url, None)?)?;
            took.push(began.elapsed().as_secs_f64());
            resident = server.resident()?;
            server.stop()?;
        }
        let median = crate::shared::figures::median(&took);
        let what = format!("start with {count} children from Postgres");
        let each = resident / count as u64;
        let text = format!("{median:.1} s; {} MiB, {each} bytes a child with its geometry", resident >> 20);
        self.table.limit(&what, &text, median / 10.0, "≤ 10 s");
        Ok(())
    }
}

pub(crate) fn say(text: &str) {
    eprintln!("… {text}");
}

fn start_all(stores: &[Store], cpus: Option<&str>) -> anyhow::Result<Vec<Server>> {
    stores.iter().map(|store| ready(Server::ours(&store.url, cpus)?)).collect()
}

/// Waits until a child that the store was filled with is answered.
pub(crate) fn ready(server: Server) -> anyhow::Result<Server> {
    answering(server, &bodies::polls(&[Caller { index: 0, id: bodies::child_id(0) }]))
}

/// Waits until the first of the requests is answered well: a server that has just begun may not show its state yet.
fn answering(server: Server, requests: &Requests) -> anyhow::Result<Server> {
    let runtime_thread = {
        let address = server.address;
        let request = requests.first().to_vec();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async move {
                let deadline = Instant::now() + PREPARATION;
                let mut connection = Connection::open(address).await?;
                loop {
                    let (status, ..) = connection.exchange(&request).await?;
                    if status == 200 {
                        return anyhow::Ok(());
                    }
                    ensure!(status == 503 && Instant::now() < deadline, "the server answers {status}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        })
    };
    runtime_thread.join().map_err(|_| anyhow::anyhow!("the wait for a server panicked"))??;
    Ok(server)
}
