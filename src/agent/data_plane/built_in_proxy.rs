use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use call_metrics::{Cursor, Reading};
use language::ProxyProtocol;
use model::traffic::OpenPorts;
use proxy::{
    control::{
        client::{Client, ClientError},
        form::{Applied, Drained, Status, TableNumber, Unreachable},
    },
    form::{
        ProtocolForm, ProxyProtocolForm, ServiceForm, TableForm, TransportForm, VariationForm, format_of,
    },
    nftables::{MARK, check_mark},
};
use router::adopt::AdoptError;
use router::{
    Checked, Operations, RouterError,
    controller::{Differences, DriftAction, Phase},
};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use traffic::{
    RouterKind,
    desired::{DesiredConfig, Number, Protocol, Service, Target},
    observed::{Difference, ObservedConfig, SeenService, SeenTarget, SeenVariation},
};

use super::{Answer, DataPlane, Drift, View, reachability::Reach};
use crate::{
    control::form::ProxyStatus,
    measure::{BASE, NEW},
    process_end::ProcessEnds,
    proxy_process::{self, of_proxy},
    runtime::VersionId,
    settings::ProxySettings,
    state_machine::{Abilities, CountsReading, ManagedService, ReadBack, Trouble, table::Table},
    takeover::{Drifted, Takeover, open_ports},
};

/// How long the proxy may wait with its answer whether a version is drained.
const DRAIN_WAIT: Duration = Duration::from_secs(10);

/// How long the proxy may wait until it can't reach a version, and how long it isn't asked for that again.
const UNREACHABLE_WAIT: Duration = Duration::from_secs(30);
const UNREACHABLE_EVERY: Duration = Duration::from_secs(1);

/// How often it is looked whether the proxy has ended.
const LOOK: Duration = Duration::from_millis(50);

/// A proxy that was started has this long until it answers.
const START_EVERY: Duration = Duration::from_secs(5);

/// How long is waited for the addresses of names that were never asked for.
const NAMED_WITHIN: Duration = Duration::from_secs(6);

const CONFLICT: u16 = 409;

/// The proxy beside the agent, over its control socket.
#[derive(Debug)]
pub struct BuiltInProxy {
    client: Client,
    settings: ProxySettings,
    reach: Reach,
    mark: Option<u32>,
    /// Calls to others' ports; none: none ever came.
    takeover: Option<Takeover>,
    seen: Mutex<LastSeen>,
    /// A table that is being told waits for something elsewhere.
    lingers: watch::Sender<bool>,
    started: Mutex<Option<Instant>>,
    /// Of processes that served.
    ends: ProcessEnds,
    /// It can't reach a version.
    unreachable: Arc<Notify>,
    _listening: JoinSet<()>,
}

/// What the proxy said of itself when it was looked at last.
#[derive(Debug, Default)]
struct LastSeen {
    /// None: it didn't answer.
    status: Option<Status>,
    at: Option<Instant>,
    trouble: Option<String>,
    /// The table that it was told last.
    told: Option<TableNumber>,
}

impl BuiltInProxy {
    /// Nothing is asked of it yet; must be called in a runtime of tokio.
    #[must_use]
    pub fn new(settings: ProxySettings) -> Self {
        let client = Client::new(&settings.control);
        let unreachable = Arc::<Notify>::default();
        let mut listening = JoinSet::new();
        listening.spawn(listen(client.clone(), Arc::clone(&unreachable)));
        let takeover = settings.takeover.clone().map(|takeover| Takeover::start(takeover, client.clone()));
        let mark = mark(&settings);
        Self {
            client,
            settings,
            reach: Reach::start(mark),
            mark,
            takeover,
            seen: Mutex::default(),
            lingers: watch::Sender::new(false),
            started: Mutex::default(),
            ends: ProcessEnds::default(),
            unreachable,
            _listening: listening,
        }
    }

