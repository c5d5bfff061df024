//! From where a canary stands to what is asked for: what it takes, why it can't be, and what follows.
//!
//! One rule decides it for whoever submits a manifest, for whoever asks first what that would do, and for a plan ([`Onward::of`]). What it takes
//! are commands. Whether one of them would be refused, and whether all of them together change anything, is told by the functions that decide
//! them, over a copy of the state ([`Snapshot::would`]). So a dry run and a plan say what the submission would, unless something happens in
//! between.

use std::{collections::BTreeMap, sync::Arc};

use axum::http::StatusCode;

use super::{
    act::{check_note, roll_back},
    show,
};
use crate::{
    Context,
    auth::CallingOperator,
    context::PATIENCE,
    problem::Problem,
    scope::Scope,
    v1::registry::{self, Spec as _},
};
use canary_releases::{Canary, STAGE, Transition, marks};
use domain::release::{
    assignment::{Dated, ReleaseEvent},
    command::Command,
    lifecycle::{self, Adoption},
    next_action,
    operation::Effect,
    rollout, stages,
    state::{End, Release, ReleaseState, Snapshot},
};
use engine::{By, EngineError, json_columns};
use language::Strategy;
use model::Role;
use protocol::{
    api::{PlannedCanary, PlannedShare, Submitted},
    canary_releases::ReleaseSpec,
};

/// The type of the problem that something registered is in the way.
pub(super) const IN_USE: &str = "in-use";

/// What is to become of a manifest, and who wants it.
#[derive(Clone)]
pub(in crate::v1) struct Asked {
    pub dry_run: bool,
    pub by: By,
    /// Whose it is.
    pub scope: Scope,
    /// Who asks.
    pub caller: Scope,
    /// Whether the caller may say that a canary is good enough.
    pub may_approve: bool,
}

/// Whether a caller may say that a canary is good enough; `None`: no tokens are asked for.
pub(in crate::v1) fn may_approve(caller: Option<&CallingOperator>) -> bool {
    caller.is_none_or(|caller| caller.grant.has_any(&[Role::Approver]))
}

/// What is answered to a submission.
pub(super) type Answer = Result<(StatusCode, Submitted), Problem>;

/// An answer in which nothing has happened.
pub(super) fn nothing(id: String, dry_run: bool) -> Submitted {
    Submitted {
        id,
        created: false,
        dry_run,
        changed: None,
        forwarded_to: None,
        participants: 0,
        excluded: BTreeMap::new(),
        waits_for: Vec::new(),
        least_ms: 0,
        warnings: Vec::new(),
    }
}

/// What leads a canary that is there to what is asked for.
pub(in crate::v1) struct Onward {
    there: Existing,
    wanted: Wanted,
    /// What that is called, and the commands that it takes, one after the other; `None`: it is so already.
    steps: Option<(String, Vec<Command>)>,
}

impl Onward {
    /// # Errors
    ///
    /// Why it can't be, as far as it shows before a command is given.
    pub(super) async fn of(
        ctx: &Context,
        canary: &Canary,
        mut there: Existing,
        asked: &Asked,
    ) -> Result<Self, Problem> {
        // The process that created it may have ended before it could look again.
        if canary.transition != Transition::Deprecated
            && there.is_open()
            && let Err(problem) = there.check_base(ctx).await
        {
            // It may have been adopted meanwhile, and changed the registered release itself.
            let now = Existing::find(ctx, &there.id).await?;
            there = now.filter(|now| !now.is_open()).ok_or(problem)?;
        }
        let wanted = Wanted::of(canary, &there)?;
        Self::to(ctx, there, wanted, asked.may_approve, &asked.by).await
    }

    /// To the version that served before.
    pub(super) async fn back(ctx: &Context, there: Existing, by: &By) -> Result<Self, Problem> {
        let wanted = Wanted { transition: Transition::Deprecated, weights: Vec::new() };
        Self::to(ctx, there, wanted, false, by).await
    }

    async fn to(
        ctx: &Context,
        there: Existing,
        wanted: Wanted,
        may_approve: bool,
        by: &By,
    ) -> Result<Self, Problem> {
        let steps = there.steps(&wanted, may_approve, by)?;
        if steps.is_some() {
            check_note(ctx, &there.id, by).await?;
        }
        Ok(Self { there, wanted, steps })
    }

