//! Routers of others: what their table of buckets costs beside a rule of their own, what the lines cost from which calls are counted,
//! how long a verdict takes, and how long one of many services.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};
use router::haproxy::config::{Folder, Frame};
use router::log_line::LogPath;
use router::nginx::config::{Layout, Log};
use router::{
    Router,
    haproxy::{self, Haproxy},
    measure::{self, CountingGuard, Measure},
    nginx::{self, Nginx},
    traefik::{self, Traefik},
};
use tokio::{runtime::Runtime, time::Instant};
use traffic::{
    HashFunction, Shares, Table,
    desired::{DesiredConfig, Listen, Number, Protocol, Service, ServiceSpec, StickyTo, Variation},
};

use crate::{
    report::Met,
    rows::{Bench, CALLERS, VERDICTS, judge, last_call_of_new, longest, only, text},
    shared::figures::{median, paired},
    sides::{SMALL, START, Side, THREADS, free_address, free_addresses},
};

/// What makes calls of a user those of a user: the generator sends it.
const KEY: &str = "User-Agent";

/// A kind of router, and what it is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Nginx,
    Haproxy,
    Traefik,
}

/// How many services a router with many has, and what a change of one of them may take of the time of a service alone.
const MANY: usize = 200;
const MANY_AT_MOST: f64 = 1.2;
/// Changes of one of many.
const CHANGES: usize = 15;

/// What the table of buckets may cost beside a rule of the router's own.
const CPU_AT_MOST: f64 = 1.4;
const P99_AT_MOST: f64 = 1.3;

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::Traefik => "Traefik",
        }
    }

    fn hash(self) -> HashFunction {
        match self {
            // Traefik draws none.
            Self::Nginx | Self::Traefik => HashFunction::Murmur2,
            Self::Haproxy => HashFunction::Xxh32,
        }
    }

    /// Of the rate of its own rule.
    fn at_least(self) -> f64 {
        match self {
            Self::Nginx => 0.7,
            Self::Haproxy | Self::Traefik => 0.8,
        }
    }

    /// Milliseconds from a verdict to share 0.
    fn verdict_within(self) -> f64 {
        match self {
            Self::Nginx => 250.0,
            Self::Haproxy => 50.0,
            Self::Traefik => 3_000.0,
        }
    }
}

/// One that is led.
struct Led {
    side: Side,
    router: Arc<dyn Router>,
    measure: Option<(Arc<Measure>, CountingGuard)>,
    runtime: Runtime,
    /// Shares of the first are changed.
    specs: Vec<ServiceSpec>,
    generation: u64,
    _memory: tempfile::TempDir,
}

impl Led {
    /// With services whose targets are the version's; it may log a line a call, which is counted here.
    fn start(
        kind: Kind,
        version: &Side,
        folder: &Path,
        services: usize,
        (sticky, is_logged): (Option<StickyTo>, bool),
    ) -> anyhow::Result<Option<Self>> {
        let folder = tempfile::Builder::new().prefix("led-").tempdir_in(folder)?.keep();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let measure = is_logged.then(|| measure_in(&folder)).transpose()?;
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let log = measure.as_ref().map(|(_, path)| path.clone());
        let measure = measure.map(|(measure, _)| measure);
        let (side, router) = match kind {
            Kind::Nginx => led_nginx(&folder, memory.path(), log, measure.clone())?,
            Kind::Haproxy => led_haproxy(&folder, log, measure.clone())?,
            Kind::Traefik => led_traefik(&folder)?,
        };
        let Some(mut side) = side else { return Ok(None) };
        if kind == Kind::Traefik {
            // Its ports are open before it answers.
            let until = Instant::now() + START;
            while runtime.block_on(router.read()).is_err() && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
        }
        // Traefik's ports are its operator's.
        let addresses = match kind {
            Kind::Traefik => vec![side.at],
            Kind::Nginx | Kind::Haproxy => free_addresses(services)?,
        };
        side.at = addresses[0];
        let mut specs = Vec::new();
        for (place, at) in addresses.into_iter().enumerate() {
            let mut spec = service(kind, version.at, at, sticky.clone())?;
            spec.name = format!("s{place}").parse()?;
            specs.push(spec);
        }
        let measure = measure.map(|measure| {
            let _inside = runtime.enter();
            let counted = measure.count(&router);
            (measure, counted)
        });
        let mut led = Self { side, router, measure, runtime, specs, generation: 0, _memory: memory };
        led.share(500)?;
        Ok(Some(led))
    }

