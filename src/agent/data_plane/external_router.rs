use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use call_metrics::Cursor;
use model::traffic::OpenPorts;
use proxy::control::form::TableNumber;
use router::{
    Operations, Router,
    controller::{DriveSettings, Lead, Phase, RouterEvent, Status, Stopped},
    measure::{self, Measure, Reception},
    names::System,
    setup::{OpenError, OpenRouter},
};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    task::JoinHandle,
    time::{Instant, timeout},
};
use traffic::{
    MeasuredBy,
    desired::{DesiredConfig, Number},
};

use super::{Answer, DataPlane, Drift, View};
use crate::{
    runtime::VersionId,
    settings::{Ports, RouterSettings},
    state_machine::{Abilities, CountsReading, ReadBack, Trouble, TroubleKind, table::Table},
};

/// How long the router may take to do what it is told, until that counts as trouble. It is told on.
const OBEY: Duration = Duration::from_secs(20);

/// How long is waited for a first look at it.
const FIRST_LOOK: Duration = Duration::from_secs(6);

/// So many drifts are kept until they were told.
const DRIFTS: usize = 32;

/// So long after its end an interval is closed, at most.
const CLOSED_AFTER: Duration = Duration::from_secs(1);

/// How much later than its deadline a drain may be told of.
const LATE: Duration = Duration::from_secs(5);

/// A router of somebody else's, which is led.
#[derive(Debug)]
pub struct ExternalRouter {
    lead: Lead,
    router: Arc<dyn Router>,
    status: watch::Receiver<Arc<Status>>,
    settings: Common,
    measured: Option<Measured>,
    drifts: Arc<Mutex<VecDeque<Drift>>>,
    watching: JoinHandle<()>,
}

/// Its calls are counted.
#[derive(Debug)]
struct Measured {
    measure: Arc<Measure>,
    _counting: measure::CountingGuard,
    /// Intervals of which was said that they couldn't be measured.
    said_of: AtomicU64,
}

/// What is set of it, whatever its kind is.
#[derive(Debug, Clone)]
struct Common {
    drain: Duration,
    ports: Ports,
}

impl Drop for ExternalRouter {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl ExternalRouter {
    /// Begins to lead it, with what is ours of it in this folder where it needs none; must be called in a runtime of tokio.
    ///
    /// # Errors
    ///
    /// A setting can't be used, or what is ours of it can't be made.
    pub fn open(settings: &RouterSettings, folder: &Path) -> Result<Self, OpenError> {
        let OpenRouter { router, measure } = settings.options.open(folder)?;
        Ok(Self::lead(router, measure, settings))
    }

    fn lead(router: Arc<dyn Router>, measure: Option<Arc<Measure>>, settings: &RouterSettings) -> Self {
        let measured = measure.map(|measure| {
            let counting = measure.count(&router);
            Measured { measure, _counting: counting, said_of: AtomicU64::default() }
        });
        let mut drive = DriveSettings::of(&*router);
        drive.lead.on_drift = settings.on_drift;
        let lead = Lead::start(Arc::clone(&router), Arc::new(System::default()), drive);
        let drifts = Arc::<Mutex<VecDeque<Drift>>>::default();
        let watching = tokio::spawn(note_drifts(lead.facts(), Arc::clone(&drifts)));
        let common = Common { drain: settings.drain, ports: settings.ports.clone() };
        Self { status: lead.status(), lead, router, settings: common, measured, drifts, watching }
    }

    /// Why its calls aren't counted.
    fn unmeasured(&self) -> String {
        let kind = self.router.kind();
        match kind.abilities().measured {
            MeasuredBy::Nothing => format!("{} isn't asked how calls ended", kind.title()),
            MeasuredBy::Totals => "no address is set at which it tells how calls ended".to_owned(),
            MeasuredBy::Counters | MeasuredBy::Log => "no socket is set for lines of calls".to_owned(),
        }
    }

    fn now(&self) -> Arc<Status> {
        Arc::clone(&self.status.borrow())
    }

    /// What it is to do, or why it can't.
    fn wanted(&self, table: &Table) -> Result<DesiredConfig, Trouble> {
        let kind = self.router.kind();
        if let Some(function) = table.served.functions.first() {
            let name = &function.name;
            return Err(Trouble::refused(format!(
                "{} leads services, and {name} is a function",
                kind.name()
            )));
        }
        for led in &table.served.services {
            let service = &led.service;
            if let Some(listen) = service.listens.iter().find(|listen| !self.settings.ports.have(listen.port))
            {
                let text =
                    format!("port {} of {} is none that services may have here", listen.port, service.name);
                return Err(Trouble::refused(text));
            }
            super::check_abilities(kind, led)?;
        }
        let TableNumber { epoch, generation } = table.number;
        let services = table.served.services.iter().map(|led| led.service.clone()).collect();
        DesiredConfig::new(Number { epoch, generation }, services)
            .map_err(|error| Trouble::refused(error.to_string()))
    }

