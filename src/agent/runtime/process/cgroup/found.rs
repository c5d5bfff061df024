use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use super::write;

/// Whether versions get control groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cgroups {
    /// Where the agent may make them: of version 2 below a group that was delegated to it, else of version 1 below its own.
    #[default]
    Auto,
    Off,
    /// Of version 2, below this folder, which is the agent's alone: that of a container that has no systemd, for instance.
    Below(PathBuf),
}

/// Which control groups hold versions to their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupKind {
    V2,
    V1,
    /// None: limits of resources, and what the shim looks at.
    None,
}

impl fmt::Display for CgroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2 => "control groups of version 2",
            Self::V1 => "control groups of version 1",
            Self::None => "limits of resources (setrlimit) alone",
        })
    }
}

/// Below what, groups are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Hierarchies {
    kind: CgroupKind,
    parents: Vec<(PathBuf, Vec<&'static str>)>,
}

const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// Where the agent itself is put, since a group with processes in it can't have groups with limits below it.
const OWN: &str = "agent";
/// What systemd marks a group with that it delegated.
const DELEGATED: [&str; 2] = ["user.delegate", "trusted.delegate"];

impl Hierarchies {
    /// Looks what there is, tries it, and says in the log which is used.
    pub(in super::super) fn find(wanted: &Cgroups) -> Self {
        let none = |why: String| (Self { kind: CgroupKind::None, parents: Vec::new() }, why);
        let (found, why) = match wanted {
            Cgroups::Off => none("they are switched off".to_owned()),
            Cgroups::Below(folder) => match of_version_2(folder) {
                Ok(found) => (found, folder.display().to_string()),
                Err(error) => none(format!("{}: {error}", folder.display())),
            },
            Cgroups::Auto => match (delegated(), of_version_1()) {
                (Ok(found), _) => (found, "delegated".to_owned()),
                (Err(_), Ok(found)) => (found, "the agent may make them".to_owned()),
                (Err(two), Err(one)) => none(format!("version 2: {two}; version 1: {one}")),
            },
        };
        tracing::info!(by = %found.kind, why, "versions are held to their limits");
        found
    }

    pub(in super::super) fn kind(&self) -> CgroupKind {
        self.kind
    }

    pub(super) fn parents(&self) -> impl Iterator<Item = (&Path, &[&'static str])> {
        self.parents.iter().map(|(folder, controllers)| (folder.as_path(), controllers.as_slice()))
    }

    /// Where groups of version 1 can be made that limit nothing here, and what has to be written into one before a process can be in
    /// it.
    pub(super) fn others(&self) -> Vec<(PathBuf, Vec<(String, String)>)> {
        if self.kind != CgroupKind::V1 {
            return Vec::new();
        }
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let kinds = groups.lines().filter_map(|line| line.split(':').nth(1));
        let folders = kinds.filter_map(|kind| {
            let first = kind.split(',').next()?;
            let folder = own_group(first).ok()?;
            let is_new = self.parents.iter().all(|(parent, _)| *parent != folder);
            (is_new && rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_ok())
                .then_some((folder, first))
        });
        let with_files = folders.map(|(folder, first)| {
            let files: &[&str] = if first == "cpuset" { &["cpuset.cpus", "cpuset.mems"] } else { &[] };
            let copy = |file: &&str| {
                Some(((*file).to_owned(), fs::read_to_string(folder.join(file)).ok()?.trim().to_owned()))
            };
            let writes = files.iter().filter_map(copy).collect();
            (folder, writes)
        });
        with_files.collect()
    }
}

/// The group that systemd delegated to the agent: its own, or the one above, where its unit has a subgroup for the main process.
fn delegated() -> io::Result<Hierarchies> {
    let own = own_group("")?;
    let folder =
        [Some(own.as_path()), own.parent()].into_iter().flatten().find(|folder| is_delegated(folder));
    of_version_2(
        folder.ok_or_else(|| io::Error::other("no group was delegated to the agent (Delegate=yes)"))?,
    )
}

fn is_delegated(folder: &Path) -> bool {
    let mut value = [0; 8];
    DELEGATED.iter().any(|name| {
        rustix::fs::getxattr(folder, *name, &mut value)
            .is_ok_and(|length| value.starts_with(b"1") && length == 1)
    })
}

fn of_version_2(folder: &Path) -> io::Result<Hierarchies> {
    let about = |what: &str| {
        let path = folder.join(what);
        move |error: io::Error| io::Error::other(format!("{}: {error}", path.display()))
    };
    let has = fs::read_to_string(folder.join("cgroup.controllers")).map_err(about("cgroup.controllers"))?;
    let has: Vec<_> =
        CONTROLLERS.into_iter().filter(|name| has.split_whitespace().any(|one| one == *name)).collect();
    if !has.contains(&"memory") {
        return Err(io::Error::other("it has no controller of memory"));
    }
    let inside = fs::read_to_string(folder.join("cgroup.procs")).map_err(about("cgroup.procs"))?;
    if !inside.trim().is_empty() {
        let own = folder.join(OWN);
        match fs::create_dir(&own) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(about(OWN)(error)),
            Ok(()) | Err(_) => {}
        }
        for pid in inside.lines() {
            // It may have ended meanwhile.
            let _ = write(&own.join("cgroup.procs"), pid);
        }
    }
    for controller in &has {
        write(&folder.join("cgroup.subtree_control"), &format!("+{controller}"))
            .map_err(about("cgroup.subtree_control"))?;
    }
    try_one(folder, "memory.max")?;
    Ok(Hierarchies { kind: CgroupKind::V2, parents: vec![(folder.to_owned(), has)] })
}

