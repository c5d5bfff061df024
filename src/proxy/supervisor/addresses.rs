//! Addresses that are opened and given back while the proxy runs.
//!
//! The supervisor binds, keeps the list and closes; only then the process that serves hears of it, and is told all sockets that there are
//! now. So whichever of them is killed in between, the next one has the same addresses. While one process takes over from another, or
//! the supervisor is renewed, no list is taken: the one that comes has the sockets that there were.

use std::{io, time::Duration};

use tokio::time::Instant;

use super::{Holder, process::Number};
use crate::{form::ListenForm, handover::Word, listens::ListenFault, sockets::Sockets};

/// How often it is tried to open what couldn't be opened at a start.
const AGAIN: Duration = Duration::from_secs(1);

impl Holder {
    /// All sockets that it holds, as they go to another process; none once they were given up.
    pub(super) fn held(&self) -> io::Result<Option<Sockets>> {
        let Some(sockets) = &self.sockets else { return Ok(None) };
        let mut all = sockets.copy()?;
        for open in self.listed.open() {
            all.open.push(open.copy()?);
        }
        Ok(Some(all))
    }

    /// A process asks for a list, and hears what became of it.
    pub(super) async fn listen(&mut self, number: Number, listen: ListenForm) {
        match self.put(number, listen.clone()).await {
            Ok(()) => self.tell_addresses(number).await,
            Err(fault) => {
                let Some(process) = self.processes.get(&number) else { return };
                let _ = process.speaking.say(&Word::NotListening { listen, fault }, &[]).await;
            }
        }
    }

    async fn put(&mut self, number: Number, listen: ListenForm) -> Result<(), ListenFault> {
        let is_settled = self.serving == Some(number) && !self.is_changing();
        let Some(sockets) = self.sockets.as_ref().filter(|_| is_settled) else {
            return Err(ListenFault::busy());
        };
        // What is closed here stays open in the process that serves, until that has taken what waits.
        self.listed.put(listen, &sockets.listens()).await.map(drop)
    }

    /// Whether another process, or program, is about to have the sockets that there were.
    fn is_changing(&self) -> bool {
        self.coming.is_some() || self.renewing.is_some() || self.is_stopping
    }

    /// Tells a process all sockets that there are, if it understands.
    pub(super) async fn tell_addresses(&self, number: Number) {
        let Some(process) = self.processes.get(&number).filter(|process| process.forms.have_lists()) else {
            return;
        };
        match self.held() {
            Ok(Some(sockets)) => {
                let listen = self.listed.form().clone();
                let word = Word::Listening { listen, sockets: sockets.names() };
                // Whether it heard this shows in what it does.
                let _ = process.speaking.say(&word, &sockets.descriptors()).await;
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "a process can't be told on which addresses to listen"),
        }
    }

    /// It is time to try again.
    pub(super) async fn listen_again(&mut self) {
        if self.is_changing() {
            self.listen_again_at = Some(Instant::now() + AGAIN);
        } else {
            self.open_missing(false).await;
        }
    }

    /// Opens what is in the list and couldn't be opened before.
    pub(super) async fn open_missing(&mut self, is_first: bool) {
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
        if opened && let Some(serving) = self.serving {
            self.tell_addresses(serving).await;
        }
    }
}
