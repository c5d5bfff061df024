//! The agent's memory on disk.
//!
//! ```text
//! FOLDER/lock            held by the agent that runs
//! FOLDER/state.json      all that must not be forgotten
//! FOLDER/identity.json   id and token, once the agent has joined; a secret
//! FOLDER/nonce.json      by which a manager knows the agent again that asks once more for id or token; a secret
//! FOLDER/sockets.json    where agent and proxy are asked, by which all of it is found that is to end
//! ```
//!
//! Files are written under another name, synced and renamed, so that each is whole after a power loss.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use proxy::whole_file;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    lock::Lock,
    settings::{FrontSettings, Settings},
    state_machine::{FORMAT, State},
};

/// For the owner alone.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("{} is used by another agent that runs: give each a folder of its own", .0.display())]
    Taken(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} can't be read ({why}). To begin anew, move it away: what the proxy serves goes on until something is served here again",
        .path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error("{} was written by a newer choirmaster (form {format}; this one knows {FORMAT}): use that one, or a newer", .path.display())]
    Newer { path: PathBuf, format: u32 },
}

/// Who the agent is, as its manager told it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Identity {
    pub id: String,
    pub token: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The agent's folder, which nobody else has meanwhile.
#[derive(Debug)]
pub struct Memory {
    folder: PathBuf,
    _lock: Lock,
}

impl Memory {
    /// Makes the folder where there is none.
    pub fn open(folder: &Path) -> Result<Self, KeepError> {
        let of = |path: &Path| {
            let path = path.to_owned();
            move |source| KeepError::Io { path, source }
        };
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(of(folder))?;
        let path = folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(&path);
        let lock = lock.map_err(of(&path))?;
        let lock = Lock::take(lock).map_err(of(&path))?;
        let lock = lock.ok_or_else(|| KeepError::Taken(folder.to_owned()))?;
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    /// What was kept; an empty state where nothing was.
    pub fn state(&self) -> Result<State, KeepError> {
        #[derive(Deserialize)]
        struct Form {
            format: u32,
        }
        let path = self.state_path();
        let Some(text) = read(&path)? else { return Ok(State::default()) };
        let Form { format } = parse(&path, &text)?;
        if format > FORMAT {
            return Err(KeepError::Newer { path, format });
        }
        parse(&path, &text)
    }

    pub fn identity(&self) -> Result<Option<Identity>, KeepError> {
        let path = identity_path(&self.folder);
        read(&path)?.map(|text| parse(&path, &text)).transpose()
    }

    #[must_use]
    pub fn state_path(&self) -> PathBuf {
        self.folder.join("state.json")
    }
}

/// The control sockets of an agent that is a process of its own, and of the proxy beside it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlSockets {
    /// Absolute, as the other one is.
    pub agent: PathBuf,
    /// `None`: it leads a router of somebody else's.
    pub proxy: Option<PathBuf>,
}

impl ControlSockets {
    pub fn of(settings: &Settings) -> io::Result<Self> {
        let proxy = match &settings.front {
            FrontSettings::Proxy(proxy) => Some(std::path::absolute(&proxy.control)?),
            FrontSettings::Router(_) => None,
        };
        Ok(Self { agent: std::path::absolute(&settings.control)?, proxy })
    }

    /// Those of the agent that ran last in a folder; none where none ever did.
    pub fn read(folder: &Path) -> Result<Option<Self>, KeepError> {
        read_value(&sockets_path(folder))
    }

    /// Keeps them, where others are kept.
    pub fn keep(&self, folder: &Path) -> Result<(), KeepError> {
        let kept = Self::read(folder).ok().flatten();
        if kept.as_ref() == Some(self) { Ok(()) } else { write(&sockets_path(folder), self) }
    }
}

fn sockets_path(folder: &Path) -> PathBuf {
    folder.join("sockets.json")
}

/// Where an agent's folder holds who it is.
pub fn identity_path(folder: &Path) -> PathBuf {
    folder.join("identity.json")
}

/// What the agent has made up for its manager to know it by: made where there is none, and on disk when this returns.
pub fn nonce(folder: &Path) -> Result<String, KeepError> {
    let path = nonce_path(folder);
    if let Some(text) = read(&path)? {
        return parse(&path, &text);
    }
    let failed = || KeepError::Io { path: path.clone(), source: io::Error::other("there is no randomness") };
    let mut bytes = [0_u8; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| failed())?;
    let nonce = URL_SAFE_NO_PAD.encode(bytes);
    write(&path, &nonce)?;
    Ok(nonce)
}

/// The manager takes the nonce no more: another one is made when it is asked for.
pub fn forget_nonce(folder: &Path) -> Result<(), KeepError> {
    let path = nonce_path(folder);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(KeepError::Io { path, source }),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn nonce_path(folder: &Path) -> PathBuf {
    folder.join("nonce.json")
}

/// Puts a value into a file, whole or not at all. When this returns, it survives a power loss.
pub fn write(path: &Path, value: &impl Serialize) -> Result<(), KeepError> {
    let failed = |source| KeepError::Io { path: path.to_owned(), source };
    let text = serde_json::to_vec(value).map_err(io::Error::from).map_err(failed)?;
    whole_file::replace(path, &text).map_err(failed)
}

/// What stands in a file of the agent's folder; none where there is none.
pub fn read_value<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, KeepError> {
    read(path)?.map(|text| parse(path, &text)).transpose()
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, KeepError> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeepError::Io { path: path.to_owned(), source }),
    }
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, KeepError> {
    serde_json::from_slice(text)
        .map_err(|error| KeepError::Damaged { path: path.to_owned(), why: error.to_string() })
}
