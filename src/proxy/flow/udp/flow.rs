use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use rustix::net::SendFlags;
use tokio::{net::UdpSocket, sync::Notify, time::Instant};

use call_metrics::Key;

use crate::{count::Course, mark};

/// Datagrams of a flow that are kept until its target answers, or until it has one.
const KEPT: usize = 16;
/// Their bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// What comes from one caller.
#[derive(Debug)]
pub(super) struct Flow {
    pub caller: SocketAddr,
    /// Something moved.
    last: Cell<Instant>,
    placed_at: Cell<Instant>,
    /// Bytes to the target, and to the caller.
    pub passed: Cell<(u64, u64)>,
    line: RefCell<Line>,
    /// Whether anything came back.
    pub is_answered: Cell<bool>,
    /// Where it goes, once it is known.
    pub course: RefCell<Option<Where>>,
    /// Something is said below.
    pub told: Notify,
    pub ending: Cell<Option<Ending>>,
    pub is_refused: Cell<bool>,
    /// It was, and there is nobody else.
    pub was_refused: Cell<bool>,
}

/// Where a flow goes, and how it is counted.
#[derive(Debug, Clone)]
pub(super) struct Where {
    pub key: Arc<Key>,
    pub course: Course,
    pub group: Option<u8>,
    pub began: Instant,
    /// The variation that has it, and its version.
    pub variation: Box<str>,
    pub version: Box<str>,
    pub target: String,
}

/// Why a flow is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Another one needs its place.
    Evicted,
    /// It goes on in another process.
    Given,
}

/// The way to the target.
#[derive(Debug)]
enum Line {
    /// There is none yet.
    Waiting(Kept),
    /// `kept`: what was sent, as long as it may be sent to another one.
    Open { socket: Rc<UdpSocket>, kept: Option<Kept> },
}

/// The first datagrams, as far as there is room for them.
#[derive(Debug, Default)]
struct Kept {
    datagrams: VecDeque<Bytes>,
    bytes: usize,
}

impl Kept {
    fn keep(&mut self, datagram: &[u8]) -> bool {
        let has_room = self.datagrams.len() < KEPT && self.bytes + datagram.len() <= KEPT_BYTES;
        if has_room {
            self.bytes += datagram.len();
            self.datagrams.push_back(Bytes::copy_from_slice(datagram));
        }
        has_room
    }
}

impl Flow {
    pub(super) fn new(caller: SocketAddr) -> Self {
        let now = Instant::now();
        Self {
            caller,
            last: Cell::new(now),
            placed_at: Cell::new(now),
            passed: Cell::default(),
            line: RefCell::new(Line::Waiting(Kept::default())),
            is_answered: Cell::new(false),
            course: RefCell::default(),
            told: Notify::new(),
            ending: Cell::new(None),
            is_refused: Cell::new(false),
            was_refused: Cell::new(false),
        }
    }

    pub(super) fn last(&self) -> Instant {
        self.last.get()
    }

    /// It moved at that time, which isn't before any other at which it did.
    pub(super) fn moved_at(&self, at: Instant) {
        self.last.set(at);
    }

    pub(super) fn placed_at(&self) -> Instant {
        self.placed_at.get()
    }

    pub(super) fn place_at(&self, at: Instant) {
        self.placed_at.set(at);
    }

    /// It is to end.
    pub(super) fn end(&self, why: Ending) {
        self.ending.set(Some(why));
        self.told.notify_one();
    }

    /// Sends a datagram to the target, now or once there is one; false where it is dropped.
    pub(super) fn send(&self, datagram: &[u8]) -> bool {
        self.last.set(Instant::now());
        match &mut *self.line.borrow_mut() {
            Line::Waiting(kept) => kept.keep(datagram),
            Line::Open { socket, kept } => {
                let is_kept = kept.as_mut().is_some_and(|kept| kept.keep(datagram));
                self.send_over(socket, datagram) || is_kept
            }
        }
    }

    fn send_over(&self, socket: &UdpSocket, datagram: &[u8]) -> bool {
        let send = || rustix::net::send(socket, datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let mut sent = send();
        if let Err(rustix::io::Errno::CONNREFUSED) = sent {
            // That was said of one before; this one wasn't sent.
            self.is_refused.set(true);
            self.told.notify_one();
            sent = send();
        }
        if sent.is_ok() {
            let (up, down) = self.passed.get();
            self.passed.set((up + datagram.len() as u64, down));
        }
        sent.is_ok()
    }

    /// From now on it goes over this socket, and so does what was kept. `keeps`: it may yet go elsewhere. Gives how many datagrams
    /// were dropped.
    pub(super) fn open(&self, socket: &Rc<UdpSocket>, keeps: bool) -> usize {
        let line = std::mem::replace(&mut *self.line.borrow_mut(), Line::Waiting(Kept::default()));
        let kept = match line {
            Line::Waiting(kept) => kept,
            Line::Open { kept, .. } => kept.unwrap_or_default(),
        };
        let dropped = kept.datagrams.iter().filter(|datagram| !self.send_over(socket, datagram)).count();
        let kept = keeps.then_some(kept);
        *self.line.borrow_mut() = Line::Open { socket: Rc::clone(socket), kept };
        dropped
    }

    /// It goes nowhere else any more.
    pub(super) fn settle(&self) {
        if let Line::Open { kept, .. } = &mut *self.line.borrow_mut() {
            *kept = None;
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        matches!(&*self.line.borrow(), Line::Open { kept: None, .. })
    }

    /// The socket, once there is one.
    pub(super) fn socket(&self) -> Option<Rc<UdpSocket>> {
        match &*self.line.borrow() {
            Line::Waiting(_) => None,
            Line::Open { socket, .. } => Some(Rc::clone(socket)),
        }
    }
}

/// A socket of its own to a target.
pub(super) fn connected(target: SocketAddr, mark: Option<u32>) -> io::Result<UdpSocket> {
    let any: SocketAddr = match target {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    mark::set(&socket, mark)?;
    socket.connect(target)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