    fn seen<T>(&self, look: impl FnOnce(&mut LastSeen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn seen_services(&self) -> Option<ObservedConfig> {
        self.seen(|last| last.status.as_ref().map(seen_of))
    }

    async fn look_now(&self) -> Result<ReadBack, Trouble> {
        let looked: Result<Status, ClientError> = self.client.get("/status").await;
        self.seen(|last| {
            last.status = looked.as_ref().ok().cloned();
            last.at = looked.is_ok().then(Instant::now).or(last.at);
            last.trouble = looked.as_ref().err().map(ToString::to_string);
        });
        if let Ok(status) = &looked {
            self.ends.watch(status.pid);
        }
        match &looked {
            Err(_) => self.start("no proxy answers, so one is started; it stays when this agent ends"),
            Ok(status) if !status.held => {
                self.start("nobody holds the proxy's sockets, so one is started that takes them over");
            }
            // Should it be missing again, another one is started at once.
            Ok(_) => *self.started() = None,
        }
        let status = match (looked, &self.takeover) {
            (Ok(status), _) => status,
            (Err(error), takeover) => {
                if let Some(takeover) = takeover {
                    takeover.proxy_is_away().await;
                }
                return Err(of_proxy(&error));
            }
        };
        let differs = match &self.takeover {
            Some(takeover) => takeover.differs(&status).await,
            None => false,
        };
        let services = status.services.into_iter().map(|service| service.name).collect();
        Ok(ReadBack { number: status.table, differs, services })
    }

    fn started(&self) -> MutexGuard<'_, Option<Instant>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a proxy where none answers or none holds the sockets, if that is this agent's business.
    fn start(&self, why: &str) {
        let Some(start) = &self.settings.start else { return };
        let mut started = self.started();
        if started.is_some_and(|at| at.elapsed() < START_EVERY) {
            return;
        }
        *started = Some(Instant::now());
        match proxy_process::start(start) {
            Ok(()) => tracing::info!("{why}"),
            Err(error) => tracing::error!("a proxy is needed, and none can be started: {error}"),
        }
    }

    async fn apply_now(&self, table: &Table) -> Result<(), Trouble> {
        // One may have been given up while it waited.
        self.lingers.send_replace(false);
        let TableNumber { epoch, generation } = table.number;
        let led = &table.served.services;
        led.iter().try_for_each(|led| super::check_abilities(RouterKind::Embedded, led))?;
        let services = led.iter().map(|led| led.service.clone()).collect::<Vec<_>>();
        let services = match &self.takeover {
            Some(takeover) => takeover.before_table(services, &table.served.functions).await?,
            None => services,
        };
        services.iter().try_for_each(|service| self.check_passed(service))?;
        let wanted = DesiredConfig::new(Number { epoch, generation }, services)
            .map_err(|error| Trouble::refused(error.to_string()))?;
        let seen = self.seen_services();
        let waits = || {
            self.lingers.send_replace(true);
        };
        // Why one has none is said below.
        let _ = timeout(NAMED_WITHIN, self.reach.named(&wanted, seen.as_ref(), waits)).await;
        self.lingers.send_replace(false);
        let told = self.reach.weigh(&wanted, seen.as_ref());
        let told = told.map_err(|error| Trouble::refused(error.to_string()))?;
        let form = form_of(table, told.wanted.services());
        let body = serde_json::to_vec(&form).map_err(|error| Trouble::refused(error.to_string()))?;
        let applied: Result<Applied, ClientError> = self.client.put("/table", Bytes::from(body)).await;
        applied.map_err(|error| of_proxy(&error))?;
        if let Some(takeover) = &self.takeover {
            takeover.after_table().await?;
        }
        self.seen(|last| last.told = Some(table.number));
        self.reach.note(wanted, told);
        Ok(())
    }

    /// Refuses a service that has TLS pass by host at a port where the proxy lets none pass: its table names no port of it, so the proxy
    /// can't see that.
    fn check_passed(&self, service: &Service) -> Result<(), Trouble> {
        // Where calls are taken over, it has just been told to listen for them.
        let own = service.listens.iter().filter(|listen| listen.at.is_none());
        let named = own.filter(|listen| listen.passes() && !listen.hosts.is_empty());
        self.seen(|last| {
            let Some(status) = &last.status else { return Ok(()) };
            let open: Vec<u16> = ports_of(&status.pass_through).collect();
            let closed = named.map(|listen| listen.port).find(|port| !open.contains(port));
            closed.map_or(Ok(()), |port| {
                let text = format!(
                    "TLS doesn't pass at port {port}, which {} has: see tls.pass_through",
                    service.name
                );
                Err(Trouble::refused(text))
            })
        })
    }

    async fn is_drained_now(&self, function: &str, version: &VersionId) -> Result<bool, Trouble> {
        for variation in [BASE, NEW] {
            if !self.is_left_now(function, variation, version.as_str()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `version`: as the tables that named it have it.
    async fn is_left_now(&self, service: &str, variation: &str, version: &str) -> Result<bool, Trouble> {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("service", service)
            .append_pair("variation", variation)
            .append_pair("version", version)
            .append_pair("wait", &DRAIN_WAIT.as_secs().to_string())
            .finish();
        match self.client.wait::<Drained>(&format!("/drained?{query}"), DRAIN_WAIT).await {
            Ok(drained) => Ok(drained.drained),
            // The table in force names it.
            Err(ClientError::Refused { status: CONFLICT, .. }) => Ok(false),
            Err(error) => Err(of_proxy(&error)),
        }
    }

    fn drifts(&self) -> Vec<Drift> {
        let drifted = self.takeover.as_ref().map(Takeover::drifts).unwrap_or_default();
        let drift = |Drifted { at, number, wanted, seen }| {
            let differences = Differences::from(&[Difference::TakenOver { wanted, seen }][..]);
            Drift { at, number, differences, then: DriftAction::Repaired }
        };
        drifted.into_iter().map(drift).collect()
    }

    async fn end_now(&self, at_most: Duration) -> Result<bool, Trouble> {
        let ended: Result<Status, ClientError> = self.client.post("/drain").await;
        ended.map_err(|error| of_proxy(&error))?;
        let until = Instant::now() + at_most;
        while Instant::now() < until && self.client.get::<Status>("/status").await.is_ok() {
            sleep(LOOK).await;
        }
        Ok(true)
    }
}

impl Operations for BuiltInProxy {
    fn kind(&self) -> RouterKind {
        RouterKind::Embedded
    }

    /// It has no configuration of its own that a table could not fit.
    fn check<'a>(&'a self, config: Option<&'a Path>) -> router::Answer<'a, Checked> {
        Box::pin(async move {
            match config {
                Some(_) => Err(unable(&"it is led by tables, and has no configuration to be checked")),
                None => Ok(Checked { refused: None, left_over: Vec::new(), warnings: Vec::new() }),
            }
        })
    }

    fn reload(&self) -> router::Answer<'_, ()> {
        Box::pin(async {
            Err(unable(&"it has nothing to load: its tables come into force as they are told"))
        })
    }

    /// Its tables are told by whoever leads it, and it has no configuration of an operator's: what it serves is led.
    fn adopt<'a>(&'a self, service: &'a str) -> router::Answer<'a, String> {
        Box::pin(async move {
            let seen = self.view().seen;
            let known: Vec<String> = seen.iter().flat_map(|seen| seen.services.keys().cloned()).collect();
            let name = service.to_owned();
            let error = if known.contains(&name) {
                AdoptError::Led { name }
            } else {
                AdoptError::Unknown { name, known }
            };
            Err(unable(&error))
        })
    }
}

impl DataPlane for BuiltInProxy {
    fn operations(&self) -> &dyn Operations {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            name: RouterKind::Embedded.title(),
            hashes: RouterKind::Embedded.abilities().hashes,
            empties_within_ms: None,
            counts_after_ms: 0,
        }
    }

    fn look(&self) -> Answer<'_, Result<ReadBack, Trouble>> {
        Box::pin(self.look_now())
    }

    fn serves(&self) -> Answer<'_, Result<Vec<ServiceForm>, Trouble>> {
        Box::pin(async {
            let table: Result<TableForm, ClientError> = self.client.get("/table").await;
            table.map(|table| table.services).map_err(|error| of_proxy(&error))
        })
    }

    fn changed(&self) -> Answer<'_, ()> {
        Box::pin(async {
            match &self.takeover {
                Some(takeover) => tokio::select! {
                    () = self.ends.next() => {}
                    () = takeover.drifted() => {}
                },
                None => self.ends.next().await,
            }
        })
    }

