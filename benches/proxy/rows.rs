//! The rows.

use std::{net::SocketAddr, path::Path, thread, time::Duration};

use anyhow::Context as _;
use memchr::memmem;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    Sizes,
    load::{self, Connection, Load, request},
    report::{Met, Report},
    routers,
    secured::{self, Trust},
    shared::figures::{median, paired},
    sides::{LARGE, OTHER_BUILD, SMALL, Secured, Side, THREADS},
};

/// The rows that can be asked for alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    Added,
    Small,
    Large,
    Tls,
    Tcp,
    TcpLarge,
    Services,
    Memory,
    Verdict,
    Nginx,
    Haproxy,
    Verdicts,
    Many,
}

impl Row {
    const ALL: [Self; 13] = [
        Self::Added,
        Self::Small,
        Self::Large,
        Self::Tls,
        Self::Tcp,
        Self::TcpLarge,
        Self::Services,
        Self::Memory,
        Self::Verdict,
        Self::Nginx,
        Self::Haproxy,
        Self::Verdicts,
        Self::Many,
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|row| row.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Small => "small",
            Self::Large => "large",
            Self::Tls => "tls",
            Self::Tcp => "tcp",
            Self::TcpLarge => "tcp-large",
            Self::Services => "services",
            Self::Memory => "memory",
            Self::Verdict => "verdict",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Verdicts => "verdicts",
            Self::Many => "many",
        }
    }
}

/// A round counts for p99 only if direct calls beside it had a p99 of at most this, in microseconds.
const QUIET: f64 = 300.0;
/// With fewer quiet rounds nothing is said of p99.
const FEWEST_QUIET: usize = 3;
/// How long it is looked whether a round is quiet.
const PROBE: Duration = Duration::from_millis(300);
/// How many callers make calls at once.
pub const CALLERS: usize = 64;
const CALLERS_OF_LARGE: usize = 8;
const SERVICES: usize = 1_000;
/// Idle connections whose memory is looked at.
const IDLE: usize = 4_000;
const CALLERS_OF_VERDICT: usize = 8;
/// How often a share is taken to 0.
pub const VERDICTS: usize = 20;

/// What the rounds of a side came to.
#[derive(Debug, Default)]
pub struct Rounds {
    pub per_second: Vec<f64>,
    /// Microseconds.
    pub median: Vec<f64>,
    pub p99: Vec<f64>,
    /// Processor time of the side a call, in microseconds.
    pub cpu: Vec<f64>,
}

/// What comes of two sides.
struct Beside {
    ours: String,
    theirs: String,
    ratio: String,
    target: String,
    met: Met,
}

pub struct Bench {
    sizes: Sizes,
    pub report: Report,
    pub version: Side,
    proxy: Side,
    others: Vec<Side>,
}

