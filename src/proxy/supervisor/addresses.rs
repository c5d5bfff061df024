//! Addresses that are opened and closed while the proxy runs.
//!
//! The supervisor binds, keeps the list and closes; only then the process that serves hears of it, and is told all sockets that there are
//! now. So whichever of them is killed in between, the next one has the same addresses. While one process takes over from another, or
//! the supervisor is renewed, no list is taken: the one that comes has the sockets that there were. What a process wasn't told it is told
//! later, be that after its start, after an upgrade that failed, or because it could not be told before.

use std::{net::TcpListener, os::fd::BorrowedFd, time::Duration};

use tokio::{task::spawn_blocking, time::Instant};

use super::{
    Holder, Process,
    process::{Event, Number},
};
use crate::{
    form::ListenForm,
    handover::Word,
    listed::Change,
    listens::ListenFault,
    shared::{listening, socket},
    sockets::{SocketName, Sockets},
};

/// How often it is tried to open what couldn't be opened at a start, and to tell what couldn't be told.
const AGAIN: Duration = Duration::from_secs(1);

impl Holder {
    /// All sockets that it holds, as a word names them and as they go along with it; none once they were given up.
    pub(super) fn held(&self) -> Option<(Vec<SocketName>, Vec<BorrowedFd<'_>>)> {
        Some(self.sockets.as_ref()?.named(self.listed.held()))
    }

    /// A process asks for a list, and hears what became of it.
    pub(super) async fn listen(&mut self, number: Number, listen: ListenForm) {
        let change = match self.prepare(number, listen.clone()) {
            Ok(change) => change,
            Err(fault) => return self.refuse(number, listen, fault).await,
        };
        self.is_keeping = true;
        let events = self.events.clone();
        // A process may end while the disk is slow.
        tokio::spawn(async move {
            let kept = change.kept().await;
            let _ = events.send((number, Event::Kept { listen, kept }));
        });
    }

    fn prepare(&self, number: Number, listen: ListenForm) -> Result<Change, ListenFault> {
        let is_settled = self.serving == Some(number) && !self.is_changing();
        let Some(sockets) = self.sockets.as_ref().filter(|_| is_settled) else {
            return Err(ListenFault::busy());
        };
        self.listed.prepare(listen, &sockets.listens())
    }

    async fn refuse(&self, number: Number, listen: ListenForm, fault: ListenFault) {
        let Some(process) = self.processes.get(&number) else { return };
        let _ = process.speaking.say(&Word::NotListening { listen, fault }, &[]).await;
    }

    /// A list is on disk, and comes into force; or nothing of it does.
    pub(super) async fn note_kept(
        &mut self,
        number: Number,
        listen: ListenForm,
        kept: Result<Change, ListenFault>,
    ) {
        self.is_keeping = false;
        match kept {
            // The next supervisor opens its addresses.
            Ok(_) if self.is_stopping => {}
            Ok(change) => {
                // What is closed here stays open in the process that serves, until that has taken what waits.
                drop(self.listed.put_in_force(change));
                let configured = self.sockets.as_ref().map(Sockets::listens).unwrap_or_default();
                if self.listed.misses(&configured) {
                    self.listen_again_at = Some(Instant::now() + AGAIN);
                }
                self.processes.values_mut().for_each(|process| process.is_behind = true);
                if !self.tell_addresses().await {
                    let fault = ListenFault::not_yet("the process that serves can't be told");
                    self.refuse(number, listen, fault).await;
                }
            }
            Err(fault) => self.refuse(number, listen, fault).await,
        }
    }

    /// Whether another process, or program, is about to have the sockets that there were; or those of another list are about to come.
    pub(super) fn is_changing(&self) -> bool {
        self.coming.is_some() || self.renewing.is_some() || self.is_stopping || self.is_keeping
    }

    /// Tells the process that serves all sockets that there are, if it may not know of them and if it understands. False where that
    /// can't be now; then it is told later.
    pub(super) async fn tell_addresses(&mut self) -> bool {
        let told = {
            let serving = self.serving.and_then(|number| self.processes.get(&number));
            let is_to_hear = |process: &&Process| process.is_behind && process.forms.have_lists();
            let Some(process) = serving.filter(is_to_hear) else { return true };
            let Some((sockets, descriptors)) = self.held() else { return true };
            let word = Word::Listening { listen: self.listed.form().clone(), sockets };
            process.speaking.say(&word, &descriptors).await
        };
        if let Err(error) = &told {
            tracing::error!(%error, "the process that serves can't be told on which addresses to listen; it is tried again");
            self.listen_again_at = Some(Instant::now() + AGAIN);
        } else if let Some(process) = self.serving.and_then(|number| self.processes.get_mut(&number)) {
            process.is_behind = false;
        }
        told.is_ok()
    }

    /// It is time to try again.
    pub(super) async fn listen_again(&mut self) {
        if self.is_changing() {
            self.listen_again_at = Some(Instant::now() + AGAIN);
        } else {
            self.open_missing(false);
            self.tell_addresses().await;
        }
    }

    /// Listens no more where another program listens as well: for long nobody serves here. What waits is reset, since nobody comes for it.
    /// Whoever serves next listens again.
    pub(super) async fn leave_to_others(&self) {
        let joined: Vec<&TcpListener> =
            self.listed.joined().filter(|socket| socket::is_listening(socket)).collect();
        if joined.is_empty() {
            return;
        }
        let Ok(Ok(listed)) = spawn_blocking(|| listening::text(false)).await else { return };
        let own: Vec<u64> = joined.iter().filter_map(|socket| socket::inode(socket).ok()).collect();
        for socket in joined {
            let Ok(at) = socket.local_addr() else { continue };
            if listening::is_taken_beside(&listed, at, &own) == Some(true) && socket::end(socket).is_ok() {
                tracing::warn!(%at, "callers are left to the other program that listens there, until a process serves");
            }
        }
    }

    /// Opens what is in the list and couldn't be opened before.
    pub(super) fn open_missing(&mut self, is_first: bool) {
        self.listen_again_at = None;
        let Some(sockets) = &self.sockets else { return };
        let (opened, faults) = self.listed.open_missing(&sockets.listens());
        if !faults.is_empty() {
            self.listen_again_at = Some(Instant::now() + AGAIN);
        }
        if is_first {
            for fault in &faults {
                tracing::error!("{fault}; it is tried again");
            }
        }
        if opened {
            self.processes.values_mut().for_each(|process| process.is_behind = true);
        }
    }
}
