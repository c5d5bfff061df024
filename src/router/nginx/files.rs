//! The files of buckets, in the folder that nginx looks into.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use traffic::{
    BUCKETS, Table,
    nginx::{bucket_name, changes, path::NUMBER_FILE},
    wanted::Number,
};

use super::state::State;
use crate::{
    RouterError,
    disk::{self, Disk},
};

/// So many files are made or removed before others get their turn.
const AT_ONCE: usize = 256;

/// Makes the folder of all, or sees that it is ours: it may lie where everybody may make folders.
pub fn own(disk: &Disk, root: &Path) -> Result<(), RouterError> {
    disk.create_folder(root)?;
    let there = fs::symlink_metadata(root).map_err(disk::at(root))?;
    let is_ours = there.is_dir() && there.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || there.mode() & 0o022 != 0 {
        let what = "it must be a folder of this program's user that nobody else may write to";
        return Err(disk::at(root)(std::io::Error::other(what)));
    }
    Ok(())
}

/// The buckets that are there, a set for each variation but the stable one.
pub fn there(folder: &Path, variations: usize) -> Result<Vec<BTreeSet<u16>>, RouterError> {
    let buckets = |of: usize| {
        let names = disk::names(&folder.join(of.to_string()))?;
        Ok(names.iter().filter_map(|name| bucket(name)).collect())
    };
    (1..variations).map(buckets).collect()
}

fn bucket(name: &str) -> Option<u16> {
    let is_number = name.len() == 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    Some(name).filter(|_| is_number)?.parse().ok().filter(|bucket| *bucket < BUCKETS)
}

/// Has a folder's files be those of a table: makes first, and removes then. A variation that is to have none goes by one renaming,
/// and so do all.
pub async fn make_so(disk: &Disk, folder: &Path, table: &Table) -> Result<(), RouterError> {
    let variation = |of: u8| folder.join(of.to_string());
    let all = 1..table.variations() as u8;
    for of in all.clone() {
        disk.create_folder(&variation(of))?;
    }
    let changes = changes(&there(folder, table.variations())?, table);
    for some in changes.make.chunks(AT_ONCE) {
        for (of, bucket) in some {
            disk.touch(&variation(*of).join(bucket_name(*bucket)))?;
        }
        tokio::task::yield_now().await;
    }
    move_emptied(disk, folder, table, &changes.empty)?;
    for some in changes.remove.chunks(AT_ONCE) {
        for (of, bucket) in some {
            disk.remove(&variation(*of).join(bucket_name(*bucket)))?;
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Where nobody is to get another variation than the stable one, that is so once this returns; nothing else is changed.
pub fn empty(disk: &Disk, folder: &Path, table: &Table) -> Result<(), RouterError> {
    if table.hundredths()[0] != BUCKETS {
        return Ok(());
    }
    let changes = changes(&there(folder, table.variations())?, table);
    move_emptied(disk, folder, table, &changes.empty)
}

/// Has the folders of variations that are to have no bucket be empty, all at once where all are to be.
fn move_emptied(disk: &Disk, folder: &Path, table: &Table, emptied: &[u8]) -> Result<(), RouterError> {
    if table.hundredths()[0] == BUCKETS && !emptied.is_empty() {
        move_away(disk, folder)?;
        for of in 1..table.variations() as u8 {
            disk.create_folder(&folder.join(of.to_string()))?;
        }
    } else {
        for of in emptied {
            let variation = folder.join(of.to_string());
            move_away(disk, &variation)?;
            disk.create_folder(&variation)?;
        }
    }
    Ok(())
}

/// In one step nobody finds it any more; what it held is swept away later.
fn move_away(disk: &Disk, folder: &Path) -> Result<(), RouterError> {
    let mut free = (0_u32..).map(|number| disk::beside(folder, &format!("gone{number}")));
    let to = free.find(|path| !path.exists()).unwrap_or_else(|| folder.into());
    disk.rename_in_memory(folder, &to)
}

/// Says by which wanted state the buckets go.
pub fn write_number(disk: &Disk, root: &Path, number: Number) -> Result<(), RouterError> {
    let path = root.join(NUMBER_FILE);
    let text = format!("{number}\n");
    if disk::read(&path)?.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    disk.replace_in_memory(&path, text.as_bytes())
}

/// What is in the folder of all and isn't looked into by anybody.
pub fn left_over(root: &Path, state: &State) -> Result<Vec<PathBuf>, RouterError> {
    let folders = state.folders.keys().chain(state.leaving.keys());
    let known: BTreeSet<&str> =
        folders.filter_map(|folder| folder.split_once('/')).map(|(id, _)| id).collect();
    let mut found = Vec::new();
    for id in disk::names(root)?.into_iter().filter(|id| id != NUMBER_FILE) {
        let service = root.join(&id);
        if !known.contains(id.as_str()) {
            found.push(service);
            continue;
        }
        for structure in disk::names(&service)? {
            let folder = service.join(&structure);
            let buckets = state.buckets(&format!("{id}/{structure}"));
            match buckets.and_then(super::state::Buckets::table) {
                None => found.push(folder),
                Some(table) => found.extend(strangers(&folder, table.variations())?),
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// What is neither the folder of a variation nor a bucket in it.
fn strangers(folder: &Path, variations: usize) -> Result<Vec<PathBuf>, RouterError> {
    let mut found = Vec::new();
    for of in disk::names(folder)? {
        let path = folder.join(&of);
        if !of.parse().is_ok_and(|of: usize| (1..variations).contains(&of)) {
            found.push(path);
            continue;
        }
        let names = disk::names(&path)?;
        found.extend(names.iter().filter(|name| bucket(name).is_none()).map(|name| path.join(name)));
    }
    Ok(found)
}

/// Takes away what nobody looks into.
pub async fn sweep(disk: &Disk, root: &Path, state: &State) -> Result<(), RouterError> {
    for path in left_over(root, state)? {
        tokio::task::yield_now().await;
        if fs::symlink_metadata(&path).is_ok_and(|there| there.is_dir()) {
            disk.remove_folder(&path)?;
        } else {
            disk.remove(&path)?;
        }
    }
    Ok(())
}
