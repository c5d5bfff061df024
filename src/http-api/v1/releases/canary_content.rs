//! What agents start for a canary: folders of archives that earlier releases brought along, or of the manager's own folder of functions, with
//! their templates rendered.
//!
//! They are rendered here, when the canary is submitted: so what can't be rendered is refused before anything happens, what an agent gets is
//! what it runs, and another configuration is another content, which no agent takes for the one before.

use std::path::Path;

use ab_releases::Fault;
use axum::body::Bytes;
use canary_releases::{RunFolder, is_template, render};
use language::functions::{self, ArchiveError, Limits, Unpacked};

use crate::{Context, problem::Problem, scope::Scope, v1::ab_releases::content};

/// All that a strategy of a canary needs beside its text; `None`: nothing is started.
///
/// One folder after the other: so one archive is in memory at a time, and of all folders no more than a submission may have.
pub(super) async fn of(
    ctx: &Context,
    scope: &Scope,
    folders: Vec<RunFolder>,
) -> Result<Option<Unpacked>, Problem> {
    if folders.is_empty() {
        return Ok(None);
    }
    let (mut bare, mut bytes) = (Vec::new(), 0_u64);
    let max = ctx.settings.archive_limits.unpacked_bytes;
    for folder in folders {
        let archive = archive_of(ctx, scope, &folder).await?;
        let root = scope.functions_root(&ctx.settings.functions_root);
        let limits = ctx.settings.archive_limits.clone();
        let read = move || unrendered(&folder, archive, &root, &limits).map(|files| (folder, files));
        let (folder, files) = ctx.in_turn(read).await??;
        bytes += files.files.values().map(|content| content.len() as u64).sum::<u64>();
        if bytes > max {
            return Err(ArchiveError::TooLarge { max }.into());
        }
        bare.push((folder, files));
    }
    Ok(Some(ctx.in_turn(move || rendered(bare)).await??))
}

/// The archive of an earlier release in which a folder lies; `None`: it is among the manager's own functions.
async fn archive_of(ctx: &Context, scope: &Scope, folder: &RunFolder) -> Result<Option<Bytes>, Problem> {
    let Some(digest) = &folder.run.archive else { return Ok(None) };
    let unknown = || {
        let why = format!(
            "no release has brought the archive {digest} along, which {} needs: submit one with it first, and register the \
             functions_digest that `release show --json` tells",
            folder.name
        );
        Fault::new(field_of(folder), why)
    };
    Ok(Some(content::archive_of(ctx, scope, digest).await?.ok_or_else(unknown)?))
}

/// The files of a folder as they are, by their names in it.
fn unrendered(
    folder: &RunFolder,
    archive: Option<Bytes>,
    root: &Path,
    limits: &Limits,
) -> Result<Unpacked, Fault> {
    let RunFolder { name, run, .. } = folder;
    let unread = |error: ArchiveError| {
        Fault::new(field_of(folder), format!("what is to run as {name} can't be had: {error}"))
    };
    let path = functions::safe(&run.path).map_err(unread)?;
    let below = |full: &str| full.strip_prefix(&*path)?.strip_prefix('/').map(str::to_owned);
    let unpacked = match archive {
        Some(zip) => functions::unpack(&zip, |full: &str| below(full).is_some(), limits),
        None => functions::read_folders(root, &[(name.clone(), path.clone())], limits),
    };
    let unpacked = unpacked.map_err(unread)?;
    if unpacked.files.is_empty() {
        let why = format!("its archive has no folder {path:?}, or nothing is in it, which {name} needs");
        return Err(Fault::new(field_of(folder), why));
    }
    let files = unpacked.files.into_iter().filter_map(|(full, bytes)| Some((below(&full)?, bytes)));
    let programs = unpacked.programs.iter().filter_map(|full| below(full));
    Ok(Unpacked { files: files.collect(), programs: programs.collect() })
}

/// All folders, rendered, each below its name.
fn rendered(bare: Vec<(RunFolder, Unpacked)>) -> Result<Unpacked, Fault> {
    let has_template = |files: &Unpacked| files.files.keys().any(|path| is_template(path));
    // A configuration is that of all services of a canary, and one that reads it is enough.
    let is_read = bare.iter().any(|(folder, files)| folder.is_canary && has_template(files));
    let mut all = Unpacked::default();
    for (RunFolder { name, config, is_canary, .. }, files) in bare {
        let field = if is_canary { "spec.config" } else { "spec.release" };
        let Unpacked { files, programs } = render(files, &config, field, is_canary && !is_read)?;
        all.files.extend(files.into_iter().map(|(path, bytes)| (format!("{name}/{path}"), bytes)));
        all.programs.extend(programs.into_iter().map(|path| format!("{name}/{path}")));
    }
    Ok(all)
}

/// What in a canary names a folder: the version, or the release that says which version serves.
fn field_of(folder: &RunFolder) -> &'static str {
    if folder.is_canary { "spec.version" } else { "spec.release" }
}
