//! On which addresses a process listens, and how that changes while it serves.
//!
//! The owner of the sockets decides about a list: the supervisor, which is asked, and answers with all sockets that there are then; or,
//! where there never was one, this process. What came in at an address that is closed goes on, as `listen_address` says.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{Arc, Mutex as StdMutex, MutexGuard, OnceLock, PoisonError},
};

use tokio::{
    sync::{Mutex, oneshot},
    time::timeout,
};

use super::{
    control_handler::{ControlHandler, Phase, Refused},
    form::{AddressStatus, ListenStatus, TableNumber},
};
use crate::{
    Kind, Listen, Proxy, Socket, Tls,
    form::{AddressForm, AddressKind, ListenForm},
    handover::{HandoverError, PATIENCE, Word},
    listed::Listed,
    listens::{self, ListenFault},
    shared::Sharing,
    sockets::{Open, Sockets},
    worker::Incoming,
};

/// Why callers of TLS can't be served.
const NO_CERTIFICATE: &str = "no certificate is named: set tls.certificate and tls.key";

/// Where a process takes what comes in.
#[derive(Debug)]
pub(super) struct Addresses {
    current: StdMutex<Current>,
    /// What callers of TLS are shown, if any may come.
    tls: OnceLock<Arc<Tls>>,
    /// Where sockets listen that were lent; none: lists may have no address that another program has.
    lent: OnceLock<Vec<SocketAddr>>,
    /// One list at a time, and none while it is asked who else has an address.
    pub(super) turn: Mutex<()>,
    /// The list about which the supervisor was asked.
    asked: StdMutex<Option<Asked>>,
    /// The folder of the list, and the sockets of it, where this process holds them itself.
    state: PathBuf,
    own: Mutex<Option<Listed>>,
}

#[derive(Debug)]
struct Current {
    listening: Vec<Listen>,
    /// The list in force.
    list: ListenForm,
    /// Addresses that were closed. Perhaps something that came in there goes on.
    closing: Vec<AddressForm>,
}

#[derive(Debug)]
struct Asked {
    list: ListenForm,
    answer: oneshot::Sender<Result<(), ListenFault>>,
}

fn lock<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Addresses {
    pub(super) fn new(state: &Path, listening: Vec<Listen>) -> Self {
        let current = Current { listening, list: ListenForm::default(), closing: Vec::new() };
        Self {
            current: StdMutex::new(current),
            tls: OnceLock::new(),
            lent: OnceLock::new(),
            turn: Mutex::default(),
            asked: StdMutex::default(),
            state: state.to_owned(),
            own: Mutex::default(),
        }
    }

    /// On which it is listened.
    pub(super) fn listening(&self) -> Vec<Listen> {
        lock(&self.current).listening.clone()
    }

    /// Where sockets listen that were lent; none: lists may have no address that another program has.
    pub(super) fn lent(&self) -> Option<&[SocketAddr]> {
        self.lent.get().map(Vec::as_slice)
    }

    /// All at which a service may be: on which it is listened or is to be, and those that were closed while something that came in
    /// there goes on.
    pub(super) fn known(&self, proxy: &Proxy) -> Vec<Listen> {
        let current = lock(&self.current);
        let closing = current.closing.iter().copied().filter(|form| proxy.left_at(*form) > 0);
        let closing = closing.map(Listen::from);
        current.listening.iter().copied().chain(listens::addresses(&current.list)).chain(closing).collect()
    }

    fn note_closed(&self, listen: Listen) {
        let mut current = lock(&self.current);
        current.listening.retain(|other| *other != listen);
        if let Some(form) = form_of(listen)
            && !current.closing.contains(&form)
        {
            current.closing.push(form);
        }
    }

    /// Nobody answers any more to the list about which was asked.
    pub(super) fn forget_list(&self) {
        *lock(&self.asked) = None;
    }
}

impl ControlHandler {
    /// The list that is in force when this process begins, and what callers of TLS are shown.
    pub(crate) fn begin_with(&self, list: ListenForm, tls: Option<Arc<Tls>>) {
        lock(&self.addresses.current).list = listens::in_order(list);
        if let Some(tls) = tls {
            let _ = self.addresses.tls.set(tls);
        }
    }

