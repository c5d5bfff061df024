//! One proxy that several agents of a process lead at the same time, so that their releases needn't wait for each other: a child has one
//! release in hand, and a canary may last for days.
//!
//! Each agent has a part ([`Part`]), which is to it what a proxy of its own would be. The rule: **the proxy's table is what all agents have told
//! last, side by side, and what was in force of agents that have told nothing yet.** Invariants, which `tests/agent/shared_proxy.rs` asserts:
//!
//! 1. A function or service is one agent's: the first that names it has it until a table of its own without it is in force.
//! 2. Another table of one agent leaves what is told of the others as it is, byte for byte; so does one that goes.
//! 3. A table that is refused, here or by the proxy, is refused to its agent alone. The others go on by what they told.
//! 4. Numbers of tables are an agent's own. The proxy's are given here, each greater than whatever is in force.
//! 5. In force is what was read back: an agent's table is, where the proxy says the number of a table of which it is a part. One that was told
//!    before the agent's was isn't, whenever that is looked at.
//! 6. What serves isn't dropped because an agent hasn't begun yet, or because nobody knows of it while one may have forgotten it.
//! 7. However many agents ask at once, the proxy is looked at, told, and read once for all of them, and never from before they asked.
//! 8. Counts are let go once all agents have them that need them (`shared_counts.rs`).
//! 9. A table is told as long as its agent asks for it, and no longer. One that waits for something elsewhere keeps no other waiting.
//!
//! What would go wrong otherwise:
//!
//! - *The process starts again, and one agent is first.* A table of its services alone would drop those of the others, whose agents are
//!   about to say the same as before. So services that no agent has told yet are taken from the table in force, as they stand there. An
//!   agent that joins says what it knows from before ([`Former`]): what it knows and its first table doesn't have goes with that table.
//! - *One agent starts again by itself.* Its part stays as it was told last, until it tells another table.
//! - *The same service in two.* Merged by name, they would take turns with each table. The second is refused, by the names of both.
//! - *A port of one for two services*, or a port that the proxy doesn't have: the whole table is refused. If several agents told theirs at the same time,
//!   they are halved until those are found that are refused alone.
//! - *A thousand agents at once.* A table, a status and a reading each for a thousand services would be a million of them.
//! - *One gives up while it tells for all*, since its agent ends: the next who waits tells.
//! - *One waits*, as long as a name has no address: it is found as one that is
//!   refused is, gives way as soon as others ask, and asks again.
//! - *A look that began before a table and ends after it* shows the number before: that was in force for all whom the table doesn't change.
//! - *The proxy was started again without its table*, or somebody else has told it one: the number is none of ours, all agents tell theirs again,
//!   and the first of them tells for all.
//!
//! Targets that come and go change what the proxy is told, and no agent's table: whoever is beside all of them tells it again.
//! Deliberately not here: which agent leads which release. Labels say that, as of other agents.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use call_metrics::Cursor;
use model::traffic::OpenPorts;
use proxy::{control::form::TableNumber, form::ServiceForm};
use router::{Operations, controller::Phase};
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use super::{Answer, DataPlane, View, once::Once, shared_counts::SharedCounts};
use crate::{
    control::form::ProxyStatus,
    runtime::VersionId,
    state_machine::{
        Abilities, CountsReading, ReadBack, State, Trouble, TroubleKind,
        table::{Served, Table},
    },
};

/// From one look to the next, at least.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// For so long what was seen last is shown without asking again.
const SHOWN_FOR: Duration = Duration::from_millis(200);

/// After how long what could not be told is told again.
const AGAIN: Duration = Duration::from_secs(1);

/// So often a table gives way to those of others. Then they wait for it: it may be in the way of some that come again and again.
const WAYS: u32 = 5;

/// What is said of one that gave way.
const GAVE_WAY: &str = "it waits for the address of a name, and other agents' tables go first; tried again";

