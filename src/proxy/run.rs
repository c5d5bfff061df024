//! A serving process: takes the sockets from its supervisor, the table from the process before it or from the disk, and serves until
//! another one takes over or the end is asked for.
//!
//! What takes over does so in this order, so that at each moment somebody takes connections and exactly one changes the table:
//! the process before is frozen (its control takes no further connection and its table stays), the table that it has is put in
//! force here, connections are taken here, the process before is told to finish, the control is opened here. Whoever dies in
//! between leaves the other one serving: a frozen process goes on when the connection over which it was frozen ends.

mod lists;
mod moved;
mod receiving;
mod signals;

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, UnixListener, UnixStream},
    task::JoinSet,
};

pub(crate) use self::signals::Signals;
use self::{lists::GivenList, receiving::Receiving};
use crate::{
    Kind, Limits, Measuring, Proxy, Tls, TlsFault, TlsFiles,
    control::{
        self,
        control_handler::{ControlHandler, Finish, Phase},
        counting,
    },
    form::{ListenForm, TableForm},
    handover::{self, Forms, HandoverError, Listening, Speaking, Word},
    handover_socket::{Door, Neighbour},
    listens,
    live::TableFault,
    proxy_protocol::Network,
    sockets::{Socket, Sockets},
    table_file::{LoadedTable, TableFile},
};

/// How a serving process is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    pub control: PathBuf,
    /// The folder in which the table is kept.
    pub state: PathBuf,
    pub threads: usize,
    pub limits: Limits,
    pub measuring: Measuring,
    /// What callers of TLS are shown. Needed where the supervisor gives sockets for them.
    pub tls: Option<TlsFiles>,
    /// Whose connections begin with a PROXY header.
    pub headers_from: Vec<Network>,
    /// Lists may have addresses that other programs have as well.
    pub shares: bool,
    /// How long calls and idle connections may take to end when the proxy stops.
    pub stop_within: Duration,
    /// How long they may when another process has taken over.
    pub finish_within: Duration,
    /// The version of the program.
    pub program: &'static str,
}

