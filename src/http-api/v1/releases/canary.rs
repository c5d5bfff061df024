//! `POST /release` with a manifest: `kind: Release` registers one, `kind: CanaryRelease` creates a canary of one that is registered,
//! changes its weight, or adopts or deprecates it.
//!
//! A canary is a release with a stage that lasts, and nothing of it is kept beside that release: what was asked for is known again by an
//! annotation of its strategy, and how far it has come is read from the release each time. So whoever submits the same manifest again,
//! after a crash in the middle for instance, changes what is still to be changed, and nothing else.
//!
//! At most one canary of a registered release is under way: the base of a second one would be gone once the first is adopted.
//!
//! A weight is the share of a stage, one for each part of a canary. Other weights change these in place: whoever gives out the calls is told at
//! once, of all that change in one answer, and what follows is as before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use super::{
    act::{check_note, roll_back},
    canary_content, show,
    submit::{self, How, NO_PARTICIPANTS, answered, submit_prepared},
    upload::Upload,
};
use crate::{
    Context,
    context::PATIENCE,
    problem::Problem,
    scope::Scope,
    v1::{
        registry::{self, Spec as _},
        tenant::tenant_of,
    },
};
use ab_releases::{Fault, Kind, Uuid};
use canary_releases::{Canary, Document, STAGE, Transition, Translated, marks};
use domain::release::{
    assignment::{Dated, ReleaseEvent},
    command::Command,
    lifecycle::{self, Adoption},
    next_action, rollout, stages,
    state::{End, Release, ReleaseState, Snapshot},
};
use engine::{By, EngineError, json_columns};
use language::Strategy;
use model::{MAX_RELEASE_ID_LEN, TenantName};
use protocol::{
    api::{Diagnostic, Submitted},
    canary_releases::ReleaseSpec,
};

/// A warning of strategies that helps nobody here: a manifest has no place for a condition.
const NO_CONDITION: &str = "no-condition";

/// The type of the problem that something registered is in the way.
const IN_USE: &str = "in-use";

/// The most releases of which a warning says that they are in hand.
const MAX_BUSY: usize = 20;

/// What is to become of a manifest, and who wants it.
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

/// Does what a manifest of one of the two kinds asks for.
pub(super) async fn submit(ctx: &Context, document: Document, asked: Asked) -> Result<Response, Problem> {
    match document {
        Document::Release(spec) => {
            let (status, body) = register(ctx, spec, asked).await?;
            Ok((status, Json(body)).into_response())
        }
        Document::Canary(canary) => {
            let (status, body) = canary_release(ctx, &canary, asked).await?;
            Ok(answered(status, body))
        }
    }
}

/// What an upload says of these kinds; `None`: it is a strategy.
pub(super) fn read(upload: &Upload) -> Result<Option<Document>, Problem> {
    if canary_releases::kind_of(&upload.strategy).is_none() {
        return Ok(None);
    }
    if upload.functions.is_some() {
        let detail = "a CanaryRelease or Release has no functions: send the manifest alone";
        return Err(Problem::bad_request(detail));
    }
    Ok(Some(canary_releases::read(&upload.strategy)?))
}

/// What is answered.
type Answer = Result<(StatusCode, Submitted), Problem>;

pub(in crate::v1) async fn register(ctx: &Context, spec: ReleaseSpec, asked: Asked) -> Answer {
    let tenant = tenant_of(&asked.scope);
    let before = registry::find::<ReleaseSpec>(ctx, tenant, &spec.name).await?;
    let is_changed = before.as_ref() != Some(&spec);
    let (id, created) = (spec.name.clone(), before.is_none());
    if !asked.dry_run {
        registry::register(ctx, tenant, spec, asked.by).await?;
    } else if is_changed {
        let registered = Uuid::of(Kind::RegisteredRelease, &[tenant, &id]).to_string();
        if let Some(other) = OtherCanary::find(ctx, &registered, "").await? {
            return Err(other.problem(&id));
        }
    }
    let status = if created && !asked.dry_run { StatusCode::CREATED } else { StatusCode::OK };
    let changed = is_changed.then(|| "registered".to_owned());
    Ok((status, Submitted { created, changed, ..nothing(id, asked.dry_run) }))
}

