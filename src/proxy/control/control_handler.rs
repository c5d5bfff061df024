//! What stands behind the control: whoever changes the table, looks at it, or takes over from this process.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex as StdMutex, PoisonError},
};

use tokio::{
    sync::{Mutex, Notify, watch},
    time::{Instant, timeout_at},
};

use super::{
    addresses::Addresses,
    counting::Counting,
    form::{self, AddressStatus, Applied, Drained, Finishing, Status, TableNumber},
};
use crate::{
    Kind, Listen, Proxy,
    form::TableForm,
    handover::{Forms, HandoverError, PATIENCE, Speaking, Word},
    handover_socket::Neighbour,
    listens::ListenFault,
    live::{LiveTable, TableFault, Transport},
    table_file::TableFile,
};
use call_metrics::{Cursor, Reading};

/// Where this process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// Another one is about to take over, and the table stays as it is.
    Frozen,
    /// Another one has taken over, or the end was asked for.
    Finishing,
}

/// Where words to the supervisor go.
#[derive(Debug, Default)]
enum Holder {
    /// There never was one: this process holds its sockets itself.
    #[default]
    Nobody,
    /// With what it understands.
    There(Speaking, Forms),
    /// It is about to come, perhaps as another program than before.
    Awaited {
        before: Option<(Speaking, Forms)>,
        until: Instant,
    },
    Ended,
}

/// Why this process is to finish what it has and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finish {
    HandedOver,
    /// It is asked to stop, and another process goes on with its sockets.
    Replaced,
    /// Nobody has its sockets after it.
    Stop,
}

