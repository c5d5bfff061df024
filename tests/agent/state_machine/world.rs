//! A world in which the agent's state machine is tried: runtimes, a proxy and a manager that do what they are asked at once, and that a
//! test can have do otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use agent::{
    data_plane::table_form,
    measure::Reads,
    runtime::{Phase, Running, VersionId},
    state_machine::{
        Abilities, Act, CountsReading, Errand, Event, FailedVersion, Fetched, Listed, Now, PendingResult,
        PollResponse, ReadBack, Refusal, Routing, Settings, Started, StartedVersion, State, StateMachine,
        TargetsSeen, Trouble, Undone, VersionNote,
    },
};
use call_metrics::{Cursor, InFlight, Interval, Key, Reading, Row, Tally, Times};
use model::StageStatus;
use protocol::{EndStageAnswer, FollowUp, StageSummary};
use proxy::{
    control::form::TableNumber,
    form::{ServiceForm, TableForm},
    live::Target,
};
use traffic::HashFunction;

/// How long a step takes, in milliseconds.
const STEP_MS: u64 = 50;

/// What a result said.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub offer: String,
    pub stage: String,
    pub status: StageStatus,
    pub next: String,
    pub summary: StageSummary,
}

#[derive(Debug)]
pub struct World {
    pub core: StateMachine,
    /// What is on disk.
    saved: String,
    pub now_ms: u64,
    /// What is added to the wall's clock from one step to the next, again and again.
    pub clock_jumps: Vec<i64>,
    pub running: BTreeMap<VersionId, String>,
    /// How often the machine was started anew: each time versions listen at other ports.
    pub boots: u16,
    /// The runtime that runs functions of python can't be reached.
    pub python_is_away: bool,
    /// Versions that can't be started.
    pub broken: BTreeSet<VersionId>,
    /// Functions that come with offers are nothing that can be unpacked.
    pub archive_is_broken: bool,
    /// So many calls for an offer are refused by somebody between.
    pub refused_fetches: u32,
    pub table: Option<TableForm>,
    /// All tables that were ever in force.
    pub tables: Vec<TableForm>,
    pub started: Vec<VersionId>,
    pub stopped: Vec<VersionId>,
    /// Versions of which it was to be kept what they wrote, when they were ended.
    pub failed: Vec<(VersionId, FailedVersion)>,
    /// Versions that have calls in flight for ever.
    pub held: BTreeSet<VersionId>,
    pub stops_begun: BTreeSet<VersionId>,
    /// A stop that is begun is not answered.
    pub stops_take_long: bool,
    /// The proxy isn't reached, and serves on.
    pub proxy_away: bool,
    /// Variations of services of which no target answers.
    pub silent: BTreeSet<String>,
    /// What is known of the targets of variations.
    pub targets: BTreeMap<(String, String), TargetsSeen>,
    /// Calls are in intervals that are closed, a second each.
    pub closes: bool,
    /// What the router does instead of what its table says, in units of 0.01 %.
    pub really: Option<Vec<u16>>,
    /// The proxy takes each table, and goes on by the one before.
    pub proxy_says_yes_alone: bool,
    /// The proxy refuses tables that name one of these, since it doesn't listen there.
    pub closed_ports: BTreeSet<u16>,
    /// How many tables were refused for that.
    pub refused_applies: usize,
    /// The proxy goes on by its table until something is done elsewhere.
    pub waits_for_others: bool,
    /// How many tables had to wait for that.
    pub waiting_applies: usize,
    /// The proxy doesn't answer whether it takes a table, which comes into force later, if ever.
    pub answers_late: bool,
    pub late: Option<TableForm>,
    /// The proxy refuses tables that give a service's new variation so much, in units of 0.01 %.
    pub refused_share: Option<u16>,
    /// Calls that go on for as long as they are in here.
    pub in_flight: Vec<InFlight>,
    /// Calls per step that ask for the second variation of a service by its header.
    pub asks: u64,
    /// Calls per step of each function, and errors in a hundred of each variation.
    pub calls: u64,
    pub errors: BTreeMap<&'static str, u64>,
    /// By service, split, variation, and whether it was asked for by a header.
    rows: BTreeMap<(String, String, String, bool), Tally>,
    closed: Vec<Arc<Interval>>,
    /// The manager: what it offers, whether it answers, and what it says at the end of stages.
    pub offers: Vec<(String, String)>,
    pub manager_away: bool,
    pub end: Option<EndStageAnswer>,
    /// Which shares it has chosen for stages, in units of 0.01 %.
    pub chosen: BTreeMap<String, u16>,
    pub told: Vec<Told>,
    /// What was reported of stages that went on.
    pub reports: Vec<StageSummary>,
    pub log: Vec<String>,
}