/// How the release of a canary stands; `None`: there is none of this id.
pub(in crate::v1) async fn state(ctx: &Context, id: &str) -> Result<Option<ReleaseState>, Problem> {
    Ok(Existing::find(ctx, id).await?.map(|there| there.state))
}

pub(in crate::v1) async fn canary_release(ctx: &Context, canary: &Canary, asked: Asked) -> Answer {
    let id = asked.scope.release(&canary.name);
    let Some(there) = Existing::find(ctx, &id).await? else {
        return create(ctx, canary, false, asked).await;
    };
    there.check(canary)?;
    // Nobody could take part: it is planned once more, as it was submitted.
    if there.state == NO_PARTICIPANTS && canary.transition == Transition::None {
        if Wanted::of(canary, &there)?.weights != there.weights() {
            let why = "had nobody who could take part, and keeps its weight until it has begun: submit it with that, or take another name";
            let weights: Vec<String> = there.weights().iter().map(u16::to_string).collect();
            return Err(there.wrong(&format!("{why} (its weight is {})", weights.join(", "))));
        }
        let file = marks::file_of(&there.strategy).map(str::to_owned);
        return create(ctx, &Canary { file, ..canary.clone() }, true, asked).await;
    }
    carry_on(ctx, canary, &there, asked).await
}

/// `is_again`: it was there, and nobody could take part.
async fn create(ctx: &Context, canary: &Canary, is_again: bool, asked: Asked) -> Answer {
    let wanted = match canary.transition {
        Transition::None => None,
        Transition::Adopted => Some("adopted"),
        Transition::Deprecated => Some("deprecated"),
    };
    if let Some(wanted) = wanted {
        let why = format!(
            "there is no canary release {} that could be {wanted}: leave it out, and it is created",
            canary.name
        );
        return Err(Fault::new("spec.transition", why).into());
    }
    let Asked { dry_run, by, scope, caller, .. } = asked;
    let (spec, translated) = translated(ctx, &scope, canary).await?;
    // It may have been named by its UUID.
    let (tenant, name) = (tenant_of(&scope), spec.name.clone());
    let id = scope.release(&canary.name);
    let registered = Uuid::of(Kind::RegisteredRelease, &[tenant, &name]).to_string();
    if let Some(other) = OtherCanary::find(ctx, &registered, &id).await? {
        return Err(other.problem(&name));
    }
    let adoption = Adoption {
        kind: ReleaseSpec::STORED.to_owned(),
        name: name.clone(),
        id: registered,
        detail: json_columns::json(&translated.adopted).map_err(|_| Problem::from(EngineError::Failed))?,
    };
    let files = canary_content::of(ctx, &scope, translated.folders).await?;
    let (upload, preparing, binding) = (Upload::made(translated.text, files), ctx.clone(), scope.clone());
    let mut prepared = ctx.in_turn(move || submit::prepare(&upload, &preparing, &binding)).await??;
    prepared.submission.adopts = Some(Arc::new(adoption));
    let how = How { dry_run, deferred: false, by: by.clone(), scope: scope.clone() };
    let (status, mut body) = match submit_prepared(ctx, prepared, how, &caller).await {
        Err(problem) if is_again && problem.kind() == Some("id-taken") => {
            let detail = format!(
                "nobody took part in canary release {id}, and its registered release has changed since: take another name"
            );
            return Err(Problem::new(StatusCode::CONFLICT, "id-taken", detail));
        }
        submitted => submitted?,
    };
    if status == StatusCode::CREATED {
        stands(ctx, &id, by).await?;
    }
    about_manifest(&mut body.warnings);
    body.warnings.extend(about_ports(canary, &spec));
    let others: BTreeSet<String> =
        keeps_busy(ctx, &id).await?.iter().map(|other| caller.name(other).to_owned()).collect();
    body.warnings.extend(others.iter().take(MAX_BUSY).map(|other| busy(other)));
    Ok((status, body))
}