fn of_version_1() -> io::Result<Hierarchies> {
    let mut parents = Vec::new();
    for (controller, file) in
        [("memory", "memory.limit_in_bytes"), ("pids", "pids.max"), ("cpu", "cpu.cfs_quota_us")]
    {
        let usable = own_group(controller).and_then(|own| try_one(&own, file).map(|()| own));
        match usable {
            Ok(own) => parents.push((own, vec![controller])),
            Err(error) if controller == "memory" => return Err(error),
            Err(error) => tracing::debug!(controller, %error, "a controller can't be used"),
        }
    }
    Ok(Hierarchies { kind: CgroupKind::V1, parents })
}

/// Whether a group can be made below this one that has this file.
fn try_one(parent: &Path, file: &str) -> io::Result<()> {
    let tried = parent.join(format!("choirmaster-try-{:016x}", fastrand::u64(..)));
    let about = |error: io::Error| io::Error::other(format!("{}: {error}", tried.display()));
    fs::create_dir(&tried).map_err(about)?;
    let has = fs::OpenOptions::new().write(true).open(tried.join(file)).map(drop);
    fs::remove_dir(&tried).map_err(about)?;
    has.map_err(about)
}

/// The folder of the group in which this process is: of a controller of version 1, or of version 2 where none is named.
fn own_group(controller: &str) -> io::Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let is_it = |names: &str| if controller.is_empty() { names.is_empty() } else { has(names, controller) };
    // `4:memory,hugetlb:/path`; version 2 is `0::/path`.
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        parts.next().filter(|names| is_it(names)).and(parts.next())
    });
    let path = path.ok_or_else(|| io::Error::other("this kernel has none"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let folder = mounts.lines().find_map(|line| mounted(line, controller, path));
    folder.ok_or_else(|| io::Error::other("they aren't mounted"))
}

/// Where a group is, if this line is the mount that it is in: `36 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory`.
fn mounted(line: &str, controller: &str, path: &str) -> Option<PathBuf> {
    let (before, behind) = line.split_once(" - ")?;
    let mut behind = behind.split(' ');
    let (kind, options) = (behind.next()?, behind.nth(1)?);
    let is_it = match controller {
        "" => kind == "cgroup2",
        controller => kind == "cgroup" && has(options, controller),
    };
    let mut before = before.split(' ').skip(3);
    let (root, at) = (before.next()?, before.next()?);
    // What is mounted may begin below the root of all groups.
    let below = Path::new(path).strip_prefix(root).ok()?;
    is_it.then(|| Path::new(at).join(below))
}

fn has(list: &str, one: &str) -> bool {
    list.split(',').any(|name| name == one)
}
