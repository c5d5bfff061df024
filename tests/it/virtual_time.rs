//! Time that passes by turns, for managers and simulated agents in one process: a stage of minutes takes a moment, and however
//! slow the machine is, nobody is late.
//!
//! It moves on only when all managers have done what was due before and what the test asked them is answered, so that nothing depends
//! on how fast that was.

use std::{cell::RefCell, pin::pin, sync::mpsc, thread, time::Duration};

use engine::{Engine, clock::ClockSource};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{advance, pause},
};

use crate::deadline::DEADLINE;

/// By how much the clock is turned at once: far less than a lease lives.
const TURN: Duration = Duration::from_millis(20);

/// Real time for what is due after a turn: answers on their way, and the store's threads.
const BREATH: Duration = Duration::from_micros(500);

/// What has not been answered after so many breaths waits for time to pass.
const STUCK: u32 = 20_000;

/// When time begins, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_700_000_000_000;

#[derive(Debug)]
struct Turned {
    clock: ClockSource,
    managers: Vec<Engine>,
    /// Questions of the test that are not answered.
    asked: usize,
}

thread_local! {
    /// Of the test that this thread runs, with all of its runtime.
    static TURNED: RefCell<Option<Turned>> = const { RefCell::new(None) };
}

/// Until it is dropped, the time of a runtime with one thread passes by turns.
#[must_use]
pub struct VirtualTime {
    _held: mpsc::Sender<()>,
    turning: JoinHandle<()>,
}

impl VirtualTime {
    /// For all managers that are started from now on. Panics in a runtime with several threads.
    pub fn begin() -> Self {
        // While anything blocks, the runtime doesn't move its clock by itself.
        let (held, let_go) = mpsc::channel::<()>();
        spawn_blocking(move || {
            let _ = let_go.recv();
        });
        pause();
        let clock = ClockSource::runtime(BEGIN_MS);
        TURNED.set(Some(Turned { clock, managers: Vec::new(), asked: 0 }));
        Self { _held: held, turning: tokio::spawn(turn()) }
    }
}

impl Drop for VirtualTime {
    fn drop(&mut self) {
        self.turning.abort();
        TURNED.set(None);
    }
}

async fn turn() {
    loop {
        advance(TURN).await;
        breath().await;
        let mut answered = pin!(all_answered());
        for _ in 0..STUCK {
            tokio::select! {
                biased;
                () = &mut answered => break,
                () = breath() => {}
            }
        }
    }
}

async fn breath() {
    spawn_blocking(|| thread::sleep(BREATH)).await.unwrap();
}

/// Who asked a manager before this is answered.
async fn all_answered() {
    while TURNED.with_borrow(|turned| turned.as_ref().is_some_and(|turned| turned.asked > 0)) {
        breath().await;
    }
    let managers = TURNED.with_borrow(|turned| turned.as_ref().map(|turned| turned.managers.clone()));
    for manager in managers.unwrap_or_default() {
        let _ = manager.read(DEADLINE, |_| ()).await;
    }
}

/// What the test asks or starts: no time passes before it is dropped.
pub struct Question(());

impl Question {
    pub fn ask() -> Self {
        change(|turned| turned.asked += 1);
        Self(())
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        change(|turned| turned.asked -= 1);
    }
}

fn change(change: impl FnOnce(&mut Turned)) {
    TURNED.with_borrow_mut(|turned| turned.as_mut().map(change));
}

/// The clock of a manager that a test starts.
pub fn clock() -> ClockSource {
    TURNED.with_borrow(|turned| turned.as_ref().map(|turned| turned.clock)).unwrap_or_default()
}

/// Time waits for this manager, too.
pub fn wait_for(manager: &Engine) {
    change(|turned| turned.managers.push(manager.clone()));
}