    /// The id of its release.
    pub fn id(&self) -> &str {
        &self.there.id
    }

    /// Whether it is so already.
    pub const fn is_done(&self) -> bool {
        self.steps.is_none()
    }

    /// Whether somebody or something has paused it.
    pub fn is_paused(&self) -> bool {
        self.there.state.pause().is_some()
    }

    /// Does what is asked for, or tells what that would do.
    pub async fn answer(&self, ctx: &Context, Asked { dry_run, by, .. }: &Asked) -> Answer {
        let before = show::detail(ctx, self.id()).await?.release;
        if *dry_run || self.is_done() {
            let changed = self.would(ctx).await?.map(|would| would.word);
            return Ok(self.answered(before.counts.participants, changed, *dry_run));
        }
        self.carry_out(ctx, by).await?;
        let after = show::detail(ctx, self.id()).await?.release;
        let word = self.steps.as_ref().map(|(word, _)| word.as_str());
        let changed = word.filter(|_| after.tag != before.tag);
        Ok(self.answered(after.counts.participants, changed, false))
    }

    /// Gives the commands.
    pub async fn carry_out(&self, ctx: &Context, by: &By) -> Result<(), Problem> {
        for command in self.steps.iter().flat_map(|(_, commands)| commands) {
            ctx.engine.call(command.clone(), by.clone(), PATIENCE).await?;
        }
        Ok(())
    }

    fn answered(&self, participants: u32, changed: Option<&str>, dry_run: bool) -> (StatusCode, Submitted) {
        let changed = changed.map(str::to_owned);
        (StatusCode::OK, Submitted { participants, changed, ..nothing(self.id().to_owned(), dry_run) })
    }

    /// What would change if the commands were given now; `None`: nothing would.
    async fn would(&self, ctx: &Context) -> Result<Option<Would<'_>>, Problem> {
        let Some((word, commands)) = &self.steps else { return Ok(None) };
        let (id, commands) = (self.there.id.clone(), commands.clone());
        let (seen, now) = (Arc::clone(&ctx.view().children), ctx.engine.clock().now());
        let look = move |state: &Snapshot| {
            let release = state.release_by_id(&id)?;
            let effect = state.would(&*seen, release, &commands, now);
            Some(effect.map(|effect| (effect, Routers::of(release))))
        };
        // It has ended since it was looked up.
        let found = ctx.engine.read_apart(PATIENCE, look).await?.ok_or(EngineError::Busy)?;
        let (effect, routers) = found?;
        Ok((effect == Effect::Something).then_some(Would { word, routers }))
    }

    /// What its submission would do.
    ///
    /// # Errors
    ///
    /// Why it would be refused.
    pub async fn outlook(&self, ctx: &Context) -> Result<PlannedCanary, Problem> {
        let Some(Would { word, routers }) = self.would(ctx).await? else {
            return Ok(PlannedCanary::default());
        };
        let parts = canary_releases::weights_of(&self.there.strategy);
        let shares = parts.iter().enumerate().filter_map(|(at, of)| {
            let (from, to) = (self.there.gets(of.weight), self.wanted.weight(at));
            let (part, is_other) = (of.service.to_owned(), from != to);
            is_other.then(|| PlannedShare { part, from: from.into(), to: to.into() })
        });
        let (changed, shares) = (Some(word.to_owned()), shares.collect());
        Ok(PlannedCanary { changed, shares, follows: self.follows(routers) })
    }

    /// What follows, in order, a sentence each.
    fn follows(&self, Routers { begun, waiting }: Routers) -> Vec<String> {
        let at_once = (begun > 0).then(|| format!("{} told at once", routers(begun, ["is", "are"])));
        let later = |what: &str| {
            (waiting > 0).then(|| format!("{} yet to begin, {what}", routers(waiting, ["has", "have"])))
        };
        let name = self.there.adopts.as_ref().map(|of| of.name.as_str()).unwrap_or_default();
        match self.wanted.transition {
            Transition::None => at_once.into_iter().chain(later("with that from the start")).collect(),
            Transition::Adopted => {
                let resumed = self.is_paused().then(|| "it is paused, and goes on".to_owned());
                let then = self.there.adopted().map(|ReleaseSpec { version, resources, .. }| {
                    let resources = if resources.is_empty() { "" } else { " and resources" };
                    format!("when all have, version {version} is that of release {name}, with the canary's config{resources}")
                });
                let all = "its routers ask the canary once more, and give it all calls".to_owned();
                let later = later("with all calls from the start");
                resumed.into_iter().chain(at_once).chain(later).chain([all]).chain(then).collect()
            }
            Transition::Deprecated => {
                let later = later("and never will");
                let all = "all calls go to the version that served before".to_owned();
                let stays = format!("release {name} stays as it is");
                at_once.into_iter().chain(later).chain([all, stays]).collect()
            }
        }
    }

    /// Its strategy, with the weights that are asked for.
    pub fn strategy(&self) -> Arc<Strategy> {
        let strategy = &self.there.strategy;
        let parts = canary_releases::weights_of(strategy).into_iter().zip(&self.wanted.weights);
        let shared = parts.fold(Strategy::clone(strategy), |shared, (of, weight)| {
            let stage = shared.stages.iter().position(|stage| stage.name == of.stage);
            stage.and_then(|stage| shared.with_share(stage, weight * 100)).unwrap_or(shared)
        });
        Arc::new(shared)
    }
}

