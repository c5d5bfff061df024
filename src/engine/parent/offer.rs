//! An offer of the parent becomes a release here.

use super::{CallTrouble, PATIENCE, ParentCaller};
use crate::{By, EngineError, audit::Actor, effect::ParentStageResult, json_columns, questions};
use child_client::LinkError;
use domain::release::{
    command::{Command, Refusal, Reply},
    ending::{Cause, Ending},
    lifecycle::Submission,
    manager::Agents,
    parent,
    parent::offered::{self, BELIEVED_AFTER},
};
use language::{FromParent, Order, Strategy, functions, functions::Archive};
use model::{ReleaseId, StageStatus};

/// Why an offer can't become a release.
enum Refused {
    /// The parent is told of an error in the first stage, if that is known, for it waits for a result.
    ForGood { why: String, stage: Option<String> },
    /// Refused for good, unless what came was not the parent's word: a proxy may answer for it, or cut it short.
    Doubtful { why: String, stage: Option<String> },
    /// It is tried again.
    Now(CallTrouble),
}

impl<E: Into<CallTrouble>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Now(error.into())
    }
}

impl ParentCaller {
    /// Takes an offer over; when this returns well, it is a release here, or the parent will hear that it can't be one.
    pub(super) async fn take(&self, id: &str, offer: &str, attempt: u32) -> Result<(), CallTrouble> {
        let Err(refused) = self.try_take(id, offer).await else { return Ok(()) };
        let (why, stage) = match refused {
            Refused::Doubtful { why, .. } if attempt + 1 < BELIEVED_AFTER => {
                return Err(CallTrouble::Doubtful(why));
            }
            Refused::ForGood { why, stage } | Refused::Doubtful { why, stage } => (why, stage),
            // Whoever stands between may refuse for the parent, which believes then that the offer is here.
            Refused::Now(CallTrouble::Call(LinkError::Refused { status, text }))
                if attempt + 1 < BELIEVED_AFTER =>
            {
                return Err(CallTrouble::Doubtful(format!("it answered {status}: {text}")));
            }
            Refused::Now(CallTrouble::Call(LinkError::Refused { status, text })) => {
                tracing::error!(offer, status, text, "the parent doesn't hand out what it offered");
                return Ok(());
            }
            Refused::Now(trouble) => return Err(trouble),
        };
        tracing::error!(offer, why, "the parent's offer can't be a release here");
        let owed = ParentStageResult {
            offer: offer.to_owned(),
            release: None,
            release_key: 0,
            stage,
            next: None,
            slot: 0,
            split: 0,
            begun: None,
            status: StageStatus::Error,
            agents: Agents::default(),
            why: Some(Box::new(Ending::new(Cause::Children, why))),
            recount: None,
        };
        self.engine.effect(owed.into()).await?;
        Ok(())
    }

    async fn try_take(&self, id: &str, offer: &str) -> Result<(), Refused> {
        let text = self.parent.release(id, offer).await?;
        if offered::is_withdrawn(&text) {
            tracing::info!(offer, "the parent withdrew its offer");
            return Ok(());
        }
        let checked = language::check_from_parent(&text);
        let Some(strategy) = checked.strategy else {
            let first = checked.diagnostics.first().map(|d| d.message.clone()).unwrap_or_default();
            let why = format!("its strategy has faults: {first}");
            return Err(Refused::Doubtful { why, stage: None });
        };
        let told = strategy.from_parent.clone().unwrap_or_default();
        if let Some(undone) = &told.undoes {
            return Ok(self.undo(offer, undone).await?);
        }
        if let Some(before) = &told.continues
            && self.go_on(offer, before, &strategy, &told).await?
        {
            return Ok(());
        }
        let zip = match self.download(id, offer, strategy.id.as_str()).await {
            Err(CallTrouble::Call(error @ LinkError::TooLarge { .. })) => {
                let (why, stage) = (error.to_string(), first_stage(&strategy));
                return Err(Refused::Doubtful { why, stage });
            }
            zip => zip?,
        };
        let (limits, named) = (self.settings.archive_limits.clone(), strategy.clone());
        let packed = tokio::task::spawn_blocking(move || functions::from_upload(&zip, &named, &limits)).await;
        let archive = packed.map_err(|_| EngineError::Failed)?.map_err(|error| Refused::Doubtful {
            why: format!("its functions: {error}"),
            stage: first_stage(&strategy),
        })?;
        let strategy = strategy.with_contents(&archive.contents);
        let submission = offered::submission(offer, &text, strategy, archive.digest).map_err(|error| {
            tracing::error!(%error, offer, "an offer of the parent has no digest");
            EngineError::Failed
        })?;
        self.submit(offer, submission, &archive).await
    }