/// The registered release that a canary names, and the strategy that it means for that.
async fn translated(
    ctx: &Context,
    scope: &Scope,
    canary: &Canary,
) -> Result<(ReleaseSpec, Translated), Problem> {
    let spec = registry::find::<ReleaseSpec>(ctx, tenant_of(scope), &canary.spec.release).await?;
    let spec = spec.ok_or_else(|| canary_releases::unknown_release(canary))?;
    let longest_id = scope.tenant().map_or(MAX_RELEASE_ID_LEN, TenantName::max_release_id_len);
    let translated = canary_releases::translate(canary, &spec, longest_id)?;
    Ok((spec, translated))
}

/// What a manifest would submit, and what is odd about it, for who asks what that would do; `None`: it is no manifest, but a strategy.
pub(in crate::v1) async fn strategy_of(
    ctx: &Context,
    scope: &Scope,
    upload: &Upload,
) -> Result<Option<(Upload, Vec<Diagnostic>)>, Problem> {
    let canary = match read(upload)? {
        None => return Ok(None),
        Some(Document::Canary(canary)) => canary,
        Some(Document::Release(_)) => {
            let detail = "kind: Release is registered, and releases nothing: submit it with dry_run=true (--dry-run), and it is checked";
            return Err(Problem::bad_request(detail));
        }
    };
    if canary.transition != Transition::None {
        let why = "a plan shows what a canary begins with: leave it out";
        return Err(Fault::new("spec.transition", why).into());
    }
    let (of, Translated { text, folders, .. }) = translated(ctx, scope, &canary).await?;
    let files = canary_content::of(ctx, scope, folders).await?;
    Ok(Some((Upload::made(text, files), about_ports(&canary, &of))))
}

/// Looks again, now that nobody can register the release in another way any more: a canary that was made from another one is rolled back.
pub(super) async fn stands(ctx: &Context, id: &str, by: By) -> Result<(), Problem> {
    let Some(there) = Existing::find(ctx, id).await?.filter(|there| !there.state.is_over()) else {
        return Ok(());
    };
    let problem = match there.check_base(ctx).await {
        Err(problem) if problem.kind() == Some(IN_USE) => problem,
        other => return other,
    };
    let note = Some("its registered release changed while it was submitted".to_owned());
    let by = By { note, ..by };
    ctx.engine.call(roll_back(id.to_owned(), &by), by, PATIENCE).await?;
    Err(problem)
}

/// Other releases that routers of this one have in hand, of whichever services: there it begins once they are over.
async fn keeps_busy(ctx: &Context, id: &str) -> Result<BTreeSet<String>, Problem> {
    let id = id.to_owned();
    let look = move |state: &Snapshot| {
        state.release_by_id(&id).map(|own| others_in_hand(state, own)).unwrap_or_default()
    };
    Ok(ctx.engine.read_apart(PATIENCE, look).await?)
}

/// The ids of other releases that routers of this one have in hand.
pub(in crate::v1) fn others_in_hand(state: &Snapshot, own: &Release) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (child, _) in own.assignments.range(..) {
        let open = state.children.get(*child).map(|child| child.open.iter().copied());
        let others = open.into_iter().flatten().filter(|open| {
            let part = state.assignment(*open, *child);
            *open != own.key && part.is_some_and(next_action::has_it_in_hand)
        });
        found.extend(others.filter_map(|open| Some(state.release(open)?.id.to_string())));
    }
    found
}

