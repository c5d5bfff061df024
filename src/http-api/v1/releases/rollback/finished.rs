//! A release that is over: what it left, and what ran before it.

use axum::http::StatusCode;

use super::super::show;
use crate::{Context, problem::Problem};
use domain::release::{
    assignment::ReleaseEvent,
    state::{End, ReleaseState},
};
use engine::json_columns::{self, ReleaseDetail};
use language::{CallTarget, ROLLBACK_OF, Run, Service, Strategy, Subject, Version};
use model::tenant;
use protocol::api::PutBack;
use store::rows::ReleaseRow;

/// A release as it is stored.
pub(super) struct Finished {
    pub row: ReleaseRow,
    pub detail: ReleaseDetail,
    pub strategy: Strategy,
}

/// What a release leaves of a function or service.
pub(super) enum Left<'r> {
    Function(&'r Version),
    /// The targets of a variation, or what is started for it.
    Service(&'r [CallTarget], Option<&'r Run>),
}

impl Finished {
    /// The release of this id in the manager.
    pub async fn find(ctx: &Context, id: &str) -> Result<Self, Problem> {
        let row = ctx.engine.reader().release(id).await?;
        Self::read(ctx, row.ok_or_else(|| show::unknown(ctx, id))?)
    }

    pub fn read(ctx: &Context, row: ReleaseRow) -> Result<Self, Problem> {
        let read = json_columns::release_detail(row.release_key, &row.detail).and_then(|detail| {
            Ok((json_columns::strategy_of(&row)?.with_contents(&detail.contents), detail))
        });
        let (strategy, detail) = read.inspect_err(|error| ctx.engine.unreadable().note(error))?;
        Ok(Self { row, detail, strategy })
    }

    /// The tenant whose release it is.
    pub fn tenant(&self) -> Option<&str> {
        tenant::split(&self.row.id).map(|(tenant, _)| tenant)
    }

    /// As whoever submitted it calls it.
    pub fn said(&self) -> &str {
        tenant::split(&self.row.id).map_or(&self.row.id, |(_, said)| said)
    }

    /// Whether it puts back what ran before another one.
    pub fn is_rollback_of(&self, other: &Self) -> bool {
        let of = self.strategy.annotations.get(ROLLBACK_OF).map(String::as_str);
        self.tenant() == other.tenant() && of == Some(other.said())
    }

    /// Whether anybody has its new version, or calls of its services go elsewhere than before.
    pub fn has_moved(&self) -> bool {
        let [succeeded, ..] = self.detail.counts.by_outcome();
        let below = self.detail.agents.is_some_and(|agents| agents.succeeded > 0);
        let is_untested = self.detail.facts.iter().any(|dated| dated.fact == ReleaseEvent::UntestedRolledOut);
        self.strategy.may_roll_out() && (succeeded > 0 || below || is_untested)
    }

    /// Refuses what no release can put back, and says what to do instead.
    pub fn check(&self) -> Result<(), Problem> {
        let id = &self.row.id;
        let refused =
            |kind, why: String| Err(Problem::new(StatusCode::CONFLICT, kind, format!("release {id} {why}")));
        if self.detail.parent.is_some() {
            return refused("held-above", "came from the manager above: roll it back there".to_owned());
        }
        let why = match &self.detail.state {
            state @ (ReleaseState::Planned
            | ReleaseState::Running
            | ReleaseState::Paused(_)
            | ReleaseState::AwaitingApproval { .. }) => format!(
                "is {}, and not over: choirmaster release abort {id} ends it and puts back what ran before",
                state.name()
            ),
            ReleaseState::RollingBack { .. } => {
                format!("is being rolled back already: choirmaster release watch {id} shows how that goes")
            }
            ReleaseState::Over { end: End::Aborted | End::RolledBack, unconfirmed: 0 } => {
                "was rolled back already".to_owned()
            }
            ReleaseState::Over { end: End::Aborted | End::RolledBack, unconfirmed } => format!(
                "was rolled back already, and has {unconfirmed} agents that have not proven it: choirmaster release show {id} names them"
            ),
            ReleaseState::Over { end: End::NoParticipants, .. } => {
                "had nobody who took part: there is nothing to put back".to_owned()
            }
            ReleaseState::Over { end: End::Done | End::DoneWithFailures | End::Untested, .. }
                if !self.has_moved() =>
            {
                "has left its new version nowhere: there is nothing to put back".to_owned()
            }
            ReleaseState::Over { end: End::Done, .. } => return self.check_adopted(),
            // What it was to register then is not registered.
            ReleaseState::Over { end: End::DoneWithFailures | End::Untested, .. } => return Ok(()),
        };
        refused("wrong-state", why)
    }