    /// Under the parent's id, or under one of this manager's own where that is taken.
    async fn submit(&self, offer: &str, submission: Submission, archive: &Archive) -> Result<(), Refused> {
        let for_good = |why: String| Refused::ForGood { why, stage: first_stage(&submission.strategy) };
        for id in offered::ids(offer) {
            let submission = Box::new(Submission { id: id.clone(), ..submission.clone() });
            let by = By { actor: Actor::Parent, note: None };
            let answer = self.engine.submit(submission, archive.bytes.clone(), false, by, PATIENCE).await;
            match answer {
                Ok(_) => {
                    tracing::info!(offer, release = id.as_str(), "took over an offer of the parent");
                    return Ok(());
                }
                Err(EngineError::Refused(Refusal::IdTaken(_))) if self.is_of(&id, offer).await? => {
                    let why = "another release came under the same id before; nothing was changed";
                    return Err(for_good(why.to_owned()));
                }
                Err(EngineError::Refused(Refusal::IdTaken(_) | Refusal::IdAmbiguous { .. })) => {}
                Err(EngineError::Refused(Refusal::Conflict(with))) => {
                    let with = with.iter().map(ReleaseId::as_str).collect::<Vec<_>>().join(", ");
                    return Err(for_good(format!("it would have to wait for {with}")));
                }
                Err(EngineError::Refused(Refusal::AnothersConflict)) => {
                    return Err(for_good("it would have to wait for another tenant's release".to_owned()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(for_good("no id is free for it".to_owned()))
    }

    /// Takes back every release that came as one of the offers of the parent's release `undone`. The parent hears of it
    /// when that is done: at once, if nothing is to be done.
    async fn undo(&self, offer: &str, undone: &str) -> Result<(), CallTrouble> {
        let (mut under_way, mut left) = (false, 0);
        for release in self.came_as(undone) {
            let command = Command::Parent(parent::Command::Undo { release, offer: offer.to_owned() });
            let by = By { actor: Actor::Parent, note: None };
            if let Reply::TakenBack { is_under_way, unconfirmed } =
                self.engine.call(command, by, PATIENCE).await?
            {
                (under_way, left) = (under_way || is_under_way, left + unconfirmed);
            }
        }
        if !under_way {
            tracing::info!(offer, release = undone, "nothing is left to be taken back");
            let owed = ParentStageResult::undone(offer.to_owned(), left);
            self.engine.effect(owed.into()).await?;
        }
        Ok(())
    }

    /// Goes on with the release that came as the offer `before`; false if it is not known here.
    async fn go_on(
        &self,
        offer: &str,
        before: &str,
        strategy: &Strategy,
        told: &FromParent,
    ) -> Result<bool, CallTrouble> {
        let (waves, retries) = (told.waves.unwrap_or(1), told.retries);
        for release in self.came_as(strategy.id.as_str()) {
            let Ok(id) = ReleaseId::parse(&release) else { continue };
            if !self.is_of(&id, before).await? && !self.is_of(&id, offer).await? {
                continue;
            }
            let amounts = match strategy.rollout.as_ref().map(|rollout| &rollout.order) {
                Some(Order::Waves(amounts)) => amounts.clone(),
                Some(Order::Parallel | Order::LocationSequential { .. } | Order::GlobalIncremental)
                | None => Vec::new(),
            };
            let liveness_checks = questions::liveness::of_release(&self.engine, release.clone()).await?;
            let offer = offer.to_owned();
            let command = Command::Parent(parent::Command::Continue {
                release,
                offer: offer.clone(),
                waves,
                retries,
                amounts,
                liveness_checks,
            });
            self.engine.call(command, By { actor: Actor::Parent, note: None }, PATIENCE).await?;
            tracing::info!(offer, release = id.as_str(), "the parent goes on with a release");
            return Ok(true);
        }
        Ok(false)
    }

    /// What the offers of a release of the parent may be called here, of those ids that are known.
    fn came_as(&self, release: &str) -> Vec<String> {
        let ids = offered::all_ids(release);
        ids.filter(|id| self.engine.view().releases.key_of(id).is_some()).collect()
    }

    /// Whether a release came here as this very offer.
    async fn is_of(&self, release: &ReleaseId, offer: &str) -> Result<bool, CallTrouble> {
        let Some(row) = self.engine.reader().release(release.as_str()).await? else { return Ok(false) };
        let detail = json_columns::release_detail(row.release_key, &row.detail);
        let detail = detail.inspect_err(|error| self.engine.unreadable().note(error))?;
        Ok(detail.parent.is_some_and(|parent| parent.offer == offer))
    }
}

/// The one in which the parent believes this manager to be.
fn first_stage(strategy: &Strategy) -> Option<String> {
    let first = strategy.success_path().first().copied()?;
    Some(strategy.stages.get(first)?.name.clone())
}
