//! Shadow traffic: copies of calls that the stable version answered go to another version, whose answers are compared and never
//! returned.
//!
//! Invariants, which `tests/proxy/shadow.rs` asserts:
//!
//! 1. Only GET, HEAD and OPTIONS without a body are copied, and only once their callers have the whole answer. A copy carries
//!    `X-Choirmaster-Shadow: 1`, which no call does.
//! 2. No caller waits for a copy. A thread has a bounded number of them, each version a part of that; what finds no place is dropped,
//!    and counted. Of an answer no more is read than is compared, a piece at a time.
//! 3. A copy holds no version. So a version is drained whatever its copies do, and these are cut once no table asks for them.
//! 4. Copies are no calls of the split: they are counted apart, take no place of the version and leave no connection in its pool.
//!
//! Deliberately not here: versions that speak HTTP/2, since that is for gRPC, all calls of which are POSTs.

mod compare;
mod send;
mod watch;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    sync::{Arc, Weak},
};

use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use traffic::Failure;

use self::compare::Content;
pub(crate) use self::{compare::Likeness, watch::Watch};
use crate::{
    count::{CopyEnd, Counts, VersionCounts},
    head::RequestSummary,
    live::{Target, Version},
    pool,
    stream::ToVersion,
    worker::Worker,
};

/// Copies that a thread has, under way and waiting, whatever version they are for.
const MOST: usize = 256;
/// Copies that a thread makes at once of the calls of a service.
const AT_ONCE: usize = 4;
/// Copies that wait for one of these to end.
const WAITING: usize = 16;

/// Which calls of a service a thread copies, and where to.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// Of the calls that can be copied, in units of 0.01 %.
    share: u16,
    /// Of the version that gets the copies, under the shares of the table.
    counted: Rc<VersionCounts>,
    sender: Rc<Sender>,
}

/// What a thread sends to a version that shadows.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Which version it is; it isn't held.
    version: Weak<Version>,
    targets: Box<[Target]>,
    next_target: Cell<usize>,
    waiting: RefCell<VecDeque<Copied>>,
    tasks: RefCell<JoinSet<()>>,
    is_over: Cell<bool>,
}

/// A call that was answered and is to be copied.
#[derive(Debug)]
struct Copied {
    head: Vec<u8>,
    asked: RequestSummary,
    /// What the stable version answered.
    status: u16,
    content: Content,
    counted: Rc<VersionCounts>,
    _place: Place,
}

/// A place among the copies of a thread, given back when dropped.
#[derive(Debug)]
struct Place(Rc<Cell<usize>>);

impl Shadow {
    pub(crate) fn new(share: u16, counted: &Rc<VersionCounts>, sender: Rc<Sender>) -> Self {
        Self { share, counted: Rc::clone(counted), sender }
    }

    pub(crate) fn sender(&self) -> &Rc<Sender> {
        &self.sender
    }

    /// Whether a call of this method is to be copied, which is drawn.
    pub(crate) fn wants(&self, method: &str) -> bool {
        matches!(method, "GET" | "HEAD" | "OPTIONS") && fastrand::u16(..traffic::BUCKETS) < self.share
    }

    /// Copies a call that was answered with this status, if there is a place for it.
    pub(crate) fn copy(&self, watch: Watch, status: u16, worker: &Rc<Worker>) {
        let Some(place) = self.sender.place(worker) else {
            return worker.counts().note_copy(&self.counted, CopyEnd::Dropped);
        };
        let (head, asked, content) = watch.finish();
        let counted = Rc::clone(&self.counted);
        self.sender.start(Copied { head, asked, status, content, counted, _place: place }, worker);
    }
}

impl Sender {
    pub(crate) fn new(version: &Arc<Version>) -> Rc<Self> {
        Rc::new(Self {
            version: Arc::downgrade(version),
            targets: version.targets().into(),
            next_target: Cell::new(0),
            waiting: RefCell::default(),
            tasks: RefCell::default(),
            is_over: Cell::new(false),
        })
    }