    fn unreachable(&self) -> Answer<'_, ()> {
        Box::pin(self.unreachable.notified())
    }

    fn apply<'a>(&'a self, table: &'a Table) -> Answer<'a, Result<(), Trouble>> {
        Box::pin(self.apply_now(table))
    }

    fn lingers(&self) -> Answer<'_, ()> {
        let mut lingers = self.lingers.subscribe();
        // It doesn't end for want of a sender: that is here.
        Box::pin(async move { drop(lingers.wait_for(|lingers| *lingers).await) })
    }

    fn outdated(&self) -> Answer<'_, ()> {
        Box::pin(self.reach.outdated(|| self.seen_services()))
    }

    fn is_drained<'a>(
        &'a self,
        function: &'a str,
        version: &'a VersionId,
    ) -> Answer<'a, Result<bool, Trouble>> {
        Box::pin(self.is_drained_now(function, version))
    }

    /// Its tables name what services lead to by where that listens.
    fn is_left<'a>(
        &'a self,
        service: &'a str,
        variation: &'a str,
        target: &'a str,
    ) -> Answer<'a, Result<bool, Trouble>> {
        Box::pin(self.is_left_now(service, variation, target))
    }

    /// Its counts say what is in flight, and so it is never asked to.
    fn empty<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, Result<Option<u64>, Trouble>> {
        Box::pin(async { Ok(None) })
    }

    fn count(
        &self,
        Cursor { life, interval }: Cursor,
        _: bool,
    ) -> Answer<'_, Result<CountsReading, Trouble>> {
        Box::pin(async move {
            let target = format!("/counts?life={life}&interval={interval}");
            let reading: Result<Reading, ClientError> = self.client.get(&target).await;
            reading.map(|reading| CountsReading::Read(Box::new(reading))).map_err(|error| of_proxy(&error))
        })
    }

    fn view(&self) -> View {
        self.seen(|last| {
            let number = last.status.as_ref().map(|status| status.table);
            let phase = match (last.told, number) {
                (None, _) => Phase::Idle,
                (Some(told), Some(number)) if told == number => Phase::InForce,
                (Some(_), _) => Phase::Telling,
            };
            View {
                phase,
                wanted: self.reach.resolved(),
                seen: last.status.as_ref().map(|status| seen_of(status).into()),
                seen_at: last.at,
                is_reached: last.status.is_some(),
                trouble: last.trouble.clone(),
                departures: self.reach.departures().iter().map(ToString::to_string).collect(),
                repairs: 0,
                draining: Vec::new(),
                health: self.reach.health(),
                drifts: self.drifts(),
            }
        })
    }

    fn mark(&self) -> Option<u32> {
        self.mark
    }

    fn takeover_trouble(&self) -> Option<String> {
        let takeover = self.takeover.as_ref()?;
        self.seen(|last| takeover.trouble(last.status.as_ref()?))
    }

    fn shared_ports(&self) -> BTreeSet<u16> {
        self.takeover.as_ref().map(Takeover::shared_ports).unwrap_or_default()
    }

    fn ports(&self) -> Option<Vec<OpenPorts>> {
        self.seen(|last| {
            let status = last.status.as_ref()?;
            Some(self.takeover.as_ref().map_or_else(|| open_ports(status), |takeover| takeover.ports(status)))
        })
    }

    fn proxy(&self) -> Option<ProxyStatus> {
        let status = self.seen(|last| last.status.clone());
        Some(ProxyStatus {
            control: self.settings.control.clone(),
            answers: status.is_some(),
            program: status.as_ref().map(|proxy| proxy.program.clone()),
            pid: status.as_ref().map(|proxy| proxy.pid),
            table: None,
            listen: status.map(|proxy| proxy.listen).unwrap_or_default(),
            trouble: None,
        })
    }

    /// It does what it was told last, and keeps that: whatever else is in force was told by somebody, and is replaced.
    fn repair(&self) -> Answer<'_, Result<(), Trouble>> {
        Box::pin(async { self.look_now().await.map(drop) })
    }

    fn end(&self, at_most: Duration) -> Answer<'_, Result<bool, Trouble>> {
        Box::pin(self.end_now(at_most))
    }
}