/// So long counts aren't read while agents are still to begin that may need them.
const JOINED_WITHIN: Duration = Duration::from_secs(5);

const NO_TABLE: TableNumber = TableNumber { epoch: 0, generation: 0 };

/// See the module.
#[derive(Debug)]
pub struct SharedProxy {
    shared: Arc<Shared>,
    _watching: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    front: Arc<dyn DataPlane>,
    parts: Mutex<Parts>,
    telling: Once<()>,
    is_telling: watch::Sender<bool>,
    looking: Once<Result<Look, Trouble>>,
    counts: SharedCounts,
    began: Instant,
    /// How many agents have joined.
    joined: watch::Sender<usize>,
    /// Somebody has asked for a table, and was answered.
    asked: watch::Sender<()>,
    answered: watch::Sender<()>,
    changed: watch::Sender<()>,
    unreachable: watch::Sender<()>,
    shown: Mutex<Option<(Instant, View)>>,
}

/// What all have told.
#[derive(Debug, Default)]
struct Parts {
    /// Agents that are to lead a part.
    expected: BTreeSet<String>,
    by_agent: BTreeMap<String, Told>,
    /// What was in force before any agent told anything, and is of one that hasn't yet, or of nobody who is known. `None`: not read yet.
    kept: Option<Vec<ServiceForm>>,
    /// The number of the proxy's table that was told last.
    told: Option<TableNumber>,
    /// The same of one of which it isn't known, or isn't any more, whether it was taken.
    telling: Option<TableNumber>,
}

/// What an agent has told.
#[derive(Debug, Default)]
struct Told {
    former: BTreeSet<String>,
    /// All that it ever told here, and knew before.
    names: BTreeSet<String>,
    /// The table that is a part of the proxy's.
    table: Option<Table>,
    /// The number of the first of the proxy's tables of which it is one.
    since: Option<TableNumber>,
    /// The one that is to be.
    asked: Option<Table>,
    /// How often that gave way to those of others.
    gave_way: u32,
    /// What came of one, and its number.
    verdict: Option<(TableNumber, Result<(), Trouble>)>,
}

/// Why tables aren't told.
enum Untold {
    /// One of them at least is to blame.
    Refused(Trouble),
    /// One of them waits for something elsewhere, and others are to go first.
    GaveWay,
    /// None of them is to blame.
    Passes(Trouble),
}

/// A look at the proxy.
#[derive(Debug)]
struct Look {
    back: ReadBack,
    /// What had been told when it began.
    began_with: Option<TableNumber>,
    /// What is in force and no agent knows of.
    unknown: BTreeSet<String>,
}

/// All parts in one.
struct Merged {
    served: Served,
    kept: Vec<ServiceForm>,
}

/// What an agent knows from before when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Former {
    /// Functions and services that it led, those that it lets go among them.
    pub names: BTreeSet<String>,
    /// Up to where it has read the counts, if it needs all that come after that.
    pub reads: Option<Cursor>,
}

impl From<&State> for Former {
    fn from(state: &State) -> Self {
        let names = state.functions.keys().chain(state.services.keys()).chain(&state.withdrawn);
        let is_counting = state.work.as_ref().is_some_and(|work| work.walk().is_some());
        Self { names: names.cloned().collect(), reads: is_counting.then_some(state.cursor) }
    }
}

impl SharedProxy {
    /// A proxy that these agents are to lead. Must be called in a runtime of tokio.
    #[must_use]
    pub fn new(front: Arc<dyn DataPlane>, agents: BTreeSet<String>) -> Arc<Self> {
        let shared = Arc::new(Shared {
            front,
            parts: Mutex::new(Parts { expected: agents, ..Parts::default() }),
            telling: Once::new(Duration::ZERO),
            is_telling: watch::Sender::new(false),
            looking: Once::new(BETWEEN_LOOKS),
            counts: SharedCounts::default(),
            began: Instant::now(),
            joined: watch::Sender::new(0),
            asked: watch::Sender::new(()),
            answered: watch::Sender::new(()),
            changed: watch::Sender::new(()),
            unreachable: watch::Sender::new(()),
            shown: Mutex::default(),
        });
        let mut watching = JoinSet::new();
        watching.spawn(Arc::clone(&shared).pass_on_changes());
        watching.spawn(Arc::clone(&shared).pass_on_unreachable());
        watching.spawn(Arc::clone(&shared).tell_what_is_outdated());
        Arc::new(Self { shared, _watching: watching })
    }

