use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
    pin::pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rustix::net::SendFlags;
use tokio::{
    io::Interest,
    net::UdpSocket,
    task::{JoinHandle, spawn_local},
    time::{Instant, sleep, sleep_until},
};
use traffic::Failure;

use super::{
    flow::{Ending, Flow, Where, connected},
    flow_handover::{AdoptedFlow, FlowForm},
    flows::Flows,
};
use crate::{
    caller::Caller,
    count::{CallCount, Outcome, Unserved, VersionCounts},
    decide::RoutingDecision,
    flow::{
        begin::{Begun, begin},
        retired::retired,
    },
    listen_address::{Accepted, ListenAddress},
    live::{LocalVersion, Place, Served, Target, Transport},
    worker::Worker,
};

/// The most bytes of a datagram.
const ROOM: usize = 64 * 1024;
/// How many answers are passed on before others get their turn.
const AT_ONCE: usize = 32;
/// How many datagrams that wait are taken before a socket is closed.
const MOST_WAITING: usize = 10_000;
/// How long reading rests when it can't go on.
const REST: Duration = Duration::from_millis(20);

/// A listening socket with its flows. It belongs to one thread.
pub(crate) struct Listener {
    worker: Rc<Worker>,
    socket: UdpSocket,
    here: SocketAddr,
    flows: RefCell<Flows>,
    reading: RefCell<Option<JoinHandle<()>>>,
    /// For answers, which are passed on at once.
    room: RefCell<Vec<u8>>,
}

/// What happened to a flow.
enum Event {
    /// The first answer came.
    Answered,
    /// None came, and the target would have refused by now.
    Settled,
    Refused,
    Idle,
    Retired,
    Told(Ending),
}

/// A flow that has a target.
struct Open {
    socket: Rc<UdpSocket>,
    version: Rc<LocalVersion>,
    /// None where a flow that was taken over finds none free.
    _place: Option<Place>,
}

impl Listener {
    /// Takes datagrams from now on, after the flows that were there already.
    pub(crate) fn start(
        worker: &Rc<Worker>,
        socket: std::net::UdpSocket,
        flows: Vec<AdoptedFlow>,
    ) -> io::Result<Rc<Self>> {
        socket.set_nonblocking(true)?;
        let here = socket.local_addr()?;
        let listener = Rc::new(Self {
            worker: Rc::clone(worker),
            socket: UdpSocket::from_std(socket)?,
            here,
            flows: RefCell::default(),
            reading: RefCell::default(),
            room: RefCell::new(vec![0; ROOM]),
        });
        for taken in flows {
            listener.go_on(taken);
        }
        let reading = spawn_local(Rc::clone(&listener).read());
        *listener.reading.borrow_mut() = Some(reading);
        Ok(listener)
    }

    /// Whether it is the one of this socket.
    pub(crate) fn is_of(&self, address: &Arc<ListenAddress>) -> bool {
        self.worker.is_of(address)
    }

    /// Whether no other flow begins: it is closed with its last one.
    pub(crate) fn is_closing(&self) -> bool {
        self.worker.address().is_closed()
    }

    pub(crate) fn has_flows(&self) -> bool {
        self.flows.borrow().len() > 0
    }

    /// Reads no more: another process is about to. Flows go on, as far as answers come.
    pub(crate) fn stop_reading(&self) {
        if let Some(reading) = self.reading.borrow_mut().take() {
            reading.abort();
        }
    }

    /// The same, and waits until nobody reads.
    pub(crate) async fn stopped(&self) {
        let reading = self.reading.borrow_mut().take();
        if let Some(reading) = reading {
            reading.abort();
            let _ = reading.await;
        }
    }

    /// Takes the datagrams that wait.
    pub(crate) fn take_waiting(self: &Rc<Self>) {
        let Ok(socket) = self.socket.as_fd().try_clone_to_owned().map(std::net::UdpSocket::from) else {
            return;
        };
        let mut room = vec![0; ROOM];
        // Others may come all the while.
        for _ in 0..MOST_WAITING {
            let Ok((length, caller)) = socket.recv_from(&mut room) else { return };
            self.take(caller, &room[..length]);
        }
    }