/// The ports of addresses.
fn ports_of(addresses: &[String]) -> impl Iterator<Item = u16> {
    addresses.iter().filter_map(|at| at.rsplit_once(':')?.1.parse().ok())
}

/// What marks what is asked of targets from here: as the proxy marks it, where calls to targets may be taken over. Who may not mark
/// takes nothing over.
fn mark(settings: &ProxySettings) -> Option<u32> {
    let takes_over = settings.takeover.as_ref().is_some_and(|takeover| takeover.nftables);
    (takes_over && check_mark().is_ok()).then_some(MARK)
}

fn unable(what: &dyn std::fmt::Display) -> RouterError {
    RouterError::Unable { router: RouterKind::Embedded.title(), what: what.to_string() }
}

/// Tells whenever the proxy can't reach a version.
async fn listen(client: Client, unreachable: Arc<Notify>) {
    let target = format!("/unreachable?wait={}", UNREACHABLE_WAIT.as_secs());
    loop {
        // One of an earlier version doesn't know of this.
        let told: Result<Unreachable, ClientError> = client.wait(&target, UNREACHABLE_WAIT).await;
        if told.is_ok_and(|told| told.unreachable) {
            unreachable.notify_one();
        }
        sleep(UNREACHABLE_EVERY).await;
    }
}