    /// Gives the new version of the first service so much, in units of 0.01 %, and waits until that was told. Milliseconds that it took.
    fn share(&mut self, new: u16) -> anyhow::Result<f64> {
        self.generation += 1;
        let first = &mut self.specs[0];
        first.table = first.table.with_shares(&Shares::new([10_000 - new, new])?)?;
        let number = Number { epoch: 1, generation: self.generation };
        let services = self.specs.iter().cloned().map(Service::new).collect::<Result<_, _>>()?;
        let wanted = DesiredConfig::new(number, services)?;
        let began = Instant::now();
        self.runtime.block_on(self.router.apply(&wanted))?;
        Ok(began.elapsed().as_secs_f64() * 1_000.0)
    }
}

fn measure_in(folder: &Path) -> anyhow::Result<(Arc<Measure>, LogPath)> {
    let path: LogPath = folder.join("lines").to_str().context("a folder of another name")?.parse()?;
    Ok((Measure::open(measure::Settings::at(path.clone()))?, path))
}

fn service(
    kind: Kind,
    version: SocketAddr,
    at: SocketAddr,
    sticky: Option<StickyTo>,
) -> anyhow::Result<ServiceSpec> {
    let variation = |name: &str| -> anyhow::Result<Variation> {
        Ok(Variation { name: name.parse()?, targets: vec![version.to_string().parse()?], health: None })
    };
    Ok(ServiceSpec {
        name: "shop".parse()?,
        listens: vec![Listen::new(at.port(), Protocol::Http)],
        sticky,
        rule: None,
        salt: "bench".parse()?,
        hash: kind.hash(),
        variations: vec![variation("base")?, variation("new")?],
        table: Table::new(&Shares::new([9_500, 500])?),
    })
}

type Started = (Option<Side>, Arc<dyn Router>);

fn led_nginx(
    folder: &Path,
    memory: &Path,
    log: Option<LogPath>,
    measure: Option<Arc<Measure>>,
) -> anyhow::Result<Started> {
    let (own, ask) = (free_address()?, free_address()?);
    let buckets = memory.join("buckets");
    let mut layout =
        Layout::new(buckets.to_str().context("a folder")?, ask, vec![Ipv4Addr::LOCALHOST.into()])?;
    layout.log = log.map(|socket| Log { socket, is_alone: true });
    let include = folder.join("choirmaster.conf");
    fs::write(&include, "")?;
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    let inside = format!(
        "  server {{ listen {own}; location / {{ return 200; }} }}\n  include {};\n",
        include.display()
    );
    let config = write_nginx(folder, &format!("{user}worker_shutdown_timeout 2s;\n"), &inside)?;
    let settings = nginx::Settings {
        program: "nginx".into(),
        config: config.clone(),
        include,
        pid: folder.join("nginx.pid"),
        reload: nginx::Reload::Signal,
        layout,
        time_limit: Duration::from_secs(2),
    };
    let nginx = Nginx::new(settings);
    let router: Arc<dyn Router> = match measure {
        Some(measure) => Arc::new(nginx.measured(measure)),
        None => Arc::new(nginx),
    };
    Ok((start_nginx(folder, &config, own)?, router))
}

