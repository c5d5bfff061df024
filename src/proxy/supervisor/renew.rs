//! A supervisor becomes the program that is on disk, without closing a socket.
//!
//! It does so once a process of that program serves, which shows that it can. The process stays the same (`exec`), with its pid,
//! its children and its terminal; what it holds goes along as descriptors behind a word that waits on its standard input. Before,
//! each process is told that the link ends and says no more there, so that nothing is lost on it; the next supervisor finds them by
//! their doors. A signal that would end the supervisor does so in the moments until the new program listens to signals, as a
//! SIGKILL would: the proxy serves on.

use std::{
    collections::HashSet,
    convert::Infallible,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{fs::MetadataExt as _, net::UnixStream as StdUnixStream, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{net::UnixStream, time::Instant};

use super::{Holder, process::Number};
use crate::{
    form::ListenForm,
    handover::{self, Forms, HandoverError, Word},
    sockets::Sockets,
};

/// Says to a program that it goes on as the supervisor that it was.
pub(super) const VARIABLE: &str = "CHOIRMASTER_HOLDER";
const RENEWED: &str = "renewed";

/// How long processes may take to say that they say no more. A program that doesn't know of this never does.
const PARTING: Duration = Duration::from_secs(1);

/// Whether this process was a supervisor before, and goes on as such.
#[must_use]
pub fn is_renewed() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == RENEWED)
}

/// A supervisor that is about to be renewed.
pub(super) struct Renewing {
    /// Processes that may still say something.
    waits_for: HashSet<Number>,
    until: Instant,
    /// Another process is to be started afterwards.
    pub start: bool,
}

impl Renewing {
    /// When to go on.
    pub(super) fn at(&self) -> Instant {
        if self.waits_for.is_empty() { Instant::now() } else { self.until }
    }
}

/// What this process held before.
pub(super) struct Before {
    pub sockets: Sockets,
    pub lock: File,
    pub control: PathBuf,
    pub children: Vec<u32>,
    pub start: bool,
    pub listen: Option<ListenForm>,
}

/// What this process held as another program; none where it held nothing, or that can't be read: then it begins like any other,
/// and takes the sockets from the process that serves.
pub(super) async fn before() -> Option<Before> {
    if !is_renewed() {
        return None;
    }
    match read().await {
        Ok(before) => Some(before),
        Err(error) => {
            tracing::warn!(%error, "what this holder held before can't be read: it is taken from the process that serves");
            None
        }
    }
}

async fn read() -> Result<Before, HandoverError> {
    let link = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    link.set_nonblocking(true)?;
    let (mut listening, _) = handover::ends(UnixStream::from_std(link)?);
    let (word, mut descriptors) = listening.answer().await?;
    let Word::Hold { forms, sockets, control, children, start, listen } = word else {
        return Err(word.unexpected());
    };
    Forms::OURS.agree(forms)?;
    let lock = descriptors.pop().ok_or_else(|| HandoverError::Unexpected("nothing of a lock".to_owned()))?;
    let sockets = Sockets::from_named(sockets, descriptors)?;
    Ok(Before { sockets, lock: lock.into(), control, children, start, listen })
}

/// Whether a program is another one than that of this process.
fn is_other(program: &Path) -> bool {
    let look = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino()));
    match (look(program), look(Path::new("/proc/self/exe"))) {
        (Ok(there), Ok(here)) => there != here,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

impl Holder {
    /// Tells all processes that their links end, if a process of another program serves.
    pub(super) async fn begin_to_renew(&mut self) {
        let is_wanted = is_other(Path::new((self.plan.again)().get_program()));
        if !is_wanted || self.is_changing() {
            return;
        }
        self.say_to_all(&Word::Renewing).await;
        let waits_for = self.processes.keys().copied().collect();
        self.renewing = Some(Renewing { waits_for, until: Instant::now() + PARTING, start: false });
    }

    /// A process says no more over its link.
    pub(super) fn note_parted(&mut self, number: Number) {
        if let Some(renewing) = &mut self.renewing {
            renewing.waits_for.remove(&number);
        }
    }

    /// Goes on as the program that is on disk; or as it is, if that can't be.
    pub(super) async fn renew(&mut self) {
        let Some(Renewing { start, .. }) = self.renewing.take() else { return };
        let Err(error) = self.become_another(start).await;
        tracing::error!(%error, "this holder can't go on as the program that is on disk, and stays what it is");
        self.say_to_all(&Word::Stays).await;
        if start && let Err(error) = self.start().await {
            tracing::error!(%error, "no process can be started");
        }
    }

    async fn become_another(&self, start: bool) -> Result<Infallible, HandoverError> {
        let (sockets, mut descriptors) = self.held().ok_or(HandoverError::Ended)?;
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (_listening, speaking) = handover::ends(UnixStream::from_std(ours)?);
        let hold = Word::Hold {
            forms: Forms::OURS,
            sockets,
            control: self.plan.control.clone(),
            children: self.processes.values().filter_map(|process| process.pid).collect(),
            start,
            listen: Some(self.listed.form().clone()),
        };
        descriptors.push(self.lock.as_fd());
        speaking.say(&hold, &descriptors).await?;
        let mut command: Command = (self.plan.again)();
        command.stdin(Stdio::from(OwnedFd::from(theirs))).env(VARIABLE, RENEWED);
        tracing::info!(program = %command.get_program().display(), "the holder goes on as the program that is on disk");
        // What it listens on stays open: in the word that waits, and in the process that serves.
        Err(command.exec().into())
    }
}
