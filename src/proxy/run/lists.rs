//! Other sockets to take connections from, as the supervisor gives them when a list of addresses is put in force.
//!
//! That waits for changes of the table, and for the threads; what else a process hears meanwhile, a signal for instance, does not.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, timeout_at},
};

use super::Shared;
use crate::{
    control::control_handler::{ControlHandler, Phase},
    form::ListenForm,
    handover::Word,
    listens::ListenFault,
    sockets::{SocketName, Sockets},
};

/// When the supervisor is asked again for sockets that could not be taken.
const AGAIN: Duration = Duration::from_secs(1);

/// A list, and all sockets that there are because of it.
pub(super) struct GivenList {
    pub list: ListenForm,
    pub names: Vec<SocketName>,
    pub sockets: Vec<OwnedFd>,
}

/// Goes over to what the supervisor gives, in its order, for as long as it may give anything.
pub(super) async fn follow(
    mut lists: UnboundedReceiver<GivenList>,
    handler: Arc<ControlHandler>,
    shared: Shared,
) {
    let mut not_taken: Option<(ListenForm, Instant)> = None;
    loop {
        let given = match &not_taken {
            Some((_, again_at)) => timeout_at(*again_at, lists.recv()).await,
            None => Ok(lists.recv().await),
        };
        let again = not_taken.take();
        match given {
            Ok(Some(GivenList { list, names, sockets })) => {
                let taken = match Sockets::from_named(names, sockets) {
                    Ok(given) => handler.take_sockets(list.clone(), given, &shared).await,
                    Err(_) => Err(ListenFault::not_yet("this process has no room for the sockets")),
                };
                if taken.is_err() {
                    not_taken = Some((list.clone(), Instant::now() + AGAIN));
                }
                handler.note_list(&list, taken);
            }
            Ok(None) => return,
            Err(_) => {
                let Some((list, _)) = again else { continue };
                // Nobody else may ask, and whoever connects there would wait. The same list again changes nothing.
                if handler.phase().await == Phase::Serving {
                    handler.mention_to_holder(&Word::Listen { listen: list }).await;
                }
            }
        }
    }
}