fn write_nginx(folder: &Path, main: &str, inside: &str) -> anyhow::Result<PathBuf> {
    let at = folder.display();
    let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("  {what}_temp_path {at}/{what};\n"))
        .concat();
    let config = folder.join("nginx.conf");
    fs::write(
        &config,
        format!(
            "{main}worker_processes {THREADS};\ndaemon off;\npid {at}/nginx.pid;\nerror_log {at}/nginx.log;\n\
             events {{ worker_connections 2000; }}\nhttp {{\n  access_log off;\n  keepalive_requests 100000000;\n\
             {temp}{inside}}}\n"
        ),
    )?;
    Ok(config)
}

fn start_nginx(folder: &Path, config: &Path, at: SocketAddr) -> anyhow::Result<Option<Side>> {
    let mut command = Command::new("nginx");
    command.arg("-c").arg(config).arg("-e").arg(folder.join("nginx.log"));
    Side::foreign("nginx", at, command)
}

fn led_haproxy(
    folder: &Path,
    log: Option<LogPath>,
    measure: Option<Arc<Measure>>,
) -> anyhow::Result<Started> {
    let own = free_address()?;
    let operators = folder.join("operator.cfg");
    let socket = folder.join("runtime.sock");
    fs::write(
        &operators,
        format!(
            "global\n  nbthread {THREADS}\n  stats socket {} mode 600 level admin\ndefaults\n  mode tcp\n  timeout connect \
             1s\n  timeout client 1s\n  timeout server 1s\nlisten own\n  bind {own}\n",
            socket.display()
        ),
    )?;
    let frame = Frame {
        folder: Folder::new(&folder.join("ours"))?,
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        hard_stop_after: Some(Duration::from_secs(2)),
        certificate: None,
        log,
    };
    let section = frame.folder.section();
    let settings = haproxy::Settings {
        program: "haproxy".into(),
        config: vec![operators.clone()],
        frame,
        socket,
        master_socket: None,
        pid: folder.join("pid"),
        reload: haproxy::Reload::Signal,
        limits: haproxy::Limits::default(),
    };
    let pid = settings.pid.clone();
    let haproxy = Haproxy::open(settings)?;
    let router: Arc<dyn Router> = match measure {
        Some(measure) => Arc::new(haproxy.measured(measure)),
        None => Arc::new(haproxy),
    };
    let mut command = Command::new("haproxy");
    command.arg("-W").arg("-p").arg(pid).arg("-f").arg(operators).arg("-f").arg(section);
    Ok((Side::foreign("HAProxy", own, command)?, router))
}

/// By its file provider, with what it waits between two files as it comes.
fn led_traefik(folder: &Path) -> anyhow::Result<Started> {
    let (at, api) = (free_address()?, free_address()?);
    let dynamic = folder.join("dynamic");
    fs::create_dir_all(&dynamic)?;
    let config = folder.join("traefik.yml");
    let text = format!(
        "global: {{ checkNewVersion: false, sendAnonymousUsage: false }}\napi: {{ insecure: true }}\n\
         entryPoints: {{ traefik: {{ address: \"{api}\" }}, calls: {{ address: \"{at}\" }} }}\n\
         providers: {{ file: {{ directory: \"{}\", watch: true }} }}\n",
        dynamic.display()
    );
    fs::write(&config, text)?;
    let router: Arc<dyn Router> = Arc::new(Traefik::open(traefik::Settings {
        folder: Some(dynamic),
        own: folder.join("ours"),
        api: format!("http://{api}/").parse()?,
        metrics: None,
        time_limit: Duration::from_secs(2),
        load_within: Duration::from_secs(10),
    })?);
    // As tests/routers.sh has it.
    let program = std::env::var_os("CHOIRMASTER_TEST_TRAEFIK").unwrap_or_else(|| "traefik".into());
    let mut command = Command::new(program);
    command.arg(format!("--configFile={}", config.display()));
    Ok((Side::foreign("Traefik", at, command)?, router))
}