    /// The part of an agent, which knows this from before. One that joins again has what it had.
    #[must_use]
    pub fn join(self: &Arc<Self>, agent: &str, former: Former) -> Part {
        let Former { names, reads } = former;
        let joined = self.shared.parts(|parts| {
            let told = parts.by_agent.entry(agent.to_owned()).or_default();
            told.names.extend(names.iter().cloned());
            told.former = names;
            parts.by_agent.len()
        });
        self.shared.counts.joins(agent, reads);
        self.shared.joined.send_replace(joined);
        let (changed, unreachable) = (self.shared.changed.subscribe(), self.shared.unreachable.subscribe());
        Part {
            of: Arc::clone(self),
            agent: agent.to_owned(),
            changed: AsyncMutex::new(changed),
            unreachable: AsyncMutex::new(unreachable),
        }
    }
}

impl Shared {
    fn parts<T>(&self, change: impl FnOnce(&mut Parts) -> T) -> T {
        change(&mut self.parts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn shown(&self) -> MutexGuard<'_, Option<(Instant, View)>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass_on_changes(self: Arc<Self>) {
        loop {
            self.front.changed().await;
            self.changed.send_replace(());
        }
    }

    async fn pass_on_unreachable(self: Arc<Self>) {
        loop {
            self.front.unreachable().await;
            self.unreachable.send_replace(());
        }
    }

    async fn tell_what_is_outdated(self: Arc<Self>) {
        let mut is_telling = self.is_telling.subscribe();
        loop {
            until(&mut is_telling, false).await;
            tokio::select! {
                () = self.front.outdated() => {}
                // A look at the names of the table before would take back that those of the next are asked for.
                () = until(&mut is_telling, true) => continue,
            }
            let before = self.parts(|parts| parts.told);
            self.telling.ask(|| self.tell()).await;
            if self.parts(|parts| parts.told) == before {
                sleep(AGAIN).await;
            }
        }
    }

    /// Tells what agents have asked for, and what all others have told before. Where that is refused or has to wait, those are found who
    /// are to blame.
    async fn tell(&self) {
        let _telling = Telling::begin(&self.is_telling);
        let mut groups = vec![self.parts(|parts| parts.asked())];
        while let Some(mut group) = groups.pop() {
            // Some may have given up meanwhile; with none of them from the start, what was told is told again.
            let is_again = group.is_empty();
            self.parts(|parts| group.retain(|agent, table| parts.asks(agent, table)));
            if group.is_empty() && !is_again {
                continue;
            }
            let Err(why) = self.tell_together(&group).await else { continue };
            let half = group.keys().nth(group.len() / 2).filter(|_| group.len() > 1).cloned();
            match (why, half) {
                (Untold::Refused(_) | Untold::GaveWay, Some(half)) => {
                    let second = group.split_off(&half);
                    groups.extend([second, group]);
                }
                (Untold::Refused(trouble) | Untold::Passes(trouble), _) => {
                    self.parts(|parts| parts.refuse(&group, &trouble));
                }
                (Untold::GaveWay, None) => self.parts(|parts| parts.give_way(&group)),
            }
            self.answered.send_replace(());
        }
    }

    async fn tell_together(&self, group: &BTreeMap<String, Table>) -> Result<(), Untold> {
        let in_force = self.front.look().await?.number;
        if self.parts(|parts| parts.kept.is_none()) {
            let kept = self.front.serves().await?;
            self.parts(|parts| parts.kept = Some(kept));
        }
        let (number, Merged { served, kept }) = self.parts(|parts| {
            let merged = parts.merged(group)?;
            let number = parts.number_after(in_force);
            parts.telling = Some(number);
            Ok::<_, Trouble>((number, merged))
        })?;
        let table = Table { number, served };
        let told = tokio::select! {
            biased;
            told = self.front.apply(&table) => told.map_err(Untold::from),
            () = self.is_in_the_way(group) => Err(Untold::GaveWay),
        };
        *self.shown() = None;
        told?;
        self.parts(|parts| {
            parts.told = Some(number);
            parts.kept = Some(kept);
            parts.accept(group, number);
        });
        self.answered.send_replace(());
        Ok(())
    }

    /// Waits until the table of these agents waits for something elsewhere, while tables of others could be told.
    async fn is_in_the_way(&self, group: &BTreeMap<String, Table>) {
        if group.len() <= 1 {
            let mut asked = self.asked.subscribe();
            // It doesn't end for want of a sender: that is here.
            drop(asked.wait_for(|()| self.parts(|parts| parts.is_to_give_way(group))).await);
        }
        self.front.lingers().await;
    }

    async fn look(&self) -> Result<Look, Trouble> {
        let began_with = self.parts(|parts| parts.told);
        let looked = self.front.look().await;
        *self.shown() = None;
        let back = looked?;
        let unknown = self.parts(|parts| parts.unknown(&back.services));
        Ok(Look { back, began_with, unknown })
    }

    /// How the proxy stands, by what was seen last.
    fn view(&self) -> View {
        let mut shown = self.shown();
        match &*shown {
            Some((at, view)) if at.elapsed() < SHOWN_FOR => view.clone(),
            _ => {
                let view = self.front.view();
                *shown = Some((Instant::now(), view.clone()));
                view
            }
        }
    }

    /// Waits until all agents have joined, whose counts would be let go else.
    async fn all_joined(&self) {
        let expected = self.parts(|parts| parts.expected.len());
        let mut joined = self.joined.subscribe();
        let all = joined.wait_for(|joined| *joined >= expected);
        // Who hasn't begun by then does without.
        drop(timeout_at(self.began + JOINED_WITHIN, all).await);
    }
}

impl Parts {
    fn asked(&self) -> BTreeMap<String, Table> {
        let asked = self.by_agent.iter().filter_map(|(agent, told)| Some((agent, told.asked.as_ref()?)));
        asked.map(|(agent, table)| (agent.clone(), table.clone())).collect()
    }

