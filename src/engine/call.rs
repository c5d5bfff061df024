//! Commands and their answers, also about releases that have left memory.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    archived_calls::{self, Recalled},
    error::EngineError,
    handle::Engine,
    mailbox::{Answer, By, Decision, NamedArchive},
    stats::Stats,
};
use domain::{
    release::{command::Command, lifecycle},
    workflows::{self, NewWorkflow},
};
use model::ReleaseKey;

impl Engine {
    /// Asks the engine and waits for the answer, which comes after the commit; at most `time_limit`.
    pub async fn call(&self, command: Command, by: By, time_limit: Duration) -> Answer {
        self.ask(command, by, None, time_limit).await
    }

    /// Submits a release together with the archive of its functions.
    pub async fn submit(
        &self,
        submission: Box<lifecycle::Submission>,
        archive: Bytes,
        dry_run: bool,
        by: By,
        time_limit: Duration,
    ) -> Answer {
        let archive = Some((submission.archive, archive));
        self.ask(
            Command::Lifecycle(lifecycle::Command::Submit { submission, dry_run }),
            by,
            archive,
            time_limit,
        )
        .await
    }

    /// Starts a workflow together with the archive of its functions.
    pub async fn start_workflow(
        &self,
        new: Box<NewWorkflow>,
        archive: Bytes,
        chance: u64,
        by: By,
        time_limit: Duration,
    ) -> Answer {
        let archive = new.archive.map(|digest| (digest, archive));
        self.ask(Command::Workflows(workflows::Command::Start { new, chance }), by, archive, time_limit).await
    }

    async fn ask(
        &self,
        command: Command,
        by: By,
        archive: Option<NamedArchive>,
        time_limit: Duration,
    ) -> Answer {
        let command = Arc::new(command);
        match self.send(Arc::clone(&command), by.clone(), archive, time_limit).await {
            Ok(Decision::Missing(key)) => self.recall(key, command, by, time_limit).await,
            Ok(Decision::Reply(reply)) => Ok(reply),
            Err(error) => Err(error),
        }
    }

    /// Answers a command about a release that has left memory.
    async fn recall(&self, key: ReleaseKey, command: Arc<Command>, by: By, time_limit: Duration) -> Answer {
        let then = || Box::new(Command::clone(&command));
        let whole = match archived_calls::about_one_child(self, key, &command).await? {
            Recalled::Answered(answer) => return answer,
            Recalled::Whole(release) => release,
            Recalled::Part { part, as_of } => {
                let id = part.id.clone();
                let recalled = Arc::new(Command::RecalledPart { part, as_of, then: then() });
                match self.send(recalled, by.clone(), None, time_limit).await {
                    Ok(Decision::Missing(_)) => Box::new(archived_calls::whole(self, id.as_str()).await?),
                    Ok(Decision::Reply(reply)) => return Ok(reply),
                    Err(error) => return Err(error),
                }
            }
        };
        Stats::count(&self.view().stats.recalls);
        let recalled = Arc::new(Command::Recalled { release: whole, then: then() });
        match self.send(recalled, by, None, time_limit).await? {
            Decision::Reply(reply) => Ok(reply),
            // Its id has become that of another release meanwhile, and that has left memory, too.
            Decision::Missing(_) => Err(EngineError::Busy),
        }
    }
}
