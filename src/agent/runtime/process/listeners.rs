//! Which ports processes listen on.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
};

/// The state of a socket that listens, as the kernel writes it.
const LISTENS: &str = "0A";

/// The ports on which one of these processes listens.
pub(super) fn ports(pids: &[u32]) -> BTreeSet<u16> {
    let own: HashSet<String> = pids.iter().flat_map(|pid| sockets(*pid)).collect();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(|line| port(line, &own)).collect()
}

fn sockets(pid: u32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let name = |file: fs::DirEntry| {
        let leads = fs::read_link(file.path()).ok()?;
        Some(leads.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    files.filter_map(name).collect()
}

/// The port of a line, if it is of one of these sockets and listens.
fn port(line: &str, own: &HashSet<String>) -> Option<u16> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if fields.get(3) != Some(&LISTENS) || !own.contains(*fields.get(9)?) {
        return None;
    }
    u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()
}