pub fn settings() -> Settings {
    let abilities = Abilities {
        name: "the proxy",
        hashes: &[HashFunction::Murmur2],
        empties_within_ms: None,
        counts_after_ms: 0,
    };
    Settings { keep_base_ms: 60_000, drain_ms: 5_000, joins: false, seed: 1, abilities }
}

/// The digest that stands for a version in this world.
pub fn version(function: &str, path: &str) -> VersionId {
    let sum = format!("{function}/{path}")
        .bytes()
        .fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{sum:016x}{sum:016x}").parse().expect("sixteen digits and more")
}

impl World {
    pub fn new() -> Self {
        Self {
            core: StateMachine::new(State::default(), settings()),
            saved: serde_json::to_string(&State::default()).expect("a state"),
            now_ms: 0,
            clock_jumps: Vec::new(),
            running: BTreeMap::new(),
            boots: 0,
            python_is_away: false,
            broken: BTreeSet::new(),
            archive_is_broken: false,
            refused_fetches: 0,
            table: None,
            tables: Vec::new(),
            started: Vec::new(),
            stopped: Vec::new(),
            failed: Vec::new(),
            held: BTreeSet::new(),
            stops_begun: BTreeSet::new(),
            stops_take_long: false,
            proxy_away: false,
            silent: BTreeSet::new(),
            targets: BTreeMap::new(),
            closes: false,
            really: None,
            proxy_says_yes_alone: false,
            closed_ports: BTreeSet::new(),
            refused_applies: 0,
            waits_for_others: false,
            waiting_applies: 0,
            answers_late: false,
            late: None,
            refused_share: None,
            in_flight: Vec::new(),
            asks: 0,
            calls: 20,
            errors: BTreeMap::new(),
            rows: BTreeMap::new(),
            closed: Vec::new(),
            reports: Vec::new(),
            offers: Vec::new(),
            manager_away: false,
            end: None,
            chosen: BTreeMap::new(),
            told: Vec::new(),
            log: Vec::new(),
        }
    }

    pub fn now(&self) -> Now {
        let wall_ms = 1_700_000_000_000 + self.now_ms as i64;
        let step = (self.now_ms / STEP_MS) as usize;
        let jump = self.clock_jumps.get(step % self.clock_jumps.len().max(1)).copied().unwrap_or(0);
        Now { ms: self.now_ms, wall_ms: wall_ms.saturating_add(jump) }
    }

    /// One step: calls come in, all that the state machine wants is carried out, and it hears of it.
    pub fn step(&mut self) {
        self.now_ms += STEP_MS;
        self.serve();
        let now = self.now();
        self.core.pass(now);
        self.save();
        let acts = self.core.acts(now);
        self.check_acts(&acts);
        for act in acts {
            // What came meanwhile may have made it needless.
            if !self.core.acts(self.now()).contains(&act) {
                continue;
            }
            let errand = self.core.errand(&act);
            if let Some(event) = self.carry_out(&act, errand) {
                self.core.handle(event, self.now());
                self.save();
            }
        }
        let said = self.core.take_said();
        self.log.extend(said.into_iter().map(|said| format!("{said:?}")));
    }

    /// Who asks for the end of a stage before the manager knows how the one before ended has lost that result, as far as it can tell.
    fn check_acts(&self, acts: &[Act]) {
        let is_owed = self.core.state().owed.iter().any(|owed| !owed.waits);
        let asks = acts.iter().any(|act| matches!(act, Act::EndStage { .. }));
        assert!(!(is_owed && asks), "the end of a stage is asked for while a result is owed: {acts:?}");
    }

