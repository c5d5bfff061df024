//! What versions consist of that agents are to run: folders of archives that earlier releases brought along.

use axum::{body::Bytes, http::StatusCode};

use crate::{Context, problem::Problem, scope::Scope};
use ab_releases::{Bound, Fault};
use language::functions::{self, Unpacked};
use model::{TenantName, hex};

/// The folders of both versions that agents run, which are of variations of these places; `None`: what the release is made of runs
/// already.
pub(super) async fn of(
    ctx: &Context,
    scope: &Scope,
    bound: &Bound,
    at_agents: Option<[usize; 2]>,
) -> Result<Option<Unpacked>, Problem> {
    let Some(at_agents) = at_agents else { return Ok(None) };
    let mut parts = Vec::new();
    let versions = || at_agents.into_iter().filter_map(|at| Some((at, bound.versions.get(at)?)));
    for (at, version) in versions() {
        let Some((digest, path)) = version.digest.as_deref().zip(version.path.clone()) else { continue };
        let archive = archive_of(ctx, scope, digest).await?.ok_or_else(|| {
            let why = format!(
                "no release has brought the archive {digest} of version {} along: submit one with it first, and register the functions_digest that `release show --json` tells",
                version.name
            );
            Fault::new(format!("variations[{at}].releaseId"), why)
        })?;
        parts.push((archive, path));
    }
    let limits = ctx.settings.archive_limits.clone();
    let unpack = move || {
        let mut all = Unpacked::default();
        for (archive, folder) in parts {
            let is_below = |path: &str| path.strip_prefix(&*folder).is_some_and(|rest| rest.starts_with('/'));
            let Unpacked { files, programs } = functions::unpack(&archive, is_below, &limits)?;
            if files.is_empty() {
                return Ok(Err(folder));
            }
            all.files.extend(files);
            all.programs.extend(programs);
        }
        Ok::<_, functions::ArchiveError>(Ok(all))
    };
    let unpacked = ctx.in_turn(unpack).await?.map_err(|error| {
        tracing::error!(%error, "an archive of the store can't be unpacked");
        Problem::plain(StatusCode::INTERNAL_SERVER_ERROR, "an archive of the store can't be unpacked")
    })?;
    unpacked.map(Some).map_err(|folder| {
        let at = versions().find(|(_, version)| version.path.as_ref() == Some(&folder));
        let field = format!("variations[{}].releaseId", at.map_or(0, |(at, _)| at));
        Fault::new(field, format!("its archive has no folder {folder:?}, or nothing is in it")).into()
    })
}

/// An archive that an earlier release brought along, by its SHA-256 in hexadecimal digits; `None`: none did. Of others' releases a
/// tenant knows nothing, whatever digests it can name.
pub(in crate::v1) async fn archive_of(
    ctx: &Context,
    scope: &Scope,
    digest: &str,
) -> Result<Option<Bytes>, Problem> {
    let Ok(digest) = hex::decode::<32>(digest) else { return Ok(None) };
    let prefix = scope.tenant().map_or_else(String::new, TenantName::prefix);
    Ok(ctx.engine.reader().archive_of(&prefix, &digest).await?)
}
