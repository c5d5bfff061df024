//! A container as `podman` is told of it, version 4 or newer.
//!
//! `podman run` stays beside the container and passes signals on; `conmon`, its helper, is the container's parent. Both are in the
//! control groups of the run, and so is the container: with `crun` it has none of its own, with others one below these.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rustix::process::{Resource, getrlimit};
use serde::Deserialize;

use super::{
    super::{
        Limits,
        error::Fault,
        process::{SEARCHED, Sandbox, SandboxedVersion, StartOptions},
    },
    Base, FUNCTION, NAME, PLACE, Root,
};

/// The oldest that is used: it leaves the container's output to who started it (`--log-driver=passthrough`).
const OLDEST: u32 = 4;
/// The file of a version that names an image.
const IMAGE_FILE: &str = "image";
/// The most bytes of that file, and of one entry of an environment, as `podman` reads lines of files.
const MAX_NAME: u64 = 1024;
const MAX_ENTRY: usize = 60 * 1024;
/// What `podman` itself needs of an environment to find its storage, that of this user.
const NEEDS: [&str; 6] = [
    "HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
];

/// `podman` on this machine, that was looked at.
#[derive(Debug, Clone)]
pub(super) struct Podman {
    program: PathBuf,
    /// What stands before each of its commands.
    global: Vec<String>,
    /// Where a container's control groups are.
    groups: &'static [&'static str],
    /// Of what containers are; an image by its id, so that it stays the same while the agent runs.
    base: Option<Base>,
}

/// What `podman info` says, of which this is used.
#[derive(Debug, Deserialize)]
struct Info {
    host: Host,
    version: Version,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Host {
    oci_runtime: OciRuntime,
    #[serde(default)]
    service_is_remote: bool,
}

#[derive(Debug, Deserialize)]
struct OciRuntime {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Version {
    version: String,
}

impl Podman {
    /// Asks it what it is, and for the image of the base.
    pub(super) fn open(program: PathBuf, runtime: Option<&str>, base: Option<Base>) -> Result<Self, Fault> {
        // Control groups are ours, and systemd need not be there; events of each start would be kept for ever.
        let mut global: Vec<_> =
            ["--cgroup-manager=cgroupfs", "--events-backend=none"].map(str::to_owned).into();
        global.extend(runtime.map(|runtime| format!("--runtime={runtime}")));
        let mut podman = Self { program, global, groups: &[], base };
        let info = podman.info()?;
        let version = &info.version.version;
        if version.split('.').next().and_then(|major| major.parse::<u32>().ok()) < Some(OLDEST) {
            return Err(
                podman.refused(format!("it has version {version}, and {OLDEST}.0 or newer is needed"))
            );
        }
        if info.host.service_is_remote {
            return Err(podman.refused("it starts containers on another machine"));
        }
        podman.groups = match Path::new(&info.host.oci_runtime.name).file_name() {
            Some(name) if name == "crun" => &["--cgroups=disabled"],
            Some(_) | None => &["--cgroups=no-conmon", "--cgroup-parent=."],
        };
        podman.base = match podman.base.take() {
            Some(Base { root: Root::Image(name), binds }) => {
                Some(Base { root: Root::Image(podman.image_id(&name)?), binds })
            }
            other => other,
        };
        podman.base.iter().try_for_each(check_paths)?;
        Ok(podman)
    }

    /// The file of the container's environment: command lines can be read by everybody on the machine.
    fn environment(&self, version: &SandboxedVersion) -> Result<String, Fault> {
        let mut all = version.environment.clone();
        if version.is_image {
            all.remove("HOME");
        } else {
            all.insert("HOME".to_owned(), FUNCTION.to_owned());
        }
        all.insert("TMPDIR".to_owned(), "/tmp".to_owned());
        let is_image =
            version.is_image || self.base.as_ref().is_some_and(|b| matches!(b.root, Root::Image(_)));
        if is_image {
            // An image says where its programs are.
            all.remove("PATH");
        } else {
            all.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        }
        let mut text = String::new();
        for (name, value) in &all {
            let is_plain = !name.starts_with('#') && !name.contains(|c: char| c.is_whitespace() || c == '=');
            let is_line = !value.contains(['\n', '\r', '\0']) && name.len() + value.len() < MAX_ENTRY;
            if name.is_empty() || !is_plain || !is_line {
                let why = format!("it can't be told the variable {name:?}: it has to be one line of 60 KiB");
                return Err(self.refused(why));
            }
            text.extend([name, "=", value, "\n"]);
        }
        Ok(text)
    }

    /// The id of an image that is on this machine.
    fn image_id(&self, name: &str) -> Result<String, Fault> {
        let output = self.call(&["image", "inspect", "--format", "{{.Id}}", name])?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        match self.call(&["image", "exists", name])?.status.code() {
            Some(1) => Err(Fault::NoImage(name.to_owned())),
            Some(_) | None => Err(self.refused(said(&output))),
        }
    }

    fn info(&self) -> Result<Info, Fault> {
        let output = self.call(&["info", "--format", "json"])?;
        if !output.status.success() {
            return Err(self.refused(said(&output)));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| self.refused(format!("`podman info`: {error}")))
    }

    fn call(&self, arguments: &[&str]) -> Result<Output, Fault> {
        let mut command = Command::new(&self.program);
        command.args(&self.global).args(arguments).env_clear().envs(own_environment()).env("LANG", "C.UTF-8");
        command
            .stdin(Stdio::null())
            .output()
            .map_err(Fault::io(format!("calling {}", self.program.display())))
    }

    fn refused(&self, why: impl Into<String>) -> Fault {
        Fault::Refused { by: self.program.display().to_string(), why: why.into() }
    }
}

impl Sandbox for Podman {
    fn runtime(&self) -> &'static str {
        NAME
    }

