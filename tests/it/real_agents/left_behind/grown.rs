//! What there is on the machine, and how much the processes that stay have of it.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use super::site::{Site, processes_of};

/// What lies and runs where an agent works. Names that are chosen anew each time are written as `*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Left {
    /// Folders of versions that run.
    pub runs: usize,
    /// How many there are of each name.
    all: BTreeMap<String, usize>,
}

impl Left {
    pub fn find(edge: &Path) -> Self {
        let mut left = Self::default();
        left.look_into(edge, edge);
        left.runs = fs::read_dir(edge.join("state/run/runs")).map_or(0, Iterator::count);
        for arguments in processes_of(edge) {
            left.note(&format!("process {arguments}"));
        }
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        for line in sockets.lines().filter(|line| line.contains(edge.to_str().unwrap())) {
            // Its path is the last column; those that were accepted have the path of who listens.
            let path = line.rsplit(' ').next().unwrap_or_default();
            if line.split_whitespace().nth(3) == Some(LISTENS) {
                left.note(&format!("listens at {path}"));
            }
        }
        left
    }

    fn look_into(&mut self, edge: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            let name = path.strip_prefix(edge).unwrap().display().to_string();
            // What is written of the past is no state.
            if !is_log(&path) {
                self.note(&name);
            }
            if kind.is_dir() {
                self.look_into(edge, &path);
            }
        }
    }

    fn note(&mut self, name: &str) {
        *self.all.entry(general(name)).or_default() += 1;
    }

    /// How this differs from what there was.
    pub fn beyond(&self, before: &Self) -> String {
        let mut text = String::new();
        for (name, count) in &self.all {
            let had = before.all.get(name).copied().unwrap_or_default();
            if *count != had {
                let _ = writeln!(text, "there are {count} and were {had} of {name}");
            }
        }
        for name in before.all.keys().filter(|name| !self.all.contains_key(*name)) {
            let _ = writeln!(text, "gone: {name}");
        }
        text
    }
}

/// The flags of a unix socket that listens, as the kernel shows them.
const LISTENS: &str = "00010000";

/// A name without what is chosen anew each time: digits, and digests.
fn general(name: &str) -> String {
    const DIGEST: usize = 8;
    let mut text = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let hex = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let taken = if hex >= DIGEST { hex } else { digits };
        if taken > 0 {
            text.push('*');
            rest = &rest[taken..];
        } else {
            text.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    text
}

/// What a process has at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Has {
    /// Files, sockets and pipes that are open.
    open: u64,
    /// Memory of its own, in bytes.
    memory: u64,
}

impl Has {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let kib: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
        let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
        Self { open, memory: kib * 1024 }
    }
}

/// `agent.log`, and `log` and `log.1` of a version.
fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
        || path.file_stem().is_some_and(|stem| stem == "log")
}

/// The bytes of all files in a folder that aren't logs.
fn size(folder: &Path, passed_over: &[&str]) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.metadata() {
            _ if is_log(&entry.path()) || passed_over.contains(&name.as_str()) => 0,
            Ok(about) if about.is_dir() => size(&entry.path(), passed_over),
            Ok(about) => about.len(),
            Err(_) => 0,
        }
    });
    sizes.sum()
}

/// Something that may grow while releases come and go.
struct Series {
    what: &'static str,
    values: Vec<u64>,
    /// By how much it may differ however many releases there were.
    slack: u64,
    /// By how much it may grow with each.
    each: u64,
}

/// All that may grow.
pub struct Grown {
    /// Agent, proxy, holder and manager: the same ones all the time.
    pids: [u32; 4],
    series: Vec<Series>,
}

const NAMES: [[&str; 2]; 4] = [
    ["open files of the agent", "memory of the agent"],
    ["open files of the proxy", "memory of the proxy"],
    ["open files of the holder", "memory of the holder"],
    ["open files of the manager", "memory of the manager"],
];

/// Connections come and go.
const OPEN_SLACK: u64 = 12;
const KIB: u64 = 1024;
/// What an allocator has more of at one time than at another.
const MEMORY_SLACK: u64 = 1536 * KIB;
/// Pages of its store that the manager holds: each of its connections as many as it may, once there are so many.
const PAGES: u64 = 2 * 4096 * KIB;
/// A leak of a few KiB a release breaks it.
const MEMORY_EACH: u64 = KIB;

impl Grown {
    pub async fn new(site: &Site) -> Self {
        let agent = site.node().status().await.unwrap().pid;
        let proxy = site.node().proxy_status().await.unwrap().pid;
        let holder = site.node().holder().unwrap();
        let pids = [agent, proxy, holder, site.manager().pid()];
        let memory = |what: &'static str| {
            let pages = if what.ends_with("manager") { PAGES } else { 0 };
            Series { what, values: Vec::new(), slack: MEMORY_SLACK + pages, each: MEMORY_EACH }
        };
        let open = |what| Series { what, values: Vec::new(), slack: OPEN_SLACK, each: 0 };
        let mut series: Vec<Series> =
            NAMES.into_iter().flat_map(|[files, bytes]| [open(files), memory(bytes)]).collect();
        let state = |what, slack, each| Series { what, values: Vec::new(), slack, each };
        series.push(state("state of the agent", 16 * KIB, 0));
        series.push(state("state of the proxy", 16 * KIB, 0));
        // Its history is kept for as long as is set, a day at least; and its log until it is folded in.
        series.push(state("store of the manager", 34 * KIB * KIB, 16 * KIB));
        Self { pids, series }
    }

    /// Notes how it is after a release.
    pub fn note(&mut self, site: &Site) {
        let mut values = Vec::new();
        for pid in self.pids {
            let Has { open, memory } = Has::of(pid);
            values.extend([open, memory]);
        }
        let edge = &site.node().folder;
        values.push(size(&edge.join("state"), &["runs"]));
        values.push(size(&edge.join("proxy"), &[]));
        values.push(size(&site.place().path("manager"), &[]));
        for (series, value) in self.series.iter_mut().zip(values) {
            series.values.push(value);
        }
    }

    /// How it is now.
    pub fn in_words(&self) -> String {
        let each = self.series.iter().map(|series| {
            let last = series.values.last().copied().unwrap_or_default();
            let last = if last > 10 * KIB { format!("{} KiB", last / KIB) } else { last.to_string() };
            format!("{} {last}", series.what)
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// What there is late is no more than what there was early, but for what each release may leave.
    pub fn is_bounded(&self) {
        let mut beyond = Vec::new();
        for series in &self.series {
            let Compared { early, late, apart } = series.compared();
            let (what, most) = (series.what, early + series.slack + apart * series.each);
            eprintln!("{what}: {early} early, {late} late, {apart} releases apart; at most {most}");
            if late > most {
                beyond.push(format!("{what}: {early}, and {late} after {apart} more; at most {most}"));
            }
        }
        assert!(beyond.is_empty(), "{beyond:#?}");
    }
}

/// The least that there was after some of the first releases, and after the last ones.
struct Compared {
    early: u64,
    late: u64,
    apart: u64,
}

impl Series {
    fn compared(&self) -> Compared {
        let tenth = (self.values.len() / 10).max(1);
        let least = |of: &[u64]| of.iter().copied().min().unwrap_or_default();
        let early = least(&self.values[tenth..2 * tenth]);
        let late = least(&self.values[self.values.len() - tenth..]);
        Compared { early, late, apart: (self.values.len() - 2 * tenth) as u64 }
    }
}