    /// Refuses a canary that ended well: what is registered since would not go back with it.
    fn check_adopted(&self) -> Result<(), Problem> {
        // Anybody may write the annotations of a canary into a strategy.
        let Some(adopted) = &self.detail.adopts else { return Ok(()) };
        let detail = format!(
            "release {} is a canary that was adopted, and {} is registered with its version since: submit a CanaryRelease of the version \
             before, and adopt it",
            self.row.id, adopted.name
        );
        Err(Problem::new(StatusCode::CONFLICT, "wrong-state", detail))
    }

    /// Of each service the place of the variation that serves since. `is_staged`: the stages are to lead back.
    pub fn winners(&self, is_staged: bool) -> Result<Vec<usize>, Problem> {
        let chosen = self.detail.facts.iter().rev().find_map(|dated| dated.fact.winner()).map(usize::from);
        let first = self.strategy.functions.len();
        let winner = |(at, service): (usize, &Service)| {
            let (id, name) = (&self.row.id, service.name());
            let refused = |why: &str| {
                let detail = format!("service {name}: the stages of release {id} {why}");
                Err(Problem::new(StatusCode::CONFLICT, "wrong-state", detail))
            };
            let led = self.strategy.winner_of(first + at);
            let winner = chosen.or(led).filter(|winner| (1..service.variations.len()).contains(winner));
            match winner {
                None => refused(
                    "lead to several variations, so what serves may differ: submit a strategy with the one that is to be",
                ),
                Some(winner) if is_staged && led != Some(winner) => refused(
                    "lead to another variation than the one that was promoted, and can't lead back (leave `like` out)",
                ),
                Some(winner) => Ok(winner),
            }
        };
        self.strategy.services.iter().enumerate().map(winner).collect()
    }

    /// In words. `winners`: see [`Self::winners`].
    pub fn puts_back(&self, winners: &[usize]) -> Vec<PutBack> {
        let functions = self.strategy.functions.iter().map(|function| PutBack {
            name: function.name.clone(),
            from: function.new.path.clone(),
            to: function.base.path.clone(),
        });
        let services = self.strategy.services.iter().zip(winners).map(|(service, winner)| PutBack {
            name: service.key().to_owned(),
            from: variation(service, *winner),
            to: variation(service, 0),
        });
        functions.chain(services).collect()
    }

    /// What it left of a function or service. `None`: it has no such one, or that can't be told.
    pub fn left(&self, key: &str) -> Option<Left<'_>> {
        let at = self.strategy.subject_keys().position(|known| known == key)?;
        match self.strategy.subject(at)? {
            Subject::Function(function) => Some(Left::Function(&function.new)),
            Subject::Service(service) => {
                let winners = self.winners(false).ok()?;
                let winner = winners.get(at.checked_sub(self.strategy.functions.len())?)?;
                let variation = service.variations.get(*winner)?;
                Some(Left::Service(&variation.targets, service.runs.get(variation.name.as_str())))
            }
        }
    }
}

/// A variation of a service, and where it is.
fn variation(service: &Service, at: usize) -> String {
    let Some(variation) = service.variations.get(at) else { return String::new() };
    let place = match service.runs.get(variation.name.as_str()) {
        Some(run) => run.path.clone(),
        None => variation.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    format!("{} ({place})", variation.name)
}