    async fn apply_now(&self, table: &Table) -> Result<(), Trouble> {
        let wanted = self.wanted(table)?;
        let number = wanted.number;
        if let Some(Measured { measure, .. }) = &self.measured {
            let named = table.served.services.iter().filter(|led| !led.split.is_empty());
            let splits = named.map(|led| (led.service.name.to_string(), led.split.clone()));
            measure.announce(number, splits.collect());
        }
        let mut status = self.status.clone();
        self.lead.want(wanted).await.map_err(ended)?;
        let obeyed = status.wait_for(|status| match status.phase {
            // What was wanted before.
            _ if status.wanted != Some(number) => status.wanted.is_some_and(|wanted| wanted > number),
            Phase::InForce | Phase::Accepted | Phase::Superseded | Phase::Paused => true,
            Phase::Telling => status.trouble.is_some(),
            // Names may have an address any moment.
            Phase::Idle | Phase::Waiting => false,
        });
        let status = match timeout(OBEY, obeyed).await {
            Ok(obeyed) => Arc::clone(&*obeyed.map_err(|_| ended(Stopped))?),
            Err(_) => self.now(),
        };
        let is_there = matches!(status.phase, Phase::InForce | Phase::Accepted | Phase::Superseded);
        if is_there && status.wanted == Some(number) {
            return Ok(());
        }
        let text = status.trouble.clone().unwrap_or_else(|| "it doesn't do yet what it is told".to_owned());
        let has_no_address = status.phase == Phase::Waiting && status.is_reached && status.seen.is_some();
        let is_refused = status.is_refused || has_no_address;
        let kind = if is_refused { TroubleKind::Refused } else { TroubleKind::Passes };
        Err(Trouble { kind, text })
    }

    async fn look_now(&self) -> Result<ReadBack, Trouble> {
        let mut status = self.status.clone();
        let was_read = status.wait_for(|status| status.seen.is_some() || !status.is_reached);
        let status = match timeout(FIRST_LOOK, was_read).await {
            Ok(status) => Arc::clone(&*status.map_err(|_| ended(Stopped))?),
            Err(_) => self.now(),
        };
        if !status.is_reached || status.seen.is_none() {
            let why = status.trouble.clone();
            return Err(Trouble::passing(why.unwrap_or_else(|| "it doesn't say what it does".to_owned())));
        }
        let seen = status.seen.as_ref().and_then(|seen| seen.number);
        let (number, differs) = match (status.phase, status.wanted) {
            (Phase::InForce | Phase::Accepted, Some(wanted)) => (wanted, false),
            (Phase::Idle, _) | (_, None) => (status.newest.max(seen).unwrap_or_default(), false),
            (Phase::Superseded, Some(_)) => (status.newest.max(seen).unwrap_or_default(), true),
            (Phase::Waiting | Phase::Telling | Phase::Paused, Some(_)) => (seen.unwrap_or_default(), true),
        };
        let Number { epoch, generation } = number;
        let services = status.seen.iter().flat_map(|seen| seen.services.keys().cloned()).collect();
        Ok(ReadBack { number: TableNumber { epoch, generation }, differs, services })
    }

