//! Flows of UDP go from a process that hands over to the one that takes over; see `flow::udp`.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use crate::{
    control::control_handler::{ControlHandler, Phase},
    flow::FlowForm,
    handover::{self, HandoverError, Listening, MAX_DESCRIPTORS, Speaking, Word},
};

/// A flow and its socket.
pub(super) type MovedFlow = (FlowForm, OwnedFd);

/// Gives all flows, as many at a time as descriptors go with a word. A process that goes on keeps its own.
pub(super) async fn give(speaking: &Speaking, handler: &ControlHandler) -> Result<(), HandoverError> {
    if handler.phase().await != Phase::Finishing {
        let why = "this process doesn't finish: its flows are its own".to_owned();
        return Ok(speaking.say(&Word::Refused { why }, &[]).await?);
    }
    let mut flows = handler.proxy().give_flows().await;
    loop {
        let rest = flows.split_off(flows.len().min(MAX_DESCRIPTORS));
        let descriptors: Vec<BorrowedFd<'_>> = flows.iter().map(|(_, socket)| socket.as_fd()).collect();
        let forms = flows.iter().map(|(form, _)| form.clone()).collect();
        let word = Word::Flows { flows: forms, more: !rest.is_empty() };
        speaking.say(&word, &descriptors).await?;
        if rest.is_empty() {
            return Ok(());
        }
        flows = rest;
    }
}

/// Takes the flows of a process that finishes. What can't be taken begins anew with its next datagram.
pub(super) async fn take((listening, speaking): (&mut Listening, &Speaking), pid: u32) -> Vec<MovedFlow> {
    let mut all = Vec::new();
    let mut answer = handover::ask((&mut *listening, speaking), &Word::TakeFlows).await;
    loop {
        match answer {
            Ok(Some((Word::Flows { flows, more }, sockets))) => {
                all.extend(flows.into_iter().zip(sockets));
                if !more {
                    return all;
                }
                answer = listening.answer().await.map(Some);
            }
            // It has ended, or knows nothing of this.
            Ok(None | Some((Word::Refused { .. }, _))) => return all,
            Ok(Some((word, _))) => {
                tracing::warn!(pid, ?word, "flows of UDP were asked for");
                return all;
            }
            Err(error) => {
                tracing::warn!(%error, pid, "flows of UDP of this process begin anew");
                return all;
            }
        }
    }
}