/// The router with a rule of its own in two ways, by the same key, which is the least that shares calls.
fn plain(kind: Kind, version: &Side, folder: &Path) -> anyhow::Result<Option<Side>> {
    let folder = folder.join(format!("plain-{}", kind.name()));
    fs::create_dir_all(&folder)?;
    let (at, to) = (free_address()?, version.at);
    match kind {
        Kind::Nginx => {
            let inside = format!(
                "  split_clients \"bench$http_user_agent\" $to {{ 5% new; * base; }}\n  \
                 upstream base {{ server {to}; keepalive 64; }}\n  upstream new {{ server {to}; keepalive 64; }}\n  \
                 server {{\n    listen {at};\n    location / {{\n      proxy_pass http://$to;\n      \
                 proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n  }}\n"
            );
            let config = write_nginx(&folder, "", &inside)?;
            start_nginx(&folder, &config, at)
        }
        Kind::Haproxy => {
            let config = folder.join("haproxy.cfg");
            fs::write(
                &config,
                format!(
                    "global\n  nbthread {THREADS}\ndefaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  \
                     timeout server 60s\nfrontend calls\n  bind {at}\n  \
                     use_backend new if {{ req.fhdr({KEY},1),xxh32,mod(100) lt 5 }}\n  default_backend base\n\
                     backend base\n  server one {to}\nbackend new\n  server one {to}\n"
                ),
            )?;
            let mut command = Command::new("haproxy");
            command.arg("-W").arg("-f").arg(&config);
            Side::foreign("HAProxy", at, command)
        }
        Kind::Traefik => bail!("it has no rule by a key"),
    }
}

impl Bench {
    /// The table of buckets beside a rule of the router's own, and with a line a call beside itself without.
    pub fn rules(&mut self, kind: Kind, folder: &Path) -> anyhow::Result<()> {
        let key = || -> anyhow::Result<_> { Ok(Some(StickyTo::Header(KEY.parse()?))) };
        let led = Led::start(kind, &self.version, folder, 1, (key()?, false))?;
        let logged = Led::start(kind, &self.version, folder, 1, (key()?, true))?;
        let (Some(led), Some(logged), Some(plain)) = (led, logged, plain(kind, &self.version, folder)?)
        else {
            self.report.missing(kind.name());
            return Ok(());
        };
        let sides = [&led.side, &plain, &logged.side];
        let sides = sides.map(|side| (side, self.load(side, CALLERS, SMALL)));
        let (rounds, quiet) = self.alternate(&sides)?;
        let [ours, theirs, lines] = &rounds[..] else { return Ok(()) };
        let ratio = |of: fn(&crate::rows::Rounds) -> &Vec<f64>, one, other| {
            paired(of(one), of(other), |one, other| one / other)
        };
        let rate = ratio(|rounds| &rounds.per_second, ours, theirs);
        let cpu = ratio(|rounds| &rounds.cpu, ours, theirs);
        let p99 = paired(&only(&ours.p99, &quiet), &only(&theirs.p99, &quiet), |one, other| one / other);
        let at_least = kind.at_least();
        let name = kind.name();
        let shown_p99 = if p99.is_nan() { String::new() } else { format!(", p99 {p99:.2}") };
        self.report.line(
            &format!("{name}: the table of buckets beside a rule of its own, {CALLERS} connections"),
            &text(ours),
            &format!("its own rule: {}", text(theirs)),
            &format!("**{rate:.2}**{shown_p99}, CPU {cpu:.2}"),
            &format!("≥ {at_least}, CPU ≤ {CPU_AT_MOST}, p99 ≤ {P99_AT_MOST}"),
            judge(rate >= at_least && cpu <= CPU_AT_MOST, p99 <= P99_AT_MOST, &quiet),
        );
        let rate = ratio(|rounds| &rounds.per_second, lines, ours);
        let cpu = ratio(|rounds| &rounds.cpu, lines, ours);
        let reception = logged.measure.as_ref().map(|(measure, _)| measure.reception()).unwrap_or_default();
        let lost = reception.lost.unwrap_or_default();
        let part = 100.0 * lost as f64 / (reception.calls + lost).max(1) as f64;
        self.report.line(
            &format!("{name}: a line a call, counted beside it, {CALLERS} connections"),
            &text(lines),
            &format!("without: {}", text(ours)),
            &format!("**{rate:.2}**, CPU {cpu:.2}"),
            &format!("{part:.2} % of {} lines were lost", reception.calls + lost),
            Met::Nothing,
        );
        Ok(())
    }