    async fn empty_now(&self, service: &str, variation: &str) -> Result<Option<u64>, Trouble> {
        let mut facts = self.lead.facts();
        self.lead.drain(service, variation, self.settings.drain).await.map_err(ended)?;
        let drained = async {
            loop {
                match facts.recv().await {
                    Ok(RouterEvent::Drained { service: of, variation: which, left })
                        if of == service && which == variation =>
                    {
                        return Ok(left);
                    }
                    Ok(_) => {}
                    // It may have been among those.
                    Err(RecvError::Lagged(_)) => {
                        return Err(Trouble::passing("more came about than could be heard"));
                    }
                    Err(RecvError::Closed) => return Err(ended(Stopped)),
                }
            }
        };
        let within = self.settings.drain + LATE;
        let late = |_| Trouble::passing("nobody says whether it is drained");
        timeout(within, drained).await.map_err(late)?
    }
}

impl Measured {
    fn since(&self, cursor: Cursor) -> CountsReading {
        if let Some(why) = self.measure.uncounted() {
            return CountsReading::Not(why);
        }
        let Reception { not_measured, lost, .. } = self.measure.reception();
        let before = self.said_of.swap(not_measured, Ordering::Relaxed);
        // It may go on for long: said once, and then for each time that there are twice as many.
        if not_measured.checked_ilog2() > before.checked_ilog2() {
            let lost = lost.map_or_else(|| "an unknown number".to_owned(), |lost| lost.to_string());
            tracing::warn!(
                "{not_measured} s were not measured so far: {lost} of the lines of calls are lost"
            );
        }
        CountsReading::Read(Box::new(self.measure.since(cursor)))
    }
}

/// Keeps the drifts that come about.
async fn note_drifts(
    mut facts: tokio::sync::broadcast::Receiver<RouterEvent>,
    drifts: Arc<Mutex<VecDeque<Drift>>>,
) {
    loop {
        match facts.recv().await {
            Ok(RouterEvent::Drift { differences, then }) => {
                let mut drifts = drifts.lock().unwrap_or_else(PoisonError::into_inner);
                let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
                let number = drifts.back().map_or(now, |last| now.max(last.number + 1));
                drifts.push_back(Drift { at: Instant::now(), number, differences, then });
                if drifts.len() > DRIFTS {
                    drifts.pop_front();
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn ended(ended: Stopped) -> Trouble {
    Trouble::passing(ended.to_string())
}

impl DataPlane for ExternalRouter {
    fn operations(&self) -> &dyn Operations {
        &*self.router
    }

    fn abilities(&self) -> Abilities {
        let kind = self.router.kind();
        let (name, hashes) = (kind.title(), kind.abilities().hashes);
        let within = (self.settings.drain + LATE).as_millis() as u64;
        let counts_after = self.measured.as_ref().map(|measured| measured.measure.interval() + CLOSED_AFTER);
        let counts_after_ms = counts_after.unwrap_or_default().as_millis() as u64;
        Abilities { name, hashes, empties_within_ms: Some(within), counts_after_ms }
    }

    fn look(&self) -> Answer<'_, Result<ReadBack, Trouble>> {
        Box::pin(self.look_now())
    }

    fn apply<'a>(&'a self, table: &'a Table) -> Answer<'a, Result<(), Trouble>> {
        Box::pin(self.apply_now(table))
    }

    /// No function has a part here.
    fn is_drained<'a>(&'a self, _: &'a str, _: &'a VersionId) -> Answer<'a, Result<bool, Trouble>> {
        Box::pin(async { Ok(true) })
    }

    fn empty<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Result<Option<u64>, Trouble>> {
        Box::pin(self.empty_now(service, variation))
    }

    fn count(&self, cursor: Cursor, _: bool) -> Answer<'_, Result<CountsReading, Trouble>> {
        let counted = self
            .measured
            .as_ref()
            .map_or_else(|| CountsReading::Not(self.unmeasured()), |measured| measured.since(cursor));
        Box::pin(async { Ok(counted) })
    }

    fn view(&self) -> View {
        let status = self.now();
        let seen_at = status.seen_ms.map(|at| self.lead.began() + Duration::from_millis(at));
        let departures = status.effective.iter().flat_map(|effective| &effective.departures);
        let alarms = self.measured.iter().flat_map(|measured| measured.measure.alarms());
        let drifts = self.drifts.lock().unwrap_or_else(PoisonError::into_inner);
        View {
            phase: status.phase,
            wanted: self.lead.resolved().borrow().clone(),
            seen: status.seen.clone(),
            seen_at,
            is_reached: status.is_reached && status.seen.is_some(),
            trouble: status.trouble.clone(),
            departures: departures.map(ToString::to_string).chain(alarms).collect(),
            repairs: status.repairs,
            draining: status.draining.clone(),
            health: self.lead.found().borrow().health.clone(),
            drifts: drifts.iter().cloned().collect(),
        }
    }

    fn ports(&self) -> Option<Vec<OpenPorts>> {
        let Ports(ranges) = &self.settings.ports;
        let open = ranges.iter().map(|&(first, last)| OpenPorts {
            first,
            last,
            protocol: None,
            passes: false,
            takes_over: false,
            by_socket: false,
        });
        Some(open.collect()).filter(|open: &Vec<_>| !open.is_empty())
    }

    fn repair(&self) -> Answer<'_, Result<(), Trouble>> {
        Box::pin(async { self.lead.repair().await.map_err(ended) })
    }

    /// It is somebody else's.
    fn end(&self, _: Duration) -> Answer<'_, Result<bool, Trouble>> {
        Box::pin(async { Ok(false) })
    }
}