pub fn run(sizes: &Sizes) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("choir-bench-proxy-").tempdir()?;
    let version = Side::version()?;
    let mut report = Report::default();
    let mut others = Vec::new();
    if let Some(program) = &sizes.beside {
        others.push(Side::other_build(program, &version)?);
    }
    let nginx = Side::nginx(&version, folder.path(), Secured::No)?;
    let haproxy = Side::haproxy(&version, folder.path(), Secured::No)?;
    for (name, side) in [("nginx", nginx), ("HAProxy", haproxy)] {
        match side {
            Some(side) => others.push(side),
            None => report.missing(name),
        }
    }
    let proxy = Side::ours(&version, 1)?;
    let mut bench = Bench { sizes: sizes.clone(), report, version, proxy, others };
    for row in Row::ALL.into_iter().filter(|row| sizes.only.is_empty() || sizes.only.contains(row)) {
        match row {
            Row::Added => bench.added()?,
            Row::Small => bench.small()?,
            Row::Large => bench.large()?,
            Row::Tls => bench.tls(folder.path())?,
            Row::Tcp => bench.tcp(folder.path(), "small", (CALLERS, SMALL))?,
            Row::TcpLarge => bench.tcp(folder.path(), "1 MiB", (CALLERS_OF_LARGE, LARGE))?,
            Row::Services => bench.services()?,
            Row::Memory => bench.memory()?,
            Row::Verdict => bench.verdict()?,
            Row::Nginx => bench.rules(routers::Kind::Nginx, folder.path())?,
            Row::Haproxy => bench.rules(routers::Kind::Haproxy, folder.path())?,
            Row::Verdicts => {
                bench.verdict_of(routers::Kind::Nginx, folder.path())?;
                bench.verdict_of(routers::Kind::Haproxy, folder.path())?;
                bench.verdict_of(routers::Kind::Traefik, folder.path())?;
            }
            Row::Many => {
                bench.one_of_many(routers::Kind::Nginx, folder.path())?;
                bench.one_of_many(routers::Kind::Haproxy, folder.path())?;
            }
        }
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (rounds, round) = (sizes.rounds, sizes.round);
    bench.report.print(&format!(
        "Medians of {rounds} rounds of {round:?} each side, alternating. {cores} cores, which generator, version and proxy share on \
         every side; each proxy has {THREADS} threads. nginx and HAProxy have one fixed upstream, the proxy a table of buckets. A µs \
         is the proxy's own processor time a call. A p99, and how long a verdict takes, count only rounds around which direct calls' p99 \
         was at most 0.3 ms."
    ));
    Ok(())
}

impl Bench {
    pub fn load(&self, side: &Side, connections: usize, body: usize) -> Load {
        let path = if body == LARGE { "/s0/large" } else { "/s0/small" };
        Load {
            at: side.at,
            connections,
            threads: connections.min(THREADS),
            time: self.sizes.round,
            paths: vec![path.to_owned()],
            body,
            tls: None,
        }
    }

    /// Whether the machine is quiet now.
    pub fn is_quiet(&self) -> anyhow::Result<bool> {
        let probe = Load { time: PROBE, ..self.load(&self.version, 1, SMALL) };
        Ok(load::run(&probe)?.quantile(0.99) <= QUIET)
    }

    /// Rounds of all sides in turn, after a short one each that counts for nothing; and which of them were quiet.
    pub fn alternate(&self, sides: &[(&Side, Load)]) -> anyhow::Result<(Vec<Rounds>, Vec<bool>)> {
        for (_, load) in sides {
            load::run(&Load { time: self.sizes.round / 4, ..load.clone() })?;
        }
        let mut rounds: Vec<Rounds> = sides.iter().map(|_| Rounds::default()).collect();
        let mut quiet = Vec::new();
        for _ in 0..self.sizes.rounds {
            // Before, between and after all sides: other work comes and goes.
            let mut is_quiet = self.is_quiet()?;
            for ((side, load), rounds) in sides.iter().zip(&mut rounds) {
                let cpu = side.cpu();
                let outcome = load::run(load)?;
                rounds.per_second.push(outcome.per_second());
                rounds.median.push(outcome.quantile(0.5));
                rounds.p99.push(outcome.quantile(0.99));
                rounds.cpu.push((side.cpu() - cpu) * 1e6 / outcome.latency.len() as f64);
                is_quiet &= self.is_quiet()?;
            }
            quiet.push(is_quiet);
        }
        Ok((rounds, quiet))
    }

