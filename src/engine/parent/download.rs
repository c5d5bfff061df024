//! The parent's functions come over, however large they are and however often the line breaks: what has come is kept on disk, and the
//! next try goes on from there, also in the manager's next life.

use std::{fs, io, os::unix::fs::DirBuilderExt as _, path::Path};

use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use super::{CallTrouble, ParentCaller};
use child_client::LinkError;
use model::hex;

/// So many bytes of the digest of an offer's name are in that of its file.
const NAME_BYTES: usize = 16;

impl ParentCaller {
    /// The functions of an offer, a zip, which the parent calls by `name`.
    pub(super) async fn download(&self, id: &str, offer: &str, name: &str) -> Result<Vec<u8>, CallTrouble> {
        let _turn = self.downloading.lock().await;
        let folder = self.settings.downloads.clone();
        // A parent's names are no names of files.
        let digest = Sha256::digest(format!("{offer}/{name}"));
        let file = format!("{}.zip", hex::encode(&digest[..NAME_BYTES]));
        let (at, kept) = (folder.clone(), file.clone());
        blocking(move || prepare(&at, &kept)).await?;
        let path = folder.join(file);
        self.parent.functions(id, name, &path, self.settings.archive_limits.upload_bytes).await?;
        Ok(blocking(move || {
            let bytes = fs::read(&path)?;
            fs::remove_file(&path)?;
            Ok(bytes)
        })
        .await?)
    }
}

/// Makes the folder, and takes away what came of other offers: nobody goes on with that.
fn prepare(folder: &Path, kept: &str) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_of_this = entry.file_name().to_str().is_some_and(|name| name.starts_with(kept));
        if !is_of_this && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, LinkError> {
    let done = spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| LinkError::Disk(format!("keeping the functions of the manager above: {error}")))
}
