//! Routers that the manager leads by itself.

use std::path::PathBuf;

use super::{
    Fault,
    section::{Field, Section},
};

/// Most of them: each takes some tasks of this process.
const MAX_ROUTERS: usize = 64;

/// Longest name of one, in bytes: its sockets lie in a folder of the data, and a path of a socket has room for a hundred or so.
const MAX_NAME_BYTES: usize = 32;

/// What a file of settings ends with.
const EXTENSION: &str = "yml";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routers {
    /// The folder with a file for each; `None`: there are none.
    pub folder: Option<PathBuf>,
}

impl Routers {
    /// Name and file of each, in order of the names.
    pub fn files(&self) -> Result<Vec<(String, PathBuf)>, Fault> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let unread = |error: std::io::Error| fault(format!("{} can't be read: {error}", folder.display()));
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unread)? {
            let path = entry.map_err(unread)?.path();
            if path.extension().is_none_or(|extension| extension != EXTENSION) {
                continue;
            }
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_name) {
                return Err(fault(format!(
                    "{}: a router is called by 1 to {MAX_NAME_BYTES} of a-z, 0-9 and -, and its file NAME.{EXTENSION}",
                    path.display()
                )));
            }
            files.push((name, path));
        }
        if files.len() > MAX_ROUTERS {
            let message = format!(
                "{} has {} routers, and one manager leads {MAX_ROUTERS} at most: run agents beside the others",
                folder.display(),
                files.len()
            );
            return Err(fault(message));
        }
        files.sort();
        Ok(files)
    }
}

fn fault(message: String) -> Fault {
    Fault { place: "routers.folder".to_owned(), message }
}

impl Section for Routers {
    fn name(&self) -> &'static str {
        "routers"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::new("folder", &mut self.folder)]
    }
}