    /// Gives all flows to another process. They end here, and are not counted.
    pub(crate) fn give(&self) -> Vec<(FlowForm, OwnedFd)> {
        self.stop_reading();
        let mut given = Vec::new();
        for flow in self.flows.borrow_mut().take_all() {
            let socket = flow.socket().and_then(|socket| socket.as_fd().try_clone_to_owned().ok());
            if let Some((form, socket)) = FlowForm::of(&flow, self.here).zip(socket) {
                given.push((form, socket));
                flow.end(Ending::Given);
            } else {
                // It never had a target, or no descriptor is left.
                flow.end(Ending::Evicted);
            }
        }
        given
    }

    async fn read(self: Rc<Self>) {
        let mut room = vec![0; ROOM];
        loop {
            match self.socket.recv_from(&mut room).await {
                Ok((length, caller)) => self.take(caller, &room[..length]),
                Err(error) => {
                    tracing::warn!(%error, "datagrams can't be read for now");
                    sleep(REST).await;
                }
            }
        }
    }

    /// A datagram came.
    fn take(self: &Rc<Self>, caller: SocketAddr, datagram: &[u8]) {
        let known = self.flows.borrow().get(caller).cloned();
        if let Some(flow) = known {
            if !flow.send(datagram) {
                self.note_dropped(1);
            }
            return;
        }
        if self.worker.local().table().of_port(Transport::Udp, self.here.port()).is_none() {
            self.worker.counts().note_unserved(Unserved::NoService);
            return;
        }
        if self.worker.is_draining() {
            return self.note_dropped(1);
        }
        let flow = Rc::new(Flow::new(caller));
        flow.send(datagram);
        self.insert(&flow);
        spawn_local(Rc::clone(self).run(flow, OfFlows::new(&self.worker)));
    }

    fn insert(&self, flow: &Rc<Flow>) {
        let mut flows = self.flows.borrow_mut();
        if flows.len() >= self.worker.limits().udp_flows
            && let Some(oldest) = flows.take_oldest()
        {
            oldest.end(Ending::Evicted);
        }
        flows.insert(Rc::clone(flow));
    }

    fn note_dropped(&self, datagrams: usize) {
        self.worker.crew().datagrams_dropped.fetch_add(datagrams as u64, Ordering::Relaxed);
    }

    /// Carries a flow from its first datagram to the end.
    async fn run(self: Rc<Self>, flow: Rc<Flow>, counted: OfFlows) {
        let worker = Rc::clone(&self.worker);
        let local = worker.local();
        let Some(service) = local.table().of_port(Transport::Udp, self.here.port()) else {
            return self.flows.borrow_mut().remove(&flow);
        };
        let caller = Caller::of(flow.caller, self.here);
        let Begun { service, decided, mut count } = begin(&local, service, &caller, &worker);
        drop(local);
        let mut served = Rc::clone(decided.begin(&mut count));
        let mut decided = Some(decided);
        let mut open = None;
        let outcome = loop {
            let reached = match open.take() {
                Some(open) => Ok(open),
                None => self.reach(&flow, &served, (&mut count, decided.as_ref())),
            };
            let event = match reached {
                Ok(reached) => {
                    let event = self.exchange(&flow, &reached, &service).await;
                    open = Some(reached);
                    event
                }
                Err(why) => {
                    let stable = stable_instead(decided.as_ref(), &mut count, &served);
                    let Some(stable) = stable else {
                        let shared = served.version.shared();
                        let is_base = served.variation.is_stable();
                        Worker::report_failure(shared, is_base, Failure::Refused, &why);
                        break Some(Outcome::Failed(Failure::Refused));
                    };
                    served = stable;
                    continue;
                }
            };
            match event {
                Event::Answered | Event::Settled => {
                    // From here on it holds the version that has it, and no other.
                    flow.settle();
                    if let Some(decided) = decided.take() {
                        decided.note_attempt(&served, false);
                    }
                }
                Event::Refused => match stable_instead(decided.as_ref(), &mut count, &served) {
                    Some(stable) => (served, open) = (stable, None),
                    None => flow.was_refused.set(true),
                },
                ended @ (Event::Idle | Event::Retired | Event::Told(_)) => {
                    break outcome(&ended, &flow, &count);
                }
            }
        };
        self.flows.borrow_mut().remove(&flow);
        end(count, &flow, outcome);
        drop(counted);
    }

