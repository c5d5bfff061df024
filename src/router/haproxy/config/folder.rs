use std::path::{Path, PathBuf};

use super::Structure;

/// Where our file and its maps stand: an absolute path of letters, digits and `. _ / -`, so that it can stand in configurations
/// and commands of `HAProxy` as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(Box<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can't be the folder of what HAProxy is told: name an absolute path of letters, digits and . _ / -"
)]
pub struct FolderError(PathBuf);

impl Folder {
    /// # Errors
    ///
    /// A path that isn't absolute, or has other letters.
    pub fn new(path: &Path) -> Result<Self, FolderError> {
        let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        let text = path.to_str().map(|text| text.trim_end_matches('/'));
        let text = text.filter(|text| text.starts_with('/') && text.bytes().all(may_stand));
        text.map(|text| Self(text.into())).ok_or_else(|| FolderError(path.to_owned()))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(&*self.0)
    }

    /// The file that `HAProxy` is given.
    #[must_use]
    pub fn section(&self) -> PathBuf {
        self.path().join("choirmaster.cfg")
    }

    /// The folder of the maps of a structure, as it begins the names by which `HAProxy` knows them.
    #[must_use]
    pub fn maps(&self, structure: &Structure) -> String {
        self.below(structure.as_str())
    }

    pub(super) fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }

    /// To which structure a map belongs, and its own name; none where it isn't one of ours.
    #[must_use]
    pub fn is_map_of<'m>(&self, map: &'m str) -> Option<(Structure, &'m str)> {
        let (structure, name) = map.strip_prefix(&*self.0)?.strip_prefix('/')?.split_once('/')?;
        Some((structure.parse().ok()?, name))
    }
}
