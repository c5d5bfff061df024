//! Releases that came later and changed the same.

use axum::http::StatusCode;

use super::finished::{Finished, Left};
use crate::{Context, problem::Problem, scope::Scope};
use language::{
    CallTarget, Run,
    functions::{self, ArchiveError},
};
use model::tenant;
use store::{ReleaseFilter, rows::ReleaseRow};

/// Releases that are looked at together.
const PAGE: u32 = 20;

/// States in which a release may have changed something, or may yet.
const STATES: [&str; 8] = [
    "Planned",
    "Running",
    "Paused",
    "AwaitingApproval",
    "RollingBack",
    "Done",
    "DoneWithFailures",
    "DoneUntested",
];

/// The rollback of a release that is not over, by its id in the manager.
///
/// # Errors
///
/// The later release that changed one of its functions or services, or is about to.
pub(super) async fn rollback_under_way(
    ctx: &Context,
    of: &Finished,
    caller: &Scope,
) -> Result<Option<String>, Problem> {
    let mut under_way = None;
    for key in of.strategy.subject_keys() {
        under_way = of_subject(ctx, of, key, caller).await?.or(under_way);
    }
    Ok(under_way)
}

/// The same of one function or service: the latest release decides that has changed anything.
async fn of_subject(
    ctx: &Context,
    of: &Finished,
    key: &str,
    caller: &Scope,
) -> Result<Option<String>, Problem> {
    let mut before = None;
    loop {
        let states = STATES.map(str::to_owned).to_vec();
        let filter =
            ReleaseFilter { before, states, function: Some(key.to_owned()), prefix: None, limit: PAGE };
        let rows = ctx.engine.reader().releases(&filter).await?;
        let is_last = rows.len() < PAGE as usize;
        before = rows.last().map(|row| row.release_key);
        for row in rows {
            if row.release_key <= of.row.release_key {
                return Ok(None);
            }
            if !meets(of, &row) {
                continue;
            }
            let later = Finished::read(ctx, row)?;
            if later.detail.state.is_over() {
                if !later.has_moved() {
                    continue;
                }
                let is_same = leave_the_same(ctx, of, &later, key).await?;
                return if is_same { Ok(None) } else { Err(changed(of, &later, key, caller)) };
            }
            // One that nobody has started holds no other up.
            if later.detail.deferred {
                continue;
            }
            let is_meant = later.is_rollback_of(of);
            return if is_meant { Ok(Some(later.row.id)) } else { Err(not_over(&later, key, caller)) };
        }
        if is_last {
            return Ok(None);
        }
    }
}

/// Whether another release may have reached the same children.
fn meets(of: &Finished, row: &ReleaseRow) -> bool {
    let other = tenant::split(&row.id).map(|(tenant, _)| tenant);
    tenant::meet(of.tenant(), other)
}

/// A later release, as it is named to whoever asks.
fn named(later: &Finished, caller: &Scope) -> String {
    if caller.sees_release(&later.row.id) {
        return format!("release {}", later.row.id);
    }
    format!("{} release", tenant::ANOTHERS)
}

/// What people call a function or a service.
fn subject(key: &str) -> String {
    key.strip_prefix("service/").map_or_else(|| key.to_owned(), |name| format!("service {name}"))
}

fn changed(of: &Finished, later: &Finished, key: &str, caller: &Scope) -> Problem {
    let (id, named, subject) = (&of.row.id, named(later, caller), subject(key));
    let detail = if later.is_rollback_of(of) {
        format!("release {id} was rolled back already, by {named}")
    } else {
        format!(
            "{named} came after {id} and changed {subject}: roll that one back, or release what is to run"
        )
    };
    Problem::new(StatusCode::CONFLICT, "changed-since", detail)
}

fn not_over(later: &Finished, key: &str, caller: &Scope) -> Problem {
    let (named, state, subject) = (named(later, caller), later.detail.state.name(), subject(key));
    let detail = format!("{named} changes {subject}, and is {state}: abort it, or wait until it is over");
    Problem::new(StatusCode::CONFLICT, "conflict", detail)
}

/// Whether two releases have left the same of a function or service.
async fn leave_the_same(ctx: &Context, of: &Finished, later: &Finished, key: &str) -> Result<bool, Problem> {
    match (of.left(key), later.left(key)) {
        (Some(Left::Function(one)), Some(Left::Function(other))) => {
            Ok(one.content.is_some() && one.content == other.content)
        }
        (Some(Left::Service(_, Some(one))), Some(Left::Service(_, Some(other)))) => {
            let one = started(ctx, of, key, one).await?;
            Ok(one.is_some() && one == started(ctx, later, key, other).await?)
        }
        (Some(Left::Service(one, None)), Some(Left::Service(other, None))) => {
            Ok(sorted(one) == sorted(other))
        }
        _ => Ok(false),
    }
}

fn sorted(targets: &[CallTarget]) -> Vec<&CallTarget> {
    let mut all: Vec<&CallTarget> = targets.iter().collect();
    all.sort_unstable();
    all
}

/// What tells the content apart that a release has started. `None`: its archive is gone.
async fn started(ctx: &Context, of: &Finished, key: &str, run: &Run) -> Result<Option<[u8; 32]>, Problem> {
    let Some(archive) = ctx.engine.reader().archive(&of.row.archive).await? else { return Ok(None) };
    let (key, env, folder) = (key.to_owned(), run.env.clone(), format!("{}/", run.path));
    let limits = ctx.settings.archive_limits.clone();
    let read = move || {
        let unpacked = functions::unpack(&archive, |path| path.starts_with(&folder), &limits)?;
        let files =
            unpacked.files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&folder)?, &**bytes)));
        Ok::<_, ArchiveError>(functions::of_version(&key, &env, files))
    };
    Ok(Some(ctx.in_turn(read).await??))
}