/// What commands would come to.
struct Would<'o> {
    /// What that is called.
    word: &'o str,
    routers: Routers,
}

/// Routers that have a part in a canary.
#[derive(Clone, Copy)]
struct Routers {
    /// They have it in hand, or may be giving it calls.
    begun: u32,
    waiting: u32,
}

impl Routers {
    fn of(release: &Release) -> Self {
        let mut found = Self { begun: 0, waiting: 0 };
        for part in release.assignments.values() {
            let has_begun = next_action::has_it_in_hand(part) || !part.may_run_new().is_empty();
            found.begun += u32::from(has_begun);
            found.waiting += u32::from(!has_begun && !part.status.is_over());
        }
        found
    }
}

/// So many routers, and what they are or have, of one and of several.
fn routers(count: u32, [one, several]: [&str; 2]) -> String {
    if count == 1 { format!("1 router {one}") } else { format!("{count} routers {several}") }
}

/// What is wanted of a canary that is there.
pub(super) struct Wanted {
    transition: Transition,
    /// Of each part, in percent. Where it is adopted or deprecated, none counts.
    pub weights: Vec<u16>,
}

impl Wanted {
    pub(super) fn of(canary: &Canary, there: &Existing) -> Result<Self, Problem> {
        let weights = match canary.transition {
            Transition::None => canary_releases::wanted(canary, &there.strategy)?,
            Transition::Adopted | Transition::Deprecated => Vec::new(),
        };
        Ok(Self { transition: canary.transition, weights })
    }

    /// What a part is to get, in percent.
    fn weight(&self, part: usize) -> u16 {
        match self.transition {
            Transition::None => self.weights.get(part).copied().unwrap_or_default(),
            Transition::Adopted => 100,
            Transition::Deprecated => 0,
        }
    }
}

/// Whether a stage of a release was passed over.
fn is_passed_over(facts: &[Dated]) -> bool {
    facts.iter().any(|dated| matches!(dated.fact, ReleaseEvent::StageSkipped { .. }))
}

/// A release that is there under the name of a canary.
pub(super) struct Existing {
    id: String,
    pub state: ReleaseState,
    /// Its routers have failed, and each is back at what served before.
    is_back: bool,
    /// Its stage is passed over, as where it is adopted: nobody gives out calls by a weight any more.
    is_passed_over: bool,
    pub strategy: Arc<Strategy>,
    adopts: Option<Arc<Adoption>>,
}