    pub(crate) fn sends_to(&self, version: &Arc<Version>) -> bool {
        std::ptr::eq(self.version.as_ptr(), Arc::as_ptr(version))
    }

    /// Cuts what is under way and drops what waits: nobody asks for it any more.
    pub(crate) fn cut(&self, counts: &Counts) {
        self.is_over.set(true);
        self.tasks.borrow_mut().abort_all();
        for copied in self.waiting.take() {
            counts.note_copy(&copied.counted, CopyEnd::Dropped);
        }
    }

    fn place(&self, worker: &Worker) -> Option<Place> {
        let tasks = &mut *self.tasks.borrow_mut();
        while tasks.try_join_next().is_some() {}
        let is_free = tasks.len() < AT_ONCE || self.waiting.borrow().len() < WAITING;
        let copies = worker.copies();
        let is_one = is_free && !self.is_over.get() && !worker.is_draining() && copies.get() < MOST;
        is_one.then(|| {
            copies.set(copies.get() + 1);
            Place(Rc::clone(copies))
        })
    }

    fn start(self: &Rc<Self>, copied: Copied, worker: &Rc<Worker>) {
        let tasks = &mut *self.tasks.borrow_mut();
        if tasks.len() < AT_ONCE {
            tasks.spawn_local(Rc::clone(self).send_all(copied, Rc::clone(worker)));
        } else {
            self.waiting.borrow_mut().push_back(copied);
        }
    }

    /// Makes a copy, and those that wait after it.
    async fn send_all(self: Rc<Self>, first: Copied, worker: Rc<Worker>) {
        let mut next = Some(first);
        let mut line = None;
        while let Some(copied) = next {
            line = self.send(&copied, line, &worker).await;
            drop(copied);
            next = self.waiting.borrow_mut().pop_front();
        }
    }

    /// Makes a copy, compares and counts. Gives the connection where it can take a further one.
    async fn send(&self, copied: &Copied, line: Option<ToVersion>, worker: &Worker) -> Option<ToVersion> {
        let counting = Counting { counts: worker.counts(), copied, is_over: false };
        let began = Instant::now();
        // However little comes at a time: nobody waits for it, so it may take no longer than a call's first byte.
        let answered = timeout(worker.limits().first_byte, self.attempt(copied, line, worker)).await;
        match answered.unwrap_or(Err(Failure::TimedOut)) {
            Ok(answer) => {
                let took = answer.read_at.duration_since(began);
                let likeness =
                    compare::likeness((copied.status, &copied.content), (answer.status, &answer.content));
                counting.end(CopyEnd::Answered { status: answer.status, likeness, took });
                answer.again
            }
            Err(failure) => {
                counting.end(CopyEnd::Failed(failure));
                None
            }
        }
    }

    /// Over the connection that is there, or else over a new one to the target whose turn it is, or to one after it.
    async fn attempt(
        &self,
        copied: &Copied,
        line: Option<ToVersion>,
        worker: &Worker,
    ) -> Result<send::Answer, Failure> {
        if let Some(line) = line {
            match send::exchange(line, copied, worker.buffers()).await {
                Err(missed) if missed.nothing_came => {}
                ended => return ended.map_err(|missed| missed.failure),
            }
        }
        let first = self.next_target.get();
        self.next_target.set((first + 1) % self.targets.len());
        for at in 0..self.targets.len() {
            let target = &self.targets[(first + at) % self.targets.len()];
            if let Ok(line) = pool::connect(target, worker.limits()).await {
                let ended = send::exchange(line, copied, worker.buffers()).await;
                return ended.map_err(|missed| missed.failure);
            }
        }
        Err(Failure::Refused)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A copy that is made, counted also if it is cut.
struct Counting<'c> {
    counts: &'c Counts,
    copied: &'c Copied,
    is_over: bool,
}

impl Counting<'_> {
    fn end(mut self, end: CopyEnd) {
        self.is_over = true;
        self.counts.note_copy(&self.copied.counted, end);
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.counts.note_copy(&self.copied.counted, CopyEnd::Cut);
        }
    }
}