    /// Goes on with a flow of a process that handed over.
    fn go_on(self: &Rc<Self>, AdoptedFlow { form, socket, version }: AdoptedFlow) {
        let socket = UdpSocket::from_std(std::net::UdpSocket::from(socket));
        let socket = match socket {
            Ok(socket) => Rc::new(socket),
            Err(error) => {
                return tracing::warn!(%error, "a flow that was taken over has no socket that can be used");
            }
        };
        let (flow, at) = form.flow();
        let flow = Rc::new(flow);
        flow.open(&socket, false);
        *flow.course.borrow_mut() = Some(at.clone());
        self.insert(&flow);
        let version = Rc::new(LocalVersion::new(&version, self.worker.pools()));
        let place = Place::take_flow_now(&version, self.worker.limits());
        let open = Open { socket, version, _place: place };
        let listener = Rc::clone(self);
        let service = form.names().0.to_owned();
        let counted = OfFlows::new(&self.worker);
        spawn_local(async move {
            let worker = Rc::clone(&listener.worker);
            let line = worker.flow_line();
            let mut count = worker.counts().begin(&VersionCounts::new_of(&at.key), at.group, at.began, line);
            count.follow(at.course);
            let outcome = loop {
                let event = listener.exchange(&flow, &open, &service).await;
                match event {
                    Event::Answered | Event::Settled | Event::Refused => {}
                    Event::Idle | Event::Retired | Event::Told(_) => break outcome(&event, &flow, &count),
                }
            };
            listener.flows.borrow_mut().remove(&flow);
            end(count, &flow, outcome);
            drop(counted);
        });
    }

