//! What an agent that has ended has left in force at others' ports, for whoever ends the proxy as well.

use std::{fs, path::PathBuf};

use proxy::{
    control::{
        client::{Client, ClientError},
        form::Others,
    },
    whole_file,
};
use tokio::time::sleep;

use super::{
    Ground,
    beside::somebody,
    load,
    machine::Machine,
    nft::Redirects,
    taken::{Phase, Taken},
};
use crate::{settings::TakeoverSettings, state_machine::Trouble};

/// Ports of which calls were taken over, and how they are given back. Nobody else gives them back meanwhile.
#[derive(Debug)]
pub struct LeftOver {
    ground: Box<dyn Ground>,
    file: PathBuf,
    taken: Vec<Taken>,
}

impl LeftOver {
    /// `None`: nothing is taken over.
    ///
    /// # Errors
    ///
    /// What is taken over can't be read, or the rules that are in force can't.
    pub async fn find(settings: &TakeoverSettings) -> Result<Option<Self>, Trouble> {
        let ground = Box::new(Machine::new(settings.program.clone()));
        Self::find_on(settings, ground).await
    }

    /// The same on another ground.
    ///
    /// # Errors
    ///
    /// As of [`LeftOver::find`].
    pub async fn find_on(
        settings: &TakeoverSettings,
        ground: Box<dyn Ground>,
    ) -> Result<Option<Self>, Trouble> {
        let file = settings.file.clone();
        let taken = load(&file).map_err(|error| Trouble::refused(format!("{}: {error}", file.display())))?;
        if taken.is_empty() {
            return Ok(None);
        }
        let found = Self { ground, file, taken };
        if found.is_any_by_rules() {
            // Who can't read the rules learns so before anything has ended.
            found.ground.look().await?;
        }
        Ok(Some(found))
    }

    /// The ports that others have, and of each whether another program is known to take calls there without the proxy. `proxy`: who is asked
    /// of those that come by a socket.
    pub async fn ports(&self, proxy: Option<&Client>) -> Vec<(u16, bool)> {
        let mut ports = Vec::new();
        for taken in &self.taken {
            let has_others = taken.is_by_rules() || self.has_others(taken, proxy).await;
            ports.push((taken.port, has_others));
        }
        ports
    }

    async fn has_others(&self, taken: &Taken, proxy: Option<&Client>) -> bool {
        if taken.phase == Phase::Leaving {
            // It was given back once there were some.
            return true;
        }
        if let Some(proxy) = proxy {
            let asked: Result<Others, ClientError> =
                proxy.post(&format!("/others?port={}", taken.port)).await;
            if let Ok(others) = asked {
                return somebody(&others);
            }
        }
        // Without a proxy its own sockets are gone. One that was lent is there, whoever accepts.
        taken.lent.is_empty() && !self.ground.beside(Some(taken.port)).is_empty()
    }

    /// What comes by a socket needs nothing: the proxy closes it with its end, or whoever lent it has it.
    fn is_any_by_rules(&self) -> bool {
        self.taken.iter().any(Taken::is_by_rules)
    }

    /// Has nobody sent to the proxy any more, and waits until those are there who were on the way. The agent has ended.
    ///
    /// # Errors
    ///
    /// Callers may still be sent there.
    pub async fn send_nobody(&self) -> Result<(), Trouble> {
        // Another agent has put its own rules in the place of these.
        if !self.is_any_by_rules() || self.ground.is_anothers() || self.ground.look().await?.sent.is_empty() {
            return Ok(());
        }
        self.ground.take(&Redirects::new()).await?;
        sleep(self.ground.settles_in()).await;
        Ok(())
    }

    /// Leaves no rules. The proxy has ended. What came by a socket is known still: the proxy's list has it, and so has a proxy that is started
    /// again.
    ///
    /// # Errors
    ///
    /// Some are left, or it can't be kept that none are.
    pub async fn give_back(self) -> Result<(), Trouble> {
        if !self.is_any_by_rules() {
            return Ok(());
        }
        if !self.ground.is_anothers() {
            if self.ground.look().await?.is_there {
                self.ground.give_back().await?;
            }
            self.ground.forget_flows(None);
        }
        let left: Vec<Taken> = self.taken.into_iter().filter(Taken::is_by_socket).collect();
        let kept = if left.is_empty() {
            // A new one would be root's where root ends all, and the agent couldn't read it.
            fs::remove_file(&self.file)
        } else {
            let text = serde_json::to_vec(&left).map_err(|error| Trouble::refused(error.to_string()))?;
            whole_file::replace(&self.file, &text)
        };
        kept.map_err(|error| Trouble::refused(format!("{}: {error}", self.file.display())))
    }
}