/// Brings a canary that is there to what is asked for.
async fn carry_on(ctx: &Context, canary: &Canary, there: &Existing, asked: Asked) -> Answer {
    let is_to_go_on = canary.transition != Transition::Deprecated;
    let is_open =
        |there: &Existing| matches!(Standing::of(&there.state), Standing::Planned | Standing::UnderWay);
    if is_to_go_on && is_open(there) {
        // The process that created it may have ended before it could look again.
        if let Err(problem) = there.check_base(ctx).await {
            // It may have been adopted meanwhile, and changed the registered release itself.
            return match Existing::find(ctx, &there.id).await? {
                Some(now) if !is_open(&now) => Box::pin(carry_on(ctx, canary, &now, asked)).await,
                Some(_) | None => Err(problem),
            };
        }
    }
    let Asked { dry_run, by, may_approve, .. } = asked;
    let steps = there.steps(&Wanted::of(canary, there)?, may_approve, &by)?;
    let before = show::detail(ctx, &there.id).await?.release;
    let Some((word, commands)) = steps else {
        return Ok(there.answer(before.counts.participants, None, dry_run));
    };
    check_note(ctx, &there.id, &by).await?;
    if dry_run {
        return Ok(there.answer(before.counts.participants, Some(&*word), dry_run));
    }
    for command in commands {
        ctx.engine.call(command, by.clone(), PATIENCE).await?;
    }
    let after = show::detail(ctx, &there.id).await?.release;
    let is_changed = after.tag != before.tag;
    Ok(there.answer(after.counts.participants, is_changed.then_some(&*word), dry_run))
}

/// Refuses another attempt of a canary that is over, where its registered release is no longer what the canary was made from: it would end
/// with a release that nobody asked for. While a canary is under way, nobody can change its registered release.
pub(super) async fn check_retry(ctx: &Context, id: &str) -> Result<(), Problem> {
    match Existing::find(ctx, id).await? {
        Some(there) if there.state.is_over() => there.check_base(ctx).await,
        Some(_) | None => Ok(()),
    }
}

/// Deprecates a canary, as `transition: Deprecated` does.
pub(in crate::v1) async fn deprecate(ctx: &Context, id: &str, by: By) -> Result<(), Problem> {
    let there = Existing::find(ctx, id).await?.ok_or_else(|| Problem::unknown_release(id))?;
    let wanted = Wanted { transition: Transition::Deprecated, weights: Vec::new() };
    let Some((_, commands)) = there.steps(&wanted, false, &by)? else { return Ok(()) };
    check_note(ctx, id, &by).await?;
    for command in commands {
        ctx.engine.call(command, by.clone(), PATIENCE).await?;
    }
    Ok(())
}

/// What is wanted of a canary that is there.
struct Wanted {
    transition: Transition,
    /// Of each part, in percent. Where it is adopted or deprecated, none counts.
    weights: Vec<u16>,
}

impl Wanted {
    fn of(canary: &Canary, there: &Existing) -> Result<Self, Problem> {
        let weights = match canary.transition {
            Transition::None => canary_releases::wanted(canary, &there.strategy)?,
            Transition::Adopted | Transition::Deprecated => Vec::new(),
        };
        Ok(Self { transition: canary.transition, weights })
    }
}

/// Whether a stage of a release was passed over.
fn is_passed_over(facts: &[Dated]) -> bool {
    facts.iter().any(|dated| matches!(dated.fact, ReleaseEvent::StageSkipped { .. }))
}

/// A release that is there under the name of a canary.
struct Existing {
    id: String,
    state: ReleaseState,
    /// Its routers have failed, and each is back at what served before.
    is_back: bool,
    /// Its stage is passed over, as where it is adopted: nobody gives out calls by a weight any more.
    is_passed_over: bool,
    strategy: Arc<Strategy>,
    adopts: Option<Arc<Adoption>>,
}

