//! Questions to managers below that wait for their answers.
//!
//! ```text
//! ask ─▶ kept here ─▶ the manager's long poll is woken ─▶ handed out with its answer ─▶ POST /answers ─▶ whoever asked
//! ```
//!
//! Invariants: nothing of it is stored; what nobody waits for any more is gone (a question lives as long as its
//! [`Asking`]); a question is answered only by the child that it was put to; while none is open a poll costs one look
//! at a counter. Deliberately not here: what is asked (`questions`), and the forms on the wire.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering, fence},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

use super::view::View;
use model::ChildKey;

/// Questions that may be open at once; more are not asked.
pub const MAX_OPEN: usize = 10_000;

/// Those of one child.
pub const MAX_OPEN_PER_CHILD: usize = 64;

/// A question that was handed out and not answered is handed out again after this long: the answer to a poll may have been
/// lost with its connection.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What a manager says: an answer, or why it has none.
pub type AnswerOrRefusal = Result<Value, String>;

/// A question as it is handed out.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionLease {
    pub id: String,
    pub kind: &'static str,
    /// Milliseconds that are left for the answer.
    pub within_ms: u64,
    pub body: Value,
}

/// Whether there is something to be handed out to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Now,
    /// If it is not answered by then.
    In(Duration),
    Nothing,
}

#[derive(Debug)]
struct Open {
    id: String,
    kind: &'static str,
    body: Value,
    /// Of the body, in bytes.
    size: usize,
    until: Instant,
    again_at: Option<Instant>,
    answer: oneshot::Sender<AnswerOrRefusal>,
}

impl Open {
    fn is_due(&self, now: Instant) -> bool {
        now < self.until && self.again_at.is_none_or(|at| at <= now)
    }
}

/// Questions that wait for their answers.
#[derive(Debug, Default)]
pub struct Questions {
    open: AtomicUsize,
    by_child: Mutex<HashMap<ChildKey, Vec<Open>>>,
    /// A release waits for what managers below say.
    pub wanted: Notify,
}

impl Questions {
    /// How many are open.
    pub fn count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether something is to be handed out to a child.
    pub fn next(&self, child: ChildKey) -> Next {
        if self.count() == 0 {
            return Next::Nothing;
        }
        let (by_child, now) = (self.lock(), Instant::now());
        let open = by_child.get(&child).map(Vec::as_slice).unwrap_or_default();
        if open.iter().any(|open| open.is_due(now)) {
            return Next::Now;
        }
        let again = open.iter().filter_map(|open| open.again_at.filter(|at| *at < open.until)).min();
        again.map_or(Next::Nothing, |at| Next::In(at.saturating_duration_since(now)))
    }

    /// What is to be handed out to a child now: at most `most`, of at most `bytes` together unless the first is larger.
    pub fn hand_out(&self, child: ChildKey, most: usize, bytes: usize) -> Vec<QuestionLease> {
        if self.count() == 0 {
            return Vec::new();
        }
        let (mut by_child, now, mut size) = (self.lock(), Instant::now(), 0);
        let open = by_child.get_mut(&child).map(Vec::as_mut_slice).unwrap_or_default();
        let mut handed = Vec::new();
        for open in open.iter_mut().filter(|open| open.is_due(now)) {
            size += open.size;
            if handed.len() >= most || (size > bytes && !handed.is_empty()) {
                break;
            }
            open.again_at = Some(now + AGAIN_AFTER);
            let within_ms = open.until.saturating_duration_since(now).as_millis() as u64;
            handed.push(QuestionLease {
                id: open.id.clone(),
                kind: open.kind,
                within_ms,
                body: open.body.clone(),
            });
        }
        handed
    }

    /// Takes an answer; false: this child was not asked that, or nobody waits for it any more.
    pub fn answered(&self, child: ChildKey, id: &str, said: AnswerOrRefusal) -> bool {
        let open = self.remove(child, id);
        open.is_some_and(|open| open.answer.send(said).is_ok())
    }

    fn put(&self, child: ChildKey, open: Open) -> bool {
        let mut by_child = self.lock();
        let of_child = by_child.entry(child).or_default();
        let is_room = of_child.len() < MAX_OPEN_PER_CHILD && self.count() < MAX_OPEN;
        if is_room {
            of_child.push(open);
            self.open.fetch_add(1, Ordering::Relaxed);
            // As for waiters: who registers after this reads the counter above.
            fence(Ordering::SeqCst);
        } else if of_child.is_empty() {
            by_child.remove(&child);
        }
        is_room
    }

    fn remove(&self, child: ChildKey, id: &str) -> Option<Open> {
        let mut by_child = self.lock();
        let of_child = by_child.get_mut(&child)?;
        let place = of_child.iter().position(|open| open.id == id)?;
        let open = of_child.swap_remove(place);
        if of_child.is_empty() {
            by_child.remove(&child);
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        Some(open)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ChildKey, Vec<Open>>> {
        self.by_child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that was put and not answered yet. Dropped, it is taken back.
#[derive(Debug)]
pub struct Asking {
    view: Arc<View>,
    child: ChildKey,
    id: String,
    until: Instant,
    answer: oneshot::Receiver<AnswerOrRefusal>,
}

impl Asking {
    /// Puts a question to a child: its kind and body. `None`: too many are open, or it has more than `limit` bytes.
    pub fn begin(
        view: &Arc<View>,
        child: ChildKey,
        (kind, body): (&'static str, Value),
        limit: usize,
        time: Duration,
    ) -> Option<Self> {
        let (sender, answer) = oneshot::channel();
        let id = format!("{:032x}", rand::random::<u128>());
        let until = Instant::now() + time;
        let size = body.to_string().len();
        let open = Open { id: id.clone(), kind, body, size, until, again_at: None, answer: sender };
        if size > limit || !view.questions.put(child, open) {
            return None;
        }
        let asking = Self { view: Arc::clone(view), child, id, until, answer };
        view.waiters.wake(child);
        Some(asking)
    }

    /// What it says; `None`: nothing in time.
    pub async fn answered(mut self) -> Option<AnswerOrRefusal> {
        timeout_at(self.until, &mut self.answer).await.ok()?.ok()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.view.questions.remove(self.child, &self.id);
    }
}