    /// Gives a flow a socket to one of a version's targets.
    fn reach(
        &self,
        flow: &Flow,
        served: &Rc<Served>,
        (count, decided): (&mut CallCount<'_>, Option<&RoutingDecision>),
    ) -> Result<Open, String> {
        let version = &served.version;
        let place = Place::take_flow_now(version, self.worker.limits()).ok_or("all its places are taken")?;
        let mut last_error = None;
        for at in version.targets_in_turn() {
            let target = &version.shared().targets()[at];
            let Target::Tcp(address) = target else { continue };
            match connected(*address, self.worker.limits().mark) {
                Ok(socket) => {
                    let socket = Rc::new(socket);
                    *flow.course.borrow_mut() = Some(Where {
                        key: count.key(),
                        course: count.course(),
                        group: count.group(),
                        began: count.began(),
                        variation: version.shared().name().into(),
                        version: version.shared().digest().into(),
                        target: target.to_string(),
                    });
                    let may_go_elsewhere = decided.is_some_and(|decided| decided.after(served).is_some());
                    self.note_dropped(flow.open(&socket, may_go_elsewhere));
                    return Ok(Open { socket, version: Rc::clone(version), _place: Some(place) });
                }
                Err(error) => last_error = Some(format!("{target}: {error}")),
            }
        }
        Err(last_error.unwrap_or_else(|| "it has no target".to_owned()))
    }

    /// Passes answers on, until something else happens.
    async fn exchange(&self, flow: &Flow, open: &Open, service: &str) -> Event {
        let limits = self.worker.limits();
        let mut retired = pin!(retired(&self.worker, service, open.version.shared()));
        let mut idle = pin!(sleep_until(flow.last() + limits.udp_idle));
        let mut settled = pin!(sleep(limits.connect));
        loop {
            tokio::select! {
                biased;
                () = flow.told.notified() => {
                    if let Some(why) = flow.ending.get() {
                        return Event::Told(why);
                    }
                    if flow.is_refused.take() && !flow.is_answered.get() {
                        return Event::Refused;
                    }
                }
                ready = open.socket.readable() => if let Some(event) = self.pass_answers(flow, open, ready).await {
                    return event;
                },
                // It is said by itself, and not only to whoever reads.
                _ = open.socket.ready(Interest::ERROR) => if is_refused(&open.socket) && !flow.is_answered.get() {
                    return Event::Refused;
                },
                () = &mut settled, if !flow.is_settled() => return Event::Settled,
                () = &mut retired => return Event::Retired,
                () = &mut idle => {
                    let until = flow.last() + limits.udp_idle;
                    if Instant::now() >= until {
                        return Event::Idle;
                    }
                    idle.as_mut().reset(until);
                }
            }
        }
    }

    /// Passes on what came back.
    async fn pass_answers(&self, flow: &Flow, open: &Open, ready: io::Result<()>) -> Option<Event> {
        if ready.is_err() {
            return Some(Event::Refused);
        }
        for _ in 0..AT_ONCE {
            let mut room = self.room.borrow_mut();
            let length = match open.socket.try_recv(&mut room) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // It is said once, and the socket goes on.
                Err(_) if flow.is_answered.get() => return None,
                Err(_) => return Some(Event::Refused),
            };
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            if rustix::net::sendto(&self.socket, &room[..length], flags, &flow.caller).is_err() {
                self.note_dropped(1);
            }
            let (up, down) = flow.passed.get();
            flow.passed.set((up, down + length as u64));
            flow.moved_at(Instant::now());
            if !flow.is_answered.replace(true) {
                return Some(Event::Answered);
            }
        }
        // However many there are, others get their turn.
        tokio::task::yield_now().await;
        None
    }
}

/// Takes what was said of a socket, and whether that was anything.
fn is_refused(socket: &UdpSocket) -> bool {
    let said = socket.take_error();
    // From here on the next thing is waited for.
    let _ = socket.try_io(Interest::ERROR, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    !matches!(said, Ok(None))
}

/// Where a flow goes whose version can't be reached.
fn stable_instead(
    decided: Option<&RoutingDecision>,
    count: &mut CallCount<'_>,
    served: &Rc<Served>,
) -> Option<Rc<Served>> {
    let decided = decided?;
    decided.note_attempt(served, true);
    decided.repeat_on(count, served, Failure::Refused, true).cloned()
}

/// How a flow ended; none where it goes on elsewhere.
fn outcome(ended: &Event, flow: &Flow, count: &CallCount<'_>) -> Option<Outcome> {
    match ended {
        Event::Told(Ending::Given) => None,
        Event::Told(Ending::Evicted) | Event::Retired => Some(Outcome::Cut),
        _ if flow.was_refused.get() && !flow.is_answered.get() => Some(Outcome::Failed(Failure::Refused)),
        Event::Idle | Event::Answered | Event::Settled | Event::Refused => {
            Some(Outcome::Passed { took: flow.last().saturating_duration_since(count.began()) })
        }
    }
}

fn end(mut count: CallCount<'_>, flow: &Flow, outcome: Option<Outcome>) {
    let Some(outcome) = outcome else { return count.leave() };
    let (up, down) = flow.passed.get();
    count.pass(up, down);
    count.end(outcome, None);
}

/// A flow among those of the crew, until it is dropped.
struct OfFlows {
    worker: Rc<Worker>,
    _accepted: Accepted,
}

impl OfFlows {
    fn new(worker: &Rc<Worker>) -> Self {
        worker.crew().flows.fetch_add(1, Ordering::Relaxed);
        Self { worker: Rc::clone(worker), _accepted: worker.address().accept() }
    }
}

impl Drop for OfFlows {
    fn drop(&mut self) {
        self.worker.crew().flows.fetch_sub(1, Ordering::Relaxed);
    }
}