/// How a serving process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeExit {
    /// With nothing left to do.
    Finished,
    /// With so many connections left when the time was over.
    LeftBehind(usize),
    /// At once, since it was told so twice.
    AtOnce,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the state folder {path} can't be used: {source}")]
    State { path: PathBuf, source: io::Error },
    #[error("this process is started by `choirmaster proxy` alone: {0}")]
    Link(HandoverError),
    #[error("process {pid} can't be taken over from: {source}")]
    Before { pid: u32, source: HandoverError },
    #[error("the table of the process before isn't taken: {0}")]
    Table(TableFault),
    #[error(transparent)]
    Tls(#[from] TlsFault),
    #[error("callers of {address} speak TLS, and no certificate is named: set tls.certificate and tls.key")]
    NoCertificate { address: SocketAddr },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The process before, frozen: it goes on if this is dropped.
struct Frozen {
    neighbour: Neighbour,
    listening: Listening,
    speaking: Speaking,
    table: TableForm,
}

/// Serves until the end. `link` leads to the supervisor.
pub async fn serve(mut settings: Settings, link: StdUnixStream) -> Result<ServeExit, RunError> {
    link.set_nonblocking(true)?;
    let (mut from_holder, to_holder) = handover::ends(UnixStream::from_std(link)?);
    let signals = Signals::new()?;
    let started = match take_over(&mut settings, &mut from_holder).await {
        Ok(started) => started,
        Err(error) => {
            let _ = to_holder.say(&Word::CantServe { why: error.to_string() }, &[]).await;
            return Err(error);
        }
    };
    let Started { handler, sockets, forms, links, door, mut tasks } = started;
    let ready = Word::Ready { pid: std::process::id(), forms: Some(Forms::OURS) };
    let _ = to_holder.say(&ready, &[]).await;
    handler.set_holder(to_holder, forms).await;

    let (lists, to_follow) = tokio::sync::mpsc::unbounded_channel();
    tasks.spawn(lists::follow(to_follow, Arc::clone(&handler), Arc::clone(&sockets)));
    let link = Link { from_holder: Some(from_holder), links };
    let ended = Running { settings, handler, sockets, signals, link, lists }.until_the_end().await;
    drop(tasks);
    drop(door);
    Ok(ended)
}

/// A process that serves from now on.
struct Started {
    handler: Arc<ControlHandler>,
    sockets: Shared,
    /// What the supervisor understands.
    forms: Forms,
    links: tokio::sync::mpsc::UnboundedReceiver<NewHolder>,
    door: Door,
    /// What it does beside calls, until this is dropped.
    tasks: JoinSet<()>,
}

/// Takes the sockets from the supervisor, and the place of the process before.
async fn take_over(settings: &mut Settings, from_holder: &mut Listening) -> Result<Started, RunError> {
    let Given { forms, mut sockets, control, listen } = given(from_holder).await.map_err(RunError::Link)?;
    if let Some(control) = control {
        settings.control = control;
    }
    let settings = &*settings;
    let tls = tls(settings, &mut sockets, &listen)?;
    let state = |source| RunError::State { path: settings.state.clone(), source };
    let kept = TableFile::open(&settings.state).map_err(state)?;
    let (mut before, mut finishing) = freeze_before(&settings.control).await?;

    let proxy = Proxy::start_measuring(settings.threads, settings.limits.clone(), &settings.measuring)?;
    proxy.expect_headers_from(&settings.headers_from);
    let handler =
        ControlHandler::new(proxy, &settings.state, sockets.listens(), settings.program).map_err(state)?;
    let handler = Arc::new(handler);
    handler.begin_with(listen, tls);
    if settings.shares {
        handler.note_shared(sockets.lent());
    }
    match before.first() {
        Some(before) => handler.follow(&before.table).await.map_err(RunError::Table)?,
        None => load(&kept, &handler).await.map_err(state)?,
    }
    let mut tasks = JoinSet::new();
    let (door, door_socket) = Door::open(&settings.control)?;
    let (new_links, links) = tokio::sync::mpsc::unbounded_channel();
    let (control, metrics, datagrams) = listen_on(&sockets, &handler)?;
    // Whoever asks for the sockets has a copy; those for datagrams are needed here in a moment.
    let datagrams: Vec<UdpSocket> =
        datagrams.into_iter().map(UdpSocket::try_clone).collect::<io::Result<_>>()?;
    let sockets = Arc::new(std::sync::Mutex::new(Some(sockets)));
    let receiving =
        Receiving { handler: Arc::clone(&handler), sockets: Arc::clone(&sockets), links: new_links };
    tasks.spawn(receiving.run(door_socket));
    let mut all = Vec::new();
    let mut flows = Vec::new();
    for before in before.drain(..) {
        all.push(before.let_finish(&handler, &mut flows).await?);
    }
    for before in finishing.drain(..) {
        counting::take_ledger_of(&before, &handler).await;
        if let Ok(Some((mut listening, speaking))) = before.connect().await {
            flows.extend(moved::take((&mut listening, &speaking), before.pid).await);
        }
        all.push(before);
    }
    // Nobody else reads them any more.
    for socket in &datagrams {
        let at = socket.local_addr()?;
        let own = flows.extract_if(.., |(form, _)| form.listen == at).collect();
        handler.proxy().listen_udp_with(socket, own)?;
    }
    for before in &all {
        tasks.spawn(counting::gather(before.clone(), Arc::clone(&handler)));
    }
    handler.proxy().collector().call_metrics().cut_short(|pid| all.iter().any(|before| before.pid == pid));
    handler.follows(all);
    // Whoever asks for an upgrade from now on waits until the supervisor knows of this process.
    handler.await_holder().await;
    handler.open();
    tasks.spawn(control::serve(control, Arc::clone(&handler)));
    for metrics in metrics {
        tasks.spawn(control::expose(metrics, Arc::clone(&handler)));
    }
    Ok(Started { handler, sockets, forms, links, door, tasks })
}

/// What callers of TLS are shown, if any come: also at addresses that are opened later. Without that no calls of theirs are taken at
/// addresses of the list, which is no reason not to serve; the configuration names none without it.
fn tls(settings: &Settings, sockets: &mut Sockets, list: &ListenForm) -> Result<Option<Arc<Tls>>, RunError> {
    if let Some(files) = settings.tls.clone() {
        return Ok(Some(Tls::load(files)?));
    }
    let of_list = listens::addresses(list);
    let secured = sockets.open.extract_if(.., |open| open.kind == Kind::Tls);
    for listen in secured.filter_map(|open| open.listen()) {
        if !of_list.contains(&listen) {
            return Err(RunError::NoCertificate { address: listen.address });
        }
        tracing::warn!(
            "callers of {listen} speak TLS, and no certificate is named: nothing is taken there until a process has tls.certificate and \
             tls.key"
        );
    }
    Ok(None)
}

/// What the supervisor gives to a process that it started.
struct Given {
    forms: Forms,
    sockets: Sockets,
    /// Where the control's is, whatever the configuration says by now.
    control: Option<PathBuf>,
    listen: ListenForm,
}

async fn given(from_holder: &mut Listening) -> Result<Given, HandoverError> {
    match from_holder.answer().await? {
        (Word::Serve { forms, sockets, control, listen }, descriptors) => {
            Forms::OURS.agree(forms)?;
            Ok(Given { forms, sockets: Sockets::from_named(sockets, descriptors)?, control, listen })
        }
        (word, _) => Err(word.unexpected()),
    }
}

/// Freezes who serves, and finds who finishes.
async fn freeze_before(control: &Path) -> Result<(Vec<Frozen>, Vec<Neighbour>), RunError> {
    let (mut frozen, mut finishing) = (Vec::new(), Vec::new());
    for neighbour in Neighbour::all(control)? {
        let before = |source| RunError::Before { pid: neighbour.pid, source };
        let Some((mut listening, speaking)) = neighbour.connect().await.map_err(before)? else { continue };
        let asked = Word::Freeze { forms: Forms::OURS };
        match handover::ask((&mut listening, &speaking), &asked).await.map_err(before)? {
            Some((Word::Frozen { forms, table }, _)) => {
                Forms::OURS.agree(forms).map_err(before)?;
                frozen.push(Frozen { neighbour, listening, speaking, table });
            }
            Some((Word::Finishing { .. }, _)) => finishing.push(neighbour),
            Some((word, _)) => return Err(before(word.unexpected())),
            None => {}
        }
    }
    // Should there be several, the one with the newest table is followed.
    frozen.sort_by_key(|frozen| std::cmp::Reverse((frozen.table.epoch, frozen.table.generation)));
    Ok((frozen, finishing))
}

impl Frozen {
    async fn let_finish(
        mut self,
        handler: &ControlHandler,
        flows: &mut Vec<moved::MovedFlow>,
    ) -> Result<Neighbour, RunError> {
        let before = |source| RunError::Before { pid: self.neighbour.pid, source };
        let finish = Word::Finish { counts: true };
        match handover::ask((&mut self.listening, &self.speaking), &finish).await.map_err(before)? {
            Some((Word::Done, _)) => {
                // First, since datagrams wait until then.
                flows.extend(moved::take((&mut self.listening, &self.speaking), self.neighbour.pid).await);
                let ends = (&mut self.listening, &self.speaking);
                counting::take_ledger(ends, self.neighbour.pid, handler).await;
            }
            None => {}
            Some((word, _)) => return Err(before(word.unexpected())),
        }
        Ok(self.neighbour)
    }
}

/// Puts the table that is on disk in force. A damaged one is put aside.
async fn load(kept: &TableFile, handler: &ControlHandler) -> io::Result<()> {
    match kept.load()? {
        LoadedTable::Nothing => {
            tracing::info!("no table is kept: every call is answered with 404 until there is one");
        }
        LoadedTable::Damaged { why, aside } => report_damaged(&why, &aside),
        LoadedTable::Table(table) => {
            if let Err(fault) = handler.follow(&table).await {
                report_damaged(&fault.to_string(), &kept.put_aside()?);
            }
        }
    }
    Ok(())
}

fn report_damaged(why: &str, aside: &Path) {
    tracing::error!(
        "the table on disk can't be used: {why}. It was put aside as {}; every call is answered with 404 until there is \
         another table",
        aside.display()
    );
}

type Shared = Arc<std::sync::Mutex<Option<Sockets>>>;

/// The control's socket, those for metrics, and those for datagrams.
type Rest<'s> = (UnixListener, Vec<TcpListener>, Vec<&'s UdpSocket>);