impl Existing {
    pub async fn find(ctx: &Context, id: &str) -> Result<Option<Self>, Problem> {
        let wanted = id.to_owned();
        let in_memory = move |state: &Snapshot| {
            let release = state.release_by_id(&wanted)?;
            Some(Self {
                id: release.id.to_string(),
                state: release.state.clone(),
                is_back: release.counts.are_back(release.strategy.is_hybrid()),
                is_passed_over: is_passed_over(&release.facts),
                strategy: Arc::clone(&release.strategy),
                adopts: release.adopts.clone(),
            })
        };
        if let Some(found) = ctx.engine.read(PATIENCE, in_memory).await? {
            return Ok(Some(found));
        }
        let Some(row) = ctx.engine.reader().release(id).await? else { return Ok(None) };
        let read = json_columns::release_detail(row.release_key, &row.detail).and_then(|detail| {
            let strategy = Arc::new(json_columns::strategy_of(&row)?);
            let (state, is_back, adopts) = (detail.state, detail.is_back, detail.adopts);
            let is_passed_over = is_passed_over(&detail.facts);
            Ok(Self { id: row.id, state, is_back, is_passed_over, strategy, adopts })
        });
        Ok(Some(read.inspect_err(|error| ctx.engine.unreadable().note(error))?))
    }

    /// What each part is to get while calls are shared, in percent.
    pub fn weights(&self) -> Vec<u16> {
        canary_releases::weights_of(&self.strategy).iter().map(|of| of.weight).collect()
    }

    /// What a part with this weight gets now, where a router has begun, in percent.
    const fn gets(&self, weight: u16) -> u16 {
        match (self.is_back, self.is_passed_over) {
            (true, _) => 0,
            (false, true) => 100,
            (false, false) => weight,
        }
    }

    /// What its registered release is once it is adopted, as far as that can be read.
    fn adopted(&self) -> Option<ReleaseSpec> {
        self.adopts.as_ref().and_then(|adoption| serde_json::from_str(&adoption.detail).ok())
    }

    fn is_open(&self) -> bool {
        matches!(Standing::of(&self.state), Standing::Planned | Standing::UnderWay)
    }

    /// Refuses a canary that is another one.
    pub fn check(&self, canary: &Canary) -> Result<(), Problem> {
        let id = &self.id;
        // Anybody may write the annotations of a canary into a strategy.
        let digest = self.adopts.as_ref().and_then(|_| marks::digest_of(&self.strategy));
        let detail = match digest {
            Some(digest) if digest == canary_releases::digest(canary) => return Ok(()),
            Some(_) => format!(
                "canary release {id} is there with another release, version, path, config, services or resources: only weights and transition \
                 change"
            ),
            None => format!("there is a release {id} that is no canary release: take another name"),
        };
        Err(Problem::new(StatusCode::CONFLICT, "id-taken", detail))
    }

    /// Refuses what was made from another release than the one that is registered now.
    pub async fn check_base(&self, ctx: &Context) -> Result<(), Problem> {
        let Some(adoption) = self.adopts.as_ref().filter(|of| of.kind == ReleaseSpec::STORED) else {
            return Ok(());
        };
        let (id, name) = (&self.id, &adoption.name);
        let now = registry::find::<ReleaseSpec>(ctx, ab_releases::tenant_of(id), name).await?;
        let is_based = |(now, adopted): (ReleaseSpec, ReleaseSpec)| {
            canary_releases::is_of(&self.strategy, &adopted, &now)
        };
        if now.zip(self.adopted()).is_some_and(is_based) {
            return Ok(());
        }
        let detail = format!(
            "registered release {name} has changed since canary release {id} was made from it: deprecate it, and create another one"
        );
        Err(Problem::new(StatusCode::CONFLICT, IN_USE, detail))
    }