    /// What a caller who makes one call after the other waits longer for.
    fn added(&mut self) -> anyhow::Result<()> {
        let through = std::iter::once(&self.proxy).chain(&self.others);
        let sides: Vec<_> = std::iter::once(&self.version)
            .chain(through)
            .map(|side| (side, self.load(side, 1, SMALL)))
            .collect();
        let names: Vec<_> = sides.iter().map(|(side, _)| side.name).collect();
        let (rounds, probed) = self.alternate(&sides)?;
        // Here the direct rounds themselves say it, too.
        let quiet: Vec<bool> =
            rounds[0].p99.iter().zip(probed).map(|(p99, probed)| probed && *p99 <= QUIET).collect();
        let added = |of: &Rounds| {
            let median = paired(&of.median, &rounds[0].median, |through, direct| through - direct);
            let p99 = paired(&only(&of.p99, &quiet), &only(&rounds[0].p99, &quiet), |through, direct| {
                through - direct
            });
            (median, p99)
        };
        let text = |(median, p99): (f64, f64)| format!("median {median:+.0} µs, p99 {p99:+.0} µs");
        let ours = added(&rounds[1]);
        let direct = (median(&rounds[0].median), median(&rounds[0].p99));
        let mut theirs = vec![format!("direct takes {:.0} µs, p99 {:.0} µs", direct.0, direct.1)];
        theirs.extend(
            names.iter().zip(&rounds).skip(2).map(|(name, of)| format!("{name}: {}", text(added(of)))),
        );
        let met = judge(ours.0 <= 100.0, ours.1 <= 300.0, &quiet);
        let target = "median ≤ 100 µs, p99 ≤ 300 µs";
        self.report.line("added to a call, one connection", &text(ours), &theirs.join("; "), "", target, met);
        Ok(())
    }

    fn small(&mut self) -> anyhow::Result<()> {
        let what = format!("small answers, {CALLERS} connections");
        let at_least = |name: &str| if name == "HAProxy" { 1.0 } else { 0.9 };
        let sides = std::iter::once(&self.proxy).chain(&self.others);
        let sides: Vec<_> = sides.map(|side| (side, self.load(side, CALLERS, SMALL))).collect();
        let lines = self.beside(&sides, at_least, Some(1.2))?;
        self.report_all(&what, &lines);
        Ok(())
    }

    fn large(&mut self) -> anyhow::Result<()> {
        let what = format!("1 MiB answers, {CALLERS_OF_LARGE} connections");
        let sides = std::iter::once(&self.proxy).chain(&self.others);
        let sides: Vec<_> = sides.map(|side| (side, self.load(side, CALLERS_OF_LARGE, LARGE))).collect();
        let lines = self.beside(&sides, |_| 0.9, None)?;
        self.report_all(&what, &lines);
        Ok(())
    }

    /// The same small answers to callers who speak TLS, over connections that are there.
    fn tls(&mut self, folder: &Path) -> anyhow::Result<()> {
        let what = format!("small answers over TLS, {CALLERS} connections");
        secured::write_certificate(folder)?;
        let mut all = vec![Side::ours_with_tls(&self.version, folder)?];
        all.extend(Side::nginx(&self.version, folder, Secured::Tls)?);
        all.extend(Side::haproxy(&self.version, folder, Secured::Tls)?);
        let tls = Some(Trust::read(folder)?);
        let load = |side| Load { tls: tls.clone(), ..self.load(side, CALLERS, SMALL) };
        let sides: Vec<_> = all.iter().map(|side| (side, load(side))).collect();
        let lines = self.beside(&sides, |_| 0.8, None)?;
        self.report_all(&what, &lines);
        Ok(())
    }

    /// Answers of a size over connections of TCP that pass, whatever they are of.
    fn tcp(&mut self, folder: &Path, size: &str, (callers, body): (usize, usize)) -> anyhow::Result<()> {
        let what = format!("{size} answers over TCP that passes, {callers} connections");
        let mut all = vec![Side::ours_with_tcp(&self.version)?];
        // Only one of the two has a figure to reach; the other one is there for comparison, where it can pass TCP at all.
        all.extend(Side::haproxy(&self.version, folder, Secured::Unopened)?);
        all.extend(Side::nginx(&self.version, folder, Secured::Unopened).ok().flatten());
        let sides: Vec<_> = all.iter().map(|side| (side, self.load(side, callers, body))).collect();
        let lines = self.beside(&sides, |_| 0.9, None)?;
        self.report_all(&what, &lines);
        Ok(())
    }

    fn report_all(&mut self, what: &str, lines: &[Beside]) {
        for Beside { ours, theirs, ratio, target, met } in lines {
            self.report.line(what, ours, theirs, ratio, target, *met);
        }
    }