/// Takes connections from the sockets, and gives the others.
fn listen_on<'s>(sockets: &'s Sockets, handler: &ControlHandler) -> Result<Rest<'s>, RunError> {
    let (mut metrics, mut datagrams) = (Vec::new(), Vec::new());
    for open in &sockets.open {
        match (&open.socket, open.kind) {
            (Socket::Udp(socket), _) => datagrams.push(socket),
            (Socket::Tcp(socket), Kind::Metrics) => {
                let socket = socket.try_clone()?;
                socket.set_nonblocking(true)?;
                metrics.push(TcpListener::from_std(socket)?);
            }
            (Socket::Tcp(_), _) => handler.listen_at(open)?,
        }
    }
    let control = sockets.control.try_clone()?;
    control.set_nonblocking(true)?;
    Ok((UnixListener::from_std(control)?, metrics, datagrams))
}

/// The connection to the supervisor, and those of supervisors to come.
struct Link {
    from_holder: Option<Listening>,
    links: tokio::sync::mpsc::UnboundedReceiver<NewHolder>,
}

/// A connection to another supervisor, and what that understands.
struct NewHolder {
    listening: Listening,
    speaking: Speaking,
    forms: Forms,
}

/// What a serving process hears.
enum Heard {
    /// With the sockets that came along.
    Holder(Option<(Word, Vec<OwnedFd>)>),
    NewHolder(NewHolder),
    Signal,
    Finish(Finish),
    Drained(usize),
}