    /// Whether an agent still asks for this table.
    fn asks(&self, agent: &str, table: &Table) -> bool {
        self.by_agent.get(agent).is_some_and(|told| told.asked.as_ref() == Some(table))
    }

    /// Whether any other agent asks for a table, and these haven't given way too often.
    fn is_to_give_way(&self, group: &BTreeMap<String, Table>) -> bool {
        let others_ask =
            self.by_agent.iter().any(|(agent, told)| told.asked.is_some() && !group.contains_key(agent));
        let gave_way = group.keys().filter_map(|agent| Some(self.by_agent.get(agent)?.gave_way));
        others_ask && gave_way.max().unwrap_or(0) < WAYS
    }

    /// All that is to be in force, with these tables instead of what their agents told before.
    fn merged(&self, group: &BTreeMap<String, Table>) -> Result<Merged, Trouble> {
        let (mut served, mut leads) = (Served::default(), BTreeMap::<&str, &str>::new());
        for (agent, told) in &self.by_agent {
            let Some(table) = group.get(agent).or(told.table.as_ref()) else { continue };
            for name in names_of(&table.served) {
                if let Some(first) = leads.insert(name, agent) {
                    return Err(Trouble::refused(format!(
                        "{first} and {agent} would both lead {name} at one proxy: have the release's routers name one of them"
                    )));
                }
            }
            served.functions.extend(table.served.functions.iter().cloned());
            served.services.extend(table.served.services.iter().cloned());
        }
        let has_told = |agent: &str, told: &Told| told.table.is_some() || group.contains_key(agent);
        let mut known = BTreeMap::<&str, bool>::new();
        for (agent, told) in &self.by_agent {
            let waits = !has_told(agent, told);
            told.former.iter().for_each(|name| *known.entry(name).or_default() |= waits);
        }
        // An agent without a memory and without a table may have forgotten what it led.
        let knows = |agent: &String| {
            let told = self.by_agent.get(agent);
            told.is_some_and(|told| !told.former.is_empty() || has_told(agent, told))
        };
        let all_know = self.expected.iter().all(knows);
        let is_kept = |form: &&ServiceForm| {
            let name = form.name.as_str();
            !leads.contains_key(name) && known.get(name).copied().unwrap_or(!all_know)
        };
        let kept: Vec<ServiceForm> = self.kept.iter().flatten().filter(is_kept).cloned().collect();
        served.functions.extend(kept.iter().cloned());
        Ok(Merged { served, kept })
    }

