//! What a supervisor takes from the processes that are there already.

use std::{os::unix::net::UnixStream, path::Path};

use super::error::HoldError;
use crate::{
    handover::{self, Forms, HandoverError, Listening, Speaking, Word},
    handover_socket::Neighbour,
    sockets::Sockets,
};

/// What was taken from the processes of an earlier supervisor.
pub(super) struct AdoptedSockets {
    pub sockets: Option<Sockets>,
    pub links: Vec<Link>,
}

/// A process that is there, and the link to it.
pub(super) struct Link {
    pub pid: u32,
    /// Whether it takes connections.
    pub serves: bool,
    pub forms: Forms,
    pub listening: Listening,
    pub speaking: Speaking,
}

impl AdoptedSockets {
    /// Refused where a proxy lives whose door is gone: a second one on the same addresses would take half of its calls.
    pub(super) fn checked(self, control: &Path) -> Result<Self, HoldError> {
        if self.sockets.is_none() && UnixStream::connect(control).is_ok() {
            return Err(HoldError::Running(control.to_owned()));
        }
        Ok(self)
    }

    /// Whether somebody takes connections.
    pub(super) fn serves(&self) -> bool {
        self.links.iter().any(|link| link.serves)
    }

    async fn from(&mut self, neighbour: &Neighbour) -> Result<(), HandoverError> {
        let Some((mut listening, speaking)) = neighbour.connect().await? else { return Ok(()) };
        let take = Word::Take { forms: Forms::OURS };
        match handover::ask((&mut listening, &speaking), &take).await? {
            Some((Word::Taken { forms, serves, sockets, pid }, descriptors)) => {
                Forms::OURS.agree(forms)?;
                if serves {
                    self.sockets = Some(Sockets::from_named(sockets, descriptors)?);
                }
                self.links.push(Link { pid, serves, forms, listening, speaking });
                Ok(())
            }
            Some((word, _)) => Err(word.unexpected()),
            None => Ok(()),
        }
    }
}

/// Takes the sockets of whoever serves under this control socket, and links to all of its processes.
pub(super) async fn take(control: &Path) -> Result<AdoptedSockets, HoldError> {
    let mut taken = AdoptedSockets { sockets: None, links: Vec::new() };
    let at = |source| HoldError::Control { path: control.to_owned(), source };
    for neighbour in Neighbour::all(control).map_err(at)? {
        let take = |source| HoldError::Take { pid: neighbour.pid, source };
        taken.from(&neighbour).await.map_err(take)?;
    }
    Ok(taken)
}