    /// What leads to what is asked for, and what that is called; `None`: it is so already.
    fn steps(
        &self,
        canary: &Wanted,
        may_approve: bool,
        by: &By,
    ) -> Result<Option<(String, Vec<Command>)>, Problem> {
        let is_same_weight = canary.weights == self.weights();
        match (canary.transition, Standing::of(&self.state)) {
            (_, Standing::Ended) => {
                Err(self.wrong(&format!("ended as {}: create another one", self.state.name())))
            }
            (Transition::None, Standing::Planned | Standing::UnderWay | Standing::Adopted)
                if is_same_weight =>
            {
                Ok(None)
            }
            (Transition::None, Standing::Planned) => {
                Err(self.wrong("has not begun: its weight can be changed once it has"))
            }
            (Transition::None, Standing::UnderWay) if self.is_passed_over => {
                Err(self.wrong("is being adopted: its weight can't be changed any more"))
            }
            (Transition::None, Standing::UnderWay) if self.state.pause().is_some() => {
                Err(self.wrong("is paused: resume it before its weight changes"))
            }
            (Transition::None, Standing::UnderWay) => {
                Ok(Some(self.weigh(&canary.weights)))
            }
            (Transition::None | Transition::Deprecated, Standing::Adopted) => {
                let why = "was adopted, and can't be changed or deprecated any more: release another version";
                Err(self.wrong(why))
            }
            (Transition::None | Transition::Adopted, Standing::Back(how)) => {
                Err(self.wrong(&format!("{how}: create another one under another name")))
            }
            (Transition::Adopted, Standing::Planned) => {
                Err(self.wrong("has not begun: it can be adopted once it has"))
            }
            (Transition::Adopted, Standing::UnderWay) if !may_approve => {
                let detail = format!("to adopt canary release {} takes the role approver", self.id);
                Err(Problem::new(StatusCode::FORBIDDEN, "missing-role", detail))
            }
            (Transition::Adopted, Standing::UnderWay) if self.is_back => Err(self.wrong(
                "has failed at each of its routers, which are back at what served before: deprecate it, or resume it, which ends it, and \
                 retry it",
            )),
            (Transition::Adopted, Standing::UnderWay) => Ok(Some(("adopted".to_owned(), self.adopt()))),
            (Transition::Adopted, Standing::Adopted) | (Transition::Deprecated, Standing::Back(_)) => {
                Ok(None)
            }
            (Transition::Deprecated, Standing::Planned | Standing::UnderWay) => {
                Ok(Some(("deprecated".to_owned(), vec![roll_back(self.id.clone(), by)])))
            }
        }
    }

    /// The canary gets so much of each part from now on, in percent: of those that change, all at once. And what that is called.
    fn weigh(&self, weights: &[u16]) -> (String, Vec<Command>) {
        let parts = canary_releases::weights_of(&self.strategy);
        let changed: Vec<_> =
            parts.iter().zip(weights).filter(|(of, weight)| of.weight != **weight).collect();
        let words = changed.iter().map(|(of, weight)| match &parts[..] {
            [_] => format!("weight {weight}"),
            _ => format!("weight {weight} of {}", of.service),
        });
        let words = words.collect::<Vec<_>>().join(", ");
        let each = changed.into_iter().map(|(of, weight)| (of.stage.to_owned(), (*weight).min(100) * 100));
        let (release, shares) = (self.id.clone(), each.collect());
        (words, vec![Command::Rollout(rollout::Command::ChooseShares { release, shares })])
    }

    /// Its stage is passed over, and what follows opens. Each of them changes nothing where it is done already.
    fn adopt(&self) -> Vec<Command> {
        let release = || self.id.clone();
        let resume = || Command::Lifecycle(lifecycle::Command::Resume { release: release() });
        let skip = stages::Command::Skip { release: release(), stage: STAGE.to_owned() };
        let promote = rollout::Command::Promote { release: release() };
        let paused = self.state.pause().map(|_| resume());
        paused.into_iter().chain([Command::Stages(skip), Command::Rollout(promote)]).collect()
    }

    pub fn wrong(&self, why: &str) -> Problem {
        let detail = format!("canary release {} {why}", self.id);
        Problem::new(StatusCode::CONFLICT, "wrong-state", detail)
    }
}

/// Where a canary stands, as far as it decides what may be asked of it.
enum Standing {
    Planned,
    UnderWay,
    /// It is on its way back, or was rolled back: in words.
    Back(&'static str),
    Adopted,
    /// In none of the ways that canaries are to end.
    Ended,
}

impl Standing {
    const fn of(state: &ReleaseState) -> Self {
        match state {
            ReleaseState::Planned => Self::Planned,
            ReleaseState::Running | ReleaseState::Paused(_) | ReleaseState::AwaitingApproval { .. } => {
                Self::UnderWay
            }
            ReleaseState::RollingBack { end: End::Aborted, .. }
            | ReleaseState::Over { end: End::Aborted, .. } => Self::Back("was deprecated"),
            ReleaseState::RollingBack { .. } | ReleaseState::Over { end: End::RolledBack, .. } => {
                Self::Back("was rolled back")
            }
            ReleaseState::Over { end: End::Done, .. } => Self::Adopted,
            ReleaseState::Over {
                end: End::DoneWithFailures | End::NoParticipants | End::Untested, ..
            } => Self::Ended,
        }
    }
}