    /// A number greater than whatever may be in force.
    fn number_after(&self, in_force: TableNumber) -> TableNumber {
        let all = [Some(in_force), self.told, self.telling].into_iter().flatten();
        let newest = all.max_by_key(|number| in_order(*number)).unwrap_or(NO_TABLE);
        TableNumber { generation: newest.generation + 1, ..newest }
    }

    /// They are a part of the proxy's table of this number.
    fn accept(&mut self, group: &BTreeMap<String, Table>, number: TableNumber) {
        for (agent, table) in group {
            let Some(told) = self.by_agent.get_mut(agent) else { continue };
            told.note_answered(table);
            told.names.extend(names_of(&table.served).map(str::to_owned));
            told.verdict = Some((table.number, Ok(())));
            (told.table, told.since, told.gave_way) = (Some(table.clone()), Some(number), 0);
        }
    }

    fn refuse(&mut self, group: &BTreeMap<String, Table>, trouble: &Trouble) {
        for (agent, table) in group {
            let Some(told) = self.by_agent.get_mut(agent) else { continue };
            told.note_answered(table);
            told.verdict = Some((table.number, Err(trouble.clone())));
        }
    }

    /// They ask again.
    fn give_way(&mut self, group: &BTreeMap<String, Table>) {
        for agent in group.keys() {
            if let Some(told) = self.by_agent.get_mut(agent) {
                told.gave_way += 1;
            }
        }
        self.refuse(group, &Trouble::passing(GAVE_WAY));
    }

    /// Those of these names that no agent knows.
    fn unknown(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let known: BTreeSet<&str> = self.by_agent.values().flat_map(Told::leads).collect();
        names.iter().filter(|name| !known.contains(name.as_str())).cloned().collect()
    }

    /// What a look says to an agent.
    fn read_back(&self, agent: &str, look: &Look) -> ReadBack {
        let Look { back, began_with, unknown } = look;
        let told = self.by_agent.get(agent);
        let since = told.and_then(|told| told.since);
        let is_before = since.is_some_and(|since| in_order(back.number) < in_order(since));
        let is_ours = !is_before && [*began_with, self.told, self.telling].contains(&Some(back.number));
        let table = told.and_then(|told| told.table.as_ref());
        let own = told.into_iter().flat_map(Told::leads);
        let own = own.filter(|name| back.services.contains(*name)).map(str::to_owned);
        ReadBack {
            number: table.map_or(NO_TABLE, |table| table.number),
            differs: table.is_some() && (back.differs || !is_ours),
            services: own.chain(unknown.iter().cloned()).collect(),
        }
    }