struct Running {
    settings: Settings,
    handler: Arc<ControlHandler>,
    sockets: Shared,
    signals: Signals,
    link: Link,
    /// Where lists of addresses are followed.
    lists: tokio::sync::mpsc::UnboundedSender<GivenList>,
}

type Draining = Pin<Box<dyn Future<Output = usize> + Send>>;

impl Running {
    async fn until_the_end(mut self) -> ServeExit {
        let mut draining: Option<Draining> = None;
        let mut finish = self.handler.is_to_finish();
        let mut signals = 0;
        loop {
            match self.hear(&mut draining, &mut finish).await {
                Heard::Holder(Some((word, sockets))) => {
                    if self.obey(word, sockets).await {
                        return ServeExit::AtOnce;
                    }
                }
                Heard::Holder(None) => {
                    self.link.from_holder = None;
                    self.handler.holder_ended().await;
                }
                Heard::NewHolder(NewHolder { listening, speaking, forms }) => {
                    self.link.from_holder = Some(listening);
                    self.handler.set_holder(speaking, forms).await;
                }
                Heard::Signal => {
                    signals += 1;
                    if signals > 1 {
                        return ServeExit::AtOnce;
                    }
                    tracing::info!("draining; a second signal ends at once");
                    let mut why = Finish::Replaced;
                    if self.handler.phase().await != Phase::Finishing {
                        let told = self.handler.tell_holder(&Word::Leaving).await;
                        self.handler.counting().expect(told.is_ok());
                        if told.is_ok() {
                            // First, lest an address is opened behind that.
                            self.handler.leave_to_others().await;
                            // What comes waits for the process that is started now.
                            self.handler.proxy().stop_taking().await;
                        } else {
                            why = Finish::Stop;
                        }
                    }
                    self.handler.finish(why).await;
                }
                Heard::Finish(why) => draining = Some(self.drain(why)),
                Heard::Drained(0) => return ServeExit::Finished,
                Heard::Drained(left) => return ServeExit::LeftBehind(left),
            }
        }
    }

    /// Does what the supervisor says; true where that is to end at once.
    async fn obey(&self, word: Word, sockets: Vec<OwnedFd>) -> bool {
        match word {
            Word::Stop => {
                // Nobody comes after this one.
                self.handler.counting().note_taken();
                self.handler.finish(Finish::Stop).await;
            }
            Word::End => return true,
            Word::Renewing => self.handler.expect_holder().await,
            Word::Stays => self.handler.holder_stays().await,
            Word::UpgradeFailed { why } => self.handler.note_upgrade(Some(why)),
            Word::Listening { listen: list, sockets: names } => {
                let _ = self.lists.send(GivenList { list, names, sockets });
            }
            Word::NotListening { listen, fault } => self.handler.note_list(&listen, Err(fault)),
            word => tracing::warn!(?word, "the holder said something else"),
        }
        false
    }

    async fn hear(
        &mut self,
        draining: &mut Option<Draining>,
        finish: &mut tokio::sync::watch::Receiver<Option<Finish>>,
    ) -> Heard {
        let from_holder = async {
            match &mut self.link.from_holder {
                Some(supervisor) => supervisor.next().await,
                None => std::future::pending().await,
            }
        };
        let drained = async {
            match draining {
                Some(draining) => draining.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            word = from_holder => match word {
                Ok(word) => Heard::Holder(word),
                Err(error) => {
                    tracing::warn!(%error, "what the holder says can't be read");
                    Heard::Holder(None)
                }
            },
            Some(new) = self.link.links.recv() => Heard::NewHolder(new),
            () = self.signals.next() => Heard::Signal,
            Ok(()) = finish.changed() => match *finish.borrow_and_update() {
                Some(why) => Heard::Finish(why),
                None => Heard::Drained(0),
            },
            left = drained => Heard::Drained(left),
        }
    }

    /// Takes nothing more, and waits until all that is there has ended.
    fn drain(&self, why: Finish) -> Draining {
        *self.sockets.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
        let within = match why {
            Finish::HandedOver => self.settings.finish_within,
            Finish::Replaced | Finish::Stop => self.settings.stop_within,
        };
        let handler = Arc::clone(&self.handler);
        Box::pin(async move {
            let left = handler.proxy().end(why == Finish::Stop, within).await;
            handler.counting().end(handler.proxy()).await;
            left
        })
    }
}