    /// Lists may have addresses that other programs have as well. `lent`: where sockets of these listen that were lent.
    pub(crate) fn note_shared(&self, lent: Vec<SocketAddr>) {
        let _ = self.addresses.lent.set(lent);
    }

    /// The same, by these sockets, where no supervisor has any. Said before it is listened.
    ///
    /// # Errors
    ///
    /// The list on disk can't be read, or a socket isn't there.
    pub async fn share(&self, lent: Vec<TcpListener>) -> io::Result<()> {
        let open = |socket: TcpListener| {
            let asked = socket.local_addr()?.to_string();
            Ok(Open { kind: Kind::Lent, asked, socket: Socket::Tcp(socket) })
        };
        let lent = lent.into_iter().map(open).collect::<io::Result<Vec<_>>>()?;
        self.note_shared(lent.iter().filter_map(|open| Some(open.listen()?.address)).collect());
        let mut listed = Listed::load(&self.addresses.state)?;
        listed.share(lent);
        *self.addresses.own.lock().await = Some(listed);
        Ok(())
    }

    /// The list in force, and what it has come to.
    pub async fn listen_status(&self) -> ListenStatus {
        let elsewhere = self.left_elsewhere().await;
        let mut current = lock(&self.addresses.current);
        current.closing.retain(|form| self.proxy.left_at(*form) > 0);
        let here = current.closing.iter().map(|form| status(*form, self.proxy.left_at(*form)));
        let mut closing: Vec<AddressStatus> = here.collect();
        for left in elsewhere {
            match closing.iter_mut().find(|known| known.form() == left.form()) {
                Some(known) => known.connections += left.connections,
                None => closing.push(left),
            }
        }
        let mut missing = listens::missing(&current.list, &current.listening);
        missing.extend(self.proxy.deaf());
        ListenStatus { list: current.list.clone(), missing, closing }
    }

    pub(super) fn list_number(&self) -> TableNumber {
        let current = lock(&self.addresses.current);
        TableNumber { epoch: current.list.epoch, generation: current.list.generation }
    }

    /// What there is of what came in at each address.
    pub(super) fn accepted(&self) -> Vec<AddressStatus> {
        self.proxy.accepted().into_iter().map(|(form, left)| status(form, left)).collect()
    }

    /// What goes on in processes that handed over, of what came in at addresses at which this one doesn't listen.
    pub(super) async fn left_elsewhere(&self) -> Vec<AddressStatus> {
        let (finishing, _) = self.ask_finishing().await;
        let listening = self.addresses.listening();
        let left = finishing.into_iter().flat_map(|process| process.addresses);
        left.filter(|left| !listening.contains(&Listen::from(left.form()))).collect()
    }

    /// Puts a list of addresses in force: first on disk, then everywhere. The same again changes nothing.
    pub async fn change_addresses(&self, list: ListenForm) -> Result<ListenStatus, Refused> {
        let _turn = self.addresses.turn.lock().await;
        if self.phase().await != Phase::Serving {
            return Err(Refused::HandsOver);
        }
        let list = listens::in_order(list);
        self.check_here(&list)?;
        if self.holds_itself().await {
            self.put_itself(list).await?;
        } else {
            self.ask_supervisor(list).await?;
        }
        Ok(self.listen_status().await)
    }

    /// Opens the addresses of the list that is on disk, where no supervisor does so. Gives what can't be opened.
    pub async fn listen_again(&self) -> io::Result<Vec<ListenFault>> {
        let configured = self.addresses.listening();
        let shared = self.addresses.own.lock().await.take();
        let mut listed = shared.map_or_else(|| Listed::load(&self.addresses.state), Ok)?;
        let (_, mut faults) = listed.open_missing(&configured);
        lock(&self.addresses.current).list = listed.form().clone();
        faults.extend(self.listen_on_new(listed.open()).err());
        *self.addresses.own.lock().await = Some(listed);
        Ok(faults)
    }

