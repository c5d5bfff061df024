//! What versions wrote that failed, kept after these have ended.
//!
//! ```text
//! FOLDER/failed/DIGITS.log   of a version, by the first digits of its digest: a line of JSON that says where it failed, then its log
//! ```
//!
//! Invariants:
//!
//! 1. There are at most [`MOST`] of them, each with at most [`MAX_BYTES`] of log: the newest. A version that fails again takes the place
//!    of what it left before.
//! 2. A log may hold secrets. It is for the owner of the agent alone, is read over the control socket, and never sent to the manager.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use model::text::one_line;
use proxy::whole_file;
use serde::{Deserialize, Serialize};

use crate::{control::Refused, runtime::VersionId, state_machine::FailedVersion};

/// How many are kept.
const MOST: usize = 3;

/// Of the log of each.
pub(super) const MAX_BYTES: usize = 64 * 1024;

/// For the owner alone.
const FOLDER_MODE: u32 = 0o700;

/// The first line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: VersionId,
    /// Since 1970, in milliseconds.
    at_ms: i64,
    #[serde(flatten)]
    failed: FailedVersion,
}

/// Keeps what a version wrote. `log`: `None` where nobody has it any more; then why it failed is all that is known.
pub(super) fn keep(
    folder: &Path,
    version: &VersionId,
    failed: FailedVersion,
    log: Option<&[u8]>,
) -> io::Result<()> {
    let folder = folder_in(folder);
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&folder)?;
    let log = log.unwrap_or(failed.why.as_bytes()).to_owned();
    let head = Head { version: version.clone(), at_ms: Timestamp::now().as_millisecond(), failed };
    let mut text = serde_json::to_vec(&head)?;
    text.push(b'\n');
    text.extend(log);
    whole_file::replace(&folder.join(format!("{}.log", version.short())), &text)?;
    for (path, ..) in all(&folder)?.into_iter().skip(MOST) {
        match fs::remove_file(path) {
            // Another version that failed at the same time has kept its own.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// What versions wrote that failed in a release, the newest first: of each a line that says where and why, and its log.
pub(super) fn of_release(folder: &Path, release: &str) -> Result<Vec<u8>, Refused> {
    let failed =
        |error: io::Error| Refused::Failed(format!("logs of versions that failed can't be read: {error}"));
    let all = all(&folder_in(folder)).map_err(failed)?;
    let (mut text, mut others) = (Vec::new(), Vec::new());
    for (_, Head { version, at_ms, failed }, log) in all {
        let FailedVersion { offer, stage, name, why } = failed;
        if !is_of(&offer, release) {
            others.push(offer);
            continue;
        }
        let (digits, why) = (version.short(), one_line(&why));
        let at = Timestamp::from_millisecond(at_ms).map_or_else(|_| String::new(), |at| format!(", {at:.0}"));
        text.extend(format!("--- {name} ({digits}) in stage {stage} of {offer}{at}: {why}\n").bytes());
        text.extend(log);
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
    }
    if !text.is_empty() {
        return Ok(text);
    }
    others.dedup();
    let there = if others.is_empty() { "of none".to_owned() } else { format!("of {}", others.join(", ")) };
    Err(Refused::Wrong(format!(
        "no version failed here in release {release}; logs are kept of the last {MOST} that failed: {there}"
    )))
}

/// Whether an offer is one of a release: that itself, or another attempt of it.
fn is_of(offer: &str, release: &str) -> bool {
    let Some(rest) = offer.strip_prefix(release) else { return false };
    let number = rest.strip_prefix(".r").unwrap_or_default();
    rest.is_empty() || !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn folder_in(folder: &Path) -> PathBuf {
    folder.join("failed")
}

/// All that is kept, the newest first. What is no such log is passed over.
fn all(folder: &Path) -> io::Result<Vec<(PathBuf, Head, Vec<u8>)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text = match fs::read(&path) {
            // It has made room for a newer one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
        let (head, log) = text.split_at(end);
        let Ok(head) = serde_json::from_slice::<Head>(head) else { continue };
        found.push((path, head, log.get(1..).unwrap_or_default().to_owned()));
    }
    found.sort_by_key(|(_, head, _)| std::cmp::Reverse(head.at_ms));
    Ok(found)
}
