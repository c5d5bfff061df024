//! A serving process as its supervisor sees it.

use std::{path::Path, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process, waitpid},
};
use tokio::{
    process::Child,
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};

use crate::{
    form::ListenForm,
    handover::{Listening, PATIENCE, Word},
    handover_socket,
    listed::Change,
    listens::ListenFault,
};

/// How often it is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Number of a process, in the order in which this supervisor got to know it.
pub(super) type Number = u64;

/// What happened.
pub(super) enum Event {
    Said(Word),
    /// It is gone, with the code with which it ended where that is known.
    Gone(Option<i32>),
    /// A list for which it asked is on disk, and can be put in force; or why not.
    Kept {
        listen: ListenForm,
        kept: Result<Change, ListenFault>,
    },
}

/// Whose child it is.
pub(super) enum Ours {
    /// This supervisor started it.
    Child(Child),
    /// Perhaps it did before it became the program that it is now; perhaps another one did.
    Perhaps(u32),
}

impl Ours {
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Child(child) => child.id(),
            Self::Perhaps(pid) => Some(*pid),
        }
    }
}

/// Passes on what a process says, and its end. What is given back kills it, where it is a child.
pub(super) fn listen(
    number: Number,
    mut listening: Listening,
    ours: Ours,
    events: mpsc::UnboundedSender<(Number, Event)>,
) -> oneshot::Sender<()> {
    let (kill, mut killed) = oneshot::channel();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                next = listening.next() => match next {
                    Ok(Some((word, _))) => drop(events.send((number, Event::Said(word)))),
                    Ok(None) | Err(_) => break,
                },
                _ = &mut killed => break,
            }
        }
        let code = match ours {
            Ours::Child(child) => code_of(child).await,
            Ours::Perhaps(pid) => code_of_pid(pid).await,
        };
        let _ = events.send((number, Event::Gone(code)));
    });
    kill
}

/// The code with which a process ends that has closed its link, or is to be killed.
async fn code_of(mut child: Child) -> Option<i32> {
    match timeout(PATIENCE, child.wait()).await {
        Ok(status) => status.ok()?.code(),
        // Nobody could tell it anything any more.
        Err(_) => child.kill().await.ok().and(None),
    }
}

/// The same of a process that is known by its pid alone. One that is no child of this process is left alone; a child's pid is
/// its own until it was waited for.
async fn code_of_pid(pid: u32) -> Option<i32> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let until = Instant::now() + PATIENCE;
    let mut is_killed = false;
    loop {
        match waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => return status.exit_status(),
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        if !is_killed && Instant::now() >= until {
            is_killed = true;
            let _ = kill_process(pid, Signal::KILL);
        }
        sleep(LOOK).await;
    }
}

/// Waits for children that have ended meanwhile, so that nothing is left of them.
pub(super) fn reap(control: &Path, pids: impl Iterator<Item = u32>) {
    for pid in pids {
        let control = control.to_owned();
        tokio::spawn(async move {
            code_of_pid(pid).await;
            handover_socket::clear(&control, pid);
        });
    }
}
