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

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

pub(in crate::v1) use super::canary_steps::{Asked, Onward, may_approve};

use super::{
    act::roll_back,
    canary_content,
    canary_steps::{Answer, Existing, IN_USE, Wanted, nothing},
    submit::{self, How, NO_PARTICIPANTS, Prepared, answered, submit_prepared},
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
use canary_releases::{Canary, Document, Transition, Translated, marks};
use domain::release::{
    lifecycle::Adoption,
    next_action,
    state::{Release, ReleaseState, Snapshot},
};
use engine::{By, EngineError, json_columns};
use model::{MAX_RELEASE_ID_LEN, TenantName};
use protocol::{
    api::{Diagnostic, Submitted},
    canary_releases::ReleaseSpec,
};

/// Warnings of strategies that help nobody here: a manifest has no place for a condition, nor for a minimum.
const NO_PLACE: [&str; 2] = ["no-condition", "no-minimum"];

/// The most releases of which a warning says that they are in hand.
const MAX_BUSY: usize = 20;

/// Does what a manifest of one of the two kinds asks for.
pub(super) async fn submit(ctx: &Context, document: Document, asked: Asked) -> Result<Response, Problem> {
    match document {
        Document::Release(spec) => {
            let (status, body) = register(ctx, spec, asked).await?;
            Ok((status, Json(body)).into_response())
        }
        Document::Canary(canary) => {
            let (status, body) = canary_release(ctx, &canary, &asked).await?;
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

async fn canary_release(ctx: &Context, canary: &Canary, asked: &Asked) -> Answer {
    match Next::of(ctx, canary, asked).await? {
        Next::Begins(beginning) => beginning.prepare(ctx, asked).await?.submit(ctx, asked).await,
        Next::Goes(onward) => onward.answer(ctx, asked).await,
    }
}

/// What the submission of a canary leads to.
pub(in crate::v1) enum Next {
    /// It isn't there, or nobody could take part in it so far.
    Begins(Box<Beginning>),
    /// It is there.
    Goes(Box<Onward>),
}

impl Next {
    /// # Errors
    ///
    /// Why it is refused, as far as it shows in what is there. Of one that begins, what it names is looked up later.
    pub async fn of(ctx: &Context, canary: &Canary, asked: &Asked) -> Result<Self, Problem> {
        let Some(there) = Existing::find(ctx, &asked.scope.release(&canary.name)).await? else {
            return Beginning::of(canary.clone()).map(|beginning| Self::Begins(Box::new(beginning)));
        };
        there.check(canary)?;
        // It is planned once more, as it was submitted.
        if there.state == NO_PARTICIPANTS && canary.transition == Transition::None {
            if Wanted::of(canary, &there)?.weights != there.weights() {
                let why = "had nobody who could take part, and keeps its weight until it has begun: submit it with that, or take another name";
                let weights: Vec<String> = there.weights().iter().map(u16::to_string).collect();
                return Err(there.wrong(&format!("{why} (its weight is {})", weights.join(", "))));
            }
            let file = marks::file_of(&there.strategy).map(str::to_owned);
            let canary = Canary { file, ..canary.clone() };
            return Ok(Self::Begins(Box::new(Beginning { canary, is_again: true })));
        }
        Ok(Self::Goes(Box::new(Onward::of(ctx, canary, there, asked).await?)))
    }
}

/// A canary that begins once it is submitted.
pub(in crate::v1) struct Beginning {
    canary: Canary,
    /// It was there, and nobody could take part.
    is_again: bool,
}

impl Beginning {
    fn of(canary: Canary) -> Result<Self, Problem> {
        let wanted = match canary.transition {
            Transition::None => return Ok(Self { canary, is_again: false }),
            Transition::Adopted => "adopted",
            Transition::Deprecated => "deprecated",
        };
        let why = format!(
            "there is no canary release {} that could be {wanted}: leave it out, and it is created",
            canary.name
        );
        Err(Fault::new("spec.transition", why).into())
    }

    /// What a strategy is made of by it, and what may surprise of its ports.
    pub async fn strategy(&self, ctx: &Context, scope: &Scope) -> Result<(Upload, Vec<Diagnostic>), Problem> {
        let (of, Translated { text, folders, .. }) = translated(ctx, scope, &self.canary).await?;
        let files = canary_content::of(ctx, scope, folders).await?;
        Ok((Upload::made(text, files), about_ports(&self.canary, &of)))
    }

    /// All that its release takes.
    pub async fn prepare(&self, ctx: &Context, Asked { scope, .. }: &Asked) -> Result<Ready, Problem> {
        let Self { canary, is_again } = self;
        let (spec, translated) = translated(ctx, scope, canary).await?;
        // It may have been named by its UUID.
        let (tenant, name) = (tenant_of(scope), spec.name.clone());
        let id = scope.release(&canary.name);
        let registered = Uuid::of(Kind::RegisteredRelease, &[tenant, &name]).to_string();
        if let Some(other) = OtherCanary::find(ctx, &registered, &id).await? {
            return Err(other.problem(&name));
        }
        let adoption = Adoption {
            kind: ReleaseSpec::STORED.to_owned(),
            name,
            id: registered,
            detail: json_columns::json(&translated.adopted)
                .map_err(|_| Problem::from(EngineError::Failed))?,
        };
        let files = canary_content::of(ctx, scope, translated.folders).await?;
        let (upload, preparing, binding) = (Upload::made(translated.text, files), ctx.clone(), scope.clone());
        let mut prepared = ctx.in_turn(move || submit::prepare(&upload, &preparing, &binding)).await??;
        prepared.submission.adopts = Some(Arc::new(adoption));
        Ok(Ready { id, prepared, is_again: *is_again, warnings: about_ports(canary, &spec) })
    }
}

/// A canary that only has to be submitted.
pub(in crate::v1) struct Ready {
    id: String,
    prepared: Prepared,
    is_again: bool,
    /// What may surprise of its manifest.
    warnings: Vec<Diagnostic>,
}

impl Ready {
    /// Submits it, or tells what that would do.
    pub async fn submit(&self, ctx: &Context, Asked { dry_run, by, scope, caller, .. }: &Asked) -> Answer {
        let Self { id, prepared, is_again, warnings } = self;
        let how = How { dry_run: *dry_run, deferred: false, by: by.clone(), scope: scope.clone() };
        let (status, mut body) = match submit_prepared(ctx, prepared.clone(), how, caller).await {
            Err(problem) if *is_again && problem.kind() == Some("id-taken") => {
                let detail = format!(
                    "nobody took part in canary release {id}, and its registered release has changed since: take another name"
                );
                return Err(Problem::new(StatusCode::CONFLICT, "id-taken", detail));
            }
            submitted => submitted?,
        };
        if status == StatusCode::CREATED {
            stands(ctx, id, by.clone()).await?;
        }
        about_manifest(&mut body.warnings);
        body.warnings.extend(warnings.iter().cloned());
        let others: BTreeSet<String> =
            keeps_busy(ctx, id).await?.iter().map(|other| caller.name(other).to_owned()).collect();
        body.warnings.extend(others.iter().take(MAX_BUSY).map(|other| busy(other)));
        Ok((status, body))
    }
}

/// What a manifest would do, for a plan; `None`: it is no manifest, but a strategy.
pub(in crate::v1) async fn planned(
    ctx: &Context,
    upload: &Upload,
    asked: &Asked,
) -> Result<Option<Next>, Problem> {
    match read(upload)? {
        None => Ok(None),
        Some(Document::Canary(canary)) => Next::of(ctx, &canary, asked).await.map(Some),
        Some(Document::Release(_)) => {
            let detail = "kind: Release is registered, and releases nothing: submit it with dry_run=true (--dry-run), and it is checked";
            Err(Problem::bad_request(detail))
        }
    }
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
    Onward::back(ctx, there, &by).await?.carry_out(ctx, &by).await
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

/// Of what is said of a strategy what concerns the manifest that it was made of: the strategy nobody has seen.
pub(in crate::v1) fn about_manifest(warnings: &mut Vec<Diagnostic>) {
    warnings.retain(|warning| !NO_PLACE.contains(&warning.code.as_str()));
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

/// About a text as a whole.
pub(super) fn warning(code: &str, message: String) -> Diagnostic {
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
