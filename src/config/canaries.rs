//! The folder of manifests that is watched.

use std::path::PathBuf;

use super::{
    Fault,
    section::{Field, Section},
};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Canaries {
    /// The folder; `None`: none is watched.
    pub folder: Option<PathBuf>,
}

impl Canaries {
    /// The folder, which can be read now. Later it may be away for a while.
    pub fn watched(&self) -> Result<Option<PathBuf>, Fault> {
        let Some(folder) = &self.folder else { return Ok(None) };
        std::fs::read_dir(folder).map_err(|error| Fault {
            place: "canaries.folder".to_owned(),
            message: format!(
                "{} can't be read: {error}; make the folder, or mount it, before the manager starts",
                folder.display()
            ),
        })?;
        Ok(Some(folder.clone()))
    }
}

impl Section for Canaries {
    fn name(&self) -> &'static str {
        "canaries"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::new("folder", &mut self.folder)]
    }
}