/// What a proxy does with services.
fn seen_of(status: &Status) -> ObservedConfig {
    let TableNumber { epoch, generation } = status.table;
    let services = status.services.iter().map(|service| {
        let variations = service.variations.iter().map(|variation| {
            let targets = variation.targets.iter().filter_map(|target| target.parse::<Target>().ok());
            let target = |target| SeenTarget { target, is_healthy: None, connections: None };
            SeenVariation {
                name: variation.name.clone(),
                hundredths: variation.share,
                targets: targets.map(target).collect(),
            }
        });
        (service.name.clone(), SeenService { variations: variations.collect(), table: None })
    });
    ObservedConfig {
        number: Some(Number { epoch, generation }),
        services: services.collect::<BTreeMap<_, _>>(),
        left_over: Vec::new(),
    }
}

/// A table as the proxy is told it, while all targets are there that it names.
#[must_use]
pub fn table_form(table: &Table) -> TableForm {
    let services: Vec<Service> = table.served.services.iter().map(|led| led.service.clone()).collect();
    form_of(table, &services)
}

/// A table of these services, of which the table itself says what isn't theirs alone.
fn form_of(table: &Table, services: &[Service]) -> TableForm {
    let found = |service: &&Service, led: &ManagedService| service.name == led.service.name;
    let led = table.served.services.iter();
    let led = led.filter_map(|led| Some(service_form(services.iter().find(|one| found(one, led))?, led)));
    let services: Vec<ServiceForm> = table.served.functions.iter().cloned().chain(led).collect();
    let TableNumber { epoch, generation } = table.number;
    TableForm { format: format_of(&services), epoch, generation, services }
}

fn service_form(service: &Service, led: &ManagedService) -> ServiceForm {
    let variations = service.variations.iter().map(|variation| {
        let targets: Vec<String> = variation.targets.iter().map(Target::to_string).collect();
        VariationForm {
            name: variation.name.to_string(),
            // What names its content: nobody here knows more of it than where it is.
            version: targets.join(" "),
            targets,
            protocol: ProtocolForm::Http1,
        }
    });
    let passes = service.passes_tls();
    // To whom passes what callers of a name send is told by that; a port takes all that names nobody who is known.
    let named = service.listens.iter().filter(|listen| passes && !listen.hosts.is_empty());
    let hosts: BTreeSet<&String> = named.flat_map(|listen| &listen.hosts).collect();
    let whole = service.listens.iter().filter(|listen| !passes || listen.hosts.is_empty());
    ServiceForm {
        name: service.name.to_string(),
        hosts: hosts.into_iter().cloned().collect(),
        ports: whole.map(|listen| listen.opened().port).collect(),
        protocol: match service.protocol() {
            Protocol::Tcp => TransportForm::Tcp,
            Protocol::Udp => TransportForm::Udp,
            Protocol::Https if passes => TransportForm::Tls,
            Protocol::Http | Protocol::Https => TransportForm::Http,
        },
        proxy_protocol: led.proxy_protocol.map(|version| match version {
            ProxyProtocol::V1 => ProxyProtocolForm::V1,
            ProxyProtocol::V2 => ProxyProtocolForm::V2,
        }),
        drain_seconds: led.drain.and_then(|drain| u32::try_from(drain.as_secs()).ok()),
        shadow: None,
        strip: false,
        variations: variations.collect(),
        shares: None,
        runs: Some(service.table.runs().into_iter().map(|run| (run.from, run.to, run.variation.0)).collect()),
        salt: service.salt.to_string(),
        hash: service.hash,
        sticky: service.sticky.as_ref().map(Into::into),
        header: service.rule_form(),
        retry: led.retry,
        split: led.split.clone(),
    }
}