impl Existing {
    async fn find(ctx: &Context, id: &str) -> Result<Option<Self>, Problem> {
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

    /// What each part gets, in percent.
    fn weights(&self) -> Vec<u16> {
        canary_releases::weights_of(&self.strategy).iter().map(|of| of.weight).collect()
    }

    /// Refuses a canary that is another one.
    fn check(&self, canary: &Canary) -> Result<(), Problem> {
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
    async fn check_base(&self, ctx: &Context) -> Result<(), Problem> {
        let Some(adoption) = self.adopts.as_ref().filter(|of| of.kind == ReleaseSpec::STORED) else {
            return Ok(());
        };
        let (id, name) = (&self.id, &adoption.name);
        let now = registry::find::<ReleaseSpec>(ctx, ab_releases::tenant_of(id), name).await?;
        let adopted = serde_json::from_str::<ReleaseSpec>(&adoption.detail).ok();
        let is_based = |(now, adopted): (ReleaseSpec, ReleaseSpec)| {
            canary_releases::is_of(&self.strategy, &adopted, &now)
        };
        if now.zip(adopted).is_some_and(is_based) {
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

    fn wrong(&self, why: &str) -> Problem {
        let detail = format!("canary release {} {why}", self.id);
        Problem::new(StatusCode::CONFLICT, "wrong-state", detail)
    }

    fn answer(&self, participants: u32, changed: Option<&str>, dry_run: bool) -> (StatusCode, Submitted) {
        let changed = changed.map(str::to_owned);
        (StatusCode::OK, Submitted { participants, changed, ..nothing(self.id.clone(), dry_run) })
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

/// Another canary of the same registered release, which is not over.
struct OtherCanary {
    id: String,
    is_going_back: bool,
}

impl OtherCanary {
    /// Beside the release of this id. `registered`: the UUID of the registered release.
    async fn find(ctx: &Context, registered: &str, id: &str) -> Result<Option<Self>, Problem> {
        let (registered, id) = (registered.to_owned(), id.to_owned());
        let look = move |state: &Snapshot| {
            let open = state.releases.values().filter(|release| !release.state.is_over());
            let mut others = open
                .filter(|release| release.id.as_str() != id)
                .filter(|release| release.adopts.as_ref().is_some_and(|adopted| adopted.id == registered));
            others.next().map(|other| Self {
                id: other.id.to_string(),
                is_going_back: matches!(other.state, ReleaseState::RollingBack { .. }),
            })
        };
        Ok(ctx.engine.read(PATIENCE, look).await?)
    }

    fn problem(&self, of: &str) -> Problem {
        let id = &self.id;
        let detail = if self.is_going_back {
            format!("canary release {id} of {of} is being rolled back: wait until it has been")
        } else {
            format!("canary release {id} of {of} is under way: adopt or deprecate it first")
        };
        Problem::new(StatusCode::CONFLICT, "conflict", detail)
    }
}

/// An answer in which nothing has happened.
fn nothing(id: String, dry_run: bool) -> Submitted {
    Submitted {
        id,
        created: false,
        dry_run,
        changed: None,
        forwarded_to: None,
        participants: 0,
        excluded: BTreeMap::new(),
        waits_for: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Of what is said of a strategy what concerns the manifest that it was made of: the strategy nobody has seen.
pub(in crate::v1) fn about_manifest(warnings: &mut Vec<Diagnostic>) {
    warnings.retain(|warning| warning.code != NO_CONDITION);
    for warning in warnings {
        (warning.line, warning.column, warning.fix) = (1, 1, None);
        warning.source_line.clear();
    }
}

/// What may surprise of the ports of a canary: some that it doesn't name have their calls shared, too, and some have other weights than others
/// of their service.
fn about_ports(canary: &Canary, of: &ReleaseSpec) -> Vec<Diagnostic> {
    let unnamed = canary_releases::unnamed_ports(canary, of).into_iter().map(|(service, ports)| {
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        let ports = ports.join(", ");
        warning(
            "unnamed-port",
            format!("service {service} takes calls at {ports} as well, and they are shared likewise"),
        )
    });
    let uneven = canary_releases::uneven_ports(canary).into_iter().map(|(service, weights)| {
        let message = format!(
            "ports of service {service} have different weights ({weights}): whoever calls more than one of them may meet both versions"
        );
        warning("port-weights", message)
    });
    unnamed.chain(uneven).collect()
}

/// That a router has another release in hand.
fn busy(other: &str) -> Diagnostic {
    let message =
        format!("a router of it has release {other} in hand, and begins this one once that is over");
    warning("router-busy", message)
}

/// About a manifest as a whole.
fn warning(code: &str, message: String) -> Diagnostic {
    Diagnostic {
        severity: "warning".to_owned(),
        code: code.to_owned(),
        line: 1,
        column: 1,
        message,
        source_line: String::new(),
        fix: None,
    }
}
