//! What agents start for a canary: folders of archives that earlier releases brought along, or of the manager's own folder of functions, with
//! their templates rendered.
//!
//! They are rendered here, when the canary is submitted: so what can't be rendered is refused before anything happens, what an agent gets is
//! what it runs, and another configuration is another content, which no agent takes for the one before.

use std::path::Path;

use ab_releases::Fault;
use canary_releases::{RunFolder, render};
use language::functions::{self, ArchiveError, Limits, Unpacked};
use model::TenantName;

use crate::{Context, problem::Problem, scope::Scope, v1::ab_releases::content};

/// A folder, and where it is.
struct Source {
    folder: RunFolder,
    /// The bytes of an archive that the store has; `None`: it is in the manager's own folder.
    archive: Option<axum::body::Bytes>,
}

/// All that a strategy of a canary needs beside its text; `None`: nothing is started.
pub(super) async fn of(
    ctx: &Context,
    scope: &Scope,
    folders: Vec<RunFolder>,
) -> Result<Option<Unpacked>, Problem> {
    if folders.is_empty() {
        return Ok(None);
    }
    // Of others' releases a tenant knows nothing, whatever digests it can name.
    let prefix = scope.tenant().map_or_else(String::new, TenantName::prefix);
    let mut sources = Vec::new();
    for folder in folders {
        let archive = match &folder.run.archive {
            None => None,
            Some(digest) => {
                let found = ctx.engine.reader().archive_of(&prefix, &content::bytes(digest)).await?;
                let unknown = || {
                    let why = format!(
                        "no release has brought the archive {digest} along, which {} needs: submit one with it first, and register the \
                         functions_digest that `release show --json` tells",
                        folder.name
                    );
                    Fault::new(field_of(&folder), why)
                };
                Some(found.ok_or_else(unknown)?)
            }
        };
        sources.push(Source { folder, archive });
    }
    let root = scope.functions_root(&ctx.settings.functions_root);
    let limits = ctx.settings.archive_limits.clone();
    let read = move || {
        let mut all = Unpacked::default();
        for source in sources {
            let name = source.folder.name.clone();
            let Unpacked { files, programs } = made(source, &root, &limits)?;
            all.files.extend(files.into_iter().map(|(path, bytes)| (format!("{name}/{path}"), bytes)));
            all.programs.extend(programs.into_iter().map(|path| format!("{name}/{path}")));
        }
        Ok::<_, Fault>(all)
    };
    Ok(Some(ctx.in_turn(read).await??))
}

/// The files of a folder, rendered.
fn made(Source { folder, archive }: Source, root: &Path, limits: &Limits) -> Result<Unpacked, Fault> {
    let RunFolder { name, run, config, is_canary } = &folder;
    let unread = |error: ArchiveError| {
        Fault::new(field_of(&folder), format!("what is to run as {name} can't be had: {error}"))
    };
    let path = functions::safe(&run.path).map_err(unread)?;
    let packed = match archive {
        Some(bytes) => bytes,
        None => {
            functions::folders_from_folder(root, &[(name.clone(), path.clone())], limits)
                .map_err(unread)?
                .bytes
        }
    };
    let below = |full: &str| full.strip_prefix(&*path)?.strip_prefix('/').map(str::to_owned);
    let unpacked = functions::unpack(&packed, |full: &str| below(full).is_some(), limits).map_err(unread)?;
    if unpacked.files.is_empty() {
        let why = format!("its archive has no folder {path:?}, or nothing is in it, which {name} needs");
        return Err(Fault::new(field_of(&folder), why));
    }
    let files = unpacked.files.into_iter().filter_map(|(full, bytes)| Some((below(&full)?, bytes)));
    let programs = unpacked.programs.iter().filter_map(|full| below(full));
    let bare = Unpacked { files: files.collect(), programs: programs.collect() };
    let field = if *is_canary { "spec.config" } else { "spec.release" };
    render(bare, config, field, *is_canary)
}

/// What in a canary names a folder: the version, or the release that says which version serves.
fn field_of(folder: &RunFolder) -> &'static str {
    if folder.is_canary { "spec.version" } else { "spec.release" }
}