    /// How an agent's table stands, where the proxy's stands so.
    fn phase(&self, agent: &str, of_proxy: Phase) -> Phase {
        match self.by_agent.get(agent) {
            Some(Told { asked: None, table: Some(_), .. }) => of_proxy,
            Some(Told { asked: Some(_), .. }) => Phase::Telling,
            Some(Told { asked: None, table: None, .. }) | None => Phase::Idle,
        }
    }
}

impl From<Trouble> for Untold {
    fn from(trouble: Trouble) -> Self {
        match trouble.kind {
            // Others' tables needn't wait for it.
            TroubleKind::Refused | TroubleKind::Waits => Self::Refused(trouble),
            TroubleKind::Passes | TroubleKind::Unauthorized => Self::Passes(trouble),
        }
    }
}

impl Told {
    /// This table isn't asked for any more, unless another one is by now.
    fn note_answered(&mut self, table: &Table) {
        if self.asked.as_ref() == Some(table) {
            self.asked = None;
        }
    }

    /// What it leads, or led before it told anything.
    fn leads(&self) -> impl Iterator<Item = &str> {
        let former = self.former.iter().filter(|_| self.table.is_none()).map(String::as_str);
        self.table.iter().flat_map(|table| names_of(&table.served)).chain(former)
    }
}

fn in_order(TableNumber { epoch, generation }: TableNumber) -> (u64, u64) {
    (epoch, generation)
}

fn names_of(served: &Served) -> impl Iterator<Item = &str> {
    let functions = served.functions.iter().map(|function| function.name.as_str());
    functions.chain(served.services.iter().map(|led| led.service.name.as_str()))
}

/// What one agent leads of a proxy that is led by several.
#[derive(Debug)]
pub struct Part {
    of: Arc<SharedProxy>,
    agent: String,
    changed: AsyncMutex<watch::Receiver<()>>,
    unreachable: AsyncMutex<watch::Receiver<()>>,
}

impl Part {
    fn shared(&self) -> &Shared {
        &self.of.shared
    }

    async fn apply_now(&self, table: &Table) -> Result<(), Trouble> {
        let shared = self.shared();
        shared.counts.begins(&self.agent);
        shared.parts(|parts| {
            if let Some(told) = parts.by_agent.get_mut(&self.agent) {
                (told.asked, told.verdict) = (Some(table.clone()), None);
            }
        });
        let _asking = Asking { part: self, table };
        shared.asked.send_replace(());
        tokio::select! {
            biased;
            _ = shared.telling.ask(|| shared.tell()) => {}
            // Tables of others may take longer.
            () = self.is_answered(table.number) => {}
        }
        let verdict = shared.parts(|parts| parts.by_agent.get_mut(&self.agent)?.verdict.take());
        match verdict {
            Some((number, verdict)) if number == table.number => verdict,
            _ => Err(Trouble::passing("another table of this agent's was told meanwhile")),
        }
    }

    /// Waits until it is known what comes of a table.
    async fn is_answered(&self, number: TableNumber) {
        let shared = self.shared();
        let is_answered = |parts: &mut Parts| {
            let verdict = parts.by_agent.get(&self.agent).and_then(|told| told.verdict.as_ref());
            verdict.is_some_and(|(of, _)| *of == number)
        };
        let mut answered = shared.answered.subscribe();
        // It doesn't end for want of a sender: that is here.
        drop(answered.wait_for(|()| shared.parts(is_answered)).await);
    }

    async fn look_now(&self) -> Result<ReadBack, Trouble> {
        let shared = self.shared();
        match &*shared.looking.ask(|| shared.look()).await {
            Ok(look) => Ok(shared.parts(|parts| parts.read_back(&self.agent, look))),
            Err(trouble) => Err(trouble.clone()),
        }
    }

