//! The supervisor: keeps the listening sockets, starts what serves and starts it again, and carries no traffic.
//!
//! Invariants:
//!
//! 1. While the supervisor lives, the sockets listen: a connection that comes while nobody serves waits in their queue.
//! 2. At most one supervisor has a control socket (a lock beside it says so), so nobody else starts what serves there.
//! 3. The end of the supervisor ends nothing else. The next one takes the sockets from the process that serves, and has another one
//!    take over from that, so that its own settings hold.
//! 4. Calls come here from ports that others have only while somebody takes them: the rules that send them here go with the last process
//!    that does, unless another one is there at once. Where it is listened beside another program, that ends once nobody could be started for
//!    a while.
//! 5. It is listened on the addresses of the configuration and of the list that was put in force last, and on no others.
//! 6. Which sockets are lent is what whoever starts a supervisor lends; it has them until it ends, also as another program.

mod addresses;
mod adopted_sockets;
mod error;
mod process;
mod renew;
mod sockets;
mod systemd;

use std::{
    collections::HashMap,
    fs::File,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use tokio::{
    net::UnixStream,
    process::Command,
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};

pub use self::{error::HoldError, renew::is_renewed, systemd::inherited};
use self::{
    process::{Event, Number, Ours},
    renew::Renewing,
};
use crate::{
    handover::{self, Forms, Listening, Speaking, Word},
    handover_socket,
    listed::Listed,
    nftables,
    run::Signals,
    sockets::{Listen, MAX_ADDRESSES, Socket, Sockets},
};

/// How long a process may take from its start until it serves.
const START: Duration = Duration::from_mins(1);
/// A process that served for less ended early.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// The rest before a process is started again, after so many early ends in a row: none after the first two.
const FIRST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(5);
/// Before so long a one callers whom other programs take as well wait no more.
const LONG_REST: Duration = Duration::from_secs(1);

/// Told once calls are served, each time by another process, with the addresses.
pub type Serving = Box<dyn Fn(&[Listen]) + Send + Sync>;

/// What a supervisor is started with.
pub struct Plan {
    /// Addresses to listen on. Port 0 takes a free one.
    pub listen: Vec<Listen>,
    /// Sockets that listen already, from whoever started this process. Such a one is what `listen` says of its address; of an
    /// address that isn't there it takes calls without TLS, or datagrams; or it is lent, where this proxy shares.
    pub inherited: Vec<Socket>,
    /// Lists may have addresses that other programs have as well: by sockets that were lent, or beside theirs.
    pub shares: bool,
    pub control: PathBuf,
    /// The folder in which the list of addresses is kept, beside the table.
    pub state: PathBuf,
    /// The program nft, where an agent may send connections to others' ports here.
    pub nft: Option<PathBuf>,
    /// Makes the command of a serving process, which finds its link as standard input.
    pub command: Box<dyn Fn() -> std::process::Command + Send + Sync>,
    pub serving: Serving,
    /// Makes the command with which this supervisor was started. It goes on so once a process serves whose program is another one
    /// than its own.
    pub again: Box<dyn Fn() -> std::process::Command + Send + Sync>,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("listen", &self.listen)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

/// How a supervisor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupervisorExit {
    /// It was asked to, and everything had ended.
    Stopped,
    /// It was asked twice.
    AtOnce,
    /// The first process that it started ended with this code, before it served. It has said why.
    NeverServed(Option<i32>),
}

/// A serving process.
struct Process {
    speaking: Speaking,
    since: Instant,
    /// Kills it, where this supervisor started it; none once that was done.
    kill: Option<oneshot::Sender<()>>,
    pid: Option<u32>,
    /// What it understands, as far as it has said so.
    forms: Forms,
    /// Perhaps it doesn't know of all sockets that there are.
    is_behind: bool,
    /// Why it can't serve, in its own words.
    trouble: Option<String>,
}

struct Holder {
    plan: Plan,
    /// Those of the configuration, and the control's.
    sockets: Option<Sockets>,
    listed: Listed,
    /// A list is about to be put in force: it is being written.
    is_keeping: bool,
    /// When to try again to open what is in the list and couldn't be opened, and to tell of what is open.
    listen_again_at: Option<Instant>,
    processes: HashMap<Number, Process>,
    last_number: Number,
    /// The one that takes connections.
    serving: Option<Number>,
    /// The one that was started to do so.
    coming: Option<(Number, Instant)>,
    has_served: bool,
    is_stopping: bool,
    early_ends: u32,
    start_at: Option<Instant>,
    events: mpsc::UnboundedSender<(Number, Event)>,
    renewing: Option<Renewing>,
    /// Given back when the supervisor ends, however that is.
    lock: File,
}

/// Holds until it is asked to stop.
pub async fn hold(plan: Plan) -> Result<SupervisorExit, HoldError> {
    // First of all: whoever was renewed can be ended by a signal until then.
    let mut signals = Signals::new()?;
    let mut upgrades = [signal(SignalKind::hangup())?, signal(SignalKind::user_defined2())?];
    let (events, mut happened) = mpsc::unbounded_channel();
    let mut supervisor = Holder::begin(plan, events).await?;
    loop {
        let start_at = supervisor.start_at.filter(|_| !supervisor.has_to_wait());
        let renew_at = supervisor.renewing.as_ref().map(Renewing::at);
        let too_late = supervisor.coming.map(|(_, until)| until);
        let listen_again_at = supervisor.listen_again_at;
        let [hangup, user] = &mut upgrades;
        tokio::select! {
            Some((number, event)) = happened.recv() => {
                if let Some(ended) = supervisor.obey(number, event).await? {
                    return Ok(ended);
                }
            }
            () = signals.next() => {
                if supervisor.is_stopping {
                    supervisor.say_to_all(&Word::End).await;
                    supervisor.send_none_here(true).await;
                    return Ok(SupervisorExit::AtOnce);
                }
                if supervisor.stop().await {
                    return Ok(SupervisorExit::Stopped);
                }
            }
            () = either(hangup, user) => supervisor.upgrade().await?,
            () = at(start_at) => supervisor.start().await?,
            () = at(renew_at) => supervisor.renew().await,
            () = at(too_late) => supervisor.give_up_coming().await,
            () = at(listen_again_at) => supervisor.listen_again().await,
        }
    }
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Holder {
    /// Takes what there is: from itself as another program, from the processes of an earlier supervisor, or nothing.
    async fn begin(
        mut plan: Plan,
        events: mpsc::UnboundedSender<(Number, Event)>,
    ) -> Result<Self, HoldError> {
        let before = renew::before().await;
        let is_renewed = before.is_some();
        if let Some(before) = &before {
            plan.control.clone_from(&before.control);
        }
        let (lock, given) = match before {
            Some(before) => {
                (before.lock, Some((before.sockets, before.children, before.start, before.listen)))
            }
            None => (sockets::lock(&plan)?, None),
        };
        let state = |source| HoldError::State { path: plan.state.clone(), source };
        let mut listed = Listed::load(&plan.state).map_err(state)?;
        let mut taken = adopted_sockets::take(&plan.control).await?;
        let (sockets, children, wants_start) = if let Some((mut sockets, children, start, listen)) = given {
            if let Some(listen) = listen {
                listed.follow(listen);
            }
            let lent = sockets.take_lent();
            if plan.shares {
                listed.share(lent);
            }
            // There are no more than there were.
            listed.adopt(&mut sockets.open, &plan.listen, MAX_ADDRESSES);
            (sockets, children, start || !taken.serves())
        } else {
            taken = taken.checked(&plan.control)?;
            (sockets::make(&mut plan, taken.sockets.take(), &mut listed)?, Vec::new(), true)
        };
        let mut supervisor = Self {
            plan,
            sockets: Some(sockets),
            listed,
            is_keeping: false,
            listen_again_at: None,
            processes: HashMap::new(),
            last_number: 0,
            serving: None,
            coming: None,
            has_served: is_renewed,
            is_stopping: false,
            early_ends: 0,
            start_at: None,
            events,
            renewing: None,
            lock,
        };
        let known: Vec<u32> = taken.links.iter().map(|link| link.pid).collect();
        for link in taken.links {
            let number =
                supervisor.know((link.listening, link.speaking), Ours::Perhaps(link.pid), link.forms);
            if link.serves {
                supervisor.serving = Some(number);
                supervisor.has_served = true;
            }
        }
        process::reap(&supervisor.plan.control, children.into_iter().filter(|pid| !known.contains(pid)));
        supervisor.open_missing(true);
        if wants_start {
            supervisor.start().await?;
        } else {
            supervisor.tell_addresses().await;
        }
        Ok(supervisor)
    }

    /// Listens to a process from now on.
    fn know(&mut self, (listening, speaking): (Listening, Speaking), ours: Ours, forms: Forms) -> Number {
        self.last_number += 1;
        let number = self.last_number;
        let pid = ours.pid();
        // One that this supervisor starts is given all of them.
        let is_behind = matches!(ours, Ours::Perhaps(_));
        let kill = Some(process::listen(number, listening, ours, self.events.clone()));
        let since = Instant::now();
        let process = Process { speaking, since, kill, pid, forms, is_behind, trouble: None };
        self.processes.insert(number, process);
        number
    }

    /// Starts a process that is to serve.
    async fn start(&mut self) -> Result<(), HoldError> {
        self.start_at = None;
        if self.sockets.is_none() {
            return Ok(());
        }
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::from((self.plan.command)());
        command.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
        for variable in systemd::VARIABLES.into_iter().chain([renew::VARIABLE]) {
            command.env_remove(variable);
        }
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) if self.has_served => {
                self.note_failed_start(&format!("it can't be started: {error}")).await;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        drop(command);
        let (listening, speaking) = handover::ends(UnixStream::from_std(ours)?);
        let control = Some(self.plan.control.clone());
        let listen = self.listed.form().clone();
        let Some((sockets, descriptors)) = self.held() else { return Ok(()) };
        let serve = Word::Serve { forms: Forms::OURS, sockets, control, listen };
        // Whether it heard this shows in what it says.
        let _ = speaking.say(&serve, &descriptors).await;
        drop(descriptors);
        let number = self.know((listening, speaking), Ours::Child(child), Forms::FIRST);
        self.coming = Some((number, Instant::now() + START));
        Ok(())
    }

    async fn obey(&mut self, number: Number, event: Event) -> Result<Option<SupervisorExit>, HoldError> {
        match event {
            Event::Said(Word::Ready { pid, forms }) => {
                self.note_ready(number, pid, forms.unwrap_or(Forms::FIRST));
                // A list may have been put in force since it was started.
                self.tell_addresses().await;
                self.begin_to_renew().await;
            }
            Event::Said(Word::Done) => self.note_parted(number),
            Event::Said(Word::Leaving) if self.serving == Some(number) => {
                self.serving = None;
                let served = self.processes.get(&number).map(|process| process.since.elapsed());
                if served.is_some_and(|served| served >= SHORT_LIFE) {
                    self.early_ends = 0;
                }
                self.upgrade().await?;
            }
            Event::Said(Word::Leaving) => {}
            Event::Said(Word::CantServe { why }) => {
                if let Some(process) = self.processes.get_mut(&number) {
                    process.trouble = Some(why);
                }
            }
            Event::Said(Word::Listen { listen }) => self.listen(number, listen).await,
            Event::Said(Word::UpgradeWanted) => self.upgrade().await?,
            Event::Said(Word::StopWanted) => {
                if self.stop().await {
                    return Ok(Some(SupervisorExit::Stopped));
                }
            }
            Event::Said(word) => tracing::warn!(?word, "a serving process said something else"),
            Event::Kept { listen, kept } => self.note_kept(number, listen, kept).await,
            Event::Gone(code) => return self.note_gone(number, code).await,
        }
        Ok(None)
    }

    fn note_ready(&mut self, number: Number, pid: u32, forms: Forms) {
        if self.coming.is_none_or(|(coming, _)| coming != number) {
            return;
        }
        tracing::info!(pid, "serves");
        self.coming = None;
        self.serving = Some(number);
        if let Some(process) = self.processes.get_mut(&number) {
            process.since = Instant::now();
            process.forms = forms;
        }
        let configured = self.sockets.as_ref().map(Sockets::listens).unwrap_or_default();
        (self.plan.serving)(&[configured, self.listed.listens()].concat());
        self.has_served = true;
        systemd::notify("READY=1");
    }

    async fn note_gone(
        &mut self,
        number: Number,
        code: Option<i32>,
    ) -> Result<Option<SupervisorExit>, HoldError> {
        let gone = self.processes.remove(&number);
        if let Some(pid) = gone.as_ref().and_then(|process| process.pid) {
            handover_socket::clear(&self.plan.control, pid);
        }
        self.note_parted(number);
        if self.is_stopping {
            let is_over = self.processes.is_empty();
            if is_over {
                // Should somebody have put the rules back meanwhile.
                self.send_none_here(false).await;
            }
            return Ok(is_over.then_some(SupervisorExit::Stopped));
        }
        if self.coming.is_some_and(|(coming, _)| coming == number) {
            self.coming = None;
            if !self.has_served {
                self.send_none_here(false).await;
                return Ok(Some(SupervisorExit::NeverServed(code)));
            }
            let how = code.map_or_else(|| "killed".to_owned(), |code| format!("with code {code}"));
            let why = gone.and_then(|process| process.trouble).map_or_else(
                || format!("the new process ended before it served, {how}; its log says why"),
                |trouble| format!("the new process can't serve: {trouble}"),
            );
            self.note_failed_start(&why).await;
        } else if self.serving == Some(number) {
            tracing::error!(?code, "the serving process has ended; another one is started");
            self.serving = None;
            let lived = gone.map_or(Duration::ZERO, |process| process.since.elapsed());
            self.early_ends = if lived < SHORT_LIFE { self.early_ends + 1 } else { 0 };
            self.start_after_rest().await;
        }
        Ok(None)
    }

    /// Another one serves, which is told; or nobody does, and it is tried again.
    async fn note_failed_start(&mut self, why: &str) {
        tracing::error!("{why}");
        if let Some(serving) = self.serving.and_then(|number| self.processes.get(&number)) {
            let _ = serving.speaking.say(&Word::UpgradeFailed { why: why.to_owned() }, &[]).await;
            // It goes on, perhaps from before this supervisor and its list.
            self.tell_addresses().await;
        } else {
            self.early_ends += 1;
            self.start_after_rest().await;
        }
    }

    async fn start_after_rest(&mut self) {
        if self.coming.is_some() {
            return;
        }
        let rest = match self.early_ends {
            0..=2 => Duration::ZERO,
            many => FIRST_REST.saturating_mul(1 << (many - 3).min(10)).min(LONGEST_REST),
        };
        self.start_at = Some(Instant::now() + rest);
        if !rest.is_zero() {
            self.send_none_here(false).await;
        }
        if rest >= LONG_REST {
            self.leave_to_others().await;
        }
    }

    /// Has no further connections to others' ports come here; those that are here go on, unless all ends `at_once`. An agent puts the rules for
    /// that back once it finds them gone and somebody serves. True: some may have come until now.
    async fn send_none_here(&self, at_once: bool) -> bool {
        let Some(nft) = &self.plan.nft else { return false };
        let listed = match nftables::listed(nft).await {
            Ok(Some(listed)) => listed,
            Ok(None) => return false,
            Err(error) => {
                tracing::error!("whether calls are still sent here from others' ports isn't known: {error}");
                return false;
            }
        };
        let ports = nftables::leads_to(&listed);
        let is_ours = |port: &u16| self.listed.form().listen.iter().any(|form| form.address.port() == *port);
        if !ports.is_empty() && !ports.iter().any(is_ours) {
            // They lead to another proxy of this network.
            return false;
        }
        let ends = at_once || self.processes.is_empty();
        let text = if ends { nftables::removal() } else { nftables::table(|_| String::new()) };
        if let Err(error) = nftables::put(nft, text).await {
            tracing::error!(
                "calls may still be sent here from others' ports, where nobody takes them: {error}"
            );
        } else if ends && let Err(error) = nftables::forget_flows(None) {
            tracing::error!(%error, "datagrams of flows that are there may still be sent here from others' ports");
        }
        !ports.is_empty()
    }

    async fn give_up_coming(&mut self) {
        let Some((number, _)) = self.coming.take() else { return };
        // It is known until it has ended, so that its door is taken away then.
        if let Some(process) = self.processes.get_mut(&number) {
            let _ = process.speaking.say(&Word::End, &[]).await;
            process.kill.take().map(|kill| kill.send(()));
        }
        let why = format!("the new process did not serve within {} seconds", START.as_secs());
        self.note_failed_start(&why).await;
    }

    /// Has another process take over, of the program that is on disk now.
    async fn upgrade(&mut self) -> Result<(), HoldError> {
        if self.coming.is_some() || self.is_stopping {
            return Ok(());
        }
        if let Some(renewing) = &mut self.renewing {
            renewing.start = true;
            return Ok(());
        }
        if self.has_to_wait() {
            self.start_at = Some(Instant::now());
            return Ok(());
        }
        self.start().await
    }

    /// Whether no process is to be started yet: while the supervisor is renewed; and, as long as another one serves, while a list is
    /// written, whose addresses it would not have.
    fn has_to_wait(&self) -> bool {
        self.renewing.is_some() || (self.is_keeping && self.serving.is_some())
    }

    /// Gives the sockets up and has everything end; true if nothing is left.
    async fn stop(&mut self) -> bool {
        self.is_stopping = true;
        self.renewing = None;
        self.start_at = None;
        self.coming = None;
        systemd::notify("STOPPING=1");
        let _ = std::fs::remove_file(&self.plan.control);
        // First, lest anybody is sent here who isn't taken any more; whoever is on the way still is.
        if self.send_none_here(false).await {
            sleep(nftables::HANDSHAKE).await;
        }
        self.sockets = None;
        self.listed.close();
        self.listen_again_at = None;
        self.say_to_all(&Word::Stop).await;
        self.processes.is_empty()
    }

    async fn say_to_all(&self, word: &Word) {
        for process in self.processes.values() {
            let _ = process.speaking.say(word, &[]).await;
        }
    }
}
