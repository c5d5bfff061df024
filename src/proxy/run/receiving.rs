use std::{sync::Arc, time::Duration};

use tokio::net::UnixListener;

use super::{NewHolder, Shared, moved};
use crate::{
    control::{
        control_handler::{ControlHandler, Finish, Phase},
        counting,
    },
    handover::{self, Forms, HandoverError, Listening, Speaking, Word},
    sockets::Sockets,
};

/// What other processes of this proxy ask at the door.
pub(super) struct Receiving {
    pub handler: Arc<ControlHandler>,
    pub sockets: Shared,
    pub links: tokio::sync::mpsc::UnboundedSender<NewHolder>,
}

impl Receiving {
    pub(super) async fn run(self, door: UnixListener) {
        let shared = Arc::new(self);
        loop {
            match door.accept().await {
                Ok((stream, _)) => {
                    let (listening, speaking) = handover::ends(stream);
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        if let Err(error) = shared.converse(listening, speaking).await {
                            tracing::warn!(%error, "a conversation with another process of this proxy broke off");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the door can accept nothing for now");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn converse(&self, mut listening: Listening, speaking: Speaking) -> Result<(), HandoverError> {
        while let Some((word, _)) = listening.next().await? {
            let answer = match word {
                Word::Take { forms } => {
                    if let Err(error) = Forms::OURS.agree(forms) {
                        Word::Refused { why: error.to_string() }
                    } else {
                        self.give(&speaking).await?;
                        let _ = self.links.send(NewHolder { listening, speaking, forms });
                        return Ok(());
                    }
                }
                Word::Freeze { forms } => match Forms::OURS.agree(forms) {
                    Err(error) => Word::Refused { why: error.to_string() },
                    Ok(_) => match self.handler.freeze().await {
                        Phase::Serving if self.hand_over(&mut listening, &speaking).await? => continue,
                        Phase::Serving => return Ok(()),
                        Phase::Frozen => {
                            Word::Refused { why: "another process takes over already".to_owned() }
                        }
                        Phase::Finishing => Word::Finishing { forms: Forms::OURS },
                    },
                },
                Word::Table { table } => match self.handler.phase().await {
                    Phase::Finishing => match self.handler.follow(&table).await {
                        Ok(()) => Word::Done,
                        Err(fault) => Word::Refused { why: fault.to_string() },
                    },
                    Phase::Serving | Phase::Frozen => {
                        Word::Refused { why: "this process doesn't finish: its table is its own".to_owned() }
                    }
                },
                Word::Ask => self.handler.holds(),
                Word::TakeLedger => {
                    counting::give_ledger(&speaking, &self.handler).await?;
                    continue;
                }
                Word::TakeFlows => {
                    moved::give(&speaking, &self.handler).await?;
                    continue;
                }
                Word::CountsSince { cursor } => {
                    counting::give_remainder(&speaking, &self.handler, cursor).await?;
                    continue;
                }
                Word::AllCounted => {
                    self.handler.counting().note_taken();
                    continue;
                }
                word => Word::Refused { why: word.unexpected().to_string() },
            };
            speaking.say(&answer, &[]).await?;
        }
        Ok(())
    }

    /// Gives the sockets to a new supervisor.
    async fn give(&self, speaking: &Speaking) -> Result<(), HandoverError> {
        let serves = self.handler.phase().await != Phase::Finishing;
        let copy = {
            let sockets = self.sockets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            sockets.as_ref().filter(|_| serves).map(Sockets::copy).transpose()?
        };
        let (names, descriptors) = match &copy {
            Some(sockets) => sockets.named(std::iter::empty()),
            None => (Vec::new(), Vec::new()),
        };
        let serves = copy.is_some();
        let taken = Word::Taken { forms: Forms::OURS, pid: std::process::id(), serves, sockets: names };
        Ok(speaking.say(&taken, &descriptors).await?)
    }

    /// Says what the table is, and finishes when told so; else goes on. Gives whether it finishes.
    async fn hand_over(&self, listening: &mut Listening, speaking: &Speaking) -> Result<bool, HandoverError> {
        let table = self.handler.proxy().table().form();
        let said = speaking.say(&Word::Frozen { forms: Forms::OURS, table }, &[]).await;
        let answer = match said {
            Ok(()) => listening.next().await,
            Err(error) => Err(error.into()),
        };
        if let Ok(Some((Word::Finish { counts }, _))) = answer {
            // Should the other one end at once, the supervisor knows that nobody serves.
            self.handler.mention_to_holder(&Word::Leaving).await;
            self.handler.counting().expect(counts);
            self.handler.leave_to_others().await;
            // What comes from here on is for the other one, whose sockets these are alone: it may give one back.
            *self.sockets.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
            self.handler.proxy().stop_taking().await;
            // The answer first: this process may have nothing to finish.
            let said = speaking.say(&Word::Done, &[]).await;
            self.handler.finish(Finish::HandedOver).await;
            said?;
            return Ok(true);
        }
        self.handler.thaw().await;
        tracing::warn!("the process that was about to take over has ended: this one goes on");
        answer.map(|_| false)
    }
}