    pub fn steps(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    /// Goes on until something is so; fails where it never is.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        for _ in 0..2_000 {
            if is_so(self) {
                return;
            }
            self.step();
        }
        panic!("never: {what}\n{}\n{:#?}", self.log.join("\n"), self.core.state().work);
    }

    fn save(&mut self) {
        if self.core.take_dirty() {
            self.saved = serde_json::to_string(self.core.state()).expect("a state");
        }
    }

    /// The agent is killed, and another one begins with what is on disk.
    pub fn kill(&mut self) {
        let state: State = serde_json::from_str(&self.saved).expect("what was written can be read");
        self.core = StateMachine::new(state, settings());
    }

    /// The agent is killed, and what it kept was written by a program that didn't know where versions run.
    pub fn forget_places(&mut self) {
        let mut state: serde_json::Value = serde_json::from_str(&self.saved).expect("a state");
        state.as_object_mut().expect("an object").remove("places");
        self.saved = state.to_string();
        self.kill();
    }

    /// The agent's folder is gone, and another one begins.
    pub fn forget_everything(&mut self) {
        self.saved = serde_json::to_string(&State::default()).expect("a state");
        self.kill();
    }

    pub fn undo(&mut self, function: Option<&str>) -> Result<Vec<Undone>, Refusal> {
        let undone = self.core.undo(function, Some("it looks odd"), self.now());
        self.save();
        undone
    }

    fn serve(&mut self) {
        let Some(table) = &self.table else { return };
        if self.closes {
            let rows = table.services.iter().flat_map(|service| self.served(service)).collect();
            let from = self.closed.len() as u64;
            let began_ms = 1_700_000_000_000 + self.now_ms as i64;
            self.closed.push(Arc::new(Interval { from, to: from + 1, began_ms, seconds: 1, rows }));
            return;
        }
        for service in &table.services {
            let shares = shares_of(service);
            let drawn = service.variations.iter().zip(shares);
            let drawn = drawn.map(|(one, share)| (one, false, self.calls * u64::from(share) / 10_000));
            let is_asked = |name: &str| {
                service.header.as_ref().is_some_and(|header| header.values.values().any(|to| to == name))
            };
            let beside = service.variations.iter().skip(1).filter(|one| is_asked(&one.name));
            let all: Vec<_> = drawn.chain(beside.map(|one| (one, true, self.asks))).collect();
            for (variation, by_header, calls) in all {
                let errors = calls * self.errors.get(&*variation.name).copied().unwrap_or(0) / 100;
                let key = (service.name.clone(), service.split.clone(), variation.name.clone(), by_header);
                let tally = self.rows.entry(key).or_default();
                tally.calls += calls;
                tally.errors += errors;
                tally.succeeded += calls - errors;
                tally.times.merge(&Times::of(vec![2_000; (calls - errors) as usize]));
            }
        }
    }

    /// What is counted of a service in an interval that is closed.
    fn served(&self, service: &ServiceForm) -> Vec<Row> {
        let shares = shares_of(service);
        let really = self.really.clone().filter(|really| really.len() == shares.len());
        let really = really.unwrap_or_else(|| shares.clone());
        let row = |(variation, share): (&proxy::form::VariationForm, u16)| {
            let calls = self.calls * u64::from(share) / 10_000;
            let key = Key {
                service: service.name.clone(),
                split: service.split.clone(),
                shares: shares.clone().into(),
                variation: variation.name.clone(),
                version: String::new(),
                by_header: false,
            };
            Row { key: Arc::new(key), tally: Tally { calls, succeeded: calls, ..Tally::default() } }
        };
        service.variations.iter().zip(really).map(row).collect()
    }

    fn reading(&self, cursor: Cursor) -> Reading {
        if self.closes {
            let closed = self.closed.iter().filter(|interval| interval.from >= cursor.interval);
            let next = Cursor { life: 7, interval: self.closed.len() as u64 };
            let (closed, in_flight) = (closed.cloned().collect(), self.in_flight.clone());
            return Reading { closed, open: vec![], next, gone: 0, cut_short: 0, in_flight };
        }
        let rows = self.rows.iter().map(|((service, split, variation, by_header), tally)| Row {
            key: Arc::new(Key {
                service: service.clone(),
                split: split.clone(),
                shares: Arc::from([]),
                variation: variation.clone(),
                version: String::new(),
                by_header: *by_header,
            }),
            tally: tally.clone(),
        });
        let open =
            Interval { from: 0, to: 1, began_ms: 1_700_000_000_000, seconds: 10, rows: rows.collect() };
        assert_eq!(cursor.interval, 0, "no interval was closed");
        Reading {
            closed: Vec::new(),
            open: vec![open],
            next: Cursor { life: 7, interval: 0 },
            gone: 0,
            cut_short: 0,
            in_flight: self.in_flight.clone(),
        }
    }

    fn away(&self) -> Option<Trouble> {
        self.manager_away.then(|| Trouble::passing("nobody answers"))
    }

    fn carry_out(&mut self, act: &Act, errand: Errand) -> Option<Event> {
        if let (
            Some(trouble),
            Act::Join
            | Act::Poll
            | Act::EndStage { .. }
            | Act::Send(_)
            | Act::Report { .. }
            | Act::Fetch { .. },
        ) = (self.away(), act)
        {
            return Some(act.clone().failed(trouble));
        }
        if self.proxy_away && matches!(act, Act::Look(_) | Act::Apply(_) | Act::Drain(_) | Act::Count(_)) {
            return Some(act.clone().failed(Trouble::passing("the proxy doesn't answer")));
        }
        Some(match act.clone() {
            Act::List => Event::Listed(Ok(self.listed())),
            Act::Look(_) => Event::Looked(Ok(self.read_back())),
            Act::Join => Event::Joined(Ok("joined".to_owned())),
            Act::Poll => {
                let offer = self.offers.first().map(|(name, _)| name.clone());
                if !matches!(errand, Errand::AtOnce) {
                    offer.as_ref()?;
                }
                let answer = PollResponse { id: "agent-1".to_owned(), offer, reads: Reads::default() };
                Event::Polled { took_ms: 10, answer: Ok(answer) }
            }
            Act::EndStage { offer, stage, skipped, shares } => {
                let said = if matches!(errand, Errand::AtOnce) {
                    EndStageAnswer::default()
                } else {
                    self.end_of(&stage, &shares)?
                };
                Event::EndStage { offer, stage, skipped, shares, took_ms: 10, answer: Ok(said) }
            }
            Act::Send(number) => {
                self.take_result(errand);
                Event::Sent { number, answer: Ok(None) }
            }
            Act::Report { run, stage } => {
                let Errand::Result { summary, .. } = errand else { panic!("nothing is reported") };
                self.reports.push(*summary);
                Event::Reported { run, stage, sent_ms: self.now_ms, answer: Ok(None) }
            }
            Act::Fetch { offer, run } => {
                let fetched = if self.refused_fetches > 0 {
                    self.refused_fetches -= 1;
                    Err(Trouble::refused("status 404"))
                } else {
                    self.fetched(&offer)
                };
                Event::Fetched { offer, run, fetched }
            }
            Act::Start(version) => {
                let Errand::Version(note) = errand else { panic!("a version without a note is started") };
                self.started.push(version.clone());
                let started = if self.broken.contains(&version) {
                    Err(Trouble::passing("it died at once:\n  line 1\n  line 2\n"))
                } else if self.python_is_away && note.runner == "python" {
                    Err(Trouble::passing("the runtime of python can't be reached"))
                } else {
                    let runtime = runtime_of(&note.runner).to_owned();
                    let target = self.target(&version, &note.runner);
                    self.running.insert(version.clone(), note.runner);
                    Ok(StartedVersion { target, runtime })
                };
                Event::Started { version, started }
            }
            Act::Apply(generation) => {
                let Errand::Table(table) = errand else { panic!("no table is applied") };
                let table = table_form(&table);
                self.check_table(&table);
                let ports =
                    |service: &ServiceForm| service.ports.iter().any(|port| self.closed_ports.contains(port));
                let is_refused = |service: &ServiceForm| {
                    self.refused_share.is_some() && shares_of(service).get(1).copied() == self.refused_share
                };
                if table.services.iter().any(ports) || table.services.iter().any(is_refused) {
                    self.refused_applies += 1;
                    let applied = Err(Trouble::refused("it doesn't listen there"));
                    return Some(Event::Applied { generation, applied });
                }
                if self.waits_for_others {
                    self.waiting_applies += 1;
                    let applied = Err(Trouble::waits("nobody else accepts there yet"));
                    return Some(Event::Applied { generation, applied });
                }
                if self.answers_late {
                    self.late = Some(table);
                    return Some(act.clone().failed(Trouble::passing("no answer in time")));
                }
                if !self.proxy_says_yes_alone {
                    self.tables.push(table.clone());
                    self.table = Some(table);
                }
                Event::Applied { generation, applied: Ok(()) }
            }
            Act::Watch(_) => return None,
            Act::Empty { service, variation } => Event::Emptied { service, variation, emptied: Ok(Some(0)) },
            Act::Drain(version) => {
                let is_named = self.is_named(&version);
                let is_known = self.core.in_force() == Some(self.number());
                assert!(!is_named || !is_known, "a version that has calls is drained");
                Event::Drained { drained: Ok(!is_named && !self.held.contains(&version)), version }
            }
            Act::Stop(version) => {
                let Errand::At(_, failed) = errand else { panic!("a version is stopped without a place") };
                self.failed.extend(failed.map(|failed| (version.clone(), *failed)));
                assert!(!self.is_named(&version), "a version is stopped that the table in force names");
                self.stops_begun.insert(version.clone());
                if self.stops_take_long {
                    return None;
                }
                self.running.remove(&version);
                self.stopped.push(version.clone());
                Event::Stopped { version, stopped: Ok(()) }
            }
            Act::Ask { service, variation } => {
                let fault = || Trouble::passing("no target answers");
                let asked = if self.silent.contains(&*variation) { Err(fault()) } else { Ok(()) };
                Event::Asked { service, variation, asked }
            }
            Act::Count(number) => {
                let Errand::Cursor { cursor, .. } = errand else { panic!("no cursor") };
                self.core.note_targets(self.targets.clone());
                Event::Counted { number, counted: Ok(CountsReading::Read(Box::new(self.reading(cursor)))) }
            }
        })
    }

    /// What the manager says to whoever knows these shares; `None`: nothing new.
    fn end_of(&self, stage: &str, known: &BTreeMap<String, u16>) -> Option<EndStageAnswer> {
        let is_announced = self.told.iter().any(|told| told.stage == stage);
        let end = self.end.clone().filter(|answer| answer.then.is_some() || is_announced);
        let is_news = self.chosen.iter().any(|(stage, share)| known.get(stage) != Some(share));
        (end.is_some() || is_news)
            .then(|| EndStageAnswer { shares: self.chosen.clone(), ..end.unwrap_or_default() })
    }

    fn listed(&self) -> Listed {
        let of = |name: &str| {
            let all = self.running.iter().filter(|(_, runner)| runtime_of(runner) == name);
            (name.to_owned(), all.map(|(version, runner)| self.listed_as(version, runner)).collect())
        };
        if self.python_is_away {
            let away = [("elsewhere".to_owned(), "connection refused".to_owned())];
            Listed { found: vec![of("here")], away: away.into() }
        } else {
            Listed { found: vec![of("here"), of("elsewhere")], away: BTreeMap::new() }
        }
    }

    fn listed_as(&self, version: &VersionId, runner: &str) -> Running {
        Running {
            version: version.clone(),
            runner: runner.to_owned(),
            target: self.target(version, runner),
            phase: Phase::Runs,
            pid: Some(1),
            restarts: 0,
            last_exit: None,
        }
    }

    /// Where a version listens: a program at a port that is another one after each start of the machine.
    fn target(&self, version: &VersionId, runner: &str) -> Target {
        let text = if runner == "program" {
            let sum = version
                .as_str()
                .bytes()
                .fold(0_u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            format!("127.0.0.1:{}", 20_000 + sum % 1_000 + 1_000 * self.boots)
        } else {
            format!("unix:/run/{}.sock", &version.as_str()[..16])
        };
        text.parse().expect("a target")
    }

    /// The machine is started anew: nothing runs, and the agent begins with what is on disk.
    pub fn reboot(&mut self) {
        self.running.clear();
        self.boots += 1;
        self.kill();
    }

    /// Where a variation of a service listens by the table in force; `None`: the table has none of it.
    pub fn place(&self, service: &str, variation: &str) -> Option<String> {
        let services = self.table.iter().flat_map(|table| &table.services);
        let found = services.filter(|of| of.name == service).flat_map(|of| &of.variations);
        found.into_iter().find(|one| one.name == variation).map(|one| one.targets.join(" "))
    }

    /// Has a function served by the version in a folder.
    pub fn add(&mut self, function: &str, path: &str, runner: &str) {
        let note = VersionNote { function: function.to_owned(), runner: runner.to_owned(), variation: None };
        let (version, now) = (version(function, path), self.now());
        self.core.add(function, version, note, Routing::default(), now).expect("nothing is in hand");
        self.save();
    }

    pub fn remove(&mut self, function: &str) {
        let now = self.now();
        self.core.remove(function, now).expect("nothing is in hand");
        self.save();
    }

    pub fn retire(&mut self, service: &str) {
        let now = self.now();
        self.core.retire(service, now).expect("nothing is in hand");
        self.save();
    }

    fn read_back(&self) -> ReadBack {
        let services = self.table.iter().flat_map(|table| &table.services);
        let services = services.map(|service| service.name.clone()).collect();
        ReadBack { number: self.number(), differs: false, services }
    }

    fn number(&self) -> TableNumber {
        let (epoch, generation) = self.table.as_ref().map_or((0, 0), |table| (table.epoch, table.generation));
        TableNumber { epoch, generation }
    }

    /// Whether the table in force names a version.
    pub fn is_named(&self, version: &VersionId) -> bool {
        let services = self.table.iter().flat_map(|table| &table.services);
        let target = self.running.get(version).map(|runner| self.target(version, runner).to_string());
        services.flat_map(|service| &service.variations).any(|variation| {
            variation.version == version.as_str() || Some(&variation.version) == target.as_ref()
        })
    }

    /// Whatever gets a share runs.
    fn check_table(&self, table: &TableForm) {
        // Services run elsewhere, at ports of their own.
        let functions = table.services.iter().filter(|service| service.ports.is_empty());
        for variation in functions.flat_map(|service| &service.variations) {
            let version = variation.version.parse().expect("a digest");
            assert!(self.running.contains_key(&version), "{variation:?} is in a table and doesn't run");
        }
    }

    /// The share of a function's new version, in units of 0.01 %.
    pub fn share(&self, function: &str) -> u16 {
        let services = self.table.iter().flat_map(|table| &table.services);
        let service = services.into_iter().find(|service| service.name == function);
        let shares = service.map(shares_of).unwrap_or_default();
        shares.get(1).copied().unwrap_or(0)
    }

    /// What serves a function.
    pub fn stable(&self, function: &str) -> Option<VersionId> {
        Some(self.core.state().functions.get(function)?.stable.clone())
    }

    fn take_result(&mut self, errand: Errand) {
        let Errand::Result { offer, summary, next } = errand else { panic!("no result is sent") };
        let told = Told {
            offer: offer.clone(),
            stage: summary.stage_name.clone().unwrap_or_default(),
            status: summary.status,
            next,
            summary: *summary,
        };
        let is_over =
            told.status != StageStatus::SuccessWaiting && ["rollout", "rollback", ""].contains(&&*told.next);
        if is_over {
            self.offers.retain(|(name, _)| *name != offer);
        }
        self.told.push(told);
    }

    fn fetched(&self, offer: &str) -> Result<Fetched, Trouble> {
        let text = self.offers.iter().find(|(name, _)| name == offer).map(|(_, text)| text.clone());
        let text = text.ok_or_else(|| Trouble::refused("there is no such offer"))?;
        let read = language::offer::read(&text).expect("a readable offer");
        let mut notes = BTreeMap::new();
        let mut versions = Vec::new();
        for function in &read.functions {
            let pair = [&function.base, &function.new].map(|of| {
                let version = version(&function.name, &of.path);
                let (function, runner) = (function.name.clone(), of.env.clone());
                notes.insert(version.clone(), VersionNote { function, runner, variation: None });
                version
            });
            versions.push(pair);
        }
        let mut started = Started::new();
        for service in &read.services {
            for variation in &service.variations {
                let Some(note) = VersionNote::of_variation(service, variation) else { continue };
                let name = variation.name.to_string();
                let version = version(service.key(), &service.runs[&name].path);
                notes.insert(version.clone(), note);
                started.entry(service.name().to_owned()).or_default().insert(name, version);
            }
        }
        if self.archive_is_broken {
            let (versions, notes) = (Err("the archive can't be read".to_owned()), BTreeMap::new());
            return Ok(Fetched { text, versions, started: Started::new(), notes });
        }
        Ok(Fetched { text, versions: Ok(versions), started, notes })
    }

    /// Results that are owed still.
    pub fn owed(&self) -> Vec<PendingResult> {
        self.core.state().owed.iter().cloned().collect()
    }

    /// The signal at the end of a stage, for those that wait for it or are to be taken back.
    pub fn signal(&mut self, then: Option<FollowUp>) {
        self.end = Some(EndStageAnswer { end_stage: true, then, ..EndStageAnswer::default() });
    }

    /// What was told of stages that ended.
    pub fn ended(&self) -> Vec<(String, StageStatus, String)> {
        let ended = self.told.iter().filter(|told| told.status != StageStatus::SuccessWaiting);
        ended.map(|told| (told.stage.clone(), told.status, told.next.clone())).collect()
    }
}

/// What each variation gets, in units of 0.01 %.
pub fn shares_of(service: &ServiceForm) -> Vec<u16> {
    let Some(runs) = &service.runs else { return service.shares.clone().expect("shares") };
    let mut shares = vec![0; service.variations.len()];
    for (from, to, of) in runs {
        shares[usize::from(*of)] += to - from;
    }
    shares
}

/// Functions of python run by a runtime of their own.
fn runtime_of(runner: &str) -> &'static str {
    if runner == "python" { "elsewhere" } else { "here" }
}