    /// What no one but this process knows.
    fn check_here(&self, list: &ListenForm) -> Result<(), ListenFault> {
        for &form in &list.listen {
            let listen = Listen::from(form);
            // One of the list before may have had a certificate then, and keeps nobody from changing the others.
            let is_listed = lock(&self.addresses.current).list.listen.contains(&form);
            if form.kind == AddressKind::Https && !is_listed && self.addresses.tls.get().is_none() {
                return Err(ListenFault::invalid(format!(
                    "callers of {listen} speak TLS, and {NO_CERTIFICATE}"
                )));
            }
            let is_listened = lock(&self.addresses.current).listening.iter().any(|own| own.is_at(&listen));
            let left = self.proxy.left_at(form);
            if form.kind == AddressKind::Udp && !is_listened && left > 0 {
                return Err(ListenFault::conflict(format!(
                    "{listen} was closed, and its socket stays as long as flows go on that began there, of which there are {left}: ask \
                     again once they have ended"
                )));
            }
        }
        Ok(())
    }

    async fn ask_supervisor(&self, list: ListenForm) -> Result<(), ListenFault> {
        let (answer, answered) = oneshot::channel();
        *lock(&self.addresses.asked) = Some(Asked { list: list.clone(), answer });
        self.tell_holder(&Word::Listen { listen: list }).await.map_err(|error| match error {
            HandoverError::NoLists => ListenFault::conflict(error.to_string()),
            error if error.is_end() => ListenFault::conflict(
                "no process holds the listening sockets, so nobody can open or close any: run `choirmaster proxy` again, which \
                 takes them over",
            ),
            _ => ListenFault::busy(),
        })?;
        match timeout(PATIENCE, answered).await {
            Ok(Ok(answer)) => answer,
            // It ended, or has much to do. Whether it put the list in force shows when it is asked again.
            Ok(Err(_)) | Err(_) => Err(ListenFault::busy()),
        }
    }

    /// The supervisor has answered about a list, and what it says was done.
    pub(crate) fn note_list(&self, list: &ListenForm, answer: Result<(), ListenFault>) {
        let asked = lock(&self.addresses.asked).take_if(|asked| asked.list == *list);
        let unheard = match asked {
            Some(asked) => asked.answer.send(answer).err(),
            None => Some(answer),
        };
        if let Some(Err(fault)) = unheard {
            tracing::error!(%fault, "addresses of the list are not listened on");
        }
    }

    /// Takes what comes in at those of these sockets that are of the list, and at no others of the list before. `shared`: those of this
    /// process, for the next supervisor.
    pub(crate) async fn take_sockets(
        &self,
        list: ListenForm,
        given: Sockets,
        shared: &StdMutex<Option<Sockets>>,
    ) -> Result<(), ListenFault> {
        // Also while another process is about to take over: it has the same sockets, and this one may go on.
        let phase = self.phase.lock().await;
        let before = listens::addresses(&lock(&self.addresses.current).list);
        let (new, gone) = match &mut *lock(shared) {
            Some(own) if *phase != Phase::Finishing => {
                own.exchange(given, &before, &listens::addresses(&list))
            }
            Some(_) | None => return Err(ListenFault::busy()),
        };
        lock(&self.addresses.current).list = listens::in_order(list);
        let closed: Vec<Listen> = gone.iter().filter_map(Open::listen).collect();
        // Here first, so that the socket is closed by whoever takes what waits there.
        drop(gone);
        self.close(&closed).await;
        let done = self.listen_on_new(&new);
        if let Some(own) = &mut *lock(shared) {
            let listening = self.addresses.listening();
            let is_listened = |open: &Open| open.listen().is_some_and(|listen| listening.contains(&listen));
            own.open.extend(new.into_iter().filter(is_listened));
        }
        drop(phase);
        done.map_err(ListenFault::not_yet)
    }