    async fn count_now(&self, cursor: Cursor, needs_all: bool) -> Result<CountsReading, Trouble> {
        let shared = self.shared();
        shared.all_joined().await;
        let names = || {
            shared.parts(|parts| {
                parts.by_agent.get(&self.agent).map_or_else(BTreeSet::new, |told| told.names.clone())
            })
        };
        shared.counts.read((&self.agent, cursor, needs_all), names, &*shared.front).await
    }
}

/// An agent asks for a table.
struct Asking<'a> {
    part: &'a Part,
    table: &'a Table,
}

impl Drop for Asking<'_> {
    /// Who gives up may want something else by now.
    fn drop(&mut self) {
        self.part.shared().parts(|parts| {
            if let Some(told) = parts.by_agent.get_mut(&self.part.agent) {
                told.note_answered(self.table);
            }
        });
    }
}

/// A table is being told until this is dropped.
struct Telling<'a>(&'a watch::Sender<bool>);

impl<'a> Telling<'a> {
    fn begin(is_telling: &'a watch::Sender<bool>) -> Self {
        is_telling.send_replace(true);
        Self(is_telling)
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// Waits until something is so, or isn't.
async fn until(now: &mut watch::Receiver<bool>, is_so: bool) {
    drop(now.wait_for(|now| *now == is_so).await);
}

/// Waits for news that came since this was asked last.
async fn next(news: &AsyncMutex<watch::Receiver<()>>) {
    if news.lock().await.changed().await.is_err() {
        pending::<()>().await;
    }
}

impl DataPlane for Part {
    fn operations(&self) -> &dyn Operations {
        self.shared().front.operations()
    }

    fn abilities(&self) -> Abilities {
        self.shared().front.abilities()
    }

    fn look(&self) -> Answer<'_, Result<ReadBack, Trouble>> {
        Box::pin(self.look_now())
    }

    fn changed(&self) -> Answer<'_, ()> {
        Box::pin(next(&self.changed))
    }

    fn unreachable(&self) -> Answer<'_, ()> {
        Box::pin(next(&self.unreachable))
    }

    fn apply<'a>(&'a self, table: &'a Table) -> Answer<'a, Result<(), Trouble>> {
        Box::pin(self.apply_now(table))
    }

    fn is_drained<'a>(
        &'a self,
        function: &'a str,
        version: &'a VersionId,
    ) -> Answer<'a, Result<bool, Trouble>> {
        self.shared().front.is_drained(function, version)
    }

    fn is_left<'a>(
        &'a self,
        service: &'a str,
        variation: &'a str,
        target: &'a str,
    ) -> Answer<'a, Result<bool, Trouble>> {
        self.shared().front.is_left(service, variation, target)
    }

    fn empty<'a>(&'a self, service: &'a str, variation: &'a str) -> Answer<'a, Result<Option<u64>, Trouble>> {
        self.shared().front.empty(service, variation)
    }

    fn count(&self, cursor: Cursor, needs_all: bool) -> Answer<'_, Result<CountsReading, Trouble>> {
        Box::pin(self.count_now(cursor, needs_all))
    }

    fn view(&self) -> View {
        let view = self.shared().view();
        let phase = self.shared().parts(|parts| parts.phase(&self.agent, view.phase));
        View { phase, ..view }
    }

    fn mark(&self) -> Option<u32> {
        self.shared().front.mark()
    }

    fn takeover_trouble(&self) -> Option<String> {
        self.shared().front.takeover_trouble()
    }

    fn shared_ports(&self) -> BTreeSet<u16> {
        self.shared().front.shared_ports()
    }

    fn ports(&self) -> Option<Vec<OpenPorts>> {
        self.shared().front.ports()
    }

    fn proxy(&self) -> Option<ProxyStatus> {
        self.shared().front.proxy()
    }

    fn repair(&self) -> Answer<'_, Result<(), Trouble>> {
        Box::pin(async { self.look_now().await.map(drop) })
    }

    /// It is the others', too.
    fn end(&self, _: Duration) -> Answer<'_, Result<bool, Trouble>> {
        Box::pin(async { Ok(false) })
    }
}