    /// The first of the sides beside each other one. `at_least`: what rate it is to reach beside which of them; `p99_at_most`: and which
    /// p99.
    fn beside(
        &self,
        sides: &[(&Side, Load)],
        at_least: impl Fn(&str) -> f64,
        p99_at_most: Option<f64>,
    ) -> anyhow::Result<Vec<Beside>> {
        let mut lines = Vec::new();
        let (rounds, quiet) = self.alternate(sides)?;
        for ((side, _), theirs) in sides.iter().zip(&rounds).skip(1) {
            let (name, at_least) = (side.name, at_least(side.name));
            let rate = paired(&rounds[0].per_second, &theirs.per_second, |ours, theirs| ours / theirs);
            let cpu = paired(&rounds[0].cpu, &theirs.cpu, |ours, theirs| ours / theirs);
            let p99 = paired(&only(&rounds[0].p99, &quiet), &only(&theirs.p99, &quiet), |ours, theirs| {
                ours / theirs
            });
            let (target, met) = match p99_at_most {
                _ if name == OTHER_BUILD => (String::new(), Met::Nothing),
                Some(most) => {
                    (format!("≥ {at_least}, p99 ≤ {most}"), judge(rate >= at_least, p99 <= most, &quiet))
                }
                None => (format!("≥ {at_least}"), Met::of(rate >= at_least)),
            };
            // Without a quiet round there is no p99 to tell.
            let p99 = if p99.is_nan() { String::new() } else { format!(", p99 {p99:.2}") };
            let ratio = format!("**{rate:.2}**{p99}, CPU {cpu:.2}");
            let theirs = format!("{name}: {}", text(theirs));
            lines.push(Beside { ours: text(&rounds[0]), theirs, ratio, target, met });
        }
        Ok(lines)
    }

    /// A table of many services beside one of one.
    fn services(&mut self) -> anyhow::Result<()> {
        let many = Side::ours(&self.version, SERVICES)?;
        let one = self.load(&self.proxy, CALLERS, SMALL);
        let paths = (0..SERVICES).map(|index| format!("/s{}/small", index * 379 % SERVICES)).collect();
        let all = Load { paths, ..self.load(&many, CALLERS, SMALL) };
        let (rounds, _) = self.alternate(&[(&many, all), (&self.proxy, one)])?;
        let rate = paired(&rounds[0].per_second, &rounds[1].per_second, |many, one| many / one);
        let what = format!("calls to {SERVICES} services of one table, {CALLERS} connections");
        let beside = format!("one service: {}", text(&rounds[1]));
        let ratio = format!("**{rate:.2}**");
        self.report.line(&what, &text(&rounds[0]), &beside, &ratio, "≥ 0.95", Met::of(rate >= 0.95));
        Ok(())
    }

    /// What a connection costs that made a call and waits.
    fn memory(&mut self) -> anyhow::Result<()> {
        let mut each = Vec::new();
        let fresh = Side::ours(&self.version, 1)?;
        for side in std::iter::once(&fresh).chain(&self.others) {
            let load = Load { time: self.sizes.round / 4, ..self.load(side, 1, SMALL) };
            load::run(&load)?;
            let before = side.memory();
            let held = hold(side, IDLE)?;
            each.push((side.name, (side.memory().saturating_sub(before)) as f64 / IDLE as f64 / 1024.0));
            drop(held);
        }
        let ours = each[0].1;
        let theirs: Vec<_> = each[1..].iter().map(|(name, kib)| format!("{name}: {kib:.1} KiB")).collect();
        let what = format!("memory of an idle connection, {IDLE} of them");
        let ours_text = format!("{ours:.1} KiB");
        self.report.line(&what, &ours_text, &theirs.join("; "), "", "≤ 12 KiB", Met::of(ours <= 12.0));
        Ok(())
    }