    /// Puts a list in force where this process owns the sockets.
    async fn put_itself(&self, list: ListenForm) -> Result<(), ListenFault> {
        let phase = self.phase.lock().await;
        if *phase != Phase::Serving {
            return Err(ListenFault::busy());
        }
        let mut own = self.addresses.own.lock().await;
        if own.is_none() {
            let loaded = Listed::load(&self.addresses.state);
            *own = Some(loaded.map_err(|error| ListenFault::not_kept(&error))?);
        }
        let Some(listed) = own.as_mut() else { return Err(ListenFault::busy()) };
        let of_list = listed.listens();
        let mut configured = self.addresses.listening();
        configured.retain(|listen| !of_list.contains(listen));
        let change = listed.prepare(list, &configured)?.kept().await?;
        let gone = listed.put_in_force(change);
        lock(&self.addresses.current).list = listed.form().clone();
        let closed: Vec<Listen> = gone.iter().filter_map(Open::listen).collect();
        drop(gone);
        self.close(&closed).await;
        let done = self.listen_on_new(listed.open());
        drop(phase);
        done.map_err(ListenFault::not_yet)
    }

    /// Takes nothing more at these addresses.
    async fn close(&self, closed: &[Listen]) {
        let forms: Vec<AddressForm> = closed.iter().copied().filter_map(form_of).collect();
        self.proxy.close(&forms).await;
        // Only now: whoever looked before would find nothing left, while others may still come in.
        for &listen in closed {
            self.addresses.note_closed(listen);
            tracing::info!(%listen, "nothing more is taken");
        }
    }

    /// Takes what comes in at those of these sockets at which it didn't. Gives the first at which it can't; the others are tried. Those of
    /// callers of TLS are passed over without a certificate: they are left from when there was one.
    fn listen_on_new(&self, open: &[Open]) -> Result<(), ListenFault> {
        let mut done = Ok(());
        for open in open {
            let Some(listen) = open.listen() else { continue };
            let has_no_certificate = open.kind == Kind::Tls && self.addresses.tls.get().is_none();
            if has_no_certificate || lock(&self.addresses.current).listening.contains(&listen) {
                continue;
            }
            match self.listen_at(open) {
                Ok(()) => {
                    lock(&self.addresses.current).listening.push(listen);
                    tracing::info!(%listen, "it is listened");
                }
                Err(error) => {
                    let fault = ListenFault::of_system(listen, &error);
                    tracing::error!("{fault}");
                    done = done.and(Err(fault));
                }
            }
        }
        done
    }

    /// Takes connections or datagrams from a socket.
    pub(crate) fn listen_at(&self, open: &Open) -> io::Result<()> {
        let socket = match &open.socket {
            Socket::Tcp(socket) => socket,
            Socket::Udp(socket) => return self.proxy.listen_udp(socket).map(drop),
        };
        let incoming = match (open.kind, self.addresses.tls.get()) {
            (Kind::Plain, _) => Incoming::Calls,
            (Kind::Tls, Some(tls)) => Incoming::Secured(Arc::clone(tls)),
            // Never calls that were to be secured without it.
            (Kind::Tls, None) => return Err(io::Error::other(NO_CERTIFICATE)),
            (Kind::Tcp, _) => Incoming::Tcp,
            (Kind::PassThrough, _) => Incoming::Named,
            (Kind::Metrics | Kind::Udp | Kind::Lent, _) => return Ok(()),
        };
        let sharing = |listen| listens::sharing(&lock(&self.addresses.current).list, listen);
        let sharing = open.listen().map_or(Sharing::Alone, sharing);
        self.proxy.take(socket, &incoming, sharing).map(drop)
    }
}

fn status(AddressForm { kind, address }: AddressForm, connections: usize) -> AddressStatus {
    AddressStatus { kind, address, connections }
}

/// An address as a list has it; none of those that no list has.
fn form_of(Listen { kind, address }: Listen) -> Option<AddressForm> {
    let kind = match kind {
        Kind::Plain => AddressKind::Http,
        Kind::Tls => AddressKind::Https,
        Kind::Tcp => AddressKind::Tcp,
        Kind::PassThrough => AddressKind::Tls,
        Kind::Udp => AddressKind::Udp,
        Kind::Metrics | Kind::Lent => return None,
    };
    Some(AddressForm { kind, address })
}
