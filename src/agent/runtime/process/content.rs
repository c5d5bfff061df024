//! Copying the content of a version.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
};

use super::super::error::Fault;

/// Copies a folder to a new one, unless it takes more than so many bytes. Nobody else may read the copy.
pub(super) fn copy(from: &Path, to: &Path, room: u64) -> Result<(), Fault> {
    let mut used = 0;
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((below, depth)) = open.pop() {
        let folder = from.join(&below);
        let about = |path: &Path| Fault::io(format!("copying {}", path.display()));
        fs::DirBuilder::new().mode(0o700).create(to.join(&below)).map_err(about(&folder))?;
        for entry in fs::read_dir(&folder).map_err(about(&folder))? {
            let entry = entry.map_err(about(&folder))?;
            let (source, name) = (entry.path(), below.join(entry.file_name()));
            let kind = entry.file_type().map_err(about(&source))?;
            if kind.is_dir() {
                open.push((name, depth + 1));
            } else if kind.is_file() {
                used += entry.metadata().map_err(about(&source))?.len();
                if used > room {
                    return Err(Fault::Room { needs: used, limit: room });
                }
                copy_file(&source, &to.join(&name)).map_err(about(&source))?;
            } else if kind.is_symlink() {
                let leads = fs::read_link(&source).map_err(about(&source))?;
                if !stays_within(&leads, depth) {
                    return Err(Fault::Content(source));
                }
                symlink(leads, to.join(&name)).map_err(about(&source))?;
            } else {
                return Err(Fault::Content(source));
            }
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let is_program = from.metadata()?.permissions().mode() & 0o111 != 0;
    fs::set_permissions(to, fs::Permissions::from_mode(if is_program { 0o700 } else { 0o600 }))
}

/// Whether a link that lies so many folders deep leads to something in the copy. Steps up are taken at its beginning alone: behind
/// a name, which may be a link itself, it can't be said where they lead.
fn stays_within(leads: &Path, depth: usize) -> bool {
    let ups = leads.components().take_while(|part| *part == Component::ParentDir).count();
    ups <= depth
        && leads.components().skip(ups).all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