    /// How long after the word that a version gets nothing a call still begins that it answers.
    fn verdict(&mut self) -> anyhow::Result<()> {
        let (mut took, mut quiet) = (Vec::new(), Vec::new());
        for _ in 0..VERDICTS {
            let was_quiet = self.is_quiet()?;
            self.proxy.tell("5000")?;
            took.push(take_to_zero(&mut self.proxy)?);
            quiet.push(was_quiet && self.is_quiet()?);
        }
        self.proxy.tell("500")?;
        let ours = format!("median {:.1} ms, longest {:.1} ms", median(&took), longest(&took));
        let is_met = longest(&only(&took, &quiet)) <= 50.0;
        let what = format!("verdict → share 0 of new calls, under load, {VERDICTS} times");
        self.report.line(&what, &ours, "", "", "≤ 50 ms", judge(true, is_met, &quiet));
        Ok(())
    }
}

pub fn longest(took: &[f64]) -> f64 {
    took.iter().copied().fold(0.0, f64::max)
}

/// Of the rounds that were quiet.
pub fn only(numbers: &[f64], quiet: &[bool]) -> Vec<f64> {
    numbers.iter().zip(quiet).filter(|(_, quiet)| **quiet).map(|(number, _)| *number).collect()
}

pub fn judge(rate_is_met: bool, p99_is_met: bool, quiet: &[bool]) -> Met {
    let enough = quiet.iter().filter(|quiet| **quiet).count() >= FEWEST_QUIET;
    match (rate_is_met, enough, p99_is_met) {
        (false, _, _) | (true, true, false) => Met::No,
        (true, false, _) => Met::TooBusy,
        (true, true, true) => Met::Yes,
    }
}

pub fn text(rounds: &Rounds) -> String {
    format!(
        "{:.0}/s, p50 {:.2} ms, p99 {:.2} ms, {:.1} µs",
        median(&rounds.per_second),
        median(&rounds.median) / 1_000.0,
        median(&rounds.p99) / 1_000.0,
        median(&rounds.cpu)
    )
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Connections that each made a call and stay; with the runtime that they belong to.
fn hold(side: &Side, count: usize) -> anyhow::Result<(Vec<Connection>, tokio::runtime::Runtime)> {
    let runtime = runtime()?;
    let held = runtime.block_on(async {
        let mut held = Vec::new();
        for _ in 0..count {
            let mut connection = Connection::open(side.at, None).await?;
            connection.call(&request("/s0/small"), SMALL).await?;
            held.push(connection.into_idle());
        }
        anyhow::Ok(held)
    })?;
    Ok((held, runtime))
}

/// Takes the new version's share to 0 while calls are made, and gives how long after that the last call began that it answered, in
/// milliseconds.
fn take_to_zero(proxy: &mut Side) -> anyhow::Result<f64> {
    const TIME: Duration = Duration::from_millis(400);
    let at = proxy.at;
    let calling = thread::spawn(move || last_call_of_new(at, TIME));
    thread::sleep(TIME / 4);
    let said = Instant::now();
    proxy.tell("0")?;
    let last = calling.join().map_err(|_| anyhow::anyhow!("the callers panicked"))??;
    let last = last.context("the new version answered nothing before")?;
    Ok(last.saturating_duration_since(said).as_secs_f64() * 1_000.0)
}

/// When the last call began that the new version answered, of callers who call for so long.
pub fn last_call_of_new(at: SocketAddr, time: Duration) -> anyhow::Result<Option<Instant>> {
    runtime()?.block_on(async {
        let until = Instant::now() + time;
        let mut calling: JoinSet<_> = (0..CALLERS_OF_VERDICT).map(|_| last_of_new(at, until)).collect();
        let mut last = None;
        while let Some(of_one) = calling.join_next().await {
            last = last.max(of_one??);
        }
        anyhow::Ok(last)
    })
}

/// The same of one of them.
async fn last_of_new(at: SocketAddr, until: Instant) -> anyhow::Result<Option<Instant>> {
    let mut connection = Connection::open(at, None).await?;
    let (request, mut last) = (request("/s0/small"), None);
    while Instant::now() < until {
        let began = Instant::now();
        let head = connection.call(&request, SMALL).await?;
        // HAProxy writes names in small letters.
        if memmem::find(&head.to_ascii_lowercase(), b"x-choirmaster-version: new").is_some() {
            last = Some(began);
        }
    }
    Ok(last)
}
