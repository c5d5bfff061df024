//! What was counted goes from a process that hands over to the one that takes over; what goes where stands in `call-metrics/handover.rs`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::control_handler::{ControlHandler, Phase};
use crate::{
    Proxy,
    handover::{self, HandoverError, Listening, PATIENCE, Speaking, Word},
    handover_socket::Neighbour,
};
use call_metrics::{Cursor, HandedOver, Tail};

/// How long a question for a tail waits while there is none.
const WAIT: Duration = Duration::from_secs(1);

/// How far a process is that finishes, with what it counted.
#[derive(Debug)]
pub(crate) struct Counting {
    /// Another process is about to ask.
    expected: AtomicBool,
    /// Nothing more is counted.
    over: watch::Sender<bool>,
    /// The other process has all of it.
    taken: watch::Sender<bool>,
}

impl Default for Counting {
    fn default() -> Self {
        let expected = AtomicBool::new(false);
        Self { expected, over: watch::Sender::new(false), taken: watch::Sender::new(false) }
    }
}

impl Counting {
    /// Whether another process is about to ask for what was counted here.
    pub(crate) fn expect(&self, expected: bool) {
        self.expected.fetch_or(expected, Ordering::SeqCst);
    }

    /// The other process has all of it, or there is none.
    pub(crate) fn note_taken(&self) {
        self.taken.send_replace(true);
    }

    /// Nothing more is counted. Waits until what was is known to whoever took over, or that one doesn't ask.
    pub(crate) async fn end(&self, proxy: &Proxy) {
        self.over.send_replace(true);
        if !self.expected.load(Ordering::SeqCst) && !proxy.collector().call_metrics().is_left() {
            return;
        }
        let mut taken = self.taken.subscribe();
        if timeout(PATIENCE, taken.wait_for(|is_taken| *is_taken)).await.is_err() {
            tracing::warn!("nobody took what was counted here last; it is in no reading");
        }
    }

    /// What was counted after a cursor, at once or when there is something.
    async fn tail(&self, proxy: &Proxy, cursor: Option<Cursor>) -> Tail {
        let mut over = self.over.subscribe();
        let mut has_waited = false;
        loop {
            let is_over = *over.borrow_and_update();
            let mut tail = proxy.collector().tail(cursor).await;
            let is_empty = tail.reading.closed.is_empty();
            if is_over || has_waited || !is_empty {
                tail.is_last = is_over && is_empty;
                return tail;
            }
            has_waited = timeout(WAIT, over.changed()).await.is_err();
        }
    }
}

/// Gives all that was counted until now to whoever took over.
pub(crate) async fn give_ledger(speaking: &Speaking, handler: &ControlHandler) -> Result<(), HandoverError> {
    let collector = handler.proxy().collector();
    let why = match handler.phase().await {
        Phase::Finishing => match collector.leave(fastrand::u64(1..1 << 53)).await {
            Some(snapshot) => {
                let word = Word::Ledger { snapshot: Box::new(snapshot) };
                let said = speaking.say(&word, &[]).await;
                if let (Err(_), Word::Ledger { snapshot }) = (&said, word) {
                    collector.take_back(*snapshot);
                }
                return Ok(said?);
            }
            None => "another process has what was counted here",
        },
        Phase::Serving | Phase::Frozen => "this process doesn't finish: what it counted is its own",
    };
    Ok(speaking.say(&Word::Refused { why: why.to_owned() }, &[]).await?)
}

/// Gives what was counted since then.
pub(crate) async fn give_remainder(
    speaking: &Speaking,
    handler: &ControlHandler,
    cursor: Option<Cursor>,
) -> Result<(), HandoverError> {
    if !handler.proxy().collector().call_metrics().is_left() {
        let why = "all that was counted here is to be asked for first".to_owned();
        return Ok(speaking.say(&Word::Refused { why }, &[]).await?);
    }
    let tail = Box::new(handler.counting().tail(handler.proxy(), cursor).await);
    Ok(speaking.say(&Word::Counted { tail }, &[]).await?)
}

/// Takes all that a process counted that finishes. One that has nothing to give, or can't, begins a new life here.
pub(crate) async fn take_ledger(
    (listening, speaking): (&mut Listening, &Speaking),
    pid: u32,
    handler: &ControlHandler,
) {
    match handover::ask((listening, speaking), &Word::TakeLedger).await {
        Ok(Some((Word::Ledger { snapshot }, _))) => handler.proxy().collector().take_over(pid, *snapshot),
        Ok(Some((Word::Refused { why }, _))) => {
            tracing::debug!(why, pid, "what this process counted stays there");
        }
        answer => {
            let answer = answer.map(|answer| answer.map(|(word, _)| word.unexpected()));
            tracing::warn!(?answer, pid, "what this process counted is gone");
        }
    }
}

/// The same, where nobody speaks with it yet.
pub(crate) async fn take_ledger_of(neighbour: &Neighbour, handler: &ControlHandler) {
    match neighbour.connect().await {
        Ok(Some((mut listening, speaking))) => {
            take_ledger((&mut listening, &speaking), neighbour.pid, handler).await;
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, pid = neighbour.pid, "what this process counted is gone"),
    }
}

/// Counts here what a process counts while it finishes, until it ends.
pub(crate) async fn gather(neighbour: Neighbour, handler: Arc<ControlHandler>) {
    let collector = handler.proxy().collector();
    let mut link = None;
    loop {
        let (listening, speaking) = match &mut link {
            Some(link) => link,
            None => match neighbour.connect().await {
                Ok(Some(connected)) => link.insert(connected),
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, pid = neighbour.pid, "what this process counts can't be asked for now");
                    sleep(WAIT).await;
                    continue;
                }
            },
        };
        let cursor = collector.call_metrics().source(neighbour.pid);
        match handover::ask((listening, &*speaking), &Word::CountsSince { cursor }).await {
            Ok(Some((Word::Counted { tail }, _))) => {
                match collector.take_in((neighbour.pid, cursor), &tail) {
                    Ok(()) if tail.is_last => {
                        let _ = speaking.say(&Word::AllCounted, &[]).await;
                        return;
                    }
                    Ok(()) => {}
                    // Whoever took over from this process asks on.
                    Err(HandedOver) => return,
                }
            }
            // It knows nothing of this.
            Ok(Some((Word::Refused { .. }, _))) => return,
            Ok(Some(_)) | Err(_) => {
                link = None;
                sleep(WAIT).await;
            }
            Ok(None) => break,
        }
    }
    let mut call_metrics = collector.call_metrics();
    if !call_metrics.is_left() {
        call_metrics.cut_short(|pid| pid != neighbour.pid);
    }
}