/// Why the table that was sent isn't in force.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Table(#[from] TableFault),
    #[error("the table can't be kept on disk, so the one before stays in force: {0}")]
    NotKept(#[source] io::Error),
    #[error(transparent)]
    Listen(#[from] ListenFault),
    #[error("another process is taking over: ask again")]
    HandsOver,
}

#[derive(Debug)]
pub struct ControlHandler {
    pub(crate) proxy: Proxy,
    pub(crate) program: &'static str,
    kept: TableFile,
    pub(super) addresses: Addresses,
    /// Held by whoever changes the table, so that two changes never meet.
    pub(super) phase: Mutex<Phase>,
    /// Whether the control takes connections.
    open: watch::Sender<bool>,
    finish: watch::Sender<Option<Finish>>,
    /// Those that handed over to this process.
    finishing: StdMutex<Vec<Neighbour>>,
    supervisor: Mutex<Holder>,
    holder_came: Notify,
    upgrade_failed: StdMutex<Option<String>>,
    counting: Counting,
}

impl ControlHandler {
    /// `listen`: where it is listened, of which ports a table may name those for calls.
    pub fn new(proxy: Proxy, state: &Path, listen: Vec<Listen>, program: &'static str) -> io::Result<Self> {
        Ok(Self {
            proxy,
            program,
            kept: TableFile::open(state)?,
            addresses: Addresses::new(state, listen),
            phase: Mutex::new(Phase::Serving),
            open: watch::Sender::new(false),
            finish: watch::Sender::new(None),
            finishing: StdMutex::default(),
            supervisor: Mutex::default(),
            holder_came: Notify::new(),
            upgrade_failed: StdMutex::default(),
            counting: Counting::default(),
        })
    }

    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Puts a table in force: first on disk, then here, then in processes that finish.
    pub async fn change(&self, form: &TableForm) -> Result<Applied, Refused> {
        let phase = self.phase.lock().await;
        if *phase != Phase::Serving {
            return Err(Refused::HandsOver);
        }
        let before = self.proxy.table();
        let checked = before.next(form)?;
        if self.check_ports(&checked, &[]).is_err() {
            // Perhaps what came in there goes on in a process that handed over, which goes by this table, too.
            self.check_ports(&checked, &self.left_elsewhere().await)?;
        }
        // With each bucket's variation, so that whoever reads it comes to the same buckets.
        let form = checked.form();
        if is_other(&before, &checked) {
            let (kept, copy) = (self.kept.clone(), form.clone());
            let written = tokio::task::spawn_blocking(move || kept.keep(&copy)).await;
            written.map_err(io::Error::other).flatten().map_err(Refused::NotKept)?;
        }
        drop((checked, before));
        let table = self.proxy.apply(&form).await?;
        let not_told = self.tell_finishing(&form).await;
        drop(phase);
        Ok(Applied { table: TableNumber::of(&table), not_told })
    }

    /// A table opens no ports: it shares out those that the configuration opened, or a list of addresses, each for what comes in there.
    fn check_ports(&self, table: &LiveTable, elsewhere: &[AddressStatus]) -> Result<(), TableFault> {
        let mut known = self.addresses.known(&self.proxy);
        known.extend(elsewhere.iter().map(|left| Listen::from(left.form())));
        for service in table.services() {
            let transport = service.transport();
            let mut open: Vec<u16> = known
                .iter()
                .filter(|listen| listen.kind.takes(transport))
                .map(|listen| listen.address.port())
                .collect();
            if let Some(&port) = service.ports().iter().find(|port| !open.contains(port)) {
                open.sort_unstable();
                open.dedup();
                let open: Vec<String> = open.iter().map(ToString::to_string).collect();
                let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
                let what = match transport {
                    Transport::Http => "calls",
                    Transport::Tcp => "connections of TCP",
                    Transport::Tls => "connections of TLS that pass unopened",
                    Transport::Udp => "datagrams",
                };
                return Err(TableFault::NotListened { service: service.name().to_owned(), port, what, open });
            }
        }
        Ok(())
    }

    /// Puts the table of the process before in force, which is on disk already; or in a process that finishes, that of the one
    /// that took over.
    pub(crate) async fn follow(&self, form: &TableForm) -> Result<(), TableFault> {
        self.proxy.apply(form).await.map(drop)
    }

    async fn tell_finishing(&self, form: &TableForm) -> Vec<u32> {
        let mut not_told = Vec::new();
        for neighbour in self.finishing() {
            let word = Word::Table { table: form.clone() };
            match neighbour.ask(&word).await {
                Ok(Some(Word::Done)) => {}
                Ok(None) => self.forget(&neighbour),
                answer => {
                    let answer = answer.map(|word| word.map(Word::unexpected));
                    tracing::error!(
                        pid = neighbour.pid,
                        ?answer,
                        "a process that finishes can't be told of the table"
                    );
                    not_told.push(neighbour.pid);
                }
            }
        }
        not_told
    }

    pub(crate) async fn status(&self) -> Status {
        let (finishing, _) = self.ask_finishing().await;
        let listening = self.addresses.listening();
        Status {
            program: self.program.to_owned(),
            pid: std::process::id(),
            table: TableNumber::of(&self.proxy.table()),
            listen: addresses(&listening, |kind| kind.takes(Transport::Http)),
            tls: addresses(&listening, |kind| kind == Kind::Tls),
            tcp: addresses(&listening, |kind| kind == Kind::Tcp),
            pass_through: addresses(&listening, |kind| kind == Kind::PassThrough),
            udp: addresses(&listening, |kind| kind == Kind::Udp),
            metrics: addresses(&listening, |kind| kind == Kind::Metrics),
            threads: self.proxy.threads(),
            connections: self.proxy.connections(),
            flows: self.proxy.flows(),
            services: form::services(&self.proxy),
            leaving: form::leaving(&self.proxy),
            finishing,
            held: !matches!(*self.supervisor.lock().await, Holder::Nobody | Holder::Ended),
            marks: self.proxy.marks(),
            lent: self.addresses.lent().map(<[_]>::to_vec),
            upgrade_failed: self.upgrade_failed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Whether nobody holds a version that no table names; none if the table in force names it.
    pub(crate) async fn drained(&self, (service, variation, version): (&str, &str, &str)) -> Option<Drained> {
        let table = self.proxy.table();
        let is_named = table.services().iter().filter(|named| named.name() == service).any(|named| {
            named.versions().iter().any(|named| named.name() == variation && named.digest() == version)
        });
        drop(table);
        if is_named {
            return None;
        }
        let (finishing, all_known) = self.ask_finishing().await;
        let here = form::leaving(&self.proxy);
        let everywhere = here.iter().chain(finishing.iter().flat_map(|process| &process.leaving));
        let held = everywhere
            .filter(|held| held.service == service && held.variation == variation && held.version == version);
        let (mut drained, mut in_flight) = (all_known, 0);
        for held in held {
            drained = false;
            in_flight += held.in_flight;
        }
        Some(Drained { drained, in_flight })
    }

    /// How those stand that handed over, and whether all that they hold is known.
    pub(super) async fn ask_finishing(&self) -> (Vec<Finishing>, bool) {
        let in_force = TableNumber::of(&self.proxy.table());
        let (mut all, mut all_known) = (Vec::new(), true);
        for neighbour in self.finishing() {
            match neighbour.ask(&Word::Ask).await {
                Ok(Some(Word::Holds { table, connections, leaving, addresses })) => {
                    // By an older table it may still give calls to what this one doesn't name.
                    all_known &= table == in_force;
                    all.push(Finishing {
                        pid: neighbour.pid,
                        answers: true,
                        connections,
                        addresses,
                        leaving,
                    });
                }
                Ok(None) => self.forget(&neighbour),
                Ok(Some(_)) | Err(_) => {
                    all_known = false;
                    all.push(Finishing {
                        pid: neighbour.pid,
                        answers: false,
                        connections: 0,
                        addresses: Vec::new(),
                        leaving: Vec::new(),
                    });
                }
            }
        }
        (all, all_known)
    }

    pub(crate) fn finishing(&self) -> Vec<Neighbour> {
        self.finishing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn forget(&self, gone: &Neighbour) {
        self.finishing.lock().unwrap_or_else(PoisonError::into_inner).retain(|neighbour| neighbour != gone);
    }

    pub(crate) fn follows(&self, neighbours: Vec<Neighbour>) {
        *self.finishing.lock().unwrap_or_else(PoisonError::into_inner) = neighbours;
    }

    /// What is said to a process that took over and asks.
    pub(crate) fn holds(&self) -> Word {
        Word::Holds {
            table: TableNumber::of(&self.proxy.table()),
            connections: self.proxy.connections(),
            leaving: form::leaving(&self.proxy),
            addresses: self.accepted(),
        }
    }

    /// Changes the table no more, and takes no further connection at the control. Gives where it stood before; a change that is
    /// under way ends first.
    pub(crate) async fn freeze(&self) -> Phase {
        let mut phase = self.phase.lock().await;
        let before = *phase;
        if before == Phase::Serving {
            *phase = Phase::Frozen;
            self.open.send_replace(false);
        }
        before
    }

    /// Goes on: nobody takes over after all.
    pub(crate) async fn thaw(&self) {
        let mut phase = self.phase.lock().await;
        if *phase == Phase::Frozen {
            *phase = Phase::Serving;
            self.open.send_replace(true);
        }
    }

    /// From now on another process decides, and this one's control takes no connections.
    pub(crate) async fn leave_to_others(&self) {
        *self.phase.lock().await = Phase::Finishing;
        self.open.send_replace(false);
    }

    /// From now on this process finishes what it has, and ends once that is done: at once, where it has nothing. A stop is more than a
    /// hand-over.
    pub(crate) async fn finish(&self, why: Finish) {
        self.leave_to_others().await;
        self.finish.send_modify(|finish| *finish = (*finish).max(Some(why)));
    }

    pub(crate) fn is_to_finish(&self) -> watch::Receiver<Option<Finish>> {
        self.finish.subscribe()
    }

    pub(crate) fn counting(&self) -> &Counting {
        &self.counting
    }

    /// What was counted after a cursor. Not where another process is about to take that over: it answers next.
    pub(crate) async fn counts_since(&self, cursor: Cursor) -> Result<Reading, Refused> {
        let phase = self.phase.lock().await;
        if *phase != Phase::Serving {
            return Err(Refused::HandsOver);
        }
        Ok(self.proxy.counts_since(cursor).await)
    }

    pub(crate) async fn phase(&self) -> Phase {
        *self.phase.lock().await
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    pub(crate) fn is_open(&self) -> watch::Receiver<bool> {
        self.open.subscribe()
    }

    pub(crate) async fn set_holder(&self, supervisor: Speaking, forms: Forms) {
        *self.supervisor.lock().await = Holder::There(supervisor, forms);
        self.holder_came.notify_waiters();
    }

    /// Whether nobody else ever held the sockets.
    pub(super) async fn holds_itself(&self) -> bool {
        matches!(*self.supervisor.lock().await, Holder::Nobody)
    }

    /// The supervisor is there as soon as it knows that this process serves.
    pub(crate) async fn await_holder(&self) {
        *self.supervisor.lock().await = Holder::Awaited { before: None, until: Instant::now() + PATIENCE };
    }

    /// The supervisor is about to go on as another program.
    pub(crate) async fn expect_holder(&self) {
        let mut supervisor = self.supervisor.lock().await;
        if let Holder::There(speaking, forms) = std::mem::replace(&mut *supervisor, Holder::Ended) {
            let _ = speaking.say(&Word::Done, &[]).await;
            let before = Some((speaking, forms));
            *supervisor = Holder::Awaited { before, until: Instant::now() + PATIENCE };
        }
    }

    /// It goes on as it is.
    pub(crate) async fn holder_stays(&self) {
        let mut supervisor = self.supervisor.lock().await;
        let before = std::mem::replace(&mut *supervisor, Holder::Ended);
        if let Holder::Awaited { before: Some((speaking, forms)), .. } = before {
            *supervisor = Holder::There(speaking, forms);
        }
        drop(supervisor);
        self.holder_came.notify_waiters();
    }

    pub(crate) async fn holder_ended(&self) {
        let mut supervisor = self.supervisor.lock().await;
        match &mut *supervisor {
            Holder::There(..) | Holder::Ended => *supervisor = Holder::Ended,
            Holder::Awaited { before, .. } => *before = None,
            Holder::Nobody => {}
        }
        drop(supervisor);
        self.addresses.forget_list();
    }

    /// Says something to the supervisor, if it is there just now.
    pub(crate) async fn mention_to_holder(&self, word: &Word) {
        if let Holder::There(supervisor, _) = &*self.supervisor.lock().await {
            let _ = supervisor.say(word, &[]).await;
        }
    }

    /// Says something to the supervisor. While that is being renewed, it is waited for.
    pub(crate) async fn tell_holder(&self, word: &Word) -> Result<(), HandoverError> {
        loop {
            let came = self.holder_came.notified();
            let mut supervisor = self.supervisor.lock().await;
            let until = match &*supervisor {
                Holder::There(_, forms) if matches!(word, Word::Listen { .. }) && !forms.have_lists() => {
                    return Err(HandoverError::NoLists);
                }
                Holder::There(supervisor, _) => return Ok(supervisor.say(word, &[]).await?),
                Holder::Awaited { until, .. } if Instant::now() < *until => *until,
                Holder::Awaited { .. } => {
                    *supervisor = Holder::Ended;
                    return Err(HandoverError::Ended);
                }
                Holder::Nobody | Holder::Ended => return Err(HandoverError::Ended),
            };
            drop(supervisor);
            let _ = timeout_at(until, came).await;
        }
    }

    pub(crate) fn note_upgrade(&self, failed: Option<String>) {
        *self.upgrade_failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }
}

/// The addresses of some kinds.
fn addresses(listening: &[Listen], is_one: impl Fn(Kind) -> bool) -> Vec<String> {
    let of_kind = listening.iter().filter(|listen| is_one(listen.kind));
    of_kind.map(|listen| listen.address.to_string()).collect()
}

fn is_other(before: &Arc<LiveTable>, next: &LiveTable) -> bool {
    TableNumber::of(before) != TableNumber::of(next) || before.form() != next.form()
}
