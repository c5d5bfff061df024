//! Commands of the runtime socket, each whole with the end of its line, and what its answers mean.

use super::Map;

/// The most bytes of a command with what follows it: well below the buffer of a connection, which is 16 KiB unless it is set.
const MOST: usize = 8 * 1024;

/// The most letters of an answer that are shown.
const SHOWN: usize = 200;

/// An answer that can't be one to what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}")]
pub struct Fault(pub String);

impl Fault {
    pub(super) fn of(text: &str) -> Self {
        Self(text.trim().chars().take(SHOWN).collect())
    }
}

/// What a process says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    pub pid: u32,
    /// It takes no calls any more, and ends with its last.
    pub is_stopping: bool,
}

/// Which process answers: see [`info_of`].
pub const SHOW_INFO: &str = "show info\n";
/// Which maps there are: see [`maps_of`].
pub const SHOW_MAPS: &str = "show map\n";
/// Which servers there are, and how they are: see [`super::ProcessReport`].
pub const SHOW_SERVERS: &str = "show servers state\n";
/// What proxies and servers have to do: see [`super::ProcessReport`].
pub const SHOW_LOAD: &str = "show stat -1 7 -1\n";
/// What backends have done: see [`super::ended`].
pub const SHOW_ENDED: &str = "show stat -1 2 -1\n";

/// What a variation has to do: see [`super::under_way`].
#[must_use]
pub fn show_load_of(service: &str, variation: &str) -> String {
    format!("show stat {} 2 -1\n", super::backend(service, variation))
}

/// What a map holds: see [`entries_of`].
#[must_use]
pub fn show_map(map: &str) -> String {
    format!("show map {map}\n")
}

/// Gives a key that is there another value. It answers nothing.
#[must_use]
pub fn set(map: &str, key: &str, value: &str) -> String {
    format!("set map {map} {key} {value}\n")
}

/// Begins another version of a map, which nothing looks at yet: see [`version_of`].
#[must_use]
pub fn prepare(map: &str) -> String {
    format!("prepare map {map}\n")
}

/// Adds entries to a version of a map: as many commands as it takes for each to be short. They answer nothing.
#[must_use]
pub fn add(map: &str, version: u32, entries: &Map) -> Vec<String> {
    let mut commands = Vec::new();
    let begin = || format!("add map @{version} {map} <<\n");
    let mut command = begin();
    for (key, value) in entries {
        if command.len() + key.len() + value.len() + 3 > MOST {
            commands.push(std::mem::replace(&mut command, begin()) + "\n");
        }
        command = command + key + " " + value + "\n";
    }
    if !entries.is_empty() {
        commands.push(command + "\n");
    }
    commands
}

/// Puts a version of a map in place of what it holds, in one instant. It answers nothing.
#[must_use]
pub fn commit(map: &str, version: u32) -> String {
    format!("commit map @{version} {map}\n")
}

/// # Errors
///
/// An answer without these fields.
pub fn info_of(answer: &str) -> Result<Info, Fault> {
    let field = |name: &str| {
        let of = |line: &str| {
            line.split_once(':').filter(|(key, _)| *key == name).map(|(_, value)| value.trim().parse())
        };
        answer.lines().find_map(of).and_then(Result::<u32, _>::ok).ok_or_else(|| Fault::of(answer))
    };
    Ok(Info { pid: field("Pid")?, is_stopping: field("Stopping")? != 0 })
}

/// The names of the maps that a process has; those without a file are left out.
///
/// # Errors
///
/// A line that is none of such a list.
pub fn maps_of(answer: &str) -> Result<Vec<&str>, Fault> {
    let lines = answer.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let name = |line: &'_ str| -> Option<(usize, usize)> {
        let open = line.find(" (")? + 2;
        Some((open, open + line[open..].find(')')?))
    };
    let names = lines.map(|line| {
        let (from, to) = name(line).ok_or_else(|| Fault::of(line))?;
        Ok(&line[from..to])
    });
    names.filter(|name| name.as_ref().map_or(true, |name| !name.is_empty())).collect()
}

/// The keys and values of a map, in the order of the keys.
///
/// # Errors
///
/// A line that is no entry.
pub fn entries_of(answer: &str) -> Result<Map, Fault> {
    let entry = |line: &str| {
        let (id, entry) = line.split_once(' ')?;
        let (key, value) = entry.split_once(' ')?;
        id.starts_with("0x").then(|| (key.to_owned(), value.to_owned()))
    };
    let lines = answer.lines().filter(|line| !line.is_empty());
    let entries = lines.map(|line| entry(line).ok_or_else(|| Fault::of(line)));
    Ok(super::maps::in_order(entries.collect::<Result<_, _>>()?))
}

/// Which version [`prepare`] began.
///
/// # Errors
///
/// An answer without one.
pub fn version_of(answer: &str) -> Result<u32, Fault> {
    let version =
        answer.trim().strip_prefix("New version created:").and_then(|version| version.trim().parse().ok());
    version.ok_or_else(|| Fault::of(answer))
}

/// Whether a command that answers nothing was obeyed.
///
/// # Errors
///
/// What it answered.
pub fn obeyed(answer: &str) -> Result<(), Fault> {
    if answer.trim().is_empty() { Ok(()) } else { Err(Fault::of(answer)) }
}