    /// How long after the word that a version gets nothing a call still begins that it answers.
    pub fn verdict_of(&mut self, kind: Kind, folder: &Path) -> anyhow::Result<()> {
        let Some(mut led) = Led::start(kind, &self.version, folder, 1, (None, false))? else {
            self.report.missing(kind.name());
            return Ok(());
        };
        let (mut took, mut quiet) = (Vec::new(), Vec::new());
        for _ in 0..VERDICTS {
            let was_quiet = self.is_quiet()?;
            led.share(5_000)?;
            took.push(take_to_zero(kind, &mut led)?);
            quiet.push(was_quiet && self.is_quiet()?);
        }
        let ours = format!("median {:.1} ms, longest {:.1} ms", median(&took), longest(&took));
        let most = kind.verdict_within();
        let met = judge(true, longest(&only(&took, &quiet)) <= most, &quiet);
        let how = match kind {
            Kind::Nginx | Kind::Haproxy => "of new calls, under load",
            Kind::Traefik => "as it says itself",
        };
        let what = format!("{}: verdict → share 0 {how}, {VERDICTS} times", kind.name());
        self.report.line(&what, &ours, "", "", &format!("≤ {most} ms"), met);
        Ok(())
    }

    /// How long a change of shares takes at a router with many services, beside one that has this service alone.
    pub fn one_of_many(&mut self, kind: Kind, folder: &Path) -> anyhow::Result<()> {
        let many = Led::start(kind, &self.version, folder, MANY, (None, false))?;
        let alone = Led::start(kind, &self.version, folder, 1, (None, false))?;
        let (Some(mut many), Some(mut alone)) = (many, alone) else {
            self.report.missing(kind.name());
            return Ok(());
        };
        let (mut of_many, mut of_one) = (Vec::new(), Vec::new());
        for change in 0..CHANGES {
            let share = u16::try_from(1_000 + 100 * change)?;
            of_many.push(many.share(share)?);
            of_one.push(alone.share(share)?);
        }
        let ratio = median(&of_many) / median(&of_one);
        self.report.line(
            &format!("{}: a change of one of {MANY} services, {CHANGES} times", kind.name()),
            &format!("median {:.1} ms", median(&of_many)),
            &format!("alone: {:.1} ms", median(&of_one)),
            &format!("**{ratio:.2}**"),
            &format!("≤ {MANY_AT_MOST}"),
            Met::of(ratio <= MANY_AT_MOST),
        );
        Ok(())
    }
}

/// Milliseconds.
fn take_to_zero(kind: Kind, led: &mut Led) -> anyhow::Result<f64> {
    const TIME: Duration = Duration::from_millis(600);
    // It names no variation in its answers. What was applied is in force: that is read back.
    if kind == Kind::Traefik {
        return led.share(0);
    }
    let at = led.side.at;
    let calling = thread::spawn(move || last_call_of_new(at, TIME));
    thread::sleep(TIME / 6);
    let said = Instant::now();
    led.share(0)?;
    let last = calling.join().map_err(|_| anyhow::anyhow!("the callers panicked"))??;
    let last = last.context("the new version answered nothing before")?;
    Ok(last.saturating_duration_since(said).as_secs_f64() * 1_000.0)
}
