use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    super::{
        Limits, VersionId,
        error::{Fault, Tail},
    },
    cgroup::Groups,
    shim::Status,
    tree,
};
use crate::lock::Lock;

/// The form of what is written below. One that this program doesn't know is left alone.
pub(super) const FORMAT: u32 = 1;
/// What marks the processes of a run, in their environment.
pub(super) const MARK: &str = "CHOIRMASTER_RUN";
/// Bytes of a log's end that are shown with an error.
const TAIL: usize = 4096;
/// How often a container is removed, and the pause in between: what watches it may have been killed, which shows at the first.
const REMOVALS: u32 = 10;
const REMOVALS_PAUSE: Duration = Duration::from_millis(100);
/// The most bytes of a specification.
const MAX_SPEC: u64 = 1024 * 1024;

/// What a shim runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Spec {
    pub format: u32,
    pub version: VersionId,
    /// A name that no other run ever had.
    pub mark: String,
    pub runner: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub target: String,
    pub limits: Limits,
    /// What holds it to them besides the shim.
    #[serde(default, skip_serializing_if = "Groups::is_none")]
    pub groups: Groups,
    /// What is called before each start, and when the run is taken away: a command that removes what the one before left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removal: Vec<String>,
    /// What stands before a role where the shim calls its own program.
    pub shim: Vec<String>,
}

impl Spec {
    /// Takes away what a container left, which is done where there is nothing. Blocks meanwhile.
    pub(super) fn remove_container(&self) -> Result<(), Fault> {
        let [program, arguments @ ..] = self.removal.as_slice() else { return Ok(()) };
        let mut why = String::new();
        for _ in 0..REMOVALS {
            let mut removal = Command::new(program);
            removal.args(arguments).env_clear().envs(&self.environment).stdin(Stdio::null());
            match removal.output() {
                Ok(done) if done.status.success() => return Ok(()),
                Ok(done) => String::from_utf8_lossy(&done.stderr).trim().clone_into(&mut why),
                // Without what started it nobody can run it either.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => why = error.to_string(),
            }
            std::thread::sleep(REMOVALS_PAUSE);
        }
        Err(Fault::Refused { by: program.clone(), why })
    }

    /// The entry that the environment of all its processes holds.
    pub(super) fn entry(&self) -> String {
        format!("{MARK}={}", self.mark)
    }
}

/// How a shim stood when it started its function last.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    /// The start of the machine in which that was.
    boot: String,
    status: Status,
}

/// The folder of a version that runs.
#[derive(Debug, Clone)]
pub(super) struct Run(PathBuf);

/// Held while a shim watches a run, and while a run without one is cleared away. It ends with the process that holds it.
#[derive(Debug)]
pub(super) struct Held(#[expect(dead_code, reason = "held, and never read")] Lock);

impl Run {
    pub(super) fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    pub(super) fn spec_file(&self) -> PathBuf {
        self.0.join("run.json")
    }

    /// Where its shim answers.
    pub(super) fn shim_socket(&self) -> PathBuf {
        self.0.join("shim.sock")
    }

    /// Where its function listens, where that is no port.
    pub(super) fn function_socket(&self) -> PathBuf {
        self.0.join("fn.sock")
    }

    pub(super) fn content(&self) -> PathBuf {
        self.0.join("content")
    }

    pub(super) fn scratch(&self) -> PathBuf {
        self.0.join("tmp")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(super) fn older_log(&self) -> PathBuf {
        self.0.join("log.1")
    }

    /// Through which its function writes its log. The function holds both ends: its next write fails for nobody's end.
    pub(super) fn log_pipe(&self) -> PathBuf {
        self.0.join("log.pipe")
    }

    fn started_file(&self) -> PathBuf {
        self.0.join("started.json")
    }

    /// Notes which process the function is, for a shim that comes after this one.
    pub(super) fn note_started(&self, status: Status) -> io::Result<()> {
        let text = serde_json::to_vec(&Started { boot: tree::boot(), status })?;
        let new = self.started_file().with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, self.started_file())
    }

    pub(super) fn was_started(&self) -> bool {
        self.started_file().exists()
    }

    /// From now on no other shim goes on with the function.
    pub(super) fn forget_started(&self) -> io::Result<()> {
        match fs::remove_file(self.started_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// How its last shim stood, if the function that it started is there still.
    pub(super) fn outlived(&self) -> Option<Status> {
        let Started { boot, status } = serde_json::from_slice(&fs::read(self.started_file()).ok()?).ok()?;
        let pid = status.pid?;
        let is_there =
            boot == tree::boot() && status.started == tree::start_time(pid) && !tree::is_zombie(pid);
        is_there.then_some(status)
    }

    pub(super) fn spec(&self) -> io::Result<Spec> {
        let mut text = Vec::new();
        File::open(self.spec_file())?.take(MAX_SPEC).read_to_end(&mut text)?;
        let spec: Spec = serde_json::from_slice(&text)?;
        if spec.format == FORMAT {
            Ok(spec)
        } else {
            Err(io::Error::other(format!(
                "{} has format {}, and this program knows {FORMAT}: it is of another version",
                self.spec_file().display(),
                spec.format
            )))
        }
    }

    /// Takes the run, unless somebody has it (`None`) or it is gone (an error of that kind).
    pub(super) fn take(&self) -> io::Result<Option<Held>> {
        let path = self.spec_file();
        let file = File::open(&path)?;
        let opened = file.metadata()?;
        let Some(lock) = Lock::take(file)? else { return Ok(None) };
        // What was cleared away between the two calls can be locked still.
        let named = fs::metadata(&path)?;
        if (named.dev(), named.ino()) == (opened.dev(), opened.ino()) {
            Ok(Some(Held(lock)))
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// The last lines that it wrote.
    pub(super) fn tail(&self) -> Tail {
        Tail(String::from_utf8_lossy(&self.newest(TAIL)).into_owned())
    }

    /// The newest of what it wrote, at most so many bytes.
    pub(super) fn newest(&self, at_most: usize) -> Vec<u8> {
        let end = |path: PathBuf, at_most: usize| -> io::Result<Vec<u8>> {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(at_most as u64)))?;
            let mut bytes = Vec::new();
            file.take(at_most as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let newest = end(self.log(), at_most).unwrap_or_default();
        let older = end(self.older_log(), at_most - newest.len()).unwrap_or_default();
        [older, newest].concat()
    }
}