    fn place(&self) -> &'static str {
        PLACE
    }

    fn forms(&self) -> Vec<&'static str> {
        if self.base.is_some() { vec!["image", "program"] } else { vec!["image"] }
    }

    fn leaves_groups(&self) -> bool {
        true
    }

    fn check_image(&self, content: &Path) -> Result<(), Fault> {
        self.image_id(&image_of(content)?).map(drop)
    }

    /// What runs a container until it ends, in the foreground, and what takes away what is left of it.
    fn start_options(&self, version: &SandboxedVersion) -> Result<StartOptions, Fault> {
        let name = format!("choirmaster-{}", version.mark);
        let path = version.folder.join("environment");
        for folder in [version.folder, &version.content] {
            check_path(folder)?;
        }
        let mut arguments = self.global.clone();
        let mut add = |more: &[&str]| arguments.extend(more.iter().map(|one| (*one).to_owned()));
        add(&["run", "--name", &name, "--env-file", &path.display().to_string()]);
        add(self.groups);
        add(&APART);
        add(&limits(&version.order.limits).each_ref().map(String::as_str));
        let bind = |from: &Path, to: &str, access: &str| {
            format!("--volume={}:{to}:{access},nosuid,nodev,rprivate", from.display())
        };
        add(&[&bind(&version.scratch, "/tmp", "rw")]);
        if version.is_image {
            add(&[&image_of(&version.made)?]);
        } else {
            let Some(base) = &self.base else { return Err(self.refused("it has no base")) };
            add(&[&bind(&version.content, FUNCTION, "rw"), "--workdir", FUNCTION]);
            add(&["--user=0:0", r#"--entrypoint=["./run"]"#]);
            for folder in &base.binds {
                add(&[&bind(folder, &folder.display().to_string(), "ro")]);
            }
            match &base.root {
                // What mount points have to be made is made in a layer over it.
                Root::Folder(rootfs) => add(&["--rootfs", &format!("{}:O", rootfs.display())]),
                Root::Image(image) => add(&[image]),
            }
        }
        let environment = self.environment(version)?;
        let removal = ["rm", "--force", "--ignore", "--time=0", "--volumes", &name].map(str::to_owned);
        Ok(StartOptions {
            program: self.program.clone(),
            arguments,
            removal: std::iter::once(self.program.display().to_string())
                .chain(self.global.iter().cloned())
                .chain(removal)
                .collect(),
            environment: own_environment().collect(),
            file: ("environment", environment.into_bytes()),
        })
    }
}

/// What each container is like. Its output is that of `podman` itself, which is the log.
const APART: [&str; 17] = [
    "--pull=never",
    "--network=host",
    "--hostname=function",
    "--no-hosts",
    "--dns=none",
    "--ipc=private",
    "--pid=private",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    // Folders of an agent have no label that containers may read.
    "--security-opt=label=disable",
    "--read-only",
    "--read-only-tmpfs=false",
    "--image-volume=ignore",
    "--http-proxy=false",
    "--no-healthcheck",
    "--log-driver=passthrough",
    "--restart=no",
];

/// What a user may have of processes and threads, wherever they run: at least, and at most, as `podman` limits itself.
const PROCESSES: (u64, u64) = (4096, 32_768);

/// Limits of resources, since `podman` would set those that it isn't told to others, which not each machine allows.
fn limits(limits: &Limits) -> [String; 5] {
    let of = |resource: Resource, name: &str, wanted: u64| {
        let least = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        format!("--ulimit={name}={least}:{least}")
    };
    [
        of(Resource::Nproc, "nproc", limits.processes.clamp(PROCESSES.0, PROCESSES.1)),
        of(Resource::Nofile, "nofile", limits.files),
        of(Resource::Fsize, "fsize", limits.room),
        of(Resource::Data, "data", limits.data()),
        of(Resource::Core, "core", 0),
    ]
}

/// The image that a version names, which says by its digest what it is.
fn image_of(content: &Path) -> Result<String, Fault> {
    let path = content.join(IMAGE_FILE);
    let mut text = String::new();
    let read = fs::File::open(&path).and_then(|file| file.take(MAX_NAME).read_to_string(&mut text));
    read.map_err(Fault::io(format!("reading {}", path.display())))?;
    let name = text.trim();
    let is_digest = |digits: &str| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let (before, digest) = name.rsplit_once("sha256:").unwrap_or((name, ""));
    let is_name = before.is_empty()
        || before.strip_suffix('@').is_some_and(|name| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte);
            name.bytes().all(is_part) && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        });
    if is_digest(digest) && is_name { Ok(name.to_owned()) } else { Err(Fault::ImageName(name.to_owned())) }
}

fn check_paths(base: &Base) -> Result<(), Fault> {
    if let Root::Folder(rootfs) = &base.root {
        check_path(rootfs)?;
    }
    base.binds.iter().try_for_each(|bind| check_path(bind))
}

/// In what `podman` is told, a colon ends a path.
fn check_path(path: &Path) -> Result<(), Fault> {
    let is_told = path.to_str().is_some_and(|text| !text.contains([':', '\n']));
    let no_colon = || io::Error::new(io::ErrorKind::InvalidInput, "podman takes no path with a colon");
    is_told.then_some(()).ok_or_else(no_colon).map_err(Fault::io(path.display().to_string()))
}

fn own_environment() -> impl Iterator<Item = (String, String)> + Clone {
    let searched = std::iter::once(("PATH".to_owned(), SEARCHED.to_owned()));
    searched.chain(NEEDS.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?))))
}

/// The last line of what it said of an error.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.map_or_else(|| output.status.to_string(), |line| line.trim_start_matches("Error: ").to_owned())
}
