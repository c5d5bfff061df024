//! The files of buckets, in the folder that nginx looks into.

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use traffic::{BUCKETS, Table, desired::Number};

use super::{
    config::{
        asked_name, bucket_name, changes,
        path::{ASKED, NUMBER_FILE},
    },
    state::State,
};
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

/// What callers may ask for there, each as a variation and the place of a value in the rule.
pub fn asked_there(folder: &Path, variations: usize) -> Result<BTreeSet<(u8, usize)>, RouterError> {
    let mut found = BTreeSet::new();
    for of in 0..variations as u8 {
        let names = disk::names(&asked_folder(folder, of))?;
        found.extend(names.iter().filter_map(|name| Some((of, asked_value(name)?))));
    }
    Ok(found)
}

/// The same as it is to be.
pub fn asked_of(asked: &[u8]) -> BTreeSet<(u8, usize)> {
    asked.iter().enumerate().map(|(value, of)| (*of, value)).collect()
}

fn asked_folder(folder: &Path, of: u8) -> PathBuf {
    folder.join(ASKED).join(of.to_string())
}

fn asked_value(name: &str) -> Option<usize> {
    let value = name.strip_prefix('r')?.parse().ok()?;
    (asked_name(value) == name).then_some(value)
}

/// Has a folder's files be those of a table, and of which variation each value of a header leads to: makes first, and removes then. A
/// variation that is to have none goes by one renaming, and so does all.
pub async fn make_so(disk: &Disk, folder: &Path, table: &Table, asked: &[u8]) -> Result<(), RouterError> {
    create_folders(disk, folder, table, asked)?;
    empty(disk, folder, table, asked)?;
    let changes = changes(&there(folder, table.variations())?, table);
    for some in changes.make.chunks(AT_ONCE) {
        for (of, bucket) in some {
            disk.touch(&folder.join(of.to_string()).join(bucket_name(*bucket)))?;
        }
        tokio::task::yield_now().await;
    }
    let (asked, asked_there) = (asked_of(asked), asked_there(folder, table.variations())?);
    for (of, value) in asked.difference(&asked_there) {
        disk.touch(&asked_folder(folder, *of).join(asked_name(*value)))?;
    }
    for of in changes.empty {
        move_emptied(disk, folder, of)?;
    }
    for some in changes.remove.chunks(AT_ONCE) {
        for (of, bucket) in some {
            disk.remove(&folder.join(of.to_string()).join(bucket_name(*bucket)))?;
        }
        tokio::task::yield_now().await;
    }
    for (of, value) in asked_there.difference(&asked) {
        disk.remove(&asked_folder(folder, *of).join(asked_name(*value)))?;
    }
    Ok(())
}

fn create_folders(disk: &Disk, folder: &Path, table: &Table, asked: &[u8]) -> Result<(), RouterError> {
    let all = table.variations() as u8;
    for of in 1..all {
        disk.create_folder(&folder.join(of.to_string()))?;
    }
    for of in (0..all).filter(|_| !asked.is_empty()) {
        disk.create_folder(&asked_folder(folder, of))?;
    }
    Ok(())
}

/// Where nobody is to be given another variation than the stable one, that is so once this returns; and where nobody may ask for one
/// either, both at once. Nothing else is changed.
pub fn empty(disk: &Disk, folder: &Path, table: &Table, asked: &[u8]) -> Result<(), RouterError> {
    if table.hundredths()[0] != BUCKETS {
        return Ok(());
    }
    let emptied = changes(&there(folder, table.variations())?, table).empty;
    if asked.iter().any(|of| *of > 0) {
        return emptied.into_iter().try_for_each(|of| move_emptied(disk, folder, of));
    }
    let leads_on = asked_there(folder, table.variations())?.iter().any(|(of, _)| *of > 0);
    if leads_on || !emptied.is_empty() {
        move_away(disk, folder)?;
        create_folders(disk, folder, table, asked)?;
    }
    Ok(())
}

/// Has the folder of a variation be empty.
fn move_emptied(disk: &Disk, folder: &Path, of: u8) -> Result<(), RouterError> {
    let variation = folder.join(of.to_string());
    move_away(disk, &variation)?;
    disk.create_folder(&variation)
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
    left_over_beside(root, state, |_| false)
}

/// The same without what is in folders of which is known that they hold nothing else.
fn left_over_beside(
    root: &Path,
    state: &State,
    is_known_whole: impl Fn(&str) -> bool,
) -> Result<Vec<PathBuf>, RouterError> {
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
            let (folder, path) = (service.join(&structure), format!("{id}/{structure}"));
            if is_known_whole(&path) {
                continue;
            }
            let buckets = state.buckets(&path);
            match buckets.and_then(|buckets| Some((buckets.table()?, buckets.asked.len()))) {
                None => found.push(folder),
                Some((table, values)) => found.extend(strangers(&folder, table.variations(), values)?),
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// What is neither the folder of a variation nor a bucket in it, nor one of so many values that callers may ask for.
fn strangers(folder: &Path, variations: usize, values: usize) -> Result<Vec<PathBuf>, RouterError> {
    let is_asked = |name: &str| asked_value(name).is_some_and(|value| value < values);
    let mut found = others(folder, 1..variations, |name| bucket(name).is_some())?;
    if values > 0 {
        let asked = folder.join(ASKED);
        found.retain(|path| *path != asked);
        found.extend(others(&asked, 0..variations, is_asked)?);
    }
    Ok(found)
}

/// What is in a folder and not in one of those that are called by these numbers, as a file that is known.
fn others(
    folder: &Path,
    numbers: Range<usize>,
    is_known: impl Fn(&str) -> bool,
) -> Result<Vec<PathBuf>, RouterError> {
    let mut found = Vec::new();
    for of in disk::names(folder)? {
        let path = folder.join(&of);
        if !of.parse().is_ok_and(|of: usize| numbers.contains(&of)) {
            found.push(path);
            continue;
        }
        let names = disk::names(&path)?;
        found.extend(names.iter().filter(|name| !is_known(name)).map(|name| path.join(name)));
    }
    Ok(found)
}

/// Takes away what nobody looks into; folders of which is known that they hold nothing else aren't looked into.
pub async fn sweep(
    disk: &Disk,
    root: &Path,
    state: &State,
    is_known_whole: impl Fn(&str) -> bool,
) -> Result<(), RouterError> {
    for path in left_over_beside(root, state, is_known_whole)? {
        tokio::task::yield_now().await;
        if fs::symlink_metadata(&path).is_ok_and(|there| there.is_dir()) {
            disk.remove_folder(&path)?;
        } else {
            disk.remove(&path)?;
        }
    }
    Ok(())
}
